"""Laws of the groups: axioms, exponentials, and exact elements that belong where they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import quotax as qx

SIZES = {"h": 4, "head": 2}
GROUPS = [
    kind(*arguments, **keywords)
    for kind, arguments in [
        (qx.GL, ["h"]), (qx.O, ["h"]), (qx.PositiveDiagonal, ["h"]), (qx.Diagonal, ["h"]), (qx.Translation, ["h"]),
        (qx.ComplexScaling, ["h"]), (qx.PositiveScalar, []), (qx.Permutation, ["h"]), (qx.SignFlip, ["h"]),
    ]
    for keywords in ({}, {"each": "head"})
]  # fmt: skip
GROUPS += [qx.ComplexScaling("h", pairs="halves"), qx.Translation(), qx.SignFlip()]
CONTINUOUS = [group for group in GROUPS if group.continuous]
DIMENSIONS = {"GL": 16, "O": 6, "PositiveDiagonal": 4, "Diagonal": 4, "ComplexScaling": 4, "PositiveScalar": 1}


@pytest.mark.parametrize("group", GROUPS, ids=repr)
@given(seed=st.integers(0, 2**31))
def test_axioms(group, seed):
    a, b, c = (group.random(jax.random.key(seed + i), SIZES, 0.5) for i in range(3))
    one = group.identity(SIZES)
    close = lambda left, right: np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)  # noqa: E731
    close(group.compose(a, group.inverse(a)), one)
    close(group.compose(one, a), a)
    close(group.compose(group.compose(a, b), c), group.compose(a, group.compose(b, c)))
    assert a.shape == group.shape(SIZES)


@pytest.mark.parametrize("group", CONTINUOUS, ids=repr)
@given(seed=st.integers(0, 2**31))
def test_the_exponential_is_a_one_parameter_subgroup(group, seed):
    xi = group.algebra(jax.random.normal(jax.random.key(seed), group.coordinate_shape(SIZES)), SIZES)
    product = group.compose(group.exponential(0.3 * xi), group.exponential(0.5 * xi))
    np.testing.assert_allclose(product, group.exponential(0.8 * xi), rtol=1e-9, atol=1e-9)
    slope = jax.jvp(lambda t: group.exponential(t * xi), (0.0,), (1.0,))[1]
    np.testing.assert_allclose(slope, xi, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("group", CONTINUOUS, ids=repr)
def test_dimension_counts_independent_directions(group):
    coordinates = jnp.eye(int(np.prod(group.coordinate_shape(SIZES))))
    elements = [group.algebra(c.reshape(group.coordinate_shape(SIZES)), SIZES).ravel() for c in coordinates]
    assert np.linalg.matrix_rank(np.stack(elements)) == group.dimension(SIZES)
    expected = DIMENSIONS.get(type(group).__name__, 4 if group.axis else 1)
    assert group.dimension(SIZES) == expected * (2 if group.each else 1)


MEMBERSHIP = {
    "O": lambda g: np.allclose(g @ np.swapaxes(g, -1, -2), np.eye(4)),
    "GL": lambda g: np.all(np.abs(np.linalg.det(g)) > 1e-9),
    "PositiveDiagonal": lambda g: np.all(g > 0),
    "PositiveScalar": lambda g: np.all(g > 0),
    "Diagonal": lambda g: np.all(g != 0),
    "SignFlip": lambda g: np.all(np.abs(g) == 1),
    "Permutation": lambda g: np.all(np.isin(g, (0, 1))) and np.all(g.sum(-1) == 1) and np.all(g.sum(-2) == 1),
    "Translation": lambda g: True,
    "ComplexScaling": lambda g: np.allclose(g @ np.swapaxes(g, -1, -2), np.swapaxes(g, -1, -2) @ g),
}


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_rational_and_random_elements_belong_to_the_group(group):
    belongs = MEMBERSHIP[type(group).__name__]
    rng = np.random.default_rng(3)
    for i in range(5):
        exact = group.rational(rng, SIZES)
        assert exact.shape == group.shape(SIZES)
        assert belongs(exact.astype(float))
        assert belongs(np.asarray(group.random(jax.random.key(i), SIZES)))


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_symbolic_elements_come_with_their_inverse(group):
    sizes = {"h": 2, "head": 2}
    for g, inverse in group.symbolic(sizes):
        assert g.shape == group.shape(sizes)
        if inverse is None:
            assert isinstance(group, qx.Translation)
        elif group.layout == "matrix":
            assert all(
                sp.simplify(sp.Matrix(a) * sp.Matrix(b) - sp.eye(2)) == sp.zeros(2)
                for a, b in zip(g.reshape(-1, 2, 2), inverse.reshape(-1, 2, 2), strict=True)
            )
        else:
            assert all(a * b == 1 for a, b in zip(g.ravel(), inverse.ravel(), strict=True))


def test_finite_groups_list_every_element():
    assert len(list(qx.Permutation("h").symbolic({"h": 3}))) == 6
    assert len(list(qx.Permutation("h", each="head").symbolic({"h": 2, "head": 2}))) == 4
    assert len(list(qx.SignFlip("h").symbolic({"h": 3}))) == 8


def test_positive_symbols_where_factors_are_positive():
    ((g, _),) = qx.PositiveDiagonal("h").symbolic({"h": 2})
    assert all(symbol.is_positive for symbol in g)
    ((g, _),) = qx.Diagonal("h").symbolic({"h": 2})
    assert all(symbol.is_positive is None and symbol.is_real for symbol in g)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_elements_follow_the_dtype(dtype):
    for group in GROUPS:
        assert group.random(jax.random.key(0), SIZES, dtype=dtype).dtype == dtype
