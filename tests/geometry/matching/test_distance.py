"""Distances between orbits: brackets and geodesics, against cones; what a derived group is divided by."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from geometry.table import CASES
from quotax.errors import ConvergenceError, GeometryError, InvarianceError, MetricWarning
from quotax.geometry.matching.distance import TIMES, integrated

UNITS = {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}
SCALE, ORDER = qx.Symmetry("scale", qx.PositiveDiagonal("h"), UNITS), qx.Symmetry("order", qx.Permutation("h"), UNITS)


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h", "b2": "y"}, inputs={"x": "x"})
def relu(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"]) + p["b2"]


NET = relu.at(x=3, h=4, y=2)


@functools.cache
def space():
    return qx.quotient(NET, [SCALE, ORDER], metric="invariant")


def draw(network, seed):
    rng = np.random.default_rng(seed)
    return {name: jnp.asarray(rng.normal(size=shape)) for name, shape in network.shapes.items()}


def near(params, other, share):
    return jax.tree.map(lambda a, b: a + share * b, params, other)


def size(params):
    return float(np.sqrt(sum(np.sum(np.square(a)) for a in params.values())))


# --- an oracle: each unit is a cone


def units(params):
    """The canonical unit is `(r a, r b)` with unit vectors: a cone `2 dr^2 + r^2 (da^2 + db^2)`."""
    inwards = np.concatenate([params["W1"], np.asarray(params["b1"])[:, None]], 1)
    outwards = np.asarray(params["W2"]).T
    sizes = np.linalg.norm(inwards, axis=1), np.linalg.norm(outwards, axis=1)
    return np.sqrt(sizes[0] * sizes[1]), inwards / sizes[0][:, None], outwards / sizes[1][:, None]


def exact_squares(params, other):
    """Squared distances of every unit of one to every unit of the other: law of cosines over angles `/ sqrt(2)`."""
    (r, a, b), (s, c, d) = units(params), units(other)
    angle = np.sqrt((np.arccos(np.clip(a @ c.T, -1, 1)) ** 2 + np.arccos(np.clip(b @ d.T, -1, 1)) ** 2) / 2)
    return 2 * (r[:, None] ** 2 + s[None] ** 2 - 2 * np.outer(r, s) * np.cos(angle))


def exact(params, other):
    squares = exact_squares(params, other)
    n = len(squares)
    best = min(sum(squares[i, order[i]] for i in range(n)) for order in itertools.permutations(range(n)))
    return float(np.sqrt(best + np.sum(np.square(params["b2"] - other["b2"]))))


@pytest.mark.parametrize("share", [0.1, 0.5, 10.0])
def test_brackets_hold_the_distance_of_cones(share):
    for seed in range(3):
        params, other = draw(NET, seed), draw(NET, seed + 10)
        other = near(params, other, share)
        found, distance = space().distance(params, other), exact(params, other)
        assert float(found.lower) <= distance <= float(found.upper)
        assert float(found.lower) <= float(found.chord) <= float(found.value) * (1 + 1e-9)
        assert not found.geodesic
        assert "no element aligns them better" in found.reason


def test_the_chord_of_what_is_not_aligned_is_no_bound():
    params = draw(NET, 0)
    other = space().act(params, {"order": jnp.eye(4)[jnp.array([2, 0, 3, 1])]})
    one, two = (space().canonical(p).params for p in (params, other))
    assert exact(params, other) < 1e-7
    assert size({n: one[n] - two[n] for n in one}) > 1  # what `lower` would be without the search
    assert float(space().distance(params, other).lower) < 1e-9


@pytest.mark.slow
def test_small_distances_are_lengths_of_geodesics():
    points = [near(draw(NET, 0), draw(NET, seed), 0.3) for seed in (1, 2, 3)]
    numbers = [[float(space().dist(a, b)) for b in points] for a in points]
    for (i, a), (j, b) in itertools.product(enumerate(points), repeat=2):
        assert numbers[i][j] == pytest.approx(exact(a, b), rel=1e-8, abs=1e-7)
    matrix = np.array(numbers)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-7)
    assert np.all(matrix[:, None] <= matrix[:, :, None] + matrix.T[None] + 1e-8)  # by way of each of the others
    found = space().distance(points[0], points[1], method="geodesic")
    assert bool(found.geodesic)
    assert float(found.lower) <= float(found.value) <= float(found.upper)
    assert float(space().dist(points[0], points[1], method="bracket")) >= numbers[0][1] * (1 - 1e-9)


def test_a_distance_is_one_of_orbits():
    params, other = draw(NET, 4), draw(NET, 5)
    g, k = ({"scale": jnp.exp(jnp.asarray(np.random.default_rng(s).normal(size=4)))} for s in (1, 2))
    g["order"] = jnp.eye(4)[jnp.array([1, 3, 0, 2])]
    here = space().distance(params, other)
    for one, two in (
        (other, params),
        (space().act(params, g), other),
        (params, space().act(other, k)),
        (space().act(params, g), space().act(other, k)),
    ):
        there = space().distance(one, two)
        for name in ("lower", "value", "chord"):
            assert float(getattr(there, name)) == pytest.approx(float(getattr(here, name)), rel=1e-8)
    assert float(space().dist(params, space().act(params, g))) < 1e-9 * size(params)
    assert float(space().dist(params, near(params, other, 1e-3))) > 1e-4


def test_under_jit_the_same():
    params, other = draw(NET, 4), draw(NET, 5)
    eager = space().distance(params, other)
    compiled = jax.jit(space().distance)(params, other)
    for name in ("lower", "upper", "value"):
        assert float(getattr(compiled, name)) == pytest.approx(float(getattr(eager, name)), rel=1e-9)


def test_programs_are_few_and_compiled_once():
    compiled = []
    listen = lambda name, seconds, **more: compiled.append(name) if name.endswith("backend_compile_duration") else None
    jax.monitoring.register_event_duration_secs_listener(listen)
    quotient = qx.quotient(relu.at(x=4, h=20, y=12), [SCALE, ORDER], metric="invariant")
    one, two, three = (draw(quotient.network, seed) for seed in range(3))
    compiled.clear()
    first = quotient.distance(one, two)
    assert 0 < len(compiled) <= 12  # a canonical representative, the alignment's three, a speed, the bracket; few small
    compiled.clear()
    second = quotient.distance(one, three)
    assert not compiled
    assert float(first.value) != float(second.value)


# --- the budget


def test_a_budget_ends_with_the_bracket_and_says_so():
    params, other, lines = draw(NET, 4), draw(NET, 5), []
    found = space().distance(params, other, method="geodesic", budget=1e-6, progress=lines.append)
    assert not found.geodesic
    assert float(found.lower) <= exact(params, other) <= float(found.upper)
    assert "no geodesic was found in 1e-06 s that ends in the orbit of other" in found.reason
    assert len(lines) == 1
    assert lines[0].startswith("space.distance: the end is at a relative distance of ")
    with pytest.raises(ConvergenceError, match=r"`space.log\(params, other\)`: no geodesic was found in 1e-06 s"):
        space().log(params, other, budget=1e-6)
    with pytest.warns(MetricWarning, match=r"`space.dist\(params, other\)`: value is the length of a path"):
        assert float(space().dist(params, other, budget=1e-6)) == float(found.value)
    with pytest.raises(GeometryError, match=r"`space.log\(params, other\)`: budget is in seconds .* got 0"):
        space().log(params, other, budget=0)
    with pytest.raises(GeometryError, match="method must be 'bracket' or 'geodesic', got 'straight'"):
        space().distance(params, other, method="straight")  # pyright: ignore[reportArgumentType]


# --- what is not a bound is not said to be one


@pytest.mark.slow
@pytest.mark.parametrize(("name", "metric"), [("exp", "invariant"), ("u*v", "inv")])
def test_where_no_bound_is_known_it_is_zero(name, metric):
    case = CASES[name]
    bundle = case.space(metric, discrete=True)
    params = case.draw(0)
    other = near(params, case.draw(1), 0.2)
    found = bundle.distance(params, other)
    assert float(found.lower) == 0
    assert f"chords say nothing about the {metric} metric" in found.reason
    shot = float(bundle.norm(params, bundle.log(params, other)))
    assert shot <= float(found.upper)
    if name == "u*v":
        assert float(found.chord) < 0.9 * shot or float(found.chord) > 1.1 * shot  # the chord is something else


def test_the_quadrature_knows_its_error():
    yes = jnp.ones(len(TIMES), bool)
    for power in range(11):
        found = integrated(jnp.asarray(TIMES**power), yes)
        assert float(found.value) == pytest.approx(1 / (power + 1), rel=1e-13)
    rough = integrated(jnp.asarray(np.abs(TIMES - 0.3)), yes)
    assert abs(float(rough.value) - (0.3**2 + 0.7**2) / 2) <= float(rough.margin)
    assert float(integrated(jnp.asarray(TIMES), yes.at[2].set(False)).margin) == np.inf


# --- the whole of a derived group


def mlp(activation):
    @qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h", "b2": "y"}, inputs={"x": "x"})
    def model(p, x):
        return p["W2"] @ activation(p["W1"] @ x + p["b1"]) + p["b2"]

    return model


@pytest.mark.parametrize("activation", [jnp.tanh, jax.nn.relu])
def test_a_derived_group_is_used_whole(activation):
    model = mlp(activation)
    found = qx.derive(model, progress=lambda _: None)
    net = model.at(x=20, h=16, y=5)  # 421 parameters: nothing is shot
    quotient = qx.quotient(net, found, metric="invariant")
    assert [family.name for family in quotient.families] == [s.name for s in (*found.families, *found.discrete)]
    assert not quotient.left_out
    params, other = draw(net, 0), draw(net, 1)
    moved = quotient.act(params, quotient.random_element(jax.random.key(0), 0.5))
    assert not np.allclose(moved["W1"], params["W1"])
    assert float(quotient.dist(params, moved)) < 1e-9 * size(params)
    assert float(quotient.distance(moved, other).lower) == pytest.approx(
        float(quotient.distance(params, other).lower), rel=1e-9
    )
    back = quotient.align(moved, params)
    np.testing.assert_allclose(back["W1"], params["W1"], atol=1e-9)
    part = qx.quotient(net, found.families, metric="invariant")  # a part is asked for by passing it
    assert [family.name for family in part.families] == [s.name for s in found.families]


def test_what_a_metric_cannot_use_is_left_out_and_said():
    model = mlp(jax.nn.sigmoid)
    found = qx.derive(model, progress=lambda _: None)
    net = model.at(x=3, h=2, y=2)
    quotient = qx.quotient(net, found, metric="invariant")
    (flip,) = [s for s in found.discrete if isinstance(s.group, qx.SignFlip)]
    assert set(quotient.left_out) == {flip.name}
    assert "carries other parameters into b2" in quotient.left_out[flip.name]
    assert f"without {flip.name}, as it carries other parameters into b2" in repr(quotient)
    assert quotient.metric_certificate
    with pytest.warns(MetricWarning, match="not invariant"):
        broken = qx.quotient(net, [*found, *found.discrete], metric="invariant")
    with pytest.raises(InvarianceError, match="has none: it is not invariant"):
        broken.dist(draw(net, 0), draw(net, 1))


def test_what_was_declared_is_divided_out_too():
    found = qx.derive(relu, declared=[SCALE], progress=lambda _: None)
    assert not found.families
    quotient = qx.quotient(NET, found, metric="invariant")
    assert [family.name for family in quotient.families] == ["scale", *(s.name for s in found.discrete)]
    assert all(quotient.certificates)


HEADS = dict.fromkeys(("Q", "K", "V"), "head c d") | {"O": "d head c", "s": "d", "U": "f d", "D": "d f"}


@pytest.mark.slow
def test_copies_of_an_attention_block_are_at_distance_zero():
    norm = lambda z: z / jnp.sqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-6)

    @qx.architecture(params=HEADS, inputs={"x": "t d"})
    def block(p, x):
        q, k, v = (jnp.einsum("hcd,td->htc", p[n], norm(x) * p["s"]) for n in ("Q", "K", "V"))
        weights = jax.nn.softmax(jnp.einsum("htc,hsc->hts", q, k), -1)
        x = x + jnp.einsum("hts,hsc,dhc->td", weights, v, p["O"])
        return x + jax.nn.relu(norm(x) @ p["U"].T) @ p["D"].T

    found = qx.derive(block, progress=lambda _: None)
    net = block.at(d=8, head=2, c=4, f=8)
    quotient = qx.quotient(net, found, metric="invariant")
    assert not quotient.left_out
    assert {type(f.group) for f in quotient.families} >= {qx.GL, qx.Permutation}
    params = draw(net, 0)
    moved = quotient.act(params, quotient.random_element(jax.random.key(0), 0.2))
    assert float(quotient.dist(params, moved)) < 1e-8 * size(params)
