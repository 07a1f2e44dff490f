r"""Symmetries whose words have numbers in them that a model closes over: the statistics of a batch normalisation.

In $\gamma\,(W x + b - m)\, r + \beta$ the scaling of a channel is $W \mapsto g W$, $b \mapsto g\,(b - m) + m$,
$\gamma \mapsto \gamma / g$, and $b \mapsto b + t$, $\beta \mapsto \beta - t\, \gamma\, r$ is a shift. The model is
handed `m` and `r` as if they were parameters that stand still: what is found holds whatever they are. Along one axis
the template is linear again: scalings, shifts, and products of such an array with at most one parameter, added.

A target that is scaled by $g^s$ and to which $c\,\xi\,P$ is added, where `P` itself is scaled by $g^a$, becomes
$g^s (T + k P) - k\, g^a P$ with $k = c / (s - a)$.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from jax.extend.core import Literal

from quotax.artifacts import ArraySpec, Certificate, HeldArray, Model, Trace
from quotax.derive.candidates.continuous import Drawn, FoundFamilies, Span, sample
from quotax.derive.candidates.gain_products import Product
from quotax.derive.candidates.templates import Scale, Shift, placings
from quotax.derive.candidates.wording import distinct
from quotax.derive.sampling import modular
from quotax.derive.sampling.moments import Moments
from quotax.interpret.closed_over import closed_over, handed_over
from quotax.presenting.telling import Budget
from quotax.programs.jaxprs import IDENTITIES
from quotax.symmetry import Diagonal, Group, PositiveDiagonal, Symmetry, Translation
from quotax.symmetry.language.phrases import ActionLine, Phrase

_NEAR = 6
"""So many gains, biases and constants before and after a constant, as they are met, may share a symmetry with it."""


@dataclass(frozen=True)
class AddedProduct:
    """The vector times a product of arrays, of at most its own axes, added."""

    param: str
    product: Product
    places: tuple[int, ...]


Term = Scale | Shift | AddedProduct
Terms = tuple[tuple[Term, Fraction], ...]


def search_constants(
    model: Model,
    widths: Sequence[Mapping[str, int]],
    known: Sequence[Symmetry],
    prove: Callable[[Symmetry], Certificate],
    progress: Callable[[str], None],
    budget: Budget,
) -> FoundFamilies:
    """Symmetries that read what the model closes over, beside what is `known`."""
    found, sizes = FoundFamilies(), widths[0]
    arrays = [a for a in closed_over(model.trace(sizes)) if a.ndim < 2]
    standing = [axis for axis in model.axis_names if all(w[axis] == sizes[axis] for w in widths)]
    if not arrays or not budget.allows(what := "symmetries that read closed-over arrays"):
        return found
    taken = {*model.axis_names, *(spec.name for spec in (*model.params, *model.inputs))}
    free = (name for k in itertools.count(1) if (name := f"c{k}") not in taken)
    named = dict(zip(free, arrays, strict=False))
    names = [symmetry.name for symmetry in known]
    span = Span.of_known(model.params, sizes, known, seed=13, points=2)
    for axis in model.axis_names:
        own = {name: a for name, a in named.items() if not a.ndim or (axis in standing and len(a) == sizes[axis])}
        axes = lambda a, axis=axis: ((axis,),) if a.ndim else ()
        held = tuple(HeldArray.of(ArraySpec(name, axes(a)), a) for name, a in own.items())
        if not held or not any(axis in spec.factors for spec in model.params):
            continue
        progress(f"solving for {what} along {axis}")
        handed = handed_over(model, held)
        rng = np.random.default_rng(17)
        drawn = [sample(handed, w, rng, budget) for w in widths[:1]]
        for terms in _solutions(drawn, handed.trace(sizes), handed.params, model.params, held, axis):
            for symmetry in _symmetries(terms, model.params, held, axis, drawn[0].centres):
                symmetry = distinct(symmetry, names)
                if not span.adds(symmetry) or not budget.allows(f"a proof of {symmetry}"):
                    break
                progress(f"proving {symmetry}")
                if found.take(symmetry, prove(symmetry)):
                    names.append(symmetry.name)
                    span.include(symmetry)
                    break
    found.unproved = [one for one in found.unproved if span.adds(one[0])]
    return found


def _solutions(
    drawn: Sequence[Drawn],
    trace: Trace,
    specs: Sequence[ArraySpec],
    own: Sequence[ArraySpec],
    held: Sequence[HeldArray],
    axis: str,
) -> list[Terms]:
    """What each constant and its neighbours allow, those of the fewest words first."""
    data = [m for one in drawn for m in one.moments]
    fixed = {one.name for one in held}
    narrow = {s.name for s in specs if set(s.factors) <= {axis, 1} and (axis in s.factors or s.name in fixed)}
    order = [name for name in _as_met(trace) if name in narrow]
    found: dict[Terms, float] = {}
    for one in held:
        if one.name not in order:
            continue
        at = order.index(one.name)
        near = order[max(at - _NEAR, 0) : at + _NEAR + 1]
        terms = _terms([s for s in specs if s.name in near], own, fixed, one.name, axis)
        rows = modular.common_nullspace(len(terms), [functools.partial(_equations, m, terms) for m in data])
        numbers = [n for row in rows if (n := modular.rationals(row)) is not None]
        words = [_words(t, fixed) for t in terms]
        length = lambda row, words=words: sum(w for w, a in zip(words, row, strict=True) if a)
        for row in _sparse(numbers, length):
            solution = tuple((t, a) for t, a in zip(terms, row, strict=True) if a)
            if any(isinstance(t, AddedProduct) for t, _ in solution):
                found[solution] = length(row)
    return sorted(found, key=found.__getitem__)


def _terms(
    near: Sequence[ArraySpec], own: Sequence[ArraySpec], fixed: set[str], constant: str, axis: str
) -> list[Term]:
    """Scalings and shifts of what has the axis, and products with the constant added to what is near."""
    moving = [s for s in near if s.name not in fixed]
    others = [s.name for s in near if s.name in fixed and s.name != constant]
    powers: list[Product] = [()]
    for k in (1, -1):
        powers += [((constant, k),), *(((constant, k), (name, j)) for name in others for j in (1, -1))]
    along: list[Term] = []
    for target in moving:
        for at in placings(target.factors, (axis,)):
            for source in (None, *moving):
                if source is target or (source is not None and not set(source.factors) <= set(target.factors)):
                    continue
                first: Product = () if source is None else ((source.name, 1),)
                along += [AddedProduct(target.name, (*first, *power), at) for power in powers if first or power]
    scaled: list[Term] = [Scale(s.name, at) for s in own for at in placings(s.factors, (axis,))]
    shifted: list[Term] = [Shift(s.name, at) for s in moving for at in placings(s.factors, (axis,))]
    return [*along, *scaled, *shifted]


def _equations(moments: Moments, terms: Sequence[Term], places: np.ndarray) -> np.ndarray:
    columns = np.stack([_column(moments, terms[k]) for k in places], axis=-1)
    return columns.reshape(-1, len(places))


def _column(moments: Moments, term: Term) -> np.ndarray:
    match term:
        case AddedProduct(param, product, places):
            return moments.along(param, product, places)
        case Scale(param, places):
            return moments.scale(param, places)
        case Shift(param, places):
            return moments.shift(param, places)


def _words(term: Term, fixed: set[str]) -> float:
    """How long a term is; a shift stays one, rather than by a constant, if only constants elsewhere pay for it."""
    if not isinstance(term, AddedProduct):
        return 1
    constants = sum(name in fixed for name, _ in term.product)
    return 1 + constants if constants < len(term.product) else 1.5 + constants


def _as_met(trace: Trace) -> list[str]:
    """The parameters in the order in which something is made of them, not of what only moves them about."""
    jaxpr = trace.jaxpr.jaxpr
    whose: dict[Any, str] = dict(zip(jaxpr.invars, (spec.name for spec in trace.params), strict=False))
    met: dict[str, None] = {}
    for equation in jaxpr.eqns:
        read = [whose[a] for a in equation.invars if not isinstance(a, Literal) and a in whose]
        if equation.primitive.name in (*IDENTITIES, "broadcast_in_dim", "reshape", "squeeze", "transpose"):
            whose |= dict.fromkeys(equation.outvars, read[0]) if read else {}
        else:
            met |= dict.fromkeys(read)
    return list(met)


def _sparse(rows: Sequence[Sequence[Fraction]], length: Callable[[Sequence[Fraction]], int]) -> list[list[Fraction]]:
    """A basis of the same rows in which no multiple of one makes another shorter."""
    basis = [list(row) for row in rows]
    improved = True
    while improved:
        improved = False
        for i, j in itertools.permutations(range(len(basis)), 2):
            one, other = basis[i], basis[j]
            for a in dict.fromkeys(x / y for x, y in zip(one, other, strict=True) if x and y):
                shorter = [x - a * y for x, y in zip(one, other, strict=True)]
                if length(shorter) < length(basis[i]):
                    basis[i], improved = shorter, True
    return basis


# --- in words


def _symmetries(
    terms: Terms, specs: Sequence[ArraySpec], held: Sequence[HeldArray], axis: str, centres: Mapping[str, Fraction]
) -> list[Symmetry]:
    """The finite action; several where only a proof can tell which group it is, largest first."""
    rates = {t.param: a for t, a in terms if isinstance(t, Scale)}
    plain = [a for t, a in terms if isinstance(t, Shift)]
    numbers = list(rates.values()) or plain or [a for _, a in terms]
    common = Fraction(math.gcd(*(a.numerator for a in numbers)), math.lcm(*(a.denominator for a in numbers)))
    factor = (1 if numbers[0] > 0 else -1) / common
    terms = tuple((t, a * factor) for t, a in terms)
    rates = {name: a * factor for name, a in rates.items()}
    shifted = {t.param for t, _ in terms if not isinstance(t, Scale)}
    read = {name for t, _ in terms if isinstance(t, AddedProduct) for name, _ in t.product}
    once = len({t.param for t, _ in terms if isinstance(t, Scale)}) == sum(isinstance(t, Scale) for t, _ in terms)
    if shifted & read or not once or (rates and plain):
        return []
    by_name = {spec.name: spec for spec in specs}
    arrays = {**by_name, **{one.name: one.spec for one in held}}
    lines = {}
    for name in dict.fromkeys(t.param for t, _ in terms):
        own = [(t, a) for t, a in terms if t.param == name]
        if rates:
            made = _scaled(by_name[name], own, arrays, rates, centres)
        else:
            made = _added(by_name[name], own, arrays, centres)
        if made is None:
            return []
        key, entry = made
        lines[key] = entry
    used = tuple(one for one in held if one.name in read)
    said = lambda verb, group: Symmetry.of(f"{verb} {axis}", group, tuple(specs), lines, used)
    if not rates:
        return [said("shift", Translation(axis))]
    groups: list[Group] = [PositiveDiagonal(axis)]
    if all(a.denominator == 1 for a in rates.values()):
        groups.insert(0, Diagonal(axis))
    return [said("scale", group) for group in groups]


def _line(spec: ArraySpec, centres: Mapping[str, Fraction], places: tuple[int, ...]) -> tuple[ActionLine, Phrase]:
    line = ActionLine(spec, False, centres)
    return line, line.element([line.indices[k] for k in places])


def _product(product: Product, line: ActionLine, arrays: Mapping[str, ArraySpec]) -> Phrase:
    """A product of arrays at the indices of a line."""
    at = dict(zip(line.spec.factors, line.indices, strict=True))
    out: Phrase | None = None
    for name, power in product:
        factor = line.array(name, [at[f] for f in arrays[name].factors])
        out = (factor if power > 0 else factor**power) if out is None else out * factor if power > 0 else out / factor
    assert out is not None
    return out


def _plus(left: Phrase, a: Fraction, right: Phrase) -> Phrase:
    return left + right.times(a) if a > 0 else left - right.times(-a)


def _scaled(
    spec: ArraySpec,
    terms: Sequence[tuple[Term, Fraction]],
    arrays: Mapping[str, ArraySpec],
    rates: Mapping[str, Fraction],
    centres: Mapping[str, Fraction],
) -> Any:
    s = rates.get(spec.name, Fraction(0))
    line, g = _line(spec, centres, terms[0][0].places)
    to = lambda a: g if a == 1 else g**a
    added = [(t, a) for t, a in terms if isinstance(t, AddedProduct)]
    inner, outer = line.old, []
    for t, c in added:
        a = sum((power * rates.get(name, Fraction(0)) for name, power in t.product), Fraction(0))
        if a == s:
            return None
        k, product = c / (s - a), _product(t.product, line, arrays)
        inner = _plus(inner, k, product)
        outer.append((-k, product if not a else product / g if a == -1 else to(a) * product))
    whole = inner.bracketed() if added else inner
    out = inner if not s else whole / g if s == -1 else to(s) * whole
    for k, product in outer:
        out = _plus(out, k, product)
    return line.becomes(line.back(out))


def _added(
    spec: ArraySpec,
    terms: Sequence[tuple[Term, Fraction]],
    arrays: Mapping[str, ArraySpec],
    centres: Mapping[str, Fraction],
) -> Any:
    line, g = _line(spec, centres, terms[0][0].places)
    out = line.named
    for t, a in terms:
        out = _plus(out, a, g * _product(t.product, line, arrays) if isinstance(t, AddedProduct) else g)
    return line.becomes(out)
