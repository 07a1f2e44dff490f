"""The canonical representative: the least norm on the orbit, against closed forms and against general optimisers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import quotax as qx
from geometry.table import CASES, certificates
from geometry.table import sampled as rows
from models import linear
from quotax.geometry.canonical.newton import move
from quotax.geometry.canonical.norm_on_orbit import descent_at, moments_of

GL = qx.GL
LINEAR = CASES["linear"].families
DTYPES = pytest.mark.parametrize(
    "dtype", [jnp.float64, pytest.param(jnp.float32, marks=pytest.mark.slow)], ids=lambda d: d.__name__
)


def sampled(names, quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def quotient(network, claims):
    """A space whose symmetries are taken as read; its metric does not matter here."""
    return qx.quotient(network, claims, verified=certificates(claims))


@pytest.fixture(scope="session")
def spaces():
    """Linear networks of two layers by their sizes, each built once."""
    built = {}

    def space(x, h, y):
        if (x, h, y) not in built:
            built[x, h, y] = quotient(linear.at(x=x, h=h, y=y), LINEAR)
        return built[x, h, y]

    return space


@qx.architecture(params={"W1": "h x", "W2": "k h", "W3": "y k"}, inputs={"x": "x"})
def deep(p, x):
    return p["W3"] @ (p["W2"] @ (p["W1"] @ x))


DEEP = [
    qx.Symmetry("linear h", GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"}),
    qx.Symmetry("linear k", GL("k"), {"W2": "g @ W2", "W3": "W3 @ inv(g)"}),
]


def draw(network, seed, dtype=jnp.float64):
    keys = jax.random.split(jax.random.key(seed), len(network.shapes))
    return {n: jax.random.normal(k, s, dtype) for k, (n, s) in zip(keys, network.shapes.items(), strict=True)}


def square(params):
    return sum(float(np.sum(np.asarray(a, float) ** 2)) for a in jax.tree.leaves(params))


def gap(a, b):
    return max(float(jnp.max(jnp.abs(x - y))) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def singular_values(*matrices):
    return np.linalg.svd(np.linalg.multi_dot([np.asarray(m, float) for m in matrices]), compute_uv=False)


def moment(space, params):
    """The derivative of half the squared norm along every one-parameter subgroup, by differentiating the action."""
    found = []
    for family in space.families:
        if not family.dimension:
            continue
        shape = family.group.coordinate_shape(family.sizes)

        def half(c, family=family):
            g = family.group.exponential(family.group.algebra(c, family.sizes))
            return sum(jnp.sum(a**2) for a in jax.tree.leaves(space.act(params, {family.name: g}))) / 2

        found.append(np.ravel(jax.jit(jax.grad(half))(jnp.zeros(shape))))
    return np.concatenate(found)


def with_zeros(params, **places):
    return params | {name: params[name].at[place].set(0) for name, place in places.items()}


# --- two layers


# The second has a stabiliser: n = m < h.
@pytest.mark.parametrize("sizes", [(4, 2, 3), pytest.param((2, 4, 2), marks=pytest.mark.slow)])
def test_the_least_norm_of_two_layers_is_the_nuclear_norm(spaces, sizes):
    space = spaces(*sizes)
    for seed in range(3):
        params = draw(space.network, seed)
        found = space.canonical(params)
        least = 2 * singular_values(params["W2"], params["W1"]).sum()
        assert found.attained
        assert square(found.params) == pytest.approx(least, rel=1e-10)
        first, second = found.params["W1"], found.params["W2"]
        np.testing.assert_allclose(first @ first.T, second.T @ second, atol=1e-9)
        np.testing.assert_allclose(second @ first, params["W2"] @ params["W1"], atol=1e-9)


def test_the_element_of_two_layers_is_the_root_of_the_published_formula(spaces):
    # P = S1^-1/2 (S1^1/2 S2 S1^1/2)^1/2 S1^-1/2 solves P S1 P = S2, and the element A has A^T A = P.
    space = spaces(4, 2, 3)
    params = draw(space.network, 0)
    s1, s2 = np.asarray(params["W1"] @ params["W1"].T), np.asarray(params["W2"].T @ params["W2"])
    root = scipy.linalg.sqrtm(s1).real
    inverse = np.linalg.inv(root)
    p = inverse @ scipy.linalg.sqrtm(root @ s2 @ root).real @ inverse
    np.testing.assert_allclose(p @ s1 @ p, s2, atol=1e-10)
    a = np.asarray(space.canonical(params).element["linear h"])
    np.testing.assert_allclose(a.T @ a, p, rtol=1e-10)


def test_it_is_the_same_along_the_orbit_up_to_an_orthogonal_element(spaces):
    space = spaces(4, 2, 3)
    params = draw(space.network, 0)
    here = space.canonical(params).params
    g = jax.random.normal(jax.random.key(5), (2, 2)) @ jnp.diag(jnp.array([100.0, 0.1]))
    there = space.canonical(space.act(params, {"linear h": g})).params
    # Orthogonal elements leave these Gram matrices, and the turn between the two is one.
    np.testing.assert_allclose(there["W1"].T @ there["W1"], here["W1"].T @ here["W1"], atol=1e-9)
    np.testing.assert_allclose(there["W2"] @ there["W2"].T, here["W2"] @ here["W2"].T, atol=1e-9)
    turn = np.asarray(there["W1"] @ jnp.linalg.pinv(here["W1"]))
    np.testing.assert_allclose(turn @ turn.T, np.eye(2), atol=1e-9)
    assert gap(space.canonical(here).params, here) < 1e-12


@pytest.mark.slow
def test_float32_stays_and_is_accurate(spaces):
    space = spaces(4, 2, 3)
    params = draw(space.network, 0)
    narrow = {n: a.astype(jnp.float32) for n, a in params.items()}
    found = space.canonical(narrow)
    assert all(a.dtype == jnp.float32 for a in jax.tree.leaves((found.params, found.element)))
    assert found.attained
    assert gap(found.params, space.canonical(params).params) < 1e-5


@pytest.mark.slow
def test_jit_vmap_and_derivatives(spaces):
    space = spaces(4, 2, 3)
    params, v = draw(space.network, 0), draw(space.network, 1)
    canonical = lambda p: space.canonical(p).params
    here = canonical(params)
    assert gap(jax.jit(canonical)(params), here) < 1e-12
    batch = jax.jit(jax.vmap(canonical))(jax.tree.map(lambda a, b: jnp.stack([a, b]), params, v))
    assert gap(jax.tree.map(lambda a: a[0], batch), here) < 1e-11
    assert gap(jax.tree.map(lambda a: a[1], batch), canonical(v)) < 1e-11
    # The derivative is that of a representative that does not turn; what no turn changes has the derivative it should.
    grams = lambda p: [f(p) for f in (lambda p: p["W1"].T @ p["W1"], lambda p: p["W2"] @ p["W2"].T)]
    slope = jax.jit(lambda p, v: jax.jvp(lambda p: grams(canonical(p)), (p,), (v,))[1])(params, v)
    step = 1e-5
    ahead, behind = (grams(canonical(jax.tree.map(lambda a, b, t=t: a + t * b, params, v))) for t in (step, -step))
    assert gap(slope, jax.tree.map(lambda a, b: (a - b) / (2 * step), ahead, behind)) < 1e-6
    # The squared norm is twice the nuclear norm of the product, whose derivative is U V^T.
    gradient = jax.jit(jax.grad(lambda p: square_of(canonical(p))))(params)
    left, _, right = np.linalg.svd(np.asarray(params["W2"] @ params["W1"]), full_matrices=False)
    inner = left[:, :2] @ right[:2]
    np.testing.assert_allclose(gradient["W2"], 2 * inner @ np.asarray(params["W1"]).T, atol=1e-8)
    np.testing.assert_allclose(gradient["W1"], 2 * np.asarray(params["W2"]).T @ inner, atol=1e-8)


def square_of(params):
    return sum(jnp.sum(a**2) for a in jax.tree.leaves(params))


# --- not attained


# The moments are zero to the last bit, and so is Newton's step, whose length has no derivative there.
@pytest.mark.slow
def test_derivatives_at_a_balanced_point(spaces):
    space = spaces(3, 2, 3)
    params = {"W1": jnp.diag(jnp.array([2.0, 1.0, 0.0]))[:2], "W2": jnp.diag(jnp.array([2.0, 1.0, 0.0]))[:, :2]}
    rng = np.random.default_rng(0)
    weights, direction = rng.normal(size=(3, 3)), {name: rng.normal(size=a.shape) for name, a in params.items()}

    def measure(p):
        found = space.canonical(p).params["W1"]
        return jnp.sum(weights * (found.T @ found))  # the same for every rotation of the hidden units

    there, back = (measure({name: a + step * direction[name] for name, a in params.items()}) for step in (1e-5, -1e-5))
    gradient = jax.grad(measure)(params)
    change = sum(jnp.vdot(gradient[name], direction[name]) for name in params)
    np.testing.assert_allclose(change, (there - back) / 2e-5, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "attained", "dtype"),
    [
        ((2, 3, 4), False, jnp.float64),  # n < h < m
        ((4, 6, 6), False, jnp.float64),  # n < h = m
        ((5, 8, 5), True, jnp.float64),  # n = m < h
        ((20, 30, 40), False, jnp.float32),
        ((3, 3, 3), True, jnp.float32),
    ],
)
def test_a_narrow_factor_beside_a_wide_one_is_detected(spaces, sizes, attained, dtype):
    space = spaces(*sizes)
    params = draw(space.network, 0, dtype)
    found = space.canonical(params)
    assert bool(found.attained) == attained
    # The orbit comes arbitrarily near the least norm all the same.
    least = 2 * singular_values(params["W2"], params["W1"]).sum()
    assert square(found.params) == pytest.approx(least, rel=1e-4 if dtype == jnp.float32 else 1e-7)


def test_an_adapter_that_starts_at_zero_has_no_canonical_representative(spaces):
    space = spaces(4, 2, 3)
    params = draw(space.network, 0)
    found = space.canonical(params | {"W2": jnp.zeros_like(params["W2"])})
    assert not found.attained
    assert all(np.all(np.isfinite(a)) for a in jax.tree.leaves((found.params, found.element)))
    assert space.canonical(jax.tree.map(jnp.zeros_like, params)).attained  # nothing to balance


IN = {"W1": 0, "b1": 0}
OUT = {"W2": (slice(None), 0)}


@pytest.mark.parametrize("name", sampled(["relu", "relu squared"], ["relu"]))
@pytest.mark.parametrize(
    ("dead", "attained"),
    [({}, True), (IN, False), (OUT, False), (IN | OUT, True)],
    ids=["alive", "incoming", "outgoing", "both"],
)
@DTYPES
def test_dead_units_do_not_disturb_the_living(name, dead, attained, dtype):
    case = CASES[name]
    params = with_zeros(case.draw(0, dtype), **dead)
    found = case.space().canonical(params)
    assert bool(found.attained) == attained
    assert all(np.all(np.isfinite(a)) for a in jax.tree.leaves((found.params, found.element)))
    # The living units are balanced whatever the dead one does.
    alive = case.space().canonical(case.draw(0, dtype)).params
    np.testing.assert_allclose(found.params["W1"][1:], alive["W1"][1:], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu rnn", "state space"])
def test_states_that_nothing_reads(name):
    case = CASES[name]
    params = case.draw(0)
    assert case.space().canonical(params).attained
    assert not case.space().canonical(params | {"C": jnp.zeros_like(params["C"])}).attained


@pytest.mark.parametrize("name", sampled(["batch norm", "layer norm", "rms norm"], ["batch norm"]))
def test_a_scale_in_front_of_a_norm_has_no_least_norm(name):
    case = CASES[name]
    space = case.space()
    params = case.draw(0)
    found = space.canonical(params)
    assert not found.attained
    # It is brought to the same size from everywhere on the orbit.
    scale = {f.name: jnp.full(f.group.shape(f.sizes), 3.0) for f in space.families if f.name.startswith("scale")}
    again = space.canonical(space.act(params, scale))
    assert gap(again.params, found.params) < 1e-9


def test_rows_in_front_of_a_norm_get_length_one():
    case = CASES["batch norm"]
    found = case.space().canonical(case.draw(0)).params
    np.testing.assert_allclose(jnp.linalg.norm(found["W"], axis=1), 1, rtol=1e-10)
    np.testing.assert_allclose(found["b"], 0, atol=1e-14)


# --- every row of the table


# One of each way to the representative: by number, by sweeps, by Newton's method; with shifts, powers and norms.
REACHED = ("linear", "linear biases", "leaky", "cube", "u^2-v^2", "rms norm", "relu rnn", "conv linear", "rope")


@pytest.mark.parametrize("name", rows(("relu", "u*v"), (*REACHED, "attention biases")))
def test_the_element_leads_to_the_representative_which_is_balanced(name):
    case = CASES[name]
    space = case.space()
    params = case.draw(1)
    found = space.canonical(params)
    assert gap(space.act(params, found.element), found.params) <= 1e-12 * np.sqrt(square(found.params))
    again = space.canonical(found.params)
    if name not in ("linear wide-narrow", "linear overcomplete"):  # not attained: each start stops elsewhere
        assert gap(again.params, found.params) < 1e-8
    if found.attained:
        assert np.abs(moment(space, found.params)).max() < 1e-9 * square(params) or shifted(case)
        inputs = case.inputs(0)
        outputs = jax.jit(case.network.__call__)
        before, after = outputs(params, *inputs), outputs(found.params, *inputs)
        assert gap(before, after) < 1e-8


def shifted(case):
    """Whether a shift moves more than what it only shifts: its moment need not vanish."""
    return any(
        any(t.kind == "shift" for t in f.terms) and any(t.kind != "shift" for t in f.terms) for f in case.lowered
    )


# --- scalings


@pytest.mark.parametrize("name", sampled(["relu", "leaky", "reglu", "relu rnn", "cube"], ["relu"]))
def test_scalings_against_an_optimiser(name):
    case = CASES[name]
    space = case.space()
    params = case.draw(0)
    shapes = [f.group.shape(f.sizes) for f in space.families]
    cuts = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]

    @jax.jit
    def norm_at(logs):
        parts = jnp.split(logs, cuts)
        g = {f.name: jnp.exp(c.reshape(s)) for f, c, s in zip(space.families, parts, shapes, strict=True)}
        return square_of(space.act(params, g))

    count = sum(int(np.prod(s)) for s in shapes)
    found = scipy.optimize.minimize(norm_at, np.zeros(count), jac=jax.jit(jax.grad(norm_at)), method="BFGS", tol=1e-10)
    ours = space.canonical(params)
    assert ours.attained
    assert square(ours.params) == pytest.approx(found.fun, rel=1e-10)
    logs = np.concatenate([np.log(ours.element[f.name]).ravel() for f in space.families])
    np.testing.assert_allclose(logs, found.x, atol=1e-5)


@pytest.mark.parametrize("width", [pytest.param(3, marks=pytest.mark.slow), pytest.param(32, marks=pytest.mark.long)])
def test_three_linear_layers(width):
    # The least |W1|^2 + |W2|^2 + |W3|^2 for a product with singular values s is 3 sum s^(2/3).
    network = deep.at(x=width + 2, h=width, k=width, y=width)
    space = quotient(network, DEEP)
    params = draw(network, 0)
    found = space.canonical(params)
    assert found.attained
    values = singular_values(params["W3"], params["W2"], params["W1"])
    assert square(found.params) == pytest.approx(3 * np.sum(values ** (2 / 3)), rel=1e-10)
    p = found.params
    np.testing.assert_allclose(p["W1"] @ p["W1"].T, p["W2"].T @ p["W2"], atol=1e-9)
    np.testing.assert_allclose(p["W2"] @ p["W2"].T, p["W3"].T @ p["W3"], atol=1e-9)
    g = {f.name: f.group.random(jax.random.key(3), f.sizes, 0.3) for f in space.families}
    moved = space.canonical(space.act(params, g))
    assert moved.attained
    np.testing.assert_allclose(moved.params["W1"].T @ moved.params["W1"], p["W1"].T @ p["W1"], atol=1e-8)


def test_pairs_of_opposite_sign_meet_at_the_root_of_the_hyperbola():
    # u^2 - v^2 is kept: the least u^2 + v^2 is |u^2 - v^2|.
    case = CASES["u^2-v^2"]
    params = case.draw(0)
    found = case.space().canonical(params)
    difference = np.abs(np.asarray(params["u"]) ** 2 - np.asarray(params["v"]) ** 2)
    np.testing.assert_allclose(found.params["u"] ** 2 + found.params["v"] ** 2, difference, rtol=1e-9)


# --- shifts


@pytest.mark.slow
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_shifts_are_removed_wherever_they_are_listed(order):
    case = CASES["linear biases"]
    space = quotient(case.network, [case.families[i] for i in order])
    params = case.draw(0)
    found = space.canonical(params)
    assert found.attained
    np.testing.assert_allclose(found.params["b1"], 0, atol=1e-13)
    np.testing.assert_allclose(found.params["b2"], params["b2"] + params["W2"] @ params["b1"], atol=1e-11)
    assert gap(space.act(params, found.element), found.params) < 1e-12
    least = 2 * singular_values(params["W2"], params["W1"]).sum() + square(found.params["b2"])
    assert square(found.params) == pytest.approx(least, rel=1e-10)


def test_shifts_of_a_softmax_head_are_means():
    case = CASES["softmax bias"]
    params = case.draw(0)
    found = case.space().canonical(params).params
    np.testing.assert_allclose(found["W"], params["W"] - params["W"].mean(0), atol=1e-14)
    np.testing.assert_allclose(found["b"], params["b"] - params["b"].mean(), atol=1e-14)


@pytest.mark.slow
def test_chained_shifts_are_removed_in_any_order():
    @qx.architecture(params={"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "y k", "b3": "y"}, inputs={"x": "x"})
    def chain(p, x):
        return p["W3"] @ (p["W2"] @ (p["W1"] @ x + p["b1"]) + p["b2"]) + p["b3"]

    shifts = [
        qx.Symmetry("shift k", qx.Translation("k"), {"b2": "b2 + g", "b3": "b3 - W3 @ g"}),
        qx.Symmetry("shift h", qx.Translation("h"), {"b1": "b1 + g", "b2": "b2 - W2 @ g"}),
    ]
    network = chain.at(x=2, h=2, k=3, y=2)
    space = quotient(network, shifts)
    params = draw(network, 0)
    found = space.canonical(params)
    assert gap(space.act(params, found.element), found.params) < 1e-12
    np.testing.assert_allclose(found.params["b1"], 0, atol=1e-13)
    np.testing.assert_allclose(found.params["b2"], 0, atol=1e-13)


@pytest.mark.parametrize("name", ["linear wide-narrow", "batch norm"])
def test_newtons_steps_follow_the_gradient_of_what_is_minimised(name):
    """Of a one-sided family `|g theta|^2 / 2 - log |det g|`: the logarithm counts in the value as in the moments."""
    gauge = CASES[name].space("invariant")._metric.gauge
    arrays = {n: np.asarray(a) for n, a in CASES[name].draw(0).items()}
    rng = np.random.default_rng(0)
    units = {f.name: np.asarray(f.group.identity(f.sizes, float)) for f in gauge.linear}
    # Symmetric, as steps are, and no direction of zero trace.
    steps = {f: (xi := rng.normal(size=unit.shape)) + (xi.T if xi.ndim == 2 else 1) for f, unit in units.items()}
    value = lambda t: float(descent_at(gauge, *move(gauge, arrays, units, steps, t)).value)
    slope = (value(1e-5) - value(-1e-5)) / 2e-5
    expected = sum(float(np.sum(rest * steps[f])) for rests in moments_of(gauge, arrays) for f, rest in rests.items())
    assert gauge.characters
    assert slope == pytest.approx(expected, rel=1e-7)
