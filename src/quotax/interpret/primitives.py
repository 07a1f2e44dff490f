"""The table of primitives: one row each, one column per domain.

To add a primitive, add a row (and a case to tests/interpret, or a test fails). To add a domain, add a field to `Row`,
fill it where no shared rule serves, and give the domain its `columns`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp

from quotax.elementwise import FUNCTIONS, Function
from quotax.interpret.domain import Eqn, Rule, Unreadable
from quotax.interpret.jets import formulas
from quotax.interpret.jets import rules as jets_rules
from quotax.interpret.shared import control, matrix_products, movement, reductions
from quotax.interpret.shared.movement import identity
from quotax.interpret.shared.movement import movement as moves
from quotax.interpret.symbolic import rules, scalars, truth
from quotax.interpret.symbolic.rules import entrywise
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
    Row("select_n", array=moves(0), symbolic=rules.select, jets=jets_rules.select),
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
    Row("neg", symbolic=entrywise(scalars.neg), jets=jets_rules.negate),
    Row("div", symbolic=rules.quotient, jets=jets_rules.divide),
    Row("rem", symbolic=entrywise(scalars.remainder)),
    Row("abs", symbolic=entrywise(scalars.absolute), jets=jets_rules.absolute),
    Row("sign", symbolic=entrywise(scalars.sign), jets=jets_rules.sign),
    Row("floor", symbolic=entrywise(scalars.floor), jets=jets_rules.stair("floor")),
    Row("ceil", symbolic=entrywise(scalars.ceiling), jets=jets_rules.stair("ceil")),
    Row("round", symbolic=rules.rounding, jets=jets_rules.stair("round")),
    Row("clamp", symbolic=rules.clamp, jets=jets_rules.clamp),
    Row("convert_element_type", symbolic=rules.convert, jets=jets_rules.convert),
    # functions of numbers where their records do not say how they are read
    Row("square", every=_rewritten(lambda x: x * x)),
    Row("integer_pow", symbolic=rules.integer_power, jets=jets_rules.integer_power),
    Row("pow", symbolic=entrywise(scalars.power), jets=jets_rules.power),
    Row("rsqrt", symbolic=entrywise(scalars.rsqrt)),
    Row("cbrt", symbolic=entrywise(scalars.cbrt)),
    Row("exp", symbolic=entrywise(scalars.exp), jets=jets_rules.exponential),
    Row("log", symbolic=entrywise(scalars.log)),
    Row("atan2", symbolic=entrywise(scalars.angle), jets=jets_rules.angle),
    # truth
    *(
        Row(name, symbolic=rules.relation(name), jets=jets_rules.relation(name))
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ),
    Row("and", symbolic=rules.logical(truth.conjunction), jets=jets_rules.logical("and")),
    Row("or", symbolic=rules.logical(truth.disjunction), jets=jets_rules.logical("or")),
    Row("xor", symbolic=rules.logical(truth.exclusive), jets=jets_rules.logical("xor")),
    Row("not", symbolic=rules.logical(truth.negation), jets=jets_rules.negation),
    Row("is_finite", symbolic=rules.finite, jets=jets_rules.finite),
)


def recorded(function: Function) -> Row:
    """What a record says, in all columns."""
    single = function.arguments == 1 and "slope" not in function.without
    return Row(
        function.primitive,
        symbolic=entrywise(scalars.recorded(function)),
        jets=formulas.smooth(function) if single else None,
    )


def _joined(row: Row, record: Row) -> Row:
    """A row, with what the record says where it says nothing; a rewriting is symbolic enough."""
    symbolic = row.symbolic or (record.symbolic if row.every is None else None)
    return replace(row, symbolic=symbolic, jets=row.jets or record.jets)


_RECORDS = {name: recorded(function) for name, function in FUNCTIONS.items()}

TABLE: dict[str, Row] = _RECORDS | {
    row.primitive: _joined(row, _RECORDS[row.primitive]) if row.primitive in _RECORDS else row for row in _ROWS
}
"""The rows by primitive. `iota` needs none: what has no inputs is a constant."""
