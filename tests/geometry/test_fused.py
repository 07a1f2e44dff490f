"""A fused array and separate ones: the same model, so the same quotient, in the user's own trees."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx

SIZES = {"d": 3, "f": 4}


@qx.architecture(
    params={"mlp": {"gate_up": "f*2 d"}, "down": "d f"}, inputs={"x": "t d"}, parts={"mlp/gate_up": "gate up"}
)
def fused(p, x):
    z = x @ p["mlp"]["gate_up"].T
    return (jax.nn.silu(z[:, ::2]) * z[:, 1::2]) @ p["down"].T


@qx.architecture(params={"gate": "f d", "up": "f d", "down": "d f"}, inputs={"x": "t d"})
def separate(p, x):
    return (jax.nn.silu(x @ p["gate"].T) * (x @ p["up"].T)) @ p["down"].T


HAND_OVER = qx.Symmetry(
    "up", qx.PositiveDiagonal("f"), {"mlp/gate_up.up": "g @ mlp/gate_up.up", "down": "down @ inv(g)"}
)
APART = qx.Symmetry("up", qx.PositiveDiagonal("f"), {"up": "g @ up", "down": "down @ inv(g)"})


def joined(tree):
    turns = jnp.stack([tree["gate"], tree["up"]], 1).reshape(-1, tree["gate"].shape[-1])
    return {"mlp": {"gate_up": turns}, "down": tree["down"]}


def near(one, other, tolerance=1e-10):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module", params=["invariant", "euclidean"])
def spaces(request):
    return qx.quotient(fused.at(**SIZES), HAND_OVER, request.param), qx.quotient(
        separate.at(**SIZES), APART, request.param
    )


@pytest.fixture(scope="module")
def points():
    keys = iter(jax.random.split(jax.random.key(0), 9))
    draw = lambda: {n: jax.random.normal(next(keys), separate.at(**SIZES).shapes[n]) for n in ("gate", "up", "down")}
    return draw(), draw(), draw()


def test_everything_of_a_point_is_that_of_the_parts(spaces, points):
    whole, parts = spaces
    params, v, w = points
    assert (whole.dim, whole.fiber_dim) == (parts.dim, parts.fiber_dim)
    for name in ("horizontal", "vertical"):
        near(getattr(whole, name)(joined(params), joined(v)), joined(getattr(parts, name)(params, v)))
    near(whole.inner(joined(params), joined(v), joined(w)), parts.inner(params, v, w))
    near(whole.connection(joined(params), joined(v)), parts.connection(params, v))
    near(whole.conserved(joined(params)), parts.conserved(params))
    near(whole.canonical(joined(params)).params, joined(parts.canonical(params).params), 1e-6)
    near(whole.at(joined(params)).params, joined(params))
    assert int(whole.at(joined(params)).rank) == whole.fiber_dim
    near(whole.unravel(whole.ravel(joined(v))), joined(v))


def test_groups_act_on_whole_arrays(spaces, points):
    whole, parts = spaces
    params, x = points[0], jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    g = whole.random_element(jax.random.key(3))
    moved = whole.act(joined(params), g)
    near(moved, joined(parts.act(params, g)))
    near(whole.network(moved, x), whole.network(joined(params), x), 1e-12)
    xi = {"up": jnp.arange(4.0)}
    near(whole.field(joined(params), xi), joined(parts.field(params, xi)))


def test_a_point_is_remembered_by_the_arrays_that_the_user_holds(spaces, points):
    whole, _ = spaces
    held = joined(points[0])
    first = whole.at(held)
    assert all(a is b for a, b in zip(whole.at(held).arrays.values(), first.arrays.values(), strict=True))
    near(whole.at(joined(points[1])).params, joined(points[1]))


@pytest.mark.slow
def test_paths_and_measures_are_those_of_the_parts(spaces, points):
    whole, parts = spaces
    if whole.metric_name == "euclidean":
        return
    params, v, _ = points
    small = jax.tree.map(lambda a: 0.1 * a, v)
    near(whole.exp(joined(params), joined(small)), joined(parts.exp(params, small)), 1e-8)
    g = whole.random_element(jax.random.key(5))
    near(whole.align(whole.act(joined(params), g), joined(params)), joined(params), 1e-6)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    one, two = (
        qx.sharpness(lambda p, net=s.network: jnp.mean((net(p, x) - 1) ** 2), own, radius=0.05, space=s)
        for s, own in ((whole, joined(params)), (parts, params))
    )
    np.testing.assert_allclose(one.value, two.value, rtol=1e-4)
    assert jax.tree.structure(one.perturbation) == jax.tree.structure(joined(params))


@pytest.mark.slow
def test_a_metric_of_the_users_sees_whole_arrays(points):
    seen = []

    def weighted(p, a, b):
        seen.append(jax.tree.structure(p))
        return sum(jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))

    params, v, _ = points
    own = qx.quotient(fused.at(**SIZES), HAND_OVER, weighted)
    plain = qx.quotient(fused.at(**SIZES), HAND_OVER, "euclidean")
    near(own.horizontal(joined(params), joined(v)), plain.horizontal(joined(params), joined(v)), 1e-8)
    assert set(seen) == {jax.tree.structure(joined(params))}


@pytest.mark.slow
def test_claims_about_functions_of_the_parameters_are_about_whole_arrays():
    product = lambda p: jnp.sum(p["mlp"]["gate_up"].reshape(-1, 2, p["down"].shape[0])[:, 1] * p["down"].T)
    assert qx.verify_invariant(fused, HAND_OVER, product).scope == "every width"
    assert qx.verify_invariant(fused, HAND_OVER, lambda p: jnp.sum(p["mlp"]["gate_up"] ** 2)).status == "refuted"
    turn = qx.Symmetry("turn", qx.SignFlip("f"), dict(HAND_OVER.action))
    assert qx.verify_invariant(fused, turn, lambda p: jnp.sum(p["mlp"]["gate_up"] ** 2)).scope == "every width"
    assert qx.verify_metric(fused, turn, "euclidean").scope == "every width"

    def field(p):
        up = jnp.asarray([0.0, 1.0])[None, :, None]
        shape = p["mlp"]["gate_up"].shape
        moved = (p["mlp"]["gate_up"].reshape(-1, 2, shape[1]) * up).reshape(shape)
        return {"mlp": {"gate_up": moved}, "down": -p["down"]}

    assert qx.verify_field(fused, field).scope == "every width"
    wrong = qx.verify_field(fused, lambda p: field(p) | {"down": p["down"]})
    assert wrong.status == "refuted"
    assert wrong.witness.params["mlp"]["gate_up"].ndim == 2
    broken = qx.Symmetry("up", qx.PositiveDiagonal("f"), {"mlp/gate_up.up": "g @ mlp/gate_up.up"})
    found = qx.verify(fused, broken)
    assert found.status == "refuted"
    net = fused.at(**{a: n for a, n in found.witness.sizes.items() if a != "t"})
    out = [net(p, *found.witness.inputs.values()) for p in (found.witness.params, found.witness.transformed_params)]
    np.testing.assert_allclose(out[0], found.witness.output, atol=1e-6)
    assert np.abs(out[0] - out[1]).max() > 1e-6
