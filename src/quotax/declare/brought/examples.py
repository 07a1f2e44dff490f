"""The inputs of a model that was brought: examples, whose shapes and types say what an input may be.

Floating arrays are real inputs, integers are tokens, truth values are masks; `qx.Positive(array)`, `qx.Mask(array)` and
`qx.Tokens(array, below=...)` say more. Arguments may be trees (a state, a cache). Random keys, numbers and None are not
inputs: they are what they are in the example.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from quotax.declare.axes import Mask, Positive, Tokens
from quotax.declare.brought.leaves import HOLDERS, is_array, plain
from quotax.errors import ArchitectureError
from quotax.trees import AnyArray, Tree

Kind = Literal["real", "positive", "tokens", "mask"]


@dataclass(frozen=True)
class Example:
    """One array among the inputs: its name, shape and type, what it may hold, and what tokens are below."""

    name: str
    shape: tuple[int, ...]
    dtype: DTypeLike
    kind: Kind
    below: Any = None

    def given(self, array: AnyArray) -> Tree:
        """The array in the type that the function expects: masks and tokens are traced in others."""
        if self.kind == "mask" and self.dtype == jnp.bool_:
            return array != 0
        if self.kind in ("mask", "tokens") and jnp.issubdtype(self.dtype, jnp.integer):
            return array.astype(jnp.int32)
        return array


@dataclass(frozen=True, eq=False)
class Examples:
    """All arguments of a function after its parameters."""

    structure: Tree
    places: tuple[Example | None, ...]
    rest: tuple[Tree, ...]

    @property
    def arrays(self) -> tuple[Example, ...]:
        """The inputs in their order."""
        return tuple(place for place in self.places if place is not None)

    def filled(self, arrays: Sequence[Tree], *, wide: bool = True) -> tuple[Tree, ...]:
        """The arguments with these arrays in the inputs' places, and all others in double precision if `wide`."""
        left = iter(arrays)
        leaves = [
            (plain(other) if wide else other) if place is None else place.given(next(left))
            for place, other in zip(self.places, self.rest, strict=True)
        ]
        return jax.tree_util.tree_unflatten(self.structure, leaves)


def examples(call: str, function: Callable[..., Tree], inputs: Tree) -> Examples:
    """Examples of inputs, as a dict of argument name -> example, or in the order of the arguments."""
    if isinstance(inputs, Mapping):
        named = _in_order(call, function, {str(name): value for name, value in inputs.items()})
    else:
        listed = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        names = _arguments(function)[0][: len(listed)]
        names += ["x" if k == 0 else f"x{k + 1}" for k in range(len(names), len(listed))]
        named = dict(zip(names, listed, strict=True))
    args = tuple(named.values())
    leaves, structure = jax.tree_util.tree_flatten_with_path(args, is_leaf=lambda leaf: leaf is None)
    places: list[Example | None] = []
    rest: list[Tree] = []
    taken: set[str] = set()
    for path, leaf in leaves:
        words = [list(named)[path[0].idx], *(re.sub(r"\W+", "", str(key)) for key in path[1:])]
        words = [words[0], *(word for word in words[1:] if word not in HOLDERS)]
        name = re.sub(r"\W", "_", "_".join(words)).strip("_") or "x"
        while name in taken:
            name += "_"
        place = _example(call, name, leaf)
        taken |= {name} if place else set()
        places.append(place)
        rest.append(leaf if place is None else None)
    return Examples(structure, tuple(places), tuple(rest))


def all_or_one(function: Callable[..., Tree], inputs: Tree) -> Tree:
    """Inputs in a dict or a list; what cannot be that, for its names or its number, is the one argument.

    So a batch in a dict, or a state in a tuple, is what it is to a function of one argument.
    """
    names, bounded = _arguments(function)
    several = isinstance(inputs, (list, tuple)) and len(inputs) <= len(names)
    known = isinstance(inputs, Mapping) and set(inputs) <= set(names)
    return [inputs] if bounded and not several and not known else inputs


def _in_order(call: str, function: Callable[..., Tree], named: dict[str, Tree]) -> dict[str, Tree]:
    """Examples by name in the order of the arguments, with the default of what is left out between them."""
    names, _ = _arguments(function)
    if not set(named) <= set(names):
        return named  # of a function that does not say
    last = max(map(names.index, named), default=-1)
    defaults = {n: p.default for n, p in inspect.signature(function).parameters.items() if p.default is not p.empty}
    if missing := [name for name in names[: last + 1] if name not in named and name not in defaults]:
        raise ArchitectureError(f"`{call}`: inputs has no example of {', '.join(missing)}, got {', '.join(named)}.")
    return {name: named.get(name, defaults.get(name)) for name in names[: last + 1]}


def _arguments(function: Callable[..., Tree]) -> tuple[list[str], bool]:
    """The names of the arguments after the first, and whether there can be no others."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        return [], False
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return names, not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def _example(call: str, name: str, leaf: Tree) -> Example | None:
    kind: Kind | None = None
    below = None
    if isinstance(leaf, Positive | Mask | Tokens):
        kind = "positive" if isinstance(leaf, Positive) else "mask" if isinstance(leaf, Mask) else "tokens"
        below = getattr(leaf, "below", None)
        leaf = leaf.axes
        if isinstance(leaf, (int, float, list)):
            leaf = np.asarray(leaf)
        if not is_array(leaf):
            raise ArchitectureError(
                f"`{call}`: the input {name!r} needs an example array, as in qx.Positive(jnp.ones(3)), got {leaf!r}."
            )
    if not is_array(leaf) or jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
        return None
    if jnp.issubdtype(leaf.dtype, jnp.unsignedinteger) and kind is None:
        return None  # the words of a random key
    if kind is None:
        kind = "mask" if leaf.dtype == jnp.bool_ else "tokens" if jnp.issubdtype(leaf.dtype, jnp.integer) else "real"
    return Example(name, tuple(leaf.shape), jnp.dtype(leaf.dtype), kind, below)
