"""Infinitesimal claims: the output does not change to first order along a vector field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from quotax.artifacts import Certificate, Model, Trace, Witness
from quotax.certify.derived import FunctionModel
from quotax.certify.every_width import read_plain
from quotax.certify.towers import prove_equal
from quotax.certify.widths import sizes_text
from quotax.interpret import SYMBOLIC, evaluate, symbols_for
from quotax.trees import nest


def certify_field(model: Model, forward: Callable[..., Any], field: Callable[[Any], Any], seed: int = 0) -> Certificate:
    """Prove or refute `D_theta f(theta, x) . xi(theta) = 0` for all theta and x.

    `forward(params, *inputs)` is the model's function; `field(params)` a tangent vector for each point.
    """
    name = getattr(field, "__name__", "xi")
    claim = f"{model.name} does not change to first order along {name}"

    def change(params: Any, *inputs: Any) -> Any:
        return jax.jvp(lambda p: forward(p, *inputs), (params,), (field(params),))[1]

    velocity = FunctionModel(f"D {model.name} . {name}", change, model.params, model.inputs)
    small = [velocity.trace(dict.fromkeys(velocity.axis_names, n)) for n in (2, 3)]
    rng = np.random.default_rng(seed)
    for trace in small:
        witness = _witness(trace, rng)
        if witness is not None:
            step = f"at {sizes_text(trace.sizes)} the derivative of the output is {witness.difference:.6g}"
            return Certificate(claim, "refuted", f"a point at {sizes_text(trace.sizes)}", (step,), witness=witness)
    zero, steps, assumptions, why = read_plain(velocity)
    if zero:
        return Certificate(claim, "proved", "every width", steps, assumptions)
    proved = []
    for trace in small:
        if any(spec.kind != "real" for spec in trace.inputs):
            break
        outputs = evaluate(trace, SYMBOLIC, [symbols_for(spec, trace.sizes) for spec in trace.arrays])
        entries = [e for o in outputs for e in np.asarray(o, dtype=object).ravel()]
        verdict = prove_equal(entries, [0] * len(entries), 20.0)
        if not verdict:
            why = f"{why}; at {sizes_text(trace.sizes)}: {verdict.residual}"
            break
        proved.append(f"({sizes_text(trace.sizes)})")
    if proved:
        scope = "widths " + " and ".join(proved)
        return Certificate(
            claim, "proved", scope, ("the derivative along the field is 0 identically",),
            (f"not established for every width: {why}",),
        )  # fmt: skip
    return Certificate(claim, "undecided", "no width", residual=why)


def _witness(trace: Trace, rng: np.random.Generator) -> Witness | None:
    from quotax.certify.numerical import _compiled, _random_input

    for _ in range(6):
        params = {spec.name: rng.normal(size=spec.shape(trace.sizes)) for spec in trace.params}
        inputs = {spec.name: _random_input(rng, spec, trace) for spec in trace.inputs}
        with jax.enable_x64(True):
            found = [np.asarray(o) for o in _compiled(trace.jaxpr, False)(*params.values(), *inputs.values())]
        if any(np.any(np.abs(o[np.isfinite(o)]) > 1e-8) for o in found):
            zeros = [np.zeros_like(o) for o in found]
            return Witness(
                dict(trace.sizes), nest(params), 0.0, inputs,
                jax.tree.unflatten(trace.out_tree, zeros), jax.tree.unflatten(trace.out_tree, found), nest(params),
            )  # fmt: skip
    return None
