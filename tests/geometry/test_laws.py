"""Laws of the quotient, on every model of the table: projections, horizontality, equivariance, geodesics."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from geometry.table import CASES, sampled

QUICK = ("linear", "relu", "softmax bias", "layer norm")
SEEDS = st.integers(0, 2**30)
TOLERANCE = {jnp.float32: 2e-4, jnp.float64: 1e-11}


# Of each way in which the canonical representative, at which the invariant metric measures, is found.
MEASURED = ("linear biases", "leaky", "exp", "rms norm", "relu rnn", "rope")
every_kind = pytest.mark.parametrize("name", sampled(QUICK))
every_measure = pytest.mark.parametrize("name", sampled(QUICK, MEASURED))


def space_of(name, metric):
    """The quotient; in the invariant metric by the discrete families as well, so that all tests share one."""
    return CASES[name].space(metric, discrete=metric == "invariant")


@functools.cache
def settled(name):
    """Whether the invariant metric exists: no stabiliser that is not compact."""
    return not space_of(name, "invariant")._metric.gauge.unsettled


def combine(a, u, b=0.0, v=None):
    return jax.tree.map(lambda x, y: a * x + b * y, u, u if v is None else v)


def gap(u, v):
    return float(np.sqrt(sum(np.sum((np.asarray(u[n], float) - np.asarray(v[n], float)) ** 2) for n in u)))


def element(space, seed, condition=1e3):
    """A group element whose action has condition numbers up to `condition`."""
    found = {}
    for number, family in enumerate(space.families):
        key = jax.random.fold_in(jax.random.key(seed), number)
        if not family.dimension:
            found[family.name] = family.group.random(key, family.sizes)
            continue
        coordinates = jax.random.normal(key, family.group.coordinate_shape(family.sizes))
        xi = family.group.algebra(coordinates, family.sizes)
        size = jnp.max(jnp.linalg.norm(xi, axis=(-2, -1))) if family.group.layout == "matrix" else jnp.max(jnp.abs(xi))
        found[family.name] = family.group.exponential(xi * (0.25 * np.log(condition) / size))
    return found


def pushed(space, params, g, v):
    return jax.jvp(lambda p: space.act(p, g), (params,), (v,))[1]


# --- projections


@every_kind
def test_projections_obey_their_laws(name):
    check_projections(name, "euclidean", jnp.float64)


@every_measure
def test_projections_in_the_invariant_metric(name):
    check_projections(name, "invariant", jnp.float64)


@pytest.mark.parametrize("name", sampled(QUICK, ("rms norm", "rope")))
def test_projections_in_single_precision(name):
    check_projections(name, "euclidean", jnp.float32)


def check_projections(name, metric, dtype):
    case, tolerance = CASES[name], TOLERANCE[dtype]
    space = space_of(name, metric)

    @settings(max_examples=3)
    @given(seed=SEEDS)
    def law(seed):
        params, u, v = (case.tree(seed + i, dtype) for i in range(3))
        point = space.at(params)
        size = float(point.norm(v))
        horizontal, vertical = point.horizontal(v), point.vertical(v)
        distance = lambda a, b: float(point.norm(combine(1, a, -1, b)))
        assert all(a.dtype == dtype for a in jax.tree.leaves(horizontal))
        assert distance(point.horizontal(horizontal), horizontal) <= tolerance * size  # idempotent
        assert distance(combine(1, horizontal, 1, vertical), v) <= tolerance * size  # complementary
        assert abs(float(point.inner(horizontal, vertical))) <= tolerance * size**2  # orthogonal
        left, right = point.inner(horizontal, u), point.inner(v, point.horizontal(u))
        assert abs(float(left - right)) <= tolerance * size * float(point.norm(u))  # self-adjoint
        keys = jax.random.split(jax.random.key(seed), len(space.families))
        xi = {
            f.name: f.group.algebra(jax.random.normal(k, f.group.coordinate_shape(f.sizes), dtype), f.sizes)
            for f, k in zip(space.families, keys, strict=True)
            if f.dimension
        }
        along = space.field(params, xi)
        assert float(point.norm(point.horizontal(along))) <= tolerance * float(point.norm(along))  # vertical killed

    law()


@every_kind
def test_the_dimension_of_the_orbit(name):
    case = CASES[name]
    space = case.space("euclidean")
    assert space.fiber_dim == case.orbit
    assert int(space.rank_at(case.tree(3))) == case.orbit
    assert space.dim == case.network.num_parameters - case.orbit


@every_measure
def test_gradients_of_invariant_losses_are_horizontal(name):
    case = CASES[name]
    space = space_of(name, "invariant")
    batch = [case.inputs(i) for i in range(4)]  # of a single one every unit may be dead
    outputs = lambda p: jax.tree.leaves([case.network(p, *inputs) for inputs in batch])
    weights = jax.jit(outputs)(case.tree(9))
    loss = lambda p: sum(jnp.sum(jnp.sin(out) * w) for out, w in zip(outputs(p), weights, strict=True))
    slope = jax.jit(jax.grad(loss))
    for seed in range(3):
        params = case.tree(seed)
        point = space.at(params)
        gradient = point.sharp(slope(params))
        assert float(point.norm(gradient)) > 0
        assert float(point.norm(point.vertical(gradient))) <= 1e-9 * float(point.norm(gradient))


# --- along orbits


@every_kind
def test_the_invariant_metric_and_its_projection_move_along_orbits(name):
    case = CASES[name]
    space = space_of(name, "invariant")
    if not settled(name):
        assert space.metric_certificate.status == "refuted"
        return

    @settings(max_examples=3)
    @given(seed=SEEDS)
    def law(seed):
        params, u, v = (case.tree(seed + i) for i in range(3))
        g = element(space, seed)
        there = space.act(params, g)
        du, dv = (pushed(space, params, g, w) for w in (u, v))
        here, moved = space.at(params), space.at(there)
        scale = float(here.norm(u) * here.norm(v))
        assert abs(float(moved.inner(du, dv) - here.inner(u, v))) <= 1e-8 * scale
        carried = pushed(space, params, g, here.horizontal(v))
        difference = combine(1, moved.horizontal(dv), -1, carried)
        assert float(moved.norm(difference)) <= 1e-8 * float(here.norm(v))

    law()


@every_kind
def test_submersion_after_lift_is_the_identity(name):
    """Of the function itself: horizontal vectors are told apart by what they do to the outputs, where the orbit is all
    that the outputs do not see; and a lift, which is a projection, leaves what it does to the outputs alone."""
    case = CASES[name]
    space = case.space("euclidean")
    inputs = [jnp.stack(many) for many in zip(*(case.inputs(i) for i in range(40)), strict=True)]
    outputs = lambda p: ravel_pytree(jax.vmap(lambda *x: case.network(p, *x))(*inputs))[0]
    params, v = case.tree(0), case.tree(1)
    push = jax.jit(lambda w: jax.jvp(outputs, (params,), (w,))[1])
    np.testing.assert_allclose(push(space.horizontal(params, v)), push(v), atol=1e-8 * float(jnp.linalg.norm(push(v))))


# --- geodesics


# Hamilton's equations, and those of canonical representatives; each in detail in paths/test_geodesics.py.
FOLLOWED = ("exp", "layer norm")


@pytest.mark.parametrize("name", sampled((), FOLLOWED))
def test_geodesics_of_the_quotient(name):
    case = CASES[name]
    if not settled(name):
        return
    space = space_of(name, "invariant")
    params = case.tree(0)
    point = space.at(params)
    v = point.horizontal(case.tree(1))
    v = combine(0.1 / float(point.norm(v)), v)
    path = point.geodesic(v)
    assert path.ok
    for t in (0.5, 1.0):
        there, velocity = space.at(path.at(t)), path.velocity(t)
        speed = float(there.norm(velocity))
        assert speed == pytest.approx(0.1, rel=1e-10)  # constant
        assert float(there.norm(there.vertical(velocity))) <= 1e-9 * speed  # horizontal stays horizontal
    g = element(space, 5, 10)
    elsewhere = space.at(space.act(params, g)).geodesic(pushed(space, params, g, v))
    expected = space.act(path.end, g)  # the end point does not depend on the representative
    assert gap(elsewhere.end, expected) <= 1e-8 * gap(expected, combine(0, expected))
    assert float(path.taylor_error(1.0)) < 0.05


# --- transformations


@pytest.mark.slow
@pytest.mark.parametrize(("name", "metric"), [("relu", "euclidean"), ("linear", "invariant")])
def test_jit_vmap_and_grad(name, metric):
    case = CASES[name]
    space = space_of(name, metric)
    params, v, d = (case.tree(i) for i in range(3))
    compiled = jax.jit(space.horizontal)(params, v)
    assert gap(compiled, space.horizontal(params, v)) < 1e-12
    many = jax.tree.map(lambda a, b: jnp.stack([a, b]), v, d)
    batch = jax.vmap(space.horizontal, in_axes=(None, 0))(params, many)
    assert gap(jax.tree.map(lambda a: a[1], batch), space.horizontal(params, d)) < 1e-11
    points = jax.tree.map(lambda a, b: jnp.stack([a, b]), params, case.tree(5))
    batch = jax.vmap(space.norm, in_axes=(0, None))(points, v)
    assert float(batch[1]) == pytest.approx(float(space.norm(case.tree(5), v)), rel=1e-11)
    function = jax.jit(lambda p: space.inner(p, space.horizontal(p, v), d))
    gradient = jax.jit(jax.grad(function))(params)
    slope = float(sum(jnp.vdot(gradient[n], d[n]) for n in d))
    step = 1e-5
    numeric = (function(combine(1, params, step, d)) - function(combine(1, params, -step, d))) / (2 * step)
    assert slope == pytest.approx(float(numeric), rel=1e-6, abs=1e-8)
