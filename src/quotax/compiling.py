"""How programs are compiled that run a few times only."""

QUICK = {"xla_backend_optimization_level": 0}
"""Compiler options: half the time to compile, two or three to run what is no matrix product."""
