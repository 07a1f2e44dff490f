"""What may be said of a number: on the quotient or not, the digits kept, kinks, what a search may have missed."""
