"""`from_flax`: a module of Flax as it is, nnx or linen, in evaluation mode."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jax

from quotax.declare.brought.any_function import brought, checked_leaves, chosen_by, installed
from quotax.declare.brought.brought_model import Brought
from quotax.declare.brought.examples import Examples, examples
from quotax.declare.brought.factories import Measured, Shapes, keywords
from quotax.declare.brought.leaves import Leaves, is_floating
from quotax.errors import ArchitectureError
from quotax.trees import Dim, Keyword, Tree

_EVALUATION = {
    "deterministic": True, "train": False, "training": False, "is_training": False, "use_running_average": True,
}  # fmt: skip
"""What a linen module is told, where its `__call__` has an argument of this name."""


def from_flax(
    module: Tree,
    *arguments: Tree,
    make: Callable[..., Tree] | None = None,
    trainable: Tree = None,
    **settings: Keyword,
) -> Brought:
    """The model that a Flax module is, with dropout off and running statistics in use.

    `from_flax(module, *inputs)` for nnx: parameters are the module's `nnx.Param`s, in an `nnx.State`.
    `from_flax(module, variables, *inputs)` for linen: parameters are `variables["params"]`, and other collections
    (running statistics) are closed over.
    `from_flax(model, *inputs)` for an object that holds a linen module and its `params`, as those of transformers do;
    inputs are those of `model.module`.

    Args:
        module: an `nnx.Module`, or a linen module, or what holds one with its parameters.
        arguments: for linen the variables first; then examples of inputs, as for `qx.from_function`.
        make: makes the module at other sizes, `make=lambda width: MLP(width)`: proofs then hold for every width.
        trainable: of which leaves are parameters: a function of a leaf, or a tree of truth values.
        settings: further keyword arguments of the call.
    """
    installed("from_flax", "flax")
    import flax.linen as nn
    from flax import nnx

    if isinstance(getattr(module, "module", None), nn.Module) and hasattr(module, "params"):
        return _linen(module.module, (_held(module), *arguments), make, trainable, settings)
    if isinstance(module, nn.Module):
        return _linen(module, arguments, make, trainable, settings)
    if isinstance(module, nnx.Module):
        return _nnx(module, arguments, make, trainable, settings)
    raise ArchitectureError(
        f"`from_flax(module, ...)`: module must be an nnx.Module or a linen module, got {type(module).__name__}."
    )


# --- nnx


def _nnx(
    module: Tree,
    inputs: tuple[Tree, ...],
    make: Callable[..., Tree] | None,
    trainable: Tree,
    settings: Mapping[str, Keyword],
) -> Brought:
    from flax import nnx

    call = "from_flax"

    def split(module: Tree) -> tuple[Callable[..., Tree], Any, Any]:
        graph, state, rest = nnx.split(module, nnx.Param, ...)

        def function(state: Tree, *inputs: Tree) -> Tree:
            others = jax.tree.map(lambda leaf: leaf, rest)  # variables that this trace may change: keys are counted
            return quiet(nnx.merge(graph, state, others))(*inputs, **settings)

        return function, state, rest

    def quiet(module: Tree) -> Tree:
        module.eval()
        return module

    function, state, rest = split(module)
    chosen = (lambda leaf: True) if trainable is None else chosen_by(call, trainable, state)
    leaves = checked_leaves(call, state, lambda leaf: is_floating(leaf) and chosen(leaf))
    given = examples(call, type(module).__call__, list(inputs))
    if make is None:
        return brought(call, type(module).__name__, function, state, leaves, given, None, None)

    def factory(sizes: Mapping[str, Dim], concrete: bool) -> tuple[Callable[..., Tree], Any]:
        if concrete:
            with jax.ensure_compile_time_eval():
                made, there, _ = split(make(**sizes))
            return made, there
        held: dict[str, Tree] = {}

        def run() -> Tree:
            graph, there, others = nnx.split(make(**sizes), nnx.Param, ...)
            held["graph"] = graph
            held["same"] = jax.tree.structure(others) == jax.tree.structure(rest)
            return there, others

        there, others = jax.eval_shape(run)
        stochastic = all(isinstance(v, nnx.RngState) for _, v in nnx.to_flat_state(others))

        def function(state: Tree, *inputs: Tree) -> Tree:
            if not stochastic or not held["same"]:
                raise ArchitectureError(
                    f"`{call}`: make= makes variables that are no parameters, and their numbers are known at sizes "
                    "alone that are numbers"
                )
            others = jax.tree.map(lambda leaf: leaf, rest)
            return quiet(nnx.merge(held["graph"], state, others))(*inputs, **settings)

        if not stochastic and all(isinstance(size, int) for size in sizes.values()):
            return factory(sizes, True)
        return function, there

    return brought(call, type(module).__name__, function, state, leaves, given, make, factory)


# --- linen


def _held(model: Any) -> dict[str, Tree]:
    """The variables of an object that holds a linen module: its parameters may be variables already."""
    params = model.params.unfreeze() if hasattr(model.params, "unfreeze") else model.params
    return params if "params" in params else {"params": params}


def _linen(
    module: Tree,
    arguments: tuple[Tree, ...],
    make: Callable[..., Tree] | None,
    trainable: Tree,
    settings: Mapping[str, Keyword],
) -> Brought:
    call = "from_flax"
    if not arguments or not isinstance(arguments[0], Mapping):
        raise ArchitectureError(
            f"`{call}(module, variables, *inputs)`: a linen module needs its variables, as module.init(key, x) returns "
            f"them, got {type(arguments[0]).__name__ if arguments else 'nothing'}."
        )
    variables, inputs = arguments[0], arguments[1:]
    whole = variables if "params" in variables else {"params": variables}
    others = {name: value for name, value in whole.items() if name != "params"}
    takes = inspect.signature(type(module).__call__).parameters
    said = {name: value for name, value in _EVALUATION.items() if name in takes} | dict(settings)

    def applied(module: Tree) -> Callable[..., Tree]:
        def function(params: Tree, *inputs: Tree) -> Tree:
            return module.apply({**others, "params": params}, *inputs, **said)

        return function

    params = whole["params"]
    chosen = (lambda leaf: True) if trainable is None else chosen_by(call, trainable, params)
    leaves = checked_leaves(call, params, lambda leaf: is_floating(leaf) and chosen(leaf))
    given = examples(call, type(module).__call__, list(inputs))
    title = type(module).__name__
    if make is None:
        return brought(call, title, applied(module), params, leaves, given, None, None)
    measure = _initialised(call, make, leaves, given, said)
    factory = lambda sizes, concrete: (applied(make(**sizes)), params)
    return brought(call, title, applied(module), params, leaves, given, make, factory, measure)


def _initialised(
    call: str, make: Callable[..., Tree], leaves: Leaves, given: Examples, said: Mapping[str, Tree]
) -> Measured:
    """Shapes at other sizes are those that `init` gives; an input's length may have to be one of the keywords.

    Which lengths those are is found out: at the lengths of the examples first, then with keywords in their place.
    """
    names = keywords(call, make)[0]
    places = [(k, d) for k, example in enumerate(given.arrays) for d in range(len(example.shape))]
    found: list[tuple[str | None, ...]] = []

    def shapes(sizes: Mapping[str, int], tied: tuple[str | None, ...]) -> Shapes:
        lengths = [list(example.shape) for example in given.arrays]
        for (k, d), name in zip(places, tied, strict=True):
            lengths[k][d] = lengths[k][d] if name is None else sizes[name]
        arrays = [
            jax.ShapeDtypeStruct(tuple(shape), example.dtype)
            for shape, example in zip(lengths, given.arrays, strict=True)
        ]
        run = lambda *xs: make(**sizes).init(jax.random.key(0), *given.filled(xs), **said)["params"]
        return leaves.shapes(jax.eval_shape(run, *arrays))

    def measured(sizes: Mapping[str, int]) -> Shapes:
        if found:
            return shapes(sizes, found[0])
        refused: Exception | None = None
        for count in range(len(places) + 1):
            for where in itertools.combinations(range(len(places)), count):
                for words in itertools.product(names, repeat=count):
                    chosen = dict(zip(where, words, strict=True))
                    tied = tuple(chosen.get(place) for place in range(len(places)))
                    try:
                        there = shapes(sizes, tied)
                    except Exception as error:  # whatever the module raises at lengths that it does not accept
                        refused = refused or error
                        continue
                    found.append(tied)
                    return there
        assert refused is not None
        raise refused

    return measured
