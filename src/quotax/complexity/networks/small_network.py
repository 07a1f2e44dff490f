"""Small networks of an architecture with random examples, at which measures are compared along orbits."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.artifacts import ArraySpec, settled
from quotax.complexity.networks.measured_network import MeasuredNetwork, measured
from quotax.declare import Architecture
from quotax.errors import ArchitectureError, ComplexityError, SymmetryError
from quotax.interpret.tracing.unequal_sizes import unequal
from quotax.symmetry import Group
from quotax.trees import AnyArray, Tree, named

EXAMPLES = 6
MOST = 20_000
"""Networks of more parameters are not small: nothing is looked at numerically."""
_TRIES = 200
_CALL = "quotax.verify_invariant"


def small_sizes(architecture: Architecture, groups: Sequence[Group]) -> dict[str, int]:
    """Unequal sizes that the model accepts and at which the groups act."""
    axes = [*architecture.axis_names]
    acted = {group.axis for group in groups}
    base: dict[str, int] = {}
    for axis in sorted(axes, key=lambda a: a not in acted):
        least = 3 if axis in acted else 2
        base[axis] = next(n for n in itertools.count(least) if n not in (*base.values(), *architecture.fixed.values()))
    base = settled({axis: base[axis] for axis in axes}, architecture.fixed)
    tried = itertools.chain(
        itertools.islice(unequal(base, architecture.fixed), _TRIES),
        (settled(dict.fromkeys(axes, n), architecture.fixed) for n in (4, 6, 8)),
        [dict(architecture.own)] if architecture.own else [],
    )
    for sizes in tried:
        try:
            for group in groups:
                group.check_sizes(sizes)
            architecture.trace(sizes)
        except (ArchitectureError, SymmetryError):
            continue
        return sizes
    raise ComplexityError(
        f"`{_CALL}`: {architecture.name} is traced at none of the small sizes that were tried, so that nothing can be "
        f"looked at numerically."
    )


@functools.lru_cache(maxsize=16)
def _network(architecture: Architecture, sizes: tuple[tuple[str, int], ...]) -> Tree:
    """One network for all measures: what is compiled for it serves them all."""
    there = dict(sizes)
    return architecture.at(**{axis: there[axis] for axis in architecture.parameter_axes})


def small_network(architecture: Architecture, sizes: Mapping[str, int], seed: int = 0) -> MeasuredNetwork:
    """A network of these sizes at random parameters, none of them zero, with random examples and labels."""
    net = _network(architecture, tuple(sizes.items()))
    if net.num_parameters > MOST:
        raise ComplexityError(
            f"`{_CALL}`: {architecture.name} has {net.num_parameters:,} parameters at the sizes that it accepts, more "
            f"than {MOST:,}, so that nothing is looked at numerically."
        )
    keys = jax.random.split(jax.random.key(seed), 3)
    draw = np.random.default_rng(seed)
    trees = architecture.trees
    arrays = trees.tree(trees.named(net.init(keys[0])))  # a module has other leaves, which are no parameters
    params = jax.tree.map(lambda a: a + 0.3 * jnp.asarray(draw.standard_normal(a.shape), a.dtype), arrays)
    inputs = tuple(_drawn(spec, sizes, draw) for spec in architecture.inputs)
    shape = jax.eval_shape(net, params, *(jax.ShapeDtypeStruct(a.shape[1:], a.dtype) for a in inputs))
    labels: AnyArray = None
    if isinstance(shape, jax.ShapeDtypeStruct):
        if len(shape.shape) == 1 and shape.shape[0] > 1:
            labels = jnp.asarray(draw.integers(0, shape.shape[0], EXAMPLES))
        elif math.prod(shape.shape) == 1:
            labels = jnp.asarray(draw.choice([-1.0, 1.0], EXAMPLES), shape.dtype)
        else:
            labels = jnp.asarray(draw.standard_normal((EXAMPLES, *shape.shape)), shape.dtype)
    start = jax.tree.map(lambda a: jnp.asarray(draw.standard_normal(a.shape), a.dtype), params)
    return measured(_CALL, net, params, inputs, labels, start=start, seed=seed)


def moved(architecture: Architecture, family: Any, params: Tree, element: AnyArray) -> Tree:
    """The parameters after a group element, as a tree of the same kind."""
    net = architecture.at(**{axis: family.sizes[axis] for axis in architecture.parameter_axes})
    arrays = net.taken_apart(named(params) if isinstance(params, Mapping) else architecture.trees.named(params))
    return net.tree(family.act(arrays, element), params)


def _drawn(spec: ArraySpec, sizes: Mapping[str, int], draw: np.random.Generator) -> jax.Array:
    shape = (EXAMPLES, *spec.shape(sizes))
    if spec.kind == "tokens":
        return jnp.asarray(draw.integers(0, spec.bound(sizes), shape))
    if spec.kind == "mask":
        ones = np.ones(shape) if shape[1:] else draw.integers(0, 2, shape)
        return jnp.asarray(ones, float)
    numbers = draw.standard_normal(shape)
    return jnp.asarray(np.abs(numbers) + 0.1 if spec.kind == "positive" else numbers)
