"""The Riemannian calculus of the total space and of the quotient on flat vectors, as geomstats asks for it.

Points are vectors `space.ravel(params)`, a point of the quotient being any point of its orbit, and a tangent vector of
the quotient the horizontal vector there. Everything is a function of one point; `objects` makes batches of it.
"""

from __future__ import annotations

import abc
import functools
import math

import jax
import jax.numpy as jnp

from quotax.geometry.curvature import riemann as cv
from quotax.geometry.curvature.transport import derivative_above
from quotax.geometry.linalg.named import Named, ravel, unravel
from quotax.geometry.matching.logarithm import Log, shoot
from quotax.geometry.metrics.metric import Metric
from quotax.geometry.quotient import Quotient
from quotax.trees import AnyArray


class Calculus:
    """What all have in common: flat vectors and the metric above."""

    def __init__(self, space: Quotient) -> None:
        """Keep the space and its metric."""
        self.space = space
        self.metric: Metric = space._metric
        self.shapes = dict(space.network.shapes)

    def named(self, vector: jax.Array) -> Named:
        """The arrays of a flat vector."""
        return unravel(self.shapes, vector, self.shapes)

    def flat(self, arrays: Named) -> jax.Array:
        """The flat vector of arrays."""
        return ravel(arrays, self.shapes)

    def horizontal(self, v: jax.Array, p: jax.Array) -> jax.Array:
        """The horizontal projection."""
        arrays = self.named(p)
        return v - self.flat(self.metric.vertical(self.metric.prepare(arrays), arrays, self.named(v)))

    def christoffel(self, u: jax.Array, v: jax.Array, p: jax.Array) -> jax.Array:
        """The Christoffel symbols above, contracted with two vectors."""
        if self.metric.euclidean:
            return jnp.zeros_like(p)
        arrays, left, right = (self.named(w) for w in (p, u, v))
        return self.flat(cv.christoffel(self.metric._riemannian, arrays, left, right))


class Tangents(Calculus, abc.ABC):
    """Tangent vectors of a space, given by vectors above of which only a part counts."""

    @abc.abstractmethod
    def require(self, name: str) -> None:
        """Refuse an operation that the metric does not allow."""

    @abc.abstractmethod
    def projected(self, v: jax.Array, p: jax.Array) -> jax.Array:
        """The part of a vector that counts."""

    def inner(self, u: jax.Array, v: jax.Array, p: jax.Array) -> jax.Array:
        """The inner product of the parts that count."""
        arrays = self.named(p)
        left, right = (self.named(self.projected(w, p)) for w in (u, v))
        return self.metric.inner(self.metric.prepare(arrays), arrays, left, right)

    def sharp(self, covector: jax.Array, p: jax.Array) -> jax.Array:
        """The vector of a covector."""
        arrays = self.named(p)
        raised = self.metric.sharp(self.metric.prepare(arrays), arrays, self.named(covector))
        return self.projected(self.flat(raised), p)


class Above(Tangents):
    """The total space."""

    def require(self, name: str) -> None:
        """It has a metric whatever the group does."""

    def projected(self, v: jax.Array, p: jax.Array) -> jax.Array:
        """All of it."""
        return v

    def exp(self, v: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The end of the geodesic of any vector, and when it leaves the domain."""
        if self.metric.euclidean:
            return p + v, jnp.asarray(jnp.inf)
        return self._end(self.named(v), self.named(p))

    def log(self, q: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The vector whose geodesic ends at `q`, and whether one was found."""
        if self.metric.euclidean:
            return q - p, jnp.asarray(True)
        arrays, chord = self.named(p), q - p

        def end(w: Named, *, forward: bool = False) -> Named:
            reached, exit_time = self._end(w, arrays, forward=forward)
            return self.named(jnp.where(exit_time > 1, reached, jnp.nan))

        def towards(goal: jax.Array, start: jax.Array) -> Log:
            ahead = functools.partial(end, forward=True)
            target = lambda e: self.named(goal)
            return shoot(end, target, lambda point, v: v, arrays, self.named(start), forward=ahead)

        def unfinished(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
            share, step, _ = state
            return (share < 1) & (step >= 1 / 16)

        def further(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
            share, step, w = state
            new = jnp.minimum(share + step, 1)
            found = towards(
                p + new * chord, jnp.where(share > 0, w * new / jnp.where(share > 0, share, 1), new * chord)
            )
            ok = found.ok
            return (
                jnp.where(ok, new, share),
                jnp.where(ok, 2 * step, step / 2),
                jnp.where(ok, self.flat(found.vector), w),
            )

        # The whole way at once, or as far along the chord as shooting goes from what was found before.
        one = jnp.ones((), p.dtype)
        state = jax.lax.stop_gradient((0 * one, one, chord))
        found = towards(q, jax.lax.stop_gradient(jax.lax.while_loop(unfinished, further, state)[2]))
        return self.flat(found.vector), found.ok

    def _end(self, v: Named, arrays: Named, *, forward: bool = False) -> tuple[jax.Array, jax.Array]:
        path = self.metric.path_above(self.metric.prepare(arrays), arrays, v, forward=forward)
        return self.flat(path.end), path.exit_time

    def curvature(self, x: jax.Array, y: jax.Array, z: jax.Array, p: jax.Array) -> jax.Array:
        """`R(x, y) z`."""
        if self.metric.euclidean:
            return jnp.zeros_like(p)
        return self.flat(cv.tensor(self._above, *(self.named(v) for v in (p, x, y, z))))

    def curvature_derivative(self, h: jax.Array, x: jax.Array, y: jax.Array, z: jax.Array, p: jax.Array) -> jax.Array:
        """The covariant derivative of the curvature."""
        if self.metric.euclidean:
            return jnp.zeros_like(p)
        return self.flat(derivative_above(self._above, *(self.named(v) for v in (p, h, x, y, z))))

    def transport(self, v: jax.Array, direction: AnyArray, p: jax.Array) -> jax.Array:
        """Parallel transport to the end of the geodesic along `direction`."""
        if self.metric.euclidean:
            return v
        return self.flat(self.metric.transport_above(self._above, *(self.named(w) for w in (p, direction, v))))

    @functools.cached_property
    def _above(self) -> cv.Riemannian:
        return cv.above(self.metric._riemannian)


_INVARIANT = {"exp", "log", "curvature", "sectional", "curvature_derivative", "transport"}
"""Operations of the quotient, which has no metric unless that of the parameters is invariant."""


class Below(Tangents):
    """The quotient."""

    def require(self, name: str) -> None:
        """Refuse what belongs to a quotient metric where there is none."""
        if name in _INVARIANT:
            self.space._needs_invariance(f"space.metric: {name}")

    def projected(self, v: jax.Array, p: jax.Array) -> jax.Array:
        """The horizontal part."""
        return self.horizontal(v, p)

    def exp(self, v: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The end of the geodesic of the horizontal part, and when it leaves the domain."""
        arrays = self.named(p)
        path = self.metric.path(self.metric.prepare(arrays), arrays, self.named(self.horizontal(v, p)))
        return self.flat(path.end), path.exit_time

    def log(self, q: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The horizontal vector whose geodesic ends in the orbit of `q`, and whether one was found."""
        found = self.space._between.logarithm(self.named(p), self.named(q))
        return self.horizontal(self.flat(found.vector), p), found.ok

    def align(self, q: jax.Array, p: jax.Array) -> jax.Array:
        """The point of the orbit of `q` that is closest to `p`, in the Euclidean metric."""
        return self.flat(self.space._between.aligned(self.named(q), self.named(p))[0])

    def curvature(self, x: jax.Array, y: jax.Array, z: jax.Array, p: jax.Array) -> jax.Array:
        """`R(x, y) z`."""
        arrays = self.named(p)
        vectors = [self.named(v) for v in (x, y, z)]
        return self.flat(self.metric.curvature(self.metric.prepare(arrays), arrays, *vectors))

    def sectional(self, x: jax.Array, y: jax.Array, p: jax.Array) -> jax.Array:
        """The curvature of a plane."""
        arrays = self.named(p)
        return self.metric.sectional(self.metric.prepare(arrays), arrays, self.named(x), self.named(y))

    def curvature_derivative(self, h: jax.Array, x: jax.Array, y: jax.Array, z: jax.Array, p: jax.Array) -> jax.Array:
        """The covariant derivative of the curvature."""
        return self.flat(self.metric.curvature_derivative(*(self.named(v) for v in (p, h, x, y, z))))

    def transport(self, v: jax.Array, direction: AnyArray, p: jax.Array) -> jax.Array:
        """Parallel transport to the end of the geodesic along `direction`."""
        return self.flat(self.metric.transport(self.named(p), self.named(direction), self.named(v)))

    def carried(self, v: jax.Array, q: jax.Array, p: jax.Array) -> jax.Array:
        """A vector at `p` moved by the element that brings `p` closest to `q`."""
        point = self.named(p)
        return self.flat(jax.jvp(self.space._between.mover(point, self.named(q)), (point,), (self.named(v),))[1])

    def integrability(self, x: jax.Array, e: jax.Array, p: jax.Array) -> jax.Array:
        """O'Neill's tensor."""
        arrays, along, vector = (self.named(v) for v in (p, x, e))
        if self.metric.euclidean:
            return self.flat(cv.flat_integrability(self.metric.parts, arrays, along, vector))
        return self.flat(cv.integrability(self.metric._riemannian, arrays, along, vector))

    def integrability_derivative(
        self, x: jax.Array, y: jax.Array, nabla_y: jax.Array, e: jax.Array, nabla_e: jax.Array, p: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        r"""$\nabla_x(A_Y E)$ for fields with the derivatives $\nabla_x Y$ and $\nabla_x E$, and $A_Y E$."""
        x, y = self.horizontal(x, p), self.horizontal(y, p)
        rates = nabla_y - self.christoffel(x, y, p), nabla_e - self.christoffel(x, e, p)
        value, change = jax.jvp(lambda q, a, b: self.integrability(a, b, q), (p, y, e), (x, *rates))
        return change + self.christoffel(x, value, p), value


class GroupElements:
    """Elements of the whole group as flat vectors: a direction, and one element of every family.

    `+1` stands for the families acting in their order, `-1` for the reverse order: the inverse of a product is the
    product of the inverses the other way round, and families need not commute.
    """

    def __init__(self, space: Quotient) -> None:
        """Lay the families out one after the other."""
        self.families = space.families
        self.shapes = {family.name: family.group.shape(family.sizes) for family in self.families}
        self.size = 1 + sum(math.prod(shape) for shape in self.shapes.values())

    def split(self, element: jax.Array) -> list[jax.Array]:
        """One array for each family."""
        return list(unravel(self.shapes, element[1:], self.shapes).values())

    def join(self, direction: AnyArray, parts: list[jax.Array]) -> jax.Array:
        """The flat vector of one array for each family."""
        return jnp.concatenate([jnp.reshape(direction, 1), *(jnp.ravel(part) for part in parts)])

    def identity(self) -> jax.Array:
        """Every family's own."""
        return self.join(1.0, [family.group.identity(family.sizes, float) for family in self.families])

    def random(self, key: jax.Array) -> jax.Array:
        """Random elements of every family."""
        keys = jax.random.split(key, max(len(self.families), 1))
        pairs = zip(self.families, keys, strict=False)
        return self.join(1.0, [family.group.random(k, family.sizes, 0.5) for family, k in pairs])

    def inverse(self, element: jax.Array) -> jax.Array:
        """The inverses, in the other direction."""
        pairs = zip(self.families, self.split(element), strict=True)
        return self.join(-element[0], [family.group.inverse(part) for family, part in pairs])

    def act(self, element: jax.Array, arrays: Named) -> Named:
        """The action on parameters."""
        pairs = list(zip(self.families, self.split(element), strict=True))
        forth = back = arrays
        for (family, g), (last, k) in zip(pairs, pairs[::-1], strict=True):
            forth, back = family.act(forth, g), last.act(back, k)
        return {name: jnp.where(element[0] > 0, forth[name], back[name]) for name in arrays}
