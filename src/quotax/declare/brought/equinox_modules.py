"""`from_equinox`: a module of Equinox as it is, in inference mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from quotax.declare.brought.any_function import brought, checked_leaves, chosen_by, installed, tree_factory
from quotax.declare.brought.brought_model import Brought
from quotax.declare.brought.examples import examples
from quotax.declare.brought.leaves import is_floating
from quotax.errors import ArchitectureError
from quotax.trees import Tree


def from_equinox(
    module: Tree,
    *inputs: Tree,
    make: Callable[..., Tree] | None = None,
    key: Any = None,
    trainable: Tree = None,
) -> Brought:
    """The model that an Equinox module is: `module(*inputs)`, with dropout off.

    Everything that takes parameters takes the module itself, or its arrays as `eqx.partition` leaves them; what is
    moved comes back as a module.

    Args:
        module: any `eqx.Module` that can be called; its floating JAX arrays are the parameters.
        inputs: examples of its arguments, as for `qx.from_function`.
        make: makes the module at other sizes, `make=lambda width: eqx.nn.MLP(4, 2, width, 2, key=key)`: proofs then
            hold for every width.
        key: handed to the module as its argument `key`, if it needs one.
        trainable: of which leaves are parameters: a function of a leaf, or a tree of truth values.
    """
    call = "from_equinox"
    eqx = installed(call, "equinox")
    if not isinstance(module, eqx.Module) or not callable(module):
        raise ArchitectureError(f"`{call}(module, *inputs)`: module must be an eqx.Module to call, got {module!r}.")
    keyed = {} if key is None else {"key": key}

    def function(module: Tree, *inputs: Tree) -> Tree:
        return eqx.nn.inference_mode(module)(*inputs, **keyed)

    own = lambda leaf: is_floating(leaf) and isinstance(leaf, jax.Array | jax.ShapeDtypeStruct)
    chosen = own if trainable is None else chosen_by(call, trainable, module)
    leaves = checked_leaves(call, module, lambda leaf: own(leaf) and chosen(leaf))
    given = examples(call, type(module).__call__, list(inputs))
    factory = None if make is None else tree_factory(lambda **sizes: (function, make(**sizes)))
    return brought(call, type(module).__name__, function, module, leaves, given, make, factory)
