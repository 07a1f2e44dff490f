"""A model that looks at types is another function in the user's precision than in that in which it is read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.errors import ArchitectureError

KEY = jax.random.key(2)
SHIFT = qx.Symmetry("shift", qx.Translation("h"), {"c": "c + g"})


def traced(function):
    """The trace of a declared function of a matrix and two vectors, where JAX is as users have it."""
    declared = qx.architecture(params={"W": "h x", "c": "h"}, inputs={"x": "x"})(function)
    with jax.enable_x64(False):
        return declared.trace({"h": 3, "x": 3})


def double(array):
    return array.dtype == jnp.float64


def turned(p, x):
    step = lambda h, i: (jnp.tanh(p["W"] @ x + h + (0.0 if double(h) else p["c"])), None)
    return jax.lax.scan(step, p["c"], jnp.arange(3))[0]


OTHERS = {
    "a step more": lambda p, x: p["W"] @ x if double(x) else p["W"] @ x + p["c"],
    "a constant that is zero": lambda p, x: p["W"] @ x + (0.0 if double(x) else 1e-6) * p["c"],
    "a constant of the other sign": lambda p, x: p["W"] @ x + (1e-9 if double(x) else -1e-9) * p["c"],
    "a constant that both have": lambda p, x: p["W"] @ x + (1e-4 if double(x) else 1e-9) * p["c"],
    "whole numbers": lambda p, x: (p["W"] @ x if double(x) else (p["W"] @ x).astype(int).astype(float)) + p["c"],
    "another key": lambda p, x: (
        p["c"] + jax.random.normal(KEY if double(x) else jax.random.key(3), p["c"].shape, jnp.float32) * x.sum()
    ),
    "what is taken from outside": lambda p, x: jnp.take(p["c"], 7, mode="fill", fill_value=0.0 if double(x) else 1.0),
    "another axis": lambda p, x: p["W"].sum(0 if double(x) else 1) * x.sum(),
    "another operand": lambda p, x: p["W"] @ x * (p["c"] if double(x) else x),
    "another output": lambda p, x: p["c"] + 0 * x.sum() if double(x) else p["c"] * x.sum(),
    "within a loop": turned,
    "what a key gives": lambda p, x: p["W"] @ x + jax.random.normal(KEY, p["c"].shape),
}
ONE = {
    "limits of a type": lambda p, x: jnp.where(x.max() > jnp.finfo(x.dtype).eps, p["c"], jnp.finfo(x.dtype).min),
    "casts": lambda p, x: jax.nn.softmax(p["W"] @ x.astype(jnp.float32)).astype(x.dtype) + p["c"],
    "half precision": lambda p, x: (p["W"].astype(jnp.bfloat16) @ x.astype(jnp.bfloat16)).astype(x.dtype) + p["c"],
    "constants of several types": lambda p, x: p["W"] @ x + p["c"] * jnp.float32(0.1) + np.float64(1 / 3),
    "what a key gives in a type of its own": lambda p, x: x + jax.random.normal(KEY, p["c"].shape, jnp.float32),
}


@pytest.mark.parametrize("name", OTHERS, ids=lambda n: n.replace(" ", "-"))
def test_another_function_is_refused(name):
    with pytest.raises(ArchitectureError, match="another function in float32"):
        traced(OTHERS[name])


@pytest.mark.parametrize("size", [1, 9, 64])
def test_beyond_some_size_is_not_every_width(size):
    """In float64 nobody asks how large x is, so that the trace with symbols says nothing of it."""

    @qx.architecture(params={"W": "h x", "c": "h"}, inputs={"x": "x"})
    def late(p, x):
        return p["W"] @ x + (p["c"] if not double(x) and x.shape[0] > size else 0.0)

    with jax.enable_x64(False):
        if size == 1:  # at every size that is tried
            with pytest.raises(ArchitectureError, match="another function in float32"):
                qx.verify(late, SHIFT)
        else:
            certificate = qx.verify(late, SHIFT)
            assert certificate.scope != "every width", str(certificate)


@pytest.mark.parametrize("name", ONE, ids=lambda n: n.replace(" ", "-"))
def test_the_same_function_in_other_types_is_not(name):
    traced(ONE[name])


def test_where_jax_is_set_to_double_precision_nothing_is_compared():
    declared = qx.architecture(params={"W": "h x", "c": "h"}, inputs={"x": "x"})(OTHERS["what a key gives"])
    with jax.enable_x64(True):
        declared.trace({"h": 3, "x": 3})
