"""Relations between the sizes of axes: `"d = head*k, f = 4*d, k even"`.

What a relation gives the size of is no size of its own: traces with symbols have the product in its place, so that a
proof speaks of the sizes that fit and of no others. An axis that is even is traced at even sizes alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quotax.artifacts import AxisFactor, completed
from quotax.errors import ArchitectureError

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Relations:
    """What a declaration says of its sizes.

    Attributes:
        products: axis -> the factors of its size, in an order in which what is settled comes before its use.
        even: the axes that are.
    """

    products: Mapping[str, tuple[AxisFactor, ...]] = field(default_factory=dict)
    even: tuple[str, ...] = ()

    @property
    def fixed(self) -> dict[str, int | str]:
        """The products as every stage reads them: `{"D": 8, "d": "head*k"}`."""
        sizes = {axis: "*".join(map(str, factors)) for axis, factors in self.products.items()}
        return {axis: int(size) if size.isdecimal() else size for axis, size in sizes.items()}

    @property
    def text(self) -> str:
        """The relations as a declaration writes them."""
        return ", ".join(
            [*(f"{axis} = {size}" for axis, size in self.fixed.items()), *(f"{a} even" for a in self.even)]
        )

    def completed(self, sizes: Mapping[str, int], call: str) -> dict[str, int]:
        """The sizes with those that the relations give, of either side; refused where they do not fit."""
        out = completed(sizes, self.fixed, call)
        odd = [axis for axis in self.even if out.get(axis, 0) % 2]
        if odd:
            raise ArchitectureError(f"`{call}`: {odd[0]} is declared to be even, and {odd[0]}={out[odd[0]]} is odd.")
        return out


def parse_relations(text: object, axes: Sequence[str]) -> Relations:
    """The relations of a declaration whose axes are these.

    >>> parse_relations("f = 4*d, d = head*k and k even", ["f", "d", "head", "k"]).text
    'd = head*k, f = 4*d, k even'
    """
    if text is None:
        return Relations()
    if not isinstance(text, str):
        raise ArchitectureError(f"`architecture`: where must be a text such as 'd = head*k, k even', got {text!r}.")
    products: dict[str, tuple[AxisFactor, ...]] = {}
    even: list[str] = []
    for clause in re.split(r",|\band\b", text):
        owner = f"`architecture`: where={text!r}: {clause.strip()!r}"
        parity = re.fullmatch(r"\s*([^\W\d]\w*)\s+(?:is\s+)?even\s*", clause)
        if parity is not None:
            even.append(_known(parity[1], axes, owner))
            continue
        sides = re.fullmatch(r"\s*([^\W\d]\w*)\s*=\s*([^=]+)", clause)
        if sides is None:
            raise ArchitectureError(
                f"{owner} is no relation; write one axis on the left and a product on the right, as in 'd = head*k' or "
                "'D = 8', or 'k even', and separate several by commas."
            )
        axis = _known(sides[1], axes, owner)
        if axis in products:
            raise ArchitectureError(f"{owner} gives {axis!r} a second size; each axis has one relation on its left.")
        products[axis] = tuple(_factor(f.strip(), axes, owner) for f in sides[2].split("*"))
    ordered = _ordered(products, text)
    found = Relations(ordered, tuple(dict.fromkeys(even)))
    found.completed({}, f"architecture(..., where={text!r})")
    return found


def _known(name: str, axes: Sequence[str], owner: str) -> str:
    if name not in axes:
        raise ArchitectureError(f"{owner}: {name!r} is no axis; the axes are {', '.join(axes)}.")
    return name


def _factor(text: str, axes: Sequence[str], owner: str) -> AxisFactor:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    if _NAME.fullmatch(text):
        return _known(text, axes, owner)
    raise ArchitectureError(f"{owner}: {text!r} is neither an axis nor a positive size; join factors with '*'.")


def _ordered(products: Mapping[str, tuple[AxisFactor, ...]], text: str) -> dict[str, tuple[AxisFactor, ...]]:
    """What is used comes first; an axis that is used for itself is refused."""
    out: dict[str, tuple[AxisFactor, ...]] = {}
    while len(out) < len(products):
        ready = [a for a in products if a not in out and all(f in out or f not in products for f in products[a])]
        if not ready:
            turning = ", ".join(repr(axis) for axis in products if axis not in out)
            raise ArchitectureError(
                f"`architecture`: where={text!r} gives {turning} a size by itself; begin with an axis that is free."
            )
        out[ready[0]] = products[ready[0]]
    return out
