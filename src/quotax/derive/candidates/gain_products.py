r"""Gains: arrays along an axis that others are multiplied by, and the products of them that others are seen through.

In $U (s\, (g\, n))$ a reader sees `n` through $g\,s$, and so what turns `n` turns $U' = U g s$, which the scalings
$(g, s) \mapsto (c\, g, s / c)$ and $(s, U) \mapsto (c\, s, U / c)$ do not move. Products are read off from that: with
$t \mapsto c^{m_t} t$ for every scaling, $t \prod_v v^{k_v}$ is left alone where $m_t + \sum_v k_v m_v = 0$.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import sympy as sp

from quotax.artifacts import ArraySpec

Product = tuple[tuple[str, int], ...]
"""A product of powers of arrays; the empty one is one."""

Products = Mapping[tuple[str, int], Sequence[Product]]
"""By the name of an array and the place of an axis, products of two and more that it may be seen through."""

Scaling = Mapping[tuple[str, tuple[int, ...]], Fraction]
"""The powers of one factor that arrays are multiplied by, by their names and the places where it acts."""

_MOST = 3
"""So many gains in one product."""


def narrow(specs: Sequence[ArraySpec], axis: str) -> list[ArraySpec]:
    """Arrays that may be gains along an axis: vectors, or one for each index of axes that some larger array has too."""
    larger = lambda own: any(set(own) < set(other.factors) for other in specs)
    once = [s for s in specs if axis in s.factors and len(set(s.factors)) == len(s.factors)]
    return [s for s in once if s.factors == (axis,) or larger(s.factors)]


def gains_of(specs: Sequence[ArraySpec], target: ArraySpec, place: int) -> list[str]:
    """The gains that an array may be multiplied by along one of its axes."""
    axis, others = target.factors[place], [f for k, f in enumerate(target.factors) if k != place]
    fits = lambda own: all(others.count(f) == 1 for f in own if f != axis)
    return [v.name for v in narrow(specs, str(axis)) if v.name != target.name and fits(v.factors)]


def products(
    specs: Sequence[ArraySpec], axes: Sequence[str], scalings: Sequence[Scaling]
) -> dict[tuple[str, int], list[Product]]:
    """What scalings by a factor for each index of these axes leave alone, in products with gains along the last one."""
    group = {s.name: s.factors for s in narrow(specs, axes[-1]) if set(s.factors) == set(axes)}
    at = {name: tuple(own.index(axis) for axis in axes) for name, own in group.items()}
    places = dict.fromkeys(where for own in scalings for where in own)
    found: dict[tuple[str, int], list[Product]] = {}
    for name, where in places:
        rows = _connected(scalings, (name, where))
        near = [v for v in group if v != name and any((v, at[v]) in row for row in rows)]
        wanted = [row.get((name, where), Fraction(0)) for row in rows]
        own = found.setdefault((name, where[-1]), [])
        for count in range(1, _MOST + 1):
            for chosen in itertools.combinations(near, count):
                if any({v for v, _ in product} <= set(chosen) for product in own):
                    continue
                powers = _powers([[row.get((v, at[v]), Fraction(0)) for v in chosen] for row in rows], wanted)
                if powers is not None and any(wanted):
                    own.append(tuple(zip(chosen, powers, strict=True)))
    return {where: several for where, own in found.items() if (several := [p for p in own if len(p) > 1])}


def within(product: Product) -> list[Product]:
    """The products of some of its factors, but not of all."""
    return [part for n in range(1, len(product)) for part in itertools.combinations(product, n)]


def inverse(product: Product) -> Product:
    """One over it."""
    return tuple((name, -power) for name, power in product)


def _connected(scalings: Sequence[Scaling], place: tuple[str, tuple[int, ...]]) -> list[Scaling]:
    """The scalings that move something at this place, or something that such a one moves."""
    reached, rows = {place}, list[Scaling]()
    while more := [row for row in scalings if row not in rows and reached & set(row)]:
        rows += more
        reached |= set[tuple[str, tuple[int, ...]]]().union(*more)
    return rows


def _powers(matrix: Sequence[Iterable[Fraction]], wanted: Sequence[Fraction]) -> list[int] | None:
    """Whole numbers `k`, none of them zero, with `matrix k = -wanted`, where there is one way."""
    rows = [
        [sp.Rational(x.numerator, x.denominator) for x in (*row, -b)] for row, b in zip(matrix, wanted, strict=True)
    ]
    reduced, pivots = sp.Matrix(rows).rref()
    unknown = len(rows[0]) - 1
    if list(pivots) != list(range(unknown)):
        return None
    powers = [reduced[k, unknown] for k in range(unknown)]
    return [int(p) for p in powers] if all(p.is_integer and p != 0 for p in powers) else None
