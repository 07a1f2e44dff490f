"""A symmetry at sizes: what `lower` makes of an action, and all that the geometry knows of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from quotax.artifacts import ArraySpec
from quotax.symmetry.groups import Group
from quotax.symmetry.symmetry import Action
from quotax.symmetry.terms import Term
from quotax.trees import AnyArray


class Programs(NamedTuple):
    """How a family runs: functions of the family, of named arrays, and of an element of its group or algebra."""

    act: Callable[[Family, Mapping[str, AnyArray], AnyArray], dict[str, AnyArray]]
    field: Callable[[Family, Mapping[str, AnyArray], AnyArray], dict[str, AnyArray]]


@dataclass(frozen=True)
class Family:
    """A symmetry of a network of stated sizes; compared by value, so that what is compiled for one serves its equals.

    Attributes:
        extents: the sizes of the axes.
        specs: the parameters' axes.
        terms: the bilinear terms of its field that are looked at; nothing when the field has another form.
        origin: the action that it was made from; nothing where only the terms are left.
        programs: how the action runs.
    """

    name: str
    group: Group
    extents: tuple[tuple[str, int], ...]
    specs: tuple[ArraySpec, ...]
    moved: tuple[str, ...]
    terms: tuple[Term, ...] | None
    origin: Action | None = None
    programs: Programs | None = None

    @classmethod
    def of(
        cls, action: Action, specs: tuple[ArraySpec, ...], sizes: Mapping[str, int], programs: Programs | None
    ) -> Family:
        """The whole of an action."""
        return cls(action.name, action.group, tuple(sizes.items()), specs, action.moved, action.terms, action, programs)

    @property
    def action(self) -> Action:
        """The action as the user wrote it, bound to the parameters."""
        assert self.origin is not None
        return self.origin

    @functools.cached_property
    def sizes(self) -> Mapping[str, int]:
        """The axis sizes."""
        return dict(self.extents)

    @functools.cached_property
    def splits(self) -> Mapping[str, tuple[int, ...]]:
        """The parameters' shapes as `terms` index them, fused axes apart."""
        return {spec.name: spec.split_shape(self.sizes) for spec in self.specs}

    @functools.cached_property
    def dimension(self) -> int:
        """The dimension of the group."""
        return self.group.dimension(self.sizes)

    def act(self, arrays: Mapping[str, AnyArray], g: AnyArray) -> dict[str, AnyArray]:
        """The parameters moved by `g`: by the whole action, whichever terms are looked at."""
        assert self.programs is not None
        return self.programs.act(self, arrays, g)

    def field(self, arrays: Mapping[str, AnyArray], xi: AnyArray) -> dict[str, AnyArray]:
        """The velocity along `xi` of the parameters that the whole action moves; linear in `xi`."""
        assert self.programs is not None
        return self.programs.field(self, arrays, xi)

    def restricted(self, kept: Callable[[Term], bool]) -> Family:
        """The family of which only some terms are looked at."""
        terms = tuple(filter(kept, self.terms or ()))
        return replace(self, terms=terms, moved=tuple(dict.fromkeys(term.target for term in terms)))

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.name, self.group, self.extents, self.specs, self.moved, self.terms, self.origin))

    def __getstate__(self) -> dict[str, AnyArray]:
        """Without what follows from the fields: hashes of names differ from one process to the next."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __hash__(self) -> int:
        """By value, as equality is; computed once, because every call of a compiled program asks for it."""
        return self._hash
