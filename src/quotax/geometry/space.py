"""`QuotientSpace`: parameter space divided by symmetries, pytrees in and out."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from quotax.artifacts import ArraySpec, Certificate
from quotax.errors import GeometryError, ParameterError
from quotax.geometry.vertical import Factors, Family, Named, components, factors_at, rank, vertical
from quotax.trees import nest

METRICS = ("euclidean",)


class SizedModel(Protocol):
    """A network, as the geometry uses it."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The axis sizes."""
        ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The parameters' shapes by name."""
        ...

    @property
    def num_parameters(self) -> int:
        """How many numbers the parameters hold."""
        ...

    def check_params(self, params: Any, *, call: str, finite: bool = False) -> dict[str, Any]:
        """The arrays by name, refused when they do not fit."""
        ...


class QuotientSpace:
    """Theta/G: what is left of a network's parameter space once its symmetries are divided out.

    A tangent vector is a pytree like the parameters. `vertical` is its part along the orbit, `horizontal` the rest,
    orthogonal in the metric. Everything here is a pure function of pytrees: jit, vmap and grad apply.
    """

    def __init__(
        self,
        network: SizedModel,
        specs: tuple[ArraySpec, ...],
        families: Sequence[Family],
        certificates: Sequence[Certificate],
        metric: str = "euclidean",
    ) -> None:
        """Use `quotax.quotient`, which lowers and certifies the symmetries first."""
        if metric not in METRICS:
            raise GeometryError(f"`quotient`: metric must be one of {', '.join(map(repr, METRICS))}, got {metric!r}.")
        names = [family.name for family in families]
        for name in names:
            if names.count(name) > 1:
                raise GeometryError(f"`quotient`: two symmetries are called {name!r}; give each its own name.")
        self.network = network
        self.specs = specs
        self.families = tuple(families)
        self.certificates = tuple(certificates)
        self.metric_name = metric
        self._parts = components(families)

    # --- dimensions

    @functools.cached_property
    def fiber_dim(self) -> int:
        """The dimension of a generic orbit: the rank of the fields at random parameters, in float64."""
        rng = np.random.default_rng(0)
        with jax.enable_x64(True):
            arrays = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in self.network.shapes.items()}
            return int(rank(self._parts, arrays))

    @property
    def algebra_dim(self) -> int:
        """The dimension of the group; it exceeds `fiber_dim` by that of the stabiliser."""
        return sum(family.dimension for family in self.families)

    @property
    def dim(self) -> int:
        """The dimension of the quotient."""
        return self.network.num_parameters - self.fiber_dim

    # --- one base point

    def at(self, params: Any) -> Point:
        """The parameters with everything factored that projections there share."""
        return self._point(params, "space.at(params)")

    def vertical(self, params: Any, v: Any) -> Any:
        """The part of `v` along the orbit through `params`."""
        return self._point(params, "space.vertical(params, v)").vertical(v)

    def horizontal(self, params: Any, v: Any) -> Any:
        """The part of `v` that leaves the orbit through `params`."""
        return self._point(params, "space.horizontal(params, v)").horizontal(v)

    def _point(self, params: Any, call: str) -> Point:
        arrays = self._arrays(params, call)
        return Point(arrays, factors_at(self._parts, arrays), self)

    def inner(self, params: Any, u: Any, v: Any) -> jax.Array:
        """The inner product of two tangent vectors at `params`."""
        self._arrays(params, "space.inner(params, u, v)")
        left = self._vectors(u, "u", "space.inner(params, u, v)")
        right = self._vectors(v, "v", "space.inner(params, u, v)")
        return _dot(left, right)

    def norm(self, params: Any, v: Any) -> jax.Array:
        """The length of a tangent vector at `params`."""
        self._arrays(params, "space.norm(params, v)")
        return _length(self._vectors(v, "v", "space.norm(params, v)"))

    # --- the group

    def field(self, params: Any, xi: Mapping[str, Any]) -> Any:
        """The velocity of `params` along algebra elements, one per family name (shapes as group elements)."""
        call = "space.field(params, xi)"
        arrays = self._arrays(params, call)
        total = {name: jnp.zeros_like(array) for name, array in arrays.items()}
        for family, element in self._by_family(xi, "xi", call):
            if family.dimension:
                for name, value in family.field(arrays, element).items():
                    total[name] = total[name] + value
        return nest(total)

    def act(self, params: Any, g: Mapping[str, Any]) -> Any:
        """The parameters moved by group elements, one per family name; families act in their order."""
        call = "space.act(params, g)"
        arrays = self._arrays(params, call)
        for family, element in self._by_family(g, "g", call):
            arrays = family.act(arrays, element)
        return nest(arrays)

    def random_element(self, key: jax.Array, scale: float = 1.0) -> dict[str, jax.Array]:
        """A random group element by family name: exponentials of normal coordinates times `scale`."""
        keys = jax.random.split(key, max(len(self.families), 1))
        pairs = zip(self.families, keys, strict=False)
        return {family.name: family.group.random(k, family.sizes, scale) for family, k in pairs}

    def _by_family(self, elements: Mapping[str, Any], label: str, call: str) -> list[tuple[Family, jax.Array]]:
        if not isinstance(elements, Mapping):
            raise GeometryError(f"`{call}`: {label} must be a dict of family name -> array, got {elements!r}.")
        known = {family.name: family for family in self.families}
        for name, element in elements.items():
            if name not in known:
                raise GeometryError(f"`{call}`: {label} names {name!r}; the families are {', '.join(known) or 'none'}.")
            shape = known[name].group.shape(known[name].sizes)
            if np.shape(element) != shape:
                raise GeometryError(
                    f"`{call}`: {label}[{name!r}] has shape {np.shape(element)}, but elements of {known[name].group} have {shape}."
                )
        return [(family, jnp.asarray(elements[family.name])) for family in self.families if family.name in elements]

    # --- geomstats

    @functools.cached_property
    def _geomstats(self) -> Any:
        from quotax.geometry.bundle import build

        return build(self)

    @property
    def bundle(self) -> Any:
        """The geomstats `FiberBundle` over flat parameter vectors (`ravel`)."""
        return self._geomstats.fiber_bundle

    @property
    def metric(self) -> Any:
        """The geomstats `QuotientMetric` of the base."""
        return self._geomstats.quotient.metric

    def ravel(self, tree: Any) -> jax.Array:
        """A pytree as the flat vector that geomstats sees."""
        arrays = self._vectors(tree, "tree", "space.ravel(tree)")
        return jnp.concatenate([jnp.ravel(arrays[name]) for name in self.network.shapes])

    def unravel(self, vector: Any) -> Any:
        """A flat vector as a pytree."""
        arrays, start = {}, 0
        for name, shape in self.network.shapes.items():
            stop = start + math.prod(shape)
            arrays[name] = vector[start:stop].reshape(shape)
            start = stop
        return nest(arrays)

    # --- checks

    def _arrays(self, params: Any, call: str) -> Named:
        return {n: jnp.asarray(a) for n, a in self.network.check_params(params, call=call, finite=True).items()}

    def _vectors(self, v: Any, label: str, call: str) -> Named:
        try:
            return {n: jnp.asarray(a) for n, a in self.network.check_params(v, call=call).items()}
        except ParameterError as error:
            message = (
                str(error).replace("params[", f"{label}[").replace("the parameters are", f"the arrays of {label} are")
            )
            raise ParameterError(message) from None

    def __repr__(self) -> str:
        """Dimensions and families."""
        names = ", ".join(f"{family.name}: {family.group}" for family in self.families)
        return f"QuotientSpace of {self.network!r} by {names or 'nothing'} ({self.metric_name} metric)"


@functools.partial(jax.tree_util.register_dataclass, data_fields=["arrays", "factors"], meta_fields=["space"])
@dataclass(frozen=True)
class Point:
    """A base point with its factored Gram blocks: projections here cost a few passes over the parameters."""

    arrays: Named
    factors: Factors
    space: QuotientSpace

    @property
    def params(self) -> Any:
        """The parameters as a pytree."""
        return nest(self.arrays)

    def vertical(self, v: Any) -> Any:
        """The part of `v` along the orbit."""
        vectors = self.space._vectors(v, "v", "space.vertical(params, v)")
        return nest(vertical(self.space._parts, self.factors, self.arrays, vectors))

    def horizontal(self, v: Any) -> Any:
        """The part of `v` that leaves the orbit."""
        vectors = self.space._vectors(v, "v", "space.horizontal(params, v)")
        along = vertical(self.space._parts, self.factors, self.arrays, vectors)
        return nest({name: vectors[name] - along[name] for name in vectors})

    def inner(self, u: Any, v: Any) -> jax.Array:
        """The inner product of two tangent vectors."""
        call = "point.inner(u, v)"
        return _dot(self.space._vectors(u, "u", call), self.space._vectors(v, "v", call))

    def norm(self, v: Any) -> jax.Array:
        """The length of a tangent vector."""
        return _length(self.space._vectors(v, "v", "point.norm(v)"))


def _dot(u: Named, v: Named) -> jax.Array:
    return sum(
        (jnp.vdot(u[name], v[name], precision="highest") for name in u),
        start=jnp.zeros((), jnp.result_type(*u.values())),
    )


def _length(v: Named) -> jax.Array:
    # Scaled by the largest entry, so that squares neither overflow nor vanish; the norm of zero has gradient zero.
    largest = functools.reduce(jnp.maximum, [jnp.max(jnp.abs(a), initial=0) for a in v.values()])
    scale = jax.lax.stop_gradient(jnp.where(largest > 0, largest, 1))
    square = _dot({n: a / scale for n, a in v.items()}, {n: a / scale for n, a in v.items()})
    return jnp.where(largest > 0, scale * jnp.sqrt(jnp.where(largest > 0, square, 1)), 0)
