"""How each primitive is written out: one rule for each, by JAX's name."""

from __future__ import annotations

from quotax.interpret.laws.rules import algebraic, choices, loops, positions, reindexing, summation
from quotax.interpret.laws.rules.pointwise import generic
from quotax.interpret.laws.writing import Rule
from quotax.jaxprs import CALLS
from quotax.kernel.sheet import Extreme

_ELEMENTWISE = (
    "rem abs sign floor ceil round exp exp2 log log1p expm1 logistic sin cos tan asin acos atan atan2 "
    "sinh cosh tanh asinh acosh atanh erf erfc erf_inv cbrt"
)
_NEITHER = Extreme(None, None)
_ORDERED = Extreme(ordered=True)

RULES: dict[str, Rule] = {
    **{name: loops.call(setting) for name, setting in CALLS.items()},
    **dict.fromkeys(("copy", "stop_gradient", "optimization_barrier", "name"), loops.identity),
    "reduce_precision": algebraic.rounded,
    "debug_print": loops.nothing,
    "scan": loops.scan,
    "while": loops.while_loop,
    "cond": loops.branch,
    "iota": reindexing.iota,
    "dim_as_value": reindexing.size_value,
    "transpose": reindexing.transpose,
    "reshape": reindexing.reshape,
    "broadcast_in_dim": reindexing.broadcast,
    "squeeze": reindexing.squeeze,
    "concatenate": reindexing.concatenate,
    "stack": reindexing.stack,
    "split": reindexing.split,
    "unstack": reindexing.unstack,
    "slice": reindexing.sliced,
    "pad": reindexing.pad,
    "rev": reindexing.reverse,
    "tile": reindexing.tile,
    "gather": positions.gather,
    "dynamic_slice": positions.dynamic_slice,
    "dynamic_update_slice": positions.update_slice,
    "scatter": positions.scatter(keep=False),
    "scatter-add": positions.scatter(keep=True),
    "select_n": choices.select,
    "dot_general": summation.dot_general,
    "conv_general_dilated": summation.convolution,
    "reduce_sum": summation.reduce_sum,
    "reduce_max": summation.reduction("max", Extreme()),
    "reduce_min": summation.reduction("min", Extreme()),
    "reduce_and": summation.reduction("and", _NEITHER),
    "reduce_or": summation.reduction("or", _NEITHER),
    "reduce_prod": summation.reduction("prod", _NEITHER),
    "argmax": summation.reduction("argmax", Extreme("none", False, ordered=True)),
    "argmin": summation.reduction("argmin", Extreme("none", False, ordered=True)),
    "cumsum": summation.running_sum,
    "cummax": summation.running("cummax", _ORDERED),
    "cummin": summation.running("cummin", _ORDERED),
    "cumprod": summation.running("cumprod", Extreme(None, None, ordered=True)),
    "cumlogsumexp": summation.running("cumlogsumexp", Extreme(None, True, ordered=True)),
    "reduce_window_sum": summation.window_sum,
    "reduce_window_max": summation.window_extreme("window max"),
    "reduce_window_min": summation.window_extreme("window min"),
    "sort": summation.sort,
    "top_k": summation.top_k,
    "add": algebraic.linear(1),
    "add_any": algebraic.linear(1),
    "sub": algebraic.linear(-1),
    "mul": algebraic.product,
    "neg": algebraic.negative,
    "div": algebraic.quotient,
    "max": choices.extreme,
    "min": choices.extreme,
    "clamp": choices.clamp,
    "square": algebraic.fixed_power("2"),
    "sqrt": algebraic.fixed_power("1/2"),
    "rsqrt": algebraic.fixed_power("-1/2"),
    "integer_pow": algebraic.integer_power,
    "pow": algebraic.general_power,
    "convert_element_type": algebraic.convert,
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), choices.compare),
    "is_finite": choices.finite,
    "and": choices.conjunction,
    "or": choices.disjunction,
    "xor": choices.exclusive,
    "not": choices.negation,
    **dict.fromkeys(_ELEMENTWISE.split(), generic),
}
