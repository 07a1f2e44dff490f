"""Atoms: the tensors that polynomials are made of, one final class for each way in which one is made.

Whoever asks what an atom is matches on its class; where every class has to be treated, the match ends in
`assert_never`, so that a new class is not forgotten there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypedDict, Unpack, final

import numpy as np
import sympy as sp

from quotax.kernel.indices import Free, Index
from quotax.kernel.sizes import ZERO, Size

Exact = int | Fraction
"""A power, or a coefficient."""


class Factor(NamedTuple):
    """A power of one entry of an atom."""

    atom: int
    at: tuple[Index, ...]
    power: Exact


Term = tuple[Factor, ...]
Poly = dict[Term, Fraction]


@dataclass(frozen=True)
class Extreme:
    """How a reduction that is no sum behaves: it is one law for every list of numbers.

    Attributes:
        scale: "same" when a positive factor comes out of it, "none" when it changes nothing, None when neither.
        shift: whether a shift of all entries comes out of it (True) or changes nothing (False); None: neither.
        ordered: whether the order of the entries matters.
        follows: whether the result is a place among the entries, and moves with them when they are permuted.
    """

    scale: str | None = "same"
    shift: bool | None = True
    ordered: bool = False
    follows: bool = False


@dataclass(frozen=True)
class Function:
    """A function of the entries at one place: a SymPy expression in `symbols`.

    `law` says how it behaves in its first argument where no formula does: a mask is a value or an infinity.
    """

    expression: sp.Expr
    symbols: tuple[sp.Symbol, ...]
    name: str
    law: Extreme | None = None


# --- given: by the model, by its inputs, by the group


@final
@dataclass(frozen=True)
class Parameter:
    """A parameter of the model."""


@final
@dataclass(frozen=True)
class Input:
    """An input of real numbers or of truth values."""


@final
@dataclass(frozen=True)
class TokenInput:
    """An input of integers from 0 to below `below`."""

    below: Size


@final
@dataclass(frozen=True)
class Matrix:
    """The group element or its inverse, as matrices."""


@final
@dataclass(frozen=True)
class Scalar:
    """The entries of a group element that is no matrix, or numbers that its matrix is made of."""


# --- numbers


@final
@dataclass(frozen=True)
class Delta:
    """`[i = j]` for two indices of one extent."""


@final
@dataclass(frozen=True)
class Ramp:
    """`0, 1, 2, ...`."""


@final
@dataclass(frozen=True)
class Order:
    """`[i <= j]` for two places of one extent."""


@final
@dataclass(frozen=True)
class Window:
    """`[base * entry = stride * at + dilation * tap - low]` in the slots at, tap, entry."""

    stride: int
    dilation: int
    low: Size
    base: int

    @property
    def whole(self) -> bool:
        """Whether a window of one tap reads every entry at its own place."""
        return self.stride == 1 and self.low == ZERO and self.base == 1


@final
@dataclass(frozen=True)
class Constant:
    """An array of numbers."""

    array: np.ndarray


@final
@dataclass(frozen=True)
class Rational:
    """A positive rational, of which roots are taken."""

    value: Fraction


@final
@dataclass(frozen=True)
class Real:
    """A real number that is no rational; None for one of which nothing is known."""

    value: sp.Expr | None


@final
@dataclass(frozen=True)
class Infinite:
    """An infinity, or an array of numbers with infinities among them."""

    value: float | np.ndarray


@final
@dataclass(frozen=True)
class Extent:
    """The value of a symbol that sizes are made of."""

    symbol: str


# --- made of other atoms


@final
@dataclass(frozen=True)
class NamedSum:
    """A polynomial in the slots."""

    poly: Poly


@final
@dataclass(frozen=True)
class Exponential:
    """The exponential of a polynomial in the slots."""

    poly: Poly


@final
@dataclass(frozen=True)
class Magnitude:
    """The absolute value of the atom of this number."""

    of: int


@final
@dataclass(frozen=True)
class Logarithm:
    """The logarithm of the absolute value of the atom of this number."""

    of: int


@final
@dataclass(frozen=True)
class Application:
    """A function of polynomials in the slots; `boolean` says that its value is a truth value."""

    function: Function
    arguments: tuple[Poly, ...]
    boolean: bool


@final
@dataclass(frozen=True)
class Reduction:
    """A function of all entries along `touched` indices (places (1, k)), with new slots behind the others."""

    name: str
    settings: Hashable
    law: Extreme
    touched: tuple[Free, ...]
    new: tuple[Size, ...]
    definition: Poly


@final
@dataclass(frozen=True)
class Selection:
    """`[poly = column]`: a polynomial in all slots but the last, which is the column."""

    poly: Poly


@final
@dataclass(frozen=True)
class Carry:
    """A carry of a loop, which says what it is."""


Given = Parameter | Input | TokenInput | Matrix | Scalar
Number = Delta | Ramp | Order | Window | Constant | Rational | Real | Infinite | Extent
Made = NamedSum | Exponential | Magnitude | Logarithm | Application | Reduction | Selection | Carry
Unmoved = Number | Input | TokenInput
"""What no action moves."""
What = Given | Number | Made


@dataclass(frozen=True, eq=False)
class Atom:
    """One tensor. `sign` is what is known of every entry; `moved` says that it is, or is made of, the group element.

    `rows` lists selections: triples `(rows, columns, total)` of slots such that for each value of the rows at most one
    value of the columns has entry 1 and all others have 0; `total` says that there always is one.
    """

    number: int
    what: What
    name: str
    slots: tuple[Size, ...]
    sign: str = "real"
    moved: bool = False
    rows: tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...] = ()


class Facts(TypedDict, total=False):
    """What is known of an atom: see `Atom`."""

    sign: str
    moved: bool
    rows: tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...]


class Atoms:
    """A supply of atoms: one for each way to make one."""

    def __init__(self, made: Iterable[Atom] = (), known: Mapping[Hashable, Atom] | None = None) -> None:
        """Empty, or with what another supply has made."""
        self.made: list[Atom] = list(made)
        self._known: dict[Hashable, Atom] = dict(known or {})

    def fork(self) -> Atoms:
        """A supply that starts with all that this one has made."""
        return Atoms(self.made, self._known)

    def make(self, key: Hashable, what: What, name: str, slots: Sequence[Size], **facts: Unpack[Facts]) -> Atom:
        """The atom made in this way, made once."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Atom(len(self.made), what, name, tuple(slots), **facts)
            self.made.append(found)
        return found

    def __getitem__(self, number: int) -> Atom:
        """The atom of this number."""
        return self.made[number]
