"""The primitive table and its domains: one trace of a model, many readings."""

from quotax.interpret.evaluate import evaluate as evaluate
from quotax.interpret.opening import open_trace as open_trace
from quotax.interpret.symbolic import SYMBOLIC as SYMBOLIC
from quotax.interpret.symbolic import symbolic_outputs as symbolic_outputs
from quotax.interpret.symbolic import symbols_for as symbols_for
from quotax.interpret.tracing import trace as trace

__all__ = ["trace", "open_trace", "evaluate", "SYMBOLIC", "symbols_for", "symbolic_outputs"]
