"""What each family does for the canonical representative, decided from terms and sizes alone."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from quotax.geometry.canonical.acting import Elements, shift_to_slice
from quotax.geometry.families.component import Component, components
from quotax.geometry.families.roles import clashes, hopeless, is_linear, is_shift, one_sided, uninformative
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named


@dataclass(frozen=True)
class Gauge:
    """What each family does for the canonical representative.

    `shifts` are removed in order; `parts` hold the linear families, without the parameters that say nothing about a
    family's canonical form; `characters` are the families with a one-sided action, with the sign of it; `unsettled`
    are the families for which there is no canonical form.
    """

    shifts: tuple[Family, ...]
    parts: tuple[Component, ...]
    characters: Mapping[str, int]
    excluded: frozenset[str]
    unsettled: Mapping[str, str]

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.shifts, self.parts, self.excluded))

    def __hash__(self) -> int:
        """Computed once, because every call of a compiled program asks for it."""
        return self._hash

    @property
    def linear(self) -> tuple[Family, ...]:
        """The families with a moment."""
        return tuple(family for part in self.parts for family in part.families)

    @property
    def balanced(self) -> bool:
        """Whether the canonical representative is the least norm, for generic parameters."""
        return not (self.characters or self.excluded or self.unsettled)

    @functools.partial(jax.jit, static_argnums=0)
    def shifted(self, arrays: Named) -> tuple[Named, Elements]:
        """The arrays without what the shifts can add, in the parameters that they only shift."""
        elements = {f.name: f.group.identity(f.sizes, jnp.result_type(*arrays.values())) for f in self.shifts}
        for _ in range(2 if len(self.shifts) > 1 else 1):
            for family in self.shifts:
                step = shift_to_slice(family, arrays)
                arrays = family.act(arrays, step)
                elements[family.name] = family.group.compose(elements[family.name], step)
        return arrays, elements


def gauge(families: Sequence[Family], *, unique: bool) -> Gauge:
    """How these families are brought to a canonical representative; decided from their terms and sizes alone.

    `unique` asks for a representative that is unique up to orthogonal elements, as an invariant metric needs: a side
    of a matrix family that cannot fix the element is then left out, and a family that neither side fixes is unsettled.
    Without it the least norm is looked for, whatever its stabiliser.
    """
    continuous = [family for family in families if family.dimension]
    unsettled: dict[str, str] = {}
    shifts = _carriers_first([family for family in continuous if is_shift(family)])
    linear = []
    for family in continuous:
        if is_linear(family):
            linear += [] if family.group.orthogonal else [family]
        elif not is_shift(family):
            unsettled[family.name] = "its generators are neither linear and self-adjoint nor shifts"
    for one, two in clashes(linear):
        unsettled[one.name] = f"it does not commute with {two.name}"
    linear = [family for family in linear if family.name not in unsettled]
    excluded: set[str] = set()
    while True:
        restricted = [family.restricted(lambda t, out=frozenset(excluded): t.target not in out) for family in linear]
        dropped: set[str] = set()
        for family in restricted:
            dropped |= uninformative(family) if unique else set()
        if not dropped:
            break
        excluded |= dropped
    for family in restricted if unique else ():
        if not family.terms or hopeless(family):
            unsettled[family.name] = "its axis is longer than what reads and writes it together can fix"
    kept = [family for family in restricted if family.name not in unsettled]
    characters = {family.name: sign for family in kept if (sign := one_sided(family))}
    return Gauge(tuple(shifts), components(kept), characters, frozenset(excluded), unsettled)


def _carriers_first(shifts: list[Family]) -> list[Family]:
    """The shifts in an order in which none brings back what one before it took out, where there is such an order.

    A shift that a weight carries on (`b1 + t`, `b2 - W2 t`) comes before the shift of what it is carried to.
    """
    onto = lambda f, own: {t.target for t in f.terms or () if (t.kind == "shift") == own}
    ordered: list[Family] = []
    while shifts:
        free = [f for f in shifts if not any(onto(f, True) & onto(g, False) for g in shifts if g is not f)]
        ordered.append((free or shifts)[0])
        shifts = [f for f in shifts if f is not ordered[-1]]
    return ordered
