r"""Templates: for one kind of group on one axis, every way in which it may act, and the ways that the model allows.

A template is linear: the field is $\sum_t \alpha_t\, F_t(\xi)$ with one unknown number per place where the group may
act, and the same numbers for every $\xi$ in the algebra, at every size. What the determining equations leave of the
unknowns is the answer; names and architectures play no part.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.derive.sampling import modular
from quotax.derive.sampling.moments import Moments
from quotax.interpret.jets.residues import PRIME
from quotax.symmetry import GL, ComplexScaling, Group, O

MATRICES: tuple[Callable[[str, str | None], Group], ...] = (
    GL,
    lambda axis, each: ComplexScaling(axis, each, "adjacent"),
    lambda axis, each: ComplexScaling(axis, each, "halves"),
    O,
)
"""The groups of matrices that are looked for on an axis, from the largest to the smallest."""


@dataclass(frozen=True)
class Turn:
    """A matrix (or its transpose) on one axis of a parameter, seen through a gain if one is named."""

    param: str
    axis: int
    each: int | None
    transposed: bool = False
    gain: str | None = None


@dataclass(frozen=True)
class Scale:
    """Every index along `places` scaled by its own number."""

    param: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class Mix:
    """Another parameter of the same axes added, scaled along `places`."""

    param: str
    source: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class Contract:
    """`source` contracted with the vector along `places` is added; `order` are the axes of `param` in `source`."""

    param: str
    source: str
    places: tuple[int, ...]
    order: tuple[int, ...]


@dataclass(frozen=True)
class Shift:
    """The vector along `places` added."""

    param: str
    places: tuple[int, ...]


Term = Turn | Scale | Mix | Contract | Shift


@dataclass(frozen=True)
class Solution:
    """How a group acts: the terms with their numbers."""

    axis: str | None
    each: str | None
    group: Group | None
    """The group of matrices that acts; None where it is a vector."""
    terms: tuple[tuple[Term, Fraction], ...]


def matrix_terms(specs: Sequence[ArraySpec], group: Group, gains: bool) -> list[Term]:
    """Every place where a matrix on the group's axis may act."""
    axis, each = group.axis, group.each
    vectors = [s.name for s in specs if s.factors == (axis,)] if gains else []
    terms: list[Term] = []
    for spec in specs:
        own = spec.factors
        if each is not None and own.count(each) != 1:
            continue
        for place, factor in enumerate(own):
            if factor != axis:
                continue
            batch = own.index(each) if each is not None else None
            for transposed in (False,) if group.orthogonal else (False, True):
                for gain in (None, *(v for v in vectors if v != spec.name)):
                    terms.append(Turn(spec.name, place, batch, transposed, gain))
    return terms


def vector_terms(specs: Sequence[ArraySpec], axes: tuple[str, ...]) -> list[Term]:
    """Every place where a vector over `axes` may act."""
    own = {spec.name: spec.factors for spec in specs}
    places = {name: _placings(f, axes) for name, f in own.items()}
    terms: list[Term] = [Scale(name, at) for name, found in places.items() for at in found]
    for target, source in itertools.permutations(own, 2):
        if own[target] == own[source] and set(own[target]) <= set(axes):
            terms += [Mix(target, source, at) for at in places[target]]
    for target, source in itertools.permutations(own, 2):
        for at in places[source] if axes else ():
            left = [k for k in range(len(own[source])) if k not in at]
            remaining = [own[source][k] for k in left]
            if sorted(map(str, remaining)) == sorted(map(str, own[target])) and len(set(remaining)) == len(remaining):
                order = tuple(left[remaining.index(f)] for f in own[target])
                terms.append(Contract(target, source, at, order))
    terms += [Shift(name, at) for name, found in places.items() for at in found]
    return terms


def _placings(own: tuple, axes: tuple[str, ...]) -> list[tuple[int, ...]]:
    spots = [[k for k, f in enumerate(own) if f == axis] for axis in axes]
    return [at for at in itertools.product(*spots) if len(set(at)) == len(at)]


def solve_matrix(
    data: Sequence[Moments], specs: Sequence[ArraySpec], group: Group, gains: bool = False
) -> list[Solution]:
    """The ways in which the matrices of this group act without changing the model."""
    terms = matrix_terms(specs, group, gains)
    if not terms:
        return []
    blocks = []
    for moments in data:
        columns, cache = [], {}
        for term in terms:
            assert isinstance(term, Turn)
            key = (term.param, term.axis, term.each, term.gain)
            if key not in cache:
                cache[key] = moments.matrix(*key)
            k = cache[key]
            # entry (i, j) of K belongs to C_ij
            columns.append(group.pairing(np.swapaxes(k, -1, -2) if term.transposed else k) % PRIME)
        blocks.append(np.stack(columns, axis=-1).reshape(-1, len(terms)))
    return _solutions(blocks, terms, group.axis, group.each, group)


def solve_vector(data: Sequence[Moments], specs: Sequence[ArraySpec], axes: tuple[str, ...]) -> list[Solution]:
    """The ways in which a vector over `axes` acts by scaling, shifting and mixing without changing the model."""
    terms = vector_terms(specs, axes)
    if not terms:
        return []
    blocks = [np.stack([_column(m, t) for t in terms], axis=-1).reshape(-1, len(terms)) for m in data]
    return _solutions(blocks, terms, axes[-1] if axes else None, axes[0] if len(axes) == 2 else None, None)


def _column(moments: Moments, term: Term) -> np.ndarray:
    match term:
        case Scale(param, places):
            return moments.scale(param, places)
        case Mix(param, source, places):
            return moments.mixed(param, source, places)
        case Contract(param, source, places, order):
            return moments.contracted(param, source, places, order)
        case Shift(param, places):
            return moments.shift(param, places)
    raise TypeError(term)


def _solutions(
    blocks: list[np.ndarray], terms: list[Term], axis: str | None, each: str | None, group: Group | None
) -> list[Solution]:
    found = []
    for row in modular.nullspace(np.concatenate([modular.squeezed(b) for b in blocks])):
        numbers = modular.rationals(row)
        if numbers is not None:
            chosen = tuple((t, a) for t, a in zip(terms, numbers, strict=True) if a)
            found.append(Solution(axis, each, group, chosen))
    return found
