"""Points by the host and by a program, what is remembered of them, and rays from whitened vectors."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from geometry.metrics.test_absorption import FAMILIES, NET
from geometry.paths.test_geodesics import PRODUCT, gap, parts_of
from geometry.table import CASES
from quotax import quotient
from quotax.geometry.memory import Memory
from quotax.geometry.paths.geodesic_equations import kempf_ness, reach
from quotax.geometry.projection.vertical import factors_at


def trees(name, count=2):
    return [CASES[name].tree(seed) for seed in range(count)]


# By sweeps; by Newton's method; a family of both kinds of parameters; one-sided; with shifts.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("leaky", marks=pytest.mark.slow),
        pytest.param("attention", marks=pytest.mark.slow),
        pytest.param("relu rnn", marks=pytest.mark.slow),
        pytest.param("state space", marks=pytest.mark.slow),
        pytest.param("decoder", marks=pytest.mark.slow),
        "batch norm",
    ],
)
def test_the_host_and_the_program_project_alike(name):
    space, (params, v) = CASES[name].space("invariant"), trees(name)
    at = jax.jit(space.at)(params)
    assert gap(space.horizontal(params, v), at.horizontal(v)) < 1e-11
    assert bool(at.data.canonical.reached) == bool(space.at(params).data.canonical.reached) is True
    inner = jax.jit(space.inner)(params, v, v)
    np.testing.assert_allclose(space.inner(params, v, v), inner, rtol=1e-11)


@pytest.mark.slow
def test_a_unit_that_nothing_reads_has_no_representative_for_the_host_either():
    space, (params,) = CASES["leaky"].space("invariant"), trees("leaky", 1)
    params = params | {"W2": params["W2"].at[:, 0].set(0)}
    both = space.at(params).data.canonical, jax.jit(space.at)(params).data.canonical
    assert [bool(found.reached) for found in both] == [False, False]
    # With nothing written either, nothing is missing.
    params = params | {"W1": params["W1"].at[0].set(0), "b1": params["b1"].at[0].set(0)}
    both = space.at(params).data.canonical, jax.jit(space.at)(params).data.canonical
    assert [bool(found.reached) for found in both] == [True, True]


def test_a_point_is_remembered_for_as_long_as_its_arrays_live():
    space, (params, v) = CASES["leaky"].space("invariant"), trees("leaky")
    first = space.at(params).data
    assert space.at(params).data is first
    assert space.at(dict(params)).data is first
    changed = params | {"b3": params["b3"] + 1}
    assert space.at(changed).data is not first
    assert gap(space.horizontal(changed, v), space.horizontal(params, v)) < 1e-12
    memory, array = Memory(), jnp.ones(3) + 1
    memory.remember({"a": array}, jnp.zeros(2))
    assert memory.recalled({"a": array})[1] is not None
    assert memory.recalled({"a": array + 0})[1] is None
    del array
    gc.collect()
    assert memory._data is None


def test_arrays_that_may_change_are_not_remembered():
    memory, array = Memory(), np.ones(3)
    memory.remember({"a": array}, jnp.zeros(2))
    assert memory.recalled({"a": array})[1] is None


# --- rays


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        pytest.param("leaky", "invariant", marks=pytest.mark.slow),
        ("leaky", "euclidean"),
        pytest.param("swiglu", "mix", marks=pytest.mark.slow),
        pytest.param("exp", "invariant", marks=pytest.mark.slow),
    ],
)
def test_a_ray_is_the_geodesic_of_its_vector(name, metric):
    point, v = CASES[name].space(metric).at(CASES[name].tree(0)), CASES[name].tree(1)
    v = jax.tree.map(lambda a: 0.1 * a, point.horizontal(v))
    assert gap(point.ray(point.whiten(v)).end, point.geodesic(v).end) < 1e-10


@pytest.mark.slow
def test_rays_at_constant_gains():
    space = quotient(NET, FAMILIES, "invariant")
    rng = np.random.default_rng(0)
    params, v = ({n: jnp.asarray(rng.normal(size=s)) for n, s in NET.shapes.items()} for _ in range(2))
    point = space.at(params)
    v = jax.tree.map(lambda a: 0.01 * a, point.horizontal(v))
    assert gap(point.ray(point.whiten(v)).end, point.geodesic(v).end) < 1e-10
    assert 0 < float(point.reach) < np.inf


# --- reach


def test_reach_is_short_of_the_nearest_boundary():
    # u = v = c moves straight to zero: the nearest boundary of (u, v) is |c| sqrt 2 away, for the smallest c.
    parts = parts_of("u*v")
    known = float(reach(parts, factors_at(parts, PRODUCT), PRODUCT))
    assert 0.1 < known < 0.5 * 2**0.5
    towards = {n: jnp.array([0.0, 0.0, -1.0]) for n in PRODUCT}
    short, far = ({n: s * a for n, a in towards.items()} for s in (0.9 * known / 2**0.5, 0.7))
    assert bool(kempf_ness(parts, PRODUCT, short).ok)
    assert float(kempf_ness(parts, PRODUCT, far).exit_time) == pytest.approx(0.5 / 0.7, rel=1e-7)


def test_reach_of_coupled_families_is_short_of_the_nearest_boundary():
    case, space = CASES["leaky"], CASES["leaky"].space("invariant")
    point = space.at(case.tree(0))
    canonical = point.data.canonical.arrays
    for i in range(len(canonical["b1"])):
        # Without what reads it and what it reads, a unit does not move: that is no further than the boundary can be.
        unit = [canonical["W1"][i], canonical["b1"][i], canonical["W2"][:, i]]
        assert 0 < float(point.reach) < float(jnp.sqrt(sum(jnp.sum(a**2) for a in unit)))
    assert float(CASES["leaky"].space().at(case.tree(0)).reach) == np.inf


# --- derivatives


@pytest.mark.slow
def test_derivatives_of_the_end_in_both_modes():
    parts, case = parts_of("leaky"), CASES["leaky"]
    space = case.space("invariant")
    point = space.at(case.tree(0))
    here = dict(point.data.canonical.arrays)
    one, two, three = (point.whiten(point.horizontal(case.tree(seed))) for seed in (1, 2, 3))
    end = lambda v, forward: kempf_ness(parts, here, v, watch=False, forward=forward).end
    pushed = jax.jit(lambda v: jax.jvp(lambda w: end(w, True), (v,), (two,))[1])(one)
    pulled = jax.jit(lambda v: jax.vjp(lambda w: end(w, False), v)[1](three)[0])(one)
    left = sum(jnp.vdot(pushed[n], three[n]) for n in three)
    right = sum(jnp.vdot(pulled[n], two[n]) for n in two)
    np.testing.assert_allclose(left, right, rtol=1e-9)


@pytest.mark.slow
def test_the_derivative_in_time():
    parts, case = parts_of("leaky"), CASES["leaky"]
    point = case.space("invariant").at(case.tree(0))
    v = point.whiten(point.horizontal(case.tree(1)))
    path = kempf_ness(parts, point.data.canonical.arrays, v, watch=False)
    slope = jax.grad(lambda t: jnp.sum(path.at(t)["W2"]))(0.3)
    np.testing.assert_allclose(slope, jnp.sum(path.velocity(0.3)["W2"]), rtol=1e-10)
