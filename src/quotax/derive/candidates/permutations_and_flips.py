"""Permutations and sign flips: proposed by running the model at permuted and flipped parameters, returned when proved.

Where a reordering or a flip may act is a set of places (parameter, axis); the smallest sets that leave the outputs
alone are proposed. What a continuous family on the same places contains is not repeated. The flips of an axis form a
vector space over GF(2), and of them generators are proposed: none is a symmetric difference of others.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from quotax.artifacts import ArraySpec, Certificate, Model, Trace
from quotax.derive.candidates.continuous import FoundFamilies
from quotax.derive.candidates.sign_subspaces import (
    MOST,
    SignSpace,
    Values,
    close,
    invariant,
    matches,
    small_generators,
    small_members,
    sums,
)
from quotax.derive.candidates.templates import Solution, Turn
from quotax.derive.candidates.wording import distinct, symmetries
from quotax.derive.points.float_model import REDRAWN, TOGETHER, FloatModel
from quotax.derive.points.where_defined import ANYWHERE, Places
from quotax.interpret.tracing.centres import centres
from quotax.presenting.telling import Budget
from quotax.symmetry import Entry, O, Permutation, SignFlip, Symmetry
from quotax.symmetry.language.phrases import ActionLine, number

Place = tuple[str, int]

Move = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]

Offset = tuple[str, str, int, Sequence[int], float]
"""(target, source, the source's place, the order of its other axes, c): c times a slice is added to the target."""

Case = tuple[dict[str, np.ndarray], list[tuple[list[np.ndarray], np.ndarray]]]
"""A point, and inputs with the outputs there."""

Covered = Callable[[set[Place]], bool]
"""Whether continuous families already move exactly these places."""

_TOGETHER = 2
"""Flips that are free for every index of so many other axes at most are looked for."""

_SUBSETS = 2048
"""At most this many sets of places are tried for one axis, smallest first."""


def discrete(
    model: Model,
    sizes: Mapping[str, int],
    families: Sequence[Symmetry],
    prove: Callable[[Symmetry], Certificate],
    progress: Callable[[str], None] = lambda line: None,
    budget: Budget | None = None,
) -> FoundFamilies:
    """Permutations and sign flips that the continuous families do not contain: proved ones, and undecided ones."""
    trace = model.trace(sizes)
    check = _Checker(trace)
    found = FoundFamilies()
    names, budget, proved = [s.name for s in families], budget or Budget(), list[Symmetry]()
    for symmetry in _candidates(model.params, sizes, families, check, budget, proved):
        named = distinct(symmetry, names)
        if not budget.allows(f"a proof of {named}"):
            break
        progress(f"proving {named}")
        if found.take(named, prove(named)):
            names.append(named.name)
            proved.append(symmetry)
    return found


class _Checker:
    """Runs the model at three points before and after a change of the parameters."""

    def __init__(self, trace: Trace) -> None:
        self.running = running = FloatModel(trace)
        self.centres = centres(trace)
        self.shapes = {s.name: s.split_shape(trace.sizes) for s in trace.params}
        rng = np.random.default_rng(5)
        places = running.valued or ANYWHERE
        self.cases: list[Case] = []
        for _ in range(3):
            self.cases.append(self._drawn(rng, places))
            # where all units of some layer are dead, everything would look inert
            for _ in range(REDRAWN):
                (_, first), (_, second) = self.cases[-1][1]
                if not close(first, second):
                    break
                self.cases[-1] = self._drawn(rng, places)

    def _drawn(self, rng: np.random.Generator, places: Places) -> Case:
        """A point, and the outputs there at two inputs."""
        point = {n: places.drawn(n, rng.normal(size=shape)) for n, shape in self.shapes.items()}
        inputs = [self.running.inputs(rng, places) for _ in range(2)]
        return point, [(i, self.running(self.running.named(point), i)) for i in inputs]

    def inert(self, name: str) -> bool:
        """Whether a parameter changes nothing at all: entries move differently, or a common shift would look inert."""
        step = np.random.default_rng(7).uniform(0.1, 2, size=self.shapes[name])
        return self.same(lambda point: point | {name: point[name] * step})

    def same(self, move: Move) -> bool:
        """Whether the outputs stay (as far as float64 can tell)."""
        for point, outputs in self.cases:
            moved = self.running.named(point | move(dict(point)))
            for inputs, before in outputs:
                if not close(before, self.running(moved, inputs)):
                    return False
        return True

    def passing(self, moves: Sequence[Move]) -> list[bool]:
        """Which of these moves leave the outputs at the first point alone: the others need no further look."""
        point, outputs = self.cases[0]
        inputs, before = outputs[0]
        moved = [self.running.named(point | move(dict(point))) for move in moves]
        return [close(before, after) for after in self.running.at_many(moved, inputs)]

    def values(self, moved: Callable[[np.ndarray, Sequence[int]], np.ndarray]) -> Iterator[Values]:
        """For every point and input: the outputs after what sets of places stand for; `moved` is of flat points."""
        for point, outputs in self.cases:
            theta = self.running.named(point)
            for inputs, _ in outputs:
                yield lambda sets, t=theta, x=inputs: self.running.at_many(moved(t, sets), x)


def _candidates(
    specs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    families: Sequence[Symmetry],
    check: _Checker,
    budget: Budget,
    proved: Sequence[Symmetry],
) -> Iterator[Symmetry]:
    """Proposals, one at a time; of those made so far `proved` has the ones that were proved."""
    axes = tuple(dict.fromkeys(name for spec in specs for name in spec.axis_names))
    inert = {s.name for s in specs if check.inert(s.name)}
    places = {
        axis: [(s.name, k) for s in specs if s.name not in inert for k, f in enumerate(s.factors) if f == axis]
        for axis in axes
    }
    axes = [axis for axis in axes if budget.allows(f"permutations and flips of {axis}")]
    flips = {axis: _Flips(specs, places[axis], axis, families, check) for axis in axes}
    joint = _joint(specs, list(flips.values())[::-1])
    held: list[_Flip] = []
    for axis in axes:
        covered = _permuted(specs, families, axis)
        n = sizes[axis]
        if n > 1:
            cycle = np.roll(np.arange(n), 1)
            swap = np.arange(n)
            swap[:2] = swap[1::-1]
            orders = [cycle, swap]
            passing = lambda sets, o=orders: check.passing([_permuting(c, o[0]) for c in sets])
            holds = lambda c, o=orders: all(check.same(_permuting(c, p)) for p in o)
            for chosen in _minimal(places[axis], covered, holds, passing):
                each, turns = _copies(specs, chosen, cycle, check)
                template = symmetries(Solution(axis, each, O(axis, each), turns), specs)[0]
                yield template.renamed(f"permute {axis}", Permutation(axis, each))
        own = [one for one in joint if axis in one.axes]
        joint = [one for one in joint if one not in own]
        for one in [*own, flips[axis]]:
            for flip in one.generators(held):
                yield (symmetry := _flipped(specs, flip, check.centres))
                if symmetry in proved:
                    held.append(flip)
        yield from _with_offset(specs, axis, flips[axis], check)


class _Flip(NamedTuple):
    """A sign for each index of an axis, of its own for each index of others that the same parameters have once."""

    axis: str
    each: tuple[str, ...]
    chosen: tuple[Place, ...]

    @property
    def axes(self) -> set[str]:
        return {self.axis, *self.each}

    def along(self, specs: Sequence[ArraySpec], axis: str) -> set[Place]:
        """The places at which it flips an index of one of its axes, where the signs depend on that alone."""
        if axis == self.axis:
            return set(self.chosen)
        times = Counter(name for name, _ in self.chosen)
        return {(s.name, s.factors.index(axis)) for s in specs if times[s.name] % 2}


def _joint(specs: Sequence[ArraySpec], single: Sequence[_Flips]) -> list[_Flips]:
    """Flips of an axis that are free for every index of others as well: most of such others first."""
    found: dict[frozenset[str], _Flips] = {}
    level = [flips for flips in single if flips.basis]
    for _ in range(_TOGETHER):
        above: list[_Flips] = []
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


class _Flips:
    """Which flips of one axis leave the outputs alone: sets of places as numbers of so many bits."""

    def __init__(
        self,
        specs: Sequence[ArraySpec],
        places: list[Place],
        axis: str,
        families: Sequence[Symmetry],
        check: _Checker,
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
        return {self.axis, *self.each}

    def for_each(self, axis: str) -> _Flips:
        """Those of them that may be flipped for each index of another axis apart."""
        sets = [self.set_of(one) for one in self.every.rows]
        once = {s.name for s in self.specs if s.factors.count(axis) == 1}
        places = [place for place in self.places if place[0] in once]
        bits = {place: 1 << k for k, place in enumerate(places)}
        units = [sum(bits[place] for place in one) for one in sets if set(one) <= set(places)]
        return _Flips(self.specs, places, self.axis, self.families, self.check, (*self.each, axis), units)

    def moved(self, theta: np.ndarray, sets: Sequence[int], offset: Offset | None = None) -> np.ndarray:
        """A flat point with the first index along these places flipped, a row for each set: `_flipping` of many."""
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
        return sum(self.bits.get(place, 0) for place in set(chosen))

    def set_of(self, one: int) -> tuple[Place, ...]:
        return tuple(place for place, bit in self.bits.items() if one & bit)

    def smallest(self) -> Iterator[int]:
        """Sets by their size, as far as they are tried one by one, and that of all places."""
        yield 0
        for chosen in itertools.islice(_subsets(self.places), _SUBSETS):
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
            if self.check.same(_flipping(self.set_of(one), self.check.centres, offset)):
                return self.set_of(one)
        return None

    def generators(self, held: Sequence[_Flip]) -> Iterator[_Flip]:
        """The smallest sets of places that generate all flips beside those of continuous families, and those `held`.

        Flips of parameters as they are come before those of `w + r`.
        """
        centred = self.bit_set(place for place in self.places if place[0] in self.check.centres)
        within = [self.bit_set(one.along(self.specs, self.axis)) for one in held if self.axes <= one.axes]
        factors = {s.name: s.factors for s in self.specs}
        for one in small_generators(self.basis, SignSpace([*self.known.rows, *within]).rows, centred):
            chosen = self.set_of(one)
            if self.check.same(_flipping(chosen, self.check.centres, None, factors, self.each)):
                yield _Flip(self.axis, self.each, chosen)


def _remembered(value: Values) -> Values:
    """The same values, of each set once."""
    known: dict[int, np.ndarray] = {}

    def values(sets: Sequence[int]) -> list[np.ndarray]:
        new = [one for one in dict.fromkeys(sets) if one not in known]
        known.update(zip(new, value(new), strict=True))
        return [known[one] for one in sets]

    return values


def _minimal(
    places: list[Place],
    covered: Covered,
    holds: Callable[[tuple[Place, ...]], bool],
    passing: Callable[[Sequence[tuple[Place, ...]]], list[bool]],
) -> Iterator[tuple[Place, ...]]:
    """Sets of places for which `holds`, smallest first, none of them covered or containing one found before.

    `passing` says of many sets at once which of them may hold.
    """
    taken: list[set[Place]] = []
    tried = 0
    within = lambda chosen: any(other <= set(chosen) for other in taken)
    new = (c for c in itertools.islice(_subsets(places), 20 * _SUBSETS) if not covered(set(c)) and not within(c))
    while tried <= _SUBSETS and (some := list(itertools.islice(new, 2 * TOGETHER))):
        for chosen, may in zip(some, passing(some), strict=True):
            if within(chosen):
                continue
            tried += 1
            if tried > _SUBSETS:
                break
            if may and holds(chosen):
                taken.append(set(chosen))
                yield chosen
    everywhere = tuple(places)
    if tried > _SUBSETS and not taken and not covered(set(everywhere)) and holds(everywhere):
        yield everywhere


def _subsets(places: list[Place]) -> Iterator[tuple[Place, ...]]:
    """All sets of places, smallest first; those within one branch of a nested parameter tree come before the others."""
    branches = dict.fromkeys(name.rpartition("/")[0] for name, _ in places)
    for branch in branches if len(branches) > 1 else ():
        own = [place for place in places if place[0].rpartition("/")[0] == branch]
        for size in range(1, min(len(own), 8) + 1):
            yield from itertools.islice(itertools.combinations(own, size), 64)
    for size in range(1, len(places) + 1):
        yield from itertools.combinations(places, size)


def _places(specs: Sequence[ArraySpec], family: Symmetry, axis: str, odd: bool) -> set[Place]:
    """Where a family acts on an axis; `odd`: where a sign in it is seen."""
    action = family.bind(tuple(specs))
    seen = {term.target for term in action.terms or () if term.kind == "diagonal" and term.coefficient % 2 == 1}
    moved = action.moved if not odd or family.group.layout == "matrix" else seen
    return {(s.name, k) for s in specs if s.name in moved for k, f in enumerate(s.factors) if f == axis}


def _permuted(specs: Sequence[ArraySpec], families: Sequence[Symmetry], axis: str) -> Covered:
    """Whether places are a union of those where continuous families on this axis contain its permutations."""
    within = lambda group: group.continuous and any(smaller.reorders for smaller in group.subgroups)
    own = [_places(specs, f, axis, False) for f in families if f.group.axis == axis and within(f.group)]
    return lambda chosen: chosen == set().union(*(places for places in own if places <= chosen))


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
            own.append(_places(specs, family, axis, True))
    return own


def _added(specs: Sequence[ArraySpec], family: Symmetry) -> set[str]:
    """The parameters that a family multiplies and adds to."""
    targets = lambda kind: {term.target for term in family.bind(tuple(specs)).terms or () if term.kind == kind}
    return targets("shift") & targets("diagonal")


def _copies(
    specs: Sequence[ArraySpec], chosen: Sequence[Place], order: np.ndarray, check: _Checker
) -> tuple[str | None, tuple[tuple[Turn, Fraction], ...]]:
    """The axes for each of whose indices the order of these places may be another, and the turns."""
    moved = {name for name, _ in chosen}
    factors = {s.name: s.factors for s in specs if s.name in moved}
    axis = factors[chosen[0][0]][chosen[0][1]]
    shared = {f for f in set.intersection(*map(set, factors.values())) if isinstance(f, str) and f != axis}
    once = [f for f in sorted(shared) if all(own.count(f) == 1 for own in factors.values())]
    at = lambda every: {name: tuple(map(own.index, every)) for name, own in factors.items()}
    apart: list[str] = []
    for each in once:
        if check.same(_permuting(chosen, order, at([*apart, each]))):
            apart.append(each)
    turns = tuple((Turn(name, k, at(apart)[name]), Fraction(1)) for name, k in chosen)
    return " ".join(apart) or None, turns


def _permuting(chosen: Sequence[Place], order: np.ndarray, at: Mapping[str, tuple[int, ...]] | None = None) -> Move:
    """Bring the chosen places into an order; with `at`, only at the first index along those axes of each parameter."""

    def move(point: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for name, axis in chosen:
            moved = np.take(point[name], order, axis=axis)
            if at is not None:
                first = (np.indices(moved.shape)[list(at[name])] == 0).all(axis=0)
                moved = np.where(first, moved, point[name])
            point[name] = moved
        return point

    return move


def _flipping(
    chosen: Sequence[Place],
    about: Mapping[str, Fraction],
    offset: Offset | None = None,
    factors: Mapping[str, Sequence[Any]] | None = None,
    each: Sequence[str] = (),
) -> Move:
    """Flip the first index along the chosen places; the offset adds a multiple of a parameter's slice to another.

    With `each` the first along those axes alone.
    """

    def first(name: str, array: np.ndarray) -> np.ndarray:
        own = factors[name] if factors else ()
        return np.all([np.indices(array.shape)[own.index(axis)] == 0 for axis in each], axis=0)

    def move(point: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        before = dict(point)
        for name, axis in chosen:
            sign = np.ones(point[name].shape[axis])
            sign[0] = -1
            sign, r = sign.reshape([-1 if k == axis else 1 for k in range(point[name].ndim)]), float(about.get(name, 0))
            sign = np.where(first(name, point[name]), sign, 1.0) if each else sign
            point[name] = (point[name] + r) * sign - r
        if offset is not None:
            target, source, axis, order, c = offset
            piece = np.take(before[source] + float(about.get(source, 0)), 0, axis=axis).transpose(order)
            point[target] = point[target] + c * (np.where(first(target, piece), piece, 0.0) if each else piece)
        return point

    return move


def _flipped(specs: Sequence[ArraySpec], flip: _Flip, about: Mapping[str, Fraction]) -> Symmetry:
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


def _with_offset(specs: Sequence[ArraySpec], axis: str, flips: _Flips, check: _Checker) -> Iterator[Symmetry]:
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
            if both is None or check.same(_flipping(both, check.centres)):
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
    specs: Sequence[ArraySpec], axis: str, chosen: Sequence[Place], offset: Offset, check: _Checker
) -> list[str]:
    """The axes for each of whose indices a flip with this offset may be another."""
    moved = {offset[0], *(name for name, _ in chosen)}
    factors = {s.name: s.factors for s in specs if s.name in moved}
    shared = [f for f in factors[offset[0]] if isinstance(f, str) and f != axis]
    apart: list[str] = []
    for each in [f for f in shared if all(own.count(f) == 1 for own in factors.values())]:
        if check.same(_flipping(chosen, check.centres, offset, factors, [*apart, each])):
            apart.append(each)
    return apart
