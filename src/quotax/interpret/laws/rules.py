"""The laws column: a rule for each primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quotax.interpret.laws import arithmetic, contraction, loops, positions, structure
from quotax.interpret.laws.pointwise import generic
from quotax.interpret.laws.reading import Joint

LawRule = Callable[[Joint, list[Any]], list[Any]]

_ELEMENTWISE = (
    "rem abs sign floor ceil round clamp exp exp2 log log1p expm1 logistic sin cos tan asin acos atan atan2 "
    "sinh cosh tanh asinh acosh atanh erf erfc erf_inv cbrt is_finite"
)

RULES: dict[str, LawRule] = {
    **{name: loops.call("jaxpr") for name in ("jit", "remat2")},
    **{name: loops.call("call_jaxpr") for name in ("closed_call", "call", "custom_jvp_call", "custom_vjp_call")},
    **dict.fromkeys(("copy", "stop_gradient", "optimization_barrier", "name", "reduce_precision"), loops.identity),
    "debug_print": loops.nothing,
    "scan": loops.scan,
    "while": loops.while_loop,
    "cond": loops.branch,
    "transpose": structure.transpose,
    "reshape": structure.reshape,
    "broadcast_in_dim": structure.broadcast,
    "squeeze": structure.squeeze,
    "concatenate": structure.concatenate,
    "stack": structure.stack,
    "split": structure.split,
    "unstack": structure.unstack,
    "slice": structure.sliced,
    "pad": structure.pad,
    "rev": structure.reverse,
    "tile": structure.tile,
    "gather": positions.gather,
    "dynamic_slice": positions.dynamic_slice,
    "dynamic_update_slice": positions.update_slice,
    "scatter": positions.scatter(keep=False),
    "scatter-add": positions.scatter(keep=True),
    "select_n": arithmetic.select,
    "dot_general": contraction.dot_general,
    "conv_general_dilated": contraction.convolution,
    "reduce_sum": contraction.reduce_sum,
    "reduce_max": contraction.reduction("max"),
    "reduce_min": contraction.reduction("min"),
    "reduce_and": contraction.reduction("and", None, None),
    "reduce_or": contraction.reduction("or", None, None),
    "reduce_prod": contraction.reduction("prod", None, None),
    "argmax": contraction.reduction("argmax", "none", False, ordered=True),
    "argmin": contraction.reduction("argmin", "none", False, ordered=True),
    "cumsum": contraction.running_sum,
    "cummax": contraction.running("cummax"),
    "cummin": contraction.running("cummin"),
    "cumprod": contraction.running("cumprod", None, None),
    "cumlogsumexp": contraction.running("cumlogsumexp", None, True),
    "reduce_window_sum": contraction.window_sum,
    "reduce_window_max": contraction.window_extreme("window max"),
    "reduce_window_min": contraction.window_extreme("window min"),
    "add": arithmetic.linear(1),
    "add_any": arithmetic.linear(1),
    "sub": arithmetic.linear(-1),
    "mul": arithmetic.product,
    "neg": arithmetic.negative,
    "div": arithmetic.quotient,
    "max": arithmetic.extreme,
    "min": arithmetic.extreme,
    "square": arithmetic.fixed_power("2"),
    "sqrt": arithmetic.fixed_power("1/2"),
    "rsqrt": arithmetic.fixed_power("-1/2"),
    "integer_pow": arithmetic.integer_power,
    "pow": arithmetic.general_power,
    "convert_element_type": arithmetic.convert,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), arithmetic.compare),
    "and": arithmetic.conjunction,
    "or": arithmetic.disjunction,
    "xor": arithmetic.exclusive,
    "not": arithmetic.negation,
    **dict.fromkeys(_ELEMENTWISE.split(), generic),
}
