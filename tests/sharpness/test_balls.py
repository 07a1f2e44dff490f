"""Balls other than the Euclidean one: scaled, masked, boxes, one for every array, and along geodesics."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.errors import SharpnessError
from quotax.sharpness import sharpness
from sharpness.pairs import Pairs, product_loss, straight
from sharpness.test_quadratics import dense_maximum, examples, problem, quadratic

THETA = np.random.default_rng(7).normal(size=12) * np.arange(1, 13) ** 0.5


def shifted(p, data):
    """A quadratic in the distance from THETA, so that the centre of every ball below is THETA."""
    A, b = data
    z = p - THETA
    return b[0] @ z + 0.5 * z @ A[0] @ z


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["indefinite", "convex", "hard"])
def test_adaptive_ball_is_a_ball_in_scaled_coordinates(kind):
    A, b, radius = problem(3, 12, kind)
    S = np.diag(np.abs(THETA))
    found = sharpness(shifted, jnp.asarray(THETA), radius, batch=examples(A, b), adaptive=True, steps=150)
    assert found.value == pytest.approx(dense_maximum(S @ A @ S, S @ b, radius), rel=1e-6)
    assert np.linalg.norm(np.asarray(found.perturbation) / THETA) <= radius * (1 + 1e-6)


@pytest.mark.slow
def test_zeros_do_not_move_in_an_adaptive_ball():
    found = sharpness(lambda p: jnp.sum(p), jnp.asarray([1.0, 0.0, -2.0]), 0.1, adaptive=True)
    assert found.perturbation[1] == 0
    assert found.value == pytest.approx(0.1 * 5**0.5, rel=1e-6)


TREE = {"block": {"W": jnp.ones((2, 2)), "b": jnp.full(2, 3.0)}, "head": jnp.full(3, -2.0)}


def weighted(p):
    return jnp.sum(p["block"]["W"]) + 2 * jnp.sum(p["block"]["b"]) + 3 * jnp.sum(p["head"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mask", "squares"),
    [
        ("block", 4 * 1 + 2 * 4),
        (["block/b", "head"], 2 * 4 + 3 * 9),
        (lambda name: name.endswith("W"), 4),
        ({"block": {"W": jnp.eye(2), "b": 0}, "head": jnp.asarray([1, 0, 0])}, 2 + 9),
    ],
    ids=["subtree", "names", "predicate", "tree"],
)
def test_a_mask_holds_what_it_leaves_out(mask, squares):
    found = sharpness(weighted, TREE, 0.5, mask=mask)
    assert found.value == pytest.approx(0.5 * squares**0.5, rel=1e-6)


@pytest.mark.slow
def test_every_array_has_its_own_ball():
    # Linear: each array moves along its own gradient, by the radius times its own norm.
    parts = [(2 * 1.0, 2.0), (18**0.5, 2 * 2**0.5), (12**0.5, 3 * 3**0.5)]  # norm of the array, of its gradient
    found = sharpness(weighted, TREE, 0.1, per_layer=True)
    assert found.value == pytest.approx(0.1 * sum(size * slope for size, slope in parts), rel=1e-9)
    for leaf, moved in zip(jax.tree.leaves(TREE), jax.tree.leaves(found.perturbation), strict=True):
        assert jnp.linalg.norm(moved) <= 0.1 * jnp.linalg.norm(leaf) * (1 + 1e-9)
    assert found.status == "stationary"
    alone = sharpness(weighted, TREE, 0.1, per_layer=True, mask="head")
    assert alone.value == pytest.approx(0.1 * 12**0.5 * 27**0.5, rel=1e-9)
    adaptive = sharpness(weighted, TREE, 0.1, per_layer=True, adaptive=True)
    assert adaptive.value == pytest.approx(0.1 * (2 + 6 * 2**0.5 + 6 * 3**0.5), rel=1e-9)


def test_a_box_of_a_convex_quadratic_is_won_at_a_corner():
    for seed in range(6):
        A, b, radius = problem(seed, 9, "convex")
        corners = radius * np.array(list(itertools.product([-1.0, 1.0], repeat=9)))
        exact = np.max(corners @ b + 0.5 * np.einsum("ci,ij,cj->c", corners, A, corners))
        found = sharpness(quadratic, jnp.zeros(9), radius, batch=examples(A, b), norm="linf", restarts=48, budget=960)
        assert found.value == pytest.approx(exact, rel=1e-9), seed
        assert np.max(np.abs(found.perturbation)) <= radius * (1 + 1e-9)


def test_a_box_of_a_separable_quadratic_is_solved_entry_by_entry():
    rng = np.random.default_rng(0)
    a, b, radius = -np.abs(rng.normal(size=30)) - 0.1, rng.normal(size=30), 0.7
    best = np.clip(-b / a, -radius, radius)
    found = sharpness(quadratic, jnp.zeros(30), radius, batch=examples(np.diag(a), b), norm="linf", steps=200)
    assert found.value == pytest.approx(np.sum(b * best + 0.5 * a * best**2), rel=1e-6)
    assert found.status == "stationary"
    np.testing.assert_allclose(found.perturbation, best, atol=2e-3)


def test_an_adaptive_box_is_relative_to_each_parameter():
    found = sharpness(weighted, TREE, 0.1, norm="linf", adaptive=True)
    assert found.value == pytest.approx(0.1 * (4 + 2 * 6 + 3 * 6), rel=1e-9)
    assert np.all(np.diff(found.history) >= 0)


@pytest.mark.slow
def test_box_sharpness_is_at_least_that_of_the_ball_inside():
    # Negative control of the norm: the box holds the ball, and the ball of radius sqrt(d) r holds the box.
    A, b, radius = problem(1, 12, "convex")
    box = sharpness(quadratic, jnp.zeros(12), radius, batch=examples(A, b), norm="linf", restarts=16, budget=320).value
    inner = sharpness(quadratic, jnp.zeros(12), radius, batch=examples(A, b)).value
    outer = sharpness(quadratic, jnp.zeros(12), radius * 12**0.5, batch=examples(A, b)).value
    assert inner < box < outer


# --- geodesic balls


def diagonal(seed, d=5, n=9, orthogonal=True):
    rng = np.random.default_rng(seed)
    X = np.linalg.qr(rng.normal(size=(n, d)))[0] if orthogonal else rng.normal(size=(n, d))
    y = rng.normal(size=n)
    params = {"u": jnp.asarray(rng.uniform(0.7, 1.5, d)), "v": jnp.asarray(rng.uniform(0.7, 1.5, d))}
    return params, (jnp.asarray(X)[None], jnp.asarray(y)[None])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_diagonal_nets_in_the_mixed_metric(seed):
    # X^T X = I: S = 2 sqrt(2) rho |beta0 - beta*| + 2 rho^2, inside the domain.
    params, data = diagonal(seed)
    rho = 0.05
    error = np.asarray(params["u"] * params["v"]) - np.asarray(data[0][0]).T @ np.asarray(data[1][0])
    found = sharpness(product_loss, params, rho, space=Pairs("mix", 5), ball="geodesic", batch=data)
    assert found.value == pytest.approx(2 * 2**0.5 * rho * np.linalg.norm(error) + 2 * rho**2, rel=1e-8)
    assert found.invariant is True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_diagonal_nets_with_general_data(seed):
    params, data = diagonal(seed, orthogonal=False)
    X, y = np.asarray(data[0][0]), np.asarray(data[1][0])
    residual = X @ np.asarray(params["u"] * params["v"]) - y
    exact = dense_maximum(2 * X.T @ X, 2 * X.T @ residual, 2**0.5 * 0.05)
    found = sharpness(product_loss, params, 0.05, space=Pairs("mix", 5), ball="geodesic", batch=data)
    assert found.value == pytest.approx(exact, rel=1e-8)


SCALAR = {"u": jnp.asarray([1.5]), "v": jnp.asarray([0.8])}
ONE = (jnp.ones((1, 1, 1)), jnp.full((1, 1), 2.0))


@pytest.mark.slow
def test_the_scalar_case_in_the_invariant_metric():
    found = sharpness(product_loss, SCALAR, 0.1, space=Pairs("inv", 1), ball="geodesic", batch=ONE)
    assert found.value == pytest.approx(0.2782466, abs=1e-7)
    end = Pairs("inv", 1).at(SCALAR).geodesic(found.perturbation).end
    assert float(product_loss(end, ONE) - product_loss(SCALAR, ONE)) == pytest.approx(found.value)


@pytest.mark.slow
def test_a_ball_beyond_the_domain_is_searched_up_to_its_edge():
    # beta = 1.2 shrinks to 0, where the metric ends, long before the radius is used up; the loss there is 4.
    found = sharpness(product_loss, SCALAR, 3.0, space=Pairs("mix", 1), ball="geodesic", batch=ONE)
    other_side = (1.2 + 3 * 2**0.5 - 2) ** 2 - 0.64
    assert found.value == pytest.approx(other_side, rel=1e-6)  # the other side is complete, and higher
    found = sharpness(product_loss, SCALAR, 1.3, space=Pairs("mix", 1), ball="geodesic", batch=ONE)
    assert found.status == "domain"
    assert found.value == pytest.approx(4 - 0.64, rel=1e-6)
    path = Pairs("mix", 1).at(SCALAR).geodesic(found.perturbation)
    assert bool(path.ok)
    assert np.isfinite(found.value)


@pytest.mark.slow
def test_straight_steps_end_elsewhere_than_geodesics():
    # Negative control: straight horizontal steps in the same metric end elsewhere.
    straight_steps = sharpness(product_loss, SCALAR, 0.1, space=Pairs("inv", 1), batch=ONE)
    assert abs(straight_steps.value - 0.2782466) > 1e-3


@pytest.mark.slow
def test_whitened_coordinates_agree_with_the_metric_itself():
    params, data = diagonal(1, orthogonal=False)
    whitened = Pairs("mix", 5)
    raised = straight(whitened)
    strip = raised.at
    raised.at = lambda p: _without(strip(p), "whiten", "unwhiten")
    one = sharpness(product_loss, params, 0.1, space=whitened, batch=data, steps=100)
    two = sharpness(product_loss, params, 0.1, space=raised, batch=data, steps=100)
    assert one.value == pytest.approx(two.value, rel=1e-7)
    assert float(whitened.at(params).norm(one.perturbation)) == pytest.approx(0.1, rel=1e-6)


def _without(point, *names):
    for name in names:
        delattr(point, name)
    return point


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ball": "round"}, "ball= 'linear', 'geodesic' or 'full', got 'round'"),
        ({"ball": "geodesic"}, "ball='geodesic' without a space"),
        ({"norm": "l1"}, "norm= one of 'l2', 'linf', got 'l1'"),
        ({"norm": "linf", "per_layer": True}, "drop per_layer="),
        ({"adaptive": True, "space": Pairs("inv", 1)}, "ball='full' to use the space for its orbits only"),
        ({"mask": "w"}, "mask= names 'w'; the arrays are u, v"),
        ({"mask": {"u": 1}}, "a tree of zeros and ones like the parameters"),
        ({"mask": {"u": 0.5, "v": 1}}, "mask['u'] has other values"),
        ({"mask": {"u": jnp.ones(3), "v": 1}}, "mask['u'] has shape (3,), the array (1,)"),
        ({"mask": []}, "mask= lets nothing move"),
        ({"ball": "geodesic", "space": straight(Pairs("inv", 1))}, "has no geodesic(v)"),
        ({"representatives": 2}, "needs space= with `act` and `random_element`"),
    ],
)
def test_bad_input_is_refused_in_the_words_of_the_call(settings, message):
    with pytest.raises(SharpnessError) as error:
        sharpness(product_loss, SCALAR, 0.1, batch=ONE, **settings)
    assert message in str(error.value)
