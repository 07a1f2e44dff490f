"""The language of actions: read in matrix form or index form, or written as phrases with the entry that they mean."""
