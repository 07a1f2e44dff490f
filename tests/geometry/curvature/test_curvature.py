"""Curvature of quotients against closed forms, dense linear algebra, and formulas that share nothing with the code."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from geometry.table import CASES, certificates
from quotax.errors import MetricWarning
from quotax.geometry.curvature import riemann as cv
from quotax.geometry.families.component import components
from quotax.trees import nest


def named_dot(u, v):
    return sum(float(jnp.vdot(u[n], v[n])) for n in u)


def subtract(u, v):
    return {n: u[n] - v[n] for n in u}


def draws(case, *seeds):
    return [case.draw(seed) for seed in seeds]


@functools.cache
def sized(name, **sizes):
    """The row `name` at other sizes, with its invariant metric."""
    case = CASES[name]
    net = case.model.at(**sizes)
    return net, qx.quotient(net, case.families, "invariant", verified=certificates(case.families))


def draw(net, seed):
    rng = np.random.default_rng(seed)
    return {n: jnp.asarray(rng.normal(size=shape)) for n, shape in net.shapes.items()}


# --- isometries of a flat space


def lyapunov_oracle(w, x, y):
    """R^{r x n} / O(r): 3 c^T Gram^-1 c over the area, with a dense basis of rotations and NumPy's solver."""
    r = len(w)
    basis = []
    for i in range(r):
        for j in range(i + 1, r):
            b = np.zeros((r, r))
            b[i, j], b[j, i] = 1, -1
            basis.append(b)
    fields = np.stack([(b @ w).ravel() for b in basis])
    project = lambda v: v - (fields.T @ np.linalg.solve(fields @ fields.T, fields @ v.ravel())).reshape(v.shape)
    x, y = project(x), project(y)
    c = np.array([np.sum((b @ x) * y) for b in basis])
    area = np.sum(x * x) * np.sum(y * y) - np.sum(x * y) ** 2
    return 3 * c @ np.linalg.solve(fields @ fields.T, c) / area


@pytest.mark.parametrize(("h", "x"), [(2, 4), (3, 4), (3, 3)])
def test_rotations_against_dense_algebra(h, x):
    case = CASES["tied"]
    net = case.model.at(h=h, x=x)
    space = qx.quotient(net, case.families, verified=certificates(case.families))
    for seed in range(3):
        w, u, v = (draw(net, 3 * seed + i) for i in range(3))
        expected = lyapunov_oracle(*(np.asarray(a["W"]) for a in (w, u, v)))
        assert float(space.sectional_curvature(w, u, v)) == pytest.approx(expected, rel=1e-10)


def riemann_of_matrix(metric, point):
    """`<R(d_i, d_j) d_k, d_l>` in coordinates, from the matrix of the metric and its first two derivatives."""
    g = np.asarray(metric(point))
    d = np.asarray(jax.jacfwd(metric)(point))
    dd = np.asarray(jax.jacfwd(jax.jacfwd(metric))(point))
    first = (np.einsum("jki->ijk", d) + np.einsum("ikj->ijk", d) - np.einsum("ijk->ijk", d)) / 2  # [ij, k]
    gamma = np.einsum("ijk,kl->ijl", first, np.linalg.inv(g))
    second = np.einsum("jlik->ijkl", dd) + np.einsum("ikjl->ijkl", dd)
    second = (second - np.einsum("jkil->ijkl", dd) - np.einsum("iljk->ijkl", dd)) / 2
    return second - np.einsum("jkm,ilm->ijkl", gamma, first) + np.einsum("ikm,jlm->ijkl", gamma, first)


# The orbit of W is the matrix W^T W, and the quotient metric is that of Bures and Wasserstein: geomstats states it on
# the matrices themselves, and its curvature follows from the textbook formula in coordinates of symmetric matrices.
@pytest.mark.slow
def test_rotations_against_the_metric_of_bures_and_wasserstein():
    from quotax.geomstats_jax import activate

    activate()
    from geomstats.geometry.spd_matrices import SPDBuresWassersteinMetric, SPDMatrices

    case, n = CASES["tied"], 3
    net = case.model.at(h=n, x=n)
    space = qx.quotient(net, case.families, verified=certificates(case.families))
    spd = SPDMatrices(n, equip=False)
    metric = SPDBuresWassersteinMetric(spd)
    rows, columns = np.triu_indices(n)

    def symmetric(c):
        m = jnp.zeros((n, n)).at[rows, columns].set(c)
        return m + m.T - jnp.diag(jnp.diagonal(m))

    basis = jax.vmap(symmetric)(jnp.eye(len(rows)))

    def matrix(c):
        return jax.vmap(lambda a: jax.vmap(lambda b: metric.inner_product(a, b, symmetric(c)))(basis))(basis)

    w, u, v = (draw(net, i)["W"] for i in (4, 5, 6))
    push = lambda t: (t.T @ w + w.T @ t)[rows, columns]
    x, y = np.asarray(push(u)), np.asarray(push(v))
    point = (w.T @ w)[rows, columns]
    g, r = np.asarray(matrix(point)), riemann_of_matrix(matrix, point)
    area = (x @ g @ x) * (y @ g @ y) - (x @ g @ y) ** 2
    expected = np.einsum("ijkl,i,j,k,l", r, x, y, y, x) / area
    found = space.sectional_curvature({"W": w}, {"W": u}, {"W": v})
    norm = space.norm({"W": w}, space.horizontal({"W": w}, {"W": u}))
    assert expected > 1e-3
    # The scale of a metric divides its curvature; geomstats' is a multiple of the quotient metric.
    scale = float(x @ g @ x) / float(norm) ** 2
    assert float(found) == pytest.approx(expected * scale, rel=1e-10)


def test_shifts_leave_the_quotient_flat():
    case = CASES["softmax bias"]
    params, x, y, z = draws(case, 0, 1, 2, 3)
    assert float(case.space().sectional_curvature(params, x, y)) == pytest.approx(0, abs=1e-14)
    tensor = case.space().curvature(params, x, y, z)
    assert max(float(jnp.max(jnp.abs(a))) for a in tensor.values()) < 1e-13


# --- balanced representatives


# h = 1: balanced pairs are (r a, r b) with unit a, b, and 2 dr^2 + r^2 (|da|^2 + |db|^2): a cone over two spheres of
# curvature 2, at the distance s = sqrt(2) r from its tip. Planes of one sphere: (2 - 1) / s^2; mixed: -1 / s^2; with
# the ray: 0.
@pytest.mark.slow
def test_matrices_of_rank_one_are_a_cone_over_spheres():
    net, space = sized("linear", h=1, x=3, y=3)
    params = draw(net, 1)
    w1, w2 = params["W1"][0], params["W2"][:, 0]
    square = 2 * float(jnp.linalg.norm(w1) * jnp.linalg.norm(w2))
    left = np.linalg.svd(np.asarray(w1)[None])[2][1:]
    right = np.linalg.svd(np.asarray(w2)[None])[2][1:]
    one = lambda a: {"W1": jnp.asarray(a)[None], "W2": jnp.zeros((3, 1))}
    two = lambda b: {"W1": jnp.zeros((1, 3)), "W2": jnp.asarray(b)[:, None]}
    k = functools.partial(space.sectional_curvature, params)
    assert float(k(one(left[0]), one(left[1]))) == pytest.approx(1 / square, rel=1e-10)
    assert float(k(two(right[0]), two(right[1]))) == pytest.approx(1 / square, rel=1e-10)
    assert float(k(one(left[0]), two(right[1]))) == pytest.approx(-1 / square, rel=1e-10)
    assert float(k(one(left[0]), params)) == pytest.approx(0, abs=1e-10)


# A scaling without a counterpart leaves the direction of each row: spheres of radius one, and nothing between two rows.
def test_directions_are_spheres():
    case = CASES["batch norm"]
    space = case.space("invariant")
    params = case.draw(0)
    row = lambda i, seed: {"W": jnp.zeros((2, 3)).at[i].set(case.draw(seed)["W"][i]), "b": jnp.zeros(2)}
    assert float(space.sectional_curvature(params, row(0, 1), row(0, 2))) == pytest.approx(1, rel=1e-10)
    assert float(space.sectional_curvature(params, row(0, 1), row(1, 2))) == pytest.approx(0, abs=1e-12)


def frame(p):
    """The balancing element of W2 W1, by the geometric mean of the two Gram matrices, in closed form."""

    def root(s):
        values, vectors = jnp.linalg.eigh(s)
        return (vectors * jnp.sqrt(values)) @ vectors.T

    r = root(p["W1"] @ p["W1"].T)
    inverse = jnp.linalg.inv(r)
    return root(inverse @ root(r @ p["W2"].T @ p["W2"] @ r) @ inverse)


def moving_frame(p, u, v):
    a = frame(p)
    inverse = jnp.linalg.inv(a)
    return jnp.sum((a @ u["W1"]) * (a @ v["W1"])) + jnp.sum((u["W2"] @ inverse) * (v["W2"] @ inverse))


SMALL = {"h": 1, "x": 2, "y": 2}


def pair(sizes):
    case = CASES["linear"]
    net = case.model.at(**sizes)
    lowered = qx.quotient(net, case.families, "invariant", verified=certificates(case.families)).families
    return net, components(lowered)


# Gauss's and O'Neill's formulas at the balanced representative, against derivatives of a metric written down here.
@pytest.mark.slow
def test_gauss_and_oneill_against_derivatives_of_the_metric():
    net, parts = pair({"h": 2, "x": 3, "y": 2})
    metric = cv.from_inner(moving_frame, parts)
    p, x, y, z = (draw(net, i) for i in range(4))
    a = frame(p)
    inverse = jnp.linalg.inv(a)
    up = lambda v: {"W1": a @ v["W1"], "W2": v["W2"] @ inverse}
    balanced = up(p)
    np.testing.assert_allclose(balanced["W1"] @ balanced["W1"].T, balanced["W2"].T @ balanced["W2"], atol=1e-12)
    hx, hy = metric.horizontal(p, x), metric.horizontal(p, y)
    area = moving_frame(p, hx, hx) * moving_frame(p, hy, hy) - moving_frame(p, hx, hy) ** 2
    value = moving_frame(p, cv.tensor(metric, p, hx, hy, hy), hx) / area
    assert float(cv.flat_sectional(parts, balanced, up(x), up(y))) == pytest.approx(float(value), rel=1e-9)
    found, expected = up(cv.tensor(metric, p, x, y, z)), cv.flat_tensor(parts, balanced, up(x), up(y), up(z))
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-9)


# O'Neill's formula, with A from covariant derivatives of the projections, against the curvature of a slice.
@pytest.mark.slow
def test_oneills_formula_in_a_curved_total_space():
    net, parts = pair(SMALL)
    metric = cv.from_inner(moving_frame, parts)
    p, *vectors = (draw(net, i) for i in range(4))
    x, y, z = (metric.horizontal(p, v) for v in vectors)
    a = functools.partial(cv.integrability, metric, p)
    total = cv.tensor(cv.above(metric), p, x, y, z)
    terms = [(2, a(z, a(x, y))), (-1, a(x, a(y, z))), (1, a(y, a(x, z)))]
    total = {n: total[n] + sum(c * t[n] for c, t in terms) for n in total}
    expected = cv.tensor(metric, p, x, y, z)
    for name, array in metric.horizontal(p, total).items():
        np.testing.assert_allclose(array, expected[name], atol=1e-9)
    assert max(float(jnp.max(jnp.abs(array))) for array in expected.values()) > 1e-3


@pytest.mark.slow
def test_integrability_above_a_flat_space():
    case = CASES["tied"]
    parts = components(case.lowered)
    metric = cv.from_inner(lambda a, u, v: jnp.sum(u["W"] * v["W"]), parts)
    p, x, y = draws(case, 0, 1, 2)
    a_xy = cv.flat_integrability(parts, p, x, y)
    np.testing.assert_allclose(a_xy["W"], cv.integrability(metric, p, x, y)["W"], atol=1e-12)
    hx, hy = metric.horizontal(p, x), metric.horizontal(p, y)
    swapped = cv.flat_integrability(parts, p, hy, hx)["W"]
    np.testing.assert_allclose(cv.flat_integrability(parts, p, hx, hy)["W"], -swapped, atol=1e-12)


# --- laws of the tensor, through the space


@pytest.mark.slow
@pytest.mark.parametrize(("name", "metric"), [("tied", "euclidean"), ("linear", "invariant")])
def test_symmetries_of_the_tensor(name, metric):
    case, space = CASES[name], CASES[name].space(metric)
    p, *vectors = draws(case, 0, 1, 2, 3, 4)
    if name == "tied":  # 4 by 2 has one rotation: take vectors that see it
        assert space.fiber_dim == 1
    x, y, z, w = (space.horizontal(p, v) for v in vectors)

    def r(a, b, c, d):
        return float(space.inner(p, space.curvature(p, a, b, c), d))

    value = r(x, y, z, w)
    assert abs(value) > 1e-4
    np.testing.assert_allclose([-r(y, x, z, w), -r(x, y, w, z), r(z, w, x, y)], [value] * 3, atol=1e-11)
    assert value + r(y, z, x, w) + r(z, x, y, w) == pytest.approx(0, abs=1e-11)
    area = float(space.inner(p, x, x) * space.inner(p, y, y) - space.inner(p, x, y) ** 2)
    assert r(x, y, y, x) / area == pytest.approx(float(space.sectional_curvature(p, x, y)), rel=1e-9)
    assert float(space.sectional_curvature(p, x, {n: 2 * a for n, a in x.items()})) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "scale"), [("relu", 1.0), ("attention", 0.5)])
def test_curvature_does_not_depend_on_the_representative(name, scale):
    case, space = CASES[name], CASES[name].space("invariant")
    p, x, y = (nest(v) for v in draws(case, 0, 1, 2))
    g = space.random_element(jax.random.key(5), scale=scale)
    move = lambda q: space.act(q, g)
    moved, (u, v) = move(p), [jax.jvp(move, (p,), (t,))[1] for t in (x, y)]
    here, there = space.sectional_curvature(p, x, y), space.sectional_curvature(moved, u, v)
    assert abs(float(here)) > 1e-5
    assert float(there) == pytest.approx(float(here), rel=1e-7)


# A shift that a weight carries: horizontal vectors are not tangent to the representatives with b1 = 0, the flat
# formulas do not hold, and derivatives of the metric take their place.
@pytest.mark.slow
def test_curvature_with_a_carried_shift():
    net, space = sized("linear biases", h=1, x=2, y=2)
    assert not space._metric.tangent
    p, x, y = (draw(net, i) for i in range(3))
    g = space.random_element(jax.random.key(5))
    move = lambda q: space.act(q, g)
    u, v = (jax.jvp(move, (p,), (t,))[1] for t in (x, y))
    here, there = space.sectional_curvature(p, x, y), space.sectional_curvature(move(p), u, v)
    assert abs(float(here)) > 1e-4
    assert float(there) == pytest.approx(float(here), rel=1e-7)


# --- the connection form


@pytest.mark.slow
def test_the_connection_reproduces_generators():
    for name, metric in (
        ("tied", "euclidean"),
        ("linear", "invariant"),
        ("relu", "invariant"),
        ("attention", "invariant"),
    ):
        case, space = CASES[name], CASES[name].space(metric)
        params = case.tree(0)
        xi = {}
        for i, family in enumerate(space.families):
            shape = family.group.coordinate_shape(family.sizes)
            xi[family.name] = family.group.algebra(jax.random.normal(jax.random.key(i), shape), family.sizes)
        found = space.connection(params, space.field(params, xi))
        for key, value in xi.items():
            np.testing.assert_allclose(found[key], value, atol=1e-10)
        horizontal = space.horizontal(params, case.tree(1))
        for value in space.connection(params, horizontal).values():
            np.testing.assert_allclose(value, 0, atol=1e-10)


# omega(g . theta; g_* v) = g omega(theta; v) g^-1: the connection of an invariant metric is a principal one.
@pytest.mark.parametrize(("name", "metric"), [("tied", "euclidean"), ("linear", "invariant"), ("relu", "invariant")])
def test_the_connection_is_equivariant(name, metric):
    case, space = CASES[name], CASES[name].space(metric)
    params, v = case.draw(0), case.draw(1)
    g = space.random_element(jax.random.key(2))
    move = lambda p: space.act(p, g)
    here, there = space.connection(params, v), space.connection(move(params), jax.jvp(move, (params,), (v,))[1])
    for family in space.families:
        element, xi = g[family.name], here[family.name]
        turned = element @ xi @ jnp.linalg.inv(element) if family.group.layout == "matrix" else xi
        np.testing.assert_allclose(there[family.name], turned, atol=1e-9)


def test_the_euclidean_connection_of_gl_is_not_equivariant():
    case = CASES["linear"]
    parts_space = case.space("invariant")
    params, v = case.draw(0), case.draw(1)
    g = parts_space.random_element(jax.random.key(2))
    with pytest.warns(MetricWarning):
        space = qx.quotient(case.network, case.families, verified=certificates(case.families))
    move = lambda p: space.act(p, g)
    (here,) = space.connection(params, v).values()
    (there,) = space.connection(move(params), jax.jvp(move, (params,), (v,))[1]).values()
    (element,) = g.values()
    assert float(jnp.max(jnp.abs(there - element @ here @ jnp.linalg.inv(element)))) > 1e-2
