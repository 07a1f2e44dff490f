"""Every solver against the SVD of the differentiated finite action, at regular and at singular points."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params

import quotax as qx
from models import relu, rotary, symmetry
from quotax.geometry.canonical.gauge import gauge
from quotax.geometry.canonical.representative import canonical_of
from quotax.geometry.families import renaming as skeletons
from quotax.geometry.families.component import components
from quotax.geometry.linalg import inverse_roots, iterative, one_by_one
from quotax.geometry.projection import block_elimination, gram, one_family, rank, solver
from quotax.geometry.projection.vertical import coordinates, dimensions, factors_at, horizontal, vertical
from quotax.lower import lower_action

DEEP = {"W1": "h x", "W2": "k h", "W3": "y k"}


@qx.architecture(params=DEEP, inputs={"x": "x"})
def deep_linear(p, x):
    return p["W3"] @ (p["W2"] @ (p["W1"] @ x))


@qx.architecture(params={**DEEP, "b1": "h", "b2": "k"}, inputs={"x": "x"})
def deep_relu(p, x):
    z = jax.nn.relu(p["W1"] @ x + p["b1"])
    return p["W3"] @ jax.nn.relu(p["W2"] @ z + p["b2"])


@qx.architecture(
    params={**dict.fromkeys("VO", "head k d"), "bV": "head k", "bO": "d", "gain": "d"},
    inputs={"x": "d"},
)
def values(p, x):
    v = jnp.einsum("hkd,d->hk", p["V"], p["gain"] * x) + p["bV"]
    return jnp.einsum("hk,hkd->d", v, p["O"]) + p["bO"]


@qx.architecture(params={"W": "h x"}, inputs={"x": "x"})
def tied(p, x):
    return p["W"].T @ (p["W"] @ x)


@qx.architecture(params={"A": "h h", "B": "h x", "C": "y h"}, inputs={"x": "x"})
def state_space(p, x):
    return p["C"] @ (p["A"] @ (p["A"] @ (p["B"] @ x)))


def scaling(name, group, before, after, extra=()):
    action = {before: f"g @ {before}", after: f"{after} @ inv(g)"} | {b: f"g @ {b}" for b in extra}
    return qx.Symmetry(name, group, action)


def value_symmetries(gains=True):
    gl = {"V[head,k,d]": "g[head,k,l] V[head,l,d]", "bV[head,k]": "g[head,k,l] bV[head,l]"}
    gl |= {"O[head,k,d]": "inv(g)[head,l,k] O[head,l,d]"}
    shift = {"bV[head,k]": "bV[head,k] + g[head,k]", "bO[d]": "bO[d] - g[head,k] O[head,k,d]"}
    gain = {"gain[d]": "g[d] gain[d]", "V[head,k,d]": "V[head,k,d] inv(g)[d]"}
    found = [
        qx.Symmetry("heads", qx.GL("k", each="head"), gl),
        qx.Symmetry("shift", qx.Translation("k", each="head"), shift),
    ]
    return [*found, qx.Symmetry("gain", qx.Diagonal("d"), gain)] if gains else found


PAIRS = [scaling("first", qx.GL("h"), "W1", "W2"), scaling("second", qx.GL("k"), "W2", "W3")]
RELUS = [
    scaling("first", qx.PositiveDiagonal("h"), "W1", "W2", ["b1"]),
    scaling("second", qx.PositiveDiagonal("k"), "W2", "W3", ["b2"]),
]
STATE = {"A": "g @ A @ inv(g)", "B": "g @ B", "C": "C @ inv(g)"}
HEADS = {"head": 2, "k": 3, "d": 5}
CHAIN = {"x": 4, "h": 5, "k": 3, "y": 2}
CASES = {
    "one layer": (relu, [symmetry("relu scaling")[1]], {"h": 4, "x": 3, "y": 2}, "separate"),
    "Sylvester": (deep_linear, PAIRS[:1], CHAIN, "separate"),
    "rotation": (tied, [qx.Symmetry("turn", qx.O("h"), {"W": "g @ W"})], {"h": 4, "x": 3}, "separate"),
    "complex pairs": (rotary, [symmetry("rotary pairs")[1]], {"k": 6, "x": 3}, "separate"),
    "state space": (state_space, [qx.Symmetry("s", qx.GL("h"), STATE)], {"h": 3, "x": 2, "y": 2}, "iterative"),
    "chain of GL": (deep_linear, PAIRS, CHAIN, "iterative"),
    "chain of scalings": (deep_relu, RELUS, CHAIN, "elimination"),
    "values": (values, value_symmetries(False), HEADS, "iterative"),
    "values and gain": (values, value_symmetries(), HEADS, "iterative"),
}


# Each closed form, elimination, and iteration: one family, families in a chain, tensors that are not formed.
SOLVED = [name for name in CASES if name != "values"]  # which is part of the last
DEAD = {"one layer": "W1", "Sylvester": "W1", "chain of GL": "W1", "chain of scalings": "W1", "values and gain": "V"}
"""A parameter whose first row is set to zero, with what goes with it."""


@pytest.fixture
def large(monkeypatch):
    """Small components are solved as large ones are."""
    monkeypatch.setattr(solver, "_DENSE_LIMIT", 0)
    monkeypatch.setattr(solver, "_SMALL", 0)
    monkeypatch.setattr(one_family, "DENSE_BLOCK", 8)
    clear()
    yield
    clear()


def clear():
    for cache in (solver.method, block_elimination.plan, skeletons.skeleton, skeletons._interned, gram.structure):
        cache.cache_clear()


@functools.cache
def case(name):
    model, claims, sizes, _ = CASES[name]
    return families_at(model, claims, sizes)


def families_at(model, claims, sizes):
    net = model.at(**sizes)
    return net, [lower_action(claim.bind(model.params), model.params, net.sizes) for claim in claims]


def draw(net, seed, dtype=jnp.float64):
    keys = jax.random.split(jax.random.key(seed), len(net.shapes))
    return {n: jax.random.normal(k, s, dtype) for k, (n, s) in zip(keys, net.shapes.items(), strict=True)}


def flat(arrays, net):
    return np.concatenate([np.asarray(arrays[name], np.float64).ravel() for name in net.shapes])


def fields(net, families, arrays):
    """The columns of V, from the finite actions."""
    columns = []
    for family in families:
        shape = family.group.coordinate_shape(family.sizes)

        def orbit(c, here, family=family, shape=shape):
            g = family.group.exponential(family.group.algebra(c.reshape(shape), family.sizes))
            moved = family.act(here, g)
            return jnp.concatenate([moved[name].ravel() for name in net.shapes])

        if id(family) not in SLOPES:
            SLOPES[id(family)] = family, jax.jit(jax.jacfwd(orbit))
        _, slope = SLOPES[id(family)]
        columns.append(np.asarray(slope(jnp.zeros(int(np.prod(shape))), arrays)))
    return np.concatenate(columns, 1)


SLOPES = {}
"""By family, which is kept so that no other gets its `id`: one program for all points."""


def basis(columns):
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, sizes > 1e-9 * sizes[0]]


def check(net, families, arrays, seed=1, atol=1e-9):
    parts = components(families)
    vectors = draw(net, seed)
    factors = factors_at(parts, arrays)
    span = basis(fields(net, families, arrays))
    along = span @ (span.T @ flat(vectors, net))
    rest = horizontal(parts, factors, arrays, vectors)
    np.testing.assert_allclose(flat(rest, net), flat(vectors, net) - along, atol=atol)
    assert sum(map(int, dimensions(parts, arrays))) == span.shape[1]
    found = coordinates(parts, factors, arrays, vectors)
    total = {name: jnp.zeros_like(array) for name, array in arrays.items()}
    for family in families:
        for name, value in family.field(arrays, found[family.name]).items():
            total[name] += value
    np.testing.assert_allclose(flat(total, net), along, atol=atol)
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", SOLVED)
def test_every_solver_projects_as_dense_linear_algebra_does(name):
    """At a regular point, and where the orbit has a smaller dimension."""
    net, families = case(name)
    parts, arrays = components(families), draw(net, 0)
    assert [solver.method(part) for part in parts] == [CASES[name][3]]
    check(net, families, arrays)
    if name in DEAD:
        weight = DEAD[name]
        arrays |= {weight: arrays[weight].at[..., :1, :].set(0)}
        arrays |= {other: arrays[other].at[..., 0].set(0) for other in ("b1", "bV") if other in arrays}
        if "W2" in arrays:
            arrays |= {"W2": arrays["W2"].at[:, 0].set(0)}
        check(net, families, arrays, atol=1e-7)
        nothing = jax.tree.map(jnp.zeros_like, arrays)
        rest = horizontal(parts, factors_at(parts, nothing), nothing, draw(net, 1))
        assert all(np.all(np.isfinite(a)) for a in rest.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Sylvester", "complex pairs", "values and gain"])
def test_the_dense_solver(name):
    net, families = case(name)
    arrays = draw(net, 0)
    check(net, families, arrays)
    (part,) = components(families)
    vectors, factors = draw(net, 1), factors_at((part,), arrays)
    along, rest = (project((part,), factors, arrays, vectors) for project in (vertical, horizontal))
    np.testing.assert_allclose(flat(along, net), flat(vectors, net) - flat(rest, net), atol=1e-12)


@pytest.mark.parametrize("name", ["values and gain", pytest.param("complex pairs", marks=pytest.mark.slow)])
def test_the_gram_operator_is_that_of_the_differentiated_action(name):
    """With pieces on and off the diagonal, of matrices, of pairs and of numbers."""
    net, families = case(name)
    arrays = draw(net, 0)
    (part,) = components(families)
    columns = fields(net, part.families, arrays)
    np.testing.assert_allclose(gram.matrix(part, gram.data(part, arrays), arrays), columns.T @ columns, atol=1e-10)


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_minimum_norm_where_the_stabiliser_is_not_trivial():
    net, families = families_at(deep_linear, PAIRS[:1], {"x": 2, "h": 6, "k": 3, "y": 2})
    arrays, vectors = draw(net, 0), draw(net, 1)
    found = check(net, families, arrays)
    columns = fields(net, families, arrays)
    least = np.linalg.pinv(columns) @ flat(vectors, net)
    np.testing.assert_allclose(found["first"].ravel(), least, atol=1e-9)


@pytest.mark.slow
def test_sylvester_by_hand():
    net, families = case("Sylvester")
    arrays, vectors = draw(net, 0), draw(net, 1)
    found = check(net, families, arrays)["first"]
    w1, w2 = arrays["W1"], arrays["W2"]
    right = vectors["W1"] @ w1.T - w2.T @ vectors["W2"]
    np.testing.assert_allclose(w2.T @ w2 @ found + found @ w1 @ w1.T, right, atol=1e-10)


@pytest.mark.slow
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["Sylvester", "chain of scalings", "state space"])
def test_jit_vmap_and_gradients(name):
    net, families = case(name)
    parts = components(families)
    arrays, vectors, step = draw(net, 0), draw(net, 1), draw(net, 2)

    def seen(a):  # not the square of the horizontal part, which does not see its vertical changes
        rest = horizontal(parts, factors_at(parts, a), a, vectors)
        return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(rest)), rest

    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), arrays, step)
    (_, rests), slopes = jax.jit(jax.vmap(jax.value_and_grad(seen, has_aux=True)))(both)
    for number, here in enumerate((arrays, step)):
        found = {name: rest[number] for name, rest in rests.items()}
        np.testing.assert_allclose(flat(found, net), flat(seen(here)[1], net), atol=1e-11)
    slope = sum(jnp.vdot(g[0], step[n]) for n, g in slopes.items())
    moved = lambda t: seen(jax.tree.map(lambda a, b: a + t * b, arrays, step))[0]
    assert float(slope) == pytest.approx(float(moved(1e-5) - moved(-1e-5)) / 2e-5, rel=1e-6)


LAPACK = {"cholesky", "eig", "eigh", "geqrf", "householder_product", "lu", "qr", "svd", "triangular_solve"}


def decompositions(jaxpr):
    """The axes of what every decomposition in a program is given, with the programs inside it."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in LAPACK:
            yield equation.invars[0].aval.ndim
        for inner in jaxprs_in_params(equation.params):
            yield from decompositions(inner)


# Two batches at once can wait for each other for ever: see `quotax.geometry.linalg.one_by_one`.
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["Sylvester", "chain of GL", "chain of scalings", "values and gain"])
def test_no_decomposition_gets_a_batch(name):
    net, families = case(name)
    parts = components(families)
    both = jax.tree.map(lambda a, b: jnp.stack([a, b]), draw(net, 0), draw(net, 1))
    found = list(decompositions(jax.make_jaxpr(jax.vmap(lambda a: factors_at(parts, a)))(both).jaxpr))
    assert found
    assert set(found) == {2}


@pytest.mark.slow
def test_decompositions_one_by_one_have_derivatives():
    stack = jax.random.normal(jax.random.key(0), (2, 3, 4, 4))
    values = lambda a: one_by_one.each(lambda m: jnp.linalg.svd(m, compute_uv=False), a)
    batched = jax.vmap(values)
    assert set(decompositions(jax.make_jaxpr(batched)(stack).jaxpr)) == {2}
    left, expected, right = jnp.linalg.svd(stack)
    np.testing.assert_allclose(batched(stack), expected, rtol=1e-12)
    for slope in (jax.vmap(jax.grad(lambda a: jnp.sum(values(a)))), jax.grad(lambda a: jnp.sum(batched(a)))):
        np.testing.assert_allclose(slope(stack), left @ right, atol=1e-12)  # of the nuclear norm


@pytest.mark.slow
@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["Sylvester", "chain of scalings"])
def test_float32_stays_and_projecting_twice_changes_nothing(name):
    net, families = case(name)
    parts = components(families)
    arrays, vectors = draw(net, 0, jnp.float32), draw(net, 1, jnp.float32)
    factors = factors_at(parts, arrays)
    once = horizontal(parts, factors, arrays, vectors)
    twice = horizontal(parts, factors, arrays, once)
    assert all(a.dtype == jnp.float32 for a in twice.values())
    np.testing.assert_allclose(flat(twice, net), flat(once, net), atol=1e-5 * np.linalg.norm(flat(vectors, net)))


@pytest.mark.slow
@pytest.mark.usefixtures("large")
def test_the_rank_of_large_tied_families(monkeypatch):
    net, families = families_at(values, value_symmetries(False), HEADS)
    arrays = draw(net, 0)
    arrays |= {"V": arrays["V"].at[0, 0].set(0), "O": arrays["O"].at[0, 1:].set(0)}
    parts = components(families)
    # Refused first: a program that was traced once serves all equal families.
    monkeypatch.setattr(rank, "_LARGEST", 5)
    with pytest.raises(qx.GeometryError, match="6 coordinates are left without a closed form; at most 5"):
        dimensions(parts, arrays)
    monkeypatch.setattr(rank, "_LARGEST", 12)
    assert sum(map(int, dimensions(parts, arrays))) == basis(fields(net, families, arrays)).shape[1]


def test_conjugate_gradients_solve_what_the_matrix_says():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(6, 6))
    matrix, right = jnp.asarray(matrix @ matrix.T), jnp.asarray(rng.normal(size=6))
    diagonal = jnp.diagonal(matrix)
    found = iterative.conjugate_gradients(lambda x: matrix @ x, lambda x: x / diagonal, right)
    np.testing.assert_allclose(found, jnp.linalg.solve(matrix, right), rtol=1e-7)


def preconditioned(values, seed=0, null=0):
    """A positive semi-definite matrix with these eigenvalues beside `null` zeros, and images of its root."""
    rng = np.random.default_rng(seed)
    values = np.concatenate([values, np.zeros(null)])
    turn = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    matrix, root = (jnp.asarray(turn @ np.diag(v) @ turn.T) for v in (values, np.sqrt(values)))
    return matrix, [root @ jnp.asarray(rng.normal(size=len(values))) for _ in range(3)]


NARROW = np.linspace(0.97, 1.03, 200)


@pytest.mark.slow
@pytest.mark.parametrize("far", [(), (0.01, 0.2, 1.8), (1e-6, 3e-6, 40.0)], ids=["none", "three", "extreme"])
@pytest.mark.parametrize("null", [0, 3])
def test_a_subspace_takes_the_far_ends_of_a_spectrum_away(far, null):
    matrix, (first, second, right) = preconditioned(np.concatenate([NARROW, far]), null=null)
    space = iterative.deflate(lambda x: matrix @ x, lambda x: x, jnp.stack([first, second]), 32)
    assert np.count_nonzero(space.weights) <= len(far) + 16
    steps = iterative.steps_needed(space.low, space.high, 1e-10, 20)
    assert 3 <= int(steps) <= 9  # of the narrow part: seven for the ends 0.97 and 1.03
    x, rest = space.coarse(right)
    x = x + iterative.chebyshev(lambda x: matrix @ x, space.outside, rest, space.low, space.high, steps)
    assert float(jnp.linalg.norm(matrix @ x - right)) <= 1e-8 * float(jnp.linalg.norm(right))


def test_a_spectrum_that_is_not_narrow_is_found_to_be_so():
    matrix, (first, second, _) = preconditioned(np.geomspace(1e-3, 1, 200))
    space = iterative.deflate(lambda x: matrix @ x, lambda x: x, jnp.stack([first, second]), 8)
    assert int(iterative.steps_needed(space.low, space.high, 1e-6, 12)) == 13


@pytest.fixture
def iterated(large, monkeypatch):
    """Chains of scalings are not eliminated either."""
    monkeypatch.setattr(block_elimination, "_LITTLE_WORK", -1)


@pytest.mark.slow
@pytest.mark.usefixtures("iterated")
def test_chains_of_scalings_by_iteration():
    """Of like units, of units of every size, and with a dead one."""
    net, families = families_at(deep_relu, RELUS, {"x": 30, "h": 40, "k": 20, "y": 5})
    parts = components(families)
    assert [solver.method(part) for part in parts] == ["iterative"]
    arrays = draw(net, 0)
    check(net, families, arrays)
    arrays = {n: a * jnp.exp(2 * b) for (n, a), b in zip(arrays.items(), draw(net, 5).values(), strict=True)}
    check(net, families, arrays)
    arrays |= {"W1": arrays["W1"].at[3].set(0), "b1": arrays["b1"].at[3].set(0), "W2": arrays["W2"].at[:, 3].set(0)}
    check(net, families, arrays)
    narrow, vectors = {n: a.astype(jnp.float32) for n, a in arrays.items()}, draw(net, 1, jnp.float32)
    rest = horizontal(parts, factors_at(parts, narrow), narrow, vectors)
    span = basis(fields(net, families, {n: a.astype(jnp.float64) for n, a in narrow.items()}))
    size = np.linalg.norm(flat(vectors, net))
    assert np.linalg.norm(span.T @ flat(rest, net)) <= 1e-5 * size


def test_elimination_meets_a_singular_block():
    # Equal rows before and after make two coordinates move alike, which only eigenvalues can tell.
    root, alive = inverse_roots.regular(jnp.ones((3, 3)))
    np.testing.assert_allclose(root.T @ root, jnp.ones((3, 3)) / 9, atol=1e-12)
    assert int(alive) == 1


def test_equal_blocks_are_one_skeleton():
    _, families = families_at(deep_relu, RELUS[:1], CHAIN | {"k": 5})
    _, others = families_at(
        deep_relu, [scaling("else", qx.PositiveDiagonal("h"), "W1", "W2", ["b1"])], CHAIN | {"k": 5}
    )
    (one,), (other,) = components(families), components(others)
    assert skeletons.skeleton(one).part is skeletons.skeleton(other).part


def test_tensors_larger_than_the_parameters_are_not_formed():
    _, families = families_at(values, value_symmetries(), {"head": 2, "k": 40, "d": 30})
    (part,) = components(families)
    unformed = [piece for piece in gram.structure(part) if not piece.formed]
    assert unformed
    assert {(piece.row, piece.column) for piece in unformed} == {(0, 2)}


# Newton's step is nothing at all there, and its length has no derivative.
@pytest.mark.slow
def test_a_representative_that_is_canonical_already_has_derivatives():
    _, families = families_at(deep_linear, PAIRS[:1], {"x": 2, "h": 1, "k": 2, "y": 2})
    find = functools.partial(canonical_of, gauge(families, unique=True))
    arrays = {"W1": jnp.array([[1.0, 0.0]]), "W2": jnp.array([[1.0], [0.0]]), "W3": jnp.eye(2)}
    moved = lambda t: find(arrays | {"W1": arrays["W1"] * jnp.exp(2 * t)}).arrays["W1"][0, 0]  # balanced: exp(t)
    slope = lambda t: jax.jvp(moved, (t,), (jnp.ones_like(t),))[1]
    values = jax.jit(lambda t: (moved(t), slope(t), jax.grad(moved)(t), jax.jacfwd(slope)(t)))(jnp.zeros(()))
    np.testing.assert_allclose(values, 1, atol=1e-12)
