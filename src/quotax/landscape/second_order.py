"""A loss to second order at a point, as a dense matrix over the flat parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from quotax.trees import Tree

LARGEST = 4000
"""The most parameters whose Hessian is made."""


class SecondOrder(NamedTuple):
    """Gradient and Hessian in float64; `floor` is what is rounding of the Hessian's eigenvalues."""

    flat: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    floor: float


def second_order(loss: Callable[[Tree], Tree], params: Tree) -> SecondOrder:
    """The loss at these parameters."""
    flat, tree = ravel_pytree(params)
    slope = jax.grad(lambda v: loss(tree(v)))
    column = jax.jit(lambda v: jax.jvp(slope, (flat,), (v,))[1])
    rows = jax.lax.map(column, jnp.eye(flat.size, dtype=flat.dtype), batch_size=64)
    hessian = np.asarray(rows, float)
    hessian = (hessian + hessian.T) / 2
    floor = 10 * flat.size * float(jnp.finfo(flat.dtype).eps) * float(np.abs(hessian).max(initial=0.0))
    return SecondOrder(np.asarray(flat, float), np.asarray(jax.jit(slope)(flat), float), hessian, floor)
