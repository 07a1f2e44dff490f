"""One action evaluated on residues, floats, SymPy and JAX: the same numbers, each in its own kind."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

import quotax as qx
from quotax.artifacts import ArraySpec
from quotax.derive.points.vector_fields import RESIDUES
from quotax.interpret.jets.residues import PRIME
from quotax.lower.actions import JAX
from quotax.symmetry import FLOATS, OBJECTS, transformed, velocity

SIZES = {"h": 3, "x": 2, "e": 2}
SPECS = (
    ArraySpec("W", (("h",), ("x",))),
    ArraySpec("U", (("x",), ("h",))),
    ArraySpec("b", (("h",),)),
    ArraySpec("F", (("e", "h"), ("x",))),
    ArraySpec("s", ()),
)
ACTIONS = [
    (qx.GL("h"), {"W": "g @ W", "U": "U @ inv(g)"}),
    (qx.GL("h", each="e"), {"F[e*h,x]": "g[e,h,l] F[e,l,x]"}),
    (qx.O("h"), {"W": "g @ W", "U[x,h]": "g[h,l] U[x,l] b[l] / b[h]"}),
    (qx.Diagonal("h"), {"W": "g**3 @ W", "b": "inv(g) @ b", "F[e*h,x]": "F[e,h,x] / g[h]**2"}),
    (qx.Translation("h"), {"b": "b + g", "W": "W - 2 * g"}),
    (qx.PositiveScalar(), {"s": "g * s", "b": "b / g"}),
]


def integers(shape, rng):
    """Small numbers that are not zero."""
    return np.asarray(rng.integers(1, 5, shape) * rng.choice([-1, 1], shape))


def objects(array):
    """The same in SymPy."""
    return np.vectorize(sp.Integer, otypes=[object])(array) if np.ndim(array) else sp.Integer(int(array))


def residue(value):
    """The residue of a rational."""
    value = sp.Rational(value)
    return int(value.p) * pow(int(value.q), -1, PRIME) % PRIME


@pytest.mark.parametrize(("group", "action"), ACTIONS)
def test_a_field_is_the_same_in_every_kind_of_number(group, action):
    rng = np.random.default_rng(0)
    bound = qx.Symmetry("s", group, action).bind(SPECS)
    params = {spec.name: integers(spec.shape(SIZES), rng) for spec in SPECS}
    basis = group.basis(SIZES)
    xi = np.tensordot(integers(len(basis), rng), basis, 1)
    exact = velocity(bound, SPECS, SIZES, {n: np.asarray(objects(a)) for n, a in params.items()}, objects(xi), OBJECTS)
    floats = velocity(bound, SPECS, SIZES, {n: a.astype(float) for n, a in params.items()}, xi.astype(float), FLOATS)
    modular = velocity(bound, SPECS, SIZES, {n: a % PRIME for n, a in params.items()}, xi % PRIME, RESIDUES)
    device = velocity(bound, SPECS, SIZES, {n: jnp.asarray(a, float) for n, a in params.items()}, 1.0 * xi, JAX)
    for name in bound.moved:
        assert floats[name].shape == params[name].shape
        numbers = np.vectorize(float, otypes=[float])(exact[name])
        np.testing.assert_allclose(floats[name], numbers, rtol=1e-13)
        np.testing.assert_allclose(device[name], numbers, rtol=1e-13)
        assert (modular[name] == np.vectorize(residue, otypes=[int])(exact[name])).all()


@pytest.mark.parametrize(("group", "action"), ACTIONS)
def test_an_element_acts_the_same_in_every_kind_of_number(group, action):
    rng = np.random.default_rng(1)
    bound = qx.Symmetry("s", group, action).bind(SPECS)
    params = {spec.name: integers(spec.shape(SIZES), rng) for spec in SPECS}
    g = np.vectorize(sp.Rational, otypes=[object])(group.rational(rng, SIZES))
    float_g = np.vectorize(float, otypes=[float])(g)
    inverse, float_inverse = None, None
    if group.layout == "matrix":
        blocks = g.reshape(-1, *g.shape[-2:])
        inverse = np.array([sp.Matrix(block).inv().tolist() for block in blocks], object).reshape(g.shape)
        float_inverse = np.vectorize(float, otypes=[float])(inverse)
    exact = transformed(
        bound, SPECS, SIZES, {n: np.asarray(objects(a)) for n, a in params.items()}, g, OBJECTS, inverse
    )
    floats = {n: a.astype(float) for n, a in params.items()}
    plain = transformed(bound, SPECS, SIZES, floats, float_g, FLOATS, float_inverse)
    device = {n: jnp.asarray(a) for n, a in floats.items()}
    lowered = transformed(bound, SPECS, SIZES, device, float_g, JAX, float_inverse)
    for name in bound.moved:
        numbers = np.vectorize(float, otypes=[float])(exact[name])
        np.testing.assert_allclose(plain[name], numbers, rtol=1e-12)
        np.testing.assert_allclose(lowered[name], numbers, rtol=1e-12)
