"""What several architectures are made of."""
