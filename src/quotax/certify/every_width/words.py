"""Laws in words, for proofs and for messages."""

from __future__ import annotations

from collections.abc import Mapping

from quotax.kernel.indices import Affine, Fixed, Free, Index, Pair
from quotax.kernel.polynomials import Algebra, Factor, Poly
from quotax.kernel.sizes import Size
from quotax.kernel.transformation import Law


def law_text(algebra: Algebra, law: Law | None) -> str:
    """For example `g T`, `g^-1 T + (a shift)`, `T`."""
    if law is None:
        return "something that is no multiple of itself plus a shift"
    words = []
    if law.coefficient != 1:
        words.append("-" if law.coefficient == -1 else str(law.coefficient))
    words += [factor_text(algebra, f) for f in law.scale]
    for _, word, end in law.matrices:
        words += [algebra.atoms[f.atom].name + ("ᵀ" if f.at[-2] == end else "") for f in word]
    text = " ".join([*words, "T"])
    return f"{text} + (a shift)" if law.shift else text


def factor_text(algebra: Algebra, factor: Factor) -> str:
    """An entry and its power."""
    number, _, power = factor
    name = algebra.atoms[number].name
    return name if power == 1 else f"{name}^{power}"


def poly_text(algebra: Algebra, poly: Poly, axes: Mapping[Size, str], most: int = 4) -> str:
    """A polynomial in index notation, its first terms only."""
    terms = []
    for term, coefficient in list(poly.items())[:most]:
        sign = "-" if coefficient < 0 else "+"
        size = "" if abs(coefficient) == 1 and term else f"{abs(coefficient)} "
        factors = []
        for number, at, power in term:
            inside = ",".join(index_text(i, axes) for i in at)
            name = algebra.atoms[number].name + (f"[{inside}]" if inside else "")
            factors.append(name if power == 1 else f"{name}^{power}")
        terms.append(f"{sign} {size}{' '.join(factors)}".rstrip())
    more = f" + {len(poly) - most} more terms" if len(poly) > most else ""
    return (" ".join(terms).removeprefix("+ ") + more) if terms else "0"


def index_text(index: Index, axes: Mapping[Size, str]) -> str:
    """An index by the name of its axis; summed ones are numbered."""
    if isinstance(index, Pair):
        return f"({index_text(index.outer, axes)},{index_text(index.inner, axes)})"
    if isinstance(index, Fixed):
        return str(index.position)
    if isinstance(index, Affine):
        stride = "" if index.stride == 1 else "-" if index.stride == -1 else f"{index.stride} "
        return f"{index.start} + {stride}{index_text(index.of, axes)}"
    name = axes.get(index.extent, "i")
    return name if isinstance(index, Free) else f"{name}{index.number + 1}"
