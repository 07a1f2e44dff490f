"""The sheet of a model: what its trace computes, written out in index notation; no group and no claim occur in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import assert_never

import sympy as sp

from quotax.kernel import atoms as kinds
from quotax.kernel.atoms import Atom, Atoms, Extreme, Factor, Function, Poly
from quotax.kernel.indices import Free, Index
from quotax.kernel.polynomials import UNIT, Algebra, Key, fraction, key_of, order_of, rational, sign_of
from quotax.kernel.sizes import Size


@dataclass(frozen=True)
class Loop:
    """`C_k[0] = init_k`, `C_k[t + 1] = next_k(t)`: slot 0 of a carry is time, from 0 to `length`.

    `next_k` is in slots: 0 is the time t below `length`, the others those of the carry; it reads carries at t.
    """

    carries: tuple[int, ...]
    inits: tuple[Poly, ...]
    nexts: tuple[Poly, ...]
    length: Size
    place: str


@dataclass(frozen=True)
class Guard:
    """A value that is chosen by a predicate: what lies outside the domain of a root or a quotient may be its answer.

    The condition may be assumed where the predicate is not moved: then every point is on the same side before and
    after. `together` is an entry of a function of the predicate and of all that the condition is about: where that is
    only permuted, every place is on the side of the place that it comes from, and inside the domain where that is.
    `predicate` is None for one whose value the condition itself decides.
    """

    condition: str
    predicate: Key | None
    together: Key | None = None


@dataclass
class Sheet:
    """Atoms with their definitions in the order in which they were made, and the outputs in terms of them."""

    atoms: Atoms
    parameters: dict[str, int] = field(default_factory=dict)
    centres: dict[str, Fraction] = field(default_factory=dict)
    """The `r` of parameters whose atom is `w + r`: those that the model reads in no other way."""
    outputs: list[Poly] = field(default_factory=list)
    guards: tuple[Guard, ...] = ()
    loops: list[Loop] = field(default_factory=list)
    conditions: dict[str, None] = field(default_factory=dict)
    """What sizes have to be for the sheet to be the model: `h ≥ 2`."""
    places: dict[int, str] = field(default_factory=dict)
    """Where in the user's code an atom was made."""
    assumptions: tuple[str, ...] = ()
    _users: dict[int, list[int]] = field(default_factory=dict, repr=False, compare=False)
    _parts: dict[int, tuple[int, ...] | None] = field(default_factory=dict, repr=False, compare=False)

    def parts(self, number: int) -> tuple[int, ...] | None:
        """The atoms that an atom of the sheet is a function of; None where its definition does not say."""
        if number not in self._parts:
            atom = self.atoms[number]
            whole = isinstance(atom.what, kinds.NamedSum | kinds.Application | kinds.Reduction | kinds.Selection)
            found = {n for poly in definitions(atom) for term in poly for n, _, _ in term}
            self._parts[number] = tuple(sorted(found)) if whole else None
        return self._parts[number]

    def users(self, number: int) -> Sequence[int]:
        """The atoms that are functions of an atom, in the order in which they were made."""
        if not self._users:
            for atom in self.atoms.made:
                for part in self.parts(atom.number) or ():
                    self._users.setdefault(part, []).append(atom.number)
        return self._users.get(number, ())


def named_sum(algebra: Algebra, poly: Poly) -> Poly:
    """`poly` as a multiple of one atom, whose definition it is."""
    labels = algebra.free_in(poly)
    definition = algebra.in_slots(poly, labels)
    # a multiple of a known sum is a multiple of its atom
    lead = min(definition.items(), key=lambda item: tuple(map(order_of, item[0])))[1]
    definition = algebra.scale(definition, 1 / lead)
    made = algebra.atoms.make(
        ("let", key_of(definition)),
        kinds.NamedSum(definition),
        f"T{len(algebra.atoms.made)}",
        [label.extent for label in labels],
        sign=sign_of(algebra, definition),
        moved=_is_moved(algebra, definition),
    )
    return {(Factor(made.number, tuple(labels), 1),): lead}


def node(algebra: Algebra, function: Function, args: Sequence[Poly], boolean: bool = False) -> Poly:
    """The value of a function at polynomials: one atom, made once for each function and arguments."""
    args = [named_sum(algebra, a) if len(a) > 60 else a for a in args]
    labels = algebra.free_in(*args)
    definitions = tuple(algebra.in_slots(a, labels) for a in args)
    numbers = [rational(d) for d in definitions]
    if all(n is not None for n in numbers):
        values = {
            z: sp.Rational(n.numerator, n.denominator)
            for z, n in zip(function.symbols, numbers, strict=True)
            if n is not None
        }
        exact = sp.sympify(function.expression.xreplace(values))
        if exact.is_Rational:
            return algebra.scale(UNIT, fraction(exact))
    made = algebra.atoms.make(
        ("function", function.expression, tuple(key_of(d) for d in definitions)),
        kinds.Application(function, definitions, boolean),
        function.name,
        [label.extent for label in labels],
        sign="boolean" if boolean else _range(algebra, function, definitions),
        moved=any(_is_moved(algebra, d) for d in definitions),
    )
    return algebra.entry(made, labels)


def reduced(
    algebra: Algebra, poly: Poly, touched: Sequence[Index], new: Sequence[Free], law: Extreme, name: str,
    settings: Hashable, boolean: bool = False,
) -> Poly:  # fmt: skip
    """A reduction of a polynomial over `touched` free indices, with `new` ones in their place."""
    body = named_sum(algebra, poly) if len(poly) > 40 else poly
    others = [i for i in algebra.free_in(body) if i not in touched]
    mapping: dict[Index, Index] = {i: Free((0, k), i.extent) for k, i in enumerate(others)}
    places = tuple(Free((1, k), i.extent) for k, i in enumerate(touched))
    mapping |= dict(zip(touched, places, strict=True))
    definition = algebra.substitute(body, mapping)
    extents = tuple(i.extent for i in new)
    count = len(others)
    last = count + len(new) - 1  # the place: one for each value of the slots before it
    rows = ((tuple(range(last)), (last,), True),) if law.follows else ()
    made = algebra.atoms.make(
        ("reduction", name, settings, places, extents, key_of(definition)),
        kinds.Reduction(name, settings, law, places, extents, definition),
        name,
        [i.extent for i in (*others, *new)],
        sign="boolean" if boolean else "real",
        rows=rows,
        moved=_is_moved(algebra, definition),
    )
    return algebra.entry(made, [*others, *new])


def definitions(atom: Atom) -> tuple[Poly, ...]:
    """The polynomials that an atom is made of."""
    what = atom.what
    if isinstance(what, kinds.NamedSum | kinds.Selection | kinds.Exponential):
        return (what.poly,)
    if isinstance(what, kinds.Application):
        return what.arguments
    if isinstance(what, kinds.Reduction):
        return (what.definition,)
    if isinstance(what, kinds.Magnitude | kinds.Logarithm):  # of an entry of the group element
        return ()
    if isinstance(what, kinds.Given | kinds.Number | kinds.Carry):
        return ()
    assert_never(what)


def made_of(algebra: Algebra, polys: Iterable[Poly]) -> Iterator[Atom]:
    """The atoms in polynomials, and all that those are made of, each once."""
    waiting, seen = list(polys), set()
    while waiting:
        for number in {n for term in waiting.pop() for n, _, _ in term} - seen:
            seen.add(number)
            yield algebra.atoms[number]
            waiting += definitions(algebra.atoms[number])


def _is_moved(algebra: Algebra, poly: Poly) -> bool:
    return any(algebra.moved(f) for term in poly for f in term)


def infinite(algebra: Algebra, polys: Sequence[Poly]) -> bool:
    """Whether something in polynomials, or in what they are made of, may be an infinity."""
    return any(map(is_infinite, made_of(algebra, polys)))


def is_infinite(atom: Atom) -> bool:
    """Whether an atom is an infinite constant, or a mask of one."""
    masks = isinstance(atom.what, kinds.Application) and atom.what.function.law is not None
    return masks or isinstance(atom.what, kinds.Infinite)


def _range(algebra: Algebra, function: Function, args: Sequence[Poly]) -> str:
    signs = [sign_of(algebra, a) for a in args]
    sign = _real_range(function, signs)
    # exp(-inf) is zero
    return "nonnegative" if sign == "positive" and infinite(algebra, args) else sign


def _real_range(function: Function, signs: Sequence[str]) -> str:
    symbols = {
        z: sp.Symbol(z.name, positive=True) if s == "positive" else z
        for z, s in zip(function.symbols, signs, strict=True)
    }
    value = function.expression.xreplace(symbols)
    return "positive" if value.is_positive else "nonnegative" if value.is_nonnegative else "real"


def atoms_in(sheet: Sheet) -> list[int]:
    """The atoms that the outputs are made of, in the order in which they were made."""
    loops = {number: loop for loop in sheet.loops for number in loop.carries}
    seen: set[int] = set()
    asked = [key for g in sheet.guards for key in (g.predicate, g.together) if key is not None]
    waiting = [*map(dict, asked), *sheet.outputs]
    while waiting:
        for term in waiting.pop():
            for number, _, _ in term:
                if number not in seen:
                    seen.add(number)
                    waiting += definitions(sheet.atoms[number])
                    if number in loops:
                        waiting += [*loops[number].inits, *loops[number].nexts]
    return sorted(seen)
