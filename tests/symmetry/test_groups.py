"""Laws of the groups: axioms, exponentials, and exact elements that belong where they say."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import quotax as qx

SIZES = {"h": 4, "head": 2}
TRANSPOSED = lambda g: np.swapaxes(g, -1, -2)
ORTHOGONAL = lambda g: np.allclose(g @ TRANSPOSED(g), np.eye(g.shape[-1]))
ROWS = {  # its arguments, the dimension of one copy on an axis of four, and whether an array is an element
    qx.GL: (["h"], 16, lambda g: np.all(np.abs(np.linalg.det(g)) > 1e-9)),
    qx.O: (["h"], 6, ORTHOGONAL),
    qx.OFixingOnes: (["h"], 3, lambda g: ORTHOGONAL(g) and np.allclose(g.sum(-1), 1)),
    qx.FixingCentred: (
        ["h"], 4, lambda g: np.allclose(np.diff(g - np.eye(g.shape[-1])), 0) and np.all(np.linalg.det(g) > 0)
    ),
    qx.PositiveDiagonal: (["h"], 4, lambda g: np.all(g > 0)),
    qx.Diagonal: (["h"], 4, lambda g: np.all(g != 0)),
    qx.Translation: (["h"], 4, lambda g: True),
    qx.ComplexScaling: (["h"], 4, lambda g: np.allclose(g @ TRANSPOSED(g), TRANSPOSED(g) @ g)),
    qx.PairScaling: (["h"], 2, lambda g: np.all(g > 0) and np.all(g[..., ::2] == g[..., 1::2])),
    qx.PositiveScalar: ([], 1, lambda g: np.all(g > 0)),
    qx.Permutation: (
        ["h"], 0, lambda g: np.all(np.isin(g, (0, 1))) and np.all(g.sum(-1) == 1) and np.all(g.sum(-2) == 1)
    ),
    qx.SignFlip: (["h"], 0, lambda g: np.all(np.abs(g) == 1)),
}  # fmt: skip
GROUPS = [kind(*row[0], **keywords) for kind, row in ROWS.items() for keywords in ({}, {"each": "head"})]
GROUPS += [qx.ComplexScaling("h", pairs="halves"), qx.Translation(), qx.SignFlip()]
HALVES = [qx.PairScaling("h", pairs="halves"), qx.PairScaling("h", "head", pairs="halves")]
CONTINUOUS = [group for group in GROUPS if group.continuous]


@pytest.mark.parametrize("group", GROUPS, ids=repr)
@given(seed=st.integers(0, 2**31))
def test_elements_obey_the_axioms_of_a_group(group, seed):
    a, b, c = (group.random(jax.random.key(seed + i), SIZES, 0.5) for i in range(3))
    one = group.identity(SIZES)
    close = lambda left, right: np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)
    close(group.compose(a, group.inverse(a)), one)
    close(group.compose(one, a), a)
    close(group.compose(group.compose(a, b), c), group.compose(a, group.compose(b, c)))
    assert a.shape == group.shape(SIZES)


@pytest.mark.parametrize("group", GROUPS + HALVES, ids=repr)
def test_membership_is_what_it_says(group):
    rng, member = np.random.default_rng(0), ROWS[type(group)][2]
    element = np.asarray(group.random(jax.random.key(1), SIZES, 0.5))
    assert group.outside(element) is None
    assert group.outside(element.astype(np.float32)) is None
    if isinstance(group, qx.ComplexScaling | qx.PairScaling):
        first, second = group.places(4)
        if isinstance(group, qx.PairScaling):
            member = lambda g: np.all(g > 0) and np.allclose(g[..., first], g[..., second])
        else:
            member = lambda g: g.any() and np.allclose(g[..., first, first], g[..., second, second])
    noise = rng.normal(size=element.shape)
    for array in (noise, -element, element + 0.1 * noise, 0 * element):
        assert (group.outside(array) is None) == bool(member(array)), (array, group.outside(array))
    if element.size:
        assert "finite" in group.outside(np.full(element.shape, np.nan))


@pytest.mark.parametrize("group", CONTINUOUS, ids=repr)
@given(seed=st.integers(0, 2**31))
def test_the_exponential_is_a_one_parameter_subgroup(group, seed):
    xi = group.algebra(jax.random.normal(jax.random.key(seed), group.coordinate_shape(SIZES)), SIZES)
    product = group.compose(group.exponential(0.3 * xi), group.exponential(0.5 * xi))
    np.testing.assert_allclose(product, group.exponential(0.8 * xi), rtol=1e-9, atol=1e-9)
    slope = jax.jvp(lambda t: group.exponential(t * xi), (0.0,), (1.0,))[1]
    np.testing.assert_allclose(slope, xi, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("group", CONTINUOUS, ids=repr)
def test_dimension_counts_independent_directions(group):
    coordinates = jnp.eye(int(np.prod(group.coordinate_shape(SIZES))))
    elements = [group.algebra(c.reshape(group.coordinate_shape(SIZES)), SIZES).ravel() for c in coordinates]
    assert np.linalg.matrix_rank(np.stack(elements)) == group.dimension(SIZES)
    expected = ROWS[type(group)][1] if group.axis else 1
    assert group.dimension(SIZES) == expected * (2 if group.each else 1)


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_rational_and_random_elements_belong_to_the_group(group):
    belongs = ROWS[type(group)][2]
    rng = np.random.default_rng(3)
    for i in range(5):
        exact = group.rational(rng, SIZES)
        assert exact.shape == group.shape(SIZES)
        assert belongs(exact.astype(float))
        assert belongs(np.asarray(group.random(jax.random.key(i), SIZES)))


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_symbolic_elements_come_with_their_inverse(group):
    sizes = {"h": 2, "head": 2}
    for g, inverse in group.symbolic(sizes):
        assert g.shape == group.shape(sizes)
        if inverse is None:
            assert isinstance(group, qx.Translation)
        elif group.layout == "matrix":
            assert all(
                sp.simplify(sp.Matrix(a) * sp.Matrix(b) - sp.eye(2)) == sp.zeros(2)
                for a, b in zip(g.reshape(-1, 2, 2), inverse.reshape(-1, 2, 2), strict=True)
            )
        else:
            assert all(a * b == 1 for a, b in zip(g.ravel(), inverse.ravel(), strict=True))


# --- what a group says of itself


def normals(group, shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("group", CONTINUOUS, ids=repr)
def test_coordinates_are_paired_and_what_is_nearest_is_in_the_algebra(group):
    array, coordinates = normals(group, group.shape(SIZES)), normals(group, group.coordinate_shape(SIZES), 1)
    xi = np.asarray(group.algebra(coordinates, SIZES))
    np.testing.assert_allclose(np.sum(xi * array), np.sum(coordinates * group.pairing(array)), rtol=1e-12)
    np.testing.assert_allclose(group.nearest(jnp.asarray(xi), SIZES), xi, atol=1e-14)
    rest = array - group.nearest(jnp.asarray(array), SIZES)
    np.testing.assert_allclose(group.pairing(rest), 0, atol=1e-14)
    assert group.free == (group.coordinate_shape(SIZES) == group.shape(SIZES))


@pytest.mark.parametrize("group", GROUPS, ids=repr)
@pytest.mark.parametrize("h", [2, 4, 6])
def test_the_formula_and_the_basis_have_the_dimension(group, h):
    sizes = SIZES | {"h": h}
    n = sp.Symbol("n")
    copies = 2 if group.each else 1
    assert copies * sp.sympify(group.formula(n)).subs(n, h if group.axis else 1) == group.dimension(sizes)
    basis = group.basis(sizes)
    assert basis.dtype == np.int64
    assert basis.shape == (group.dimension(sizes), *group.shape(sizes))
    if group.dimension(sizes):
        assert np.linalg.matrix_rank(basis.reshape(len(basis), -1)) == len(basis)
        for xi in basis:
            np.testing.assert_allclose(group.nearest(jnp.asarray(xi, float), sizes), xi, atol=1e-14)


@pytest.mark.parametrize("group", CONTINUOUS, ids=repr)
def test_whole_numbers_are_paired_with_the_basis(group):
    array = np.random.default_rng(0).integers(-9, 9, group.shape(SIZES))
    paired = group.pairing(array)
    assert paired.dtype == np.int64
    basis = group.basis(SIZES)
    np.testing.assert_array_equal(paired.ravel(), np.sum(basis * array, axis=tuple(range(1, basis.ndim))))


@pytest.mark.parametrize("group", CONTINUOUS, ids=repr)
def test_selfadjoint_elements_are_counted(group):
    basis = group.basis(SIZES).reshape(group.dimension(SIZES), -1).astype(float)
    skew = basis
    if group.layout == "matrix":
        full = group.basis(SIZES).astype(float)
        skew = (full - TRANSPOSED(full)).reshape(len(full), -1)
    rank = np.linalg.matrix_rank(skew) if group.layout == "matrix" else 0
    assert group.selfadjoint_dimension(SIZES) == len(basis) - rank


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_subgroups_lie_in_the_group(group):
    rng, belongs = np.random.default_rng(3), ROWS[type(group)][2]
    for smaller in group.subgroups:
        for _ in range(5):
            assert belongs(smaller.rational(rng, SIZES).astype(float)), smaller
    orthogonal = ORTHOGONAL if group.layout == "matrix" else lambda g: np.all(np.abs(g) == 1)
    every = all(orthogonal(group.rational(rng, SIZES).astype(float)) for _ in range(5))
    assert group.orthogonal == every
    assert (group.compact == group) == every
    assert group.compact is None or group.compact.orthogonal


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_signs_are_elements(group):
    if group.signs and group.axis:
        signs = np.array([-1.0, 1, 1, 1]) if group.signs == "each" else -np.ones(4)
        assert ROWS[type(group)][2](np.diag(signs) if group.layout == "matrix" else signs)


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_what_elements_fix_is_what_they_are_said_to(group):
    moved = group.moved(4)
    if moved is None:
        return
    np.testing.assert_allclose(moved.T @ moved, np.eye(moved.shape[1]), atol=1e-14)
    fixed = np.eye(4) - moved @ moved.T
    for i in range(5):
        g = np.asarray(group.random(jax.random.key(i), SIZES))
        np.testing.assert_allclose(g @ fixed, np.broadcast_to(fixed, g.shape), atol=1e-13)


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_attempts_are_elements(group):
    rng = np.random.default_rng(0)
    for number in range(6):
        assert ROWS[type(group)][2](group.attempt(number, rng, SIZES).astype(float))


@pytest.mark.parametrize("group", HALVES, ids=repr)
def test_pairs_of_halves_share_their_factors(group):
    rng, key = np.random.default_rng(0), jax.random.key(0)
    elements = [group.rational(rng, SIZES), np.asarray(group.random(key, SIZES)), *next(group.symbolic(SIZES))]
    for g in [*elements, np.asarray(group.algebra(normals(group, group.coordinate_shape(SIZES)), SIZES))]:
        assert g.shape == group.shape(SIZES)
        assert np.all(g[..., :2] == g[..., 2:])
        assert np.all(g[..., 0] != g[..., 1])
    assert group.dimension(SIZES) == len(group.basis(SIZES)) == np.prod(group.shape(SIZES)) // 2


def test_pairs_need_an_even_axis_and_a_known_layout():
    with pytest.raises(qx.SymmetryError, match=r"acts on pairs: the size of axis 'h' must be even, got 3"):
        qx.PairScaling("h").rational(np.random.default_rng(0), {"h": 3})
    with pytest.raises(qx.SymmetryError, match=r"`PairScaling`: pairs must be 'adjacent' or 'halves'"):
        qx.PairScaling("h", pairs="odd")


SOURCES = Path(qx.__file__).parent


@pytest.mark.parametrize("room", ["certify", "geometry", "interpret", "isometry.py", "lower", "sharpness"])
def test_nobody_asks_a_group_for_its_class(room):
    names = {kind.__name__ for kind in ROWS}
    files = [SOURCES / room] if room.endswith(".py") else sorted((SOURCES / room).rglob("*.py"))
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("quotax.symmetry"):
                assert not names & {alias.name for alias in node.names}, file


def test_names_are_what_they_were():
    names = {repr(kind(*row[0])): str(kind(*row[0])) for kind, row in ROWS.items()}
    assert names["O(axis='h', each=None)"] == "O(h)"
    assert names["OFixingOnes(axis='h', each=None)"] == "O_1(h)"
    assert str(qx.GL("k", each="head")) == "GL(k)^head"
    assert repr(qx.ComplexScaling("h")) == "ComplexScaling(axis='h', each=None, pairs='adjacent')"


def test_finite_groups_list_every_element():
    assert len(list(qx.Permutation("h").symbolic({"h": 3}))) == 6
    assert len(list(qx.Permutation("h", each="head").symbolic({"h": 2, "head": 2}))) == 4
    assert len(list(qx.SignFlip("h").symbolic({"h": 3}))) == 8


def test_positive_symbols_where_factors_are_positive():
    ((g, _),) = qx.PositiveDiagonal("h").symbolic({"h": 2})
    assert all(symbol.is_positive for symbol in g)
    ((g, _),) = qx.Diagonal("h").symbolic({"h": 2})
    assert all(symbol.is_positive is None and symbol.is_real for symbol in g)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_elements_follow_the_dtype(dtype):
    for group in GROUPS:
        assert group.random(jax.random.key(0), SIZES, dtype=dtype).dtype == dtype
