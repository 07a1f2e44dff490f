r"""What is flat at a point beside the orbits, and which parameters occur together in it.

With $N$ what all derivatives send to zero at $\theta$ and $O \subseteq N$ what the families point along, every field
that leaves the model unchanged has its value at $\theta$ in $N$, so that $N / O$ is all that is left to look for, and
nothing is where $N = O$. For a set of arrays $S$ let $N_S \subseteq N$ be what moves no other array. A set is minimal
when $N_S$ is not within $O$ (and what was explained before) and that of no smaller set is: it is found by leaving out
one array after the other. Minimal sets are found until they explain $N$, and those that share an array are connected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.derive.points.exact_jacobian import ExactJacobian
from quotax.derive.sampling import modular
from quotax.interpret.jets.residues import PRIME

Names = tuple[str, ...]


@dataclass(frozen=True)
class Unexplained:
    """How many flat directions no orbit explains, and the minimal sets of parameters that move along them."""

    count: int
    sets: tuple[Names, ...]

    @property
    def connected(self) -> tuple[Names, ...]:
        """The sets, those that share a parameter as one."""
        groups: list[set[str]] = []
        for own in map(set, self.sets):
            meeting = [g for g in groups if g & own]
            groups = [*(g for g in groups if not g & own), own.union(*meeting)]
        return tuple(tuple(sorted(g)) for g in groups)


def unexplained(
    specs: Sequence[ArraySpec], shapes: Sequence[tuple[int, ...]], here: ExactJacobian, known: np.ndarray
) -> Unexplained:
    """What is flat beside the rows of `known`, fields at the point."""
    ends = np.cumsum([int(np.prod(shape, dtype=np.int64)) for shape in shapes])
    columns = {
        spec.name: np.arange(end - int(np.prod(shape, dtype=np.int64)), end)
        for spec, shape, end in zip(specs, shapes, ends, strict=True)
    }
    rest = FlatClasses(here.flat, known)
    largest = sorted(columns, key=lambda name: -len(columns[name]))
    sets: list[Names] = []
    while rest.left:
        found, kept = rest, set(columns)
        for name in largest:
            smaller = found.without(columns[name])
            if smaller.left:
                found, kept = smaller, kept - {name}
        sets.append(tuple(name for name in columns if name in kept))
        rest = rest.beside(found)
    return Unexplained(FlatClasses(here.flat, known).left, tuple(sets))


class FlatClasses:
    """Directions `rows`, each with its class (`of`) modulo what is explained."""

    def __init__(self, rows: np.ndarray, known: np.ndarray | None = None, of: np.ndarray | None = None) -> None:
        """The classes modulo `known`, fields that the rows span, are found by elimination."""
        self.rows = rows
        if of is None:
            assert known is not None
            pivots = (known != 0).argmax(axis=1) if len(known := modular.echelon(known)) else np.zeros(0, np.int64)
            rest = (rows - modular.product(rows[:, pivots], known)) % PRIME
            basis = modular.echelon(rest)
            of = rest[:, (basis != 0).argmax(axis=1)] if len(basis) else np.zeros((len(rows), 0), np.int64)
        self.of = of

    @property
    def left(self) -> int:
        """How many independent classes."""
        return modular.rank(self.of)

    def without(self, columns: np.ndarray) -> FlatClasses:
        """The directions that do not move these entries."""
        kept = modular.nullspace(np.ascontiguousarray(self.rows[:, columns].T))
        return FlatClasses(modular.product(kept, self.rows), of=modular.product(kept, self.of))

    def beside(self, explained: FlatClasses) -> FlatClasses:
        """The same directions, modulo those explained too."""
        basis = modular.echelon(explained.of)
        pivots = (basis != 0).argmax(axis=1)
        rest = (self.of - modular.product(self.of[:, pivots], basis)) % PRIME
        return FlatClasses(self.rows, of=np.delete(rest, pivots, axis=1))
