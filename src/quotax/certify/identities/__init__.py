"""Exact identities of SymPy expressions; nothing here knows of models, groups or claims."""
