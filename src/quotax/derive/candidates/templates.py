r"""Templates: for one kind of group on one axis, every way in which it may act, and the ways that the model allows.

A template is linear: the field is $\sum_t \alpha_t\, F_t(\xi)$ with one unknown number per place where the group may
act, and the same numbers for every $\xi$ in the algebra, at every size. What the determining equations leave of the
unknowns is the answer; names and architectures play no part.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.derive.candidates.gain_products import Product, Products, gains_of, narrow, products, within
from quotax.derive.sampling import modular
from quotax.derive.sampling.moments import Moments
from quotax.interpret.jets.residues import PRIME
from quotax.symmetry import GL, ComplexScaling, FixingCentred, Group, O, OFixingOnes, PairScaling

MATRICES: tuple[Callable[[str, str | None], Group], ...] = (
    GL,
    lambda axis, each: ComplexScaling(axis, each, "adjacent"),
    lambda axis, each: ComplexScaling(axis, each, "halves"),
    O,
)
"""The groups of matrices that are looked for on an axis, from the largest to the smallest."""

KEEPING: tuple[Callable[[str, str | None], Group], ...] = (OFixingOnes, FixingCentred)
"""Groups that are looked for after the vectors: their elements keep a sum along the axis, or what has none."""

THROUGH_GAINS: tuple[Callable[[str, str | None], Group], ...] = (O, *KEEPING)
"""Groups whose elements are also looked for between a gain and one over it."""

PAIRED: tuple[Callable[[str, str | None], Group], ...] = (
    lambda axis, each: PairScaling(axis, each, "adjacent"),
    lambda axis, each: PairScaling(axis, each, "halves"),
)
"""Groups of factors that several indices share: looked for after the factors of single indices."""


P = TypeVar("P", bound="Part")


class Part:
    """A place where a group may act, and how."""

    @property
    def depends(self) -> bool:
        """Whether other parameters say how far it moves: then a field may be a multiple of another at every point."""
        return False


@dataclass(frozen=True)
class Turn(Part):
    """A matrix (or its transpose) on one axis of a parameter, seen through a gain if one is named."""

    param: str
    axis: int
    each: tuple[int, ...]
    transposed: bool = False
    gain: Product = ()

    @property
    def depends(self) -> bool:
        """By the gain."""
        return bool(self.gain)


@dataclass(frozen=True)
class Scale(Part):
    """Every index along `places` scaled by its own number."""

    param: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class Mix(Part):
    """Another parameter of the same axes added, scaled along `places`."""

    param: str
    source: str
    places: tuple[int, ...]


@dataclass(frozen=True)
class Contract(Part):
    """`source` contracted with the vector along `places` is added; `order` are the axes of `param` in `source`.

    An axis of the vector that `param` has too is not summed: there is a contraction for each of its indices. With a
    gain, along the axis that is summed, it is the source times the gain that is contracted.
    """

    param: str
    source: str
    places: tuple[int, ...]
    order: tuple[int, ...]
    gain: Product = ()

    @property
    def depends(self) -> bool:
        """By its source."""
        return True


@dataclass(frozen=True)
class Through(Part):
    """What `source` makes of the vector is added: some of its axes meet the source, `param` has the others.

    `places` are those of its axes in `source`, or `~k` for axis k of `param`; `order` are the axes of `param` in
    `source`, or `~k` for axis k of the vector. A skip takes up what was added to all that a maximum chooses from.
    """

    param: str
    source: str
    places: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def depends(self) -> bool:
        """By its source."""
        return True


@dataclass(frozen=True)
class Shift(Part):
    """The vector along `places` added; over a gain along another axis, if one is named.

    What a norm that subtracts the mean hands over, `n * gain` with a sum of zero, does not see `1 / gain`.
    """

    param: str
    places: tuple[int, ...]
    gain: Product = ()
    across: int = 0

    @property
    def depends(self) -> bool:
        """By the gain."""
        return bool(self.gain)


@dataclass(frozen=True)
class Weigh(Part):
    """The vector along `places` added times one number: the sum of `source`, or of `source` over a gain.

    It is summed along one axis, and there is a number for each index of its others, which `param` has too.
    """

    param: str
    places: tuple[int, ...]
    source: str
    along: int = 0
    gain: Product = ()

    @property
    def depends(self) -> bool:
        """By the number."""
        return True


@dataclass(frozen=True)
class TakenUp(Part):
    """What a map makes of the vector is added, times the sum of a bias over a gain.

    Values of an attention may have no bias: what a norm's bias makes of them is taken up behind the next map.
    """

    param: str
    map: Contract
    bias: str
    gain: Product

    @property
    def depends(self) -> bool:
        """By the map."""
        return True


@dataclass(frozen=True)
class Solution:
    """How a group acts: the terms with their numbers."""

    axis: str | None
    each: str | None
    group: Group | None
    """The group that acts, of matrices or of shared factors; None where it is a vector."""
    terms: tuple[tuple[Part, Fraction], ...]

    @property
    def depends(self) -> bool:
        """Whether it is new only where it moves a point in a direction that nothing else moves it in."""
        keeps = self.group is not None and (self.group.moved(2) is not None or not self.group.selfadjoint)
        return keeps or any(term.depends for term, _ in self.terms)


def matrix_terms(specs: Sequence[ArraySpec], group: Group, gains: Products | None) -> list[Turn]:
    """Every place where a matrix on the group's axis may act; with gains, seen through each of them as well."""
    axis, copies = group.axis, group.each_axes
    terms: list[Turn] = []
    for spec in specs:
        own = spec.factors
        if any(own.count(each) != 1 for each in copies):
            continue
        for place, factor in enumerate(own):
            if factor != axis:
                continue
            batch = tuple(map(own.index, copies))
            through: dict[Product, None] = {(): None}
            for name in gains_of(specs, spec, place) if gains is not None else ():
                through[((name, 1),)] = None
                if set(next(s for s in specs if s.name == name).factors) == set(own):
                    # what is added to `n * gain` turns as `1 / gain` does, and that is a gain's own shape
                    through[((name, -1),)] = None
            through |= dict.fromkeys((gains or {}).get((spec.name, place), ()))
            for transposed in (False,) if group.orthogonal else (False, True):
                terms += [Turn(spec.name, place, batch, transposed, gain) for gain in through]
    return terms


def vector_terms(specs: Sequence[ArraySpec], axes: tuple[str, ...], gains: Products | None = None) -> list[Part]:
    """Every place where a vector over `axes` may act."""
    own = {spec.name: spec.factors for spec in specs}
    places = {name: placings(f, axes) for name, f in own.items()}
    terms: list[Part] = [*scale_terms(specs, axes)]
    for target, source in itertools.permutations(own, 2):
        if own[target] == own[source] and set(own[target]) <= set(axes):
            terms += [Mix(target, source, at) for at in places[target]]
    for target, source in itertools.permutations(own, 2):
        for at in places[source] if axes else ():
            kept = [k for k, f in enumerate(own[source]) if k not in at or f in own[target]]
            remaining = [own[source][k] for k in kept]
            same = sorted(map(str, remaining)) == sorted(map(str, own[target])) and not set(at) <= set(kept)
            if same and len(set(remaining)) == len(remaining):
                order = tuple(kept[remaining.index(f)] for f in own[target])
                summed = [k for k in at if k not in kept]
                seen = (gains or {}).get((source, summed[0]), ()) if len(summed) == 1 else ()
                through = dict.fromkeys(part for gain in seen for part in within(gain))
                terms += [Contract(target, source, at, order, gain) for gain in ((), *through)]
    terms += _through_terms(own, axes)
    terms += [Shift(name, at) for name, found in places.items() for at in found]
    return terms


def _through_terms(own: dict[str, tuple], axes: tuple[str, ...]) -> Iterator[Through]:
    """Every parameter that may take up what another makes of a vector with axes of both."""
    for target, source in itertools.permutations(own, 2) if len(axes) > 1 else ():
        into, out = own[target], own[source]
        met = [axis for axis in axes if axis in out]
        carried = [axis for axis in axes if axis not in out]
        kept = [f for f in out if f not in met]
        once = len(set(into)) == len(into) and len(set(out)) == len(out)
        if met and carried and once and sorted(map(str, into)) == sorted(map(str, (*kept, *carried))):
            places = tuple(out.index(f) if f in out else ~into.index(f) for f in axes)
            yield Through(target, source, places, tuple(out.index(f) if f in kept else ~axes.index(f) for f in into))


def scale_terms(specs: Sequence[ArraySpec], axes: tuple[str, ...]) -> list[Scale]:
    """Every place where a vector over `axes` may scale."""
    return [Scale(spec.name, at) for spec in specs for at in placings(spec.factors, axes)]


def unseen_terms(specs: Sequence[ArraySpec], axes: tuple[str, ...], gains: Products) -> list[Shift]:
    """Places where a vector over `axes` may be added to what reads a norm, `W + q (1 / gain)^T`, and to biases."""
    beside = _beside(specs, axes)
    terms = []
    for spec in specs:
        for at in placings(spec.factors, axes):
            terms.append(Shift(spec.name, at))
            for k, factor in enumerate(spec.factors):
                if k not in at and factor in beside:
                    through: list[Product] = [((name, 1),) for name in gains_of(specs, spec, k)]
                    through += gains.get((spec.name, k), ())
                    terms += [Shift(spec.name, at, gain, k) for gain in through]
    return terms


def weighed_terms(
    into: Sequence[tuple[str, tuple[int, ...]]],
    specs: Sequence[ArraySpec],
    axes: tuple[str, ...],
    gain: Product,
) -> list[Weigh]:
    """Multiples of a vector over `axes` that may be added to these biases, by a number over this gain.

    What is added to a part of the gain alone is divided by that part.
    """
    own = {spec.name: spec.factors for spec in specs}
    parts = [gain, *within(gain)]
    terms = []
    for factor in _beside(specs, axes):
        for v in narrow(specs, factor):
            along, batch = v.factors.index(factor), [f for f in v.factors if f != factor]
            fits = lambda name, v=v, factor=factor: name != v.name and {factor} <= set(own[name]) <= set(v.factors)
            over = [part for part in parts if all(fits(name) for name, _ in part)]
            where = [(name, at) for name, at in into if name != v.name and all(own[name].count(f) == 1 for f in batch)]
            terms += [Weigh(name, at, v.name, along, part) for part in over for name, at in where]
    return terms


def biases(specs: Sequence[ArraySpec], axes: tuple[str, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """Parameters that are vectors over `axes`, with where these stand in them; a number is added to all of a vector."""
    most = len(axes) or 1
    return [(s.name, at) for s in specs if len(s.factors) <= most for at in placings(s.factors, axes)]


def _beside(specs: Sequence[ArraySpec], axes: tuple[str, ...]) -> list[str]:
    """Axes that gains have, other than these, or that some array has twice."""
    own = {axis for axis in axes if all(spec.factors.count(axis) < 2 for spec in specs)}
    every = dict.fromkeys(name for spec in specs for name in spec.axis_names)
    return [axis for axis in every if axis not in own and narrow(specs, axis)]


def placings(own: tuple, axes: tuple[str, ...]) -> list[tuple[int, ...]]:
    """The places of these axes among factors, in every way."""
    spots = [[k for k, f in enumerate(own) if f == axis] for axis in axes]
    return [at for at in itertools.product(*spots) if len(set(at)) == len(at)]


def solve_matrix(
    data: Sequence[Moments], specs: Sequence[ArraySpec], group: Group, gains: Products | None = None
) -> list[Solution]:
    """The ways in which the matrices of this group act without changing the model."""
    terms = matrix_terms(specs, group, gains)
    if not terms:
        return []

    def equations(moments: Moments, chosen: Sequence[Turn]) -> np.ndarray:
        columns = []
        for term in chosen:
            k = moments.matrix(term.param, term.axis, term.each, term.gain)
            # entry (i, j) of K belongs to C_ij
            columns.append(group.pairing(np.swapaxes(k, -1, -2) if term.transposed else k) % PRIME)
        return np.stack(columns, axis=-1)

    return _solutions(_left(data, terms, equations), terms, group.axis, group.each, group)


def solve_vector(
    data: Sequence[Moments], specs: Sequence[ArraySpec], axes: tuple[str, ...], gains: Products | None = None
) -> list[Solution]:
    """The ways in which a vector over `axes` acts by scaling, shifting and mixing without changing the model."""
    return _solved(data, vector_terms(specs, axes, gains), axes)


def solve_products(data: Sequence[Moments], specs: Sequence[ArraySpec]) -> dict[tuple[str, int], list[Product]]:
    """The products of two and more gains that arrays may be seen through."""
    found: dict[tuple[str, int], list[Product]] = {}
    for axis in dict.fromkeys(name for spec in specs for name in spec.axis_names):
        shapes = [frozenset(spec.factors) for spec in narrow(specs, axis)]
        for shape in dict.fromkeys(s for s in shapes if shapes.count(s) > 1):
            axes = (
                *(str(f) for f in next(s.factors for s in specs if frozenset(s.factors) == shape) if f != axis),
                axis,
            )
            solved = _solved(data, scale_terms(specs, axes), axes)
            scalings = [{(t.param, t.places): a for t, a in s.terms if isinstance(t, Scale)} for s in solved]
            for where, own in products(specs, axes, scalings).items():
                found.setdefault(where, []).extend(own)
    return found


def solve_unseen(
    data: Sequence[Moments], specs: Sequence[ArraySpec], axes: tuple[str, ...], products: Products
) -> list[Solution]:
    r"""The ways in which a vector over `axes` is added where a norm does not see it, and biases take up what is left.

    What a bias takes up is a multiple of the vector, or of what a map makes of it, that depends on the point,
    $\mathbf 1^T (b / g)$ for one of many pairs of $b$ and $g$. Shifts are therefore found first with a multiple of its
    own at every point, which needs no pairs, and the pairs are tried for those gains that are left.
    """
    shifts = unseen_terms(specs, axes, products)
    if not shifts:
        return []
    own = biases(specs, axes)
    into = _apart(data, [*carriers(specs, axes), *(Shift(name, at) for name, at in own)])

    def equations(moments: Moments, chosen: Sequence[Shift]) -> np.ndarray:
        columns = np.stack([moments.shift(t.param, t.places, t.gain, t.across) for t in chosen], axis=-1)
        beside = [_column(moments, term) for term in into]
        return moments.modulo(columns, np.stack(beside, axis=-1)) if into else columns

    found = np.atleast_1d(_left(data, shifts, equations).any(axis=0))
    left = [t for t, kept in zip(shifts, found, strict=True) if kept]
    solutions: list[Solution] = []
    gains = dict.fromkeys(t.gain for t in left if t.gain or (t.param, t.places) not in own)
    for gain in gains:  # what one norm does not see is made of its own gain
        weighed = weighed_terms([(t.param, t.places) for t in into if isinstance(t, Shift)], specs, axes, gain)
        carried = carried_terms([t for t in into if isinstance(t, Contract)], specs, axes, gain)
        terms = [*(t for t in left if t.gain in ((), gain)), *weighed, *carried]
        said = (s for s in _solved(data, terms, axes) if any(getattr(t, "gain", None) == gain for t, _ in s.terms))
        solutions += (s for s in said if s not in solutions)
    return solutions


def carriers(specs: Sequence[ArraySpec], axes: tuple[str, ...]) -> list[Contract]:
    """Biases that may take up what a map makes of a vector over `axes`."""
    return [
        term
        for term in (vector_terms(specs, axes) if axes else ())
        if isinstance(term, Contract) and not set(term.places) & set(term.order)
    ]


def carried_terms(
    into: Sequence[Contract], specs: Sequence[ArraySpec], axes: tuple[str, ...], gain: Product
) -> list[TakenUp]:
    """What these maps make of the vector, by a number over this gain or over a part of it."""
    own = {spec.name: spec.factors for spec in specs}
    whole = [v.name for factor in _beside(specs, axes) for v in narrow(specs, factor) if len(v.factors) == 1]
    return [
        TakenUp(term.param, term, bias, part)
        for term in into
        for bias in dict.fromkeys(whole)
        for part in (gain, *within(gain))
        if bias != term.param and part and all(name != bias and own[name] == own[bias] for name, _ in part)
    ]


def _apart(data: Sequence[Moments], into: Sequence[Part]) -> list[Part]:
    """Of these as many as no sum of some leaves the model as it is: what one takes up, another need not."""
    if not into:
        return []
    same = _left(data, into, lambda moments, chosen: np.stack([_column(moments, t) for t in chosen], axis=-1))
    spare = {int(np.flatnonzero(row)[0]) for row in same}
    return [term for k, term in enumerate(into) if k not in spare]


def _solved(data: Sequence[Moments], terms: Sequence[Part], axes: tuple[str, ...]) -> list[Solution]:
    if not terms:
        return []
    rows = _left(data, terms, lambda moments, chosen: np.stack([_column(moments, t) for t in chosen], axis=-1))
    return _solutions(rows, terms, axes[-1] if axes else None, " ".join(axes[:-1]) or None, None)


def solve_shared(
    data: Sequence[Moments], specs: Sequence[ArraySpec], groups: Sequence[Group]
) -> Iterator[list[Solution]]:
    """For each of these groups, all on one axis, the ways in which its factors scale without changing the model."""
    axis, each = groups[0].axis, groups[0].each
    terms = scale_terms(specs, (*groups[0].each_axes, *([axis] if axis else [])))
    if not terms:
        return
    columns = [
        [m.scale(t.param, t.places).reshape(m.rows, -1, m.extent(t.param, t.places[-1])) for t in terms] for m in data
    ]
    at = {moments: dict(zip(terms, own, strict=True)) for moments, own in zip(data, columns, strict=True)}
    for group in groups:
        pair = lambda moments, chosen, g=group: np.stack([g.pairing(at[moments][t]) % PRIME for t in chosen], axis=-1)
        yield _solutions(_left(data, terms, pair), terms, axis, each, group)


def _left(
    data: Sequence[Moments], terms: Sequence[P], equations: Callable[[Moments, list[P]], np.ndarray]
) -> np.ndarray:
    """What the determining equations leave of the terms' unknown numbers; they are written for those in doubt alone."""
    chosen = lambda places: [terms[k] for k in places]
    matrix = lambda moments, places: equations(moments, chosen(places)).reshape(-1, len(places))
    return modular.common_nullspace(len(terms), [functools.partial(matrix, moments) for moments in data])


def _column(moments: Moments, term: Part) -> np.ndarray:
    match term:
        case Scale(param, places):
            return moments.scale(param, places)
        case Mix(param, source, places):
            return moments.mixed(param, source, places)
        case Contract(param, source, places, order, gain):
            return moments.contracted(param, source, places, order, gain)
        case Through(param, source, places, order):
            return moments.passed(param, source, places, order)
        case Shift(param, places, gain, across):
            return moments.shift(param, places, gain, across)
        case Weigh(param, places, source, along, gain):
            return moments.weighed(param, places, source, along, gain)
        case TakenUp(_, inner, bias, gain):
            return _column(moments, inner) * moments.number(bias, gain) % PRIME
    raise TypeError(term)


def _solutions(
    rows: np.ndarray, terms: Sequence[Part], axis: str | None, each: str | None, group: Group | None
) -> list[Solution]:
    numbers = [modular.rationals(row) for row in rows]
    if None in numbers:
        # a number of the model's own, an eps, is in as many rows as may be: counted from the other end, it is in one
        numbers += [modular.rationals(row) for row in modular.echelon(rows[:, ::-1])[:, ::-1]]
    return [
        Solution(axis, each, group, tuple((t, a) for t, a in zip(terms, row, strict=True) if a))
        for row in numbers
        if row is not None
    ]
