"""The symbolic domain: SymPy expressions."""
