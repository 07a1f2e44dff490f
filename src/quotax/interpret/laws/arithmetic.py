"""Sums, products, powers and choices: what is polynomial in its operands, or becomes so with one reciprocal."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws import pointwise, tensors
from quotax.interpret.laws.algebra import Algebra, Poly
from quotax.interpret.laws.lemmas import Effect
from quotax.interpret.laws.pointwise import Function, generic, operands, rational
from quotax.interpret.laws.reading import Break, Joint
from quotax.interpret.laws.tensors import Constant, NoLaw, Tensor, atomised, find_law, settled

_POWERS = 4
"""Whole powers up to this are multiplied out."""


def _result(step: Joint, dims: tensors.Dims, plain: Poly, moved: Poly | None) -> Tensor:
    return settled(step.domain.algebra, Tensor(dims, plain, plain if moved is None else moved))


def linear(scale: int) -> Any:
    """`a + scale * b`."""

    def rule(step: Joint, args: list[Any]) -> list[Any]:
        algebra = step.domain.algebra
        left, right = operands(step, args)
        plain = algebra.add(left.plain, right.plain, scale)
        same = left.invariant and right.invariant
        return [_result(step, left.dims, plain, None if same else algebra.add(left.moved, right.moved, scale))]

    return rule


def negative(step: Joint, args: list[Any]) -> list[Any]:
    """`-a`."""
    value, algebra = args[0], step.domain.algebra
    return [Tensor(value.dims, algebra.scale(value.plain, -1), algebra.scale(value.moved, -1))]


def product(step: Joint, args: list[Any]) -> list[Any]:
    """`a b` at each place."""
    algebra = step.domain.algebra
    left, right = operands(step, args)
    plain = algebra.multiply(left.plain, right.plain)
    same = left.invariant and right.invariant
    return [_result(step, left.dims, plain, None if same else algebra.multiply(left.moved, right.moved))]


def quotient(step: Joint, args: list[Any]) -> list[Any]:
    """`a / b`; of integers, a function without laws of its own."""
    if step.out_kind == "i":
        return generic(step, args)
    left, right = operands(step, args)
    inverse = power(step, right, Fraction(-1))
    algebra = step.domain.algebra
    plain = algebra.multiply(left.plain, inverse.plain)
    moved = None if left.invariant and inverse.invariant else algebra.multiply(left.moved, inverse.moved)
    return [_result(step, left.dims, plain, moved)]


def integer_power(step: Joint, args: list[Any]) -> list[Any]:
    """`a ** n`."""
    return [power(step, args[0], Fraction(int(step.params[0]["y"])))]


def fixed_power(exponent: str) -> Any:
    """`a ** exponent` for a primitive that says so."""
    return lambda step, args: [power(step, args[0], Fraction(exponent))]


def general_power(step: Joint, args: list[Any]) -> list[Any]:
    """`a ** b`: by the laws of powers when b is one number."""
    if isinstance(args[1], Constant) and isinstance(args[0], Tensor):
        found = rational(step.domain.tensor(args[1]).plain) if step.shapes(1)[0] == () else None
        if found is not None and found.denominator <= 64:
            return [power(step, args[0], found)]
    return generic(step, args)


def power(step: Joint, value: Tensor, exponent: Fraction) -> Tensor:
    """A power of a tensor: multiplied out, or an entry of one atom to that power."""
    algebra = step.domain.algebra
    if exponent == 0:
        return Tensor(value.dims, {(): Fraction(1)}, {(): Fraction(1)})
    whole = exponent.denominator == 1
    if whole and 0 < exponent <= _POWERS:
        plain, moved = value.plain, value.moved
        for _ in range(int(exponent) - 1):
            plain = algebra.multiply(plain, value.plain)
            moved = algebra.multiply(moved, value.moved)
        return _result(step, value.dims, plain, moved)
    if not value.plain:
        raise NoLaw("it is a power of zero")
    plain = _entry_power(step, value.plain, exponent)
    if value.invariant:
        algebra.remember(plain, plain)
        return Tensor(value.dims, plain, plain)
    z = pointwise.variables(1)[0]
    shown = Function(z ** sp.Rational(exponent.numerator, exponent.denominator), (z,), f"power {exponent}")

    def effects(kind: str, chosen: Sequence[sp.Symbol]) -> Effect | None:
        laws = step.domain
        if kind == "shift":
            return None
        return laws.lemmas.scaling(shown.expression, chosen, kind)  # type: ignore[arg-type]  # one of three by now

    moved = pointwise.transformed(step, plain, [value], (z,), effects, shown.name)
    if moved is None:
        law = find_law(algebra, value.plain, value.moved)
        moved = _entry_power(step, value.moved, exponent)
        if law is None or law.shift or law.matrices:
            where = pointwise._words(algebra, [value])
            step.domain.breaks.append(Break(step.place, f"a power of a tensor that becomes {where}"))
    algebra.remember(plain, moved)
    return Tensor(value.dims, plain, moved)


def _entry_power(step: Joint, poly: Poly, exponent: Fraction) -> Poly:
    """One term to a power factor by factor where that is allowed; anything longer as one atom."""
    algebra = step.domain.algebra
    power = int(exponent) if exponent.denominator == 1 else exponent
    if len(poly) == 1:
        ((term, coefficient),) = poly.items()
        whole = exponent.denominator == 1
        signed = all(algebra.atoms[a].sign in ("positive", "nonnegative", "boolean") for a, _, _ in term)
        if not algebra.bound_in(term) and (whole or (coefficient > 0 and (signed or _one_entry(term)))):
            return algebra.multiply(
                algebra.root(Fraction(coefficient), exponent),
                algebra.normal(1, [(a, at, p * power) for a, at, p in term]),
            )
    made = atomised(algebra, poly)
    ((term, coefficient),) = made.items()
    if coefficient < 0 and exponent.denominator != 1:
        # the root of a negative multiple: the multiple is part of what is under the root
        z = pointwise.variables(1)[0]
        return pointwise.node(algebra, Function(z ** sp.Rational(str(exponent)), (z,), f"power {exponent}"), [poly])
    if made == poly:
        raise NoLaw("it is a power that has no name")
    return _entry_power(step, made, exponent)


def _one_entry(term: Any) -> bool:
    return len(term) == 1 and term[0][2] == 1


def convert(step: Joint, args: list[Any]) -> list[Any]:
    """Change of type: nothing for reals, for truth values as 0 and 1, and for integers as reals."""
    order = "bif"
    if order.index(step.kind(0)) <= order.index(step.out_kind):
        return [args[0]]
    return generic(step, args)


def conjunction(step: Joint, args: list[Any]) -> list[Any]:
    """`a and b` of truth values is their product."""
    _truth(step)
    return product(step, args)


def disjunction(step: Joint, args: list[Any]) -> list[Any]:
    """`a or b` is `a + b - a b`."""
    _truth(step)
    algebra = step.domain.algebra
    left, right = operands(step, args)

    def either(a: Poly, b: Poly) -> Poly:
        return algebra.add(algebra.add(a, b), algebra.multiply(a, b), -1)

    return [Tensor(left.dims, either(left.plain, right.plain), either(left.moved, right.moved))]


def exclusive(step: Joint, args: list[Any]) -> list[Any]:
    """`a xor b` is `a + b - 2 a b`."""
    _truth(step)
    algebra = step.domain.algebra
    left, right = operands(step, args)

    def other(a: Poly, b: Poly) -> Poly:
        return algebra.add(algebra.add(a, b), algebra.multiply(a, b), -2)

    return [Tensor(left.dims, other(left.plain, right.plain), other(left.moved, right.moved))]


def negation(step: Joint, args: list[Any]) -> list[Any]:
    """`not a` is `1 - a`."""
    _truth(step)
    algebra, value = step.domain.algebra, args[0]
    one: Poly = {(): Fraction(1)}
    return [Tensor(value.dims, algebra.add(one, value.plain, -1), algebra.add(one, value.moved, -1))]


def _truth(step: Joint) -> None:
    if step.kind(0) != "b":
        raise NoLaw("it works on the bits of integers")


def extreme(step: Joint, args: list[Any]) -> list[Any]:
    """`max` and `min`; an infinite bound is no bound."""
    worst = -np.inf if step.primitive.name == "max" else np.inf
    for k, arg in enumerate(args):
        if isinstance(arg, Constant) and all(bool(np.all(a == worst)) for a in arg.arrays):
            return [operands(step, args)[1 - k]]
    return generic(step, args)


def compare(step: Joint, args: list[Any]) -> list[Any]:
    """Comparisons: tokens against zero and against a ramp are known, the rest is a function."""
    name, algebra = step.primitive.name, step.domain.algebra
    left, right = args
    if name in ("lt", "ge") and isinstance(left, Tensor) and isinstance(right, Constant):
        token = token_of(algebra, left.plain)
        if token is not None and left.invariant and all(bool(np.all(a <= 0)) for a in right.arrays):
            value: Poly = {} if name == "lt" else {(): Fraction(1)}
            return [Tensor(left.dims, value, value)]
    if name == "eq":
        for one, other in ((0, 1), (1, 0)):
            ramp, tensor = args[one], args[other]
            if isinstance(ramp, Constant) and isinstance(tensor, Tensor) and tensor.invariant:
                found = _one_hot(step, tensor, ramp, other)
                if found is not None:
                    return [found]
    return generic(step, args)


def token_of(algebra: Algebra, poly: Poly) -> Any:
    """The atom when a polynomial is one entry of a token input."""
    if len(poly) != 1:
        return None
    ((term, coefficient),) = poly.items()
    if coefficient != 1 or len(term) != 1 or term[0][2] != 1:
        return None
    atom = algebra.atoms[term[0][0]]
    return term[0] if atom.kind == "tokens" else None


def token_selection(algebra: Algebra, factor: Any, column: ix.Index) -> Poly | None:
    """`[token = column]`: a selection whose rows are the token's indices, total when the range is the token's own."""
    number, at, _ = factor
    atom = algebra.atoms[number]
    rows = tuple(range(len(at)))
    total = atom.data == ix.extent(column)
    made = algebra.atom(
        ("one hot", number, ix.extent(column)),
        "selection",
        f"[{atom.name}=·]",
        [*(ix.extent(i) for i in at), ix.extent(column)],
        sign="boolean",
        rows=((rows, (len(at),), total),),
    )
    return {((made.number, (*at, column), 1),): Fraction(1)}


def _one_hot(step: Joint, tensor: Tensor, ramp: Constant, position: int) -> Tensor | None:
    algebra = step.domain.algebra
    factor = token_of(algebra, tensor.plain)
    if factor is None:
        return None
    rank = len(step.out_shapes[0])
    varying = [d for d in range(rank) if any(not np.all(a == np.take(a, [0], d)) for a in ramp.arrays)]
    if len(varying) != 1 or len(step.shapes(1 - position)[0]) != rank:
        return None
    (axis,) = varying
    if any(a.shape[axis] != s[axis] for a, s in zip(ramp.arrays, step.out_shapes, strict=True)):
        return None
    for a in ramp.arrays:
        line = np.moveaxis(a, axis, -1).reshape(-1, a.shape[axis])[0]
        if not np.array_equal(line, np.arange(len(line))):
            return None
    value = operands(step, [tensor, ramp] if position == 0 else [ramp, tensor])[position]
    if len(value.dims[axis]) != 1:
        return None
    column = tensors.place(axis, 0, value.dims[axis][0])
    factor = token_of(algebra, value.plain)
    if factor is None or any(column in tuple(ix.atoms(i)) for i in factor[1]):
        return None
    poly = token_selection(algebra, factor, column)
    return None if poly is None else Tensor(value.dims, poly, poly)


def select(step: Joint, args: list[Any]) -> list[Any]:
    """`where`: `p a + (1 - p) b`; next to an infinite alternative, a mask."""
    which, *cases = args
    algebra = step.domain.algebra
    if isinstance(which, Constant):
        values = {int(v) for a in which.arrays for v in np.unique(a)}
        if len(values) == 1:
            (value,) = values
            return [operands(step, args)[1 + value]]
    elif rational(which.plain) is not None and which.invariant:
        value = int(rational(which.plain) or 0)
        chosen = cases[value]
        return [chosen] if isinstance(chosen, Tensor) else [operands(step, args)[1 + value]]
    if len(cases) != 2:
        raise NoLaw("it chooses between more than two cases")
    infinite = [isinstance(c, Constant) and not all(bool(np.all(np.isfinite(a))) for a in c.arrays) for c in cases]
    predicate, no, yes = operands(step, args)
    if any(infinite):
        return [_masked(step, predicate, (no, yes), cases, infinite)]
    one: Poly = {(): Fraction(1)}

    def choose(p: Poly, a: Poly, b: Poly) -> Poly:
        return algebra.add(algebra.multiply(p, b), algebra.multiply(algebra.add(one, p, -1), a))

    same = predicate.invariant and no.invariant and yes.invariant
    plain = choose(predicate.plain, no.plain, yes.plain)
    moved = None if same else choose(predicate.moved, no.moved, yes.moved)
    return [_result(step, predicate.dims, plain, moved)]


def _masked(
    step: Joint, predicate: Tensor, cases: tuple[Tensor, Tensor], given: Sequence[Any], infinite: Sequence[bool]
) -> Tensor:
    """`x` where kept and infinite elsewhere: a finite shift or a positive factor passes through."""
    if all(infinite):
        raise NoLaw("both of its cases are infinite")
    algebra = step.domain.algebra
    hidden = 0 if infinite[0] else 1
    fill = {float(v) for a in given[hidden].arrays for v in np.unique(a)}
    if len(fill) != 1:
        raise NoLaw("one of its cases is partly infinite")
    value = cases[1 - hidden]
    (level,) = fill
    z, p = sp.Symbol("z0", real=True), sp.Symbol("z1", real=True)
    function = Function(sp.Function(f"masked{hidden}_{'nan' if level != level else level}")(z, p), (z, p), "mask")
    plain = pointwise.node(algebra, function, [value.plain, predicate.plain])
    if value.invariant and predicate.invariant:
        return Tensor(value.dims, plain, plain)

    def effects(kind: str, chosen: Sequence[sp.Symbol]) -> Effect | None:
        if p in chosen:
            return None
        if kind == "shift":
            return Effect(shift=sp.Integer(1), words="a finite shift passes a mask")
        return Effect(power=sp.Integer(1), words="a positive factor passes a mask") if kind == "positive" else None

    moved = pointwise.transformed(step, plain, [value, predicate], (z, p), effects, "mask")
    if moved is None:
        step.domain.breaks.append(
            Break(step.place, f"a mask on a tensor that becomes {pointwise._words(algebra, [value, predicate])}")
        )
        moved = pointwise.node(algebra, function, [value.moved, predicate.moved])
    algebra.remember(plain, moved)
    return Tensor(value.dims, plain, moved)
