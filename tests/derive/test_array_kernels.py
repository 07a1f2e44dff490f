"""The surplus that kernels of arrays explain, beside counts by hand; what has kernels and another reason is not."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

import quotax as qx


@qx.architecture(params={"W": "p h x", "b": "p h", "A": "y h", "c": "y"}, inputs={"x": "x"})
def maxout(p, x):
    return jnp.tanh(p["A"] @ jnp.max(p["W"] @ x + p["b"], 0) + p["c"])


@qx.architecture(params={"W": "h x", "s": "h", "b": "h", "U": "y h"}, inputs={"x": "x"})
def gained(p, x):
    z = p["W"] @ x
    return jnp.sin(p["U"] @ (p["s"] * z / jnp.sqrt(1 + z @ z) + p["b"]))


@qx.architecture(params={"U": "m r", "V": "n r"}, inputs={"x": "n"})
def decayed(p, x):
    return p["U"] @ (p["V"].T @ x), jnp.sum(p["U"] ** 2) + jnp.sum(p["V"] ** 2)


@pytest.fixture(scope="module")
def groups():
    return {model: qx.derive(model, "linear", progress=lambda line: None) for model in (maxout, gained, decayed)}


@pytest.mark.parametrize(("model", "sizes", "kernels"), [
    (maxout, {"p": 3, "h": 4, "x": 2, "y": 2}, {}),
    (maxout, {"p": 2, "h": 3, "x": 2, "y": 1}, {}),
    (gained, {"x": 3, "h": 4, "y": 6}, {"W along h": (4 - 3) * 4}),
    (gained, {"x": 6, "h": 5, "y": 3}, {}),
], ids=lambda value: "")  # fmt: skip
def test_kernels_explain_what_is_counted_by_hand(groups, model, sizes, kernels):
    """Of maxout nothing, its shifts are named, nor what U does not see of a bias; with psi W = 0 what b takes back.

    U + q (psi / s)^T adds q psi^T (b / s), which b takes back where q is in the range of U: h of these for each psi.
    """
    audit = groups[model].audit(**sizes)
    assert audit.kernels == kernels
    assert audit.surplus == sum(kernels.values())
    assert audit.unexplained == 0
    assert audit.complete == (not kernels)
    if kernels:
        assert f"of which kernel directions {audit.surplus} (" in str(audit).replace("\n  ", " ")


@pytest.mark.parametrize("sizes", [{"m": 4, "n": 3, "r": 2}, {"m": 4, "n": 5, "r": 3}])
def test_what_has_kernels_and_another_reason_is_not_explained(groups, sizes):
    """A penalty takes one dimension from orbits of GL(r), whose symmetric part is no group any more."""
    audit = groups[decayed].audit(**sizes)
    r = sizes["r"]
    assert audit.orbit == r * (r - 1) // 2
    assert audit.unexplained == audit.surplus == r * (r + 1) // 2 - 1
    assert not audit.kernels
    assert "kernel" not in str(audit)
