"""What public calls ask of a model: that it is one, functions of its own trees, symmetries as JAX functions on it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from quotax.declare import Architecture, Network
from quotax.errors import ArchitectureError
from quotax.lower import lower_action
from quotax.symmetry import Family, Symmetry
from quotax.trees import NESTED, Dim, Tree, named


def check_architecture(architecture: object, call: str) -> None:
    """Refuse what is no architecture, by the name of the call."""
    if not isinstance(architecture, Architecture):
        hint = "; pass the architecture that `.at` was called on" if isinstance(architecture, Network) else ""
        raise ArchitectureError(
            f"`{call}(architecture, ...)` needs what `@qx.architecture` returns, got {architecture!r}{hint}."
        )


def of_trees(
    architecture: Architecture, function: Callable[..., Tree], count: int | None = None
) -> Callable[..., Tree]:
    """A function of the user's trees as one of nested dicts, which is what claims are made about.

    `count` says how many of its arguments are trees of parameters: all, if it is None.
    """
    if architecture.trees is NESTED:
        return function

    @functools.wraps(function)
    def nested(*arguments: Tree, **sizes: Dim) -> Tree:
        trees = arguments[:count]
        own = (architecture.trees.tree(named(tree)) for tree in trees)
        return function(*own, *arguments[len(trees) :], **sizes)

    return nested


def lowered(symmetries: Sequence[Symmetry], network: Network) -> list[Family]:
    """The symmetries as JAX functions on a network."""
    specs = network.architecture.params
    return [lower_action(symmetry.bind(specs), specs, network.sizes) for symmetry in symmetries]
