"""The gradient of a loss on the quotient: against the differential, dense algebra, the orbit, and brute force."""

import gc
import warnings
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from geometry.metrics.test_absorption import FAMILIES, residual
from geometry.table import CASES, certificates, sampled
from models import linear, relu, symmetry
from quotax.errors import GeometryError, MetricWarning


def loss_of(network, inputs):
    """A loss of what the network computes."""
    weights = jax.tree.map(lambda o: jax.random.normal(jax.random.key(7), jnp.shape(o)), network(*inputs))
    paired = lambda o, w: jnp.sum(jnp.sin(o) * w)
    return lambda p: sum(jax.tree.leaves(jax.tree.map(paired, network(p, *inputs[1:]), weights)))


def check_is_the_gradient(space, loss, params, draws):
    """`<n, v> = dL(v)` for every tangent vector, horizontal or not, and nothing of `n` is vertical."""
    found = space.gradient(loss, params)
    length = space.norm(params, found)
    for v in draws:
        slope = jax.jvp(loss, (params,), (v,))[1]
        np.testing.assert_allclose(space.inner(params, found, v), slope, atol=1e-8 * length * space.norm(params, v))
    assert space.norm(params, space.vertical(params, found)) <= 1e-8 * length
    return found


QUICK = ("relu",)


@pytest.mark.parametrize("metric", ["invariant", pytest.param("pullback", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", sampled(QUICK, (*QUICK, "linear", "exp", "cube"), CASES))
def test_it_pairs_to_the_differential_and_follows_the_group(name, metric):
    case = CASES[name]
    space = case.space(metric)
    params = case.tree(0)
    loss = loss_of(case.network, (params, *case.inputs(1)))
    found = check_is_the_gradient(space, loss, params, [case.tree(k) for k in (1, 2)])
    if not space.metric_certificate:
        return
    g = space.random_element(jax.random.key(3), scale=0.3)
    there, carried = jax.jvp(lambda p: space.act(p, g), (params,), (found,))
    moved = space.gradient(loss, there)
    gap = jax.tree.map(jnp.subtract, moved, carried)
    assert space.norm(there, gap) <= 1e-7 * space.norm(there, moved)


@pytest.mark.slow
def test_where_gains_are_absorbed():
    network = residual.at(x=4, d=3, f=4, y=2)
    claims = [s for s in FAMILIES if s.group.continuous]
    space = qx.quotient(network, claims, metric="invariant", verified=certificates(claims))
    params, *draws = (network.init(jax.random.key(k)) for k in range(3))
    draws = [jax.tree.map(lambda a, k=k: a + 0.1 * k, v) for k, v in enumerate(draws)]
    params = jax.tree.map(lambda a: a + 0.3, params)
    check_is_the_gradient(space, loss_of(network, (params, jnp.asarray([0.3, -1.0, 0.5, 2.0]))), params, draws)


def relative(params, a, b):
    """An inner product that nothing keeps."""
    return sum(jnp.sum(a[n] * b[n] / (1 + params[n] ** 2)) for n in a)


SLOW = [pytest.param(metric, marks=pytest.mark.slow) for metric in ("euclidean", "mix", relative)]


@pytest.mark.parametrize("metric", ["invariant", *SLOW])
def test_in_every_metric_it_is_what_dense_algebra_says(metric):
    network, family = linear.at(x=3, h=2, y=2), symmetry("linear GL")[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetricWarning)
        space = qx.quotient(network, family, metric=metric)
    params = network.init(jax.random.key(0))
    decayed = lambda p: jnp.sum(jnp.tanh(network(p, jnp.ones(3)))) + sum(jnp.sum(w**3) for w in p.values())
    basis = [space.unravel(row) for row in jnp.eye(10)]
    matrix = np.array([[space.inner(params, a, b) for b in basis] for a in basis])
    fields = [space.field(params, {family.name: jnp.eye(4)[k].reshape(2, 2)}) for k in range(4)]
    vertical = np.stack([space.ravel(v) for v in fields], 1)
    # a loss that does change along orbits: the best horizontal vector, by Lagrange's conditions
    slope = np.asarray(space.ravel(jax.grad(decayed)(params)))
    across = matrix @ vertical
    system = np.block([[matrix, across], [across.T, np.zeros((4, 4))]])
    expected = np.linalg.solve(system, np.concatenate([slope, np.zeros(4)]))[:10]
    found = space.ravel(space.gradient(decayed, params))
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow
def test_it_is_the_steepest_ascent_by_brute_force_and_the_projected_derivative_is_not():
    @qx.architecture(params={"w": "h", "a": "h"}, inputs={"x": ""})
    def unit(p, x):
        return p["a"] @ jax.nn.leaky_relu(p["w"] * x)

    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"w": "g @ w", "a": "a / g"})
    network = unit.at(h=1)
    space = qx.quotient(network, scale, metric="invariant")
    params = {"w": jnp.asarray([4.0]), "a": jnp.asarray([0.25])}
    loss = lambda p: jnp.sin(network(p, 0.7))
    found = space.gradient(loss, params)
    angles = np.linspace(0, 2 * np.pi, 3601)
    circle = [np.cos(angles), np.sin(angles)]
    lengths = jax.vmap(lambda a, b: space.norm(params, {"w": a[None], "a": b[None]}))(*map(jnp.asarray, circle))
    rise = lambda a, b: loss({"w": params["w"] + a, "a": params["a"] + b}) - loss(params)
    rises = jax.vmap(rise)(*(1e-5 * c / lengths for c in circle)) / 1e-5
    best = int(np.argmax(rises))
    length = float(space.norm(params, found))
    assert float(rises[best]) == pytest.approx(length, rel=1e-4)
    steepest = np.array([c[best] for c in circle]) / float(lengths[best])
    np.testing.assert_allclose(steepest, np.array([found["w"][0], found["a"][0]]) / length, atol=2e-2)
    derivative = jax.grad(loss)(params)
    # What the projection makes of the derivatives is eight times as long as they are, and no gradient of anything.
    projected = space.horizontal(params, derivative)
    size = lambda tree: float(jnp.linalg.norm(space.ravel(tree)))
    assert size(projected) > 7 * size(derivative)
    slope = jax.jvp(loss, (params,), (derivative,))[1]
    assert not np.isclose(space.inner(params, projected, derivative), slope, rtol=0.5)


def test_the_loss_is_compiled_once_and_not_kept_alive():
    network = relu.at(x=3, h=4, y=2)
    space = qx.quotient(network, symmetry("relu scaling")[1], metric="invariant")
    traced = []

    def build(table):
        def loss(p, x):
            traced.append(1)
            return jnp.sum(network(p, x) ** 2) * jnp.sum(table)

        return loss

    loss = build(jnp.ones(3))
    for seed in range(3):
        params = network.init(jax.random.key(seed))
        space.gradient(loss, params, jnp.ones(3))
    assert len(traced) == 1
    alive = weakref.ref(loss)
    del loss
    gc.collect()
    assert alive() is None


@pytest.mark.slow
def test_under_transformations():
    network = relu.at(x=3, h=4, y=2)
    space = qx.quotient(network, symmetry("relu scaling")[1], metric="invariant")
    params = network.init(jax.random.key(0))
    loss = lambda p, x: jnp.sum(network(p, x) ** 2)
    under = jax.jit(jax.vmap(lambda x: space.gradient(loss, params, x)))(jnp.eye(3))
    for k, x in enumerate(jnp.eye(3)):
        found = space.gradient(loss, params, x)
        jax.tree.map(lambda a, b, k=k: np.testing.assert_allclose(a[k], b, atol=1e-9), under, found)


def test_it_refuses_what_has_no_gradient():
    network = relu.at(x=3, h=4, y=2)
    space = qx.quotient(network, symmetry("relu scaling")[1], metric="invariant")
    params = network.init(jax.random.key(0))
    with pytest.raises(GeometryError, match=r"loss must return one real number, got float64 of shape \(2,\)"):
        space.gradient(lambda p: network(p, jnp.ones(3)), params)
    with pytest.raises(GeometryError, match="loss must be a function of the parameters, got 3"):
        space.gradient(3, params)  # pyright: ignore[reportArgumentType]
