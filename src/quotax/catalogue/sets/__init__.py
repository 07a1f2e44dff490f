"""Networks on sets and graphs."""
