"""A model's outputs as SymPy expressions of the entries of its parameters and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import sympy as sp

from quotax.artifacts import ArraySpec, Trace
from quotax.errors import ArchitectureError
from quotax.interpret.interpreter import evaluate
from quotax.interpret.symbolic import entries
from quotax.interpret.symbolic.domain import SYMBOLIC


def symbols_for(spec: ArraySpec, sizes: Mapping[str, int]) -> np.ndarray:
    """One symbol per entry: `Symbol("W1[0,1]", real=True)` or `Symbol("a", real=True)`; integers for tokens."""
    shape = spec.shape(sizes)
    known = {"tokens": {"integer": True, "nonnegative": True}, "positive": {"positive": True}}
    kind = known.get(spec.kind, {"real": True})
    names = (spec.name + (f"[{','.join(map(str, at))}]" if at else "") for at in np.ndindex(*shape))
    return entries.filled(shape, (sp.Symbol(name, **kind) for name in names))


def symbolic_outputs(trace: Trace) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The outputs as arrays of SymPy expressions, and the arrays of symbols for parameters and inputs, by name.

    Outputs are in the order of the trace's `out_tree`. One that is undefined or infinite for all parameters, such as a
    softmax over nothing but masked entries, is refused.
    """
    symbols = {spec.name: symbols_for(spec, trace.sizes) for spec in trace.arrays}
    below = {}
    for spec in trace.arrays:
        if spec.kind == "tokens" and spec.below is not None:
            below.update(dict.fromkeys(symbols[spec.name].flat, spec.bound(trace.sizes)))
    domain = replace(SYMBOLIC, below=below)
    outputs = [entries.lift(out) for out in evaluate(trace, domain, list(symbols.values()))]
    for number, out in enumerate(outputs):
        for at in np.ndindex(*out.shape):
            if out[at] in (sp.nan, sp.oo, -sp.oo):
                raise ArchitectureError(
                    f"output {number} at {list(at)} is {out[at]} for all parameters and inputs at sizes "
                    f"{dict(trace.sizes)}; look for a division by a constant 0, or a softmax over masked entries only."
                )
    return outputs, symbols
