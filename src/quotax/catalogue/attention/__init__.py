"""Attention, one layer of it."""
