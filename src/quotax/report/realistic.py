"""An entry of the catalogue at a realistic size: divided by what was derived of it, measured at both ends of an orbit.

Everything is what a user would call, in the user's precision: nothing is formed that has as many columns as the network
has parameters.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from quotax import MetricWarning, quotient, sharpness
from quotax.trees import Tree

if TYPE_CHECKING:
    from quotax.catalogue import CatalogueEntry
    from quotax.derive import SymmetryGroup

EXAMPLES, FREE, RADIUS, SCALE = 8, 8, 0.05, 0.2
"""Inputs that the loss is a mean over, the size of axes that they alone have, the ball, how far the element is."""

SAME = 1e-3
"""Values that agree to this share are called the same."""


@dataclass(frozen=True)
class Realistic:
    """What was measured at the parameters, and at those that a random element of the group leads to.

    `left` is how much of a horizontal vector is vertical, of a random vector's length in the metric; `changed` how much
    the outputs change along the orbit, of the largest one; `invariant` what both sharpnesses say of themselves, and
    why. Where they differ nevertheless, `carried` is what the first one's perturbation is worth at the second point.
    """

    parameters: int
    left: float
    changed: float
    full: tuple[float, float]
    quotient: tuple[float, float]
    invariant: bool | None
    reason: str
    carried: float | None
    seconds: float

    def __str__(self) -> str:
        """A line."""
        full, own = (f"{a:.4g} and {b:.4g}" for a, b in (self.full, self.quotient))
        return (
            f"{self.parameters:,} parameters, vertical left {self.left:.0e}, outputs change by {self.changed:.0e}, "
            f"sharpness {own} on the orbit{self.remark and f' ({self.remark})'}, Euclidean {full}, {self.seconds:.0f} s"
        )

    @property
    def remark(self) -> str:
        """Why the sharpness at two points of the orbit may differ, or does; empty where nothing is to be said."""
        if not self.invariant:
            return f"not {'' if self.invariant is False else 'known to be '}the same: {self.reason}"
        if self.carried is None:
            return ""
        alike = abs(self.carried - self.quotient[0]) <= SAME * self.quotient[0]
        why = "other local maxima were found" if alike else "rounding lost it"
        return f"the first perturbation, carried along, is worth {self.carried:.4g}: {why}"


def realistic(entry: CatalogueEntry, found: SymmetryGroup, dtype: DTypeLike | None = None) -> Realistic:
    """Divide the entry's network of realistic size by `found`, and measure it."""
    start, dtype = time.perf_counter(), jnp.result_type(float if dtype is None else dtype)
    net = entry.architecture.at(**entry.realistic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetricWarning)
        space = quotient(net, found, metric="invariant")
    draw = lambda n: net.init(jax.random.key(n), dtype)
    params, direction = jax.tree.map(lambda p, n: p + 0.1 * n, draw(0), draw(1)), _normal(draw(2))
    element = space.random_element(jax.random.key(4), scale=SCALE)
    act = lambda p: jax.tree.map(lambda array: array.astype(dtype), space.act(p, element))
    moved, inputs = act(params), _inputs(entry, net.sizes, dtype)

    @jax.jit
    def outputs(p: Any) -> list[jax.Array]:
        return jax.tree.leaves(jax.vmap(lambda *x: net(p, *x))(*inputs) if inputs else net(p))

    def level(outs: list[jax.Array], goals: list[Any]) -> jax.Array:
        squares = (jnp.mean((out.astype(dtype) - goal) ** 2) for out, goal in zip(outs, goals, strict=True))
        return sum(squares, jnp.zeros((), dtype))

    # To be one. Outputs that are normalised are as far from it everywhere: these are to be random numbers.
    own, there, elsewhere = outputs(params), outputs(moved), outputs(draw(2))
    goals: list[Any] = [jnp.ones((), dtype)] * len(own)
    if jnp.isclose(level(own, goals), level(elsewhere, goals), rtol=SAME):
        goals = [jax.random.normal(jax.random.key(6), out.shape, dtype) for out in own]
    loss = lambda p: level(outputs(p), goals)
    pairs = [(a.astype(dtype), b.astype(dtype)) for a, b in zip(own, there, strict=True)]
    most = max(float(jnp.max(jnp.abs(a))) for a, _ in pairs)
    horizontal = space.horizontal(params, direction)
    left = space.norm(params, space.vertical(params, horizontal)) / space.norm(params, direction)

    changed = max(float(jnp.max(jnp.abs(a - b))) for a, b in pairs) / most
    measure = lambda p, own: sharpness(loss, p, RADIUS, space=own, progress=lambda line: None)
    ends = [measure(p, own) for own in (None, space) for p in (params, moved)]
    full, full_moved, here, gone = (end.value for end in ends)
    said = next((end for end in ends[2:] if not end.invariant), ends[2])
    carried = None
    if abs(here - gone) > SAME * max(here, gone):
        step = jax.jvp(act, (params,), (ends[2].perturbation,))[1]
        carried = float(loss(jax.tree.map(jnp.add, moved, step)) - loss(moved))
    return Realistic(
        net.num_parameters, float(left), changed, (full, full_moved), (here, gone), said.invariant,
        said.reason.partition(". ")[0], carried, time.perf_counter() - start,
    )  # fmt: skip


def _normal(like: Tree) -> Tree:
    """Normal numbers in the shape of a tree, other ones in every array."""
    leaves, structure = jax.tree.flatten(like)
    draw = lambda k, leaf: jax.random.normal(jax.random.fold_in(jax.random.key(3), k), leaf.shape, leaf.dtype)
    return jax.tree.unflatten(structure, [draw(k, leaf) for k, leaf in enumerate(leaves)])


def _inputs(entry: CatalogueEntry, sizes: Any, dtype: DTypeLike) -> list[jax.Array]:
    """Random inputs of the kinds that are declared."""
    model = entry.architecture
    given = dict.fromkeys(model.axis_names, FREE) | dict(entry.realistic)
    there = model.check_sizes(
        {a: n for a, n in given.items() if a in entry.realistic or a not in model.fixed} | dict(sizes),
        required=(),
        call="realistic",
    )
    out = []
    for k, spec in enumerate(model.inputs):
        key, shape = jax.random.fold_in(jax.random.key(5), k), (EXAMPLES, *spec.shape(there))
        if spec.kind == "tokens":
            out.append(jax.random.randint(key, shape, 0, spec.bound(there)))
        elif spec.kind == "mask":
            out.append(jax.random.bernoulli(key, 0.5, shape).astype(dtype))
        else:
            values = jax.random.normal(key, shape, dtype)
            out.append(jnp.abs(values) + 0.5 if spec.kind == "positive" else values)
    return out
