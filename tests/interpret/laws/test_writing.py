"""The sheet of a model, evaluated by brute force, is what JAX computes: how each primitive is written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import quotax as qx
from certify import claims
from certify.test_primitives import CASES
from kernel.evaluation import Numbers, Opaque, contradicted, output_array
from quotax.certify.every_width.opening import Opening, opened
from quotax.certify.every_width.proving import prove_for_every_width
from quotax.kernel.sizes import Size

MODELS = list({id(row[1]): (row[0], row[1]) for row in claims.TRUE + claims.FALSE}.values())


def opening_of(model):
    """The model written out with symbols for all sizes, or for all halves of sizes."""
    for multiple in ("", "2*"):
        found = opened(model, {a: f"{multiple}{a}" for a in model.axis_names})
        if isinstance(found, Opening):
            break
    return found


def drawn(spec, sizes, rng, positive=False):
    shape = spec.shape(sizes)
    if spec.kind == "tokens":
        return rng.integers(0, spec.below if isinstance(spec.below, int) else sizes[spec.below], shape)
    if spec.kind == "mask":
        return rng.integers(0, 2, shape).astype(float)
    value = rng.normal(size=shape)
    return np.abs(value) + 0.1 if positive else value


def nest(names, leaves):
    tree = {}
    for name, leaf in zip(names, leaves, strict=True):
        *path, last = name.split("/")
        node = tree
        for key in path:
            node = node.setdefault(key, {})
        node[last] = leaf
    return tree


def compare(model, symbols, rng, positive=()):
    """Both sides at these values of the symbols; the reason why there is nothing to compare, if there is none."""
    opening = opening_of(model)
    if isinstance(opening, str):
        return opening
    sizes = {a: Size.of(s).at(symbols) if not isinstance(s, int) else s for a, s in opening.trace.sizes.items()}
    specs = (*model.params, *model.inputs)
    values = {s.name: drawn(s, sizes, rng, s.name in positive) for s in specs}
    params = nest([s.name for s in model.params], [jax.numpy.asarray(values[s.name]) for s in model.params])
    expected = jax.tree.leaves(model.call(params, *(values[s.name] for s in model.inputs), sizes=sizes))
    numbers = Numbers(opening.sheet.atoms, symbols, values, opening.sheet.loops)
    assert len(expected) == len(opening.sheet.outputs)
    for poly, array in zip(opening.sheet.outputs, expected, strict=True):
        array = np.asarray(array, float)
        found = output_array(numbers, poly, array.shape)
        np.testing.assert_allclose(found, array, rtol=1e-8, atol=1e-10)
    assert not contradicted(numbers)
    return None


def architecture(f):
    @qx.architecture(params={"b": "h", "c": "h"}, inputs={})
    def net(p):
        return f(p["b"], p["c"])

    return net


# --- every model of the table, and of every primitive

KEPT = (
    "linear GL", "ReLU scaling", "softmax rows", "log softmax rows", "batch norm shift", "layer norm rows",
    "RMS norm O",
    "conv batch norm before", "ReLU RNN", "diagonal state space", "attention queries and keys", "grouped queries",
    "embedding shift", "one-hot shift", "unstacked gate", "unit set to zero",
)  # fmt: skip
SIZES = ((2, 3, 4, 1, 3, 2, 2, 5), (3, 1, 2, 4, 2, 3, 5, 2))
SLOW = pytest.mark.slow


def symbols_of(model, base):
    return {a: base[k % len(base)] for k, a in enumerate(model.axis_names)}


@pytest.mark.parametrize(
    ("name", "model"), [pytest.param(*row, id=row[0], marks=[] if row[0] in KEPT else [SLOW]) for row in MODELS]
)
def test_the_sheet_of_a_model_is_what_it_computes(name, model):
    """At two assignments of sizes, one of them with axes of size one."""
    for base in SIZES:
        missing = compare(model, symbols_of(model, base), np.random.default_rng(0))
        assert missing is None or "write out of bounds" in missing


UNREAD = (
    "by an integer", "more than two cases", "its condition is a value", "its position is a value",
    "to a place that is a value", "to several places", "made of several axes", "cannot be traced",
    "may be out of bounds",
)  # fmt: skip
"""Why models of the table of primitives are not written out."""
SMOKE = (
    "scan", "cond", "rev", "concatenate", "pad", "gather", "dot_general", "reduce_max", "cumsum", "argmax", "select_n",
    "conv_general_dilated", "integer_pow", "sqrt", "lt", "reduce_window_max", "tile", "dynamic_slice",
)  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in SMOKE else [SLOW]) for n in CASES])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_primitive_is_written_out_as_it_computes(name):
    """Where every condition holds, and anywhere if the sheet takes nothing for granted."""
    read = 0
    for f in CASES[name]:
        model = architecture(f)
        opening = opening_of(model)
        if isinstance(opening, str):
            assert any(reason in opening for reason in UNREAD), opening
            continue
        free = not (opening.sheet.guards or opening.sheet.assumptions)
        assert compare(model, {"h": 4}, np.random.default_rng(0), ("b", "c")) is None
        positive = () if free else ("b", "c")
        assert compare(model, {"h": 3}, np.random.default_rng(1), positive) is None
        read += 1
    assert read or name == "scatter-add" or name == "dynamic_update_slice"


# --- models of our own: what the tables do not have

MORE = {}


def more(name, params, inputs=None):
    def keep(f):
        MORE[name] = qx.architecture(params=params, inputs=inputs or {})(f)
        return f

    return keep


@more("scans of two carries, of numbers and in reverse", {"b": "h", "W": "h k"})
def _(p):
    one = lax.scan(lambda t, x: ((t[1], t[0] + x), t[0] * x), (0.0, 1.0), p["b"])
    two = lax.scan(lambda t, x: ((t[0] + 1, t[1] + t[0] * x), t[0]), (0, 0.0), p["b"])
    start = jnp.zeros(p["W"].shape[1])
    three = lax.scan(lambda t, x: (jnp.tanh(t + x), t * x), start, p["W"], reverse=True)
    return one, two, three, jax.vmap(lambda r: lax.scan(lambda t, x: (jnp.tanh(t + x), t), 0.0, r)[1])(p["W"])


@more("a scan after a scan, and one unrolled in another", {"b": "h", "W": "h k", "c": "k", "U": "3 k"})
def _(p):
    a, s = lax.scan(lambda t, x: (t * 0.5 + x, t), 0.0, p["b"])
    after = lax.scan(lambda t, x: (t * x + a + s.sum(), t * a), 1.0, p["c"])

    def turn(t, x):
        return lax.scan(lambda s, u: (jnp.tanh(s + u * x), s * u), t, p["U"], reverse=True)

    return after, lax.scan(turn, jnp.zeros(p["U"].shape[1]), p["W"])


@more("reshapes", {"W": "h*k m", "V": "h k m"})
def _(p):
    h, k, m = p["V"].shape
    turned = p["V"].transpose(2, 0, 1)
    return (p["W"].reshape(h, k, m), p["V"].reshape(h * k * m), turned.reshape(m * h, k), p["V"].sum((0, 2)),
            jnp.repeat(p["V"], 2, 1), jnp.tile(p["W"], (2, 3)), p["W"][0], p["W"][::-1], p["W"][-1])  # fmt: skip


@more("parts and strides", {"b": "h", "c": "k", "W": "h k", "V": "h k"})
def _(p):
    W, V, b, c = p["W"], p["V"], p["b"], p["c"]
    long = jnp.concatenate([b, b, W.ravel()])
    several = jnp.concatenate([b, c])
    return (long[::2], long[1::2], long[::-1], jnp.roll(b, 1), several[b.shape[0]:], jnp.concatenate([W, V], 1)[:, ::2],
            jnp.concatenate([W, b[:, None]], 1), jnp.concatenate([b[:1], c, jnp.ones(2)]), several @ several,
            jnp.stack([W, V], 1).reshape(2 * b.shape[0], -1))  # fmt: skip


@more("pads", {"b": "h", "W": "h k"})
def _(p):
    b = p["b"]
    return (lax.pad(b, 2.0, [(1, 2, 1)]), lax.pad(b, 0.0, [(0, 3, 2)]),
            lax.pad(jnp.concatenate([b, b, b]), 1.0, [(-1, 2, 0)]), lax.pad(jnp.concatenate([b, b]), 1.0, [(2, -1, 0)]),
            jnp.pad(p["W"], ((1, 0), (0, 2)), constant_values=3.0), jnp.pad(b, 1, mode="edge"))  # fmt: skip


@more("ramps that meet joint indices", {"W": "h k", "b": "h", "three": "3"})
def _(p):
    ravelled = jnp.pad((p["W"] * p["b"][:, None]).reshape(-1), (1, 0))
    joined = jnp.concatenate([p["W"].reshape(-1), p["b"]])
    places = lambda r: jnp.arange(r.shape[0]) * 1.0
    flipped = jnp.eye(3)[::-1]
    return (ravelled @ places(ravelled), joined @ places(joined), (ravelled**2) @ places(ravelled) ** 2,
            flipped @ p["three"], jnp.flip(p["three"]) @ flipped)  # fmt: skip


@more("strided, dilated and transposed convolutions", {"K": "3 3 a c", "L": "3 a c"}, {"x": "n 5 6 a", "y": "n 7 a"})
def _(p, x, y):
    conv = lambda *args, **how: lax.conv_general_dilated(
        x, p["K"], *args, dimension_numbers=("NHWC", "HWIO", "NHWC"), **how
    )
    return (conv((1, 2), "SAME"), conv((2, 1), ((1, 1), (0, 2))), conv((1, 1), "VALID", rhs_dilation=(2, 1)),
            conv((1, 1), ((1, 2), (0, 1)), lhs_dilation=(2, 3)),
            lax.conv_transpose(y, p["L"], (2,), "SAME"))  # fmt: skip


@more("grouped convolutions", {"K": "g*c 2 3", "L": "g 1 3"}, {"x": "n g*2 7", "y": "n g 7"})
def _(p, x, y):
    conv = lambda x, k, groups: lax.conv_general_dilated(
        x, k, (2,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"), feature_group_count=groups
    )
    return conv(x, p["K"], x.shape[1] // 2), conv(y, p["L"], y.shape[1])


@more("pools", {"b": "h"}, {"x": "n 7 8 h"})
def _(p, x):
    x = x * p["b"]
    add = lambda d, s, pad, **how: lax.reduce_window(x, 0.0, lax.add, d, s, pad, **how)
    return (add((1, 3, 2, 1), (1, 2, 3, 1), "VALID"), add((1, 7, 8, 1), (1, 1, 1, 1), "VALID"),
            add((1, 2, 2, 1), (1, 2, 1, 1), "SAME", window_dilation=(1, 2, 3, 1)),
            add((1, 1, 1, 1), (1, 2, 1, 1), "VALID"),
            lax.reduce_window(p["b"], jnp.inf, lax.min, (3,), (2,), ((1, 1),)))  # fmt: skip


@more("reads at tokens and at places", {"E": "v d", "W": "n v"}, {"t": qx.Tokens("n", below="v")})
def _(p, t):
    E, W = p["E"], p["W"]
    ramp = jnp.arange(E.shape[0])
    return (E[t], E[t[0]], E[t, 0], E[-1], jax.nn.one_hot(t, E.shape[0], axis=0), E[jnp.array([0, 0])],
            jnp.take(E, jnp.array([-1, 0, 5]), axis=0, mode="clip"), jnp.take(E, 2 * ramp, axis=0, mode="clip"),
            jnp.take_along_axis(W, t[:, None], -1)[:, 0], (t[:, None] == t[None]) * 1.0, (t == 0) * 1.0,
            E[jnp.argmax(E[:, 0])], jax.nn.one_hot(jnp.argmax(W, 1), W.shape[1]))  # fmt: skip


@more("triangles, traces and updates", {"b": "h", "W": "h h", "V": "h k", "c": "k"})
def _(p):
    W, V, b = p["W"], p["V"], p["b"]
    return (jnp.tril(W), jnp.triu(W, 1), jnp.diag(b) @ W, jnp.trace(W), b.at[0].add(2.0), b.at[-1].set(1.0),
            V.at[0].set(p["c"]), V.at[:, 0].set(0.0), V.at[0, 0].add(1.0))  # fmt: skip


@more("along dimensions", {"W": "h k"})
def _(p):
    W = p["W"]
    return (lax.cumsum(W, 0), lax.cumsum(W, 1, reverse=True), lax.cummax(W, 0, reverse=True), lax.cumprod(W, 1),
            jnp.sort(W, 0), jnp.argmax(W, 0), jnp.argmax(W), lax.top_k(W, 1), W.var(0), W.mean())  # fmt: skip


@more("choices and infinities", {"b": "h", "c": "h"})
def _(p):
    b, c, n = p["b"], p["c"], jnp.arange(p["b"].shape[0])
    return (jnp.where(b > c, b, -jnp.inf).max(), jnp.where(b > c, -jnp.inf, b), b / jnp.where(c == 0, 1.0, c),
            jnp.where((b > 0) & (c > 0) | (b < -1), b, c), jnp.where(~(b > 0) ^ (c > 0), b, c), jnp.where(n == 0, b, c),
            jnp.where(n[:, None] > n, 0.0, b), jnp.clip(b, -0.5, 0.5), jnp.minimum(b, jnp.inf), (b != c) * 1.0,
            jnp.where(b > 0, b, jnp.nan), jnp.where(n % 2 == 0, b, -b), (n // 2) * b,
            jnp.minimum(n, 2) * b)  # fmt: skip


@more("powers where they are defined", {"b": "h", "c": "h"})
def _(p):
    b, c = p["b"] ** 2 + 0.1, p["c"] ** 2 + 0.2
    x = p["b"]
    return (x**5, (x - p["c"]) ** 6, (x * x) ** 0.5, jnp.sqrt(x**2 * p["c"] ** 2), (x**4) ** 0.25, b**0.5,
            (b * c) ** -1.5,
            jnp.sqrt(2 * b), 1 / (b + c), (b**0.5) ** 2, (b**3) ** (1 / 3), lax.rsqrt(x**2), (2 * x) ** -3)  # fmt: skip


@more("maps and gradients", {"W": "h k", "V": "h"}, {"x": "n k"})
def _(p, x):
    loss = lambda q: jnp.sum(jnp.tanh(q @ x[0]) * p["V"]) + jnp.max(q) + jnp.sum(jax.nn.softmax(q)[0])
    return (
        jax.vmap(lambda v: jax.nn.softmax(p["W"] @ v))(x),
        lax.map(lambda r: r @ x[0], p["W"]),
        jax.grad(loss)(p["W"]),
    )


QUICK = (
    "scans of two carries, of numbers and in reverse", "reshapes", "pads", "pools", "ramps that meet joint indices",
    "reads at tokens and at places",
)  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [SLOW]) for n in MORE])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_model_of_our_own_is_written_out_as_it_computes(name):
    for base in (*SIZES, (1, 1, 1, 1)):
        assert compare(MORE[name], symbols_of(MORE[name], base), np.random.default_rng(1)) is None


# --- read wrongly


def test_a_loop_within_a_loop():
    """Every row of a map is scanned: what comes out is not the same for all rows."""

    def net(b, c):
        return lax.map(lambda x: lax.scan(lambda t, y: (0.5 * t + x * y, None), 0.0, c)[0], b)

    model = architecture(net)
    opening = opening_of(model)
    if isinstance(opening, str):
        return  # that it is not read is no mistake
    assert compare(model, {"h": 3}, np.random.default_rng(0)) is None
    twice = architecture(lambda b, c: net(b, c)[::-1] - net(b, c))
    assert any(opening_of(twice).sheet.outputs)


def test_a_choice_by_what_it_divides_by():
    def net(b, c):
        chosen = b > 1
        return jnp.where(chosen, c / chosen.astype(float), 0.0)

    assert compare(architecture(net), {"h": 4}, np.random.default_rng(0)) is None


POSITIONS = {
    "ramp": lambda i, t, z: i,
    "its square": lambda i, t, z: i * i,
    "its cube": lambda i, t, z: i * i * i,
    "twice": lambda i, t, z: 2 * i,
    "reversed": lambda i, t, z: i.shape[0] - 1 - i,
    "one less": lambda i, t, z: i - 1,
    "ramp in floats": lambda i, t, z: i.astype(float),
    "square in floats": lambda i, t, z: i.astype(float) ** 2,
    "root in floats": lambda i, t, z: jnp.sqrt(i.astype(float)),
    "tokens": lambda i, t, z: t,
    "square of tokens": lambda i, t, z: t * t,
    "tokens by ramp": lambda i, t, z: t * i,
    "place of the largest": lambda i, t, z: jnp.broadcast_to(jnp.argmax(z), i.shape),
    "its square in floats": lambda i, t, z: jnp.broadcast_to(jnp.argmax(z).astype(float) ** 2, i.shape),
    "its double in floats": lambda i, t, z: jnp.broadcast_to(2.0 * jnp.argmax(z).astype(float), i.shape),
}
COMPARED = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "ge": lambda a, b: a >= b}


@pytest.mark.parametrize("right", ["ramp", "its square", *(pytest.param(f"{n} in floats", marks=SLOW)
                                                          for n in ("ramp", "square"))])  # fmt: skip
@pytest.mark.parametrize("left", POSITIONS)
def test_positions_are_compared_as_numbers(left, right):
    """A square of a ramp is no ramp, and the place of a maximum is not its square: at every size."""

    @qx.architecture(params={"b": "h"}, inputs={"t": qx.Tokens("h", below="h")})
    def net(p, t):
        i = jnp.arange(p["b"].shape[0])
        one, two = (POSITIONS[name](i, t, p["b"]) for name in (left, right))
        return tuple(f(one[:, None], two[None, :]) @ p["b"] for f in COMPARED.values())

    for size in (1, 2, 3, 5):
        missing = compare(net, {"h": size}, np.random.default_rng(size))
        assert missing is None, missing


USES = {
    "read": lambda b, i, q: b[q.astype(int)],
    "read or zero": lambda b, i, q: jnp.take(b, q.astype(int), mode="fill", fill_value=0.0),
    "largest": lambda b, i, q: jnp.maximum(q, 1) * b,
    "least": lambda b, i, q: jnp.minimum(q, i) * b,
    "clipped": lambda b, i, q: jnp.clip(q, 0, i.shape[0] - 1) * b,
    "running sum": lambda b, i, q: jnp.cumsum(q) * b,
    "choice": lambda b, i, q: jnp.where(q > 1, b, -b),
    "product": lambda b, i, q: (q[:, None] * i[None, :]) @ b,
    "slice": lambda b, i, q: lax.dynamic_slice(b, (q[-1].astype(int),), (1,)),
    "one hot": lambda b, i, q: jax.nn.one_hot(q.astype(int), b.shape[0]) @ b,
    "without a sign": lambda b, i, q: (q.astype("uint32") - 1) * b,
    "place of a product": lambda b, i, q: b[jnp.argmax(b * q)],
}


@pytest.mark.slow
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_used_as_numbers(name, use):
    """What is read, bounded, summed and chosen by positions, where entries exist; what is not read is no mistake."""

    @qx.architecture(params={"b": "h"}, inputs={"t": qx.Tokens("h", below="h")})
    def net(p, t):
        i = jnp.arange(p["b"].shape[0])
        return USES[use](p["b"], i, POSITIONS[name](i, t, p["b"]))

    for size in (2, 3, 5):
        try:
            if compare(net, {"h": size}, np.random.default_rng(size)) is not None:
                return
        except Opaque:
            return


@pytest.mark.parametrize("power", [2, 3])
def test_a_power_of_positions_proves_nothing_false(power):
    """`sum_ij [i^p = j] b_j` is no `sum_j b_j`, which permutations would leave alone."""

    @qx.architecture(params={"b": "h"}, inputs={})
    def net(p):
        i = jnp.arange(p["b"].shape[0])
        square = i * i if power == 2 else i * i * i
        return jnp.sum((square[:, None] == i[None, :]) @ p["b"])

    outcome = prove_for_every_width(net, qx.Symmetry("permuted", qx.Permutation("h"), {"b": "g @ b"}).bind(net.params))
    assert not outcome.proved
