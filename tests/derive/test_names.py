"""Parameters and axes may have names that Python, or the language of actions, uses itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx

NAMES = {
    "a gain called g": ("E", "g", "U", "x", "d", "y"),
    "functions of the language": ("exp", "inv", "log", "x", "d", "y"),
    "the algebra's letter": ("xi", "s", "p", "x", "d", "y"),
    "p beside g": ("p", "g", "exp", "x", "d", "y"),
    "Python's keywords": ("class", "lambda", "None", "in", "is", "for"),
    "letters of the language as axes": ("E", "s", "U", "exp", "g", "p"),
}


QUICK = ("a gain called g", "Python's keywords")
CHOICES = [pytest.param(n, id=i, marks=[] if i in QUICK else [pytest.mark.slow]) for i, n in NAMES.items()]


@pytest.mark.parametrize("names", CHOICES)
def test_names_do_not_change_what_is_found(names):
    embed, gain, read, x, d, y = names

    @qx.architecture(params={embed: f"{d} {x}", gain: d, read: f"{y} {d}"}, inputs={"x": x})
    def normed(p, x):
        z = p[embed] @ x
        return p[read] @ (p[gain] * z / jnp.sqrt(jnp.mean(z**2) + 1e-6))

    found = qx.derive(normed, progress=lambda _: None)
    assert [type(family.group).__name__ for family in found] == ["O", "Diagonal"]
    assert all(found.certificate(family.name) for family in found)
    net = normed.at(**{x: 3, d: 4, y: 2})
    with pytest.warns(UserWarning, match="not invariant"):
        space = qx.quotient(net, found)
    params = net.init(jax.random.key(0))
    moved = space.act(params, space.random_element(jax.random.key(1)))
    inputs = jax.random.normal(jax.random.key(2), (3,))
    np.testing.assert_allclose(net(moved, inputs), net(params, inputs), rtol=1e-9)
    assert not np.allclose(moved[read], params[read])
