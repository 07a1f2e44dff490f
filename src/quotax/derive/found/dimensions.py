"""Dimensions in the axis sizes: proposed by the groups, fitted where orbits are smaller, checked elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import sympy as sp

from quotax.artifacts import ArraySpec, settled
from quotax.derive.points.vector_fields import dimensions
from quotax.symmetry import Action, Group

Sizes = dict[str, int]

OVERLAP = sp.Symbol("overlap")
"""What the families' groups have in common, where no formula was found for it: the sum of groups minus the algebra."""
STABILISER = sp.Symbol("stabiliser")
"""What leaves a generic point in place, where no formula was found for it: the algebra minus the orbit."""


def axis_symbol(axis: str) -> sp.Symbol:
    """The symbol that stands for an axis size."""
    return sp.Symbol(axis, integer=True, positive=True)


def group_dimension(group: Group) -> sp.Expr:
    """The dimension of a group, in the axis names."""
    n = axis_symbol(group.axis) if group.axis else sp.S.One
    return sp.Mul(*map(axis_symbol, group.each_axes)) * group.formula(n)


def dimension_formulas(
    actions: Sequence[Action], specs: Sequence[ArraySpec], fixed: Mapping[str, int | str] | None = None
) -> tuple[sp.Expr, sp.Expr]:
    """(algebra, orbit) in the axis names, at sizes of which some are `fixed` by the others.

    The sum of the groups' dimensions is tried first. Where a count disagrees, a polynomial is fitted at several sizes
    and must predict a size that was not used; a piecewise answer says on which side of the other axes each polynomial
    holds. `nan` says that no polynomial was found.
    """
    if not actions:
        return sp.S.Zero, sp.S.Zero
    proposal = sp.expand(sp.Add(*(group_dimension(a.group) for a in actions)))
    fixed = fixed or {}
    names = [name for spec in specs for name in spec.axis_names]
    names += [f for size in fixed.values() for f in str(size).split("*") if not f.isdecimal()]
    axes = tuple(axis for axis in dict.fromkeys(names) if axis not in fixed)
    acted = tuple(dict.fromkeys(n for a in actions for n in (a.group.axis, *a.group.each_axes) if n))
    even = {a.group.axis for a in actions if a.group.divisor == 2}
    counted: dict[tuple[int, ...], tuple[int, int]] = {}

    def count(sizes: Sizes) -> tuple[int, int]:
        key = tuple(sizes[a] for a in axes)
        if key not in counted:
            counted[key] = dimensions(actions, specs, settled(sizes, fixed))
        return counted[key]

    out: list[sp.Expr] = []
    matrix = tuple(dict.fromkeys(a.group.axis for a in actions if a.group.layout == "matrix" and a.group.axis))
    others = tuple(a for a in axes if a not in acted)
    for which in (0, 1):
        agrees = lambda s, k=which: _at(proposal, settled(s, fixed)) == count(s)[k]
        unknown = out[0] - STABILISER if which else proposal - OVERLAP
        if not all(map(agrees, _within(axes, matrix, others, even))):
            fitted = _fitted(axes, acted, even, lambda s, k=which: count(s)[k])
            out.append(unknown if fitted is None else fitted)
        elif all(map(agrees, _beyond(axes, acted, even))):
            out.append(proposal)
        else:  # larger matrices than their surroundings have stabilisers
            fitted = _fitted(axes, acted, even, lambda s, k=which: count(s)[k])
            if fitted is None:
                pairs = [(a, b) for a in matrix for b in axes if a != b and not agrees(_narrow(axes, a, b, even))]
                small = sp.And(*(axis_symbol(a) <= axis_symbol(b) for a, b in pairs))
                fitted = sp.Piecewise((proposal, small), (unknown, True)) if pairs else unknown
            out.append(fitted)
    return out[0], out[1]


def _at(formula: sp.Expr, sizes: Mapping[str, int]) -> int:
    return int(formula.subs({axis_symbol(a): n for a, n in sizes.items()}))


def _within(axes: Sequence[str], matrix: Sequence[str], others: Sequence[str], even: set) -> list[Sizes]:
    """Sizes at which matrices act on axes no larger than those beside them; none was used to propose a formula."""
    tests = [{a: 2 + (a in others) for a in axes}, {a: 3 + (a in others) for a in axes}]
    tests.append({a: (2 if a in matrix else 4) + (a in others) for a in axes})
    return [{a: n + n % 2 if a in even or (even and a in others) else n for a, n in t.items()} for t in tests]


def _beyond(axes: Sequence[str], acted: Sequence[str], even: set) -> list[Sizes]:
    """Sizes at which an axis that is acted on is larger than those beside it."""
    tests = [{a: 4 if a == big else 2 for a in axes} for big in acted]
    return [{a: n + n % 2 if a in even else n for a, n in t.items()} for t in tests]


def _narrow(axes: Sequence[str], large: str, small: str, even: set) -> Sizes:
    """One axis wider than another, the rest no obstacle."""
    sizes = {a: 2 if a == small else 4 if a == large and even else 3 for a in axes}
    return {a: n + n % 2 if a in even else n for a, n in sizes.items()}


def _fitted(axes: Sequence[str], acted: Sequence[str], even: set, count: Callable[[Sizes], int]) -> sp.Expr | None:
    """A polynomial of degree two, on the whole or on three regions of the acted axis against the others, or None."""
    if len(axes) > 4 or len(acted) != 1 or even or acted[0] not in axes:
        return None
    axis = acted[0]
    others = [a for a in axes if a != axis]
    sizes = [
        dict(zip(axes, values, strict=True))
        for values in itertools.product(range(1, 6 if len(axes) < 3 else 5), repeat=len(axes))
    ]
    h, rest = axis_symbol(axis), [axis_symbol(a) for a in others]
    regions: list[tuple[Callable[[Sizes], bool], object]] = [
        (lambda s: s[axis] >= max(s[a] for a in others), sp.Ge(h, sp.Max(*rest))) if others else (lambda s: True, True),
        (lambda s: s[axis] <= min(s[a] for a in others), sp.Le(h, sp.Min(*rest))) if others else (lambda s: True, True),
        (lambda s: True, True),
    ]
    pieces, left = [], sizes
    for inside, condition in regions:
        whole = _polynomial(left, axes, count)
        if whole is not None:
            pieces.append((whole, True))
            break
        own = [s for s in left if inside(s)]
        formula = _polynomial(own, axes, count)
        if formula is None:
            return None
        pieces.append((formula, condition))
        left = [s for s in left if not inside(s)]
    return sp.Piecewise(*pieces)


def _polynomial(sizes: list[Sizes], axes: Sequence[str], count: Callable[[Sizes], int]) -> sp.Expr | None:
    """The polynomial through all counts, or None; there must be more counts than coefficients."""
    powers = [p for p in itertools.product(range(3), repeat=len(axes)) if sum(p) <= 2]
    if len(sizes) <= len(powers):
        return None
    matrix = np.array(
        [[np.prod([s[a] ** e for a, e in zip(axes, p, strict=True)]) for p in powers] for s in sizes], float
    )
    values = np.array([count(s) for s in sizes], float)
    solution, *_ = np.linalg.lstsq(matrix, values, rcond=None)
    exact = [sp.nsimplify(round(float(c) * 12), rational=True) / 12 for c in solution]
    rounded = matrix @ np.array([float(c) for c in exact])
    if np.abs(rounded - values).max() > 1e-6:
        return None
    return sp.Add(
        *(
            c * sp.Mul(*(axis_symbol(a) ** e for a, e in zip(axes, p, strict=True)))
            for c, p in zip(exact, powers, strict=True)
        )
    )
