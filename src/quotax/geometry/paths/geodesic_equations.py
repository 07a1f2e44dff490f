"""Geodesics as differential equations: of the canonical representatives, and of any metric given by its inverse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from quotax.errors import GeometryError
from quotax.geometry.families.component import Component
from quotax.geometry.families.renaming import skeleton
from quotax.geometry.families.roles import is_shift
from quotax.geometry.linalg.named import Named, add, dot, norm
from quotax.geometry.paths.boundary import gram_regularity, references
from quotax.geometry.paths.equation import SURELY, State, System, Trajectory, trajectory
from quotax.geometry.paths.path import path_type
from quotax.geometry.projection import solver
from quotax.geometry.projection.vertical import Factors, factors_at
from quotax.trees import Tree

# --- canonical representatives


def kempf_ness(
    parts: tuple[Component, ...],
    arrays: Mapping[str, jax.Array],
    velocity: Mapping[str, jax.Array],
    *,
    factors: Factors | None = None,
    watch: bool = True,
    forward: bool = False,
) -> Trajectory:
    """The geodesic of `C = {moment = const}` from a canonical point, along a horizontal velocity.

    Canonical points are those of least norm on their orbits, where `V(c)^T c = 0` (or a multiple of the trace, for what
    is only multiplied by g and never by its inverse) and shifts are orthogonal to what they shift. Horizontal,
    `V(c)^T c' = 0`, is then tangent to C, for the generators that come in adjoint pairs. A geodesic of C has normal,
    hence vertical, acceleration, and the derivative of `V(c)^T c' = 0` says which: `c'' = -V Gram^-1 q` with
    `q = V(c')^T c'`, counting only what is linear in `c`, as a shift is the same everywhere. Skew generators have
    `q = 0`: they act on C by isometries.

    The path leaves its domain where the orbit's dimension drops, the Gram matrix becoming singular. Looking for that
    takes eigenvalues at some forty points of the path; without `watch` the path goes on where nothing blows up.
    `forward` is for derivatives in forward mode, which the path otherwise has in reverse mode only. `factors` are those
    at `arrays`, where they are known.
    """
    _check(parts)
    fixed = jax.lax.stop_gradient(dict(arrays))
    factors = jax.lax.stop_gradient(factors_at(parts, fixed) if factors is None else factors)
    reference = references(parts, factors, fixed) if watch else None
    system = KempfNess(parts, factors, reference)
    return trajectory(system, dict(arrays), dict(velocity), dict(velocity), forward=forward)


@path_type(static=("parts",))
class KempfNess(System):
    """`c'' = -V Gram^-1 q(c')` on pairs of position and velocity."""

    parts: tuple[Component, ...]
    factors: Factors
    reference: tuple[Tree, ...] | None

    def rate(self, state: State) -> State:
        """The derivative of the state."""
        return state[1], self.acceleration(state)

    def acceleration(self, state: State) -> Named:
        """Minus the vertical vector with the inner products `q` with the fields."""
        arrays, velocity = state
        bend = {name: jnp.zeros_like(array) for name, array in arrays.items()}
        for bare, factor in zip(map(skeleton, self.parts), self.factors, strict=True):
            here, speed = bare.numbered(arrays), bare.numbered(velocity)
            found = solver.nearby(bare.part, factor, here, _linear(bare.part, speed, speed))
            along = bare.named(bare.part.velocity(here, found), bare.parameters)
            bend |= {name: -value for name, value in along.items()}
        return bend

    def fall(self, state: State) -> jax.Array:
        """The speed, which is constant, over the length in which a regularity may fall by one."""
        return norm(state[1]) / leeway(self.parts, self.factors, state[0])

    def velocity(self, state: State) -> Named:
        """The parameters' derivative."""
        return state[1]

    def regularity(self, state: State) -> jax.Array | None:
        """How far the Gram matrices are from becoming singular."""
        return None if self.reference is None else gram_regularity(self.parts, self.reference, state[0])

    def unwatched(self) -> KempfNess:
        """Without the reference."""
        return KempfNess(self.parts, self.factors, None)

    def drift(self, start: State, end: State) -> jax.Array:
        """The change of the speed and of the moments."""
        before, after = norm(start[1]), norm(end[1])
        worst = jnp.abs(after - before) / jnp.where(before > 0, before, 1)
        for part in self.parts:
            size = sum(jnp.sum(start[0][name] ** 2) for name in part.moved)
            for change in add(_moment(part, end[0]), -1, _moment(part, start[0])).values():
                worst = jnp.maximum(worst, jnp.max(jnp.abs(change), initial=0) / jnp.where(size > 0, size, 1))
        return worst


def reach(parts: tuple[Component, ...], factors: Factors, arrays: Named) -> jax.Array:
    """A length within which no geodesic from these arrays leaves its domain; zero where nothing is known."""
    return SURELY * leeway(parts, factors, arrays)


def leeway(parts: tuple[Component, ...], factors: Factors, arrays: Named) -> jax.Array:
    """The length of a path over which `|V(c) xi| / |V(c0) xi|` falls by one at most; zero where nothing is known.

    For a vertical `V(c0) xi` of length one, `|V(c) xi|` changes by at most `|V(dc) xi|`, the fields being affine in c.
    """
    steep = jnp.zeros((), jnp.result_type(*arrays.values()))
    for bare, factor in zip(map(skeleton, parts), factors, strict=True):
        size = solver.slowest(bare.part, factor)
        steep = jnp.maximum(steep, jnp.inf if size is None else size * _steepness(bare.part))
    return 1 / steep


def _steepness(part: Component) -> float:
    """A bound on `|V(c) xi| / (|c| |xi|)`, counting what is linear in `c`.

    `|sum_k a_k xi_k c_k|^2` over the terms of a target is at most their number times the sum of squares, in which a
    family may meet a source several times. Coordinates of skew matrices are `|xi| / sqrt 2`.
    """
    terms = [(f, t) for f in part.families for t in f.terms or () if t.source is not None]
    if not terms:
        return 0.0
    shared = max(Counter(t.target for _, t in terms).values())
    met = max(Counter((f.name, t.source) for f, t in terms).values())
    skew = 2 if any(f.group.orthogonal for f, _ in terms) else 1
    return max(abs(t.coefficient) for _, t in terms) * (skew * shared * met) ** 0.5


def _linear(part: Component, arrays: Named, vectors: Named) -> Named:
    """`V(arrays)^T vectors` for the linear part of the fields: of families that do more than shift."""
    found = part.covelocity(arrays, vectors)
    return {f.name: jnp.zeros_like(found[f.name]) if is_shift(f) else found[f.name] for f in part.families}


def _moment(part: Component, arrays: Named) -> Named:
    """What has the derivative `V(c)^T c'` when the linear generators are self-adjoint: it is constant on C."""
    return add(part.covelocity(arrays, arrays), -0.5, _linear(part, arrays, arrays))


def _check(parts: tuple[Component, ...]) -> None:
    for family in (family for part in parts for family in part.families):
        terms = family.terms
        if terms is None:
            raise GeometryError(
                f"`kempf_ness`: the field of {family.name!r} is not made of terms linear in the parameters, "
                "so that its canonical representatives are no level of a moment; use `hamiltonian`."
            )
        if len({term.kind == "shift" for term in terms}) > 1:
            raise GeometryError(
                f"`kempf_ness`: {family.name!r} shifts some parameters and moves others in proportion to their values, "
                "so that its canonical representatives are no level of a moment; use `hamiltonian`."
            )
        carried = {(term.target, term.source) for term in terms if term.kind == "carried"}
        for target, source in carried:
            if (source, target) not in carried:
                raise GeometryError(
                    f"`kempf_ness`: {family.name!r} moves {target!r} along {source!r} but not {source!r} along "
                    f"{target!r}, so that its generators are not self-adjoint; use `hamiltonian`."
                )


# --- any metric


Sharp = Callable[[Named, Named], Named]
"""`sharp(arrays, covector)`: the inverse of the metric at `arrays`, applied to a covector."""


def hamiltonian(
    sharp: Sharp,
    arrays: Mapping[str, jax.Array],
    velocity: Mapping[str, jax.Array],
    covector: Mapping[str, jax.Array],
    *,
    forward: bool = False,
) -> Trajectory:
    """The geodesic of the metric with the inverse `sharp`, a hashable function, by Hamilton's equations.

    `H = <p, sharp(theta, p)> / 2`, `theta' = sharp(theta, p)`, `p' = -dH/dtheta`, from `p = covector`, which is the
    metric applied to `velocity`. A horizontal velocity stays horizontal when the group acts by isometries.

    The exit is where the solver can go no further. `forward` is for derivatives in forward mode, as of `kempf_ness`.
    """
    return trajectory(Hamiltonian(sharp), dict(arrays), dict(velocity), dict(covector), forward=forward)


@path_type(static=("sharp",))
class Hamiltonian(System):
    """Hamilton's equations on pairs of position and covector."""

    sharp: Sharp

    def energy(self, state: State) -> jax.Array:
        """`<p, sharp(theta, p)> / 2`."""
        return dot(state[1], self.velocity(state)) / 2

    def rate(self, state: State) -> State:
        """The derivative of the state."""

        def energy(theta: Named) -> tuple[jax.Array, Named]:
            velocity = self.velocity((theta, state[1]))
            return dot(state[1], velocity) / 2, velocity

        force, velocity = jax.grad(energy, has_aux=True)(state[0])
        return velocity, {name: -f for name, f in force.items()}

    def velocity(self, state: State) -> Named:
        """The parameters' derivative."""
        return self.sharp(state[0], state[1])

    def regularity(self, state: State) -> None:
        """Nothing is known of where the metric ends."""

    def drift(self, start: State, end: State) -> jax.Array:
        """The change of the energy."""
        # One state after the other: the metric is compiled once.
        before, after = jax.lax.map(self.energy, jax.tree.map(lambda *x: jnp.stack(x), start, end))
        return jnp.abs(after - before) / jnp.where(before > 0, before, 1)
