"""Volumes of orbits against singular values of all fields, spheres and Stiefel manifolds, and their laws."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import quotax as qx
from quotax.geometry.projection.determinant import of_matrix


@qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})
def two(p, x):
    return p["B"] @ (p["A"] @ x)


@qx.architecture(params={"A": "h x", "B": "k h", "C": "y k"}, inputs={"x": "x"})
def three(p, x):
    return p["C"] @ (p["B"] @ (p["A"] @ x))


@qx.architecture(params={"W": "n m"}, inputs={"x": "m"})
def length(p, x):
    return p["W"].T @ (p["W"] @ x)


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "y k"}, inputs={"x": "x"})
def mlp(p, x):
    return p["W3"] @ jax.nn.relu(p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"]) + p["b2"])


MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})
TURN = qx.Symmetry("turn", qx.O("n"), {"W": "g @ W"})
SCALES = [
    qx.Symmetry("one", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    qx.Symmetry("two", qx.PositiveDiagonal("k"), {"W2": "g @ W2", "b2": "g @ b2", "W3": "W3 @ inv(g)"}),
]
TURNS = [
    qx.Symmetry("one", qx.O("h"), {"A": "g @ A", "B": "B @ g.T"}),
    qx.Symmetry("two", qx.O("k"), {"B": "g @ B", "C": "C @ g.T"}),
]


def sphere(n):
    return math.log(2) + n / 2 * math.log(math.pi) - math.lgamma(n / 2)


def by_singular_values(space, params):
    """The logarithm of the product of the singular values of all whitened fields, and how many there are."""
    point, rows = space.at(params), []
    for family in space.families:
        shape = family.group.coordinate_shape(family.sizes)
        for c in np.eye(family.dimension):
            xi = family.group.algebra(jnp.asarray(c.reshape(shape)), family.sizes)
            rows.append(np.asarray(space.ravel(point.whiten(space.field(params, {family.name: xi})))))
    values = np.linalg.svd(np.stack(rows), compute_uv=False)
    values = values[values > 1e-9 * values[0]]
    return np.sum(np.log(values)), len(values)


CASES = {
    "scalings": (mlp.at(x=3, h=4, k=3, y=2), SCALES, "euclidean"),
    "turns": (three.at(x=2, h=3, k=3, y=2), TURNS, "euclidean"),
    "mixing": (two.at(x=3, h=2, y=2), MIX, "invariant"),
    "mixing, euclidean": (two.at(x=3, h=2, y=2), MIX, "euclidean"),
}
SPACES = {}


def case(name):
    if name not in SPACES:
        net, families, metric = CASES[name]
        SPACES[name] = qx.quotient(net, families, metric=metric), net.init(jax.random.key(0))
    return SPACES[name]


@pytest.mark.parametrize(
    "name", ["scalings", *(pytest.param(n, marks=pytest.mark.slow) for n in CASES if n != "scalings")]
)
def test_density_is_the_product_of_singular_values(name):
    space, params = case(name)
    found = qx.orbit_volume(space, params)
    expected, rank = by_singular_values(space, params)
    assert found.rank == rank
    assert found.log_density == pytest.approx(expected, abs=1e-9)


def test_what_stays_in_place_is_left_out():
    space, params = case("scalings")
    dead = params | {
        "W1": params["W1"].at[0].set(0), "b1": params["b1"].at[0].set(0), "W2": params["W2"].at[:, 0].set(0)
    }  # fmt: skip
    found = qx.orbit_volume(space, dead)
    expected, rank = by_singular_values(space, dead)
    assert (found.rank, found.stabiliser) == (rank, 1)
    assert found.log_density == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["turns", "mixing"])
@given(seed=st.integers(0, 2**31))
def test_density_is_the_same_along_an_orbit_in_an_invariant_metric(name, seed):
    space, params = case(name)
    moved = space.act(params, space.random_element(jax.random.key(seed), 0.5))
    here, there = (qx.orbit_volume(space, p).log_density for p in (params, moved))
    assert there == pytest.approx(here, abs=1e-7)


@pytest.mark.slow
@given(seed=st.integers(0, 2**31))
def test_density_follows_isometries_that_respect_orbits(seed):
    space, params = case("mixing, euclidean")
    turns = [np.linalg.qr(np.random.default_rng(seed + i).normal(size=(n, n)))[0] for i, n in enumerate((3, 2))]
    turned = {"A": params["A"] @ turns[0], "B": turns[1] @ params["B"]}  # inputs and outputs in other frames
    assert qx.orbit_volume(space, turned).log_density == pytest.approx(qx.orbit_volume(space, params).log_density)


@given(seed=st.integers(0, 2**31), n=st.integers(1, 5), spread=st.floats(0, 6))
def test_another_basis_of_the_algebra_adds_its_log_determinant(seed, n, spread):
    rng = np.random.default_rng(seed)
    fields, basis = rng.normal(size=(7, n)) * np.exp(rng.uniform(-spread, spread, n)), rng.normal(size=(n, n))
    one, two = (of_matrix(v.T @ v, 1e-16) for v in (fields, fields @ basis))
    assert two.value == pytest.approx(one.value + np.linalg.slogdet(basis)[1], abs=1e-6)


@pytest.mark.parametrize(
    ("n", "m"), [(2, 1), (3, 2), *(pytest.param(*s, marks=pytest.mark.slow) for s in ((1, 1), (3, 1), (3, 3), (4, 2)))]
)
def test_whole_orbits_are_stiefel_manifolds(n, m):
    """All frames of m unit vectors in n dimensions, in the metric of the space that they lie in."""
    space = qx.quotient(length.at(n=n, m=m), TURN, metric="euclidean")
    frame = {"W": jnp.asarray(np.linalg.qr(np.random.default_rng(0).normal(size=(n, m)))[0])}
    found = qx.orbit_volume(space, frame)
    expected = sum(sphere(n - i) for i in range(m)) + m * (m - 1) / 4 * math.log(2)
    assert found.log_volume == pytest.approx(expected, abs=1e-9)
    assert found.rank == n * m - m * (m + 1) // 2


@pytest.mark.slow
def test_an_orbit_that_is_not_compact_is_infinite_and_says_along_what():
    found = qx.orbit_volume(*case("mixing"))
    assert found.log_volume == math.inf
    assert found.unbounded == ("mix",)
    assert "mix" in found.reason


@pytest.mark.slow
def test_what_is_not_known_is_said_and_is_no_number():
    net = three.at(x=1, h=3, k=4, y=1)
    found = qx.orbit_volume(qx.quotient(net, TURNS, metric="euclidean"), net.init(jax.random.key(0)))
    assert math.isnan(found.log_volume)
    assert "'one', 'two' move the same arrays" in found.reason


@pytest.mark.slow
def test_copies_are_counted_but_for_units_that_coincide():
    net = two.at(x=2, h=3, y=2)
    swap = qx.Symmetry("swap", qx.Permutation("h"), {"A": "g @ A", "B": "B @ g.T"})
    flip = qx.Symmetry("flip", qx.SignFlip("h"), {"A": "g @ A", "B": "B @ g"})
    turn = qx.Symmetry("turn", qx.O("h"), {"A": "g @ A", "B": "B @ g.T"})
    params = net.init(jax.random.key(0))
    copies = lambda families, p: np.exp(qx.orbit_volume(qx.quotient(net, families, metric="euclidean"), p).log_copies)
    assert copies([swap, flip], params) == pytest.approx(6 * 8)
    twins = {"A": params["A"].at[1].set(-params["A"][0]), "B": params["B"].at[:, 1].set(-params["B"][:, 0])}
    assert copies([swap, flip], twins) == pytest.approx(6 * 8 / 2)
    assert copies([swap], twins) == pytest.approx(6)
    zero = {"A": params["A"].at[1].set(0), "B": params["B"].at[:, 1].set(0)}
    assert copies([swap, flip], zero) == pytest.approx(6 * 8 / 2)
    assert copies([turn, swap, flip], params) == pytest.approx(1)  # they are rotations and reflections


@pytest.mark.slow
def test_the_slope_is_that_of_the_density():
    space, params = case("turns")
    slope, eps = space.at(params).volume_slope(), 1e-5
    v = jax.tree.map(lambda a: jnp.asarray(np.random.default_rng(a.size).normal(size=a.shape)), params)
    ends = [qx.orbit_volume(space, jax.tree.map(lambda a, b, s=s: a + s * eps * b, params, v)) for s in (1, -1)]
    along = sum(jnp.vdot(slope[n], v[n]) for n in v)
    assert along == pytest.approx((ends[0].log_density - ends[1].log_density) / (2 * eps), rel=1e-5)
    across = space.at(params).vertical(slope)
    assert max(float(jnp.abs(a).max()) for a in across.values()) < 1e-10
