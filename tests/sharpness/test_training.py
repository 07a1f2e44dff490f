"""Training on the quotient: updates stay horizontal, SAM's ascent is the metric's, and both run in a jitted loop."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import quotax as qx
from models import linear
from quotax.errors import SharpnessError
from quotax.sharpness.training import horizontal, sam

GL = qx.Symmetry("mix", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})


class Path(NamedTuple):
    end: dict


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ProductPoint:
    """f = u v under (g u, v / g), in the metric du^2 / u^2 + dv^2 / v^2: vertical is (u, -v), horizontal (u, v)."""

    u: jax.Array
    v: jax.Array

    def horizontal(self, t):
        c = 0.5 * (t["u"] / self.u + t["v"] / self.v)
        return {"u": c * self.u, "v": c * self.v}

    def inner(self, s, t):
        return jnp.sum(s["u"] * t["u"] / self.u**2 + s["v"] * t["v"] / self.v**2)

    def norm(self, t):
        return jnp.sqrt(self.inner(t, t))

    def sharp(self, c):
        return {"u": self.u**2 * c["u"], "v": self.v**2 * c["v"]}

    def geodesic(self, t):
        return Path({"u": self.u * jnp.exp(t["u"] / self.u), "v": self.v * jnp.exp(t["v"] / self.v)})


class ProductSpace:
    def at(self, p):
        return ProductPoint(p["u"], p["v"])


def product_loss(p):
    return jnp.sum((p["u"] * p["v"] - jnp.asarray([1.0, -2.0])) ** 2)


START = {"u": jnp.asarray([0.5, 1.0]), "v": jnp.asarray([3.0, 0.7])}


def tree_close(one, two, **tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), one, two)


def test_without_a_space_it_is_the_sam_of_optax():
    grad_fn = jax.grad(product_loss)
    ours = optax.chain(sam(radius=0.1), optax.sgd(0.01))
    theirs = optax.contrib.sam(
        optax.sgd(0.01), optax.chain(optax.contrib.normalize(), optax.sgd(0.1)), sync_period=2, opaque_mode=True
    )
    p, q = START, START
    s, t = ours.init(p), theirs.init(q)
    for _ in range(5):
        update, s = ours.update(grad_fn(p), s, p, grad_fn=grad_fn)
        p = optax.apply_updates(p, update)
        update, t = theirs.update(grad_fn(q), t, q, grad_fn=lambda params, i: grad_fn(params))
        q = optax.apply_updates(q, update)
    tree_close(p, q, rtol=1e-12)


@pytest.mark.parametrize("ball", ["linear", "geodesic"])
def test_the_perturbed_function_is_the_same_along_the_orbit(ball):
    seen = []

    def run(g):
        p = {"u": g * START["u"], "v": START["v"] / g}
        grad_fn = jax.grad(product_loss)

        def spy(params):
            seen.append(params)
            return grad_fn(params)

        sam(ProductSpace(), 0.3, ball=ball).update(grad_fn(p), optax.EmptyState(), p, grad_fn=spy)

    run(1.0)
    run(7.0)
    one, two = (p["u"] * p["v"] for p in seen)
    np.testing.assert_allclose(one, two, rtol=1e-12)
    # Negative control: plain SAM perturbs another function at another representative.
    p, q = START, {"u": 7 * START["u"], "v": START["v"] / 7}
    moved = []
    for params in (p, q):
        sam(None, 0.3).update(
            jax.grad(product_loss)(params),
            optax.EmptyState(),
            params,
            grad_fn=lambda x: moved.append(x["u"] * x["v"]) or x,
        )
    assert np.abs(moved[0] - moved[1]).max() > 0.01


def test_the_ascent_is_the_steepest_of_the_ball():
    point, covector = ProductSpace().at(START), jax.grad(product_loss)(START)
    places = []
    sam(ProductSpace(), 0.3).update(
        covector, optax.EmptyState(), START, grad_fn=lambda params: places.append(params) or params
    )
    step = jax.tree.map(jnp.subtract, places[0], START)
    assert float(point.norm(step)) == pytest.approx(0.3)
    tree_close(point.horizontal(step), step, rtol=1e-12)

    def rise(v):
        return sum(jnp.sum(c * s) for c, s in zip(jax.tree.leaves(covector), jax.tree.leaves(v), strict=True))

    for key in jax.random.split(jax.random.key(0), 50):
        v = point.horizontal(dict(zip("uv", jax.random.normal(key, (2, 2)), strict=True)))
        assert 0.3 * rise(v) / point.norm(v) <= rise(step) + 1e-12


def network():
    net = linear.at(x=4, h=3, y=2)
    space = qx.quotient(net, [GL], metric="euclidean")
    batch = jax.random.normal(jax.random.key(1), (16, 4)), jax.random.normal(jax.random.key(2), (16, 2))

    def loss(p, batch):
        x, y = batch
        return jnp.mean((jax.vmap(net, (None, 0))(p, x) - y) ** 2)

    return net, space, loss, batch


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::quotax.errors.MetricWarning")
def test_an_ordinary_jitted_loop_on_a_network():
    net, space, loss, batch = network()
    optimiser = optax.chain(sam(space, 0.05), optax.adam(0.02), horizontal(space))

    @jax.jit
    def step(params, state, batch):
        grad_fn = jax.grad(lambda p: loss(p, batch))
        updates, state = optimiser.update(grad_fn(params), state, params, grad_fn=grad_fn)
        return optax.apply_updates(params, updates), state, updates

    params = net.init(jax.random.key(0))
    state, before = optimiser.init(params), loss(params, batch)
    for _ in range(60):
        was = params
        params, state, updates = step(params, state, batch)
        # Adam's steps are not horizontal by themselves.
        assert float(space.norm(was, space.vertical(was, updates))) < 1e-9
    assert loss(params, batch) < 0.7 * before


def test_gradients_are_raised_before_they_are_projected():
    grads = jax.grad(product_loss)(START)
    point = ProductSpace().at(START)
    raised, _ = horizontal(ProductSpace(), gradients=True).update(grads, optax.EmptyState(), START)
    tree_close(raised, point.horizontal(point.sharp(grads)), rtol=1e-12)
    # The gradient of an invariant loss in an invariant metric is horizontal already.
    tree_close(raised, point.sharp(grads), rtol=1e-12)
    plain, _ = horizontal(ProductSpace()).update(grads, optax.EmptyState(), START)
    tree_close(plain, point.horizontal(grads), rtol=1e-12)


def test_a_vanishing_gradient_moves_nothing():
    grad_fn = jax.grad(lambda p: 0.0 * jnp.sum(p))
    params = jnp.ones(3)
    updates, _ = sam(radius=0.1).update(grad_fn(params), optax.EmptyState(), params, grad_fn=lambda p: p)
    np.testing.assert_array_equal(updates, params)


def test_low_precision_stays_what_it_is(strict_promotion):
    params = {"a": jnp.ones(3, jnp.bfloat16)}
    updates, _ = sam(radius=0.1).update(params, optax.EmptyState(), params, grad_fn=lambda p: p)
    assert updates["a"].dtype == jnp.bfloat16


def test_bad_input_is_refused_in_the_words_of_the_call():
    params = jnp.ones(2)
    with pytest.raises(SharpnessError, match=r"`quotax.horizontal` needs a quotient with `at\(params\)`, got int"):
        horizontal(3)
    with pytest.raises(SharpnessError, match=r"`quotax.sam` needs radius= a positive finite number, got -1"):
        sam(radius=-1)
    with pytest.raises(SharpnessError, match=r"geodesics need a metric"):
        sam(radius=1, ball="geodesic")
    with pytest.raises(SharpnessError, match=r"grad_fn=jax.grad\(loss\)"):
        sam(radius=1).update(params, optax.EmptyState(), params)
    with pytest.raises(SharpnessError, match=r"call `update\(updates, state, params\)`"):
        horizontal(ProductSpace()).update(params, optax.EmptyState())
