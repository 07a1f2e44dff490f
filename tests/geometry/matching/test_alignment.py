"""Alignment over compact and discrete groups: exact recovery, brute force on small groups, bounds and laws."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx
from quotax.geometry.matching.alignment import Plan, match
from quotax.lower import lower_action

PERM, FLIP, O, GL, DIAG, POS, SHIFT = (
    qx.Permutation,
    qx.SignFlip,
    qx.O,
    qx.GL,
    qx.Diagonal,
    qx.PositiveDiagonal,
    qx.Translation,
)


def families(params, claims, sizes):
    """A plan for symmetries of parameters with these axes; the function they belong to plays no part."""
    model = qx.architecture(params=params, inputs={"x": "x"})(lambda p, x: x)
    specs = model.params
    lowered = [lower_action(qx.Symmetry(n, g, a).bind(specs), specs, sizes) for n, (g, a) in claims.items()]
    return Plan(tuple(lowered)), {spec.name: spec.shape(sizes) for spec in specs}


def draw(shapes, seed):
    rng = np.random.default_rng(seed)
    return {n: jnp.asarray(rng.normal(size=s)) for n, s in shapes.items()}


def compact(plan, seed):
    """Random compact elements, by means of their own: QR, signs, permutations, angles; shifts are normal."""
    rng = np.random.default_rng(seed)
    elements = dict(plan.identity(jnp.float64))
    for family in plan.families:
        group, shape = family.group, family.group.shape(family.sizes)
        if isinstance(group, GL | O):
            elements[family.name] = jnp.asarray(np.linalg.qr(rng.normal(size=shape))[0])
        elif isinstance(group, DIAG | FLIP):
            elements[family.name] = jnp.asarray(rng.choice([-1.0, 1.0], shape))
        elif isinstance(group, PERM):
            stack = [np.eye(shape[-1])[rng.permutation(shape[-1])] for _ in range(group.copies(family.sizes))]
            elements[family.name] = jnp.asarray(np.reshape(stack, shape))
        elif isinstance(group, SHIFT):
            elements[family.name] = jnp.asarray(rng.normal(size=shape))
        elif isinstance(group, qx.ComplexScaling):
            angle = rng.uniform(0, 2 * np.pi, (*shape[:-2], shape[-1] // 2, 1))
            both = np.concatenate([0 * angle, angle], -1)
            elements[family.name] = group.exponential(group.algebra(jnp.asarray(both), family.sizes))
    return elements


@functools.partial(jax.jit, static_argnums=0)
def act(plan, arrays, elements):
    for family in plan.families:
        arrays = family.act(arrays, elements[family.name])
    return arrays


def gap(a, b):
    return float(np.sqrt(sum(np.sum(np.square(np.asarray(a[n], float) - np.asarray(b[n], float))) for n in b)))


def size(a):
    return float(np.sqrt(sum(np.sum(np.square(v)) for v in a.values())))


TWO = {"W1": "h x", "b1": "h", "W2": "y h"}
UNITS = {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}


def layers(depth, width, flips=False):
    """A network of several layers, its units permuted (and of either sign)."""
    axes = ["x", *(f"h{i}" for i in range(1, depth)), "y"]
    params = {f"W{i}": f"{axes[i + 1]} {axes[i]}" for i in range(depth)} | {f"b{i}": axes[i + 1] for i in range(depth)}
    claims = {}
    for i in range(depth - 1):
        units = {f"W{i}": f"g @ W{i}", f"b{i}": f"g @ b{i}"}
        claims[f"perm{i}"] = (PERM(axes[i + 1]), units | {f"W{i + 1}": f"W{i + 1} @ g.T"})
        claims[f"scale{i}"] = (POS(axes[i + 1]), units | {f"W{i + 1}": f"W{i + 1} @ inv(g)"})
        if flips:
            claims[f"flip{i}"] = (FLIP(axes[i + 1]), units | {f"W{i + 1}": f"W{i + 1} @ g"})
    return params, claims, dict.fromkeys(axes, width) | {"x": 7, "y": 3}


HEADS = {"Wq": "head k x", "Wk": "head k x", "bq": "head k", "Wv": "head v x", "Wo": "x head v", "bo": "x"}
HEAD_CLAIMS = {
    "qk": (
        GL("k", each="head"),
        {
            "Wq[head,k,x]": "g[head,k,l] Wq[head,l,x]",
            "bq[head,k]": "g[head,k,l] bq[head,l]",
            "Wk[head,k,x]": "inv(g)[head,l,k] Wk[head,l,x]",
        },
    ),
    "heads": (
        PERM("head"),
        {f"{n}[head,{a},x]": f"g[head,i] {n}[i,{a},x]" for n, a in (("Wq", "k"), ("Wk", "k"), ("Wv", "v"))}
        | {"bq[head,k]": "g[head,i] bq[i,k]", "Wo[x,head,v]": "g[head,i] Wo[x,i,v]"},
    ),
    "vo": (
        GL("v", each="head"),
        {"Wv[head,v,x]": "Wv[head,l,x] g[head,l,v]", "Wo[x,head,v]": "inv(g)[head,v,l] Wo[x,head,l]"},
    ),
}
STREAM = {"E": "E @ g.T", "P": "P @ g.T", "U": "U @ g.T", "A": "A @ g.T", "B": "g @ B"} | {
    f"{n}[head,{a},d]": f"g[d,e] {n}[head,{a},e]" for n, a in (("Wq", "k"), ("Wk", "k"), ("Wv", "v"))
}
DECODER = {"E": "voc d", "P": "t d", "U": "voc d", "Wq": "head k d", "Wk": "head k d", "Wv": "head v d"} | {
    "Wo": "d head*v",  # one array dimension for two axes
    "A": "f d",
    "B": "d f",
}
DECODER_CLAIMS = {
    "stream": (O("d"), STREAM | {"Wo[d,head,v]": "g[d,e] Wo[e,head,v]"}),
    "positions": (SHIFT("d"), {"E[voc,d]": "E[voc,d] + g[d]", "P[t,d]": "P[t,d] - g[d]"}),
    "units": (PERM("f"), {"A": "g @ A", "B": "B @ g.T"}),
    "pairs": (
        qx.ComplexScaling("k", each="head", pairs="halves"),
        {"Wq[head,k,d]": "g[head,k,l] Wq[head,l,d]", "Wk[head,k,d]": "inv(g)[head,l,k] Wk[head,l,d]"},
    ),
    "values": (
        GL("v", each="head"),
        {"Wv[head,v,d]": "g[head,v,l] Wv[head,l,d]", "Wo[d,head,v]": "inv(g)[head,l,v] Wo[d,head,l]"},
    ),
    "heads": (
        PERM("head"),
        {f"{n}[head,{a},d]": f"g[head,i] {n}[i,{a},d]" for n, a in (("Wq", "k"), ("Wk", "k"), ("Wv", "v"))}
        | {"Wo[d,head,v]": "g[head,i] Wo[d,i,v]"},
    ),
}
RECURRENT = {"U": "h x", "W": "h h", "b": "h", "V": "y h"}
GATED = {"G": "h x", "U": "h x", "D": "y h"}
TANH = {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g"}
SMALL = {"x": 3, "y": 2, "h": 4}

CASES = {
    "two layers": (TWO, {"scale": (POS("h"), UNITS), "perm": (PERM("h"), UNITS)}, {"h": 64, "x": 10, "y": 5}),
    "four layers": layers(4, 24),
    "four layers with flips": layers(4, 16, flips=True),
    "tanh": (TWO, {"flip": (FLIP("h"), TANH), "perm": (PERM("h"), UNITS)}, {"h": 9, "x": 4, "y": 2}),
    "linear": (TWO, {"gl": (GL("h"), UNITS)}, {"h": 5, "x": 6, "y": 3}),
    "deep linear": (
        {"W1": "h x", "W2": "k h", "W3": "y k"},
        {
            "first": (GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"}),
            "second": (GL("k"), {"W2": "g @ W2", "W3": "W3 @ inv(g)"}),
        },
        {"x": 7, "h": 5, "k": 4, "y": 6},
    ),
    "heads": (HEADS, HEAD_CLAIMS, {"head": 5, "k": 3, "v": 4, "x": 6}),
    "decoder": (DECODER, DECODER_CLAIMS, {"voc": 9, "d": 8, "t": 5, "head": 4, "k": 4, "v": 3, "f": 10, "x": 1}),
    "gates": (
        GATED,
        {
            "both": (DIAG("h"), {"U": "g @ U", "G": "G", "D": "D @ inv(g)"}),
            "perm": (PERM("h"), {"U": "g @ U", "G": "g @ G", "D": "D @ g.T"}),
            "gate": (DIAG("h"), {"G": "g @ G", "D": "D @ inv(g)"}),
        },
        {"h": 8, "x": 5, "y": 3},
    ),
    "gates without permutations": (
        GATED,
        {
            "both": (DIAG("h"), {"U": "g @ U", "D": "D @ inv(g)"}),
            "gate": (DIAG("h"), {"G": "g @ G", "D": "D @ inv(g)"}),
        },
        {"h": 8, "x": 5, "y": 3},
    ),
    "squares": (
        {"W1": "h x", "W2": "y h"},
        {"diag": (DIAG("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)**2"})},
        {"h": 6, "x": 3, "y": 2},
    ),
    "softmax head": (
        {"W": "y x", "b": "y"},
        {"rows": (SHIFT("x"), {"W[y,x]": "W[y,x] + g[x]"}), "bias": (SHIFT(), {"b": "b + g"})},
        {"x": 4, "y": 3},
    ),
    "recurrent": (
        RECURRENT,
        {
            "flip": (FLIP("h"), {"U": "g @ U", "W": "g @ W @ g", "b": "g @ b", "V": "V @ g"}),
            "perm": (PERM("h"), {"U": "g @ U", "W": "g @ W @ g.T", "b": "g @ b", "V": "V @ g.T"}),
        },
        {"h": 10, "x": 4, "y": 2},
    ),
    "state space": (
        RECURRENT,
        {"gl": (GL("h"), {"U": "g @ U", "W": "g @ W @ inv(g)", "b": "g @ b", "V": "V @ inv(g)"})},
        {"h": 5, "x": 3, "y": 3},
    ),
    "sigmoid": (
        TWO | {"b2": "y"},
        {"flip": (FLIP("h"), TANH | {"b2": "b2 + 0.5 * W2 @ (1 - g)"}), "perm": (PERM("h"), UNITS)},
        {"h": 8, "x": 4, "y": 2},
    ),
    "grouped": (
        {"Wq": "kv r x k", "Wk": "kv x k", "Wv": "kv x v", "Wo": "kv r v y"},
        {
            "within": (
                PERM("r", each="kv"),
                {"Wq[kv,r,x,k]": "g[kv,r,s] Wq[kv,s,x,k]", "Wo[kv,r,v,y]": "g[kv,r,s] Wo[kv,s,v,y]"},
            ),
            "between": (
                PERM("kv"),
                {
                    "Wq[kv,r,x,k]": "g[kv,i] Wq[i,r,x,k]",
                    "Wk[kv,x,k]": "g[kv,i] Wk[i,x,k]",
                    "Wv[kv,x,v]": "g[kv,i] Wv[i,x,v]",
                    "Wo[kv,r,v,y]": "g[kv,i] Wo[i,r,v,y]",
                },
            ),
        },
        {"kv": 4, "r": 3, "x": 5, "k": 2, "v": 2, "y": 3},
    ),
}


QUICK = ("heads", "gates", "squares", "softmax head")


@functools.cache
def case(name):
    params, claims, sizes = CASES[name]
    return families(params, claims, sizes | {"x": sizes["x"]})


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_copies_are_recovered_exactly(name):
    plan, shapes = case(name)
    arrays, elements = draw(shapes, 0), compact(plan, 1)
    copy = act(plan, arrays, elements)
    found = match(plan, arrays, copy)
    assert float(found.distance) < 1e-11 * size(copy)
    assert gap(found.arrays, copy) < 1e-11 * size(copy)
    assert gap(act(plan, arrays, found.elements), found.arrays) < 1e-12 * size(copy)
    assert float(found.lower_bound) < 1e-7 * size(copy)
    assert float(found.starts[0]) < 1e-11 * size(copy)  # the first start is enough
    if name == "four layers":
        np.testing.assert_array_equal(found.starts[1:], np.inf)  # so that no other is tried
    for family in plan.families:
        if isinstance(family.group, PERM) and name in ("two layers", "four layers"):
            np.testing.assert_array_equal(found.elements[family.name], elements[family.name])
        if isinstance(family.group, POS) and type(family.group) is POS:
            np.testing.assert_array_equal(found.elements[family.name], 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=3)
@given(seed=st.integers(0, 2**20), scale=st.sampled_from([0.05, 0.5, 5.0]))
def test_alignment_is_no_worse_than_nothing_and_above_its_bound(name, seed, scale):
    plan, shapes = case(name)
    arrays, noise = draw(shapes, seed), draw(shapes, seed + 1)
    reference = {n: arrays[n] + scale * noise[n] for n in arrays}
    if name != "sigmoid":  # the only family here that is no isometry
        reference = act(plan, reference, compact(plan, seed))
    found = match(plan, arrays, reference)
    distance, total = float(found.distance), size(reference) + size(arrays)
    assert distance <= scale * size(noise) + 1e-9 * total or scale > 1 or name == "sigmoid"
    assert distance <= gap(arrays, reference) + 1e-12 * total  # never worse than doing nothing
    assert float(found.lower_bound) <= distance + 1e-9 * total
    assert distance == pytest.approx(float(jnp.min(found.starts)), rel=1e-9, abs=1e-9)
    assert float(found.gap) == pytest.approx(max(distance - float(found.lower_bound), 0))
    assert gap(act(plan, arrays, found.elements), found.arrays) < 1e-12 * total


# One cluster of families, so that the closest element is found and not only approached.
SOLVED = ("two layers", "tanh", "linear", "heads", "gates", "gates without permutations", "squares", "softmax head")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in SOLVED])
@settings(max_examples=3)
@given(seed=st.integers(0, 2**20))
def test_distance_is_one_of_orbits_where_one_step_solves_it(name, seed):
    plan, shapes = case(name)
    a, b = draw(shapes, seed), draw(shapes, seed + 1)
    found = match(plan, a, b)
    distance = pytest.approx(float(found.distance), rel=1e-9)
    assert float(found.lower_bound) == distance  # proved to be the closest
    assert float(match(plan, b, a).distance) == distance  # symmetric
    assert float(match(plan, act(plan, a, compact(plan, seed)), b).distance) == distance  # of orbits
    assert float(match(plan, a, act(plan, b, compact(plan, seed + 2))).distance) == distance
    other = draw(shapes, seed + 3)
    through = float(match(plan, a, other).distance) + float(match(plan, other, b).distance)
    assert float(found.distance) <= through + 1e-9


# --- against other means


def everything(group, sizes):
    """All elements of a small discrete group."""
    if isinstance(group, FLIP | DIAG):
        return [np.array(s, float) for s in itertools.product((1, -1), repeat=sizes["h"])]
    return [np.eye(sizes["h"])[list(p)] for p in itertools.permutations(range(sizes["h"]))]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "gates without permutations", "squares", "gates", "recurrent"])
def test_against_all_elements(name):
    params, claims, _ = CASES[name]
    sizes = {"x": 2, "y": 2, "h": 3}
    plan, shapes = families(params, claims, sizes)
    stack = [jnp.asarray(np.array(everything(family.group, sizes))) for family in plan.families]
    indices = np.array(list(itertools.product(*(range(len(s)) for s in stack))))

    def distance(index, a, b):
        moved = a
        for family, elements, i in zip(plan.families, stack, index, strict=True):
            moved = family.act(moved, elements[i])
        return jnp.sqrt(sum(jnp.sum((moved[n] - b[n]) ** 2) for n in b))

    distances = jax.jit(lambda a, b: jax.lax.map(lambda i: distance(i, a, b), jnp.asarray(indices), batch_size=256))
    for seed in range(2):
        a, b = draw(shapes, seed), draw(shapes, seed + 10)
        best = float(jnp.min(distances(a, b)))
        # A recurrent weight makes an assignment quadratic: as few as one random start in sixty ends at the best.
        found = match(plan, a, b, starts=8 if plan.solved else 400)
        assert float(found.distance) == pytest.approx(best, rel=1e-12)
        assert float(found.lower_bound) <= best * (1 + 1e-12)


def test_one_sign_of_all_parameters_is_found():
    plan, shapes = families({"a": "h", "b": "h"}, {"flip": (qx.SignFlip(), {"a": "g * a", "b": "g * b"})}, {"h": 3})
    arrays = draw(shapes, 0)
    found = match(plan, {name: -array for name, array in arrays.items()}, arrays)
    assert float(found.distance) == 0
    assert float(found.elements["flip"]) == -1


def test_one_rotation_is_that_of_procrustes():
    plan, shapes = families({"W": "h x"}, {"o": (O("h"), {"W": "g @ W"})}, {"h": 6, "x": 9})
    a, b = draw(shapes, 0), draw(shapes, 1)
    found = match(plan, a, b)
    expected = scipy.linalg.orthogonal_procrustes(np.asarray(a["W"]).T, np.asarray(b["W"]).T)[0].T
    np.testing.assert_allclose(found.elements["o"], expected, atol=1e-12)
    np.testing.assert_allclose(found.lower_bound, found.distance, rtol=1e-12)


def test_against_the_bures_wasserstein_distance():
    # |A - B Q| over O(r) is the Bures-Wasserstein distance of A A^T and B B^T.
    plan, shapes = families({"A": "x h"}, {"o": (O("h"), {"A": "A @ g.T"})}, {"h": 3, "x": 3})
    a, b = draw(shapes, 0), draw(shapes, 1)
    s, t = (np.asarray(p["A"] @ p["A"].T) for p in (a, b))
    root = scipy.linalg.sqrtm(s)
    square = np.trace(s) + np.trace(t) - 2 * np.trace(scipy.linalg.sqrtm(root @ t @ root).real)
    assert float(match(plan, a, b).distance) == pytest.approx(np.sqrt(square), rel=1e-9)


@pytest.mark.parametrize("pairs", ["adjacent", "halves"])
def test_angles_of_pairs_against_a_grid(pairs):
    action = {"Wq": "g @ Wq", "Wk": "inv(g).T @ Wk"}
    plan, shapes = families(
        {"Wq": "k x", "Wk": "k x"}, {"c": (qx.ComplexScaling("k", pairs=pairs), action)}, {"k": 2, "x": 3}
    )
    a, b = draw(shapes, 0), draw(shapes, 1)
    angles = np.linspace(0, 2 * np.pi, 20001)
    turn = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    squares = sum(np.sum((turn @ np.asarray(a[n]) - np.asarray(b[n])) ** 2, (1, 2)) for n in a)
    found = match(plan, a, b)
    assert float(found.distance) == pytest.approx(np.sqrt(squares.min()), rel=1e-6)
    assert float(found.distance) <= np.sqrt(squares.min()) + 1e-12
    g = np.asarray(found.elements["c"])
    np.testing.assert_allclose(g @ g.T, np.eye(2), atol=1e-12)


def test_translations_against_least_squares():
    params, claims = {"E": "voc d", "P": "t d"}, {"shift": DECODER_CLAIMS["positions"]}
    plan, shapes = families(params, claims, {"voc": 4, "t": 3, "d": 2, "x": 1})
    a, b = draw(shapes, 0), draw(shapes, 1)
    found = match(plan, a, b)
    columns = np.concatenate([np.ones(4), -np.ones(3)])
    aim = np.concatenate([b["E"] - a["E"], b["P"] - a["P"]])
    shift = columns @ aim / 7
    np.testing.assert_allclose(found.elements["shift"], shift, atol=1e-12)
    assert float(found.distance) == pytest.approx(np.linalg.norm(aim - np.outer(columns, shift)), rel=1e-12)
    assert float(found.lower_bound) <= float(found.distance)


@pytest.mark.slow
def test_a_bound_from_singular_values_holds_where_layers_share_a_weight():
    plan, shapes = case("deep linear")
    a, b = draw(shapes, 0), draw(shapes, 1)
    values = [np.linalg.svd(np.asarray(p["W2"]), compute_uv=False) for p in (a, b)]
    found = match(plan, a, b)
    assert np.linalg.norm(values[0] - values[1]) <= float(found.lower_bound) <= float(found.distance)
    equal = match(plan, a, {n: 2 * v for n, v in a.items()})  # a multiple of itself: the bound is attained
    np.testing.assert_allclose(equal.distance, size(a), rtol=1e-9)
    np.testing.assert_allclose(equal.lower_bound, size(a), rtol=1e-9)


@pytest.mark.slow
def test_noise_much_smaller_than_the_weights_is_all_that_is_left():
    plan, shapes = case("four layers with flips")
    a, noise = draw(shapes, 0), draw(shapes, 1)
    copy = act(plan, a, compact(plan, 2))
    found = match(plan, a, {n: copy[n] + 0.05 * noise[n] for n in a})
    assert float(found.distance) == pytest.approx(0.05 * size(noise), rel=1e-9)


# --- transformations


@pytest.mark.slow
def test_jit_vmap_and_derivatives():
    plan, shapes = case("deep linear")
    a, b, d = draw(shapes, 0), draw(shapes, 1), draw(shapes, 2)
    eager = match(plan, a, b, starts=3)
    compiled = jax.jit(lambda p, q: match(plan, p, q, starts=3))(a, b)
    jax.tree.map(functools.partial(np.testing.assert_allclose, atol=1e-12), eager, compiled)
    both = jax.tree.map(lambda *v: jnp.stack(v), a, d)
    batched = jax.jit(jax.vmap(lambda p: match(plan, p, b, starts=3).distance))(both)
    np.testing.assert_allclose(batched, [match(plan, p, b, starts=3).distance for p in (a, d)], rtol=1e-12)

    distance = lambda t: match(plan, {n: a[n] + t * d[n] for n in a}, b, starts=3).distance
    slope = (distance(1e-6) - distance(-1e-6)) / 2e-6
    slopes = jax.jit(lambda t: (jax.grad(distance)(t), jax.jvp(distance, (t,), (1.0,))[1]))(0.0)
    np.testing.assert_allclose(slopes, slope, rtol=1e-6)
    at_zero = jax.jit(jax.grad(lambda p: match(plan, p, a, starts=3).distance))(a)
    assert all(np.all(np.isfinite(v)) for v in at_zero.values())


@pytest.mark.slow
def test_float32_stays_and_is_accurate(strict_promotion):
    plan, shapes = case("heads")
    exact = draw(shapes, 0)
    a, copy = (jax.tree.map(lambda v: v.astype(jnp.float32), p) for p in (exact, act(plan, exact, compact(plan, 1))))
    found = match(plan, a, copy)
    assert all(v.dtype == jnp.float32 for v in jax.tree.leaves(found))
    assert float(found.distance) < 1e-5 * size(copy)


@pytest.mark.slow
def test_more_starts_are_never_worse():
    plan, shapes = case("four layers")
    a, b = draw(shapes, 0), draw(shapes, 1)
    distances = [float(match(plan, a, b, starts=n).distance) for n in (1, 2, 6)]
    assert match(plan, a, b, starts=6).starts.shape == (6,)
    assert distances[0] >= distances[2]
    assert distances[1] >= distances[2] - 1e-9


def test_families_without_a_compact_part_stay_at_the_identity():
    claims = {
        "scale": (POS("h"), UNITS),
        "bias": (SHIFT("h"), {"b1": "b1 + g", "W2[y,h]": "W2[y,h] exp(-g[h])"}),  # no constant field
        "whole": (qx.PositiveScalar(), {"W1": "g * W1"}),
    }
    plan, shapes = families(TWO, claims, SMALL)
    a, b = draw(shapes, 0), draw(shapes, 1)
    found = match(plan, a, b)
    assert gap(found.arrays, a) == 0
    assert float(found.distance) == float(found.lower_bound) == pytest.approx(gap(a, b))
    assert set(found.elements) == set(claims)


@pytest.mark.filterwarnings("ignore:.*not invariant")
def test_nothing_bounds_what_has_no_canonical_representative():
    """Wider than what reads and writes it can fix: two points of one orbit stay apart, and no bound says otherwise."""
    model = qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})(lambda p, x: p["B"] @ (p["A"] @ x))
    mix = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})
    space = qx.quotient(model.at(x=2, h=3, y=2), mix, metric="euclidean")
    point = draw({"A": (3, 2), "B": (2, 3)}, 0)
    found = space.alignment(space.act(point, space.random_element(jax.random.key(0))), point)
    assert found.lower_bound == 0
    assert not found.attained
    assert "means little" in str(found)


def test_parameters_that_nothing_touches_count():
    plan, shapes = families(TWO | {"b2": "y"}, {"perm": (PERM("h"), UNITS)}, SMALL)
    a = draw(shapes, 0)
    b = a | {"b2": a["b2"] + 3.0}
    found = match(plan, a, b)
    np.testing.assert_allclose([found.distance, found.lower_bound], 3 * np.sqrt(2), rtol=1e-12)


@pytest.mark.slow
def test_a_wide_layer():
    plan, shapes = families(TWO, {"perm": (PERM("h"), UNITS)}, {"h": 1024, "x": 300, "y": 10})
    a = draw(shapes, 0)
    elements = compact(plan, 1)
    found = match(plan, a, act(plan, a, elements), starts=2)
    np.testing.assert_array_equal(found.elements["perm"], elements["perm"])
