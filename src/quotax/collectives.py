"""What devices send one another in a program: the collectives of its compiled text, with their sizes.

XLA decides how arrays that are split over devices are brought together. What it decided is in the text of the compiled
program, one line for each collective; bytes are those of the result on one device. A line in the body of a loop runs
as often as the loop does, and one in a branch if that is taken: both are counted once, and said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from quotax.presenting import Result
from quotax.presenting.tables import table
from quotax.trees import Tree

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")
_LINE = re.compile(rf"^\s*(?:ROOT )?%?[\w.-]+ = (.*?) ({'|'.join(KINDS)})(-start)?\(")
_SHAPE = re.compile(r"(\w+)\[([\d,]*)\]")
_WHERE = re.compile(r'op_name="([^"]*)"')
_BITS = re.compile(r"[a-z]+(\d+)")


@dataclass(frozen=True, repr=False)
class Collective(Result):
    """One exchange: its kind, the bytes of its result on one device, the shapes, and the operation it was made for."""

    kind: str
    bytes: int
    shapes: tuple[str, ...]
    operation: str

    @property
    def repeated(self) -> bool:
        """Whether it is in the body of a loop."""
        return "while/" in self.operation

    @property
    def conditional(self) -> bool:
        """Whether it is in a branch."""
        return "branch_" in self.operation


@dataclass(frozen=True, repr=False)
class Collectives(Result):
    """The exchanges of one program, the largest first."""

    found: tuple[Collective, ...]

    _also = ("total",)

    def __iter__(self) -> Iterator[Collective]:
        """Each of them."""
        return iter(self.found)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.found)

    @property
    def total(self) -> int:
        """The bytes of all of them, each counted once."""
        return sum(one.bytes for one in self.found)

    def largest(self, *kinds: str) -> int:
        """The bytes of the largest of these kinds, or of any; zero where there is none."""
        return max((one.bytes for one in self.found if not kinds or one.kind in kinds), default=0)

    def _title(self) -> str:
        return f"{len(self)} collectives, {self.total:,} bytes on each device"

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        often = lambda one: "each step" if one.repeated else "at most once" if one.conditional else "once"
        return ("kind", "bytes", "shapes", "runs", "for"), [
            (one.kind, f"{one.bytes:,}", " ".join(one.shapes[:3]), often(one), one.operation.rpartition("/")[2])
            for one in self.found
        ]

    def __str__(self) -> str:
        """A table."""
        return "\n".join([self._title(), *([table(*self._rows(), rule=False)] if self.found else [])])


def collectives(function: Callable[..., Tree], *arguments: Tree) -> Collectives:
    """What devices send one another when `function(*arguments)` runs as one program, compiled and not run.

    Arrays lie where they are put before: `params = space.shard(params, mesh)`. What is called outside of `jit` may
    be several programs, between which the host decides; inside of one it is what is listed here.

    Example:
        >>> import jax.numpy as jnp
        >>> collectives(lambda x: x @ x, jnp.ones((4, 4)))
        Collectives(total=0)
    """
    return read(jax.jit(function).lower(*arguments).compile().as_text() or "")


def read(text: str) -> Collectives:
    """The collectives in the text of a compiled program."""
    found = []
    for line in text.splitlines():
        if one := _LINE.match(line):
            shapes, kind, started = one.groups()
            where = _WHERE.search(line)
            kept = _results(_SHAPE.findall(shapes), kind) if started else _SHAPE.findall(shapes)
            texts = tuple(f"{dtype}[{shape}]" for dtype, shape in kept)
            found.append(Collective(kind, sum(map(_bytes, kept)), texts, where[1] if where else ""))
    return Collectives(tuple(sorted(found, key=lambda one: -one.bytes)))


def _results(shapes: list[tuple[str, str]], kind: str) -> list[tuple[str, str]]:
    """Of an exchange that is started and awaited elsewhere, which names what it is given before its results."""
    if kind == "all-reduce":
        return shapes
    arrays = [shape for shape in shapes if shape[1] or not shape[0].startswith("u")]  # and numbers of its own
    return arrays[len(arrays) // 2 :]


def _bytes(shape: tuple[str, str]) -> int:
    dtype, dimensions = shape
    bits = _BITS.match(dtype)
    size = int(bits[1]) / 8 if bits else jnp.dtype(bool).itemsize
    return math.ceil(size * math.prod(int(n) for n in dimensions.split(",") if n))
