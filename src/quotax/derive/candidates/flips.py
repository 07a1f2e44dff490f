"""Sign flips: the vector space over GF(2) of those of an axis that leave the outputs alone, and generators of it.

Flips may be free for every index of other axes as well, as of stacked layers, and may need another parameter to take up
a constant: s(-z) = c - s(z). What continuous families contain is not repeated.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.derive.candidates.moves import SUBSETS, MoveCheck, Offset, Place, acted_places, flipping, subsets
from quotax.derive.candidates.sign_subspaces import (
    MOST,
    SignSpace,
    Values,
    invariant,
    matches,
    small_generators,
    small_members,
    sums,
)
from quotax.symmetry import Entry, SignFlip, Symmetry
from quotax.symmetry.language.phrases import ActionLine, number

_TOGETHER = 2
"""Flips that are free for every index of so many other axes at most are looked for."""


class Flip(NamedTuple):
    """A sign for each index of an axis, of its own for each index of others that the same parameters have once."""

    axis: str
    each: tuple[str, ...]
    chosen: tuple[Place, ...]

    @property
    def axes(self) -> set[str]:
        """All of which an index has a sign."""
        return {self.axis, *self.each}

    def along(self, specs: Sequence[ArraySpec], axis: str) -> set[Place]:
        """The places at which it flips an index of one of its axes, where the signs depend on that alone."""
        if axis == self.axis:
            return set(self.chosen)
        times = Counter(name for name, _ in self.chosen)
        return {(s.name, s.factors.index(axis)) for s in specs if times[s.name] % 2}


def joint_flips(specs: Sequence[ArraySpec], single: Sequence[Flips]) -> list[Flips]:
    """Flips of an axis that are free for every index of others as well: most of such others first."""
    found: dict[frozenset[str], Flips] = {}
    level = [flips for flips in single if flips.basis]
    for _ in range(_TOGETHER):
        above: list[Flips] = []
        for flips in level:
            moved = {name for one in flips.every.rows for name, _ in flips.set_of(one)}
            own = [s.factors for s in specs if s.name in moved]
            more = dict.fromkeys(f for factors in own for f in factors if isinstance(f, str) and f not in flips.axes)
            for each in more:
                if (key := frozenset({*flips.axes, each})) not in found:
                    further = flips.for_each(each)
                    if further.basis:
                        found[key] = further
                        above.append(further)
        level = above
    return sorted(found.values(), key=lambda flips: -len(flips.each))


class Flips:
    """Which flips of one axis leave the outputs alone: sets of places as numbers of so many bits."""

    def __init__(
        self,
        specs: Sequence[ArraySpec],
        places: list[Place],
        axis: str,
        families: Sequence[Symmetry],
        check: MoveCheck,
        each: tuple[str, ...] = (),
        units: Sequence[int] | None = None,
    ) -> None:
        """Of sums of `units`, or of all places: sets that may be flipped for each index of some axes apart."""
        self.specs, self.families, self.check = specs, families, check
        self.axis, self.each = axis, each
        once = {s.name for s in specs if all(s.factors.count(f) == 1 for f in each)}
        self.places = places = [place for place in places if place[0] in once]
        self.bits = {place: 1 << k for k, place in enumerate(places)}
        self.known = SignSpace(self.bit_set(one) for one in _signs(specs, families, axis, check.centres, each))
        """What continuous families contain; flips of what is inert are not looked at."""
        entries, start = {}, 0
        for name, shape in check.shapes.items():
            entries[name] = np.arange(start, start + math.prod(shape)).reshape(shape)
            start += entries[name].size
        self.entries = entries
        factors = {s.name: s.factors for s in specs}
        first = lambda name, k: tuple(0 if j == k or f in each else slice(None) for j, f in enumerate(factors[name]))
        self.flipped = {bit: entries[name][first(name, k)].ravel() for (name, k), bit in self.bits.items()}
        self.about = np.concatenate(
            [np.zeros(0), *(np.full(e.size, float(check.centres.get(n, 0))) for n, e in entries.items())]
        )
        """The `r` of every entry: a sign is that of `w + r`."""
        self.plain = _remembered(next(check.values(self.moved)))
        given = [self.known.rest(one) for one in units or ()]
        units = self.unknown(self.known) if units is None else SignSpace(given).rows
        self.basis = invariant(units, check.values(self.moved), self.smallest)
        self.every = SignSpace([*self.known.rows, *self.basis])

    @property
    def axes(self) -> set[str]:
        """All of which an index has a sign."""
        return {self.axis, *self.each}

    def for_each(self, axis: str) -> Flips:
        """Those of them that may be flipped for each index of another axis apart."""
        sets = [self.set_of(one) for one in self.every.rows]
        once = {s.name for s in self.specs if s.factors.count(axis) == 1}
        places = [place for place in self.places if place[0] in once]
        bits = {place: 1 << k for k, place in enumerate(places)}
        units = [sum(bits[place] for place in one) for one in sets if set(one) <= set(places)]
        return Flips(self.specs, places, self.axis, self.families, self.check, (*self.each, axis), units)

    def moved(self, theta: np.ndarray, sets: Sequence[int], offset: Offset | None = None) -> np.ndarray:
        """A flat point with the first index along these places flipped, a row for each set: `flipping` of many."""
        out = np.tile(theta + self.about, (len(sets), 1))
        for bit, entries in self.flipped.items():
            rows = np.array([bool(one & bit) for one in sets], bool)
            out[np.ix_(rows, entries)] *= -1
        out -= self.about
        if offset is not None:
            target, source, axis, order, c = offset
            piece = np.take(self.entries[source], 0, axis).transpose(order)
            out[:, self.entries[target].ravel()] += c * (theta + self.about)[piece.ravel()]
        return out

    def unknown(self, space: SignSpace) -> list[int]:
        """Places whose sets stand for all sets, modulo a subspace."""
        leading = {1 << (row.bit_length() - 1) for row in space.rows}
        return [bit for bit in self.bits.values() if bit not in leading]

    def bit_set(self, chosen: Iterable[Place]) -> int:
        """A set of places as a number."""
        return sum(self.bits.get(place, 0) for place in set(chosen))

    def set_of(self, one: int) -> tuple[Place, ...]:
        """The places of such a number."""
        return tuple(place for place, bit in self.bits.items() if one & bit)

    def smallest(self) -> Iterator[int]:
        """Sets by their size, as far as they are tried one by one, and that of all places."""
        yield 0
        for chosen in itertools.islice(subsets(self.places), SUBSETS):
            yield self.known.rest(self.bit_set(chosen))
        yield self.known.rest(self.bit_set(self.places))

    def shifted(self, source: Place, offset: Offset) -> tuple[Place, ...] | None:
        """The smallest set with the source in it, known modulo all flips, that leaves the outputs with the offset.

        With `s` the shift of the target by `c` times the source, `f(flip_A flip_B s theta) = f(theta)` for all `theta`
        says `f(flip_A theta) = f(s^-1 flip_B theta)`, and with the source in `B` this is `f(flip_B s theta)`.
        """
        own = self.bits.get(source, 0)
        if not own or any(row & own for row in self.every.rows):
            return None  # what may be flipped without the offset does not need it
        units = [unit for unit in self.unknown(self.every) if unit != own]
        many = len(units) > MOST
        plain, shifted = (list(self.smallest()),) * 2 if many else (sums(units[::2]), sums(units[1::2]))
        moved = next(self.check.values(functools.partial(self.moved, offset=offset)))
        found = matches(plain, self.plain, [one | own for one in shifted], moved)
        for one in small_members(found, self.every.rows):
            if self.check.same(flipping(self.set_of(one), self.check.centres, offset)):
                return self.set_of(one)
        return None

    def generators(self, held: Sequence[Flip]) -> Iterator[Flip]:
        """The smallest sets of places that generate all flips beside those of continuous families, and those `held`.

        Flips of parameters as they are come before those of `w + r`.
        """
        centred = self.bit_set(place for place in self.places if place[0] in self.check.centres)
        within = [self.bit_set(one.along(self.specs, self.axis)) for one in held if self.axes <= one.axes]
        factors = {s.name: s.factors for s in self.specs}
        for one in small_generators(self.basis, SignSpace([*self.known.rows, *within]).rows, centred):
            chosen = self.set_of(one)
            if self.check.same(flipping(chosen, self.check.centres, None, factors, self.each)):
                yield Flip(self.axis, self.each, chosen)


def _remembered(value: Values) -> Values:
    """The same values, of each set once."""
    known: dict[int, np.ndarray] = {}

    def values(sets: Sequence[int]) -> list[np.ndarray]:
        new = [one for one in dict.fromkeys(sets) if one not in known]
        known.update(zip(new, value(new), strict=True))
        return [known[one] for one in sets]

    return values


def _signs(
    specs: Sequence[ArraySpec],
    families: Sequence[Symmetry],
    axis: str,
    about: Mapping[str, Fraction],
    each: tuple[str, ...] = (),
) -> list[set[Place]]:
    """The sets of places of an axis on which continuous families contain a sign, for each index of others too."""
    own = []
    for family in families:
        group = family.group
        free = {*group.each_axes, *([group.axis] if group.signs == "each" else [])}
        # where something is added as well, a sign is no flip; `w -> g (w + 1) - 1` is one where `w + 1` is what is read
        if group.continuous and group.signs and {axis, *each} <= free and not _added(specs, family) - set(about):
            own.append(acted_places(specs, family, axis, True))
    return own


def _added(specs: Sequence[ArraySpec], family: Symmetry) -> set[str]:
    """The parameters that a family multiplies and adds to."""
    targets = lambda kind: {term.target for term in family.bind(tuple(specs)).terms or () if term.kind == kind}
    return targets("shift") & targets("diagonal")


def flipped(specs: Sequence[ArraySpec], flip: Flip, about: Mapping[str, Fraction]) -> Symmetry:
    """Signs on the chosen places, in index form; the element has the other axes first."""
    lines = _signed(specs, flip.chosen, about, flip.each)
    group = SignFlip(flip.axis, " ".join(flip.each) or None)
    return Symmetry.of(f"flip {flip.axis}", group, tuple(specs), lines)


def _signed(
    specs: Sequence[ArraySpec], chosen: Sequence[Place], about: Mapping[str, Fraction], each: Sequence[str] = ()
) -> dict[str, Entry]:
    lines = {}
    for name in dict.fromkeys(name for name, _ in chosen):
        line = ActionLine(next(s for s in specs if s.name == name), False, about)
        copies = [line.indices[line.spec.factors.index(axis)] for axis in each]
        signs = [line.element([*copies, line.indices[k]]) for n, k in chosen if n == name]
        lines |= [line.becomes(line.back(functools.reduce(operator.mul, [*signs, line.old])))]
    return lines


def with_offset(specs: Sequence[ArraySpec], axis: str, flips: Flips, check: MoveCheck) -> Iterator[Symmetry]:
    """Flips that need another parameter to take up a constant: s(-z) = c - s(z)."""
    for target, source in itertools.permutations(specs, 2):
        own, other = target.factors, source.factors
        if other.count(axis) != 1 or axis in own or sorted(map(str, own)) != sorted(str(f) for f in other if f != axis):
            continue
        if len(set(own)) != len(own):
            continue
        spot, left = other.index(axis), [f for f in other if f != axis]
        order = [left.index(f) for f in own]
        for c in (1, -1, 2):
            both = flips.shifted((source.name, spot), (target.name, source.name, spot, order, float(c)))
            # an offset is new only where the same flip without it is not a symmetry
            if both is None or check.same(flipping(both, check.centres)):
                continue
            each = _apart(specs, axis, both, (target.name, source.name, spot, order, float(c)), check)
            line = ActionLine(target, False, check.centres)
            inner = [line.indices[own.index(f)] if f in own else line.index(axis, f"{axis}_") for f in other]
            copies = [line.indices[own.index(f)] for f in each]
            sign = number(1) - line.element([*copies, inner[spot]])
            half = number(Fraction(c, 2))
            taken = half.said(f"({half.text.strip('()')})") * line.array(source.name, inner) * sign.bracketed()
            carried = line.becomes(line.named + line.summed(taken, [inner[spot]]))
            lines = dict([*_signed(specs, both, check.centres, each).items(), carried])
            yield Symmetry.of(f"flip {axis}", SignFlip(axis, " ".join(each) or None), tuple(specs), lines)
            return


def _apart(
    specs: Sequence[ArraySpec], axis: str, chosen: Sequence[Place], offset: Offset, check: MoveCheck
) -> list[str]:
    """The axes for each of whose indices a flip with this offset may be another."""
    moved = {offset[0], *(name for name, _ in chosen)}
    factors = {s.name: s.factors for s in specs if s.name in moved}
    shared = [f for f in factors[offset[0]] if isinstance(f, str) and f != axis]
    apart: list[str] = []
    for each in [f for f in shared if all(own.count(f) == 1 for own in factors.values())]:
        if check.same(flipping(chosen, check.centres, offset, factors, [*apart, each])):
            apart.append(each)
    return apart
