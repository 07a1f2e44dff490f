"""Curves in an orbit: `e^(t xi) params` for an algebra element xi, in the connected group."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import SharpnessError
from quotax.presenting import shown
from quotax.sharpness.problem.arguments import Key, key_of
from quotax.sharpness.problem.vectors import Tree

Along = str | Mapping[str, Any] | None
"""A direction in the algebra: elements by family, a random one in the family of this name, or in all of them."""


def check_along(call: str, space: Any, along: Along, params: Tree, key: Key) -> dict[str, jax.Array]:
    """The algebra elements by family, which move the parameters."""
    if not all(callable(getattr(space, name, None)) for name in ("element", "random_algebra", "act", "field")):
        raise SharpnessError(
            f"`{call}` follows an orbit and needs space= a quotient, as `qx.quotient(net, found)` makes it, got "
            f"{shown(space)}."
        )
    random = space.random_algebra(key_of(call, key))
    if not random:
        raise SharpnessError(
            f"`{call}` follows an orbit, and no family of {space!r} is continuous: its orbits are points apart."
        )
    names = ", ".join(random)
    if along is None:
        found = random
    elif isinstance(along, str):
        if along not in random:
            raise SharpnessError(f"`{call}`: along={along!r} is no continuous family; those are {names}.")
        found = {along: random[along]}
    elif isinstance(along, Mapping) and along:
        for name, xi in along.items():
            if name not in random:
                raise SharpnessError(f"`{call}`: along= names {name!r}; the continuous families are {names}.")
            if np.shape(xi) != random[name].shape:
                raise SharpnessError(
                    f"`{call}`: along[{name!r}] has the shape {np.shape(xi)}, and elements of that algebra "
                    f"{random[name].shape}."
                )
        found = {name: jnp.asarray(xi, random[name].dtype) for name, xi in along.items()}
        if not all(bool(jnp.isfinite(xi).all()) for xi in found.values()):
            raise SharpnessError(f"`{call}` needs finite algebra elements in along=.")
    else:
        raise SharpnessError(
            f"`{call}` needs along= the name of a family ({names}) or algebra elements by family, such as "
            f"`space.connection(params, v)`, got {shown(along)}."
        )
    velocity = space.field(params, found)
    if along is not None and not any(bool(jnp.any(leaf)) for leaf in jax.tree.leaves(velocity)):
        raise SharpnessError(
            f"`{call}`: along= does not move these parameters ({', '.join(found)}): what it acts on is zero there."
        )
    return found


def mover(space: Any, xi: Mapping[str, jax.Array]) -> Callable[[Tree, Any], Tree]:
    """`params, t -> e^(t xi) params`, compiled once."""
    run = jax.jit(functools.partial(_moved, space))
    return lambda params, t: run(params, xi, jnp.asarray(t, jnp.result_type(*xi.values())))


def _moved(space: Any, params: Tree, xi: Mapping[str, jax.Array], t: jax.Array) -> Tree:
    there = space.act(params, space.element({name: t * each for name, each in xi.items()}))
    return jax.tree.map(lambda new, old: new.astype(old.dtype), there, params)
