"""Solutions of templates written as symmetries: the finite action of each field, in the language that users write.

A matrix field exponentiates to `g` or its inverse transpose, a scaling field to a power, a shift to itself, a scaling
that comes with a shift to an exponential, a symmetric mixing of two parameters to a hyperbolic rotation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.derive.candidates.templates import Contract, Mix, Scale, Shift, Solution, Turn
from quotax.symmetry import Diagonal, Group, PositiveDiagonal, PositiveScalar, Symmetry, Translation, written


def symmetries(solution: Solution, specs: Sequence[ArraySpec]) -> list[Symmetry]:
    """The symmetry that a solution stands for; several where only a proof can tell which group it is, largest first."""
    by_name = {spec.name: spec for spec in specs}
    if solution.group is None:
        return _vector(solution, by_name)
    return _matrix(solution, solution.group, by_name)


# --- matrices


def _matrix(solution: Solution, group: Group, specs: Mapping[str, ArraySpec]) -> list[Symmetry]:
    terms = _representation(solution, group)
    if terms is None:
        return []
    action: dict[str, str] = {}
    for name in dict.fromkeys(turn.param for turn, _ in terms):
        key, text = _turned(specs[name], [(t, c) for t, c in terms if t.param == name], group.each)
        action[key] = text
    return [Symmetry(f"{group.verb} {group.axis}", group, action)]


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
    if pairs <= {(True, 1), (False, -1)}:  # the same fields, parametrised by the transpose
        return [(t, not t.transposed) for t, _ in turns]
    return None


def _turned(spec: ArraySpec, terms: list[tuple[Turn, bool]], each: str | None) -> tuple[str, str]:
    own, name = spec.factors, written(spec.name)
    plain = all(len(axis) == 1 for axis in spec.axes) and len(own) <= 2
    if plain and each is None and all(t.gain is None for t, _ in terms) and len(set(own)) == len(own):
        (turn, contragredient) = terms[0]
        if turn.axis == 0:
            return spec.name, f"inv(g).T @ {name}" if contragredient else f"g @ {name}"
        return spec.name, f"{name} @ inv(g)" if contragredient else f"{name} @ g.T"
    labels = labels_of(own)
    inner = list(labels)
    words = []
    for turn, contragredient in terms:
        new = f"{labels[turn.axis]}_"
        batch = f"{labels[turn.each]}," if turn.each is not None else ""
        old, inner[turn.axis] = labels[turn.axis], new
        words.append(f"inv(g)[{batch}{new},{old}]" if contragredient else f"g[{batch}{old},{new}]")
        if turn.gain is not None:
            gain = written(turn.gain)
            words.append(f"{gain}[{new}] / {gain}[{old}]")
    return f"{spec.name}[{','.join(labels)}]", " * ".join([words[0], f"{name}[{','.join(inner)}]", *words[1:]])


def labels_of(own: Sequence[AxisFactor]) -> list[str]:
    """An index for each axis, named after it."""
    labels: list[str] = []
    for factor in own:
        base = factor if isinstance(factor, str) and factor not in ("g", "inv", "exp", "log", "p") else "i"
        labels.append(next(n for n in (base, *(f"{base}{k}" for k in range(1, 99))) if n not in labels))
    return labels


# --- vectors


def _vector(solution: Solution, specs: Mapping[str, ArraySpec]) -> list[Symmetry]:
    axes = tuple(a for a in (solution.each, solution.axis) if a is not None)
    terms = _normal(solution.terms)
    kinds = {type(t) for t, _ in terms}
    if Mix in kinds:
        return _hyperbolic(solution, terms, kinds, axes)
    scaled = [a for t, a in terms if isinstance(t, Scale)]
    shifts = Shift in kinds or not scaled
    action: dict[str, str] = {}
    for name in dict.fromkeys(t.param for t, _ in terms):
        key, text = _moved(specs[name], [(t, a) for t, a in terms if t.param == name], specs, axes, shifts)
        action[key] = text
    where = " ".join(axes) or "all"
    if shifts:
        return [Symmetry(f"shift {where}", Translation(solution.axis, solution.each), action)]
    if not axes:
        return [Symmetry("scale", PositiveScalar(), action)]
    groups = [PositiveDiagonal(solution.axis, solution.each)]
    if Contract not in kinds and all(a.denominator == 1 for a in scaled):
        groups.insert(0, Diagonal(solution.axis, solution.each))
    return [Symmetry(f"scale {where}", group, action) for group in groups]


def _normal(terms: Iterable[tuple]) -> list[tuple]:
    """Exponents as whole numbers without a common factor, the first one positive."""
    terms = list(terms)
    scaled = (
        [a for t, a in terms if isinstance(t, Scale)]
        or [a for t, a in terms if isinstance(t, Shift | Mix)]
        or [a for _, a in terms]
    )
    common = Fraction(math.gcd(*(a.numerator for a in scaled)), math.lcm(*(a.denominator for a in scaled)))
    factor = (1 if scaled[0] > 0 else -1) / common
    return [(t, a * factor) for t, a in terms]


def _moved(
    spec: ArraySpec, terms: list[tuple], specs: Mapping[str, ArraySpec], axes: tuple[str, ...], shifts: bool
) -> tuple[str, str]:
    """What becomes of one parameter."""
    own = spec.factors
    labels = labels_of(own)
    plain = len(own) <= 2 and all(len(a) == 1 for a in spec.axes) and len(set(own)) == len(own) and len(axes) <= 1
    plain = plain and all(not isinstance(t, Contract) or len(specs[t.source].factors) == 2 for t, _ in terms)
    at = "" if plain or not labels else f"[{','.join(labels)}]"
    out = written(spec.name) + at
    exponents = [(t.places, a) for t, a in terms if isinstance(t, Scale)]
    for places, a in exponents:
        g = _element(labels, places, plain)
        if shifts:
            out = f"exp({_times(a, g)}) * {out}"
        elif not plain or not axes:
            out = f"{out} / {g}" if a == -1 else f"{g if a == 1 else f'{g}**({a})'} * {out}"
        else:
            power = "g" if a == 1 else "inv(g)" if a == -1 else f"g**({a})"
            out = f"{power} @ {out}" if places[0] == 0 else f"{out} @ {power}"
    for t, a in terms:
        if isinstance(t, Shift):
            out = _plus(out, a, _element(labels, t.places, plain))
        elif isinstance(t, Contract):
            out = _plus(out, a, _contracted(t, labels, specs, plain, shifts))
    return spec.name + at, out


def _contracted(term: Contract, labels: list[str], specs: Mapping[str, ArraySpec], plain: bool, shifts: bool) -> str:
    source, name = specs[term.source].factors, written(term.source)
    if plain:
        vector = "g" if shifts else "log(g)"
        return f"{name} @ {vector}" if term.places == (1,) else f"{name}.T @ {vector}"
    inner = [""] * len(source)
    for label, place in zip(labels, term.order, strict=True):
        inner[place] = label
    summed = labels_of([*labels, *(source[k] for k in term.places)])[len(labels) :]
    for label, place in zip(summed, term.places, strict=True):
        inner[place] = label
    g = f"g[{','.join(summed)}]"
    return f"{name}[{','.join(inner)}] * {g if shifts else f'log({g})'}"


def _element(labels: list[str], places: Sequence[int], plain: bool) -> str:
    return "g" if plain or not places else f"g[{','.join(labels[k] for k in places)}]"


def _times(a: Fraction, what: str) -> str:
    return what if a == 1 else f"-{what}" if a == -1 else f"{_number(a)} * {what}"


def _plus(out: str, a: Fraction, what: str) -> str:
    return f"{out} {'+' if a > 0 else '-'} {what if abs(a) == 1 else f'{_number(abs(a))} * {what}'}"


def _number(a: Fraction) -> str:
    return str(a.numerator) if a.denominator == 1 else f"({a.numerator}/{a.denominator})"


def _hyperbolic(solution: Solution, terms: list[tuple], kinds: set, axes: tuple[str, ...]) -> list[Symmetry]:
    """Two parameters that mix symmetrically: cosh and sinh of the angle."""
    if kinds != {Mix} or len(terms) != 2:
        return []
    (first, a), (second, b) = terms
    if (first.param, first.source) != (second.source, second.param) or a * b <= 0:
        return []
    rate, ratio = _root(a * b), _root(a / b)
    if rate is None or ratio is None:
        return []
    at = f"[{','.join(labels_of(axes))}]" if axes else ""
    up, down = (f"(exp(g{at}) {sign} exp(-g{at})) / 2" for sign in "+-")
    sign = 1 if a > 0 else -1
    one, two = written(first.param) + at, written(second.param) + at
    action = {
        f"{first.param}{at}": f"{up} * {one} + {_number(sign * ratio)} * ({down}) * {two}",
        f"{second.param}{at}": f"{up} * {two} + {_number(sign / ratio)} * ({down}) * {one}",
    }
    where = " ".join(axes) or "all"
    return [Symmetry(f"hyperbolic {where}", Translation(solution.axis, solution.each), action)]


def _root(a: Fraction) -> Fraction | None:
    above, below = math.isqrt(a.numerator), math.isqrt(a.denominator)
    return Fraction(above, below) if above**2 == a.numerator and below**2 == a.denominator else None


def distinct(names: Sequence[Symmetry], taken: Iterable[str]) -> list[Symmetry]:
    """Give each symmetry a name of its own, adding the parameters that it moves where two would be the same."""
    used = set(taken)
    out = []
    for symmetry in names:
        name = symmetry.name
        if name in used:
            moved = ", ".join(key.partition("[")[0] for key in symmetry.action)
            name = f"{symmetry.name} ({moved})"
        k = 2
        while name in used:
            name, k = f"{symmetry.name} #{k}", k + 1
        used.add(name)
        out.append(Symmetry(name, symmetry.group, symmetry.action))
    return out
