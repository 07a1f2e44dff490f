"""Laws in words, for proofs and for messages."""

from __future__ import annotations

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws.algebra import Algebra, Factor, Poly
from quotax.interpret.laws.tensors import Law


def law_text(algebra: Algebra, law: Law | None) -> str:
    """For example `g T`, `g^-1 T + shift`, `T`."""
    if law is None:
        return "something that is no multiple of itself plus a shift"
    words = []
    if law.coefficient != 1:
        words.append("-" if law.coefficient == -1 else str(law.coefficient))
    words += [factor_text(algebra, f) for f in law.scale]
    for _, word, end in law.matrices:
        words += [algebra.atoms[f[0]].name + ("ᵀ" if f[1][-2] == end else "") for f in word]
    text = " ".join([*words, "T"])
    return f"{text} + (a shift)" if law.shift else text


def factor_text(algebra: Algebra, factor: Factor) -> str:
    """An entry and its power."""
    number, _, power = factor
    name = algebra.atoms[number].name
    return name if power == 1 else f"{name}^{power}"


def poly_text(algebra: Algebra, poly: Poly, axes: dict[tuple[int, ...], str], most: int = 4) -> str:
    """A polynomial in index notation, its first terms only."""
    terms = []
    for term, coefficient in list(poly.items())[:most]:
        sign = "-" if coefficient < 0 else "+"
        size = "" if abs(coefficient) == 1 and term else f"{abs(coefficient)} "
        factors = []
        for number, at, power in term:
            inside = ",".join(_index_text(i, axes) for i in at)
            name = algebra.atoms[number].name + (f"[{inside}]" if inside else "")
            factors.append(name if power == 1 else f"{name}^{power}")
        terms.append(f"{sign} {size}{' '.join(factors)}".rstrip())
    more = f" + {len(poly) - most} more terms" if len(poly) > most else ""
    return (" ".join(terms).removeprefix("+ ") + more) if terms else "0"


def _index_text(index: ix.Index, axes: dict[tuple[int, ...], str]) -> str:
    if index[0] == ix.PAIR:
        return f"({_index_text(index[1], axes)},{_index_text(index[2], axes)})"
    if index[0] == ix.FIXED:
        return str(index[1])
    name = axes.get(index[2], "i")
    return name if index[0] == ix.FREE else f"{name}{index[1] + 1}"
