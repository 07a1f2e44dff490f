"""Linear algebra of a few vectors or small matrices, exact up to rounding: eigenpairs, quadratics on a ball."""
