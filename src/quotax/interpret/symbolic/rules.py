"""Rules of the symbolic column: what primitives do to arrays of SymPy entries where no shared rule says it."""

from __future__ import annotations

import itertools

import numpy as np
import sympy as sp
from jax.core import ShapedArray
from jax.lax import GatherScatterMode

from quotax.interpret.domain import COMPLEX, Eqn, Rule, Unreadable, concrete
from quotax.interpret.shared.movement import is_control, move, movement
from quotax.interpret.symbolic import scalars, truth
from quotax.interpret.symbolic.bounds import interval
from quotax.interpret.symbolic.domain import SymbolicDomain
from quotax.interpret.symbolic.entries import filled, lift, mapped, settle
from quotax.interpret.symbolic.scalars import FALSE, TRUE, Scalar, choose
from quotax.interpret.symbolic.truth import compare, conjunction


def entrywise(function: Scalar) -> Rule[SymbolicDomain]:
    """Apply a scalar function to each entry."""
    return lambda eqn, args: [mapped(function, *args)]


def _is_integer(aval: ShapedArray) -> bool:
    return np.issubdtype(np.dtype(aval.dtype), np.integer)


def quotient(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
    """Division; of integers, towards zero."""
    if _is_integer(eqn.outputs[0]):
        return [mapped(lambda a, b: scalars.truncate(scalars.div(a, b)), *args)]
    return [mapped(scalars.div, *args)]


def relation(name: str) -> Rule[SymbolicDomain]:
    """A comparison: SymPy relations, decided where constants or the range of tokens decide them."""

    def rule(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
        below = eqn.domain.below if _is_integer(eqn.inputs[0]) else None
        return [settle(mapped(lambda a, b: compare(name, a, b, below), *args))]

    return rule


def logical(function: Scalar) -> Rule[SymbolicDomain]:
    """A logical operation on truth values; bits of integers are refused."""

    def rule(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
        if np.dtype(eqn.inputs[0].dtype) != np.bool_:
            raise Unreadable("it works on the bits of integers", "use arithmetic or comparisons")
        return [settle(mapped(function, *args))]

    return rule


def finite(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
    """`is_finite`, decided for real symbols."""
    return [settle(mapped(truth.is_finite, *args))]


def integer_power(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
    """`x**n` for a constant integer n."""
    exponent = sp.Integer(eqn.params["y"])
    return [mapped(lambda e: scalars.power(e, exponent), *args)]


def rounding(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
    """`round`: halves away from zero (method 0) or to even (method 1)."""
    to_even = int(eqn.params["rounding_method"]) == 1
    return [mapped(scalars.round_half_even if to_even else scalars.round_half_away, *args)]


def clamp(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
    """`min(max(x, low), high)`."""
    low, x, high = args
    return [mapped(lambda a, e, b: scalars.minimum(scalars.maximum(e, a), b), low, x, high)]


def convert(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
    """Change of type: truth becomes 1 or 0, reals become integers towards zero, numbers become `x != 0`."""
    source, target = (np.dtype(a.dtype) for a in (eqn.inputs[0], eqn.outputs[0]))
    if target.kind == "c":
        raise Unreadable(*COMPLEX)
    if source == np.bool_:
        return args if target == np.bool_ else [mapped(lambda e: choose(e, sp.S.One, sp.S.Zero), *args)]
    if target == np.bool_:
        return [settle(mapped(lambda e: compare("ne", e, sp.S.Zero), *args))]
    if np.issubdtype(target, np.integer) and target.itemsize < min(4, source.itemsize):
        raise Unreadable("integers of so few bits overflow", "keep integers in 32 bits or more")
    if np.issubdtype(target, np.integer) and not np.issubdtype(source, np.integer):
        return [mapped(scalars.truncate, *args)]
    return args


def select(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
    """`select_n`: a move when the choice is constant, else a `Piecewise`."""
    which, *cases = args
    if concrete(eqn.domain, which) is not None:
        return movement(0)(eqn, args)
    if np.dtype(eqn.inputs[0].dtype) == np.bool_:
        return [mapped(lambda c, no, yes: choose(c, yes, no), which, *cases)]

    def pick(index: sp.Basic, *values: sp.Basic) -> sp.Basic:
        out = values[-1]
        for k in reversed(range(len(values) - 1)):
            out = choose(compare("eq", index, sp.Integer(k)), values[k], out)
        return out

    return [mapped(pick, which, *cases)]


def branches(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
    """`cond` on an unknown index: every branch is read and the outputs are chosen entry by entry."""
    index, operands = lift(args[0])[()], args[1:]
    bodies = eqn.params["branches"]
    results = [eqn.run(body, operands) for body in bodies]
    outputs = results[-1]
    for k in reversed(range(len(bodies) - 1)):
        here = compare("le" if k == 0 else "eq", index, sp.Integer(k), eqn.domain.below)
        outputs = [
            mapped(lambda a, b, here=here: choose(here, a, b), a, b) for a, b in zip(results[k], outputs, strict=True)
        ]
    return outputs


def extreme_index(better: str) -> Rule[SymbolicDomain]:
    """`argmax`/`argmin` over one axis: the first entry that no other one beats."""

    def rule(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
        (axis,) = eqn.params["axes"]
        rows = np.moveaxis(lift(args[0]), axis, -1)

        def first(row: np.ndarray) -> sp.Basic:
            out = sp.Integer(len(row) - 1)
            for k in reversed(range(len(row) - 1)):
                here = conjunction(*(compare(better, row[k], other) for j, other in enumerate(row) if j != k))
                out = choose(here, sp.Integer(k), out)
            return out

        return [filled(rows.shape[:-1], (first(row) for row in rows.reshape(-1, rows.shape[-1])))]

    return rule


# -- moves whose positions are expressions, such as an embedding read at a token --------------------------------------


def by_cases(*controls: int, rest: bool = False) -> Rule[SymbolicDomain]:
    """A move whose positions may be expressions: a `Piecewise` over the positions they can take.

    Every unknown position is tried at each of its values, the move is made on constant positions, and each entry is
    chosen by the conditions on its own positions. Positions outside the operand are clamped or filled, as JAX does.
    """
    plain = movement(*controls, rest=rest)

    def rule(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> list[np.ndarray]:
        spots = [k for k in range(len(args)) if is_control(k, controls, rest)]
        if all(concrete(eqn.domain, args[k]) is not None for k in spots):
            return plain(eqn, args)
        if eqn.primitive.name == "gather":
            return [_gather(eqn, args)]
        return [_at_scalars(eqn, args, spots)]

    return rule


def _values(eqn: Eqn[SymbolicDomain], entries: np.ndarray, top: int, fills: bool) -> list[tuple[int, str | None]]:
    """The values one component of the positions may take, each with its condition on an entry, as (value, test).

    The last test is always true: it is the default, reached when the others fail. With `fills`, the default is a
    value outside the operand, unless every entry is known to lie inside.
    """
    below = eqn.domain.below
    ends = [interval(e, below) for e in entries]
    inside = all(low >= 0 and high <= top for low, high in ends)
    if fills and not inside:
        return [*((k, "eq") for k in range(top + 1)), (top + 1, None)]
    first = max(0, int(min(top, max(0.0, min(low for low, _ in ends)))))
    last = int(min(top, max(0.0, *(high for _, high in ends))))
    return [*((k, "le" if k == first else "eq") for k in range(first, last)), (last, None)]


def _condition(eqn: Eqn[SymbolicDomain], entry: sp.Basic, value: int, test: str | None) -> sp.Basic:
    return TRUE if test is None else compare(test, entry, sp.Integer(value), eqn.domain.below)


def _chosen(cases: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Entry by entry, the first case whose condition holds; each case is (array of conditions, array of entries)."""

    def entry(*pairs: sp.Basic) -> sp.Basic:
        conditions, values = pairs[: len(cases)], pairs[len(cases) :]
        kept: list[tuple[sp.Basic, sp.Basic]] = []
        for value, condition in zip(values, conditions, strict=True):
            if condition is FALSE:
                continue
            kept.append((value, condition))
            if condition is TRUE:
                break
        while len(kept) > 1 and kept[-2][0] == kept[-1][0]:  # an equal neighbour of the default says nothing
            kept.pop(-2)
        value = kept[0][0]
        return value if len(kept) == 1 else sp.Piecewise(*kept[:-1], (kept[-1][0], True), evaluate=False)

    return mapped(entry, *(c for c, _ in cases), *(v for _, v in cases))


def _at_scalars(eqn: Eqn[SymbolicDomain], args: list[np.ndarray], spots: list[int]) -> np.ndarray:
    """dynamic_slice and dynamic_update_slice: one start per axis, always clamped."""
    window = eqn.shape if eqn.primitive.name == "dynamic_slice" else eqn.inputs[1].shape
    fixed: dict[int, sp.Basic] = {k: lift(args[k])[()] for k in spots}
    choices = []
    for axis, k in enumerate(spots):
        top = eqn.inputs[0].shape[axis] - window[axis]
        if fixed[k].is_Integer:
            choices.append([(int(fixed[k]), None)])
        else:
            choices.append(_values(eqn, np.array([fixed[k]], dtype=object), top, False))
    rule = movement(spots[0], rest=True)
    cases = []
    for combination in itertools.product(*choices):
        placed = list(args)
        for k, (value, _) in zip(spots, combination, strict=True):
            placed[k] = np.asarray(value, eqn.inputs[k].dtype)
        holds = conjunction(*(_condition(eqn, fixed[k], v, t) for k, (v, t) in zip(spots, combination, strict=True)))
        cases.append((filled((), [holds]), rule(eqn, placed)[0]))
    return _chosen(cases)


def _gather(eqn: Eqn[SymbolicDomain], args: list[np.ndarray]) -> np.ndarray:
    """Gather at expressions: each row of the index array is tried at all values of its unknown components."""
    dims, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    fills = eqn.params["mode"] == GatherScatterMode.FILL_OR_DROP
    index = lift(args[1])
    rows = index.reshape(-1, index.shape[-1])
    operand = np.arange(int(np.prod(eqn.inputs[0].shape, dtype=np.int64))).reshape(eqn.inputs[0].shape)
    unknown = [c for c in range(rows.shape[1]) if not all(e.is_Integer for e in rows[:, c])]
    choices = []
    for c in unknown:
        axis = dims.start_index_map[c]
        entries = np.array([e for e in rows[:, c] if not e.is_Integer], dtype=object)
        choices.append(_values(eqn, entries, eqn.inputs[0].shape[axis] - sizes[axis], fills))
    # row of the index array that each output entry reads: the output's axes that are not offsets, in order
    batch = [axis for axis in range(len(eqn.shape)) if axis not in dims.offset_dims]
    owner = np.arange(rows.shape[0]).reshape([eqn.shape[a] if a in batch else 1 for a in range(len(eqn.shape))])
    owner = np.broadcast_to(owner, eqn.shape)
    cases, pool = [], [args[0]]
    for combination in itertools.product(*choices):
        placed = rows.copy()
        holds = [TRUE] * len(rows)
        for c, (value, test) in zip(unknown, combination, strict=True):
            for r, row in enumerate(rows):
                if not row[c].is_Integer:
                    placed[r, c] = sp.Integer(value)
                    holds[r] = conjunction(holds[r], _condition(eqn, row[c], value, test))
        where = np.array([int(e) for e in placed.ravel()], dtype=np.int64).reshape(index.shape)
        (found,) = move(eqn, [operand, where], pool)
        cases.append((filled((len(holds),), holds)[owner], eqn.domain.take(pool, found)))
    return _chosen(cases)
