"""How primitives are written out: the laws column of the table of primitives."""
