"""`gs.linalg` against numpy and scipy, under the transformations, and at the points where decompositions break."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from quotax.geomstats_jax import activate
from quotax.geomstats_jax.matrix_equations import nearest_rotation

gs = activate()
rng = np.random.default_rng(1)
X = rng.normal(size=(4, 4)) / 2
GENERAL = scipy.linalg.expm(X)
SPD = X @ X.T + np.eye(4)
MULTIPLE = np.diag([2.0, 2.0, 2.0, 3.0])
HERMITIAN = SPD + 1j * (X - X.T) / 4
BATCH = np.stack([SPD, GENERAL, MULTIPLE])
DIRECTION = rng.normal(size=(4, 4))

FUNCTIONS = {
    "expm": (gs.linalg.expm, scipy.linalg.expm),
    "logm": (gs.linalg.logm, scipy.linalg.logm),
    "sqrtm": (gs.linalg.sqrtm, scipy.linalg.sqrtm),
    "power": (
        lambda x: gs.linalg.fractional_matrix_power(x, 0.3),
        lambda x: scipy.linalg.fractional_matrix_power(x, 0.3),
    ),
    "unitary": (lambda x: gs.linalg.polar(x)[0], lambda x: scipy.linalg.polar(x)[0]),
    "definite": (lambda x: gs.linalg.polar(x, side="left")[1], lambda x: scipy.linalg.polar(x, side="left")[1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("matrix", [SPD, GENERAL, MULTIPLE, HERMITIAN], ids=["spd", "general", "multiple", "hermitian"])
def test_matrix_functions_agree_with_scipy(name, matrix):
    function, oracle = FUNCTIONS[name]
    np.testing.assert_allclose(function(matrix), oracle(matrix), atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_matrix_functions_of_batches(name):
    function, oracle = FUNCTIONS[name]
    expected = np.stack([oracle(x) for x in BATCH])
    np.testing.assert_allclose(function(BATCH), expected, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(function))(BATCH), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "matrix"),
    [("logm", MULTIPLE), ("sqrtm", GENERAL), ("power", GENERAL), ("unitary", MULTIPLE)],
    ids=["logm-multiple", "sqrtm-general", "power-general", "unitary-multiple"],
)
def test_derivatives_of_matrix_functions(name, matrix):
    function, oracle = FUNCTIONS[name]
    weights = rng.normal(size=(4, 4))
    step = 1e-5
    difference = sum(sign * np.real(oracle(matrix + sign * step * DIRECTION)) for sign in (1, -1)) / (2 * step)
    # Reverse mode transposes the forward rule, so it tests both.
    backward = jax.grad(lambda x: jnp.sum(weights * function(x)))(matrix)
    np.testing.assert_allclose(np.sum(backward * DIRECTION), np.sum(weights * difference), atol=1e-8)


@pytest.mark.slow
def test_second_derivative_of_the_logarithm():
    def first(x):
        return jax.grad(lambda y: jnp.sum(gs.linalg.logm(y) ** 2))(x)

    step = 1e-5
    difference = (first(GENERAL + step * DIRECTION) - first(GENERAL - step * DIRECTION)) / (2 * step)
    _, second = jax.jvp(first, (GENERAL,), (DIRECTION,))
    np.testing.assert_allclose(second, difference, atol=1e-7)


def test_a_logarithm_that_is_not_real():
    matrix = np.diag([-1.0, 2.0])
    np.testing.assert_allclose(gs.linalg.logm(matrix), np.diag([1j * np.pi, np.log(2)]), atol=1e-15)
    assert np.all(np.isnan(jax.jit(gs.linalg.logm)(matrix)))
    mixed = jax.jit(gs.linalg.logm)(np.stack([matrix, np.eye(2)]))
    assert np.all(np.isnan(mixed[0]))
    np.testing.assert_allclose(mixed[1], 0, atol=1e-15)


def test_square_root_of_a_singular_matrix():
    thin = X[:, :2]
    root = gs.linalg.sqrtm(thin @ thin.T)
    np.testing.assert_allclose(root @ root, thin @ thin.T, atol=1e-12)


@pytest.mark.parametrize(
    ("a", "b"), [(SPD, SPD), (SPD, MULTIPLE), (GENERAL, SPD), (GENERAL, GENERAL), (HERMITIAN, SPD)]
)
def test_sylvester_solutions_agree_with_scipy(a, b):
    expected = scipy.linalg.solve_sylvester(a, b, X)
    np.testing.assert_allclose(gs.linalg.solve_sylvester(a, b, X), expected, atol=1e-12)
    np.testing.assert_allclose(jax.jit(gs.linalg.solve_sylvester)(a, b, X), expected, atol=1e-12)


# The same object twice, not symmetric: geomstats' shortcut for symmetric matrices must not be taken.
def test_sylvester_does_not_infer_symmetry_from_identity():
    solution = gs.linalg.solve_sylvester(GENERAL, GENERAL, X)
    np.testing.assert_allclose(GENERAL @ solution + solution @ GENERAL, X, atol=1e-12)


def test_sylvester_of_rectangles_and_batches():
    q = rng.normal(size=(3, 4, 2))
    b = np.array([[3.0, 1.0], [0.0, 2.0]])
    expected = np.stack([scipy.linalg.solve_sylvester(a, b, c) for a, c in zip(BATCH, q, strict=True)])
    np.testing.assert_allclose(gs.linalg.solve_sylvester(BATCH, b, q), expected, atol=1e-12)
    mapped = jax.jit(jax.vmap(gs.linalg.solve_sylvester, (0, None, 0)))(BATCH, b, q)
    np.testing.assert_allclose(mapped, expected, atol=1e-12)


def test_singular_sylvester_has_the_least_norm():
    a = np.diag([1.0, 0.0, 0.0])
    skew = np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 0.0], [-2.0, 0.0, 0.0]])
    solution = gs.linalg.solve_sylvester(a, a, skew)
    np.testing.assert_allclose(a @ solution + solution @ a, skew, atol=1e-15)
    operator = np.kron(a, np.eye(3)) + np.kron(np.eye(3), a)
    np.testing.assert_allclose(solution.ravel(), np.linalg.pinv(operator) @ skew.ravel(), atol=1e-14)


def test_derivative_of_sylvester_in_all_arguments():
    def solution(t):
        return gs.linalg.solve_sylvester(GENERAL + t * X, SPD + t * DIRECTION, X + t * SPD)

    step = 1e-6
    difference = (solution(step) - solution(-step)) / (2 * step)
    np.testing.assert_allclose(jax.jvp(solution, (0.0,), (1.0,))[1], difference, atol=1e-8)
    np.testing.assert_allclose(jax.jacrev(solution)(0.0), difference, atol=1e-8)


@pytest.mark.parametrize("sign", [1, -1])
def test_no_rotation_is_nearer_than_the_nearest(sign):
    matrix = sign * GENERAL[:3, :3]
    rotation = nearest_rotation(matrix)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-14)
    assert np.linalg.det(rotation) == pytest.approx(1)
    for _ in range(50):
        other = scipy.linalg.expm((lambda y: y - y.T)(rng.normal(size=(3, 3))))
        assert np.sum(other * matrix) <= np.sum(rotation * matrix) + 1e-12
    step = 1e-6
    change = DIRECTION[:3, :3]
    difference = (nearest_rotation(matrix + step * change) - nearest_rotation(matrix - step * change)) / (2 * step)
    np.testing.assert_allclose(jax.jvp(nearest_rotation, (matrix,), (change,))[1], difference, atol=1e-7)


def _parts(result):
    return tuple(result) if isinstance(result, tuple) else (result,)


# Up to the signs of singular vectors.
@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("cholesky", (SPD,), {}),
        ("det", (BATCH,), {}),
        ("inv", (BATCH,), {}),
        ("eigvalsh", (SPD,), {}),
        ("matrix_power", (BATCH, 3), {}),
        ("matrix_rank", (np.stack([SPD, np.diag([1.0, 1.0, 0.0, 0.0])]),), {}),
        ("matrix_rank", (np.diag([1.0, 1e-3, 0.0, 0.0]),), {"tol": 1e-2}),
        ("matrix_rank", (np.diag([1.0, -1e-3, 0.0, 0.0]),), {"hermitian": True}),
        ("norm", (X,), {}),
        ("norm", (BATCH,), {"axis": (-2, -1)}),
        ("norm", (X,), {"ord": 1, "axis": 0}),
        ("qr", (BATCH[1],), {}),
        ("qr", (X[:, :2],), {"mode": "complete"}),
        ("svd", (X[:, :2],), {"full_matrices": False}),
        ("svd", (BATCH,), {"compute_uv": False}),
        ("solve", (GENERAL, X[0]), {}),
        ("solve", (GENERAL, X), {}),
    ],
)
def test_decompositions_are_numpys(name, args, kwargs):
    actual = getattr(gs.linalg, name)(*args, **kwargs)
    expected = getattr(np.linalg, name)(*args, **kwargs)
    for a, e in zip(_parts(actual), _parts(expected), strict=True):
        np.testing.assert_allclose(np.abs(a), np.abs(e), atol=1e-12)


def test_solve_with_a_batch_of_matrices():
    expected = np.stack([np.linalg.solve(a, X[0]) for a in BATCH])
    np.testing.assert_allclose(gs.linalg.solve(BATCH, X[0]), expected, atol=1e-12)


def test_eigenvectors_put_the_matrix_together_again():
    values, vectors = gs.linalg.eigh(SPD)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, SPD, atol=1e-13)
    values, vectors = gs.linalg.eig(GENERAL)
    np.testing.assert_allclose(GENERAL @ vectors, vectors * values, atol=1e-13)


def test_positive_definiteness_is_told_by_the_eigenvalues():
    assert gs.linalg.is_single_matrix_pd(SPD) is True
    assert gs.linalg.is_single_matrix_pd(-SPD) is False
    assert gs.linalg.is_single_matrix_pd(np.ones((2, 3))) is False
    assert gs.linalg.is_single_matrix_pd(HERMITIAN) is True
    assert gs.linalg.is_single_matrix_pd(HERMITIAN + 1j * X) is False
    assert not jax.jit(gs.linalg.is_single_matrix_pd)(-SPD)


def test_cholesky_of_an_indefinite_matrix():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        gs.linalg.cholesky(-SPD)
    assert np.any(np.isnan(jax.jit(gs.linalg.cholesky)(-SPD)))


def test_unknown_side_of_the_polar_decomposition():
    with pytest.raises(ValueError, match="side is 'up'; 'left' and 'right' are known"):
        gs.linalg.polar(SPD, side="up")


def test_quadratic_assignment_finds_a_relabelling():
    graph = np.triu(rng.integers(0, 2, size=(6, 6)), 1)
    graph = graph + graph.T
    order = rng.permutation(6)
    match = gs.linalg.quadratic_assignment(graph, graph[np.ix_(order, order)], {"maximize": True})
    assert sorted(match) == list(range(6))
