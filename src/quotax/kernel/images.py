r"""What the atoms of a sheet become under a claim, and what polynomials in them are before and after.

An image is a polynomial in the atom's own slots. What is made of atoms that stay, stays; what nothing is said of is
refused where it is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Exact
from quotax.kernel.elements import Element
from quotax.kernel.indices import Affine, Bound, Fixed, Free, Index
from quotax.kernel.polynomials import UNIT, Algebra, Atom, Factor, Key, Poly, Term, TooLarge, single, slot
from quotax.kernel.rewriting import RULES
from quotax.kernel.sheet import Sheet, named_sum
from quotax.kernel.sizes import Size
from quotax.kernel.transformation import magnitude, permutes


class Refused(Exception):
    """A step does not hold."""


class Images:
    """What the atoms of a sheet become under one claim, and polynomials in them before and after."""

    def __init__(self, sheet: Sheet, element: Element) -> None:
        """Nothing has moved yet: `claim` says what the parameters become."""
        self.sheet, self.element = sheet, element
        atoms = sheet.atoms.fork()
        self.algebra = Algebra(atoms, RULES, element.relations(atoms))
        self.common = len(atoms.made)
        """Atoms below this number, those of the sheet and of the group, are the same in every proof of the claim."""
        self.written = len(sheet.atoms.made)
        """Atoms below this number are those of the sheet."""
        self.images: dict[int, Poly] = {}
        self.inlined: dict[int, Poly] = {}
        self._moved: dict[Key, Poly] = {}
        self._still: set[int] = set()

    def claim(self, images: Mapping[str, Poly]) -> None:
        """What the action makes of the parameters, in their slots; one that is not named stays."""
        for name, number in self.sheet.parameters.items():
            self.becomes(self.algebra.atoms[number], images.get(name, self.entry(number)))

    def entry(self, number: int) -> Poly:
        """An atom at its own slots."""
        at = tuple(slot(k, extent) for k, extent in enumerate(self.algebra.atoms[number].slots))
        return {(Factor(number, at, 1),): Fraction(1)}

    def plain(self, poly: Poly) -> Poly:
        """The polynomial with inlined atoms written out."""
        inlined = any(number in self.inlined for term in poly for number, _, _ in term)
        return self.substituted(poly, self.inlined.get) if inlined else poly

    def moved(self, poly: Poly) -> Poly:
        """The polynomial with every atom replaced by its image."""
        if all(self.stays(number) for term in poly for number, _, _ in term):
            return poly
        key = frozenset(poly.items())
        if key not in self._moved:
            self._moved[key] = self.substituted(poly, self.image)
        return self._moved[key]

    def image(self, number: int) -> Poly:
        """The image of an atom, in its slots."""
        if number in self.images:
            return self.images[number]
        atom = self.algebra.atoms[number]
        if isinstance(atom.what, kinds.Unmoved):
            return self.entry(number)
        if isinstance(atom.what, kinds.Selection) and self.moved(atom.what.poly) == self.plain(atom.what.poly):
            return self.entry(number)
        if self.stays(number):
            return self.entry(number)
        raise Refused(f"nothing says how {atom.name} moves")

    def stays(self, number: int) -> bool:
        """Whether an atom is its own image: by a step, or as what nothing moves, or as a function of such atoms."""
        waiting = [number]
        while waiting:
            here = waiting[-1]
            own = self._stays(here)
            if own is not None:
                waiting.pop()
                if not own:
                    return False
                self._still.add(here)
                continue
            parts = self.sheet.parts(here) if here < self.written else None
            unknown = None if parts is None else [part for part in parts if part not in self._still]
            if unknown is None:
                return False
            if unknown:
                waiting += unknown
            else:
                waiting.pop()
                self._still.add(here)
        return True

    def _stays(self, number: int) -> bool | None:
        """The same without a look at what it is made of: None where that is the question."""
        if number in self._still:
            return True
        if number in self.images:
            return _is_entry(self.images[number], number)
        what = self.algebra.atoms[number].what
        if isinstance(what, kinds.Unmoved):
            return True
        return None

    def substituted(self, poly: Poly, image: Callable[[int], Poly | None]) -> Poly:
        """The polynomial with the image of every atom that has one."""
        out: Poly = {}
        for term, coefficient in poly.items():
            out = self.algebra.add(out, self._substituted_term(term, image), coefficient)
        return out

    def _substituted_term(self, term: Term, image: Callable[[int], Poly | None]) -> Poly:
        """Bound indices are free ones while factors are replaced one by one, and are summed at the end."""
        algebra = self.algebra
        summed = [Free((ix.OPENED, k), i.extent) for k, i in enumerate(algebra.bound_in(term))]
        opened: dict[Index, Index] = dict(zip(algebra.bound_in(term), summed, strict=True))
        kept: list[Factor] = []
        product: Poly = UNIT
        for number, at, power in term:
            at = tuple(ix.replaced(i, opened) for i in at)
            found = image(number)
            if found is None or _is_entry(found, number):
                kept.append(Factor(number, at, power))
            else:
                product = algebra.multiply(product, self._power(number, found, at, power))
        if not summed:
            return algebra.multiply(algebra.normal(1, kept), product)
        return algebra.multiply(algebra.normal(1, kept), product, summed)

    def _power(self, number: int, image: Poly, at: tuple[Index, ...], power: Exact) -> Poly:
        """A power of the image of an entry."""
        algebra = self.algebra
        if power == int(power) and 0 < power <= 6:
            here = algebra.at(image, at)
            out = here
            for _ in range(int(power) - 1):
                out = algebra.multiply(out, here)
            return out
        found = self._monomial_power(number, image, power)
        if found is None:
            named = named_sum(algebra, image)
            ((term, coefficient),) = named.items()
            if coefficient < 0 and power != int(power):
                raise Refused(f"the root of a negative multiple of {algebra.atoms[number].name}")
            found = algebra.multiply(
                algebra.root(coefficient, power), algebra.normal(1, [term[0]._replace(power=power)])
            )
        return algebra.at(found, at)

    def _monomial_power(self, number: int, image: Poly, power: Exact) -> Poly | None:
        """`(alpha T)^p = alpha^p T^p`, and a permutation passes a power.

        For a root, alpha has to be positive: an entry that may be negative is one to an even power, whose root is a
        power of its absolute value. A row of a permutation selects one entry, and the power of a sum of which one term
        is not zero is the sum of the powers.
        """
        algebra = self.algebra
        if len(image) != 1:
            return None
        ((term, coefficient),) = image.items()
        whole = power == int(power)
        if not whole and coefficient < 0:
            return None
        own = [f for f in term if f.atom == number]
        if len(own) != 1 or own[0].power != 1:
            return None
        out: list[Factor] = [own[0]._replace(power=power)]
        for factor in term:
            atom, at, p = factor
            if factor is own[0]:
                continue
            sign = algebra.atoms[atom].sign
            if permutes(algebra, [factor]):
                out.append(factor)
            elif any(ix.has(i, Bound) for i in at):
                return None
            elif sign == "positive" or (whole and sign in ("sign", "nonzero")):
                out.append(Factor(atom, at, p * power))
            elif sign == "nonzero" and p == int(p) and int(p) % 2 == 0:
                out.append(Factor(magnitude(algebra, atom), at, p * power))
            else:
                return None
        if not permuted(algebra, term, own[0]):
            return None
        return algebra.multiply(algebra.root(coefficient, power) if coefficient > 0 else {(): coefficient**int(power)},
                                algebra.normal(1, out))  # fmt: skip

    def written_out(self, poly: Poly, most: int = 64, turns: int | None = None) -> Poly:
        """The polynomial with the definitions of its named sums written out, the last made first, while it is short.

        `turns` bounds how many definitions are.
        """
        for _ in itertools.count() if turns is None else range(turns):
            if not poly or len(poly) > most:
                break
            found = {number for term in poly for number, _, power in term if power == int(power) and power > 0}
            named = {n: what.poly for n in found if isinstance(what := self.algebra.atoms[n].what, kinds.NamedSum)}
            if not named:
                break
            last = max(named)
            poly = self.substituted(poly, {last: named[last]}.get)
        return poly

    def same(self, left: Poly, right: Poly, turns: int | None = None) -> bool:
        """Whether two polynomials are equal, with named sums written out where they have to be; `turns` bounds that."""
        difference = self.algebra.add(left, right, -1)
        if not difference:
            return True
        try:
            return not self.written_out(difference, turns=turns)
        except TooLarge:
            return False

    def becomes(self, atom: Atom, image: Poly) -> None:
        """Keep an image: a polynomial in the atom's own slots, and in no other free index."""
        slots = {slot(k, extent) for k, extent in enumerate(atom.slots)}
        if not set(self.algebra.free_in(image)) <= slots:
            raise Refused(f"the image of {atom.name} has an index that it has not")
        for term in image:
            self.formed(term)
        self.images[atom.number] = image

    def formed(self, factors: Iterable[Factor]) -> None:
        """Every entry has as many indices as its atom has slots, each within its extent."""
        for number, at, _ in factors:
            atom = self.algebra.atoms[number]
            if [i.extent for i in at] != list(atom.slots):
                raise Refused(f"an entry of {atom.name} with the wrong indices")
            for index in (part for i in at for part in ix.inside(i)):
                self.within(index)

    def within(self, index: Index) -> None:
        """An index is one position of its extent, at all sizes that the sheet is about."""
        if isinstance(index, Bound) and index.number < 0:
            raise Refused("a summed index has a number below zero")
        if isinstance(index, Free) and (index.place[0] not in (0, 1) or index.place[1] < 0):
            raise Refused("a free index that is no slot")
        ends: list[Size] = []
        if isinstance(index, Fixed):
            ends = [index.position]
        elif isinstance(index, Affine):
            last = index.of.extent.minus(1)
            ends = [index.start, index.start.plus(last, index.stride)]
        for end in ends:
            if not (self._least(end).nonnegative and self._least(index.extent.minus(end)).positive):
                raise Refused(f"position {end} may lie outside of {index.extent}")

    def _least(self, size: Size) -> Size:
        """A size with its axes counted from the least that the sheet's conditions allow."""
        for condition in self.sheet.conditions:
            axis, _, least = condition.partition(" ≥ ")
            if least.isdigit():
                size = size.raised(axis, int(least) - 1)
        return size


def _is_entry(poly: Poly, number: int) -> bool:
    """Whether an image is the atom itself, at its own slots."""
    own = single(poly)
    if own is None or own.atom != number:
        return False
    return all(isinstance(i, Free) and i.place == (0, k) for k, i in enumerate(own.at))


def permuted(algebra: Algebra, term: Term, own: Factor) -> bool:
    """Whether the permutations of a monomial lead from free indices to indices of the entry, and bind nothing else."""
    waiting = [f for f in term if f is not own and permutes(algebra, [f])]
    ends = [i for i in own.at if ix.has(i, Bound)]
    if any(not isinstance(i, Bound) for i in ends) or len(set(ends)) != len(ends):
        return False
    for end in ends:
        here: Index = end
        while isinstance(here, Bound):
            step = next((f for f in waiting if here in f.at[-2:]), None)
            if step is None or step.at[-2] == step.at[-1] or any(ix.has(i, Bound) for i in step.at[:-2]):
                return False
            waiting.remove(step)
            here = step.at[-1] if step.at[-2] == here else step.at[-2]
        if not isinstance(here, Free):
            return False
    return not waiting
