"""The axis notation: `"h x"`, `""` for a scalar, `"o c 3 3"` with fixed sizes, `"head*k x"` fusing two axes.

Axes of parameters may also be sums, which `fused_axes` reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.declare.fused_axes import DeclaredArray, declared_array
from quotax.errors import ArchitectureError

_NAME = re.compile(r"[A-Za-z_]\w*")


def parse_axes(text: object, *, owner: str) -> tuple[tuple[AxisFactor, ...], ...]:
    """The axes that `text` names, each a tuple of factors.

    >>> parse_axes("head*k 3", owner="params['W']")
    (('head', 'k'), (3,))
    """
    text = checked_text(text, owner)
    return tuple(_parse_axis(token, text, owner) for token in text.split())


def checked_text(text: object, owner: str) -> str:
    """The text that names axes, if it is one."""
    if not isinstance(text, str):
        raise ArchitectureError(
            f"{owner} must be a string of blank-separated axes such as 'h x' ('' for a scalar), got {text!r}."
        )
    return text


def _parse_axis(token: str, text: str, owner: str) -> tuple[AxisFactor, ...]:
    factors: list[AxisFactor] = []
    for factor in token.split("*"):
        if factor.isdecimal() and int(factor) > 0:
            factors.append(int(factor))
        elif _NAME.fullmatch(factor):
            factors.append(factor)
        else:
            raise ArchitectureError(
                f"{owner} = {text!r}: {factor!r} is neither an axis name nor a positive size. "
                "Separate axes by blanks and fuse two with '*', as in 'head*k x'."
            )
    return tuple(factors)


@dataclass(frozen=True)
class Tokens:
    """An input of integers in `0 .. below-1`; `below` is an axis name or a fixed size.

    >>> Tokens("t", below="vocab")
    Tokens(axes='t', below='vocab')
    """

    axes: str
    below: str | int


@dataclass(frozen=True)
class Mask:
    """An input whose entries are zero or one."""

    axes: str


@dataclass(frozen=True)
class Positive:
    """An input whose entries are positive: the running variance of a norm, a temperature, a step in time."""

    axes: str


def parse_arrays(tree: object, parts: object = None) -> tuple[DeclaredArray, ...]:
    """The arrays of a declaration, nested names joined with `/`; `parts` names what fused ones hold."""
    if not isinstance(tree, Mapping) or not tree:
        raise ArchitectureError(
            f"`architecture`: params must be a non-empty dict of name -> axes such as {{'W': 'h x'}}, got {tree!r}."
        )
    labels = _labels(parts)
    arrays = tuple(_walk_params(tree, "", labels))
    unknown = [name for name in labels if name not in {array.name for array in arrays}]
    if unknown:
        raise ArchitectureError(
            f"`architecture`: parts names {unknown[0]!r}, which is no parameter; "
            f"they are {', '.join(array.name for array in arrays)}."
        )
    return arrays


def _labels(parts: object) -> dict[str, tuple[str, ...]]:
    """The names of parts, by array."""
    if parts is None:
        return {}
    if not isinstance(parts, Mapping):
        raise ArchitectureError(
            f"`architecture`: parts must be a dict of parameter name -> names of its parts, as in "
            f"{{'c_attn/w': 'q k v'}}, got {parts!r}."
        )
    found = {}
    for name, text in parts.items():
        labels = tuple(text.split()) if isinstance(text, str) else ()
        fit = len(labels) > 1 and len(set(labels)) == len(labels) and "T" not in labels
        if not fit or not all(re.fullmatch(r"\w+", label) for label in labels):
            raise ArchitectureError(
                f"`architecture`: parts[{name!r}] must be two or more blank-separated names, each once and none of "
                f"them T, as in 'q k v', got {text!r}."
            )
        found[name] = labels
    return found


def _walk_params(tree: Mapping[Any, Any], prefix: str, labels: Mapping[str, tuple[str, ...]]) -> list[DeclaredArray]:
    arrays: list[DeclaredArray] = []
    for key, value in tree.items():
        if not isinstance(key, str) or not re.fullmatch(r"\w+", key):
            raise ArchitectureError(
                f"`architecture`: the parameter name {key!r} must be letters, digits and underscores; "
                "use a nested dict for a path such as 'block/W'."
            )
        if isinstance(value, Mapping):
            if not value:
                raise ArchitectureError(
                    f"`architecture`: params[{prefix + key!r}] is an empty dict; give it arrays or drop it."
                )
            arrays += _walk_params(value, f"{prefix}{key}/", labels)
        else:
            name, owner = prefix + key, f"`architecture`: params[{prefix + key!r}]"
            arrays.append(declared_array(name, checked_text(value, owner), owner, labels.get(name)))
    return arrays


def parse_inputs(declared: object) -> tuple[ArraySpec, ...]:
    """The inputs of a declaration: plain strings, `Tokens`, `Mask` or `Positive`."""
    if not isinstance(declared, Mapping):
        raise ArchitectureError(
            f"`architecture`: inputs must be a dict of name -> axes such as {{'x': 'x'}}, got {declared!r}."
        )
    specs = []
    for name, value in declared.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ArchitectureError(f"`architecture`: the input name {name!r} must be a Python identifier.")
        owner = f"`architecture`: inputs[{name!r}]"
        if isinstance(value, Tokens):
            below = parse_axes(str(value.below), owner=f"{owner}.below")
            if len(below) != 1 or len(below[0]) != 1:
                raise ArchitectureError(f"{owner}: below must be one axis name or one size, got {value.below!r}.")
            specs.append(ArraySpec(name, parse_axes(value.axes, owner=owner), "tokens", below[0][0]))
        elif isinstance(value, Mask | Positive):
            kind = "mask" if isinstance(value, Mask) else "positive"
            specs.append(ArraySpec(name, parse_axes(value.axes, owner=owner), kind))
        else:
            specs.append(ArraySpec(name, parse_axes(value, owner=owner)))
    return tuple(specs)
