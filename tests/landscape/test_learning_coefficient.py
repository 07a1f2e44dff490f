"""Learning coefficients against what is published, and against volumes that are counted."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx


@qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})
def two(p, x):
    return p["B"] @ (p["A"] @ x)


MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})


def reduced_rank(M, H, N, r):
    """Aoyagi and Watanabe (2005), from its four cases: twice or eight times the coefficient, and the multiplicity."""
    if N + r <= M + H and M + r <= N + H and H + r <= M + N:
        odd = (M + H + N + r) % 2
        return (-((H + r) ** 2) - M**2 - N**2 + 2 * (H + r) * (M + N) + 2 * M * N + odd) / 8, 1 + odd
    if N + r > M + H:
        return (H * M - H * r + N * r) / 2, 1
    if M + r > N + H:
        return (H * N - H * r + M * r) / 2, 1
    assert H + r > M + N
    return M * N / 2, 1


def test_two_matrices_are_reduced_rank_regression():
    for M, H, N in itertools.product(range(1, 7), repeat=3):
        for r in range(min(M, H, N) + 1):
            found = qx.deep_linear_learning_coefficient([M, H, N], r)
            assert (found.value, found.multiplicity) == reduced_rank(M, H, N, r), (M, H, N, r)


def test_depth_without_hidden_choice_is_known():
    assert qx.deep_linear_learning_coefficient([3, 4], 2).value == 6  # a regular model: all parameters count
    for depth in range(1, 6):  # the square of a product of numbers: d normal crossings
        found = qx.deep_linear_learning_coefficient([1] * (depth + 1), 0)
        assert (found.value, found.multiplicity) == (0.5, depth)
    wide = qx.deep_linear_learning_coefficient([2, 50, 60, 3], 2)
    assert wide.value == qx.deep_linear_learning_coefficient([2, 3], 2).value == 3


SIZES = [
    {"x": 2, "h": 2, "y": 1},
    pytest.param({"x": 2, "h": 3, "y": 1}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_point_bounds_the_model_from_above_and_a_generic_one_of_full_rank_exactly(sizes):
    net = two.at(**sizes)
    space = qx.quotient(net, MIX, metric="euclidean")
    rng = np.random.default_rng(0)
    for rank in range(1, min(sizes.values()) + 1):
        B = rng.normal(size=(sizes["y"], sizes["h"]))
        thin = rng.normal(size=(sizes["h"], rank)) @ rng.normal(size=(rank, sizes["x"]))
        for A in (thin, rng.normal(size=(sizes["h"], sizes["x"]))):
            truth = B @ A
            loss = lambda p, truth=truth: jnp.sum((p["B"] @ p["A"] - truth) ** 2)
            found = qx.learning_coefficient_bound(space, {"A": jnp.asarray(A), "B": jnp.asarray(B)}, loss)
            seen = np.linalg.matrix_rank(truth)
            known = qx.deep_linear_learning_coefficient([sizes[axis] for axis in "xhy"], seen).value
            assert found.lower <= found.upper <= found.from_orbit
            assert known <= found.upper
            if A is not thin and seen == min(sizes.values()):
                assert found.exact
                assert found.upper == known


@pytest.mark.slow
def test_the_singular_point_bounds_better_than_its_orbit():
    space = qx.quotient(two.at(x=2, h=2, y=2), MIX, metric="euclidean")
    zero = {"A": jnp.zeros((2, 2)), "B": jnp.zeros((2, 2))}
    found = qx.learning_coefficient_bound(space, zero, lambda p: jnp.sum((p["B"] @ p["A"]) ** 2))
    known = qx.deep_linear_learning_coefficient([2, 2, 2], 0).value
    assert (found.orbit, found.curved, found.from_orbit) == (0, 0, 4)
    assert known == 1.5 <= found.upper == 2.0


@pytest.mark.slow
def test_bad_questions_are_refused():
    net = two.at(x=2, h=1, y=1)
    space, params = qx.quotient(net, MIX, metric="euclidean"), net.init(jax.random.key(0))
    with pytest.raises(qx.LandscapeError, match="needs a minimum"):
        qx.learning_coefficient_bound(space, params, lambda p: jnp.sum(p["A"]))
    with pytest.raises(qx.LandscapeError, match="changes along the orbit"):
        qx.learning_coefficient_bound(space, params, lambda p: sum(jnp.sum((p[n] - params[n]) ** 2) for n in p))
    with pytest.raises(qx.LandscapeError, match=r"widths \[2, 1\] and rank 2"):
        qx.deep_linear_learning_coefficient([2, 1], 2)
    with pytest.raises(qx.LandscapeError, match="quotient"):
        qx.learning_coefficient_bound(net, params)


@pytest.mark.slow
@pytest.mark.parametrize(("widths", "ends"), [([2, 2, 2], (-1.5, -3.5)), ([1, 2, 2, 1], (-4, -8))])
def test_volumes_that_are_counted_shrink_by_the_published_power(widths, ends):
    """The volume where |product|^2 < e, in a box, from random points: log V against log e has the slope lambda.

    Logarithms of multiplicities bend it; the fit takes them out.
    """
    rng = np.random.default_rng(1)
    known = qx.deep_linear_learning_coefficient(widths, 0)
    levels, counts, samples = np.logspace(*ends, 9), np.zeros(9), 6_000_000
    for _ in range(samples // 500_000):
        product = rng.uniform(-1, 1, (500_000, widths[1], widths[0]))
        for before, after in itertools.pairwise(widths[1:]):
            product = rng.uniform(-1, 1, (500_000, after, before)) @ product
        sizes = np.sum(product**2, (1, 2))
        counts += (sizes < levels[:, None]).sum(1)
    volume = np.log(counts / samples) - (known.multiplicity - 1) * np.log(-np.log(levels))
    slope = np.polyfit(np.log(levels), volume, 1)[0]
    assert slope == pytest.approx(known.value, rel=0.12)
    assert abs(slope - known.value) < 0.25 * abs(slope - sum(a * b for a, b in itertools.pairwise(widths)) / 2)
