"""Every row of the primitive table, and every function of jax.nn, against JAX's own numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import primitives

from quotax.artifacts import ArraySpec
from quotax.elementwise import FUNCTIONS
from quotax.interpret import symbolic_outputs, trace
from quotax.interpret.primitives import TABLE
from quotax.interpret.shared.movement import bind, run
from quotax.programs import hosted

R = tuple  # the shape of a real input


@dataclass(frozen=True)
class T:
    """Tokens below a bound."""

    below: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class M:
    """A mask of zeros and ones."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A function of arrays and the kinds of input to try it on, numbers drawn from [low, high]."""

    name: str
    function: Callable[..., Any]
    signatures: tuple[tuple[Any, ...], ...]
    low: float = -2.0
    high: float = 2.0


def spec(name: str, kind: Any) -> ArraySpec:
    """An input of fixed size."""
    axes = tuple((n,) for n in (kind.shape if isinstance(kind, (T, M)) else kind))
    if isinstance(kind, T):
        return ArraySpec(name, axes, "tokens", kind.below)
    return ArraySpec(name, axes, "mask" if isinstance(kind, M) else "real")


ONE = (((),), ((3,),), ((2, 3),))  # one argument, three shapes
TWO = (((), ()), ((3,), (3,)), ((2, 3), (2, 3)), ((2, 3), (3,)))
MATRIX = (((2, 3),), ((3, 2),), ((1, 4),))


def case(name: str, function: Callable[..., Any], signatures: Any = ONE, low: float = -2.0, high: float = 2.0) -> Case:
    """A case, with the usual shapes unless others are given."""
    return Case(name, function, signatures, low, high)


def bound(primitive: Any, function: Callable[..., Any], closed: bool) -> Callable[..., Any]:
    """A function of one array behind a call primitive, which JAX itself makes only inside its transformations."""

    def run(x: Any) -> Any:
        body = jax.make_jaxpr(function)(jax.ShapeDtypeStruct(x.shape, x.dtype))
        return primitive.bind(x, **primitive.get_bind_params({"call_jaxpr": body if closed else body.jaxpr}))[0]

    return run


@jax.custom_vjp
def doubled(x: Any) -> Any:
    """A function with a derivative of its own."""
    return 2 * x


doubled.defvjp(lambda x: (doubled(x), None), lambda _, g: (g,))


def conv(**kwargs: Any) -> Callable[..., Any]:
    """A convolution."""
    return lambda x, w: lax.conv_general_dilated(x, w, **kwargs)


ELEMENTWISE = [
    *(
        case(name, getattr(lax, name), ONE if function.arguments == 1 else TWO[:3], *function.between)
        for name, function in FUNCTIONS.items()
    ),
    case("neg", lambda x: -x),
    case("sign of zero", lambda x: jnp.sign(x - x) + x),
    case("round", jnp.round, low=-5, high=5),
    case("round a tie", lambda x: jnp.round(jnp.floor(x) + 0.5), low=-5, high=5),
    case("round away", lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), low=-5, high=5),
    case(
        "round away a tie", lambda x: lax.round(jnp.floor(x) + 0.5, lax.RoundingMethod.AWAY_FROM_ZERO), low=-5, high=5
    ),
    case("cube", lambda x: x**3),
    case("inverse cube", lambda x: x**-3, low=0.5),
    case("power", lambda x: x**2.5, low=0.1),
    case("power of both", lambda x, y: x**y, TWO, low=0.1),
    case("cbrt of a square", lambda x: jnp.cbrt(x * x)),
    case("add", jnp.add, TWO),
    case("sub", jnp.subtract, TWO),
    case("mul", jnp.multiply, TWO),
    case("div", jnp.divide, TWO, low=0.2),
    case("max", jnp.maximum, TWO),
    case("min", jnp.minimum, TWO),
    case("nested max", lambda x, y: jnp.maximum(jnp.maximum(x, 0.5), jnp.maximum(y, 0.25)), TWO),
    case("mod", jnp.mod, TWO, low=-9, high=9),
    case("clamp", lambda x: lax.clamp(-0.5, x, 0.75)),
    case("clip", lambda x: jnp.clip(x, -0.5, 0.75)),
    case("integer from real", lambda x: x.astype(int), low=-5, high=5),
    case("integer quotient", lambda t: lax.div(t - 3, jnp.full_like(t, 2)), ((T(7, (3,)),), (T(7, (2, 2)),))),
    case("token remainder", lambda t: t % 3 + t // 2, ((T(7, (3,)),), (T(5, ()),))),
    case("constants", lambda x: 0.1 * x + 1e-5 + x / 3.0),
    case("float32 constant", lambda x: x * np.float32(0.1)),
]

TRUTH = [
    case("lt", lambda x, y: jnp.where(x < y, x, 2 * y), TWO),
    case("le", lambda x, y: jnp.where(x <= y, x, 2 * y), TWO),
    case("gt", lambda x, y: jnp.where(x > y, x, 2 * y), TWO),
    case("ge", lambda x, y: jnp.where(x >= y, x, 2 * y), TWO),
    case("eq", lambda x: jnp.where(x == jnp.floor(x), x, -x)),
    case("ne", lambda x: (x != 0.0) * x),
    case("outputs truth", lambda x, y: (x < y) & (x > 0), TWO),
    case(
        "and or not xor", lambda x: jnp.where(((x > 0) & (x < 1)) | ~(x > -1) | jnp.logical_xor(x > 1, x > 1.5), x, 0.0)
    ),
    case("truth to number", lambda x: (x > 0).astype(float)),
    case("number to truth", lambda x: jnp.where((x - x).astype(bool) | x.astype(bool), 1.0, x)),
    case("equal truths", lambda x: jnp.where((x > 0) == (x < 1), x, 0.0)),
    case("is_finite", lambda x: jnp.where(jnp.isfinite(x) & ~jnp.isnan(x) & ~jnp.isinf(x), x, 0.0)),
    case("nan_to_num", jnp.nan_to_num),
    case("all", lambda x: jnp.where(jnp.all(x > 0, axis=-1), 1.0, 2.0), MATRIX),
    case("any", lambda x: jnp.where(jnp.any(x > 1, axis=0), 1.0, 2.0), MATRIX),
    case(
        "select of three",
        lambda x: lax.select_n((x > 0).astype(jnp.int32) + (x > 1).astype(jnp.int32), x, 2 * x, 3 * x),
    ),
    case("select by tokens", lambda t: lax.select_n(t, t * 2, t + 5, t * t), ((T(3, (4,)),),)),
    case("triangle", lambda x: jnp.tril(x) - 2 * jnp.triu(x, 1), MATRIX),
]

MOVES = [
    case("transpose", lambda x: x.T * 2, (((2, 3),), ((2, 3, 2),))),
    case("reshape", lambda x: x.reshape(-1, 2), (((2, 3),), ((4,),))),
    case("broadcast", lambda x: jnp.broadcast_to(x, (2, 3)), (((3,),), ((2, 1),), ((),))),
    case("expand and squeeze", lambda x: jnp.squeeze(lax.squeeze(x[None, :, None], (2,)), 0), (((3,),), ((2, 3),))),
    case("concatenate", lambda x, y: jnp.concatenate([x, 2 * y, jnp.ones_like(x)]), (((2,), (3,)), ((2, 2), (1, 2)))),
    case("stack and flip", lambda x: jnp.flip(jnp.stack([x, -x], axis=-1)), ONE),
    case("unstack", lambda x: jnp.unstack(x, axis=-1), MATRIX),
    case("split", lambda x: jnp.split(x, 2), (((4,),), ((2, 3),))),
    case("array_split", lambda x: jnp.array_split(x, 3), (((5,),), ((4, 2),))),
    case("slice", lambda x: x[1::2], (((5,),), ((4, 2),))),
    case("pad", lambda x: jnp.pad(x, 1, constant_values=0.5), (((3,),), ((2, 2),))),
    case("pad inside and cut", lambda x: lax.pad(x, 0.5, [(2, -1, 1)] * x.ndim), (((3,),), ((2, 3),))),
    case("pad by what is there", lambda x: jnp.pad(x, 1, mode="reflect"), (((3,),), ((2, 2),))),
    case("tile and repeat", lambda x: jnp.tile(x, 2) + jnp.repeat(x, 2, axis=-1), (((3,),), ((2, 2),))),
    case("tile two axes", lambda x: jnp.tile(x, (2, 3)), (((3,),), ((2, 2),))),
    case("roll", lambda x: jnp.roll(x, 1, axis=-1), (((3,),), ((2, 2),))),
    case("constant index", lambda x: x[jnp.array([2, 0, 0])], (((3,),), ((3, 2),))),
    case("take", lambda x: jnp.take(x, jnp.array([1, -1]), axis=-1), (((3,),), ((2, 3),))),
    case("take clip", lambda x: jnp.take(x, jnp.array([1, 7]), axis=0, mode="clip"), (((3,),), ((2, 3),))),
    case(
        "take fill", lambda x: jnp.take(x, jnp.array([1, 7]), axis=0, mode="fill", fill_value=0.5), (((3,),), ((2, 3),))
    ),
    case("two indices", lambda x: x[jnp.array([0, 1]), jnp.array([1, 0])], (((2, 2),), ((3, 2, 2),))),
    case(
        "take_along_axis", lambda x: jnp.take_along_axis(x, jnp.array([[0, 1], [1, 1]]), axis=1), (((2, 2),), ((2, 3),))
    ),
    case("dynamic_slice", lambda x: lax.dynamic_slice(x, (1,) * x.ndim, (2,) * x.ndim), (((3,),), ((3, 4),))),
    case("dynamic update", lambda x: lax.dynamic_update_slice(x, 2 * x[:1], (1,) * x.ndim), (((3,),), ((3, 4),))),
    case("set", lambda x: x.at[jnp.array([2, 0])].set(x[:2] ** 2), (((3,),), ((3, 2),))),
    case("set out of bounds", lambda x: x.at[jnp.array([2, 9])].set(0.5), (((3,),), ((3, 2),))),
    case("add at", lambda x: x.at[jnp.array([2, 0, 2])].add(x**2), (((3,),), ((3, 2),))),
    case("subtract at", lambda x: x.at[jnp.array([2, 0])].subtract(x[:2] ** 2), (((3,),), ((3, 2),))),
    case("multiply at", lambda x: x.at[jnp.array([2, 0])].multiply(x[:2] ** 2), (((3,),), ((3, 2),))),
    case("max at", lambda x: x.at[jnp.array([2, 0, 2])].max(x**2 - 1), (((3,),), ((3, 2),))),
    case("min at", lambda x: x.at[jnp.array([2, 0])].min(x[:2] ** 2), (((3,),), ((3, 2),))),
    case("copies", lambda x: jnp.copy(lax.stop_gradient(x)) + lax.optimization_barrier(x)),
    case("named", lambda x: checkpoint_name(x, "here")),
    case("reduce_precision", lambda x: lax.reduce_precision(x, 11, 52)),
]

CONTRACTIONS = [
    case("matmul", jnp.matmul, (((2, 3), (3, 2)), ((3,), (3, 2)), ((2, 2, 3), (2, 3, 1)), ((2,), (2,)))),
    case("einsum", lambda a, b: jnp.einsum("bhi,hjb->jbh", a, b), (((2, 3, 2), (3, 2, 2)), ((1, 2, 2), (2, 3, 1)))),
    case("einsum trace", lambda a: jnp.einsum("iij->j", a), (((2, 2, 3),), ((3, 3, 1),))),
    case(
        "tensordot",
        lambda a, b: jnp.tensordot(a, b, axes=((0, 2), (1, 0))),
        (((2, 3, 2), (2, 2, 2)), ((1, 2, 3), (3, 1))),
    ),
    case("norm", lambda x: jnp.linalg.norm(x, axis=-1), MATRIX),
    case("matrix_power", lambda x: jnp.linalg.matrix_power(x, 3), (((2, 2),),)),
    case("outer", jnp.outer, (((2,), (3,)),)),
    case(
        "conv",
        conv(window_strides=(1, 1), padding="SAME"),
        (((1, 1, 3, 3), (2, 1, 2, 2)), ((2, 2, 2, 3), (1, 2, 1, 2))),
    ),
    case("conv strides", conv(window_strides=(2,), padding=[(1, 2)]), (((1, 2, 5), (2, 2, 2)), ((1, 1, 4), (1, 1, 3)))),
    case("conv cut", conv(window_strides=(1,), padding=[(-1, 0)]), (((1, 1, 5), (2, 1, 2)),)),
    case(
        "conv dilated",
        conv(window_strides=(1,), padding=[(1, 1)], lhs_dilation=(2,), rhs_dilation=(2,)),
        (((1, 1, 3), (1, 1, 2)), ((2, 2, 3), (1, 2, 3))),
    ),
    case(
        "conv groups",
        conv(window_strides=(1,), padding="VALID", feature_group_count=2),
        (((1, 4, 3), (2, 2, 2)), ((2, 2, 3), (4, 1, 2))),
    ),
    case(
        "conv batch groups",
        conv(window_strides=(1,), padding="VALID", batch_group_count=2),
        (((2, 1, 3), (2, 1, 2)), ((4, 2, 3), (4, 2, 2))),
    ),
    case(
        "conv channels last",
        conv(window_strides=(1, 1), padding="VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (((1, 3, 2, 2), (2, 1, 2, 3)),),
    ),
    case("convolve", lambda x, w: jnp.convolve(x, w, mode="same"), (((4,), (3,)),)),
    case("conv transpose", lambda x, w: lax.conv_transpose(x, w, (2,), "SAME"), (((1, 3, 1), (3, 1, 2)),)),
]

REDUCTIONS = [
    case("sum", lambda x: x.sum(), MATRIX),
    case("sum of an axis", lambda x: x.sum(axis=0), MATRIX),
    case("sum of middle axes", lambda x: x.sum(axis=(0, 2)), (((2, 3, 2),),)),
    case("prod", lambda x: x.prod(axis=-1), MATRIX),
    case("max over", lambda x: x.max(axis=0) + x.max(), MATRIX),
    case("min over", lambda x: x.min(axis=1) - x.min(), MATRIX),
    case("mean var std", lambda x: x.mean(0) + x.var(0) + jnp.std(x, axis=0), MATRIX[:2]),
    case("argmax", lambda x: jnp.argmax(x, axis=-1), MATRIX),
    case("argmin", lambda x: jnp.argmin(x, axis=0), MATRIX),
    case("cumsum", lambda x: jnp.cumsum(x, axis=-1), MATRIX),
    case("cumsum back", lambda x: lax.cumsum(x, 0, reverse=True), MATRIX),
    case("cumprod", lambda x: jnp.cumprod(x, axis=-1), MATRIX),
    case("cummax", lambda x: lax.cummax(x, 1), MATRIX),
    case("cummin", lambda x: lax.cummin(x, 0, reverse=True), MATRIX),
    case("cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), MATRIX),
    case("avg pool", lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "SAME"), (((4,),), ((3,),))),
    case("max pool", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 1), "SAME"), (((3, 3),), ((2, 3),))),
    case("min pool", lambda x: lax.reduce_window(x, jnp.inf, lax.min, (2, 1), (1, 1), "VALID"), (((3, 2),), ((2, 3),))),
]

CONTROL = [
    case("jit", jax.jit(lambda x: jnp.sin(x) + 1)),
    case("closed_call", bound(primitives.closed_call_p, lambda y: jnp.sin(y) + 1, True)),
    case("call", bound(primitives.call_p, lambda y: jnp.cos(y) * 2, False)),
    case("remat", jax.checkpoint(lambda x: jnp.sin(x) * x)),
    case("custom_jvp", jax.nn.relu),
    case("custom_vjp", doubled),
    case("custom_vmap", jax.custom_batching.sequential_vmap(lambda x: jnp.sin(x) * x)),
    case("composite", lax.composite(lambda x: jnp.sin(x) * x, "quotax.test")),
    case("scan", lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), jnp.zeros(x.shape[1:]), x), MATRIX),
    case("scan back", lambda x: lax.scan(lambda c, y: (c + y, c * y), jnp.ones(x.shape[1:]), x, reverse=True), MATRIX),
    case("scan of constants", lambda x: lax.scan(lambda c, k: (c * k, k), x, jnp.arange(3.0)), ONE),
    case(
        "fori_loop", lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i] * i, jnp.zeros(x.shape[1:])), MATRIX
    ),
    case("associative_scan", lambda x: lax.associative_scan(jnp.multiply, x), MATRIX),
    case("map", lambda x: lax.map(lambda row: jnp.outer(row, row), x), MATRIX),
    case("while", lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, x))[1]),
    case("cond", lambda x: lax.cond(True, jnp.sin, jnp.cos, x)),
    case("cond on a value", lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y**2, x)),
    case("switch", lambda t, x: lax.switch(t, [jnp.sin, jnp.cos, jnp.exp], x), ((T(3, ()), (2,)),)),
    case("print", lambda x: (jax.debug.print("x"), x)[1]),
    case("vmap", jax.vmap(lambda x: jnp.tanh(x) * x.sum()), (((2, 3),),)),
    case("gradient", jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2))),
]

INDICES = [
    case("one_hot", lambda t: jax.nn.one_hot(t, 4), ((T(4, (3,)),), (T(1, (2,)),), (T(3, ()),), (T(6, (2,)),))),
    case("embedding", lambda e, t: e[t], (((4, 2), T(4, (3,))), ((3,), T(3, (2, 2))), ((3, 2), T(3, ())))),
    case("embedding take", lambda e, t: jnp.take(e, t, axis=0), (((4, 2), T(4, (3,))), ((3, 2), T(3, ())))),
    case("embedding past the end", lambda e, t: e[t + 1], (((3, 2), T(3, (3,))),)),
    case("embedding clip", lambda e, t: jnp.take(e, 2 * t - 1, axis=0, mode="clip"), (((3, 2), T(3, (3,))),)),
    case("embedding fill", lambda e, t: e.at[2 * t].get(mode="fill", fill_value=0.5), (((3, 2), T(3, (3,))),)),
    case("pairs", lambda e, t, s: e[t, s], (((2, 3), T(2, (2,)), T(3, (2,))),)),
    case("own row", lambda e, t: e[jnp.arange(t.shape[0]), t], (((2, 3), T(3, (2,))),)),
    case("along axis", lambda e, t: jnp.take_along_axis(e, t[:, None], axis=1), (((2, 3), T(3, (2,))),)),
    case(
        "dynamic slice at",
        lambda e, t: lax.dynamic_slice(e, (t, np.int32(0)), (2, 1)),
        (((4, 2), T(4, ())), ((3, 1), T(2, ()))),
    ),
    case("update at", lambda e, t: lax.dynamic_update_slice(e, -e[:1], (t, np.int32(0))), (((3, 2), T(3, ())),)),
    case("greedy", lambda e, x: e[jnp.argmax(x)], (((3, 2), (3,)),)),
    case("masked tokens", lambda t, x: jnp.where(t == 0, 0.0, x), ((T(3, (2,)), (2,)),)),
    case("cross entropy", lambda x, t: -jax.nn.log_softmax(x)[jnp.arange(2), t].mean(), (((2, 3), T(3, (2,))),)),
    case("masked softmax", lambda x, m: jax.nn.softmax(jnp.where(m > 0, x, 5.0)), (((3,), M((3,))), ((2, 3), M((3,))))),
    case("masked to -inf", lambda x, m: softmax_with_mask(x, m), (((3,), M((3,))), ((2, 2), M((2,))))),
    case("added mask", lambda x, m: jax.nn.softmax(x + (1 - m) * -1e9), (((3,), M((3,))),)),
]


def softmax_with_mask(x: Any, m: Any) -> Any:
    """A softmax over entries that a mask lets through; the first always is."""
    keep = (m > 0) | (jnp.arange(m.shape[0]) == 0)
    return jax.nn.softmax(jnp.where(keep, x, -jnp.inf)) + jax.nn.logsumexp(
        jnp.where(keep, x, -jnp.inf), axis=-1, keepdims=True
    )


SOFT = ("softmax", "log_softmax", "logsumexp", "logmeanexp", "standardize")

NN = [
    *(
        case(name, getattr(jax.nn, name), low=0.1 if name == "log1mexp" else -3, high=3)
        for name in (
            "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "softplus", "mish", "hard_tanh",
            "hard_silu", "hard_sigmoid", "squareplus", "log_sigmoid", "soft_sign", "sparse_plus", "sparse_sigmoid",
            "sigmoid", "tanh", "log1mexp", "identity",
        )
    ),
    case("gelu exact", lambda x: jax.nn.gelu(x, approximate=False)),
    case("leaky_relu slope", lambda x: jax.nn.leaky_relu(x, 0.3)),
    case("glu", jax.nn.glu, (((4,),), ((2, 2),))),
    *(case(n, getattr(jax.nn, n), MATRIX) for n in SOFT),
    case("softmax over rows", lambda x: jax.nn.softmax(x, axis=0), MATRIX),
    case("softmax where", lambda x: jax.nn.softmax(x, where=jnp.array([True, True, False])), (((3,),), ((2, 3),))),
    case("logsumexp weights", lambda x: jax.nn.logsumexp(x, b=jnp.array([1.0, 2.0, 0.5])), (((3,),),)),
    case("logaddexp", jnp.logaddexp, TWO),
]  # fmt: skip

CASES = [*ELEMENTWISE, *TRUTH, *MOVES, *CONTRACTIONS, *REDUCTIONS, *CONTROL, *INDICES, *NN]


def inputs_of(signature: tuple[Any, ...]) -> tuple[ArraySpec, ...]:
    """Inputs named x0, x1, ..."""
    return tuple(spec(f"x{k}", kind) for k, kind in enumerate(signature))


@pytest.mark.parametrize("one", CASES, ids=[c.name for c in CASES])
def test_symbolic_equals_jax(one: Case, agrees: Callable[..., Any]) -> None:
    """The symbolic result, evaluated at random numbers, is JAX's own output; all signatures in one program."""

    def function(_: Any, *xs: Any) -> list[Any]:
        rest = iter(xs)
        return [one.function(*(next(rest) for _ in signature)) for signature in one.signatures]

    agrees(function, (), inputs_of(sum(one.signatures, ())), low=one.low, high=one.high)


def test_every_row_has_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of the table is read, on values that are not constant, by some case."""
    import sys

    read: set[str] = set()

    class Recording(dict):
        def get(self, key: Any, default: Any = None) -> Any:
            read.add(key)
            return super().get(key, default)

    monkeypatch.setattr(sys.modules["quotax.interpret.interpreter"], "TABLE", Recording(TABLE))
    for one in CASES:
        symbolic_outputs(trace(lambda _, *xs, f=one.function: f(*xs), (), inputs_of(one.signatures[0]), {}))
    rows = {name for name, row in TABLE.items() if row.symbolic or row.array or row.every}
    assert read == rows, f"rows without a case: {sorted(rows - read)}"


MOVE_PARAMS = {
    "broadcast_in_dim": ({"shape": (2, 3, 4), "broadcast_dimensions": (0, 2), "sharding": None}, [(2, 1)]),
    "concatenate": ({"dimension": 1}, [(2, 1), (2, 3)]),
    "copy": ({}, [(2, 3)]),
    "pad": ({"padding_config": ((1, -1, 1), (0, 2, 0))}, [(2, 3), ()]),
    "reshape": ({"new_sizes": (3, 2), "dimensions": None, "sharding": None}, [(2, 3)]),
    "rev": ({"dimensions": (0, 2)}, [(2, 3, 2)]),
    "select_n": ({}, [(), (2, 3), (2, 3)]),
    "slice": ({"start_indices": (1, 0), "limit_indices": (4, 3), "strides": (2, 1)}, [(5, 3)]),
    "split": ({"sizes": (1, 3), "axis": 1}, [(2, 4)]),
    "squeeze": ({"dimensions": (0, 2)}, [(1, 3, 1)]),
    "stack": ({"axis": 1}, [(2, 3), (2, 3)]),
    "tile": ({"reps": (2, 3)}, [(2, 3)]),
    "transpose": ({"permutation": (2, 0, 1)}, [(2, 3, 4)]),
}


@pytest.mark.parametrize("name", sorted(hosted.MOVES))
def test_plain_moves_are_jax(name: str) -> None:
    """The moves that run in NumPy for speed do what JAX's primitive does."""
    params, shapes = MOVE_PARAMS[name]
    arrays = [np.arange(int(np.prod(s))).reshape(s) + 100 * k for k, s in enumerate(shapes)]
    if name == "select_n":
        arrays[0] = np.array(True)
    traced = getattr(jax.lax, name + "_p", None) or getattr(primitives, name + "_p", None)
    if traced is None:
        from jax._src.lax import lax as internal

        traced = getattr(internal, name + "_p")
    for ours, theirs in zip(run(traced, params, arrays), bind(traced, params, arrays), strict=True):
        np.testing.assert_array_equal(ours, theirs)
