"""Permutations and sign flips: proposed by running the model at permuted and flipped parameters, returned when proved.

Where a reordering or a flip may act is a set of places (parameter, axis); the smallest sets that leave the outputs
alone are proposed. What a continuous family on the same places contains is not repeated. The flips of an axis form a
vector space over GF(2), and of them generators are proposed: none is a symmetric difference of others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from quotax.artifacts import ArraySpec, Certificate, Model
from quotax.derive.candidates.continuous import FoundFamilies
from quotax.derive.candidates.flips import Flip, Flips, flipped, joint_flips, with_offset
from quotax.derive.candidates.moves import SUBSETS, MoveCheck, Place, acted_places, permuting, subsets
from quotax.derive.candidates.templates import Solution, Turn
from quotax.derive.candidates.wording import distinct, symmetries
from quotax.derive.points.float_model import TOGETHER
from quotax.presenting.telling import Budget
from quotax.symmetry import O, Permutation, Symmetry

Covered = Callable[[set[Place]], bool]
"""Whether continuous families already move exactly these places."""


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
    check = MoveCheck(trace)
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


def _candidates(
    specs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    families: Sequence[Symmetry],
    check: MoveCheck,
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
    flips = {axis: Flips(specs, places[axis], axis, families, check) for axis in axes}
    joint = joint_flips(specs, list(flips.values())[::-1])
    held: list[Flip] = []
    for axis in axes:
        covered = _permuted(specs, families, axis)
        n = sizes[axis]
        if n > 1:
            cycle = np.roll(np.arange(n), 1)
            swap = np.arange(n)
            swap[:2] = swap[1::-1]
            orders = [cycle, swap]
            passing = lambda sets, o=orders: check.passing([permuting(c, o[0]) for c in sets])
            holds = lambda c, o=orders: all(check.same(permuting(c, p)) for p in o)
            for chosen in _minimal(places[axis], covered, holds, passing):
                each, turns = _copies(specs, chosen, cycle, check)
                template = symmetries(Solution(axis, each, O(axis, each), turns), specs)[0]
                yield template.renamed(f"permute {axis}", Permutation(axis, each))
        own = [one for one in joint if axis in one.axes]
        joint = [one for one in joint if one not in own]
        for one in [*own, flips[axis]]:
            for flip in one.generators(held):
                yield (symmetry := flipped(specs, flip, check.centres))
                if symmetry in proved:
                    held.append(flip)
        yield from with_offset(specs, axis, flips[axis], check)


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
    new = (c for c in itertools.islice(subsets(places), 20 * SUBSETS) if not covered(set(c)) and not within(c))
    while tried <= SUBSETS and (some := list(itertools.islice(new, 2 * TOGETHER))):
        for chosen, may in zip(some, passing(some), strict=True):
            if within(chosen):
                continue
            tried += 1
            if tried > SUBSETS:
                break
            if may and holds(chosen):
                taken.append(set(chosen))
                yield chosen
    everywhere = tuple(places)
    if tried > SUBSETS and not taken and not covered(set(everywhere)) and holds(everywhere):
        yield everywhere


def _permuted(specs: Sequence[ArraySpec], families: Sequence[Symmetry], axis: str) -> Covered:
    """Whether places are a union of those where continuous families on this axis contain its permutations."""
    within = lambda group: group.continuous and any(smaller.reorders for smaller in group.subgroups)
    own = [acted_places(specs, f, axis, False) for f in families if f.group.axis == axis and within(f.group)]
    return lambda chosen: chosen == set().union(*(places for places in own if places <= chosen))


def _copies(
    specs: Sequence[ArraySpec], chosen: Sequence[Place], order: np.ndarray, check: MoveCheck
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
        if check.same(permuting(chosen, order, at([*apart, each]))):
            apart.append(each)
    turns = tuple((Turn(name, k, at(apart)[name]), Fraction(1)) for name, k in chosen)
    return " ".join(apart) or None, turns
