r"""Metrics on the parameters, each as a whitening: a linear map `A` at every point with `<u, v> = (A u) . (A v)`.

Everything follows from it: the inverse of the metric is $A^{-1} A^{-T}$, a standard normal vector of the metric is
$A^{-1}$ of an ordinary one, and the projection onto the orbit is the Euclidean one between the images.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp

from quotax.geometry.canonical.absorption import Absorption
from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.canonical.leading import Leading
from quotax.geometry.canonical.representative import Canonical
from quotax.geometry.curvature.riemann import Riemannian, from_inner, sectional, tensor
from quotax.geometry.curvature.transport import derivative_above, drift, transported
from quotax.geometry.families.compact import unusable
from quotax.geometry.families.component import Component
from quotax.geometry.families.renaming import skeleton
from quotax.geometry.families.roles import is_isometric
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named, dot, length, norm, ravel
from quotax.geometry.paths.geodesic_equations import hamiltonian
from quotax.geometry.paths.path import Path
from quotax.programs.compiling import once
from quotax.symmetry import Group
from quotax.trees import Tree

Data = TypeVar("Data")
"""What a metric prepares at a base point."""


class Oriented(NamedTuple):
    """Data whose whitening follows the group, up to rounding over `margin`; `loose` are families it does not follow."""

    data: Tree
    margin: jax.Array
    loose: Mapping[str, str]


@functools.partial(jax.jit, static_argnums=(0, 1))
def compiled(metric: Metric, operation: str, data: Tree, arrays: Named, *vectors: Named) -> Tree:
    """One of a metric's operations as one program."""
    return getattr(metric, operation)(data, arrays, *vectors)


@once
def seldom(operation: tuple[Metric, str], data: Tree, arrays: Named, *vectors: Named) -> Tree:
    """One of a metric's operations that is asked for once at a point."""
    metric, name = operation
    return getattr(metric, name)(data, arrays, *vectors)


@jax.jit
def less(v: Named, along: Named) -> Named:
    """What is left of a vector without another."""
    return {name: v[name] - along[name] for name in v}


class Aim(NamedTuple):
    """How geodesics are shot: along `path` from `base`, which is the canonical representative or the point itself.

    `level` is the horizontal part at the base, `project` anywhere; `back` moves a vector from the base to the point.
    """

    canonical: bool
    base: Named
    path: Callable[..., Path]
    level: Callable[[Named], Named]
    project: Callable[[Named, Named], Named]
    back: Callable[[Named], Named]


class Metric(abc.ABC, Generic[Data]):
    """A metric; compared by what it is made of, so that what is compiled for one serves its equals.

    `data` is what `prepare` computes once at a base point.
    """

    name: str
    families: tuple[Family, ...]
    parts: tuple[Component, ...]
    euclidean: bool = False
    gauge: Gauge | None = None
    """What leads to the canonical representatives that the metric is made with, if it is."""
    absorbed: Absorption | None = None
    """The gains that are absorbed before anything else, if any are; `core` is the metric on the rest."""
    absorbing: tuple[str, ...] = ()
    """The steps of a proof that absorb them."""
    tangent: bool = False
    """Whether horizontal vectors at canonical representatives are known to be tangent to these.

    Horizontal geodesics then stay among them, and their accelerations are vertical.
    """
    _maker: functools.partial[Metric]
    lemma: str = ""
    """Why it is invariant, if the subgroups that `asked` names act by Euclidean isometries."""

    def __new__(cls, *given: object, **settings: object) -> Self:
        """Keep what it is made of."""
        made = super().__new__(cls)
        made._maker = functools.partial(cls, *given, **settings)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """It is made again, and so are its programs."""
        return self._maker, ()

    @functools.cached_property
    def _value(self) -> tuple[object, ...]:
        given = (tuple(each) if isinstance(each, list) else each for each in self._maker.args)
        return (type(self), *given, *sorted(self._maker.keywords.items()))

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self._value)

    def __eq__(self, other: object) -> bool:
        """Whether the other is made of the same."""
        return self is other or (isinstance(other, Metric) and self._value == other._value)

    def __hash__(self) -> int:
        """By value, computed once, because every call of a compiled program asks for it."""
        return self._hash

    @abc.abstractmethod
    def prepare(self, arrays: Named) -> Data:
        """Everything at a base point that its tangent vectors share."""

    @abc.abstractmethod
    def whiten(self, data: Data, arrays: Named, v: Named) -> Named:
        """`A v`."""

    @abc.abstractmethod
    def unwhiten(self, data: Data, arrays: Named, e: Named) -> Named:
        """`A^-1 e`."""

    @abc.abstractmethod
    def vertical(self, data: Data, arrays: Named, v: Named) -> Named:
        """The part of `v` along the orbit, orthogonal in the metric to the rest."""

    def horizontal(self, data: Data, arrays: Named, v: Named) -> Named:
        """What is left of `v` without its vertical part."""
        return less(v, self.vertical(data, arrays, v))

    def level(self, data: Data, arrays: Named, e: Named) -> Named:
        """The horizontal part in whitened coordinates: of `unwhiten(e)`, whitened."""
        return self.whiten(data, arrays, self.horizontal(data, arrays, self.unwhiten(data, arrays, e)))

    def oriented(self, data: Data) -> Oriented | None:
        """`data` with a whitening that follows the group: `A` at `g . theta` is `A` at `theta` after `g^-1`."""
        return None

    def leading(self, data: Data) -> Leading | None:
        """The element that leads to a canonical representative, where the metric is made with one."""
        return None

    def verticality(self, data: Data, arrays: Named, v: Named) -> jax.Array:
        """How much of the vertical part of `v` is left in its horizontal one: what a second projection still finds."""
        one = self.vertical(data, arrays, v)
        two = self.vertical(data, arrays, {name: v[name] - one[name] for name in v})
        first, second = (norm(self.whiten(data, arrays, w)) for w in (one, two))
        return jnp.where(first > 0, second / jnp.where(first > 0, first, 1), 0)

    def path(self, data: Data, arrays: Named, v: Named, *, forward: bool = False) -> Path:
        """The geodesic from `arrays` along `v`; by Hamilton's equations where nothing better is known.

        The solution of an equation has derivatives in reverse mode, or `forward` ones.
        """
        return self.path_above(data, arrays, v, forward=forward)

    def path_above(self, data: Data, arrays: Named, v: Named, *, forward: bool = False) -> Tree:
        """The geodesic along any vector, horizontal or not."""
        return hamiltonian(self._sharp_at, arrays, v, self.flat(data, arrays, v), forward=forward)

    def ray(self, data: Data, arrays: Named, e: Named) -> Path:
        """The geodesic of the horizontal vector `A^-1 e`."""
        return self.path(data, arrays, self.unwhiten(data, arrays, e))

    def reach(self, data: Data, arrays: Named) -> jax.Array:
        """A length within which no horizontal geodesic leaves its domain; zero where nothing is known."""
        return jnp.zeros((), jnp.result_type(*arrays.values()))

    def share_along(self, data: Data, arrays: Named, covector: Named) -> jax.Array:
        """How much of a covector lies along the orbit."""
        lifted = self.lifted(data, arrays, covector)
        whole, left = norm(lifted), norm(less(lifted, self.level(data, arrays, lifted)))
        return left / jnp.where(whole > 0, whole, 1)

    def _sharp_at(self, arrays: Named, covector: Named) -> Named:
        return self.sharp(self.prepare(arrays), arrays, covector)

    @functools.cached_property
    def _riemannian(self) -> Riemannian:
        return from_inner(lambda arrays, u, v: self.inner(self.prepare(arrays), arrays, u, v), self.parts)

    def curvature(self, data: Data, arrays: Named, x: Named, y: Named, z: Named) -> Named:
        """`R(x, y) z` of the quotient, by derivatives of the metric."""
        return tensor(self._riemannian, arrays, x, y, z)

    def sectional(self, data: Data, arrays: Named, x: Named, y: Named) -> jax.Array:
        """The sectional curvature of the quotient, by derivatives of the metric."""
        return sectional(self._riemannian, arrays, x, y)

    @functools.partial(jax.jit, static_argnums=0)
    def curvature_derivative(self, arrays: Named, h: Named, x: Named, y: Named, z: Named) -> Named:
        r"""$(\nabla_h R)(x, y) z$: the derivative of `R(X, Y) Z` along `h` for fields that are parallel along it."""
        data = self.prepare(arrays)
        return self._curvature_change(data, arrays, *(less(v, self.vertical(data, arrays, v)) for v in (h, x, y, z)))

    def _curvature_change(self, data: Data, arrays: Named, h: Named, x: Named, y: Named, z: Named) -> Named:
        return derivative_above(self._riemannian, arrays, h, x, y, z)

    @functools.partial(jax.jit, static_argnums=0)
    def transport(self, arrays: Named, direction: Named, v: Named) -> Named:
        """The horizontal part of `v`, transported to the end of the geodesic of the horizontal part of `direction`."""
        data = self.prepare(arrays)
        return self._transported(data, arrays, *(less(w, self.vertical(data, arrays, w)) for w in (direction, v)))

    def _transported(self, data: Data, arrays: Named, direction: Named, v: Named) -> Named:
        return self.transport_above(self._riemannian, arrays, direction, v)

    @functools.partial(jax.jit, static_argnums=(0, 1))
    def transport_above(self, riemannian: Riemannian, arrays: Named, direction: Named, v: Named) -> Named:
        """`v` transported along the geodesic of `direction`, by Hamilton's equations and derivatives of the metric."""
        path = self.path_above(self.prepare(arrays), arrays, direction)
        return transported(path.system, path.origin, v, functools.partial(drift, riemannian), path.duration)

    # --- between two points

    def speed(self, arrays: Named, v: Named) -> tuple[jax.Array, jax.Array]:
        """The length of the horizontal part of `v`, and whether it is to be trusted."""
        found = compiled(self, "_speed", None, arrays, v)
        return found, jnp.isfinite(found)

    def _speed(self, _: None, arrays: Named, v: Named) -> jax.Array:
        data = self.prepare(arrays)
        return norm(self.whiten(data, arrays, self.horizontal(data, arrays, v)))

    def aim(self, arrays: Named, here: Canonical) -> Aim:
        """How geodesics are shot from `arrays`, whose canonical representative is `here`."""
        data = self.prepare(arrays)
        return Aim(
            False,
            arrays,
            lambda w, forward=False: self.path(data, arrays, w, forward=forward),
            functools.partial(self.horizontal, data, arrays),
            lambda point, v: self.horizontal(self.prepare(point), point, v),
            lambda w: w,
        )

    # --- invariance

    @property
    def core(self) -> Metric:
        """The metric of what is left once gains are absorbed."""
        return self

    @property
    def unsettled(self) -> Mapping[str, str]:
        """The families that the metric is not made for, with the reasons."""
        return {}

    def suspects(self, families: Sequence[Family]) -> list[str]:
        """The families under which it is not known to be invariant by their structure; the certificate decides."""
        return [*self._loose(families), *unusable([family for family in families if not family.group.continuous])]

    def _loose(self, families: Sequence[Family]) -> list[str]:
        return [family.name for family in families if not is_isometric(family)]

    def asked(self, family: Family) -> Group | None:
        """The subgroup that the lemma asks to act by Euclidean isometries; none where it is trivial."""
        return family.group

    def inner(self, data: Data, arrays: Named, u: Named, v: Named) -> jax.Array:
        """The inner product of two tangent vectors."""
        return dot(self.whiten(data, arrays, u), self.whiten(data, arrays, v))

    def norm(self, data: Data, arrays: Named, v: Named) -> jax.Array:
        """The length of a tangent vector."""
        return length(self.whiten(data, arrays, v))

    def geodesic(self, data: Data, arrays: Named, v: Named) -> Path:
        """The geodesic along the horizontal part of `v`."""
        return self.path(data, arrays, self.horizontal(data, arrays, v))

    @functools.cached_property
    def alike(self) -> bool:
        """Whether blocks of the network are alike, so that a program for one of them serves others."""
        return len({skeleton(part).part for part in self.parts}) < len(self.parts)

    def flat(self, data: Data, arrays: Named, v: Named) -> Named:
        """The covector of a tangent vector, `A^T A v`."""
        apply = lambda w: self.whiten(data, arrays, w)
        return jax.linear_transpose(apply, v)(apply(v))[0]

    def sharp(self, data: Data, arrays: Named, covector: Named) -> Named:
        """The tangent vector of a covector, `A^-1 A^-T c`: the gradient of what has the derivative `c`."""
        return self.unwhiten(data, arrays, self.lifted(data, arrays, covector))

    def lifted(self, data: Data, arrays: Named, covector: Named) -> Named:
        """A covector in whitened coordinates, where it is a vector: `A^-T c`."""
        return jax.linear_transpose(lambda e: self.unwhiten(data, arrays, e), covector)(covector)[0]

    def gradient(self, data: Data, arrays: Named, covector: Named) -> Named:
        """The horizontal vector `n` with `<n, h> = c(h)` for every horizontal `h`: `A^-1 P A^-T c`.

        Blocks of a network that are alike are projected by one program, so this one is several.
        """
        level = self.level(data, arrays, compiled(self, "lifted", data, arrays, covector))
        return compiled(self, "unwhiten", data, arrays, level)


def vertical_by_matrix(
    parts: tuple[Component, ...], whiten: Callable[[Named], Named], arrays: Named, v: Named
) -> Named:
    """The vertical part in any metric, from the matrix of all fields: for few coordinates.

    The pseudo-inverse of the whitened fields' Gram matrix; directions that do not move have an eigenvalue at rounding.
    """
    total = {name: jnp.zeros_like(array) for name, array in v.items()}
    if not parts:
        return total

    def field(part: Component, coordinates: jax.Array) -> Named:
        return {**{n: jnp.zeros_like(a) for n, a in arrays.items()}, **part.field(arrays, coordinates)}

    dtype = jnp.result_type(*arrays.values())
    bases = [jax.vmap(functools.partial(field, part))(jnp.eye(part.dimension, dtype=dtype)) for part in parts]
    fields = {name: jnp.concatenate([basis[name] for basis in bases]) for name in arrays}
    rows = jax.vmap(lambda w: ravel(whiten(w)))(fields)
    scale = jnp.linalg.norm(rows, axis=1)
    rows = rows / jnp.where(scale > 0, scale, 1)[:, None]
    gram = rows @ rows.T
    values, vectors = jnp.linalg.eigh(jax.lax.stop_gradient(gram))
    ridge = 2 * len(gram) * jnp.finfo(dtype).eps * jnp.max(values, initial=0)
    weights = 1 / (jnp.maximum(values, 0) + jnp.where(ridge > 0, ridge, 1))
    solve = lambda _, b: vectors @ (weights * (vectors.T @ b))
    rest, coordinates = ravel(whiten(v)), jnp.zeros(len(gram), dtype)
    for _ in range(3):
        step = jax.lax.custom_linear_solve(lambda c: gram @ c, rows @ rest, solve, symmetric=True)
        rest, coordinates = rest - step @ rows, coordinates + step
    coordinates = coordinates / jnp.where(scale > 0, scale, 1)
    return {name: jnp.tensordot(coordinates, fields[name], 1) for name in arrays}
