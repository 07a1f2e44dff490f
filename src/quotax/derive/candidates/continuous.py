"""The search: sample, solve every template, keep what is new and proved."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from quotax.artifacts import ArraySpec, Certificate, Model
from quotax.derive.candidates.gain_products import Products, narrow
from quotax.derive.candidates.templates import (
    KEEPING,
    MATRICES,
    PAIRED,
    THROUGH_GAINS,
    Scale,
    Shift,
    Solution,
    TakenUp,
    Weigh,
    solve_matrix,
    solve_products,
    solve_shared,
    solve_unseen,
    solve_vector,
)
from quotax.derive.candidates.wording import distinct, symmetries
from quotax.derive.points.vector_fields import fields_at, random_point
from quotax.derive.sampling import modular
from quotax.derive.sampling.batches import Batch, batches, points_together
from quotax.derive.sampling.moments import Moments
from quotax.interpret.jets.residues import PRIME
from quotax.interpret.tracing.centres import centres
from quotax.presenting.telling import Budget
from quotax.symmetry import Group, Symmetry

Prove = Callable[[Symmetry], Certificate]
Progress = Callable[[str], None]


@dataclass
class Drawn:
    """What is known of a model at one size: enough batches for its determining equations."""

    sizes: Mapping[str, int]
    batches: list[Batch]
    moments: list[Moments]
    centres: Mapping[str, Fraction]
    """The `r` of parameters that are read as `w + r`."""


def sample(
    model: Model, sizes: Mapping[str, int], rng: np.random.Generator, budget: Budget | None = None, rows: int = 240
) -> Drawn:
    """Draw batches until there are `rows` equations, and at least a dozen draws when inputs are tokens or masks.

    Once the budget is spent one batch is enough: nothing is solved for then.
    """
    budget = budget or Budget()
    trace = model.trace(sizes)
    discrete = any(spec.discrete for spec in trace.inputs)
    stream = batches(trace, rng, 4 if discrete else points_together(trace))
    kept: list[Batch] = []
    while sum(b.rows for b in kept) < rows or len(kept) < (12 if discrete else 3):
        if kept and not budget.left:
            break
        kept.append(next(stream))
    at = centres(trace)
    return Drawn(sizes, kept, [Moments(b, model.params, sizes, at) for b in kept], at)


@dataclass
class Span:
    """The fields found so far, at two random points of one size."""

    specs: Sequence[ArraySpec]
    sizes: Mapping[str, int]
    points: list[np.ndarray]
    rows: np.ndarray = field(init=False)
    """In reduced echelon form, up to the order of the rows."""
    pivots: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        """Nothing yet."""
        self.rows = np.zeros((0, sum(map(len, self.points))), np.int64)
        self.pivots = np.zeros(0, np.int64)
        self._here: tuple[np.ndarray, np.ndarray] | None = None  # the rows at the first point, and their pivots

    @classmethod
    def of_known(
        cls, specs: Sequence[ArraySpec], sizes: Mapping[str, int], known: Sequence[Symmetry], seed: int, points: int
    ) -> Span:
        """At so many random points, with the fields of the continuous families among those that are known."""
        rng = np.random.default_rng(seed)
        span = cls(specs, sizes, [random_point(specs, sizes, rng) for _ in range(points)])
        for symmetry in known:
            if symmetry.group.continuous:
                span.include(symmetry)
        return span

    def fields(self, symmetry: Symmetry, general: bool = False) -> np.ndarray:
        """The fields of a symmetry at all points; `general`: of one random element of its algebra."""
        action = symmetry.bind(tuple(self.specs))
        basis = action.group.basis(self.sizes) % PRIME
        if general and len(basis):
            weights = np.random.default_rng(len(basis)).integers(1, PRIME, (1, len(basis)))
            basis = modular.product(weights, basis.reshape(len(basis), -1)).reshape(1, *basis.shape[1:])
        return np.concatenate([fields_at(action, self.specs, self.sizes, p, basis) for p in self.points], axis=1)

    def adds(self, symmetry: Symmetry) -> bool:
        """Whether a symmetry has a field that the others have not: a random one of its fields shows it.

        It has none where its axis is too short: `O_1(h)` moves nothing at h = 2.
        """
        field = self.fields(symmetry, general=True)
        return bool(((field - modular.product(field[:, self.pivots], self.rows)) % PRIME).any())

    def turns(self, symmetry: Symmetry) -> bool:
        """Whether a symmetry moves the first point where the others do not: what multiplies a field may not count."""
        count = len(self.points[0])
        if self._here is None:
            known = modular.echelon(self.rows[:, :count])
            self._here = known, (known != 0).argmax(axis=1)
        known, pivots = self._here
        field = self.fields(symmetry, general=True)[:, :count]
        return bool(((field - modular.product(field[:, pivots], known)) % PRIME).any())

    def include(self, symmetry: Symmetry) -> None:
        """Add the fields of a symmetry."""
        new = self.fields(symmetry)
        residual = modular.echelon((new - modular.product(new[:, self.pivots], self.rows)) % PRIME)
        pivots = np.array([int(np.flatnonzero(row)[0]) for row in residual], np.int64)
        rows = (self.rows - modular.product(self.rows[:, pivots], residual)) % PRIME
        self.rows, self._here = np.concatenate([rows, residual]), None
        self.pivots = np.concatenate([self.pivots, pivots])


@dataclass
class FoundFamilies:
    """Proved symmetries with their certificates, and candidates that no proof was found for."""

    proved: list[tuple[Symmetry, Certificate]] = field(default_factory=list)
    unproved: list[tuple[Symmetry, Certificate]] = field(default_factory=list)
    sizes: list[Mapping[str, int]] = field(default_factory=list)
    """Of the sizes that were sampled, those at which all proved families act: one may ask for an even axis."""

    def take(self, symmetry: Symmetry, certificate: Certificate) -> bool:
        """Whether it is proved; what is refuted is not kept."""
        if certificate:
            self.proved.append((symmetry, certificate))
        elif certificate.status == "undecided":
            self.unproved.append((symmetry, certificate))
        return bool(certificate)


def search(
    model: Model,
    samples: Sequence[Drawn],
    prove: Prove,
    *,
    declared: Sequence[Symmetry] = (),
    progress: Progress = lambda line: None,
    seed: int = 0,
    budget: Budget | None = None,
) -> FoundFamilies:
    """Continuous symmetries of the model that `declared` does not explain, largest groups first."""
    specs, budget = model.params, budget or Budget()
    rng = np.random.default_rng(seed)
    found = FoundFamilies()
    ordered = sorted((s.sizes for s in samples), key=lambda s: -sum(int(np.prod(spec.shape(s))) for spec in specs))
    spans: list[tuple[Mapping[str, int], Span]] = []

    def span_of(symmetry: Symmetry) -> Span | None:
        """The fields found so far, at the largest sizes at which all of them can act: one may ask for an even axis.

        Where an axis is one pair, a factor for each pair is one for all.
        """
        fitting = [sizes for sizes in ordered if _fits(symmetry, sizes)]
        at = next((sizes for sizes in fitting if _tells(symmetry, sizes)), fitting[0] if fitting else None)
        known = next((span for sizes, span in spans if sizes is at), None)
        if at is None or known is not None:
            return known
        span = Span(specs, at, [random_point(specs, at, rng) for _ in range(2)])
        for other in (*declared, *(s for s, _ in found.proved)):
            if other.group.continuous and _fits(other, at):
                span.include(other)
        spans.append((at, span))
        return span

    names = [s.name for s in declared]
    about = samples[0].centres
    tried: set[Symmetry] = set()

    def attempt(solution: Solution, siblings: Sequence[Solution] = ()) -> bool | None:
        """Whether a solution is proved; None when it is nothing new."""
        ways = [*_with_still(solution, siblings, specs, inert), solution]
        candidates = [distinct(candidate, names) for way in ways for candidate in symmetries(way, specs, about)]
        span = span_of(candidates[0]) if candidates else None
        if span is None or not span.adds(candidates[0]):
            return None
        if solution.depends and not span.turns(candidates[0]):
            return None
        undecided: tuple[Symmetry, Certificate] | None = None
        for symmetry in [s for s in candidates if s not in tried]:
            if not budget.allows(f"a proof of {symmetry}"):
                return None
            tried.add(symmetry)
            progress(f"proving {symmetry}")
            certificate = prove(symmetry)
            if certificate:
                found.proved.append((symmetry, certificate))
                ordered[:] = [sizes for sizes in ordered if _fits(symmetry, sizes)]
                for sizes, other in spans:
                    if any(sizes is left for left in ordered):
                        other.include(symmetry)
                names.append(symmetry.name)
                return True
            if certificate.status == "undecided":
                undecided = symmetry, certificate
        if undecided is not None:
            found.unproved.append(undecided)
        return False

    inert: list[str] = []
    inert += [name for name, solution in list(_inert(samples, specs)) if attempt(solution)]
    for solutions in _solutions(samples, [s for s in specs if s.name not in inert], progress, budget):
        failed = [solution for solution in solutions if attempt(solution, solutions) is False]
        failed = [s for s in failed if all(isinstance(term, Scale) for term, _ in s.terms)]
        if len(failed) > 1:
            # A derivative that vanishes almost everywhere (sign, step) separates what only moves together.
            attempt(replace(failed[0], terms=tuple(term for solution in failed for term in solution.terms)))
    found.proved.sort(key=lambda pair: pair[0].group.layout != "matrix")  # in which order they are read
    found.sizes = ordered
    return found


def _still(sample: Drawn, spec: ArraySpec) -> bool:
    return not any(b.jacobian[spec.name].any() for b in sample.batches)


def _inert(samples: Sequence[Drawn], specs: Sequence[ArraySpec]) -> Iterator[tuple[str, Solution]]:
    """Shifts of the parameters by which all derivatives vanish; proved inert, they are left out of everything else."""
    for spec in specs:
        own = spec.factors
        plain = all(isinstance(f, str) for f in own) and len(set(own)) == len(own)
        if plain and all(_still(s, spec) for s in samples):
            axis, each = (str(own[-1]) if own else None), " ".join(map(str, own[:-1])) or None
            term = Shift(spec.name, tuple(range(len(own))))
            yield spec.name, Solution(axis, each, None, ((term, Fraction(1)),))


def _with_still(
    solution: Solution, siblings: Sequence[Solution], specs: Sequence[ArraySpec], inert: Sequence[str]
) -> list[Solution]:
    r"""The solution with a bias that changes nothing moved as its siblings move theirs: the laws may need it to see it.

    Keys that read a norm's output $n g + b$ through $K + q\,(1/g)^\top$ grow by the constant $q \sum b/g$, which their
    inert bias takes back.
    """
    axes = {spec.name: spec.factors for spec in specs}
    order = list(axes)
    own = {t.gain: (t, a) for t, a in solution.terms if isinstance(t, Shift) and t.gain}
    if not inert or len(own) != 1 or any(isinstance(t, TakenUp | Weigh) for t, _ in solution.terms):
        return []
    ((gain, (shift, number)),) = own.items()
    for sibling in siblings:
        theirs = [a for t, a in sibling.terms if isinstance(t, Shift) and t.gain == gain]
        weighed = [(t, a) for t, a in sibling.terms if isinstance(t, Weigh) and t.gain == gain]
        if theirs and weighed:
            alike = [name for name in inert if axes[name] == axes[weighed[0][0].param]]
            nearest = sorted(alike, key=lambda name: abs(order.index(name) - order.index(shift.param)))[:1]
            added = [[(replace(t, param=name), a * number / theirs[0]) for t, a in weighed] for name in nearest]
            return [replace(solution, terms=(*solution.terms, *terms)) for terms in added]
    return []


def _fits(symmetry: Symmetry, sizes: Mapping[str, int]) -> bool:
    axis = symmetry.group.axis
    return axis is None or sizes[axis] % symmetry.group.divisor == 0


def _tells(symmetry: Symmetry, sizes: Mapping[str, int]) -> bool:
    axis = symmetry.group.axis
    return axis is None or sizes[axis] >= symmetry.group.telling(2)


def _solutions(
    samples: Sequence[Drawn], specs: Sequence[ArraySpec], progress: Progress, budget: Budget
) -> Iterator[list[Solution]]:
    """All templates, from the largest groups to the smallest, as far as the budget goes."""
    axes = tuple(dict.fromkeys(name for spec in specs for name in spec.axis_names))
    beside = lambda *names: any(
        all(s.factors.count(each) == 1 for each in names[:-1]) and names[-1] in s.factors for s in specs
    )
    paired = [(each, axis) for each, axis in itertools.permutations(axes, 2) if beside(each, axis)]
    data = [m for s in samples for m in s.moments]
    gains = solve_products(data, specs)

    def turning(make: Callable[[str, str | None], Group], each: str | None, axis: str, through: bool) -> list[Solution]:
        group = make(axis, each)
        usable = [m for s in samples for m in s.moments if s.sizes[axis] % group.divisor == 0]
        large = any(s.sizes[axis] >= group.telling(2) for s in samples)
        if not usable or not large or (through and not narrow(specs, axis)):
            return []
        if not budget.allows(what := f"{group}{' seen through gains' if through else ''}"):
            return []
        progress(f"solving for {what}")
        return solve_matrix(usable, specs, group, gains if through else None)

    def shared(each: str | None, axis: str) -> list[list[Solution]]:
        groups = [make(axis, each) for make in PAIRED]
        even = [s for s in samples if s.sizes[axis] % groups[0].divisor == 0]
        large = any(s.sizes[axis] >= groups[0].telling(2) for s in even)
        if not large or not budget.allows(what := str(groups[0])):
            return []
        progress(f"solving for {what}")
        return list(solve_shared([m for s in even for m in s.moments], specs, groups))

    def copied(found: Mapping[tuple[str, str], Sequence[object]]) -> Iterator[tuple[str, str]]:
        """Two axes and a third: what acts for every index of both acts for every index of either."""
        for (one, axis), (two, other) in itertools.combinations([place for place in found if any(found[place])], 2):
            if axis == other and beside(one, two, axis):
                yield f"{one} {two}", axis

    def turned(groups: Sequence[Callable[[str, str | None], Group]], through: bool = False) -> Iterator[list[Solution]]:
        for make in groups:
            found = {} if through else {place: turning(make, *place, False) for place in paired}
            yield from (turning(make, *place, False) for place in copied(found))
            yield from found.values()
            yield from (turning(make, None, axis, through) for axis in axes)

    yield from turned(MATRICES)
    once = [p for p in paired if p[0] < p[1] or (p[1], p[0]) not in paired]
    vectors = {frozenset(pair): _vectors(data, specs, pair, gains, progress, budget) for pair in once}
    for three in itertools.combinations(axes, 3):
        pairs = [vectors.get(frozenset(pair)) for pair in itertools.combinations(three, 2)]
        if beside(*three) and any(own and own[0] for own in pairs):
            yield from _vectors(data, specs, three, gains, progress, budget)
    yield from itertools.chain(*vectors.values())
    found = {place: shared(*place) for place in paired}
    yield from itertools.chain(*(shared(*place) for place in copied(found)), *found.values())
    for axis in axes:
        yield from _vectors(data, specs, (axis,), gains, progress, budget)
    for axis in axes:
        yield from shared(None, axis)
    yield from _vectors(data, specs, (), gains, progress, budget)
    # Turns that keep a sum, or a sum of products with a gain, are often part of a shift that does.
    yield from turned(KEEPING)
    yield from turned(THROUGH_GAINS, through=True)


def _vectors(
    data: Sequence[Moments],
    specs: Sequence[ArraySpec],
    axes: tuple[str, ...],
    gains: Products,
    progress: Progress,
    budget: Budget,
) -> list[list[Solution]]:
    """The ways in which a vector over these axes acts: what is always there first."""
    what = f"vectors on {' '.join(axes) or 'no axis'}"
    if not budget.allows(what):
        return []
    progress(f"solving for {what}")
    plain = sorted(solve_vector(data, specs, axes, gains), key=lambda solution: solution.depends)
    return [plain, solve_unseen(data, specs, axes, gains)]
