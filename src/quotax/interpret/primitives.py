"""The table of primitives: one row each, one column per domain.

To add a primitive, add a row (and a case to tests/interpret, or a test fails); a function of one or two numbers has a
record in `quotax.elementwise` instead, and a row here only for what its record does not say. To add a domain, add a
field to `Row`, fill it where no shared rule serves, and give the domain its `columns`. What NumPy has for a primitive
is in `quotax.programs.hosted`, which runs programs without knowing how they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax.numpy as jnp

from quotax.elementwise import FUNCTIONS, Elementwise
from quotax.interpret.domain import AnyValue, ArrayDomain, Domain, Eqn, Rule, Unreadable
from quotax.interpret.jets import formulas, orders
from quotax.interpret.jets import rules as jets_rules
from quotax.interpret.jets.domain import JetDomain
from quotax.interpret.laws.rules import algebraic, choices, loops, pointwise, positions, reindexing, summation, truths
from quotax.interpret.laws.writing import Rule as Law
from quotax.interpret.shared import control, matrix_products, movement, reductions
from quotax.interpret.shared.movement import identity
from quotax.interpret.shared.movement import movement as moves
from quotax.interpret.symbolic import rules, scalars, truth
from quotax.interpret.symbolic.domain import SymbolicDomain
from quotax.interpret.symbolic.rules import entrywise
from quotax.kernel.sheet import Extreme
from quotax.programs.jaxprs import CALLS, IDENTITIES
from quotax.trees import AnyArray


@dataclass(frozen=True)
class Row:
    """How a primitive is read. A domain takes the first filled entry among its own columns.

    Attributes:
        primitive: JAX's name of it.
        every: a rule that needs nothing of the domain: calls, or a rewriting into other primitives.
        array: a rule for every domain whose values are arrays of numbers (`domain.ArrayDomain`).
        symbolic: SymPy expressions.
        jets: residues or floats with derivatives.
        laws: tensors in index notation.
    """

    primitive: str
    every: Rule[Domain] | None = None
    array: Rule[ArrayDomain] | None = None
    symbolic: Rule[SymbolicDomain] | None = None
    jets: Rule[JetDomain] | None = None
    laws: Law | None = None

    def entry(self, column: str) -> Rule | None:
        """The rule in this column."""
        return getattr(self, column)


_OVERFLOWING = ("add", "sub", "mul")


def _check_overflow(eqn: Eqn) -> None:
    """Refuse arithmetic of values in integer types of few bits, or without a sign: it is no arithmetic of numbers."""
    dtype = eqn.outputs[0].dtype
    if jnp.issubdtype(dtype, jnp.integer) and (dtype.itemsize < 4 or jnp.issubdtype(dtype, jnp.unsignedinteger)):
        raise Unreadable(f"values in {dtype} may overflow", "compute with signed integers of 32 bits, or with floats")


def _combine(operation: str) -> Rule[ArrayDomain]:
    def rule(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
        if operation in _OVERFLOWING:
            _check_overflow(eqn)
        return [eqn.domain.combine(operation, *args)]

    return rule


def _rewritten(function: Callable[..., AnyArray]) -> Rule[Domain]:
    return control.rewritten(lambda params, *operands: function(*operands))


_NEITHER = Extreme(None, None)
_ORDERED = Extreme(ordered=True)
_PLACE = Extreme("none", False, ordered=True)

_ROWS = (
    # calls, loops and branches
    *(Row(name, every=control.call(setting), laws=loops.call(setting)) for name, setting in CALLS.items()),
    Row("scan", array=control.scan, laws=loops.scan),
    Row("while", every=control.while_loop, laws=loops.while_loop),
    Row("cond", every=control.branch, symbolic=rules.branches, laws=loops.branch),
    # what changes nothing
    *(Row(name, every=identity, laws=identity) for name in IDENTITIES),
    Row("reduce_precision", every=identity, laws=algebraic.rounded),
    Row("debug_print", every=movement.nothing, laws=movement.nothing),
    # what has a law alone: of constants, or of an order
    Row("iota", laws=reindexing.iota),
    Row("dim_as_value", laws=reindexing.size_value),
    Row("sort", jets=orders.sort, laws=summation.sort),
    Row("top_k", jets=orders.top_k, laws=summation.top_k),
    # moves
    Row("transpose", array=moves(), laws=reindexing.transpose),
    Row("reshape", array=moves(), laws=reindexing.reshape),
    Row("broadcast_in_dim", array=moves(), laws=reindexing.broadcast),
    Row("squeeze", array=moves(), laws=reindexing.squeeze),
    Row("concatenate", array=moves(), laws=reindexing.concatenate),
    Row("split", array=moves(), laws=reindexing.split),
    Row("slice", array=moves(), laws=reindexing.sliced),
    Row("pad", array=moves(), laws=reindexing.pad),
    Row("rev", array=moves(), laws=reindexing.reverse),
    Row("tile", array=moves(), laws=reindexing.tile),
    Row("stack", array=moves(), laws=reindexing.stack),
    Row("unstack", array=moves(), laws=reindexing.unstack),
    Row("select_n", array=moves(0), symbolic=rules.select, jets=jets_rules.select, laws=choices.select),
    Row(
        "dynamic_slice", array=moves(1, rest=True), symbolic=rules.by_cases(1, rest=True), laws=positions.dynamic_slice
    ),
    Row(
        "dynamic_update_slice",
        array=moves(2, rest=True),
        symbolic=rules.by_cases(2, rest=True),
        laws=positions.update_slice,
    ),
    Row("gather", array=moves(1), symbolic=rules.by_cases(1), laws=positions.gather),
    Row("scatter", array=moves(1), laws=positions.scatter(keep=False)),
    # sums of products
    Row("dot_general", array=matrix_products.dot_general, laws=summation.dot_general),
    Row("conv_general_dilated", array=matrix_products.conv_general_dilated, laws=summation.convolution),
    Row("scatter-add", array=matrix_products.scatter("add", 0.0, "add"), laws=positions.scatter(keep=True)),
    Row("scatter-sub", array=matrix_products.scatter("add", 0.0, "sub")),
    Row("scatter-mul", array=matrix_products.scatter("mul", 1.0, "mul")),
    Row("scatter-max", array=matrix_products.scatter("max", None, "max")),
    Row("scatter-min", array=matrix_products.scatter("min", None, "min")),
    # reductions
    Row("reduce_sum", array=reductions.reduction("add"), laws=summation.reduce_sum),
    Row("reduce_prod", array=reductions.reduction("mul"), laws=summation.reduction("prod", _NEITHER)),
    Row("reduce_max", array=reductions.reduction("max"), laws=summation.reduction("max", Extreme())),
    Row("reduce_min", array=reductions.reduction("min"), laws=summation.reduction("min", Extreme())),
    Row("reduce_and", array=reductions.reduction("and"), laws=summation.reduction("and", _NEITHER)),
    Row("reduce_or", array=reductions.reduction("or"), laws=summation.reduction("or", _NEITHER)),
    Row("cumsum", array=reductions.running("add"), laws=summation.running_sum),
    Row(
        "cumprod", array=reductions.running("mul"), laws=summation.running("cumprod", Extreme(None, None, ordered=True))
    ),
    Row("cummax", array=reductions.running("max"), laws=summation.running("cummax", _ORDERED)),
    Row("cummin", array=reductions.running("min"), laws=summation.running("cummin", _ORDERED)),
    Row(
        "cumlogsumexp",
        every=control.rewritten(reductions.cumlogsumexp),
        laws=summation.running("cumlogsumexp", Extreme(None, True, ordered=True)),
    ),
    Row("reduce_window_sum", array=reductions.pooling("add"), laws=summation.window_sum),
    Row("reduce_window_max", array=reductions.pooling("max"), laws=summation.window_extreme("window max")),
    Row("reduce_window_min", array=reductions.pooling("min"), laws=summation.window_extreme("window min")),
    Row(
        "argmax",
        symbolic=rules.extreme_index("ge"),
        jets=orders.extreme_place(True),
        laws=summation.reduction("argmax", _PLACE),
    ),
    Row(
        "argmin",
        symbolic=rules.extreme_index("le"),
        jets=orders.extreme_place(False),
        laws=summation.reduction("argmin", _PLACE),
    ),
    # arithmetic
    Row("add", array=_combine("add"), laws=algebraic.linear(1)),
    Row("add_any", array=_combine("add"), laws=algebraic.linear(1)),
    Row("sub", array=_combine("sub"), laws=algebraic.linear(-1)),
    Row("mul", array=_combine("mul"), laws=algebraic.product),
    Row("max", array=_combine("max"), laws=choices.extreme),
    Row("min", array=_combine("min"), laws=choices.extreme),
    Row("neg", symbolic=entrywise(scalars.neg), jets=jets_rules.negate, laws=algebraic.negative),
    Row("div", symbolic=rules.quotient, jets=jets_rules.divide, laws=algebraic.quotient),
    Row("rem", symbolic=entrywise(scalars.remainder)),
    Row("abs", symbolic=entrywise(scalars.absolute), jets=jets_rules.absolute),
    Row("sign", symbolic=entrywise(scalars.sign), jets=jets_rules.sign),
    Row("floor", symbolic=entrywise(scalars.floor), jets=jets_rules.stair("floor")),
    Row("ceil", symbolic=entrywise(scalars.ceiling), jets=jets_rules.stair("ceil")),
    Row("round", symbolic=rules.rounding, jets=jets_rules.stair("round"), laws=pointwise.generic),
    Row("clamp", symbolic=rules.clamp, jets=jets_rules.clamp, laws=choices.clamp),
    Row("convert_element_type", symbolic=rules.convert, jets=jets_rules.convert, laws=algebraic.convert),
    # functions of numbers where their records do not say how they are read
    Row("square", every=_rewritten(lambda x: x * x), laws=algebraic.fixed_power("2")),
    Row("integer_pow", symbolic=rules.integer_power, jets=jets_rules.integer_power, laws=algebraic.integer_power),
    Row("pow", symbolic=entrywise(scalars.power), jets=jets_rules.power, laws=algebraic.general_power),
    Row("sqrt", laws=algebraic.fixed_power("1/2")),
    Row("rsqrt", symbolic=entrywise(scalars.rsqrt), laws=algebraic.fixed_power("-1/2")),
    Row("cbrt", symbolic=entrywise(scalars.cbrt)),
    Row("exp", symbolic=entrywise(scalars.exp), jets=jets_rules.exponential, laws=algebraic.exponential),
    Row("log", symbolic=entrywise(scalars.log)),
    Row("atan2", symbolic=entrywise(scalars.angle), jets=jets_rules.angle),
    # truth
    *(
        Row(name, symbolic=rules.relation(name), jets=jets_rules.relation(name), laws=choices.compare)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ),
    Row("and", symbolic=rules.logical(truth.conjunction), jets=jets_rules.logical("and"), laws=truths.conjunction),
    Row("or", symbolic=rules.logical(truth.disjunction), jets=jets_rules.logical("or"), laws=truths.disjunction),
    Row("xor", symbolic=rules.logical(truth.exclusive), jets=jets_rules.logical("xor"), laws=truths.exclusive),
    Row("not", symbolic=rules.logical(truth.negation), jets=jets_rules.negation, laws=truths.negation),
    Row("is_finite", symbolic=rules.finite, jets=jets_rules.finite, laws=choices.finite),
)


def recorded(function: Elementwise, own: Row | None = None) -> Row:
    """What a record says, in the columns that the function's own row leaves open."""
    row = own or Row(function.primitive)
    symbolic = None if row.every else entrywise(scalars.recorded(function))
    jets = None if "slope" in function.without else formulas.smooth(function)
    return replace(row, symbolic=row.symbolic or symbolic, jets=row.jets or jets, laws=row.laws or pointwise.generic)


_OWN = {row.primitive: row for row in _ROWS}

TABLE: dict[str, Row] = _OWN | {name: recorded(function, _OWN.get(name)) for name, function in FUNCTIONS.items()}
"""The rows by primitive."""
