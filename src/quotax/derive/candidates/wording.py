"""Solutions of templates written as symmetries: the finite action of each field, in the language that users write.

A matrix field exponentiates to `g` or its inverse transpose, a scaling field to a power, a shift to itself, a scaling
and a shift of one parameter to a scaling of `w + r`, a scaling that comes with a shift of another to an exponential, a
symmetric mixing of two parameters to a hyperbolic rotation.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

import sympy as sp

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.derive.candidates.gain_products import Product, inverse
from quotax.derive.candidates.templates import (
    Contract,
    Mix,
    Part,
    Scale,
    Shift,
    Solution,
    TakenUp,
    Through,
    Turn,
    Weigh,
)
from quotax.symmetry import Diagonal, Entry, Group, PositiveDiagonal, PositiveScalar, Symmetry, Translation
from quotax.symmetry.language.phrases import ActionLine, Phrase, number
from quotax.symmetry.new_entries.general_entries import Map, label
from quotax.trees import folder, place

Centres = Mapping[str, Fraction]
"""The `r` of parameters that are spoken of as `w + r`."""


def symmetries(solution: Solution, specs: Sequence[ArraySpec], centres: Centres | None = None) -> list[Symmetry]:
    """The symmetry that a solution stands for; several where only a proof can tell which group it is, largest first.

    What moves a parameter with a centre `r` was found of `w + r`.
    """
    by_name = {spec.name: spec for spec in specs}
    if solution.group is None or solution.group.layout != "matrix":
        return _vector(solution, by_name, centres or {})
    return _matrix(solution, solution.group, by_name, centres or {})


# --- matrices


def _matrix(solution: Solution, group: Group, specs: Mapping[str, ArraySpec], centres: Centres) -> list[Symmetry]:
    terms = _representation(solution, group)
    if terms is None:
        return []
    names = dict.fromkeys(turn.param for turn, _ in terms)
    lines = [
        _turned(specs[name], [(t, c) for t, c in terms if t.param == name], group.each, specs, centres)
        for name in names
    ]
    return [Symmetry.of(f"{group.verb} {group.axis}", group, tuple(specs.values()), dict(lines))]


def _representation(solution: Solution, group: Group) -> list[tuple[Turn, bool]] | None:
    """Each term with whether it acts by the contragredient; None when the terms are no representation."""
    turns = [(t, a) for t, a in solution.terms if isinstance(t, Turn)]
    if len({(t.param, t.axis) for t, _ in turns}) < len(turns):  # C - C^T in one place: a smaller group in disguise
        return None
    if group.orthogonal:
        return [(t, False) for t, a in turns] if all(a == 1 for _, a in turns) else None
    pairs = {(t.transposed, a) for t, a in turns}
    if pairs <= {(False, 1), (True, -1)}:
        return [(t, t.transposed) for t, _ in turns]
    if pairs <= {(True, 1), (False, -1)}:
        if not group.selfadjoint:  # the same fields, parametrised by the inverse
            return [(t, t.transposed) for t, _ in turns]
        # by the transpose
        return [(t, not t.transposed) for t, _ in turns]
    return None


def _gain(name: str, line: ActionLine, specs: Mapping[str, ArraySpec], at: Mapping[AxisFactor, sp.Symbol]) -> Phrase:
    """An entry of a gain, where its axes have these indices."""
    return line.array(name, [at[factor] for factor in specs[name].factors])


def _times(
    phrase: Phrase, gain: Product, line: ActionLine, specs: Mapping[str, ArraySpec], at: Mapping[AxisFactor, sp.Symbol]
) -> Phrase:
    """A product with gains, or with one over them."""
    for name, power in gain:
        factor = _gain(name, line, specs, at)
        for _ in range(abs(power)):
            phrase = phrase * factor if power > 0 else phrase / factor
    return phrase


def _turned(
    spec: ArraySpec,
    terms: list[tuple[Turn, bool]],
    each: str | None,
    specs: Mapping[str, ArraySpec],
    centres: Centres,
) -> tuple[str, Entry]:
    own = spec.factors
    plain = _plain(spec) and each is None and spec.name not in centres and not any(t.gain for t, _ in terms)
    line = ActionLine(spec, plain, centres)
    inner, words = list(line.indices), []
    for turn, contragredient in terms:
        old = line.indices[turn.axis]
        new = inner[turn.axis] = line.index(own[turn.axis], None if line.plain else f"{old}_")
        batch = [line.indices[k] for k in turn.each]
        pair = (new, old) if contragredient else (old, new)
        words.append(line.element((*batch, *pair), inverse=contragredient))
        if turn.gain:
            to, at = ({**dict(zip(own, line.indices, strict=True)), own[turn.axis]: index} for index in (new, old))
            for name, power in turn.gain:
                above, below = (to, at) if power > 0 else (at, to)
                words += [_gain(name, line, specs, above) / _gain(name, line, specs, below)] * abs(power)
    result = functools.reduce(operator.mul, [words[0], line.array(spec.name, inner), *words[1:]])
    if line.plain:
        (turn, contragredient), name = terms[0], line.old.text
        if turn.axis == 0:
            result = result.said(f"inv(g).T @ {name}" if contragredient else f"g @ {name}")
        else:
            result = result.said(f"{name} @ inv(g)" if contragredient else f"{name} @ g.T")
    # As they are met in the words: that of the first matrix, then those of the parameter.
    turned = dict.fromkeys((inner[terms[0][0].axis], *inner))
    return line.becomes(line.back(line.summed(result, [index for index in turned if index not in line.indices])))


def _plain(spec: ArraySpec) -> bool:
    """Whether the matrix form can say what becomes of a parameter."""
    return all(len(axis) == 1 for axis in spec.axes) and len(spec.axes) <= 2 and len(set(spec.axes)) == len(spec.axes)


# --- vectors


def _vector(solution: Solution, specs: Mapping[str, ArraySpec], centres: Centres) -> list[Symmetry]:
    axes = (*(solution.each or "").split(), *([solution.axis] if solution.axis else []))
    terms = _normal(solution.terms)
    kinds = {type(t) for t, _ in terms}
    if Mix in kinds:
        return _hyperbolic(solution, terms, kinds, axes, specs, centres)
    scaled = [a for t, a in terms if isinstance(t, Scale)]
    about = _centres(terms)
    shifts = not scaled or any(isinstance(t, Shift) and (t.param, t.places) not in about for t, _ in terms)
    names, own = dict.fromkeys(t.param for t, _ in terms), tuple(specs.values())
    of = lambda name: [(t, a) for t, a in terms if t.param == name]
    lines = dict(_moved(specs[name], of(name), specs, axes, shifts, centres) for name in names)
    where = " ".join(axes) or "all"
    if shifts:
        return [Symmetry.of(f"shift {where}", Translation(solution.axis, solution.each), own, lines)]
    if solution.group is not None:
        return [Symmetry.of(f"{solution.group.verb} {where}", solution.group, own, lines)]
    if not axes:
        return [Symmetry.of("scale", PositiveScalar(), own, lines)]
    groups = [PositiveDiagonal(solution.axis, solution.each)]
    if not kinds & {TakenUp, Contract, Through} and all(a.denominator == 1 for a in scaled):
        groups.insert(0, Diagonal(solution.axis, solution.each))
    return [Symmetry.of(f"scale {where}", group, own, lines) for group in groups]


def kernel_shift(solution: Solution, own: Map, specs: Sequence[ArraySpec]) -> Symmetry:
    """What is added where shifts are, in the kernel of a map: the projector acts on the last axis of the element."""
    by_name = {spec.name: spec for spec in specs}
    lines = {}
    for shift, a in _normal(solution.terms):
        line = ActionLine(by_name[shift.param], False)
        *others, at = [line.indices[k] for k in shift.places]
        new = line.index(line.factors[at], f"{at}_")
        onto = line.kernel(own, [*others[: len(own.copies)], at, new])
        what = line.summed((onto * line.element([*others, new])).times(abs(a)), [new])
        key, entry = line.becomes(line.old + what if a > 0 else line.old - what)
        lines[key] = entry
    axes = (*(solution.each or "").split(), solution.axis)
    group = Translation(solution.axis, solution.each)
    return Symmetry.of(f"kernel {' '.join(map(str, axes))}", group, tuple(specs), lines)


def _centres(terms: Sequence[tuple]) -> dict[tuple[str, tuple[int, ...]], Fraction]:
    r"""What is scaled and shifted along the same places, $\delta w = a\, \xi (w + r)$, with the `r` of `w + r`."""
    scaled = {(t.param, t.places): a for t, a in terms if isinstance(t, Scale)}
    moved = {(t.param, t.places): a for t, a in terms if isinstance(t, Shift) and not t.gain}
    return {where: a / scaled[where] for where, a in moved.items() if where in scaled}


def _normal(terms: Sequence[tuple]) -> list[tuple]:
    """Exponents as whole numbers without a common factor, the first one positive."""
    scaled = (
        [a for t, a in terms if isinstance(t, Scale)]
        or [a for t, a in terms if isinstance(t, Shift | Mix)]
        or [a for _, a in terms]
    )
    common = Fraction(math.gcd(*(a.numerator for a in scaled)), math.lcm(*(a.denominator for a in scaled)))
    factor = (1 if scaled[0] > 0 else -1) / common
    return [(t, a * factor) for t, a in terms]


def _moved(
    spec: ArraySpec,
    terms: list[tuple],
    specs: Mapping[str, ArraySpec],
    axes: tuple[str, ...],
    shifts: bool,
    centres: Centres,
) -> tuple[str, Entry]:
    """What becomes of one parameter."""
    about = _centres(terms)
    centres = {**centres, spec.name: centres.get(spec.name, 0) + sum(about.values(), start=Fraction(0))}
    centres = {name: r for name, r in centres.items() if r}
    scaled = [(t.places, a) for t, a in terms if isinstance(t, Scale)]
    plain = _plain(spec) and len(axes) <= 1 and not any(_indexed(t, specs, centres) for t, _ in terms)
    line = ActionLine(spec, plain, centres)
    out = line.old if scaled else line.named
    element = lambda places: line.element([line.indices[k] for k in places])
    for places, a in scaled:
        g = element(places)
        if shifts:
            out = g.times(a).under("exp") * out
        elif not line.plain or not axes:
            out = out / g if a == -1 else (g if a == 1 else g**a) * out
        else:
            power = g if a == 1 else (g**a).said("inv(g)") if a == -1 else g**a
            product = power * out
            out = product.said(f"{power.text} @ {out.text}" if places[0] == 0 else f"{out.text} @ {power.text}")
    out = line.back(out) if scaled else out
    for t, a in terms:
        match t:
            case Shift(name, places) if (name, places) in about:
                continue
            case Shift(_, places, gain, across):
                at = {**dict(zip(spec.factors, line.indices, strict=True))}
                at |= {spec.factors[across]: line.indices[across]} if gain else {}
                what = _times(element(places), inverse(gain), line, specs, at).times(abs(a))
            case Weigh():
                what = _weighed(t, abs(a), element(t.places), line, specs)
            case Contract():
                what = _contracted(t, abs(a), line, specs, shifts)
            case TakenUp():
                what = _carried(t, abs(a), line, specs)
            case Through():
                what = _passed(t, abs(a), line, specs, shifts)
            case _:
                continue
        out = out + what if a > 0 else out - what
    return line.becomes(out)


def _indexed(term: Part, specs: Mapping[str, ArraySpec], centres: Centres) -> bool:
    """Whether only the index form has words for a term."""
    match term:
        case Contract(_, source, _, _, gain):
            return len(specs[source].factors) != 2 or source in centres or bool(gain)
        case Scale(name):
            return name in centres
        case Shift(_, _, gain):
            return bool(gain)
    return isinstance(term, TakenUp | Weigh | Through)


def _weighed(term: Weigh, a: Fraction, g: Phrase, line: ActionLine, specs: Mapping[str, ArraySpec]) -> Phrase:
    own = specs[term.source].factors
    index = line.index(own[term.along])
    at = {**dict(zip(line.spec.factors, line.indices, strict=True)), own[term.along]: index}
    summed = _times(g * _gain(term.source, line, specs, at), inverse(term.gain), line, specs, at)
    return line.summed(summed.times(a), [index])


def _contracted(term: Contract, a: Fraction, line: ActionLine, specs: Mapping[str, ArraySpec], shifts: bool) -> Phrase:
    source = specs[term.source].factors
    new: list[sp.Symbol] = []
    summed = [k for k in term.places if k not in term.order]
    for k in summed:
        name = None if line.plain else label(source[k], [index.name for index in (*line.indices, *new)])
        new.append(line.index(source[k], name))
    placed = dict(zip((*term.order, *summed), (*line.indices, *new), strict=True))
    g, array = (
        line.element([placed[k] for k in term.places]),
        line.array(term.source, [placed[k] for k in range(len(source))]),
    )
    vector = g if shifts else g.under("log")
    at = {**dict(zip(source, (placed[k] for k in range(len(source))), strict=True))}
    at |= {source[k]: placed[k] for k in summed}
    product = _times(array * vector, term.gain, line, specs, at)
    if line.plain:
        product = product.said(f"{array.text}{'' if term.places == (1,) else '.T'} @ {vector.text}")
    return line.summed(product.times(a), [placed[k] for k in sorted(summed)])


def _carried(term: TakenUp, a: Fraction, line: ActionLine, specs: Mapping[str, ArraySpec]) -> Phrase:
    places, order, source = term.map.places, term.map.order, specs[term.map.source].factors
    placed = dict(zip(order, line.indices, strict=True)) | {k: line.index(source[k]) for k in places}
    (along,) = specs[term.bias].factors
    index = line.index(along)
    made = line.array(term.map.source, [placed[k] for k in range(len(source))])
    made = made * line.element([placed[k] for k in places]) * line.array(term.bias, [index])
    made = _times(made, inverse(term.gain), line, specs, {along: index})
    return line.summed(made.times(a), [*(placed[k] for k in sorted(places)), index])


def _passed(term: Through, a: Fraction, line: ActionLine, specs: Mapping[str, ArraySpec], shifts: bool) -> Phrase:
    source = specs[term.source].factors
    placed = {k: index for index, k in zip(line.indices, term.order, strict=True) if k >= 0}
    summed = [k for k in range(len(source)) if k not in placed]
    placed |= {k: line.index(source[k]) for k in summed}
    vector = line.element([placed[k] if k >= 0 else line.indices[~k] for k in term.places])
    product = line.array(term.source, [placed[k] for k in range(len(source))]) * (
        vector if shifts else vector.under("log")
    )
    return line.summed(product.times(a), [placed[k] for k in summed])


def _hyperbolic(
    solution: Solution,
    terms: list[tuple],
    kinds: set,
    axes: tuple[str, ...],
    specs: Mapping[str, ArraySpec],
    centres: Centres,
) -> list[Symmetry]:
    """Two parameters that mix symmetrically: cosh and sinh of the angle."""
    if kinds != {Mix} or len(terms) != 2:
        return []
    (first, a), (second, b) = terms
    if (first.param, first.source) != (second.source, second.param) or a * b <= 0:
        return []
    rate, ratio = _root(a * b), _root(a / b)
    if rate is None or ratio is None:
        return []
    sign = 1 if a > 0 else -1
    lines = dict(
        _turned_by_angle(specs[mix.param], mix, sign * factor, centres)
        for mix, factor in ((first, ratio), (second, 1 / ratio))
    )
    where = " ".join(axes) or "all"
    return [Symmetry.of(f"hyperbolic {where}", Translation(solution.axis, solution.each), tuple(specs.values()), lines)]


def _turned_by_angle(spec: ArraySpec, mix: Mix, factor: Fraction, centres: Centres) -> tuple[str, Entry]:
    line = ActionLine(spec, not spec.axes, centres)
    g = line.element([line.indices[k] for k in mix.places])
    up, down = g.under("exp"), g.times(Fraction(-1)).under("exp")
    cosh, sinh = ((one.bracketed() / number(2)) for one in (up + down, up - down))
    other = line.array(mix.source, line.indices)
    return line.becomes(line.back(cosh * line.old + number(factor) * sinh.bracketed() * other))


def _root(a: Fraction) -> Fraction | None:
    above, below = math.isqrt(a.numerator), math.isqrt(a.denominator)
    return Fraction(above, below) if above**2 == a.numerator and below**2 == a.denominator else None


def distinct(symmetry: Symmetry, taken: Collection[str]) -> Symmetry:
    """The symmetry under a name of its own: with the place where it acts, or a number, where that is taken."""
    moved = [written.partition("[")[0].removeprefix("p.") for written in symmetry.action]
    places = [folder(moved), place(moved)]
    numbers = (f"{symmetry.name} #{k}" for k in itertools.count(2))
    names = [symmetry.name, *(f"{symmetry.name} ({where})" for where in places if where)]
    return symmetry.renamed(next(name for name in itertools.chain(names, numbers) if name not in taken))
