"""Sign flips: all of them are found, as generators, and each against theory; dimensions are never `nan`."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import quotax as qx
from quotax import catalogue
from quotax.catalogue.recurrences.gru import gru
from quotax.catalogue.recurrences.lstm import lstm
from quotax.derive.candidates.sign_subspaces import MOST, SignSpace, invariant, matches, small_generators, small_members
from quotax.derive.found.dimensions import STABILISER, axis_symbol
from quotax.derive.found.flip_order import flip_order
from quotax.symmetry import FLOATS
from quotax.symmetry.evaluation import transformed


def quiet(model, **options):
    return qx.derive(model, progress=lambda line: None, **options)


def flips(found):
    return [s for s in found.discrete if isinstance(s.group, qx.SignFlip)]


# --- the search over sets of places, on functions whose invariances are known


def seen_through(parities):
    """A function on sets that sees these parities and nothing else."""
    weights = np.random.default_rng(1).normal(size=(len(parities), 4))
    return each(
        lambda one: np.sin(
            sum((1 - 2 * ((one & p).bit_count() % 2)) * w for p, w in zip(parities, weights, strict=True))
        )
    )


def each(value):
    """The values at several sets."""
    return lambda sets: [value(one) for one in sets]


@given(st.integers(1, 9), st.lists(st.integers(1, 511), min_size=1, max_size=6))
def test_what_a_function_does_not_see_is_the_annihilator_of_what_it_sees(n, parities):
    parities = [p % 2**n for p in parities if p % 2**n] or [1]
    found = invariant([1 << k for k in range(n)], [seen_through(parities)], lambda: range(2**n))
    by_hand = {one for one in range(2**n) if all((one & p).bit_count() % 2 == 0 for p in parities)}
    span = SignSpace(found)
    assert {one for one in range(2**n) if not span.rest(one)} == by_hand
    generators = small_generators(found, [])
    assert 2 ** len(generators) == len(by_hand)
    assert sum(g.bit_count() for g in generators) <= sum(one.bit_count() for one in found)


def test_what_one_point_does_not_see_the_next_does():
    units = [1 << k for k in range(6)]
    values = [seen_through([0b11]), seen_through([0b1100]), seen_through([0b11])]
    assert len(invariant(units, values, lambda: range(64))) == 4


def test_sets_that_leave_the_domain_say_nothing_and_the_others_are_still_told_apart():
    def logarithm(one):  # of a product of two numbers, which have to be flipped together
        return np.array([np.nan if (one & 0b11).bit_count() == 1 else 1.0 + (one >> 2 & 1), 2.0])

    every = lambda: range(8)
    assert SignSpace(invariant([1, 2, 4], [each(logarithm)], every)).rows == [0b11]


def test_beyond_the_halves_sums_of_two_small_sets_are_found():
    n = MOST + 4
    hidden = (1 << 3) | (1 << 7) | (1 << 20) | (1 << 23)
    parities = [(1 << 3) | (1 << k) if hidden >> k & 1 else 1 << k for k in range(n) if k != 3]
    few = lambda: (sum(1 << k for k in c) for size in (0, 1, 2) for c in itertools.combinations(range(n), size))
    assert invariant([1 << k for k in range(n)], [seen_through(parities)], few) == [hidden]


def test_matches_and_the_smallest_members_of_cosets():
    value = seen_through([0b011, 0b100])
    found = matches([0, 1, 2, 3], value, [0, 4], lambda sets: value([one ^ 0b100 for one in sets]))
    assert small_members(found, [0b011]) == [0b100]


# --- generators


def test_flips_of_a_chain_are_generators():
    @qx.architecture(params={"W": "h x", "a": "h", "b": "h", "C": "y h"}, inputs={"x": "x"})
    def chain(p, x):
        return p["C"] @ jnp.tanh(p["b"] * jnp.tanh(p["a"] * jnp.tanh(p["W"] @ x)))

    found = quiet(chain)
    assert len(flips(found)) == 3  # of the six pairs of places
    assert all(found.certificate(s.name).status == "proved" for s in flips(found))
    assert "sign flips: 3 generators of a group of order 2**(3*h)" in str(found)


@qx.architecture(params={"A": "h x", "C": "y h"}, inputs={"x": "x"})
def even(p, x):
    return p["C"] @ jnp.abs(jnp.tanh(p["A"] ** 2 @ x))


def stacked(activation=jnp.tanh):
    """Layers on a stream, in one loop."""

    @qx.architecture(params={"R": "d x", "U": "layer f d", "b": "layer f", "D": "layer d f"}, inputs={"x": "x"})
    def model(p, x):
        step = lambda z, own: (z + own[2] @ activation(own[0] @ z + own[1]), None)
        return jax.lax.scan(step, p["R"] @ x, (p["U"], p["b"], p["D"]))[0]

    return model


@functools.cache
def found_of(model):
    return quiet(model)


ROWS, COLUMNS = {"A[h,x]": "g[h] * A[h,x]"}, {"A[h,x]": "g[x] * A[h,x]"}


@pytest.mark.parametrize(
    ("model", "own"),
    [
        (even, None),  # every entry of A has a sign of its own
        (even, [qx.Symmetry("h", qx.SignFlip("h"), ROWS), qx.Symmetry("x", qx.SignFlip("x"), COLUMNS)]),
        (stacked(), None),
    ],
    ids=["entries", "rows and columns", "units of every layer"],
)
def test_the_order_of_flips_is_that_of_all_patterns_of_signs(model, own):
    own = own or flips(found_of(model))
    sizes = {axis: 2 + k for k, axis in enumerate(model.axis_names)}
    ones = {spec.name: np.ones(spec.shape(sizes)) for spec in model.params}
    patterns = SignSpace()
    for symmetry in own:
        action = symmetry.bind(model.params)
        for cell in np.ndindex(shape := action.group.shape(sizes)):
            g = np.ones(shape)
            g[cell] = -1
            moved = ones | transformed(action, model.params, sizes, ones, g, FLOATS)
            signs = np.concatenate([moved[spec.name].ravel() for spec in model.params])
            patterns.add(sum(1 << int(k) for k in np.flatnonzero(signs < 0)))
    order = flip_order(own, model.params).subs({axis_symbol(axis): n for axis, n in sizes.items()})
    assert order == 2 ** len(patterns.rows)


def test_units_of_a_loop_over_layers_flip_in_each_layer_apart():
    (flip,) = flips(found_of(stacked()))
    assert str(flip.group) == "Z2^f^layer"
    assert qx.verify(stacked(jax.nn.gelu), flip).status == "refuted"


# --- recurrent cells


@pytest.mark.slow
@pytest.mark.parametrize("broken", [lstm(cell=jax.nn.sigmoid), gru(candidate=jax.nn.sigmoid)])
def test_units_of_cells_that_are_not_odd_may_not_be_flipped(broken, derived):
    found = derived(broken)
    assert not flips(found)


@pytest.mark.parametrize(("name", "twin"), [("lstm", lstm(cell=jax.nn.softplus)), ("gru", gru(jax.nn.softplus))])
def test_the_flip_of_a_cell_is_refuted_for_its_twin(name, twin, derived):
    (flip,) = flips(derived(catalogue.load(name).architecture))
    assert qx.verify(twin, flip).status == "refuted"


def odd_skip(inner=jnp.tanh):
    """Two odd layers on a stream, `z + D tanh(U z)`."""

    @qx.architecture(params={"R": "d x", "U": "f d", "D": "d f", "H": "y d"}, inputs={"x": "x"})
    def model(p, x):
        z = jnp.tanh(p["R"] @ x)
        return p["H"] @ jnp.tanh(z + p["D"] @ inner(p["U"] @ z))

    return model


def test_odd_layers_on_a_stream_are_flipped_on_both_axes(derived):
    found = derived(odd_skip())
    assert [str(s.group) for s in flips(found)] == ["Z2^d", "Z2^f"]
    assert [str(s.group) for s in flips(derived(odd_skip(jax.nn.sigmoid)))] == ["Z2^d"]
    assert qx.verify(odd_skip(jax.nn.gelu), flips(found)[1]).status == "refuted"


# --- two norms on one stream


@pytest.mark.slow
def test_two_norms_on_one_stream_leave_no_flips_beside_the_families():
    """That none is found is a fact of the catalogue."""
    model = catalogue.load("residual_stream/rms").architecture
    broken = qx.Symmetry("flip", qx.SignFlip("d"), {"R": "g @ R", "D1": "g @ D1", "H": "H @ g"})
    assert qx.verify(model, broken).status == "refuted"


# --- dimensions


def rotary(z):
    first, second = jnp.split(z, 2, -1)
    angle = jnp.arange(z.shape[0])[:, None] / 10 ** jnp.arange(first.shape[-1])
    return jnp.concatenate(
        [first * jnp.cos(angle) - second * jnp.sin(angle), first * jnp.sin(angle) + second * jnp.cos(angle)], -1
    )


@qx.architecture(params={"Q": "k d", "K": "k d", "V": "v d", "O": "d v"}, inputs={"x": "t d"})
def rotary_head(p, x):
    q, k, v = (x @ p[name].T for name in "QKV")
    return jax.nn.softmax(rotary(q) @ rotary(k).T, -1) @ v @ p["O"].T


@pytest.mark.slow
def test_a_dimension_without_a_formula_is_an_unknown_with_a_name(derived):
    found = derived(rotary_head)
    assert "nan" not in str(found) + str(found.orbit_dim) + str(found.algebra_dim)
    assert not found.orbit_dim.has(sp.nan)
    assert found.orbit_dim.free_symbols >= {STABILISER}
    assert "stabiliser: the dimension of what leaves a generic point in place" in str(found)
    audit = found.audit(k=4, d=3, v=5, t=6)
    names = {s.name: s for s in found.orbit_dim.free_symbols}
    at = found.orbit_dim.subs({names["k"]: 4, names["d"]: 3, names["v"]: 5, STABILISER: audit.stabiliser})
    assert at == audit.orbit
    assert audit.surplus == 0
