"""The model that a command is about, and the sizes that it has."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quotax.cli.arrays import bare
from quotax.cli.misuse import Misuse

if TYPE_CHECKING:
    import quotax as qx

_KINDS = "A model is a name of the catalogue, file.py:name, package.module:name, or a TOML file"


@dataclass(frozen=True)
class Asked:
    """A model as it was named.

    Attributes:
        name: as it was given.
        model: its architecture.
        symmetries: those stated beside it.
        sizes: its own, where it has any.
        small: sizes at which the catalogue counts dimensions.
    """

    name: str
    model: qx.Architecture
    symmetries: tuple[qx.Symmetry, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    small: Mapping[str, int] = field(default_factory=dict)

    def sized(self, given: Mapping[str, int], *, small: bool = False) -> dict[str, int]:
        """Sizes for every axis that needs one: those given, and the model's own for the others."""
        axes = self.model.axis_names
        for axis in given:
            if axis not in axes:
                raise Misuse(
                    f"size {axis}={given[axis]}: {self.name} has no axis {axis!r}; its axes are {', '.join(axes)}"
                )
        own = dict(self.small if small else self.sizes)
        sizes = own | dict(given)
        missing = [axis for axis in self.model.parameter_axes if axis not in sizes and axis not in self.model.fixed]
        if missing:
            example = " ".join(f"{axis}={4 + 2 * n}" for n, axis in enumerate(missing))
            raise Misuse(f"{self.name} needs the size of {', '.join(missing)}; add for example {example}")
        return sizes

    def network(self, given: Mapping[str, int]) -> Any:
        """The network of these sizes."""
        return self.model.at(**self.sized(given))


def asked(name: str) -> Asked:
    """The model of a name of the catalogue, of a place in Python, or of a TOML file."""
    import quotax as qx

    if os.getcwd() not in sys.path:  # modules beside the user are found, as `python -m` finds them
        sys.path.insert(0, os.getcwd())
    path = Path(name)
    if path.suffix == ".toml" and not path.is_file():
        raise Misuse(f"there is no file {name!r} in {os.getcwd()}")
    if ":" in name or path.suffix in (".py", ".toml"):
        file = qx.load(name)
        return Asked(name, file.architecture, file.symmetries, file.sizes, file.sizes)
    if path.suffix or path.exists():
        raise Misuse(f"{name!r} is no model. {_KINDS}; parameters are given by --params")
    try:
        entry = qx.catalogue.load(name)
    except qx.ArchitectureError as error:
        raise Misuse(
            f"model {name!r}: {bare(error).replace('`qx.catalogue.names()`', '`quotax list`')} {_KINDS}"
        ) from None
    return Asked(name, entry.architecture, (), dict(entry.modest), dict(entry.flat[0][0]))


def sizes_of(words: Sequence[str]) -> dict[str, int]:
    """Sizes as they are written: `h=4`."""
    sizes: dict[str, int] = {}
    for word in words:
        axis, equals, number = word.partition("=")
        if not equals:
            raise Misuse(f"{word!r} is no size; a size is written axis=number, as in h=4")
        if not re.fullmatch(r"[1-9]\d*", number):
            raise Misuse(f"size {word!r}: {axis} needs a positive whole number, as in {axis}=4")
        if sizes.get(axis, int(number)) != int(number):
            raise Misuse(f"size {word!r}: {axis} was given as {sizes[axis]} too")
        sizes[axis] = int(number)
    return sizes


def apart(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words that are no sizes, and those that are."""
    return [w for w in words if "=" not in w], [w for w in words if "=" in w]


def sizes_text(sizes: Mapping[str, int]) -> str:
    """For example `h=4 x=3`, as it would be given."""
    return " ".join(f"{axis}={size}" for axis, size in sizes.items())
