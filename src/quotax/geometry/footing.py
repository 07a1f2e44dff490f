r"""What rounding leaves of a point, and a representative of its orbit at which rounding takes less.

Parameters are known up to $u\,|\theta_i|$, $u$ half the distance of 1 to the next number. The element $r(\theta)$
that leads to the canonical representative carries that rounding along, and it is there that it counts as a change of
the network. Where a matrix of condition $\kappa$ multiplies an array, rounding of what was large reaches what becomes
large: $u \kappa$ of it. Where a shift is taken out, rounding of the sum stays in what is left: $u$ times the ratio of
the two. Scalings round every number by itself, and amplify nothing.

An invariant metric is the same at every representative, so that whatever belongs to the orbit may be computed at the
balanced one. The element that leads there is found in the dtype of the parameters and applied in float64: that keeps
the function, and an element that is not quite right only leads to a point beside the balanced one. From there the next
element is near the identity.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from quotax.geometry.canonical.absorption import Absorption
from quotax.geometry.canonical.acting import act
from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.canonical.leading import Leading
from quotax.geometry.canonical.representative import Canonical, canonical_of, carried_back
from quotax.geometry.linalg.named import Named
from quotax.geometry.metrics.metric import seldom
from quotax.geometry.quotient import Based
from quotax.presenting import Result
from quotax.trees import AnyArray, Tree

STEPS = 4
"""Elements that lead to a representative, one after the other, before it is given up."""

NEAR = 10.0
"""An element of at most this condition is near enough to the identity."""


@dataclass(frozen=True, repr=False)
class Footing(Result):
    """What rounding leaves of a point.

    Attributes:
        attained: whether the canonical representative exists and was reached; None where there is nothing to lead to.
        condition: of the element that leads to it.
        rounding: of the parameters, relative, as a change of the canonical representative: a bound on its order.
    """

    attained: bool | None
    condition: float
    rounding: float


@dataclass(frozen=True)
class Ground:
    """A balanced representative of a point's orbit, with the way there and back.

    Attributes:
        point: the representative, factored.
        condition: of the element that leads there.
        attained: whether it is the canonical one.
        steps: the elements, with the float64 parameters that each of them leads to.
    """

    point: Based
    condition: float
    attained: bool
    steps: tuple[tuple[Leading, Named, Named], ...]

    def push(self, v: Tree) -> Tree:
        """A tangent vector at the point, moved to the representative."""
        return self._carried(v, _pushed, self.steps)

    def pull(self, v: Tree) -> Tree:
        """A tangent vector at the representative, moved back to the point."""
        return self._carried(v, _pulled, self.steps[::-1])

    def _carried(self, v: Tree, carry: Callable[..., Named], steps: Sequence[tuple[Leading, Named, Named]]) -> Tree:
        space = self.point.space
        given = space._vectors(v, "v", "ground.push(v)" if carry is _pushed else "ground.pull(v)")
        moved = _wide(given)
        with jax.enable_x64(True):
            for leading, before, after in steps:
                moved = carry(leading.gauge, leading.absorbed, _elements(leading, before), before, after, moved)
        return space.network.tree({name: _narrow(moved[name], given[name].dtype) for name in given})


def footing(point: Based) -> Footing:
    """What rounding leaves of a point."""
    leading = _leading(point)
    unit = 0.5 * max(float(jnp.finfo(array.dtype).eps) for array in point.arrays.values())
    needed = point.space._metric.leading(point.data) is not None
    return Footing(leading.reached if needed else None, leading.condition, unit * leading.amplification)


def verticality(point: Based) -> float:
    """How much of a random vector's vertical part is left in its horizontal one."""
    rng = np.random.default_rng(0)
    v = jax.device_put({n: rng.normal(size=a.shape).astype(a.dtype) for n, a in sorted(point.arrays.items())})
    return float(seldom((point.space._metric, "verticality"), point.data, point.arrays, v))


def _leading(point: Based) -> Leading:
    space = point.space
    return space._metric.leading(point.data) or Leading(space._gauge, canonical_of(space._gauge, point.arrays))


def grounded(point: Based) -> Ground:
    """A balanced representative of the point's orbit: the canonical one, up to a condition of `NEAR`."""
    space, dtypes = point.space, {name: array.dtype for name, array in point.arrays.items()}
    arrays, condition, steps = _wide(point.arrays), 1.0, []
    while True:
        leading = _leading(point)
        own = leading.condition
        if (leading.reached and own <= NEAR) or len(steps) == STEPS or not np.isfinite(own):
            # A direction that vanished on the way is not missed at the end of it.
            attained = leading.reached and all(bool(step.found.closed) for step, *_ in steps)
            return Ground(point, condition, attained, tuple(steps))
        with jax.enable_x64(True):
            after = _forward(leading.gauge, leading.absorbed, _elements(leading, arrays), arrays)
        steps.append((leading, arrays, after))
        arrays, condition = after, condition * own
        point = space.at(space.network.tree({name: _narrow(after[name], dtype) for name, dtype in dtypes.items()}))


def _elements(
    leading: Leading, arrays: Named
) -> tuple[Mapping[str, AnyArray], Mapping[str, AnyArray], Mapping[str, AnyArray]]:
    """The shifts, the scalings, and the sizes of gains that are divided out."""
    gains = leading.absorbed.gains if leading.absorbed else ()
    return _wide(leading.found.shifts), _wide(leading.found.scalings), {n: np.abs(np.asarray(arrays[n])) for n in gains}


@functools.partial(jax.jit, static_argnums=(0, 1))
def _forward(gauge: Gauge, absorbed: Absorption | None, elements: Tree, arrays: Named) -> Named:
    shifts, scalings, sizes = elements
    move = lambda a: act(gauge.linear, act(gauge.shifts, a, shifts), scalings)
    if absorbed is None:
        return move(arrays)
    gains = {name: arrays[name] / sizes[name] for name in sizes}
    return absorbed.together(gains, move(absorbed.apart(arrays)[0]))


def _backward(gauge: Gauge, absorbed: Absorption | None, elements: Tree, arrays: Named) -> Named:
    shifts, scalings, sizes = elements
    yes = jnp.asarray(True)
    back = lambda a: carried_back(gauge, Canonical(a, shifts, scalings, yes, yes, yes, {}), a)
    if absorbed is None:
        return back(arrays)
    gains = {name: arrays[name] * sizes[name] for name in sizes}
    return absorbed.together(gains, back(absorbed.apart(arrays)[0]))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _pushed(gauge: Gauge, absorbed: Absorption | None, elements: Tree, before: Named, after: Named, v: Named) -> Named:
    return jax.jvp(lambda a: _forward(gauge, absorbed, elements, a), (before,), (v,))[1]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _pulled(gauge: Gauge, absorbed: Absorption | None, elements: Tree, before: Named, after: Named, v: Named) -> Named:
    return jax.jvp(lambda a: _backward(gauge, absorbed, elements, a), (after,), (v,))[1]


def _wide(arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """On the host, in float64: what is 64 bits wide must not meet JAX outside of its own context."""
    return {name: np.asarray(array, np.float64) for name, array in arrays.items()}


def _narrow(array: AnyArray, dtype: DTypeLike) -> jax.Array:
    return jnp.asarray(np.asarray(array).astype(dtype))
