"""How each primitive is written out: one rule for each, by JAX's name."""

from __future__ import annotations

from quotax.interpret.laws.pointwise import generic
from quotax.interpret.laws.reading import Rule
from quotax.interpret.laws.rules import arithmetic, contraction, loops, movement, positions
from quotax.kernel.sheet import Extreme

_ELEMENTWISE = (
    "rem abs sign floor ceil round exp exp2 log log1p expm1 logistic sin cos tan asin acos atan atan2 "
    "sinh cosh tanh asinh acosh atanh erf erfc erf_inv cbrt"
)
_NEITHER = Extreme(None, None)
_ORDERED = Extreme(ordered=True)

RULES: dict[str, Rule] = {
    **{name: loops.call("jaxpr") for name in ("jit", "remat2")},
    **{name: loops.call("call_jaxpr") for name in ("closed_call", "call", "custom_jvp_call", "custom_vjp_call")},
    **dict.fromkeys(("copy", "stop_gradient", "optimization_barrier", "name"), loops.identity),
    "reduce_precision": arithmetic.rounded,
    "debug_print": loops.nothing,
    "scan": loops.scan,
    "while": loops.while_loop,
    "cond": loops.branch,
    "iota": movement.iota,
    "dim_as_value": movement.size_value,
    "transpose": movement.transpose,
    "reshape": movement.reshape,
    "broadcast_in_dim": movement.broadcast,
    "squeeze": movement.squeeze,
    "concatenate": movement.concatenate,
    "stack": movement.stack,
    "split": movement.split,
    "unstack": movement.unstack,
    "slice": movement.sliced,
    "pad": movement.pad,
    "rev": movement.reverse,
    "tile": movement.tile,
    "gather": positions.gather,
    "dynamic_slice": positions.dynamic_slice,
    "dynamic_update_slice": positions.update_slice,
    "scatter": positions.scatter(keep=False),
    "scatter-add": positions.scatter(keep=True),
    "select_n": arithmetic.select,
    "dot_general": contraction.dot_general,
    "conv_general_dilated": contraction.convolution,
    "reduce_sum": contraction.reduce_sum,
    "reduce_max": contraction.reduction("max", Extreme()),
    "reduce_min": contraction.reduction("min", Extreme()),
    "reduce_and": contraction.reduction("and", _NEITHER),
    "reduce_or": contraction.reduction("or", _NEITHER),
    "reduce_prod": contraction.reduction("prod", _NEITHER),
    "argmax": contraction.reduction("argmax", Extreme("none", False, ordered=True)),
    "argmin": contraction.reduction("argmin", Extreme("none", False, ordered=True)),
    "cumsum": contraction.running_sum,
    "cummax": contraction.running("cummax", _ORDERED),
    "cummin": contraction.running("cummin", _ORDERED),
    "cumprod": contraction.running("cumprod", Extreme(None, None, ordered=True)),
    "cumlogsumexp": contraction.running("cumlogsumexp", Extreme(None, True, ordered=True)),
    "reduce_window_sum": contraction.window_sum,
    "reduce_window_max": contraction.window_extreme("window max"),
    "reduce_window_min": contraction.window_extreme("window min"),
    "sort": contraction.sort,
    "top_k": contraction.top_k,
    "add": arithmetic.linear(1),
    "add_any": arithmetic.linear(1),
    "sub": arithmetic.linear(-1),
    "mul": arithmetic.product,
    "neg": arithmetic.negative,
    "div": arithmetic.quotient,
    "max": arithmetic.extreme,
    "min": arithmetic.extreme,
    "clamp": arithmetic.clamp,
    "square": arithmetic.fixed_power("2"),
    "sqrt": arithmetic.fixed_power("1/2"),
    "rsqrt": arithmetic.fixed_power("-1/2"),
    "integer_pow": arithmetic.integer_power,
    "pow": arithmetic.general_power,
    "convert_element_type": arithmetic.convert,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), arithmetic.compare),
    "is_finite": arithmetic.finite,
    "and": arithmetic.conjunction,
    "or": arithmetic.disjunction,
    "xor": arithmetic.exclusive,
    "not": arithmetic.negation,
    **dict.fromkeys(_ELEMENTWISE.split(), generic),
}
