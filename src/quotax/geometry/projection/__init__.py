"""The orthogonal projection onto the orbit: the Gram operator, and how each component of families is solved."""
