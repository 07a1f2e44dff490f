"""Symmetries as plain data, and the text of such data: JSON that people read, a value a line where it fits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from quotax.errors import SymmetryError
from quotax.presenting import Json
from quotax.symmetry import groups
from quotax.symmetry.groups import Group
from quotax.symmetry.symmetry import Symmetry
from quotax.trees import AnyArray

_PUBLIC = {name: getattr(groups, name) for name in groups.__all__}
KINDS: Mapping[str, type[Group]] = {
    name: kind
    for name, kind in _PUBLIC.items()
    if isinstance(kind, type) and issubclass(kind, Group) and kind is not Group
}
"""The groups by name."""


def group_data(group: Group) -> dict[str, Json]:
    """The group's name, and what it is made with.

    >>> group_data(KINDS["GL"]("k", each="head"))
    {'kind': 'GL', 'axis': 'k', 'each': 'head'}
    """
    made = {field.name: getattr(group, field.name) for field in fields(group)}
    return {"kind": type(group).__name__} | {name: value for name, value in made.items() if value is not None}


def group_of(data: Json, where: str) -> Group:
    """The group of such data; `where` begins a refusal."""
    if not isinstance(data, Mapping) or data.get("kind") not in KINDS:
        kind = data.get("kind") if isinstance(data, Mapping) else data
        raise SymmetryError(f"{where}: {kind!r} is no group; those are {', '.join(KINDS)}.")
    kind = KINDS[data["kind"]]
    given = {name: value for name, value in data.items() if name != "kind"}
    known = [field.name for field in fields(kind)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SymmetryError(f"{where}: {kind.__name__} is made with {', '.join(known)}, not with {unknown[0]!r}.")
    try:
        return kind(**given)
    except SymmetryError as error:
        raise SymmetryError(f"{where}: {error}") from None


def symmetry_data(symmetry: Symmetry) -> dict[str, Any]:
    """Name, group and action, and the numbers that the action reads, if it reads any."""
    data = {"name": symmetry.name, "group": group_data(symmetry.group), "action": dict(symmetry.action)}
    held = {one.name: {"axes": one.spec.axes_text, "values": one.values.tolist()} for one in symmetry.constants}
    return data | ({"constants": held} if held else {})


def symmetry_of(data: Json, where: str) -> Symmetry:
    """The symmetry of such data."""
    if not isinstance(data, Mapping) or not {"name", "group", "action"} <= set(data):
        raise SymmetryError(f"{where}: a symmetry has a name, a group and an action, got {data!r}.")
    where = f"{where}, {data['name']!r}"
    try:
        held = {name: (own["axes"], own["values"]) for name, own in data.get("constants", {}).items()}
        return Symmetry(data["name"], group_of(data["group"], where), data["action"], held)
    except SymmetryError as error:
        raise error if str(error).startswith(where) else SymmetryError(f"{where}: {error}") from None


def text(value: AnyArray, width: int = 100, indent: str = "", used: int = 0) -> str:
    """JSON in which whatever fits stands on one line, of which `used` columns are taken.

    >>> print(text({"axes": ["h", "x"], "steps": [1, 2, 3]}, 24))
    {
      "axes": ["h", "x"],
      "steps": [1, 2, 3]
    }
    """
    flat = json.dumps(value, ensure_ascii=False)
    if len(indent) + used + len(flat) < width or not isinstance(value, dict | list) or not value:
        return flat
    inner = indent + "  "
    if isinstance(value, dict):
        names = [f"{json.dumps(name, ensure_ascii=False)}: " for name in value]
        parts = [name + text(own, width, inner, len(name)) for name, own in zip(names, value.values(), strict=True)]
    else:
        parts = [text(part, width, inner) for part in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(inner + part for part in parts) + f"\n{indent}{closing}"
