"""`Symmetry`: a group and how its elements move the parameters, as the user writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from quotax.artifacts import ArraySpec, HeldArray
from quotax.errors import SymmetryError
from quotax.symmetry.groups import Group
from quotax.symmetry.infinitesimal import differentiate
from quotax.symmetry.language.parsing import parse_action
from quotax.symmetry.new_entries.general_entries import Entry, degree
from quotax.symmetry.terms import Term, terms
from quotax.trees import AnyArray


@dataclass(frozen=True, init=False)
class Symmetry:
    """A group acting on parameters; a parameter that `action` does not name is fixed.

    All right-hand sides are evaluated at the old parameters, whatever their order. `constants` are arrays of numbers
    that they may read beside the parameters, each with its axes: what the model closes over, `{"m": ("h", mean)}`.

    >>> from quotax.symmetry.groups import PositiveDiagonal
    >>> Symmetry("scale", PositiveDiagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"})
    Symmetry scale: R+^h, W1 -> g @ W1, b1 -> g @ b1, W2 -> W2 @ inv(g)
    """

    name: str
    group: Group
    action: Mapping[str, str]
    constants: tuple[HeldArray, ...] = ()

    def __init__(
        self,
        name: str,
        group: Group,
        action: Mapping[str, str],
        constants: Mapping[str, tuple[str, Any]] | Sequence[HeldArray] = (),
    ) -> None:
        """Check what can be checked without knowing the parameters."""
        if not isinstance(name, str) or not name:
            raise SymmetryError(f"`Symmetry(name, group, action)`: name must be a non-empty string, got {name!r}.")
        if isinstance(group, type) and issubclass(group, Group):
            raise SymmetryError(
                f"`Symmetry({name!r}, ...)`: group must be a group on an axis, "
                f"as in {group.__name__}('h'), got the class."
            )
        if not isinstance(group, Group):
            raise SymmetryError(
                f"`Symmetry({name!r}, ...)`: group must be one of quotax's groups such as GL('h'), got {group!r}."
            )
        if not isinstance(action, Mapping) or not action:
            raise SymmetryError(
                f"`Symmetry({name!r}, ...)`: the action names no parameter; give at least one, "
                f"as in {{'W1': 'g @ W1'}}, got {action!r}."
            )
        for key, text in action.items():
            if not isinstance(key, str) or not isinstance(text, str) or not text.strip():
                raise SymmetryError(
                    f"`Symmetry({name!r}, ...)`: an action maps a parameter to an expression "
                    f"such as 'g @ W1', got {{{key!r}: {text!r}}}."
                )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "group", group)
        object.__setattr__(self, "action", MappingProxyType(dict(action)))
        object.__setattr__(self, "constants", _held(name, constants))

    @classmethod
    def of(
        cls,
        name: str,
        group: Group,
        params: tuple[ArraySpec, ...],
        entries: Mapping[str, Entry],
        constants: Sequence[HeldArray] = (),
    ) -> Symmetry:
        """The symmetry with these entries, each under its key: on `params` nothing is parsed."""
        symmetry = cls(name, group, {key: entry.text for key, entry in entries.items()}, constants)
        symmetry._bound[params] = Action(symmetry, tuple(entries.values()))
        return symmetry

    def renamed(self, name: str, group: Group | None = None) -> Symmetry:
        """The same action under another name; of another group, if one is given, with elements of the same layout."""
        symmetry = Symmetry(name, group or self.group, self.action, self.constants)
        symmetry._bound.update({params: Action(symmetry, own.entries) for params, own in self._bound.items()})
        return symmetry

    @cached_property
    def _bound(self) -> dict[tuple[ArraySpec, ...], Action]:
        return {}

    def bind(self, params: tuple[ArraySpec, ...]) -> Action:
        """The action on these parameters, read once; refused when it does not fit their axes."""
        if params not in self._bound:
            self._bound[params] = self._read(params)
        return self._bound[params]

    def _read(self, params: tuple[ArraySpec, ...]) -> Action:
        owner = f"`Symmetry({self.name!r}, {type(self.group).__name__}({self.group.axis!r}), ...)`"
        axes = {name for spec in params for name in spec.axis_names}
        copies = [("has one copy per index of", axis) for axis in self.group.each_axes]
        for label, axis in (("acts on", self.group.axis), *copies):
            if axis is not None and axis not in axes:
                raise SymmetryError(
                    f"{owner}: the group {label} axis {axis!r}, which no parameter has; "
                    f"the axes are {', '.join(sorted(axes))}."
                )
        taken = [one.name for one in self.constants if any(one.name == spec.name for spec in params)]
        if taken:
            raise SymmetryError(f"{owner}: {taken[0]!r} is a parameter of the model; give the constant another name.")
        readable = (*params, *(one.spec for one in self.constants))
        entries = tuple(
            entry for key, text in self.action.items() for entry in parse_action(key, text, readable, self.group, owner)
        )
        names = [entry.name for entry in entries]
        for entry in entries:
            if any(entry.name == one.name for one in self.constants):
                raise SymmetryError(f"{owner}: {entry.name!r} is a constant, which no action moves.")
            if names.count(entry.name) > 1:
                raise SymmetryError(f"{owner}: the action says twice what becomes of {entry.name!r}.")
        return Action(self, entries)

    def __repr__(self) -> str:
        """Name, group and action on one line."""
        lines = ", ".join(f"{key} -> {text}" for key, text in self.action.items())
        read = f"; numbers: {', '.join(map(repr, self.constants))}" if self.constants else ""
        return f"Symmetry {self.name}: {self.group}, {lines}{read}"

    def __hash__(self) -> int:
        """By value, as equality is."""
        return hash((self.name, self.group, tuple(self.action.items()), self.constants))

    def __reduce__(self) -> tuple[object, ...]:
        """What it was made of, and what it was read as."""
        return Symmetry, (self.name, self.group, dict(self.action), self.constants), {"_bound": self._bound}


def _held(name: str, constants: Mapping[str, tuple[str, Any]] | Sequence[HeldArray]) -> tuple[HeldArray, ...]:
    """The constants of a symmetry; refused where an array has not the axes that are said, or is not finite."""
    if not isinstance(constants, Mapping):
        return tuple(constants)
    held = []
    for key, given in constants.items():
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)):
            raise SymmetryError(
                f"`Symmetry({name!r}, ...)`: a constant is given with its axes, as in {{'m': ('h', mean)}}, "
                f"got {{{key!r}: {given!r}}}."
            )
        axes, values = given[0].split(), np.asarray(given[1], np.float64)
        if values.ndim != len(axes) or not np.isfinite(values).all():
            raise SymmetryError(
                f"`Symmetry({name!r}, ...)`: the constant {key!r} has the axes {given[0]!r} and the shape "
                f"{values.shape}; it must have one dimension for each, and finite numbers."
            )
        factors = tuple((int(axis) if axis.isdigit() else axis,) for axis in axes)
        held.append(HeldArray.of(ArraySpec(key, factors), values))
    return tuple(held)


@dataclass(frozen=True)
class Action:
    """A symmetry bound to the parameters of a model: one entry per parameter that moves."""

    symmetry: Symmetry
    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """The symmetry's name."""
        return self.symmetry.name

    @property
    def group(self) -> Group:
        """The symmetry's group."""
        return self.symmetry.group

    @property
    def moved(self) -> tuple[str, ...]:
        """The parameters that it moves."""
        return tuple(entry.name for entry in self.entries)

    @property
    def constants(self) -> tuple[HeldArray, ...]:
        """The arrays of numbers that its formulas read beside the parameters."""
        return self.symmetry.constants

    @cached_property
    def named(self) -> frozenset[str]:
        """The names in its formulas: among them those of all parameters that it moves or reads."""
        return frozenset(self.moved).union(*(entry.named for entry in self.entries))

    @cached_property
    def projectors(self) -> tuple[str, ...]:
        """The names of the projectors onto kernels in its formulas."""
        return tuple(sorted(frozenset().union(*(entry.projectors for entry in self.entries))))

    def of_subgroup(self, group: Group) -> Action:
        """The same formulas for the elements of a subgroup, which have the same layout."""
        return Action(Symmetry(self.name, group, self.symmetry.action, self.constants), self.entries)

    def __getstate__(self) -> dict[str, AnyArray]:
        """Without what follows from the entries."""
        return {"symmetry": self.symmetry, "entries": self.entries}

    @cached_property
    def affine(self) -> bool:
        """Whether the action is affine in the parameters, by its formula: lines go to lines."""
        return all(degree(entry.expression) <= 1 for entry in self.entries)

    @cached_property
    def infinitesimal(self) -> tuple[Entry, ...]:
        """The derivative of every entry at the identity, along `xi`; empty for a discrete group."""
        return self.slopes if self.group.continuous else ()

    @cached_property
    def slopes(self) -> tuple[Entry, ...]:
        """The derivative of every entry where `g` leaves the identity by any array at all, in the algebra or not."""
        return tuple(differentiate(entry, self.group) for entry in self.entries)

    @cached_property
    def terms(self) -> tuple[Term, ...] | None:
        """The infinitesimal action as bilinear terms, or nothing when it is not made of such terms only."""
        return None if self.constants else terms(self.infinitesimal)

    @cached_property
    def touches(self) -> tuple[Term, ...] | None:
        """Where an element acts, as the terms of `slopes`: of a discrete group too."""
        return self.terms if self.group.continuous or self.constants else terms(self.slopes)
