"""The table of primitives: one row each, one column per domain.

To add a primitive, add a row (and a case to tests/interpret, or a test fails). To add a domain, add a field to `Row`,
fill it where no shared rule serves, and give the domain its `columns`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import sympy as sp

from quotax.interpret.domain import Eqn, Rule, Unreadable
from quotax.interpret.jets import rules as jets_rules
from quotax.interpret.shared import control, matrix_products, movement, reductions
from quotax.interpret.shared.movement import identity
from quotax.interpret.shared.movement import movement as moves
from quotax.interpret.symbolic import rules, scalars, truth
from quotax.interpret.symbolic.rules import entrywise
from quotax.interpret.symbolic.scalars import unary
from quotax.jaxprs import CALLS


@dataclass(frozen=True)
class Row:
    """How a primitive is read. A domain takes the first filled entry among its own columns.

    Attributes:
        primitive: JAX's name of it.
        every: a rule that needs nothing of the domain: calls, or a rewriting into other primitives.
        array: a rule for every domain whose values are arrays of numbers (`domain.ArrayDomain`).
        symbolic: SymPy expressions.
        jets: residues or floats with derivatives.
    """

    primitive: str
    every: Rule | None = None
    array: Rule | None = None
    symbolic: Rule | None = None
    jets: Rule | None = None

    def entry(self, column: str) -> Rule | None:
        """The rule in this column."""
        return getattr(self, column)


_OVERFLOWING = ("add", "sub", "mul")


def _check_overflow(eqn: Eqn) -> None:
    """Refuse arithmetic of values in integer types of few bits, or without a sign: it is no arithmetic of numbers."""
    dtype = eqn.outputs[0].dtype
    if jnp.issubdtype(dtype, jnp.integer) and (dtype.itemsize < 4 or jnp.issubdtype(dtype, jnp.unsignedinteger)):
        raise Unreadable(f"values in {dtype} may overflow", "compute with signed integers of 32 bits, or with floats")


def _combine(operation: str) -> Rule:
    def rule(eqn: Eqn, args: list[Any]) -> list[Any]:
        if operation in _OVERFLOWING:
            _check_overflow(eqn)
        return [eqn.domain.combine(operation, *args)]

    return rule


def _rewritten(function: Callable[..., Any]) -> Rule:
    return control.rewritten(lambda params, *operands: function(*operands))


_ROWS = (
    # calls, loops and branches
    *(Row(name, every=control.call(setting)) for name, setting in CALLS.items()),
    Row("scan", array=control.scan),
    Row("while", every=control.while_loop),
    Row("cond", every=control.branch, symbolic=rules.branches),
    # what changes nothing
    Row("copy", every=identity),
    Row("stop_gradient", every=identity),
    Row("optimization_barrier", every=identity),
    Row("name", every=identity),
    Row("reduce_precision", every=identity),
    Row("debug_print", every=movement.nothing),
    # moves
    Row("transpose", array=moves()),
    Row("reshape", array=moves()),
    Row("broadcast_in_dim", array=moves()),
    Row("squeeze", array=moves()),
    Row("concatenate", array=moves()),
    Row("split", array=moves()),
    Row("slice", array=moves()),
    Row("pad", array=moves()),
    Row("rev", array=moves()),
    Row("tile", array=moves()),
    Row("stack", array=moves()),
    Row("unstack", array=moves()),
    Row("select_n", array=moves(0), symbolic=rules.select),
    Row("dynamic_slice", array=moves(1, rest=True), symbolic=rules.by_cases(1, rest=True)),
    Row("dynamic_update_slice", array=moves(2, rest=True), symbolic=rules.by_cases(2, rest=True)),
    Row("gather", array=moves(1), symbolic=rules.by_cases(1)),
    Row("scatter", array=moves(1)),
    # sums of products
    Row("dot_general", array=matrix_products.dot_general),
    Row("conv_general_dilated", array=matrix_products.conv_general_dilated),
    Row("scatter-add", array=matrix_products.scatter("add", 0.0, "add")),
    Row("scatter-sub", array=matrix_products.scatter("add", 0.0, "sub")),
    Row("scatter-mul", array=matrix_products.scatter("mul", 1.0, "mul")),
    Row("scatter-max", array=matrix_products.scatter("max", None, "max")),
    Row("scatter-min", array=matrix_products.scatter("min", None, "min")),
    # reductions
    Row("reduce_sum", array=reductions.reduction("add")),
    Row("reduce_prod", array=reductions.reduction("mul")),
    Row("reduce_max", array=reductions.reduction("max")),
    Row("reduce_min", array=reductions.reduction("min")),
    Row("reduce_and", array=reductions.reduction("and")),
    Row("reduce_or", array=reductions.reduction("or")),
    Row("cumsum", array=reductions.running("add")),
    Row("cumprod", array=reductions.running("mul")),
    Row("cummax", array=reductions.running("max")),
    Row("cummin", array=reductions.running("min")),
    Row("cumlogsumexp", every=control.rewritten(reductions.cumlogsumexp)),
    Row("reduce_window_sum", array=reductions.pooling("add")),
    Row("reduce_window_max", array=reductions.pooling("max")),
    Row("reduce_window_min", array=reductions.pooling("min")),
    Row("argmax", symbolic=rules.extreme_index("ge")),
    Row("argmin", symbolic=rules.extreme_index("le")),
    # arithmetic
    Row("add", array=_combine("add")),
    Row("add_any", array=_combine("add")),
    Row("sub", array=_combine("sub")),
    Row("mul", array=_combine("mul")),
    Row("max", array=_combine("max")),
    Row("min", array=_combine("min")),
    Row("neg", symbolic=entrywise(scalars.neg)),
    Row("div", symbolic=rules.quotient),
    Row("rem", symbolic=entrywise(scalars.remainder)),
    Row("abs", symbolic=entrywise(scalars.absolute)),
    Row("sign", symbolic=entrywise(scalars.sign)),
    Row("floor", symbolic=entrywise(scalars.floor)),
    Row("ceil", symbolic=entrywise(scalars.ceiling)),
    Row("round", symbolic=rules.rounding),
    Row("clamp", symbolic=rules.clamp),
    Row("convert_element_type", symbolic=rules.convert),
    # powers and roots
    Row("square", every=_rewritten(lambda x: x * x)),
    Row("integer_pow", symbolic=rules.integer_power),
    Row("pow", symbolic=entrywise(scalars.power)),
    Row("sqrt", symbolic=entrywise(scalars.sqrt)),
    Row("rsqrt", symbolic=entrywise(scalars.rsqrt)),
    Row("cbrt", symbolic=entrywise(scalars.cbrt)),
    # exponentials
    Row("exp", symbolic=entrywise(scalars.exp)),
    Row("exp2", symbolic=entrywise(unary(lambda e: 2**e))),
    Row("log", symbolic=entrywise(scalars.log)),
    Row("log1p", every=_rewritten(lambda x: jnp.log(1 + x))),
    Row("expm1", every=_rewritten(lambda x: jnp.exp(x) - 1)),
    Row("logistic", every=_rewritten(lambda x: 1 / (1 + jnp.exp(-x)))),
    # circular and hyperbolic functions, and their inverses
    Row("sin", symbolic=entrywise(scalars.odd(sp.sin))),
    Row("cos", symbolic=entrywise(scalars.even(sp.cos))),
    Row("tan", symbolic=entrywise(scalars.odd(sp.tan))),
    Row("asin", symbolic=entrywise(scalars.odd(sp.asin))),
    Row("acos", symbolic=entrywise(scalars.plain(sp.acos))),
    Row("atan", symbolic=entrywise(scalars.odd(sp.atan))),
    Row("atan2", symbolic=entrywise(scalars.angle)),
    Row("sinh", symbolic=entrywise(scalars.odd(sp.sinh))),
    Row("cosh", symbolic=entrywise(scalars.even(sp.cosh))),
    Row("tanh", symbolic=entrywise(scalars.odd(sp.tanh))),
    Row("asinh", symbolic=entrywise(scalars.odd(sp.asinh))),
    Row("acosh", symbolic=entrywise(scalars.plain(sp.acosh))),
    Row("atanh", symbolic=entrywise(scalars.odd(sp.atanh))),
    # error functions
    Row("erf", symbolic=entrywise(scalars.odd(sp.erf))),
    Row("erfc", symbolic=entrywise(scalars.plain(sp.erfc))),
    Row("erf_inv", symbolic=entrywise(scalars.odd(sp.erfinv))),
    # truth
    *(Row(name, symbolic=rules.relation(name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    Row("and", symbolic=rules.logical(truth.conjunction)),
    Row("or", symbolic=rules.logical(truth.disjunction)),
    Row("xor", symbolic=rules.logical(truth.exclusive)),
    Row("not", symbolic=rules.logical(truth.negation)),
    Row("is_finite", symbolic=rules.finite),
)

TABLE: dict[str, Row] = {row.primitive: replace(row, jets=jets_rules.COLUMN.get(row.primitive)) for row in _ROWS}
"""The rows by primitive. `iota` needs none: what has no inputs is a constant."""
