"""Linear maps, and what is linear in its parameters' products."""
