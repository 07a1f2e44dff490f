"""Gains behind norms: other symmetries depend on them, and the invariant metric absorbs them first."""

from __future__ import annotations

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.errors import MetricWarning
from quotax.geometry.metrics.metric import Metric
from quotax.symmetry import gain_of, reads, without

S = qx.Symmetry
ROTATE = S(
    "rotate",
    qx.O("d"),
    {"E": "g @ E", "A": "g @ A", "U[y,d]": "g[d,d_] U[y,d_] s[d_] / s[d]", "B[f,d]": "g[d,d_] B[f,d_] t[d_] / t[d]"},
)
SCALES = [
    S("gain s", qx.Diagonal("d"), {"s": "g @ s", "U": "U @ inv(g)"}),
    S("gain t", qx.Diagonal("d"), {"t": "inv(g) @ t", "B": "B @ g"}),
]
UNITS = S("units", qx.PositiveDiagonal("f"), {"B": "g @ B", "A": "A @ inv(g)"})
ORDER = S(
    "order",
    qx.Permutation("d"),
    {"E": "g @ E", "A": "g @ A", "U": "U @ g.T", "B": "B @ g.T", "s": "g @ s", "t": "g @ t"},
)
FAMILIES = [ROTATE, *SCALES, UNITS, ORDER]


def norm(z):
    return z / jnp.sqrt(jnp.mean(z**2) + 1e-3)


@qx.architecture(
    params={"E": "d x", "t": "d", "B": "f d", "A": "d f", "s": "d", "U": "y d"},
    inputs={"x": "x"},
)
def residual(p, x):
    z = p["E"] @ x
    z = z + p["A"] @ jax.nn.relu(p["B"] @ (p["t"] * norm(z)))
    return p["U"] @ (p["s"] * norm(z))


NET = residual.at(x=4, d=3, f=4, y=2)


@pytest.fixture(scope="module", params=["invariant", pytest.param("pullback", marks=pytest.mark.slow)])
def space(request):
    return qx.quotient(NET, FAMILIES, metric=request.param)


@pytest.fixture(scope="module")
def invariant():
    return qx.quotient(NET, FAMILIES, metric="invariant")


def draw(seed):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(rng.normal(size=shape)) for name, shape in NET.shapes.items()}


def elements(space, seed, scale=0.5):
    g = space.random_element(jax.random.key(seed), scale=scale)
    return g | {"order": jnp.eye(3)[jnp.asarray([2, 0, 1])]}


def close(a, b, tolerance):
    for name in a:
        np.testing.assert_allclose(a[name], b[name], atol=tolerance * float(jnp.max(jnp.abs(b[name])) + 1))


@pytest.mark.slow
def test_the_metric_is_proved_invariant(space):
    certificate = space.metric_certificate
    assert certificate
    assert certificate.scope == "every width"
    assert "gain s: s is absorbed into U" in certificate.steps
    assert any("rotate: O(d) acts by Euclidean isometries" in step for step in certificate.steps)


@pytest.mark.slow
def test_without_the_scaling_of_a_gain_it_is_refuted():
    with pytest.warns(MetricWarning, match="rotate"):
        space = qx.quotient(NET, [ROTATE, SCALES[0], UNITS], metric="invariant")
    assert space.metric_certificate.status == "refuted"


def test_what_an_action_is_where_a_gain_is_absorbed():
    bound = [family.bind(residual.params) for family in FAMILIES]
    assert reads(bound[0]) == {"s", "t"}
    gains = [gain_of(bound[1], "s"), gain_of(bound[2], "t")]
    assert gains[0].weights == {"U": ((1,), -1)}
    assert gains[1].power == -1
    assert gain_of(bound[1], "U") is None
    assert gain_of(bound[0], "s") is None
    plain = S(
        "rotate", qx.O("d"), {"E": "g @ E", "A": "g @ A", "U[y,d]": "g[d,d_] U[y,d_]", "B[f,d]": "g[d,d_] B[f,d_]"}
    )
    found = without(bound[0], gains)
    assert [e.expression for e in found.entries] == [e.expression for e in plain.bind(residual.params).entries]
    assert reads(without(bound[0], gains[:1])) == {"t"}
    signs = S("signs", qx.SignFlip("d"), {"s": "g @ s", "U": "U @ g"}).bind(residual.params)
    assert without(signs, gains) is None


def test_a_gain_may_be_called_g():
    @qx.architecture(params={"E": "d x", "g": "d", "U": "y d"}, inputs={"x": "x"})
    def normed(p, x):
        return p["U"] @ (p["g"] * norm(p["E"] @ x))

    turn = S("rotate", qx.O("d"), {"E": "g @ E", "U[y,d]": "g[d,d_] U[y,d_] p.g[d_] / p.g[d]"}).bind(normed.params)
    own = gain_of(S("gain", qx.Diagonal("d"), {"g": "g @ p.g", "U": "U @ inv(g)"}).bind(normed.params), "g")
    assert reads(turn) == {"g"}
    plain = S("rotate", qx.O("d"), {"E": "g @ E", "U[y,d]": "g[d,d_] U[y,d_]"}).bind(normed.params)
    assert [e.expression for e in without(turn, [own]).entries] == [e.expression for e in plain.entries]


@pytest.mark.slow
def test_projections_against_the_differentiated_action(space):
    params, v = draw(0), draw(10)
    start, unravel = jax.flatten_util.ravel_pytree(params)
    flat = lambda tree: jax.flatten_util.ravel_pytree(tree)[0]
    rows = []
    for family in space.families:
        if family.dimension:
            shape = family.group.coordinate_shape(family.sizes)
            move = lambda c, f=family, s=shape: flat(
                f.act(params, f.group.exponential(f.group.algebra(c.reshape(s), f.sizes)))
            )
            rows.append(jax.jit(jax.jacobian(move))(jnp.zeros(int(np.prod(shape)))).T)
    fields = jnp.concatenate(rows)
    whiten = jax.vmap(lambda w: flat(space.at(params).whiten(unravel(w))))
    matrix = whiten(jnp.eye(len(start))).T
    left, values, _ = jnp.linalg.svd((fields @ matrix.T).T, full_matrices=False)
    basis = left[:, values > 1e-10 * values[0]]
    assert basis.shape[1] == space.fiber_dim
    image = matrix @ flat(v)
    expected = jnp.linalg.solve(matrix, image - basis @ (basis.T @ image))
    close(space.horizontal(params, v), unravel(expected), 1e-9)
    point = space.at(params)
    close(point.unwhiten(point.whiten(v)), v, 1e-12)


@pytest.mark.slow
def test_everything_moves_with_the_group(space):
    params, v, w = draw(0), draw(10), draw(20)
    g = elements(space, 0)
    there, push = jax.linearize(lambda p: space.act(p, g), params)
    assert abs(space.inner(params, v, w) / space.inner(there, push(v), push(w)) - 1) < 1e-9
    close(push(space.horizontal(params, v)), space.horizontal(there, push(v)), 1e-9)
    curved = [space.sectional_curvature(p, a, b) for p, a, b in ((params, v, w), (there, push(v), push(w)))]
    assert abs(curved[0] - curved[1]) < 1e-8 * max(1, abs(curved[0]))


def test_it_is_a_value(invariant):
    metric = invariant._metric
    copy = cloudpickle.loads(cloudpickle.dumps(metric))
    assert copy is not metric
    assert (copy, hash(copy)) == (metric, hash(metric))


@pytest.mark.slow
def test_geodesics_logarithms_and_alignment(invariant):
    space, params = invariant, draw(0)
    g = elements(space, 1)
    there, push = jax.linearize(lambda p: space.act(p, g), params)
    assert space.dist(params, there) < 1e-6
    close(space.align(there, params), params, 1e-7)
    v = jax.tree.map(lambda a: 0.2 * a, space.horizontal(params, draw(1)))
    end, moved = space.exp(params, v), space.exp(there, push(v))
    close(space.act(end, g), moved, 1e-8)
    close(space.log(params, end), v, 1e-7)
    close(space.log(params, moved), v, 1e-7)
    assert abs(space.dist(there, end) / space.norm(params, v) - 1) < 1e-8


@pytest.mark.slow
def test_curvature_against_derivatives_of_the_metric(invariant):
    space, params, v, w = invariant, draw(0), draw(1), draw(2)
    metric = space._metric
    expected = jax.jit(lambda data, *vectors: Metric.sectional(metric, data, *vectors))(
        metric.prepare(params), params, v, w
    )
    assert abs(space.sectional_curvature(params, v, w) - expected) < 1e-8 * max(1, abs(expected))


@pytest.mark.slow
def test_what_is_derived_is_absorbed():
    found = qx.derive(residual, progress=lambda _: None)
    space = qx.quotient(NET, found, metric="invariant")
    assert space.metric_certificate
    assert space.fiber_dim == 3 + 3 + 3 + 4


@pytest.mark.slow
def test_linear_balls_are_invariant_as_horizontal_steps_leave_the_gains_alone(invariant):
    params = draw(0)
    inputs, goals = (jnp.asarray(np.random.default_rng(seed).normal(size=(6, n))) for seed, n in ((1, 4), (2, 2)))
    loss = lambda p: jnp.mean((jax.vmap(NET, (None, 0))(p, inputs) - goals) ** 2)
    measure = lambda p: qx.sharpness(loss, p, 0.05, space=invariant, budget=40, progress=lambda _: None)
    here, there = measure(params), measure(invariant.act(params, elements(invariant, 1)))
    assert here.invariant is True
    assert there.value == pytest.approx(here.value, rel=1e-6)
