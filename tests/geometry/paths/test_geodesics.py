"""Geodesics against closed forms: cones, spheres, straight lines, and the equations they should solve."""

import functools

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geometry.table import CASES, sampled
from quotax.errors import GeometryError
from quotax.geometry.canonical.gauge import gauge
from quotax.geometry.canonical.representative import canonical_of
from quotax.geometry.families.component import components
from quotax.geometry.paths.factor_geodesics import inv_pair, mix_pair
from quotax.geometry.paths.geodesic_equations import hamiltonian, kempf_ness
from quotax.geometry.paths.path import joined, moved, quadratic, straight
from quotax.geometry.projection.vertical import factors_at, horizontal, vertical
from quotax.lower import lower_action


def normal(seed, *shape, scale=1.0):
    return scale * jax.random.normal(jax.random.key(seed), shape)


def size(tree):
    return float(np.sqrt(sum(np.sum(np.square(a)) for a in jax.tree.leaves(tree))))


def gap(a, b):
    return size(jax.tree.map(lambda x, y: np.asarray(x) - np.asarray(y), a, b))


@functools.cache
def parts_of(name):
    return components(CASES[name].lowered)


@functools.cache
def gauge_of(name):
    return gauge(CASES[name].lowered, unique=True)


def canonical(name, seed=1):
    """Least norm on the orbit, and a horizontal velocity there."""
    case, parts = CASES[name], parts_of(name)
    point = canonical_of(gauge_of(name), case.draw(seed)).arrays
    velocity = horizontal(parts, factors_at(parts, point), point, case.draw(seed + 1))
    return point, {n: 0.5 * v for n, v in velocity.items()}


def drop_in_order(path):
    """How much smaller the error of the Taylor polynomial, relative to the step, is for half the step."""
    return float(path.taylor_error(0.02) / path.taylor_error(0.01))


# --- straight lines


def test_a_straight_path_is_exact_and_never_ends():
    w, v = normal(0, 3), normal(1, 3)
    path = straight({"w": w}, {"w": v})
    np.testing.assert_allclose(path.at(0.3)["w"], w + 0.3 * v)
    np.testing.assert_allclose(path.velocity(0.3)["w"], v)
    np.testing.assert_allclose(path.end["w"], w + v)
    assert bool(path.ok)
    assert float(path.exit_time) == np.inf
    assert float(path.error) == float(path.taylor_error(2.0)) == 0


# --- canonical representatives


def cone(u, v, du, dv, t):
    """`|u| = |v|` moving with equal radial speeds: `2 drho^2 + rho^2 (da^2 + db^2)`, a and b on spheres.

    With `r = sqrt(2) rho` and the angle `phi`, `phi'^2 = (|a'|^2 + |b'|^2) / 2`, that is a plane in polar coordinates.
    """
    rho = np.linalg.norm(u)
    a, b = u / rho, v / rho
    speed = a @ du
    ta, tb = (du - speed * a) / rho, (dv - speed * b) / rho
    wa, wb = np.linalg.norm(ta), np.linalg.norm(tb)
    turn = np.sqrt((wa**2 + wb**2) / 2)
    x, y = rho + t * speed, t * rho * turn
    phi = np.arctan2(y, x)
    return [
        np.hypot(x, y) * (np.cos(w / turn * phi) * c + np.sin(w / turn * phi) * d / w)
        for c, d, w in ((a, ta, wa), (b, tb, wb))
    ]


@pytest.mark.slow
@settings(max_examples=5)
@given(seed=st.integers(0, 1000))
def test_relu_units_move_on_cones(seed):
    point, velocity = canonical("relu", seed)
    path = kempf_ness(parts_of("relu"), point, velocity)
    assert bool(path.ok)
    assert float(path.error) < 1e-10
    unit = lambda p, i: (np.append(p["W1"][i], p["b1"][i]), np.asarray(p["W2"][:, i]))
    for t in (0.4, 1.0):
        there = path.end if t == 1 else path.at(t)
        for i in range(len(point["b1"])):
            exact = cone(*unit(point, i), *unit(velocity, i), t)
            np.testing.assert_allclose(unit(there, i)[0], exact[0], atol=1e-11)
            np.testing.assert_allclose(unit(there, i)[1], exact[1], atol=1e-11)
    np.testing.assert_allclose(there["b2"], point["b2"] + velocity["b2"])  # nothing moves it
    assert size(path.velocity(1.0)) == pytest.approx(size(velocity), rel=1e-10)
    assert drop_in_order(path) == pytest.approx(4, abs=0.2)


PRODUCT = {"u": jnp.array([1.0, -2.0, 0.5]), "v": jnp.array([1.0, 2.0, 0.5])}  # |u| = |v|


@pytest.mark.slow
@pytest.mark.parametrize(
    ("du", "exit_time"),
    [
        ([0.1, 0.2, 0.3], np.inf),
        ([0.0, 0.0, 0.0], np.inf),
        ([-1.7, 0.3, 0.1], 1 / 1.7),
        ([-1.7, 0.3, -0.51], 1 / 1.7),  # two coordinates cross, one after the other
        ([-1.7, 0.3, -40.0], 0.5 / 40),  # early
        ([-1.00001, 0.0, 0.0], 1 / 1.00001),  # late
        ([-0.999, 0.0, 0.0], np.inf),  # too late
    ],
)
def test_products_of_numbers_run_straight_through_zero(du, exit_time):
    du = jnp.array(du)
    path = kempf_ness(parts_of("u*v"), PRODUCT, {"u": du, "v": du * jnp.sign(PRODUCT["u"] * PRODUCT["v"])})
    np.testing.assert_allclose(path.end["u"], PRODUCT["u"] + du, atol=1e-12)
    assert float(path.exit_time) == pytest.approx(exit_time, rel=1e-7)
    assert bool(path.ok) == (exit_time > 1)


@pytest.mark.slow
def test_an_unwatched_path_goes_on():
    path = kempf_ness(parts_of("u*v"), PRODUCT, jax.tree.map(lambda a: -1.7 * a, PRODUCT), watch=False)
    assert bool(path.ok)
    np.testing.assert_allclose(path.end["u"], -0.7 * PRODUCT["u"], atol=1e-12)


@pytest.mark.slow
def test_a_square_linear_net_leaves_where_its_product_becomes_singular():
    # W1 = diag(s) A, W2 = B diag(s) with A, B orthogonal run straight, until the product loses rank at t = 0.5.
    case = CASES["linear"]
    family = lower_action(case.families[0].bind(case.model.params), case.model.params, {"h": 3, "x": 3, "y": 3})
    a, b = (jnp.linalg.qr(normal(seed, 3, 3))[0] for seed in (0, 1))
    s, ds = jnp.diag(jnp.array([2.0, 1.0, 3.0])), jnp.diag(jnp.array([0.3, -2.0, -0.1]))
    path = kempf_ness(components([family]), {"W1": s @ a, "W2": b @ s}, {"W1": ds @ a, "W2": b @ ds})
    assert float(path.exit_time) == pytest.approx(0.5, rel=1e-7)
    assert not bool(path.ok)


@pytest.mark.slow
def test_linear_nets_move_on_geodesics_of_the_balanced_ones():
    point, velocity = canonical("linear")
    path = kempf_ness(parts_of("linear"), point, velocity)
    balance = lambda p: p["W1"] @ p["W1"].T - p["W2"].T @ p["W2"]
    tree = jax.flatten_util.ravel_pytree(point)[1]
    for t in (0.0, 0.6, 1.0):
        there, speed = path.at(t), path.velocity(t)
        np.testing.assert_allclose(balance(there), 0, atol=1e-11)
        assert size(speed) == pytest.approx(size(velocity), rel=1e-10)
        # A geodesic of a submanifold has normal acceleration: a combination of the constraint's gradients.
        step = 1e-3
        ahead, behind = (jax.flatten_util.ravel_pytree(path.velocity(t + d))[0] for d in (step, -step))
        far = [jax.flatten_util.ravel_pytree(path.velocity(t + d))[0] for d in (2 * step, -2 * step)]
        bend = np.asarray((8 * (ahead - behind) - (far[0] - far[1])) / (12 * step))
        normals = jax.jacobian(lambda x: balance(tree(x)).ravel())(jax.flatten_util.ravel_pytree(there)[0])
        rest = bend - normals.T @ np.linalg.lstsq(normals.T, bend, rcond=1e-9)[0]
        assert np.linalg.norm(bend) > 0.1
        np.testing.assert_allclose(rest, 0, atol=1e-9)
    assert float(path.error) < 1e-10
    assert drop_in_order(path) == pytest.approx(4, abs=0.2)


@pytest.mark.slow
def test_the_product_does_not_know_how_its_factors_are_turned():
    point, velocity = canonical("linear")
    turn = jnp.linalg.qr(normal(5, 2, 2))[0]
    turned = lambda p: {"W1": turn @ p["W1"], "W2": p["W2"] @ turn.T}
    one, other = (kempf_ness(parts_of("linear"), f(point), f(velocity)) for f in (lambda p: p, turned))
    product = lambda p: p["W2"] @ p["W1"]
    np.testing.assert_allclose(product(one.end), product(other.end), atol=1e-12)


@pytest.mark.slow
def test_derivatives_batches_and_compilation():
    point, velocity = canonical("linear")
    parts = parts_of("linear")
    value = lambda v: jnp.sum(jnp.sin(kempf_ness(parts, point, v).end["W1"]))
    other = CASES["linear"].draw(7)
    slope = jax.jit(jax.grad(value))(velocity)
    along = sum(jnp.vdot(slope[n], other[n]) for n in slope)
    moved_by = lambda s: {n: v + s * other[n] for n, v in velocity.items()}
    path_end = jax.jit(value)
    h = 1e-4
    numerical = (path_end(moved_by(h)) - path_end(moved_by(-h))) / (2 * h)
    assert float(along) == pytest.approx(float(numerical), rel=1e-6)

    several = jax.tree.map(lambda v: jnp.stack([v, 0.5 * v, 0 * v]), velocity)
    paths = jax.jit(jax.vmap(lambda v: kempf_ness(parts, point, v)))(several)
    assert paths.ok.shape == (3,)
    assert bool(jnp.all(paths.ok))
    single = kempf_ness(parts, point, velocity)
    np.testing.assert_allclose(paths.end["W1"][0], single.end["W1"], atol=1e-12)
    np.testing.assert_allclose(paths.end["W1"][1], single.at(0.5)["W1"], atol=1e-12)
    np.testing.assert_allclose(paths.end["W1"][2], point["W1"])


@pytest.mark.slow
def test_float32_stays_and_is_accurate(strict_promotion):
    del strict_promotion
    point, velocity = jax.tree.map(lambda x: x.astype(jnp.float32), canonical("relu"))
    path = kempf_ness(parts_of("relu"), point, velocity)
    assert path.end["W1"].dtype == path.exit_time.dtype == path.error.dtype == jnp.float32
    exact = kempf_ness(parts_of("relu"), *jax.tree.map(lambda x: x.astype(jnp.float64), (point, velocity)))
    assert bool(path.ok)
    assert gap(path.end, exact.end) < 1e-5


@pytest.mark.slow
def test_rotations_leave_straight_lines_straight():
    # R^{n x r} / O(r): the geodesics of the Bures-Wasserstein metric.
    point, velocity = canonical("tied")
    path = kempf_ness(parts_of("tied"), point, velocity)
    np.testing.assert_allclose(path.end["W"], point["W"] + velocity["W"], atol=1e-13)


@pytest.mark.slow
def test_rows_that_are_only_scaled_move_on_spheres():
    point, velocity = canonical("batch norm")
    path = kempf_ness(parts_of("batch norm"), point, velocity)
    for w, v, end in zip(point["W"], velocity["W"], path.end["W"], strict=True):
        radius, speed = np.linalg.norm(w), np.linalg.norm(v)
        angle = speed / radius
        np.testing.assert_allclose(end, np.cos(angle) * w + np.sin(angle) / angle * v, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "family"), [("attention biases", "value bias"), ("exp", "shift h"), ("linear biases", "shift h")]
)
def test_families_without_a_moment_are_refused(name, family):
    case = CASES[name]
    with pytest.raises(GeometryError, match=f"`kempf_ness`: '{family}' .* use `hamiltonian`"):
        kempf_ness(parts_of(name), case.draw(0), case.draw(1))


REFUSED = ("attention biases", "exp", "linear biases")
# What has no closed form above: layers that share a weight, and pairs of coordinates beside matrices.
FOLLOWED = ("leaky", "rope")


@pytest.mark.parametrize("name", sampled((), FOLLOWED, [name for name in CASES if name not in REFUSED]))
def test_geodesics_keep_their_speed_and_stay_horizontal(name):
    parts, (point, velocity) = parts_of(name), canonical(name)
    path = kempf_ness(parts, point, velocity)
    assert float(path.error) < 1e-9
    speed = path.velocity(1.0)
    assert size(speed) == pytest.approx(size(velocity), rel=1e-10)
    assert size(vertical(parts, factors_at(parts, path.end), path.end, speed)) < 1e-10 * size(velocity)
    ahead = {n: point[n] + 0.01 * velocity[n] for n in point}
    assert gap(ahead, path.at(0.01)) < 1e-3 * size(velocity)


# --- any metric


def stereographic(arrays, covector):
    """The unit sphere minus its north pole: `4 |dx|^2 / (1 + |x|^2)^2`."""
    factor = (1 + jnp.sum(arrays["x"] ** 2)) ** 2 / 4
    return {"x": factor * covector["x"]}


def on_sphere(x):
    square = np.sum(np.square(x))
    return np.append(2 * np.asarray(x), square - 1) / (1 + square)


def sphere(x, v):
    metric = 4 / (1 + jnp.sum(x**2)) ** 2
    return hamiltonian(stereographic, {"x": x}, {"x": v}, {"x": metric * v})


@pytest.mark.slow
def test_geodesics_of_a_sphere_are_great_circles():
    x, v = jnp.array([0.3, -0.2]), jnp.array([0.5, 1.1])
    path = sphere(x, v)
    start, direction = jax.jvp(lambda x: jnp.append(2 * x, jnp.sum(x**2) - 1) / (1 + jnp.sum(x**2)), (x,), (v,))
    angle = np.linalg.norm(direction)
    for t in (0.5, 1.0):
        exact = np.cos(t * angle) * start + np.sin(t * angle) / angle * direction
        np.testing.assert_allclose(on_sphere(path.at(t)["x"]), exact, atol=1e-11)
    assert bool(path.ok)
    assert float(path.error) < 1e-10
    assert drop_in_order(path) == pytest.approx(4, abs=0.2)
    np.testing.assert_allclose(path.velocity(0.0)["x"], v, atol=1e-14)


def test_a_chart_that_ends_is_left_at_its_end():
    # From the south pole the path is tan(angle / 2) along a line: at the north pole when |2 v| t = pi.
    path = sphere(jnp.zeros(2), jnp.array([1.2, 1.6]))
    assert float(path.exit_time) == pytest.approx(np.pi / 4, rel=1e-8)
    assert not bool(path.ok)
    assert float(path.error) == np.inf


# --- inv and mix


def inv_sharp(arrays, covector):
    return {n: covector[n] @ (jnp.swapaxes(g, -1, -2) @ g) for n, g in arrays.items()}


@pytest.mark.slow
def test_inv_closed_form_solves_the_equation():
    g, v = normal(0, 2, 4, 3), normal(1, 2, 4, 3, scale=0.6)
    path = inv_pair({"G": g}, {"G": v})
    t_ = lambda x: jnp.swapaxes(x, -1, -2)

    @jax.jit
    @jax.vmap
    def states(t):
        one = jnp.ones_like(t)
        first = lambda t: jax.jvp(lambda t: path.at(t)["G"], (t,), (one,))[1]
        return path.at(t)["G"], first(t), jax.jvp(first, (t,), (one,))[1], path.velocity(t)["G"]

    x, dx, ddx, speed = states(jnp.array([0.0, 0.7, 1.5]))
    inverse = jnp.linalg.inv(t_(x) @ x)
    np.testing.assert_allclose(ddx, dx @ inverse @ (t_(dx) @ x + t_(x) @ dx) - x @ inverse @ t_(dx) @ dx, atol=1e-10)
    np.testing.assert_allclose(dx, speed, atol=1e-11)
    np.testing.assert_allclose(x[0], g, atol=1e-13)
    np.testing.assert_allclose(speed[0], v, atol=1e-13)
    np.testing.assert_allclose(path.acceleration["G"], ddx[0], atol=1e-10)
    assert bool(path.ok)
    assert float(path.error) < 1e-11
    assert drop_in_order(path) == pytest.approx(4, abs=0.2)


@pytest.mark.slow
def test_inv_against_hamilton():
    arrays = {"G": normal(0, 2, 4, 2), "H": normal(1, 2, 3, 2)}
    velocity = {"G": normal(2, 2, 4, 2, scale=0.5), "H": normal(3, 2, 3, 2, scale=0.5)}
    covector = {n: v @ jnp.linalg.inv(jnp.swapaxes(arrays[n], -1, -2) @ arrays[n]) for n, v in velocity.items()}
    exact = hamiltonian(inv_sharp, arrays, velocity, covector)
    assert gap(inv_pair(arrays, velocity).end, exact.end) < 1e-10


@pytest.mark.slow
def test_inv_of_numbers_and_multiples_is_exponential():
    path = inv_pair({"u": jnp.array([[2.0]])}, {"u": jnp.array([[-3.0]])})
    np.testing.assert_allclose(path.end["u"], 2 * np.exp([[-1.5]]), rtol=1e-13)
    g = normal(0, 5, 2)
    np.testing.assert_allclose(inv_pair({"G": g}, {"G": -0.7 * g}).end["G"], np.exp(-0.7) * g, atol=1e-13)


@pytest.mark.slow
def test_inv_is_invariant_and_has_derivatives_where_velocities_have_low_rank():
    g, v, m = normal(0, 4, 2), normal(1, 4, 2), normal(2, 2, 2)
    moved_end = inv_pair({"G": g @ m}, {"G": v @ m}).end["G"]
    np.testing.assert_allclose(moved_end, inv_pair({"G": g}, {"G": v}).end["G"] @ m, atol=1e-10)
    value = jax.jit(lambda v: jnp.sum(jnp.cos(inv_pair({"G": g}, {"G": v}).end["G"])))
    gradient = jax.jit(jax.grad(value))
    for at in (jnp.zeros_like(g), 0.3 * g, v.at[:, 1].set(0)):
        slope = gradient(at)
        numerical = (value(at + 1e-5 * v) - value(at - 1e-5 * v)) / 2e-5
        assert float(jnp.vdot(slope, v)) == pytest.approx(float(numerical), rel=1e-7)


def mix_sharp(arrays, covector):
    (g, h), (a, b) = arrays.values(), covector.values()
    solve = lambda x, y: jnp.swapaxes(jnp.linalg.solve(jnp.swapaxes(x, -1, -2) @ x, jnp.swapaxes(y, -1, -2)), -1, -2)
    return dict(zip(arrays, (solve(h, a), solve(g, b)), strict=True))


def mix_flat(arrays, velocity):
    (g, h), (a, b) = arrays.values(), velocity.values()
    gram = lambda x: jnp.swapaxes(x, -1, -2) @ x
    return dict(zip(arrays, (a @ gram(h), b @ gram(g)), strict=True))


@pytest.mark.slow
def test_mix_against_hamilton():
    arrays = {"G": normal(0, 4, 2), "H": normal(1, 3, 2)}
    velocity = {"G": normal(2, 4, 2, scale=0.3), "H": normal(3, 3, 2, scale=0.3)}
    path = mix_pair(arrays, velocity)
    exact = hamiltonian(mix_sharp, arrays, velocity, mix_flat(arrays, velocity))
    assert bool(path.ok)
    assert float(path.error) < 1e-10
    assert gap(path.end, exact.end) < 1e-10
    assert gap(path.acceleration, exact.acceleration) < 1e-10
    assert drop_in_order(path) == pytest.approx(4, abs=0.2)


@pytest.mark.slow
def test_mix_of_numbers_against_hamilton():
    # Horizontal or not: the metric of a pair of numbers is flat.
    arrays = {"G": normal(0, 3, 1, 1), "H": normal(1, 3, 1, 1)}
    velocity = {"G": normal(2, 3, 1, 1, scale=0.3), "H": normal(3, 3, 1, 1, scale=0.3)}
    path = mix_pair(arrays, velocity)
    exact = hamiltonian(mix_sharp, arrays, velocity, mix_flat(arrays, velocity))
    assert gap(path.end, exact.end) < 1e-10
    assert gap(path.velocity(0.5), exact.velocity(0.5)) < 1e-10
    assert gap(path.acceleration, exact.acceleration) < 1e-10


@pytest.mark.slow
def test_mix_of_numbers_when_horizontal():
    rate = jnp.array([0.4, -0.8, 0.0]).reshape(3, 1, 1)
    arrays = {"u": jnp.array([1.0, 2.0, 3.0]).reshape(3, 1, 1), "v": jnp.array([-1.0, 0.5, 2.0]).reshape(3, 1, 1)}
    path = mix_pair(arrays, {n: rate * a for n, a in arrays.items()})
    assert float(path.exit_time) == pytest.approx(1 / 1.6, rel=1e-14)
    assert not bool(path.ok)
    for n, a in arrays.items():
        np.testing.assert_allclose(path.at(0.6)[n], a * np.sqrt(1 + 1.2 * rate), rtol=1e-14)
        np.testing.assert_allclose(path.velocity(0.6)[n], a * rate / np.sqrt(1 + 1.2 * rate), rtol=1e-13)
        assert np.isnan(path.end[n]).ravel().tolist() == [False, True, False]
    value = lambda s: jnp.sum(mix_pair(arrays, {n: s * 0.1 * a for n, a in arrays.items()}).end["u"])
    assert float(jax.grad(value)(0.0)) == pytest.approx(0.6)  # 6 sqrt(1 + 0.2 s)


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.4, 0.3), (0.4, -0.8), (-3.0, -0.6)], ids=str)
def test_mix_leaves_its_domain(rates):
    # Diagonal factors do not know of one another: every entry is a pair of numbers.
    rate = jnp.diag(jnp.array(rates))
    arrays = {"G": jnp.diag(jnp.array([1.0, 2.0])), "H": jnp.diag(jnp.array([3.0, -0.5]))}
    path = mix_pair(arrays, {n: a @ rate for n, a in arrays.items()})
    exact = min((-1 / (2 * b) for b in rates if b < 0), default=np.inf)
    assert float(path.exit_time) == pytest.approx(exact, rel=1e-8)
    assert bool(path.ok) == (exact > 1)
    before = min(1.0, 0.9 * exact)
    expected = arrays["G"] @ jnp.sqrt(jnp.eye(2) + 2 * before * rate)
    np.testing.assert_allclose(path.at(before)["G"], expected, atol=1e-10)


def test_pairs_refuse_what_are_no_factors():
    with pytest.raises(GeometryError, match=r"`inv_pair`: .* 'u' has \(3,\) and \(3,\)"):
        inv_pair({"u": jnp.ones(3)}, {"u": jnp.ones(3)})
    factor = {"G": jnp.ones((3, 2)), "H": jnp.ones((3, 1))}
    with pytest.raises(GeometryError, match=r"`mix_pair`: takes two factors .* 'G' \(3, 2\), 'H' \(3, 1\)"):
        mix_pair(factor, factor)


# --- paths made of paths


def _rotated(angle, arrays):
    c, s = jnp.cos(angle), jnp.sin(angle)
    return {"tree": {"x": jnp.array([[c, -s], [s, c]]) @ arrays["x"] ** 2}}


@pytest.mark.slow
def test_moved_and_joined():
    x, v = jnp.array([0.3, -0.2]), jnp.array([0.5, 1.1])
    circle = sphere(x, v)
    path = moved(circle, _rotated, jnp.asarray(0.4))
    value = lambda t: _rotated(0.4, circle.at(t))["tree"]["x"]
    np.testing.assert_allclose(path.end["tree"]["x"], value(1.0))
    np.testing.assert_allclose(path.velocity(0.5)["tree"]["x"], (value(0.501) - value(0.499)) / 0.002, rtol=1e-4)
    assert drop_in_order(path) == pytest.approx(4, abs=0.2)

    late = kempf_ness(parts_of("u*v"), PRODUCT, jax.tree.map(lambda a: -1.25 * a, PRODUCT))
    both = joined(circle, late)
    assert set(both.end) == {"x", "u", "v"}
    assert float(both.exit_time) == pytest.approx(0.8, rel=1e-7)
    assert float(both.error) == max(float(circle.error), float(late.error))
    np.testing.assert_allclose(both.at(0.5)["x"], circle.at(0.5)["x"])
    np.testing.assert_allclose(both.velocity(0.5)["u"], -1.25 * PRODUCT["u"], atol=1e-12)


def test_the_parabola_is_a_path():
    circle = sphere(jnp.array([0.3, -0.2]), jnp.array([0.05, 0.11]))
    path = quadratic(circle.start, circle.direction, circle.acceleration)
    assert gap(path.end, circle.end) == pytest.approx(float(circle.taylor_error(1.0)) * size(circle.direction))
    assert gap(path.end, circle.taylor(1.0)) == 0
