"""Axes that are sums: `3*head*k`, `head*3*k`, `(head+2*group)*k`, `x+h`, and the parts that they divide an array into.

An axis is a product of names, sizes and at most one sum. A sum divides the array into one part for each of its terms,
`2*group` being two of them; so does the first size beside a name, `3*head*k` being `(1+1+1)*head*k`. What the other
factors are says how the parts lie: one after another, or in turns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quotax.artifacts import ArraySpec, AxisFactor, Cut
from quotax.errors import ArchitectureError
from quotax.parts import whole_shape
from quotax.trees import Dim, Tree

Product = tuple[AxisFactor, ...]

_TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|[+*()]")
_NAME = re.compile(r"[A-Za-z_]\w*")

_MOST = 16
"""Parts that sizes divide an array into without being asked."""


@dataclass(frozen=True)
class Sum:
    """A factor of an axis that is a sum of products."""

    terms: tuple[Product, ...]


Factor = AxisFactor | Sum


@dataclass(frozen=True)
class DeclaredArray:
    """An array as the user declares and passes it, and the parts that every stage sees: mostly itself alone."""

    name: str
    axes_text: str
    parts: tuple[ArraySpec, ...]
    labels: tuple[str, ...] = ()
    """The names that the declaration gives the parts."""

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name that occurs, each once."""
        return tuple(dict.fromkeys(axis for spec in self.parts for axis in spec.axis_names))

    @property
    def axes(self) -> tuple[tuple[Factor, ...], ...]:
        """The factors of each axis as it is declared, a sum among them."""
        return tuple(_Reader(token, self.axes_text, self.name).axis() for token in self.axes_text.split())

    @property
    def kernel(self) -> bool:
        """Whether its last axis has a fixed size, as that of a convolution's kernel has."""
        return bool(self.parts[0].axes) and all(isinstance(f, int) for f in self.parts[0].axes[-1])

    def shape(self, sizes: Mapping[str, Dim]) -> tuple[int, ...]:
        """Its shape once every axis has a size."""
        return whole_shape(self.parts[0], sizes)


def declared_array(name: str, text: str, owner: str, labels: Sequence[str] | None = None) -> DeclaredArray:
    """The array that these axes declare; `labels` are the names of its parts."""
    axes = [_Reader(token, text, owner).axis() for token in text.split()]
    parts = tuple(_parts(name, axes, (), text, owner, labels))
    return DeclaredArray(name, " ".join(text.split()), parts, tuple(labels or ()))


def _parts(
    name: str,
    axes: list[tuple[Factor, ...]],
    cuts: tuple[Cut, ...],
    text: str,
    owner: str,
    labels: Sequence[str] | None,
) -> list[ArraySpec]:
    place = next((i for i, axis in enumerate(axes) if any(isinstance(f, Sum) for f in axis)), None)
    if place is None:
        sized = ((i, _size_of(axis)) for i, axis in enumerate(axes) if any(isinstance(f, str) for f in axis))
        fits = lambda size: size is not None and (labels is not None or _count(cuts) * size <= _MOST)
        place = next((i for i, size in sized if fits(size)), None)
    stacked = False
    if place is None and labels is not None:
        place = next((i for i, axis in enumerate(axes) if axis == (len(labels),)), None)
        stacked = True
    if place is None:
        if labels is not None:
            raise ArchitectureError(
                f"`architecture`: parts names {' '.join(labels)} of {name!r}, but none of its axes {text!r} is a sum, "
                f"has a size beside a name or is of size {len(labels)}; declare one, as in '{len(labels)}*k'."
            )
        return [ArraySpec(name, tuple(_plain(axis) for axis in axes), cuts=cuts)]
    before, pieces, after = _divided(axes[place])
    if labels is not None and len(labels) != len(pieces):
        raise ArchitectureError(
            f"`architecture`: parts names {len(labels)} parts of {name!r}, {' '.join(labels)}, but its axes {text!r} "
            f"have {len(pieces)}."
        )
    specs = []
    for index, piece in enumerate(pieces):
        cut = Cut(place - len(axes), pieces, index, before, after, stacked)
        left = [] if stacked else [(*before, *piece, *after) or (1,)]
        label = labels[index] if labels is not None else str(index)
        inner = [*axes[:place], *left, *axes[place + 1 :]]
        specs += _parts(f"{name}.{label}", inner, (*cuts, cut), text, owner, None)
    return specs


def _count(cuts: tuple[Cut, ...]) -> int:
    return math.prod(len(cut.pieces) for cut in cuts)


def _size_of(axis: tuple[Factor, ...]) -> int | None:
    """The first size among the factors that is more than one."""
    return next((f for f in axis if isinstance(f, int) and f > 1), None)


def _plain(axis: tuple[Factor, ...]) -> Product:
    return tuple(f for f in axis if not isinstance(f, Sum))


def _divided(axis: tuple[Factor, ...]) -> tuple[Product, tuple[Product, ...], Product]:
    """What comes before the parts, the parts, what comes after."""
    sums = [i for i, f in enumerate(axis) if isinstance(f, Sum)]
    place = sums[0] if sums else next(i for i, f in enumerate(axis) if isinstance(f, int) and f > 1)
    divisor = axis[place]
    pieces = divisor.terms if isinstance(divisor, Sum) else ((),) * int(divisor)
    return _plain(axis[:place]), pieces, _plain(axis[place + 1 :])


class _Reader:
    """One axis, read from the left."""

    def __init__(self, token: str, text: str, owner: str) -> None:
        self.token, self.text, self.owner = token, text, owner
        self.words = _TOKEN.findall(token)
        if "".join(self.words) != token:
            wrong = next((f for f in re.split(r"[+*()]", token) if not (f.isdecimal() or _NAME.fullmatch(f))), token)
            self.refuse(wrong)
        self.words.append("")

    def axis(self) -> tuple[Factor, ...]:
        terms = self.sum()
        if self.words[0]:
            self.refuse(self.words[0])
        factors = terms[0] if len(terms) == 1 else (self.folded(terms),)
        if sum(isinstance(f, Sum) for f in factors) > 1:
            raise ArchitectureError(
                f"{self.owner} = {self.text!r}: the axis {self.token!r} has more than one sum; write one."
            )
        return factors

    def sum(self) -> list[tuple[Factor, ...]]:
        terms = [self.product()]
        while self.words[0] == "+":
            self.words.pop(0)
            terms.append(self.product())
        return terms

    def product(self) -> tuple[Factor, ...]:
        factors = [*self.factor()]
        while self.words[0] == "*":
            self.words.pop(0)
            factors += self.factor()
        return tuple(factors)

    def factor(self) -> tuple[Factor, ...]:
        word = self.words.pop(0)
        if word == "(":
            terms = self.sum()
            if self.words.pop(0) != ")":
                self.refuse(self.token)
            return terms[0] if len(terms) == 1 else (self.folded(terms),)
        if word.isdecimal() and int(word) > 0:
            return (int(word),)
        if _NAME.fullmatch(word):
            return (word,)
        return self.refuse(word)

    def folded(self, terms: list[tuple[Factor, ...]]) -> Sum:
        """The terms, `2*group` as two; a size alone is so many of one."""
        out: list[Product] = []
        for term in terms:
            if any(isinstance(f, Sum) for f in term):
                raise ArchitectureError(
                    f"{self.owner} = {self.text!r}: the axis {self.token!r} has a sum inside a sum; "
                    "write its terms out."
                )
            plain = _plain(term)
            size = _size_of(plain)
            place = plain.index(size) if size is not None else 0
            rest = plain if size is None else (*plain[:place], *plain[place + 1 :])
            out += [tuple(f for f in rest if f != 1)] * (size or 1)
        return Sum(tuple(out))

    def refuse(self, word: str) -> Tree:
        raise ArchitectureError(
            f"{self.owner} = {self.text!r}: {word!r} is neither an axis name nor a positive size. "
            "Separate axes by blanks and fuse two with '*', as in 'head*k x'."
        )
