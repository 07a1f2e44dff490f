"""Orthogonal matrices that fix the vector of ones: the symmetry of a normalisation that subtracts a mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import quotax as qx
from quotax.geometry.canonical.orientation import orientation
from quotax.geometry.families.compact import compact_blocks
from quotax.lower import lower_action

ACTION = {"W": "g @ W", "A": "A @ g.T"}
ROTATE = qx.Symmetry("rotate h", qx.OFixingOnes("h"), ACTION)


def normalised(z):
    z = z - jnp.mean(z)
    return z / jnp.sqrt(jnp.mean(z**2))


@qx.architecture(params={"W": "h x", "A": "y h"}, inputs={"x": "x"})
def layer_norm(p, x):
    return p["A"] @ normalised(p["W"] @ x)


STREAM = {"E": "d x", "W1": "m d", "W2": "d m", "b": "d", "U": "y d"}


@qx.architecture(params=STREAM, inputs={"x": "x"})
def residual(p, x):
    stream = p["E"] @ x
    stream = stream + p["W2"] @ jnp.tanh(p["W1"] @ normalised(stream)) + p["b"]
    return p["U"] @ normalised(stream)


ON_THE_STREAM = {"E": "g @ E", "W1": "W1 @ g.T", "W2": "g @ W2", "b": "g @ b", "U": "U @ inv(g)"}


@qx.architecture(params={"W": "head h x", "A": "y head h"}, inputs={"x": "x"})
def grouped(p, x):
    z = jnp.einsum("khx,x->kh", p["W"], x)
    z = z - jnp.mean(z, -1, keepdims=True)
    z = z / jnp.sqrt(jnp.mean(z**2, -1, keepdims=True))
    return jnp.einsum("ykh,kh->y", p["A"], z)


PER_HEAD = {"W[head,h,x]": "g[head,h,i] W[head,i,x]", "A[y,head,h]": "g[head,h,i] A[y,head,i]"}


@pytest.mark.parametrize(("model", "claim"), [
    (layer_norm, ROTATE),
    (residual, qx.Symmetry("rotate d", qx.OFixingOnes("d"), ON_THE_STREAM)),
    (grouped, qx.Symmetry("rotate h", qx.OFixingOnes("h", each="head"), PER_HEAD)),
], ids=["layer norm", "residual", "groups"])  # fmt: skip
def test_a_normalisation_turns_with_its_reader(model, claim):
    certificate = qx.verify(model, claim)
    assert certificate.status == "proved"
    assert certificate.scope == "every width"
    assert "by ones: g 1 = 1" in str(certificate)
    assert certificate.recheck().status == "proved"


@pytest.mark.parametrize("claim", [
    qx.Symmetry("all", qx.O("h"), ACTION),
    qx.Symmetry("wrong side", qx.OFixingOnes("h"), {"W": "g @ W", "A": "A @ g"}),
    qx.Symmetry("left out", qx.OFixingOnes("h"), {"W": "g @ W"}),
], ids=lambda s: s.name)  # fmt: skip
def test_broken_twins_are_refuted(claim):
    certificate = qx.verify(layer_norm, claim)
    assert certificate.status == "refuted"
    witness = certificate.witness
    g, x = np.asarray(witness.element, float), jnp.asarray(witness.inputs["x"], float)
    np.testing.assert_allclose(g @ g.T, np.eye(len(g)), atol=1e-12)
    network = layer_norm.at(**witness.sizes)
    params, moved = (jax.tree.map(lambda a: jnp.asarray(a, float), p) for p in (witness.params, _moved(witness, g)))
    assert np.abs(network(params, x) - network(moved, x)).max() > 1e-3


def _moved(witness, g):
    """The witness's own parameters, moved by hand to those that it says they are moved to."""
    there = witness.transformed_params
    np.testing.assert_allclose(np.asarray(there["W"], float), g @ np.asarray(witness.params["W"], float))
    return there


def test_of_all_rotations_those_that_fix_ones_survive():
    certificate = qx.verify(layer_norm, qx.Symmetry("all", qx.O("h"), ACTION))
    assert "what survives: the same action of O_1(h) leaves it unchanged, for every width" in str(certificate)


def test_a_gain_breaks_it():
    @qx.architecture(params={"W": "h x", "s": "h", "A": "y h"}, inputs={"x": "x"})
    def with_gain(p, x):
        return p["A"] @ (p["s"] * normalised(p["W"] @ x))

    assert qx.verify(with_gain, ROTATE).status == "refuted"


# --- the quotient

NETWORK = layer_norm.at(x=3, h=4, y=2)


def arrays(seed, network=NETWORK):
    keys = jax.random.split(jax.random.key(seed), len(network.shapes))
    return {n: jax.random.normal(k, s) for k, (n, s) in zip(keys, network.shapes.items(), strict=True)}


def vertical_basis(network, params):
    """Fields along a basis of the algebra, by hand: skew matrices whose rows sum to zero."""
    n = network.sizes["h"]
    across = np.linalg.svd(np.ones((1, n)))[2][1:]
    rows = []
    for i in range(n - 1):
        for j in range(i):
            xi = np.outer(across[i], across[j]) - np.outer(across[j], across[i])
            rows.append(np.concatenate([(xi @ params["W"]).ravel(), (params["A"] @ xi.T).ravel()]))
    return np.array(rows)


@pytest.fixture(scope="module", params=["euclidean", "invariant"])
def space(request):
    return qx.quotient(NETWORK, [ROTATE], request.param)


def test_dimensions_are_those_of_theory(space):
    assert (space.fiber_dim, space.dim) == (3, NETWORK.num_parameters - 3)
    assert space.metric_certificate.status == "proved"


@given(seed=st.integers(0, 1000))
def test_projections_are_idempotent_and_add_up(space, seed):
    params, v = arrays(seed), arrays(seed + 1)
    horizontal, vertical = space.horizontal(params, v), space.vertical(params, v)
    flat = lambda tree: np.concatenate([np.ravel(tree["W"]), np.ravel(tree["A"])])
    np.testing.assert_allclose(flat(horizontal) + flat(vertical), flat(v), atol=1e-12)
    np.testing.assert_allclose(flat(space.horizontal(params, horizontal)), flat(horizontal), atol=1e-11)
    np.testing.assert_allclose(flat(space.vertical(params, vertical)), flat(vertical), atol=1e-11)
    assert abs(float(space.inner(params, horizontal, vertical))) < 1e-11
    basis = vertical_basis(NETWORK, params)  # elements are isometries: both metrics are the Euclidean one
    fitted = basis.T @ np.linalg.lstsq(basis.T, flat(v), rcond=None)[0]
    np.testing.assert_allclose(flat(vertical), fitted, atol=1e-10)


@given(seed=st.integers(0, 1000))
def test_finite_elements_leave_the_function_and_the_distance_alone(space, seed):
    params, x = arrays(seed), jax.random.normal(jax.random.key(seed + 7), (3,))
    moved = space.act(params, space.random_element(jax.random.key(seed + 9)))
    np.testing.assert_allclose(NETWORK(moved, x), NETWORK(params, x), atol=1e-10)
    aligned = space.align(moved, params)
    for name in params:
        np.testing.assert_allclose(aligned[name], params[name], atol=1e-9)


@qx.architecture(params={"W": "h x", "V": "k h", "A": "y k"}, inputs={"x": "x"})
def twice(p, x):
    return p["A"] @ normalised(p["V"] @ normalised(p["W"] @ x))


BOTH = [
    qx.Symmetry("rotate h", qx.OFixingOnes("h"), {"W": "g @ W", "V": "V @ g.T"}),
    qx.Symmetry("rotate k", qx.OFixingOnes("k"), {"V": "g @ V", "A": "A @ g.T"}),
]


@pytest.mark.parametrize(("sizes", "rules"), [
    ({"x": 4, "h": 5, "k": 6, "y": 2}, ["reference", "reference"]),
    ({"x": 2, "h": 5, "k": 4, "y": 2}, ["axes", "reference", "signs"]),
])  # fmt: skip
def test_orientations_are_the_same_along_an_orbit(sizes, rules):
    network = twice.at(**sizes)
    families = [lower_action(claim.bind(twice.params), twice.params, network.sizes) for claim in BOTH]
    rule = orientation(families)
    assert not rule.loose
    assert sorted(stage.rule for stage in rule.stages) == sorted(rules)
    params = arrays(3, network)
    there = rule(params)
    assert float(there.margin) > 1e-4
    for seed in range(3):
        moved, rng = params, np.random.default_rng(seed)
        for family in families:
            moved = family.act(moved, jnp.asarray(family.group.rational(rng, network.sizes).astype(float)))
        here = rule(moved)
        for name in params:
            np.testing.assert_allclose(here.arrays[name], there.arrays[name], atol=1e-8)
    for family in families:
        element = there.elements[family.name]
        params = family.act(params, element)
        np.testing.assert_allclose(element.sum(-1), 1, atol=1e-12)
    for name in params:
        np.testing.assert_allclose(params[name], there.arrays[name], atol=1e-10)


@pytest.mark.slow
def test_two_layers_are_aligned_and_measured():
    network = twice.at(x=4, h=5, k=4, y=4)
    assert all(qx.verify(twice, claim) for claim in BOTH)
    space = qx.quotient(network, BOTH, "invariant")
    assert space.fiber_dim == 6 + 3
    params, v = arrays(1, network), arrays(2, network)
    moved = space.act(params, space.random_element(jax.random.key(5)))
    assert float(space.dist(params, moved)) < 1e-6
    horizontal = space.horizontal(params, v)
    again = space.horizontal(params, horizontal)
    for name in params:
        np.testing.assert_allclose(again[name], horizontal[name], atol=1e-10)
    assert abs(float(space.inner(params, horizontal, space.vertical(params, v)))) < 1e-10


@given(seed=st.integers(0, 1000))
def test_the_best_element_is_known_in_closed_form(seed):
    family = lower_action(ROTATE.bind(layer_norm.params), layer_norm.params, NETWORK.sizes)
    (block,) = compact_blocks([family])
    rng = np.random.default_rng(seed)
    m = jnp.asarray(rng.normal(size=(4, 4)))
    best = block.best(m)
    np.testing.assert_allclose(best @ best.T, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(best.sum(-1), 1, atol=1e-12)
    np.testing.assert_allclose(jnp.sum(best * m), block.value(m), rtol=1e-12)
    for _ in range(5):
        other = ROTATE.group.rational(rng, NETWORK.sizes).astype(float)
        assert np.sum(other * m) <= block.value(m) + 1e-12


def test_derive_counts_a_stated_one():
    found = qx.derive(layer_norm, declared=[ROTATE])
    h, x, y = sp.symbols("h x y", integer=True, positive=True)
    shifts_and_a_scale = x + y + 1
    assert sp.expand(found.algebra_dim - (h - 1) * (h - 2) / 2 - shifts_and_a_scale) == 0
    audit = found.audit(h=4, x=3, y=2)
    assert (audit.algebra, audit.orbit, audit.complete) == (9, 9, True)
