"""The groups that act on parameters: what an element is, its algebra, and its symbolic and random elements.

A group names the axis it acts on; `each="head"` gives one independent copy per index of another axis. An element is
one array: a stack of matrices `(each, axis, axis)`, of vectors `(each, axis)` for diagonal groups and translations,
or of scalars `(each,)`, without the first axis when there is no `each`. Elements of the Lie algebra are shaped alike.
"""

from __future__ import annotations

import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp
from jax.scipy.linalg import expm

from quotax.draws import normal
from quotax.errors import SymmetryError

Layout = Literal["matrix", "diagonal", "vector", "scalar"]


@dataclass(frozen=True)
class Group:
    """A group acting on one axis; the concrete classes below say which."""

    axis: str | None = None
    each: str | None = None

    layout: ClassVar[Layout]
    symbol: ClassVar[str]
    continuous: ClassVar[bool] = True
    needs_axis: ClassVar[bool] = True
    divisor: ClassVar[int] = 1
    """The size of the axis must be a multiple of this."""

    def __post_init__(self) -> None:
        """Refuse axes that are not names."""
        for label, value in (("axis", self.axis), ("each", self.each)):
            if value is not None and (not isinstance(value, str) or not value.isidentifier()):
                raise SymmetryError(
                    f"`{type(self).__name__}`: {label} must be one axis name such as 'h', got {value!r}."
                )
        if self.needs_axis and self.axis is None:
            raise SymmetryError(
                f"`{type(self).__name__}()` needs the axis it acts on, as in {type(self).__name__}('h')."
            )
        if self.each is not None and self.each == self.axis:
            raise SymmetryError(
                f"`{type(self).__name__}`: each={self.each!r} must be another axis than the one acted on."
            )

    # --- shape

    @property
    def element_axes(self) -> tuple[str, ...]:
        """The axes of the array that holds an element."""
        own = {"matrix": 2, "diagonal": 1, "vector": 1, "scalar": 0}[self.layout]
        return ((self.each,) if self.each else ()) + ((self.axis,) * own if self.axis else ())

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an element, and of an element of the algebra."""
        return tuple(sizes[axis] for axis in self.element_axes)

    def copies(self, sizes: Mapping[str, int]) -> int:
        """How many independent copies there are."""
        return sizes[self.each] if self.each else 1

    def check_sizes(self, sizes: Mapping[str, int]) -> None:
        """Refuse a size that the group cannot act on."""
        if self.axis and sizes[self.axis] % self.divisor:
            raise SymmetryError(
                f"`{self}` acts on pairs: the size of axis {self.axis!r} must be even, got {sizes[self.axis]}."
            )

    # --- algebra

    @abstractmethod
    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of free coordinates of the algebra."""

    def dimension(self, sizes: Mapping[str, int]) -> int:
        """The dimension of the algebra."""
        return math.prod(self.coordinate_shape(sizes)) if self.continuous else 0

    @abstractmethod
    def algebra(self, coordinates: Any, sizes: Mapping[str, int]) -> Any:
        """The algebra element with these coordinates; what comes in NumPy, batches too, stays there."""

    @abstractmethod
    def exponential(self, xi: jax.Array) -> jax.Array:
        """The group element at time one of the one-parameter subgroup of `xi`."""

    # --- elements

    def inverse(self, g: jax.Array) -> jax.Array:
        """The inverse element."""
        if self.layout != "matrix":
            return 1 / g
        return _inverse(g if jnp.issubdtype(g.dtype, jnp.inexact) else g.astype(float))

    def compose(self, g: jax.Array, k: jax.Array) -> jax.Array:
        """The product `g k`."""
        return g @ k if self.layout == "matrix" else g * k

    def identity(self, sizes: Mapping[str, int], dtype: Any = None) -> jax.Array:
        """The neutral element."""
        if self.layout == "matrix":
            return jnp.broadcast_to(jnp.eye(self.shape(sizes)[-1], dtype=dtype), self.shape(sizes))
        return jnp.ones(self.shape(sizes), dtype)

    def random(self, key: jax.Array, sizes: Mapping[str, int], scale: float = 1.0, dtype: Any = None) -> jax.Array:
        """A random element: the exponential of normal coordinates times `scale`."""
        dtype = jnp.result_type(float if dtype is None else dtype)
        coordinates = scale * normal(key, self.coordinate_shape(sizes), dtype)
        return self.exponential(jnp.asarray(self.algebra(coordinates, sizes), dtype))

    # --- exact elements

    @abstractmethod
    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        """General elements in symbols that together cover the group (or a dense part of it), each with its inverse."""

    @abstractmethod
    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A random element whose entries are small rationals, as an object array of `Fraction`."""

    def __str__(self) -> str:
        """For example `GL(k)^head`."""
        return f"{self.symbol.format(axis=self.axis or '1')}{f'^{self.each}' if self.each else ''}"


def _stack(blocks: list[np.ndarray], group: Group) -> np.ndarray:
    return np.stack(blocks) if group.each else blocks[0]


def _fractions(values: Any) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(np.asarray(values))


def _names(group: Group, sizes: Mapping[str, int], **assumptions: bool) -> np.ndarray:
    """One symbol per entry of an element's array."""
    array = np.empty(group.shape(sizes), dtype=object)
    for index in np.ndindex(array.shape):
        suffix = f"[{','.join(map(str, index))}]" if index else ""
        array[index] = sp.Symbol(f"g{suffix}", **(assumptions or {"real": True}))
    return array


def _object(value: Any) -> np.ndarray:
    """A zero- or higher-dimensional object array, whatever NumPy made of a scalar."""
    array = np.empty(np.shape(value), dtype=object)
    array[...] = value
    return array


@dataclass(frozen=True)
class GL(Group):
    """Every invertible matrix on an axis."""

    layout: ClassVar[Layout] = "matrix"
    symbol: ClassVar[str] = "GL({axis})"

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """One coordinate per entry."""
        return self.shape(sizes)

    def algebra(self, coordinates: Any, sizes: Mapping[str, int]) -> Any:
        """Every matrix."""
        return coordinates

    def exponential(self, xi: jax.Array) -> jax.Array:
        """The matrix exponential."""
        return _expm(xi)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """A matrix of free symbols; its inverse by cofactors."""
        g = _names(self, sizes)
        yield g, _cofactor_inverse(g)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A random integer matrix with a determinant of at least one half of its size's scale."""
        n = self.shape(sizes)[-1]
        blocks = []
        while len(blocks) < self.copies(sizes):
            block = rng.integers(-2, 3, (n, n)) + np.diag(rng.choice([-2, 2, 3], n))
            if abs(np.linalg.det(block)) > 0.5 and np.linalg.cond(block) < 50:
                blocks.append(_fractions(block))
        return _stack(blocks, self)


@dataclass(frozen=True)
class O(Group):  # noqa: E742 - the orthogonal group has no other name
    """Orthogonal matrices on an axis."""

    layout: ClassVar[Layout] = "matrix"
    symbol: ClassVar[str] = "O({axis})"

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """One coordinate per pair of indices."""
        n = self.shape(sizes)[-1]
        return (*self.shape(sizes)[:-2], n * (n - 1) // 2)

    def algebra(self, coordinates: Any, sizes: Mapping[str, int]) -> Any:
        """The skew matrix with these entries above its diagonal."""
        n = self.shape(sizes)[-1]
        place, sign = np.zeros((n, n), int), np.zeros((n, n), int)
        rows, columns = np.triu_indices(n, 1)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))
        sign[rows, columns], sign[columns, rows] = 1, -1
        return _spread(coordinates, place, sign)

    def exponential(self, xi: jax.Array) -> jax.Array:
        """The matrix exponential of a skew matrix: a rotation."""
        return _expm(xi)

    def inverse(self, g: jax.Array) -> jax.Array:
        """The transpose."""
        return jnp.swapaxes(g, -1, -2)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rotations `(I - S)(I + S)^-1` (Cayley: all but those with eigenvalue -1), and those times a reflection."""
        n = self.shape(sizes)[-1]
        rotations = [_cayley(_skew(n, copy)) for copy in range(self.copies(sizes))]
        for signs in itertools.product((1, -1), repeat=self.copies(sizes)):
            mirrors = [np.array([sign] + [1] * (n - 1), dtype=object) for sign in signs]
            g = _stack([block * mirror for block, mirror in zip(rotations, mirrors, strict=True)], self)
            yield g, np.swapaxes(g, -1, -2)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A Cayley rotation of small rationals, reflected half of the time."""
        n = self.shape(sizes)[-1]
        blocks = []
        for _ in range(self.copies(sizes)):
            skew = np.zeros((n, n), dtype=object)
            for i, j in itertools.combinations(range(n), 2):
                skew[i, j] = sp.Rational(int(rng.integers(1, 5)), int(rng.integers(2, 5)))
                skew[j, i] = -skew[i, j]
            block = _cayley(skew)
            block[:, 0] *= int(rng.choice([-1, 1]))
            blocks.append(_from_sympy(block))
        return _stack(blocks, self)


@dataclass(frozen=True)
class PositiveDiagonal(Group):
    """Positive scalings of the indices of an axis, each by its own factor (R+^n)."""

    layout: ClassVar[Layout] = "diagonal"
    symbol: ClassVar[str] = "R+^{axis}"

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """One coordinate per factor."""
        return self.shape(sizes)

    def algebra(self, coordinates: Any, sizes: Mapping[str, int]) -> Any:
        """The logarithms of the factors."""
        return coordinates

    def exponential(self, xi: jax.Array) -> jax.Array:
        """Entry by entry."""
        return jnp.exp(xi)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positive symbols."""
        g = _names(self, sizes, positive=True)
        yield g, _object(1 / g)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small positive rationals, none of them one."""
        choices = _fractions([Fraction(1, 3), Fraction(1, 2), Fraction(3, 2), 2, 3])
        return _object(rng.choice(choices, self.shape(sizes)))


@dataclass(frozen=True)
class Diagonal(PositiveDiagonal):
    """Nonzero scalings of the indices of an axis (R*^n): the positive ones and their signs."""

    symbol: ClassVar[str] = "R*^{axis}"

    def random(self, key: jax.Array, sizes: Mapping[str, int], scale: float = 1.0, dtype: Any = None) -> jax.Array:
        """Random factors with random signs."""
        key, signs = jax.random.split(key)
        g = super().random(key, sizes, scale, dtype)
        return g * jax.random.rademacher(signs, g.shape, g.dtype)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Real symbols (of either sign)."""
        g = _names(self, sizes)
        yield g, _object(1 / g)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small rationals of both signs."""
        return _object(super().rational(rng, sizes) * rng.choice([-1, 1], self.shape(sizes)))


@dataclass(frozen=True)
class PositiveScalar(PositiveDiagonal):
    """One positive factor (or one per index of `each`)."""

    layout: ClassVar[Layout] = "scalar"
    symbol: ClassVar[str] = "R+"
    needs_axis: ClassVar[bool] = False


@dataclass(frozen=True)
class Translation(Group):
    """Shifts along an axis by any vector; without an axis, by one number."""

    layout: ClassVar[Layout] = "vector"
    symbol: ClassVar[str] = "R^{axis}"
    needs_axis: ClassVar[bool] = False

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """One coordinate per entry."""
        return self.shape(sizes)

    def algebra(self, coordinates: Any, sizes: Mapping[str, int]) -> Any:
        """The vector itself."""
        return coordinates

    def exponential(self, xi: jax.Array) -> jax.Array:
        """The vector itself."""
        return xi

    def inverse(self, g: jax.Array) -> jax.Array:
        """The opposite vector."""
        return -g

    def compose(self, g: jax.Array, k: jax.Array) -> jax.Array:
        """The sum."""
        return g + k

    def identity(self, sizes: Mapping[str, int], dtype: Any = None) -> jax.Array:
        """Zero."""
        return jnp.zeros(self.shape(sizes), dtype)

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, None]]:
        """Real symbols."""
        yield _names(self, sizes), None

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small nonzero halves."""
        return _object(rng.choice(_fractions([-2, -1, Fraction(-1, 2), Fraction(1, 2), 1, 2]), self.shape(sizes)))


@dataclass(frozen=True)
class ComplexScaling(Group):
    """C* on pairs of indices: each pair is rotated and scaled, the blocks `[[a, -b], [b, a]]`.

    `pairs="adjacent"` pairs `(0, 1), (2, 3), ...`; `pairs="halves"` pairs `i` with `i + n/2`: the two layouts of
    rotary position embeddings.
    """

    pairs: Literal["adjacent", "halves"] = "adjacent"

    layout: ClassVar[Layout] = "matrix"
    symbol: ClassVar[str] = "C*^({axis}/2)"
    divisor: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Refuse an unknown pairing."""
        super().__post_init__()
        if self.pairs not in ("adjacent", "halves"):
            raise SymmetryError(f"`ComplexScaling`: pairs must be 'adjacent' or 'halves', got {self.pairs!r}.")

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """A logarithm of the modulus and an angle per pair."""
        shape = self.shape(sizes)
        return (*shape[:-2], shape[-1] // 2, 2)

    def places(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The first and the second index of every pair, on an axis of `n`."""
        first = np.arange(0, n, 2) if self.pairs == "adjacent" else np.arange(n // 2)
        return first, first + (1 if self.pairs == "adjacent" else n // 2)

    def algebra(self, coordinates: Any, sizes: Mapping[str, int]) -> Any:
        """Blocks `[[a, -b], [b, a]]` at the places of the pairs."""
        pairs = coordinates.shape[-2]
        first, second = self.places(2 * pairs)
        place, sign = np.zeros((2 * pairs, 2 * pairs), int), np.zeros((2 * pairs, 2 * pairs), int)
        moduli = 2 * np.arange(pairs)
        place[first, first] = place[second, second] = moduli
        place[first, second] = place[second, first] = moduli + 1
        sign[first, first] = sign[second, second] = sign[second, first] = 1
        sign[first, second] = -1
        return _spread(coordinates.reshape(*coordinates.shape[:-2], 2 * pairs), place, sign)

    def exponential(self, xi: jax.Array) -> jax.Array:
        """The matrix exponential."""
        return _expm(xi)

    def _blocks(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        n = 2 * len(a)
        first, second = self.places(n)
        block = np.zeros((n, n), dtype=object)
        block[first, first], block[second, second] = a, a
        block[first, second], block[second, first] = -b, b
        return block

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Two real symbols a pair."""
        self.check_sizes(sizes)
        pairs = self.shape(sizes)[-1] // 2
        elements, inverses = [], []
        for copy in range(self.copies(sizes)):
            a = np.array([sp.Symbol(f"a[{copy},{i}]", real=True) for i in range(pairs)], dtype=object)
            b = np.array([sp.Symbol(f"b[{copy},{i}]", real=True) for i in range(pairs)], dtype=object)
            modulus = a**2 + b**2
            elements.append(self._blocks(a, b))
            inverses.append(self._blocks(a / modulus, -b / modulus))
        yield _stack(elements, self), _stack(inverses, self)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Small integer moduli and angles."""
        self.check_sizes(sizes)
        pairs = self.shape(sizes)[-1] // 2
        draw = lambda: _fractions(rng.choice([-2, -1, 1, 2], pairs))
        return _stack([self._blocks(draw(), draw()) for _ in range(self.copies(sizes))], self)


@dataclass(frozen=True)
class _Discrete(Group):
    continuous: ClassVar[bool] = False

    def coordinate_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """A discrete group has no algebra."""
        return (0,)

    def algebra(self, coordinates: Any, sizes: Mapping[str, int]) -> Any:
        """Zero."""
        return jnp.zeros(self.shape(sizes), coordinates.dtype)

    def exponential(self, xi: jax.Array) -> jax.Array:
        """The neutral element."""
        if self.layout == "matrix":
            return jnp.broadcast_to(jnp.eye(xi.shape[-1], dtype=xi.dtype), xi.shape)
        return jnp.ones_like(xi)


@dataclass(frozen=True)
class Permutation(_Discrete):
    """Reorderings of an axis; an element is a permutation matrix."""

    layout: ClassVar[Layout] = "matrix"
    symbol: ClassVar[str] = "S({axis})"

    def inverse(self, g: jax.Array) -> jax.Array:
        """The transpose."""
        return jnp.swapaxes(g, -1, -2)

    def random(self, key: jax.Array, sizes: Mapping[str, int], scale: float = 1.0, dtype: Any = None) -> jax.Array:
        """A uniformly random permutation for every copy."""
        n = self.shape(sizes)[-1]
        eye = jnp.eye(n, dtype=jnp.result_type(float if dtype is None else dtype))
        rows = jax.vmap(lambda k: jax.random.permutation(k, n))(jax.random.split(key, self.copies(sizes)))
        return eye[rows if self.each else rows[0]]

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Every element: finitely many at a small size."""
        n = self.shape(sizes)[-1]
        matrices = [np.eye(n, dtype=int)[list(order)].astype(object) for order in itertools.permutations(range(n))]
        for blocks in itertools.product(matrices, repeat=self.copies(sizes)):
            g = _stack(list(blocks), self)
            yield g, np.swapaxes(g, -1, -2)

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """A random permutation that is not the identity, if there is one."""
        n = self.shape(sizes)[-1]
        blocks = [np.roll(np.eye(n, dtype=int), int(rng.integers(1, max(n, 2))), 0) for _ in range(self.copies(sizes))]
        return _stack([_fractions(b) for b in blocks], self)


@dataclass(frozen=True)
class SignFlip(_Discrete):
    """Signs of the indices of an axis; without an axis, one sign."""

    layout: ClassVar[Layout] = "diagonal"
    symbol: ClassVar[str] = "Z2^{axis}"
    needs_axis: ClassVar[bool] = False

    def inverse(self, g: jax.Array) -> jax.Array:
        """Every sign is its own inverse."""
        return g

    def random(self, key: jax.Array, sizes: Mapping[str, int], scale: float = 1.0, dtype: Any = None) -> jax.Array:
        """Independent fair signs."""
        return jax.random.rademacher(key, self.shape(sizes), jnp.result_type(float if dtype is None else dtype))

    def symbolic(self, sizes: Mapping[str, int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Every element: finitely many at a small size."""
        shape = self.shape(sizes)
        for signs in itertools.product((1, -1), repeat=math.prod(shape)):
            g = _object(np.array([sp.Integer(sign) for sign in signs], dtype=object).reshape(shape))
            yield g, g

    def rational(self, rng: np.random.Generator, sizes: Mapping[str, int]) -> np.ndarray:
        """Random signs, at least one of them negative."""
        g = rng.choice([-1, 1], self.shape(sizes))
        flat = np.atleast_1d(g).reshape(-1)
        flat[rng.integers(len(flat))] = -1
        return _object(_fractions(flat.reshape(self.shape(sizes))))


def _spread(coordinates: Any, place: np.ndarray, sign: np.ndarray) -> Any:
    """The matrix of coordinates at given places with given signs: a gather, which JAX can transpose."""
    if not coordinates.shape[-1]:
        return jnp.zeros((*coordinates.shape[:-1], *place.shape), coordinates.dtype)
    return coordinates[..., place] * np.asarray(sign, coordinates.dtype)


def _expm(xi: jax.Array) -> jax.Array:
    """The matrix exponential of every matrix in a stack."""
    return _each(expm, xi)


@jax.custom_jvp
def _inverse(stack: jax.Array) -> jax.Array:
    """The inverse of every matrix in a stack."""
    return _each(_inverted, stack)


def _inverted(matrix: jax.Array) -> jax.Array:
    """By Gauss's elimination; NumPy's interface to it brings derivatives of its own, which are not wanted."""
    lu, _, order = jax.lax.linalg.lu(matrix)
    rows = jnp.eye(len(matrix), dtype=matrix.dtype)[order]
    below = jax.lax.linalg.triangular_solve(lu, rows, left_side=True, lower=True, unit_diagonal=True)
    return jax.lax.linalg.triangular_solve(lu, below, left_side=True, lower=False)


@_inverse.defjvp
def _derivative_of_inverse(point: tuple[jax.Array], change: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    # As a product: the derivatives of a factorisation make most of the program of a geodesic.
    found = _inverse(*point)
    return found, -(found @ change[0] @ found)


@functools.partial(jax.jit, static_argnums=0)  # called eagerly, a loop is compiled anew each time
def _each(function: Callable[[jax.Array], jax.Array], stack: jax.Array) -> jax.Array:
    # One after another: two batches in LAPACK at the same time can wait for each other for ever (jaxlib 0.10.2).
    if stack.ndim == 2:
        return function(stack)
    return jax.lax.map(function, stack.reshape(-1, *stack.shape[-2:])).reshape(stack.shape)


def _cofactor_inverse(g: np.ndarray) -> np.ndarray:
    """The inverse over the symbols' field: adjugate over determinant, block by block."""
    if g.ndim == 3:
        return np.stack([_cofactor_inverse(block) for block in g])
    matrix = sp.Matrix(g)
    determinant = matrix.det(method="berkowitz")
    return np.array((matrix.adjugate(method="berkowitz") / determinant).tolist(), dtype=object).reshape(g.shape)


def _skew(n: int, copy: int) -> np.ndarray:
    skew = np.zeros((n, n), dtype=object)
    for i, j in itertools.combinations(range(n), 2):
        skew[i, j] = sp.Symbol(f"s[{copy},{i},{j}]", real=True)
        skew[j, i] = -skew[i, j]
    return skew


def _cayley(skew: np.ndarray) -> np.ndarray:
    n = len(skew)
    matrix, eye = sp.Matrix(skew), sp.eye(n)
    rotation = (eye - matrix) * (eye + matrix).inv(method="ADJ")
    return np.array(rotation.applyfunc(sp.cancel).tolist(), dtype=object).reshape(n, n)


def _from_sympy(block: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda e: Fraction(int(e.p), int(e.q)), otypes=[object])(np.vectorize(sp.Rational)(block))
