"""Bases of equivariant maps: against dense null spaces, characters, Bell numbers and published dimensions."""

import itertools
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx

R = qx.Representation
P, V, LORENTZ = R.permutations(4), R.rotations(3), R.rotations(4, negative=1)
# The turn of a triangle in a basis in which its matrix is neither a permutation nor whole.
SKEW = R({"turn": sympy.Matrix([[1, 2], [3, 7]]) * sympy.Matrix([[0, -1], [1, -1]]) * sympy.Matrix([[7, -2], [-3, 1]]),
          "half": [[sympy.Rational(1, 2), 0], [0, sympy.Rational(1, 2)]]})  # fmt: skip


def dense(rep_in, rep_out):
    """The dimension of the null space of all equations, in floats: independent of everything exact."""
    rows = []
    for name in (*rep_in.names[0], *rep_in.names[1]):
        left, right = (np.array(rep.matrix(name), float) for rep in (rep_out, rep_in))
        rows.append(np.kron(left, np.eye(len(right))) - np.kron(np.eye(len(left)), right.T))
    return scipy.linalg.null_space(np.vstack(rows), rcond=1e-9).shape[1]


def bell(k, n):
    """Partitions of k things into at most n parts."""
    parts = [[1]]
    for i in range(1, k + 1):
        row = [0] * (i + 1)
        for j in range(1, i + 1):
            row[j] = (parts[-1][j] * j if j < i else 0) + parts[-1][j - 1]
        parts.append(row)
    return sum(parts[k][: n + 1])


def test_permutations_have_two_parameters_and_shifts_are_circulants():
    lam, gamma = qx.equivariant_maps(P, P).basis
    np.testing.assert_array_equal(lam, np.eye(4))
    np.testing.assert_array_equal(lam + gamma, np.ones((4, 4)))
    maps = qx.equivariant_maps(R.shifts(5), R.shifts(5))
    c = np.arange(5.0)
    np.testing.assert_array_equal(maps.matrix(c), scipy.linalg.circulant(c[[0, 4, 3, 2, 1]]))
    grid = qx.equivariant_maps(R.shifts(3, 4), R.shifts(3, 4))
    image, kernel = np.random.default_rng(0).standard_normal((2, 3, 4))
    twice = np.fft.ifft2(np.fft.fft2(kernel) * np.fft.fft2(image)).real
    blurred = grid.matrix(grid.coefficients(np.stack([np.roll(kernel, s, (0, 1)).ravel() for s in np.ndindex(3, 4)]).T))
    np.testing.assert_allclose((blurred @ image.ravel()).reshape(3, 4), twice, atol=1e-6)


def test_rotations_of_the_plane_are_the_complex_numbers():
    plane = R.rotations(2)
    maps = qx.equivariant_maps(plane, plane)
    a, b = sympy.symbols("c0 c1")
    assert maps.expression() == sympy.Matrix([[a, b], [-b, a]])
    mirrored = R.rotations(2, reflections=True)
    assert qx.equivariant_maps(mirrored, mirrored).dim == 1


@pytest.mark.parametrize(("n", "k", "l"), [(4, 1, 1), (4, 2, 2), (3, 2, 2), (5, 2, 3), (2, 3, 2), (1, 2, 2)])
def test_tensors_of_permutations_are_counted_by_bell_numbers(n, k, l):
    perm = R.permutations(n)
    maps = qx.equivariant_maps(perm**k, perm**l)
    assert maps.dim == bell(k + l, n) == maps.by_characters
    assert maps.order == math.factorial(n)


# https://emlp.readthedocs.io (quickstart) and https://github.com/mfinzi/equivariant-MLP/issues/14: columns of bases.
S6, W = R.permutations(6), R.rotations(3)
PUBLISHED = {
    "Z(6): V to V": (R.shifts(6), R.shifts(6), 6),
    "S(6): V to V": (S6, S6, 2),
    "S(6): V V to V V": (S6**2, S6**2, 15),
    "SO(3): V V to V": (W**2, W, 1),
    "SO(3): 2 V to a layer": (2 * W, 30 * W.trivial + 10 * W + 3 * W**2 + W**3, 32),
    "SO(3): 2 V to a number": (2 * W, W.trivial, 0),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_dimensions_are_the_published_ones(name):
    rep_in, rep_out, dim = PUBLISHED[name]
    assert qx.equivariant_maps(rep_in, rep_out).dim == dim


def test_invariant_tensors_of_continuous_groups():
    count = lambda rep, k: qx.equivariant_maps(rep.trivial, rep**k).dim
    assert [count(V, k) for k in range(6)] == [1, 0, 1, 1, 3, 6]  # Riordan numbers
    mirrored = R.rotations(3, reflections=True)
    assert [count(mirrored, k) for k in range(5)] == [1, 0, 1, 0, 3]  # pairings
    assert [count(LORENTZ, k) for k in (2, 4)] == [1, 4]  # pairings, and the volume
    metric = qx.equivariant_maps(LORENTZ, LORENTZ.dual)
    np.testing.assert_array_equal(metric.basis[0] * metric.basis[0][0, 0], np.diag([1, 1, 1, -1]))


REPS = {
    "turns": R.quarter_turns(2),
    "mirrors": R.quarter_turns(2, reflections=True),
    "skew": SKEW,
    "permutations": R.permutations(3),
    "lorentz": R.rotations(3, negative=1, reflections=True),
    "shear": R({"shear": [[1, 1], [0, 1]]}),
    "mixed": R({"sign": [[-1, 0, 0], [0, 1, 0], [0, 0, 1]]}, {"turn": [[0, 0, 0], [0, 0, -2], [0, 2, 0]]}),
}


@pytest.mark.parametrize("name", REPS)
def test_bases_span_the_dense_null_space(name):
    rep = REPS[name]
    for rep_in, rep_out in ((rep, rep), (rep * rep, rep + rep.trivial), (rep.dual, 2 * rep)):
        maps = qx.equivariant_maps(rep_in, rep_out)
        assert maps.dim == dense(rep_in, rep_out)
        assert not maps.dim or np.linalg.matrix_rank(maps.basis.reshape(maps.dim, math.prod(maps.shape))) == maps.dim
        for generator in (*rep.names[0], *rep.names[1]):
            left, right = (sympy.Matrix(r.matrix(generator)) for r in (rep_out, rep_in))
            assert all((left * sympy.Matrix(b) - sympy.Matrix(b) * right).is_zero_matrix for b in maps.basis)


signed = st.permutations(range(4)).flatmap(
    lambda order: st.lists(st.sampled_from([-1, 1]), min_size=4, max_size=4).map(
        lambda signs: [[signs[j] * (order[j] == i) for j in range(4)] for i in range(4)]
    )
)


@settings(max_examples=6)
@given(first=signed, second=signed)
def test_groups_of_signed_permutations_are_counted_by_characters(first, second):
    rep = R({"a": first, "b": second})
    maps = qx.equivariant_maps(rep, rep)
    assert maps.dim == maps.by_characters == dense(rep, rep)
    assert qx.equivariant_maps(rep * rep, rep).dim == qx.equivariant_maps(rep, rep * rep.dual).dim
    for a, b in itertools.product(maps.basis, repeat=2):  # maps from a space to itself are an algebra
        found = maps.matrix(maps.coefficients(a @ b))
        np.testing.assert_allclose(found, a @ b, atol=1e-9)


@settings(max_examples=4)
@given(seed=st.integers(0, 1000))
def test_the_nearest_equivariant_map_is_the_average_over_the_group(seed):
    rep = R.quarter_turns(3, reflections=True)
    maps = qx.equivariant_maps(rep, rep)
    A = np.random.default_rng(seed).standard_normal((9, 9))
    turn, mirror = (np.array(rep.matrix(name), float) for name in ("quarter turn", "reflection"))
    group = [np.linalg.matrix_power(turn, k) @ m for k in range(4) for m in (np.eye(9), mirror)]
    average = sum(g @ A @ g.T for g in group) / 8
    found = maps.matrix(maps.coefficients(A))
    np.testing.assert_allclose(found, average, atol=1e-12)
    assert np.abs(found - A).max() > 1e-3  # a map that does not commute is not among them


def test_layers_are_equivariant_and_differentiable():
    rep_in, rep_out = 2 * V, V.trivial + V + V**2
    maps = qx.equivariant_maps(rep_in, rep_out)
    c = maps.init(jax.random.key(0))
    angle = scipy.linalg.expm(np.random.default_rng(0).standard_normal((3, 3)) * [[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    turn = np.linalg.qr(angle)[0]
    turn = turn * np.linalg.det(turn)
    into, out = scipy.linalg.block_diag(turn, turn), scipy.linalg.block_diag(1, turn, np.kron(turn, turn))
    x = np.random.default_rng(1).standard_normal((5, 6))
    np.testing.assert_allclose(maps(c, x @ into.T), maps(c, x) @ out.T, atol=1e-12)
    slope = jax.jit(jax.grad(lambda c: jnp.sum(maps(c, x) ** 2)))(c)
    assert slope.shape == (maps.dim,)
    assert maps.init(jax.random.key(0), jnp.float32).dtype == jnp.float32
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(maps)).basis, maps.basis)


def test_elements_are_listed_and_flow():
    assert len(R.permutations(4).elements()) == 24
    assert len(R.quarter_turns(3, reflections=True).elements()) == 8
    third = R({"turn": [[0, -1], [1, -1]]})
    np.testing.assert_allclose(sum((third + third.trivial).elements()), np.diag([0, 0, 3]), atol=1e-12)
    turn = R.rotations(2).element("turn 0 1 of 2", np.pi / 2)
    np.testing.assert_allclose(turn, [[0, -1], [1, 0]], atol=1e-12)
    np.testing.assert_array_equal(third.element("turn"), [[0, -1], [1, -1]])
    with pytest.raises(qx.SymmetryError, match=r"R has infinitesimal generators \(turn 0 1 of 3, turn 1 2 of 3\)"):
        V.elements()
    with pytest.raises(qx.SymmetryError, match="more than most=10 elements, or infinitely many"):
        R({"shear": [[1, 1], [0, 1]]}).elements(10)


@settings(max_examples=5)
@given(seed=st.integers(0, 1000))
def test_an_augmented_loss_has_the_induced_symmetry(seed):
    """f(W g^-1, g x) = f(W, x), hence the loss averaged over all g x does not change when W becomes W h^-1."""
    group = R.quarter_turns(2, reflections=True).elements()
    rng = np.random.default_rng(seed)
    x, y, W, a = (jnp.asarray(rng.standard_normal(s)) for s in ((5, 4), (5,), (3, 4), (3,)))
    loss = lambda W, x: jnp.mean((jnp.tanh(x @ W.T) @ a - y) ** 2)
    augmented = lambda W: sum(loss(W, x @ g.T) for g in group) / len(group)
    h = group[seed % 8]
    np.testing.assert_allclose(augmented(W @ h.T), augmented(W), rtol=1e-12)
    np.testing.assert_allclose(jax.grad(augmented)(W @ h.T), jax.grad(augmented)(W) @ h.T, atol=1e-12)
    assert abs(loss(W @ group[1].T, x) - loss(W, x)) > 1e-8  # without the average there is no such symmetry


def test_maps_of_sums_are_sums_of_maps():
    big = qx.equivariant_maps(2 * P + P.trivial, P**2)
    assert big.dim == 2 * qx.equivariant_maps(P, P**2).dim + qx.equivariant_maps(P.trivial, P**2).dim
    assert repr(big) == "EquivariantMaps(rep_in=P + P + 1, rep_out=P*P, dim=12, by_characters=12, order=24)"
    assert str(big) == (
        "12 equivariant maps from P + P + 1 to P*P (16 x 9 matrices), all there are: an exact null space, as the "
        "characters of 24 elements say"
    )


def test_groups_act_together():
    perm, turn = R.together(R.permutations(4), V)
    points = perm * turn
    maps = qx.equivariant_maps(points, points)
    np.testing.assert_array_equal(maps.basis[0] + maps.basis[1], np.kron(np.ones((4, 4)), np.eye(3)))
    assert maps.dim == 2
    assert qx.equivariant_maps(points**2, turn).dim == 2 * qx.equivariant_maps(V**2, V).dim
    flip, third = R.together(R({"flip": [1, 0]}), R({"third": [1, 2, 0]}))
    found = qx.equivariant_maps(flip * third + third, flip * third)
    assert (found.dim, found.order) == (2 * 3 + 3, 6)
    assert found.by_characters == found.dim


def test_large_pictures_cost_little():
    shift = R.shifts(16, 16)
    maps = qx.equivariant_maps(shift, 5 * shift)
    assert maps.dim == 1280
    with pytest.raises(qx.SymmetryError, match=r"`maps.basis` would have 1280 maps of \(1280, 256\)"):
        maps.basis  # noqa: B018


HUGE = R({"shear": [[1, 10**11], [0, 1]]})
BAD = {
    "nothing": (lambda: R(), "needs generators"),
    "rows": (lambda: R({"a": [[1, 2]]}), "the generator 'a' has rows of lengths \\[2\\]: it must be square"),
    "inexact": (lambda: R({"a": [[0.5]]}), "the entry 0.5, which is no exact rational number"),
    "irrational": (lambda: R({"a": [[sympy.sqrt(2)]]}), "an irrational turn by its infinitesimal generator"),
    "singular": (lambda: R({"a": [[0]]}), "the generator 'a' of V is singular"),
    "order": (lambda: R({"a": [0, 0]}), "is no order of 0 to 1"),
    "no matrix": (lambda: R({"a": 5}), "the generator 'a' is 5, which is no matrix"),
    "twice": (lambda: R({"a": [[1]]}, {"a": [[1]]}), "'a' names a finite and an infinitesimal generator"),
    "lengths": (lambda: R({"a": [1, 0], "b": [0]}), "vectors of one length, got {'a': 2, 'b': 1}"),
    "no names": (lambda: R([[1]]), "finite= is a dict of matrices by name"),
    "two groups": (lambda: qx.equivariant_maps(V, P), "of R \\(turn 0 1 of 3, .*of P \\(cycle of 4, swap of 4\\)"),
    "two sizes": (lambda: V + LORENTZ, "generators have the same names"),
    "no representation": (lambda: qx.equivariant_maps(3, V), "needs rep_in to be a `quotax.Representation`, got 3"),
    "power": (lambda: V**-1, "a whole number k that is not negative, got -1"),
    "copies": (lambda: 0 * V, "at least 1, got 0"),
    "size": (lambda: R.permutations(0), "needs n to be a whole number, at least 1, got 0"),
    "sides": (lambda: R.shifts(), "needs the sides of the grid"),
    "signs": (lambda: R.rotations(2, negative=3), "needs negative= 0 to 2, got 3"),
    "together": (lambda: R.together(P, P), "and 'cycle of 4' is a generator of two of them"),
    "generator": (lambda: V.matrix("q"), "no generator is called 'q'; there are turn 0 1 of 3, turn 1 2 of 3"),
    "entries": (lambda: qx.equivariant_maps(P**7, P**7), "16,384 x 16,384 entries, more than"),
    "unknown": (lambda: qx.equivariant_maps(LORENTZ**3, LORENTZ**3), "4,096 unknown numbers .* more than 3,000"),
    "large": (lambda: qx.equivariant_maps(HUGE**3, HUGE), "whole numbers of 74 bits may arise, more than 62"),
    "coefficients": (lambda: qx.equivariant_maps(P, P).matrix([1.0]), "takes 2 coefficients, .* got \\(1,\\)"),
    "vectors": (
        lambda: qx.equivariant_maps(P, P)([1.0, 2.0], np.ones(3)),
        "length 4 along the last axis, got \\(3,\\)",
    ),
    "matrix": (
        lambda: qx.equivariant_maps(P, P).coefficients(np.ones(4)),
        "needs a matrix of \\(4, 4\\), got \\(4,\\)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name(name):
    call, message = BAD[name]
    with pytest.raises(qx.SymmetryError, match=message):
        call()
