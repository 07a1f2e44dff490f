"""What a group is: its elements, its algebra, and what others ask of it.

A group names the axis it acts on; `each="head"` gives one independent copy per index of another axis, and
`each="layer head"` one per index of two. An element is one array: a stack of matrices `(each, axis, axis)`, of vectors
`(each, axis)` for diagonal groups and translations, or of scalars `(each,)`, with as many first axes as `each` names.
Elements of the Lie algebra are shaped alike.

Nobody else asks which group it is: whoever needs to know something of a group asks for it here, and a group that
answers otherwise than most says so in its own file.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
from jax.typing import DTypeLike

from quotax.errors import SymmetryError
from quotax.kernel.elements import Element, Kind
from quotax.kernel.sizes import Size
from quotax.programs.draws import normal
from quotax.symmetry.groups import matrices
from quotax.symmetry.groups.membership import no_entry, no_matrix
from quotax.trees import AnyArray

Layout = Literal["matrix", "diagonal", "vector", "scalar"]
Freedom = Literal["orthogonal", "rotation", "permutation", "sign", "shift"]
"""Orthogonal matrices, rotations of pairs, orders, signs, and constant shifts."""
Signs = Literal["each", "all"]

_DECOMPOSED = 512
"""Larger matrices are taken to be invertible: looking would cost more than acting."""


@dataclass(frozen=True)
class Group:
    """A group acting on one axis; the concrete classes below say which."""

    axis: str | None = None
    each: str | None = None

    layout: ClassVar[Layout]
    symbol: ClassVar[str]
    kind: ClassVar[Kind]
    """What a proof knows of its elements."""
    verb: ClassVar[str]
    """What a symmetry that `derive` finds is called after; stated by the groups of matrices that it looks for."""
    continuous: ClassVar[bool] = True
    needs_axis: ClassVar[bool] = True
    divisor: ClassVar[int] = 1
    """The size of the axis must be a multiple of this."""
    paired: ClassVar[bool] = False
    """Whether it multiplies pairs of indices by complex numbers."""
    orthogonal: ClassVar[bool] = False
    """Whether every element is an orthogonal matrix, or a sign."""
    selfadjoint: ClassVar[bool] = True
    """Whether the transpose of every matrix in the algebra lies in it."""
    free: ClassVar[bool] = True
    """Whether every array of an element's shape lies in the algebra."""
    reorders: ClassVar[bool] = False
    """Whether an element only brings the indices of its axis into another order."""
    freedom: ClassVar[Freedom | None] = None
    """In what two canonical representatives of one orbit may differ, and a search between them runs through."""
    signs: ClassVar[Signs | None] = None
    """Whether it contains the signs of every index of its axis, or the one of all of them together."""

    def __post_init__(self) -> None:
        """Refuse axes that are not names."""
        if self.axis is not None and (not isinstance(self.axis, str) or not self.axis.isidentifier()):
            raise SymmetryError(f"`{type(self).__name__}`: axis must be one axis name such as 'h', got {self.axis!r}.")
        if self.each is not None:
            names = self.each.split() if isinstance(self.each, str) else []
            if not names or not all(name.isidentifier() for name in names) or len(set(names)) < len(names):
                raise SymmetryError(
                    f"`{type(self).__name__}`: each must be one axis name such as 'head', or different ones such as "
                    f"'layer head', got {self.each!r}."
                )
            object.__setattr__(self, "each", " ".join(names))
        if self.needs_axis and self.axis is None:
            raise SymmetryError(
                f"`{type(self).__name__}()` needs the axis it acts on, as in {type(self).__name__}('h')."
            )
        if self.axis in self.each_axes:
            raise SymmetryError(
                f"`{type(self).__name__}`: each={self.each!r} must be another axis than the one acted on."
            )

    # --- shape

    @property
    def each_axes(self) -> tuple[str, ...]:
        """The axes over whose indices there is a copy each."""
        return tuple(self.each.split()) if self.each else ()

    @property
    def element_axes(self) -> tuple[str, ...]:
        """The axes of the array that holds an element."""
        own = {"matrix": 2, "diagonal": 1, "vector": 1, "scalar": 0}[self.layout]
        return self.each_axes + ((self.axis,) * own if self.axis else ())

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an element, and of an element of the algebra."""
        return tuple(sizes[axis] for axis in self.element_axes)

    def copies(self, sizes: Mapping[str, int]) -> int:
        """How many independent copies there are."""
        return math.prod(sizes[axis] for axis in self.each_axes)

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Refuse a size that the group cannot act on."""
        if self.axis and sizes[self.axis] % self.divisor:
            raise SymmetryError(
                f"`{self}` acts on pairs: the size of axis {self.axis!r} must be even, got {sizes[self.axis]}."
            )

    # --- subgroups

    @property
    def compact(self) -> Group | None:
        """The group of its orthogonal elements, or one that contains it; None where only one is orthogonal."""
        return self if self.orthogonal else None

    @property
    def isometries(self) -> Group | None:
        """The group of its orthogonal elements, exactly: a maximal compact subgroup; None where only one is."""
        return self.compact

    def log_volume(self, sizes: Mapping[str, int]) -> float:
        """The logarithm of its volume in coordinates of its algebra, of a discrete group of its order.

        Infinite unless it is compact.
        """
        return 0.0 if self.continuous and self.dimension(sizes) == 0 else math.inf

    @property
    def general(self) -> bool:
        """Whether every invertible matrix is an element."""
        return self.layout == "matrix" and self.free

    @property
    def subgroups(self) -> tuple[Group, ...]:
        """Subgroups whose elements have the same form, largest first."""
        return ()

    # --- what its elements leave alone, or keep together

    def places(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The first and the second index of every pair that is multiplied by one number, complex or not."""
        return np.arange(0), np.arange(0)

    def moved(self, n: int) -> np.ndarray | None:
        """Orthonormal columns across the vectors that every element fixes; None where that is zero alone."""
        return None

    # --- algebra

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of free coordinates of the algebra: the entries, or as many as there are dimensions."""
        shape = self.shape(sizes)
        return shape if self.free else (*shape[:-2], int(self.formula(shape[-1])))

    def dimension(self, sizes: Mapping[str, int]) -> int:
        """The dimension of the algebra."""
        return math.prod(self.coordinate_shape(sizes)) if self.continuous else 0

    def formula(self, n: sp.Expr) -> sp.Expr:
        """The dimension of one copy on an axis of length `n`, a number or a symbol."""
        return 1 if self.layout == "scalar" else n

    def selfadjoint_dimension(self, sizes: Mapping[str, int]) -> int:
        """The dimension of the self-adjoint elements of the algebra."""
        return 0 if self.layout == "matrix" else self.dimension(sizes)

    def algebra(self, coordinates: AnyArray, sizes: Mapping[str, int]) -> AnyArray:
        """The algebra element with these coordinates; what comes in NumPy, batches too, stays there.

        The elements of single coordinates are orthogonal to one another.
        """
        return coordinates

    def pairing(self, array: AnyArray) -> AnyArray:
        """The transpose of `algebra`: how an array pairs with the element of every coordinate.

        One of whole numbers pairs with those of `basis`.
        """
        return array

    def nearest(self, array: jax.Array, sizes: Mapping[str, int]) -> jax.Array:
        """The element of the algebra that is nearest to an array of its shape."""
        if self.free:
            return array
        ones = jnp.ones(self.coordinate_shape(sizes), array.dtype)
        return self.algebra(self.pairing(array) / self.pairing(self.algebra(ones, sizes)), sizes)

    def basis(self, sizes: Mapping[str, int]) -> np.ndarray:
        """A basis of the algebra in whole numbers."""
        shape = self.coordinate_shape(sizes)
        count = math.prod(shape)
        if not count or not self.continuous:
            return np.zeros((0, *self.shape(sizes)), np.int64)
        eye = np.eye(count, dtype=np.float32).reshape(count, *shape)
        return np.rint(np.asarray(self.algebra(eye, sizes))).astype(np.int64)

    def exponential(self, xi: jax.Array) -> jax.Array:
        """The group element at time one of the one-parameter subgroup of `xi`."""
        return matrices.exponential(xi) if self.layout == "matrix" else jnp.exp(xi)

    # --- elements

    def inverse(self, g: jax.Array) -> jax.Array:
        """The inverse element."""
        if self.layout != "matrix":
            return 1 / g
        if self.orthogonal:
            return jnp.swapaxes(g, -1, -2)
        return matrices.inverse(g if jnp.issubdtype(g.dtype, jnp.inexact) else g.astype(float))

    def compose(self, g: jax.Array, k: jax.Array) -> jax.Array:
        """The product `g k`."""
        return g @ k if self.layout == "matrix" else g * k

    def identity(self, sizes: Mapping[str, int], dtype: DTypeLike | None = None) -> jax.Array:
        """The neutral element."""
        if self.layout == "matrix":
            return jnp.broadcast_to(jnp.eye(self.shape(sizes)[-1], dtype=dtype), self.shape(sizes))
        return jnp.ones(self.shape(sizes), dtype)

    def random(
        self, key: jax.Array, sizes: Mapping[str, int], scale: float = 1.0, dtype: DTypeLike | None = None
    ) -> jax.Array:
        """A random element: the exponential of normal coordinates times `scale`."""
        dtype = jnp.result_type(float if dtype is None else dtype)
        coordinates = scale * normal(key, self.coordinate_shape(sizes), dtype)
        return self.exponential(jnp.asarray(self.algebra(coordinates, sizes), dtype))

    def outside(self, g: np.ndarray) -> str | None:
        """Why an array of an element's shape is no element, beyond rounding, with what to try; None for an element."""
        eps = float(jnp.finfo(g.dtype).eps if jnp.issubdtype(g.dtype, jnp.floating) else np.finfo(float).eps)
        g = np.asarray(g, float)
        wrong = no_entry(g, ~np.isfinite(g), "finite numbers", "find where it arises")
        return wrong or self._outside(g, 1e3 * eps * (g.shape[-1] if self.layout == "matrix" else 1) ** 0.5)

    def _outside(self, g: np.ndarray, rounding: float) -> str | None:
        """The same of finite numbers."""
        if self.layout != "matrix" or g.shape[-1] > _DECOMPOSED:
            return None
        values = np.linalg.svd(g, compute_uv=False)
        flat = 1 - np.where(values[..., 0] > 0, values[..., -1] / np.where(values[..., 0] > 0, values[..., 0], 1), 0)
        hint = "add a multiple of the identity, or project it away from singular ones"
        return no_matrix(flat, 1 - np.finfo(float).eps, "invertible matrices", "1 - 1/condition", hint)

    # --- exact elements

    @abstractmethod
    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """General elements in symbols that together cover the group (or a dense part of it), each with its inverse."""

    @abstractmethod
    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A random element whose entries are small rationals, as an object array of `Fraction`."""

    def attempt(self, number: int, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """The element of this number in a search for a counterexample: not always one of the same few."""
        return self.rational(rng, sizes)

    def telling(self, least: int) -> int:
        """The smallest size, from this on, at which an element looks like all of them."""
        return least * self.divisor

    def element(self, each: tuple[Size, ...], axis: Size | None) -> Element:
        """An element in a proof, on axes of these extents."""
        return Element(self.kind, each, axis)

    def __str__(self) -> str:
        """For example `GL(k)^head`."""
        return f"{self.symbol.format(axis=self.axis or '1')}{''.join(f'^{axis}' for axis in self.each_axes)}"
