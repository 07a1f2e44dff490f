"""What the catalogue says of an architecture: its declaration, and facts that are known without deriving them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import sympy as sp

from quotax.presenting import Result
from quotax.symmetry import Group

if TYPE_CHECKING:
    from quotax.declare import Architecture

Sizes = Mapping[str, int]


@dataclass(frozen=True, repr=False)
class Fact(Result):
    """A family: the group with its axis, and the parameters that it moves, blank-separated."""

    group: Group
    moves: str

    @property
    def key(self) -> tuple[Group, frozenset[str]]:
        """What two statements of one family have in common."""
        return self.group, frozenset(self.moves.split())


@dataclass(frozen=True, kw_only=True, repr=False)
class CatalogueEntry(Result):
    """An architecture with the symmetries that it must have.

    Attributes:
        architecture: the declaration.
        families: its continuous symmetries.
        discrete: permutations and sign flips that no continuous family contains.
        orbit: the dimension of a generic orbit, in the axis names, by hand.
        flat: at two assignments of sizes or more, the corank of a float64 Jacobian of all outputs.
        modest: sizes at which the command line measures when none are given: some hundreds or thousands of parameters.
        realistic: sizes of networks that are used, mostly tens or hundreds of thousands of parameters.
        reference: where the architecture, or what is said of it here, was published.
        surplus: why more is flat than the families explain, where that is so.
        fields: what the flat directions are that belong to no family with a finite action, where there are any.
        scope: what is proved of each family.
        ansatz: the fields that are looked for where families leave something unexplained.
    """

    architecture: Architecture
    families: tuple[Fact, ...]
    discrete: tuple[Fact, ...]
    orbit: str
    flat: tuple[tuple[Sizes, int], ...]
    modest: Sizes
    realistic: Sizes
    reference: str
    surplus: str = ""
    fields: str = ""
    scope: str = "every width"
    ansatz: Literal["linear", "affine", "quadratic", "full"] = "affine"

    def orbit_at(self, sizes: Sizes) -> int:
        """The dimension of a generic orbit at these sizes."""
        known = {axis: sp.Integer(size) for axis, size in sizes.items()}
        return int(sp.sympify(self.orbit, locals=known))
