"""The geomstats objects of a quotient; importing them loads geomstats."""
