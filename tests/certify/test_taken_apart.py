"""Programs that are taken apart into parts: numbers are those of the program that the user wrote."""

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx
from quotax.interpret.tracing.apart import stepping


def two_maps():
    @qx.architecture(params={"W": "2*h x", "V": "y h"}, inputs={"x": "x"}, parts={"W": "first second"})
    def model(p, x):
        first, second = jnp.split(p["W"] @ x, 2)
        return p["V"] @ (jnp.tanh(first) * second)

    return model


def scaling(part):
    return qx.Symmetry("scale", qx.PositiveDiagonal("h"), {f"W.{part}": f"g @ W.{part}", "V": "V @ inv(g)"})


def test_the_part_behind_the_nonlinearity_does_not_scale():
    assert qx.verify(two_maps(), scaling("second")).scope == "every width"
    assert qx.verify(two_maps(), scaling("first")).status == "refuted"


def test_a_wrong_rule_of_taking_apart_proves_nothing_false(monkeypatch):
    right = stepping.RULES["split"]
    monkeypatch.setitem(stepping.RULES, "split", lambda operation, arguments: right(operation, arguments)[::-1])
    model = two_maps()
    trace = model.trace({"h": 2, "x": 3, "y": 4})
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=v.shape) for v in trace.jaxpr.in_avals]
    with jax.enable_x64(True):
        apart_, written = (jax.jit(jax.extend.core.jaxpr_as_fun(p))(*arrays)[0] for p in (trace.jaxpr, trace.written))
    assert not np.allclose(apart_, written)
    assert qx.verify(model, scaling("first")).status == "refuted"
    assert qx.verify(model, scaling("second")).status != "refuted"
