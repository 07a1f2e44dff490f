r"""All linear maps between two representations that commute with the group, as a layer.

A layer $x \mapsto A x$ respects a group that acts on its inputs and outputs if $\rho_{out}(g) A = A \rho_{in}(g)$.
Such A form a vector space: $\lambda 1 + \gamma \, 1 1^T$ for the permutations of a set, circulants for cyclic shifts,
the complex numbers for rotations of the plane. Coefficients of a basis are what such a layer learns.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from quotax.data_symmetry.characters import counted
from quotax.data_symmetry.commutant import commutant
from quotax.data_symmetry.representation import Representation, length, one_group
from quotax.errors import SymmetryError
from quotax.presenting import Result
from quotax.trees import AnyArray, Tree

CALL = "quotax.equivariant_maps"
WRITTEN = 2**26
"""A basis of more numbers is not written out."""


@dataclass(frozen=True, eq=False, repr=False)
class EquivariantMaps(Result):
    """A basis of all equivariant linear maps, in whole numbers: entry `(rows[k], columns[k])` of map `which[k]`.

    `maps(coefficients, x)` applies the map with these coefficients to vectors along the last axis of x.

    Attributes:
        rep_in: what acts on inputs.
        rep_out: what acts on outputs.
        dim: how many independent maps there are.
        by_characters: the same number counted by characters; None where the group is continuous, or large.
        order: the number of group elements that act differently here, where these were listed.
    """

    rep_in: Representation
    rep_out: Representation
    dim: int
    rows: np.ndarray = field(repr=False)
    columns: np.ndarray = field(repr=False)
    which: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)
    by_characters: int | None = None
    order: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Of a map's matrix."""
        return self.rep_out.dim, self.rep_in.dim

    # --- in JAX

    def matrix(self, coefficients: AnyArray) -> jax.Array:
        """The map with these coefficients; jit, vmap and grad apply."""
        given = self._given(coefficients)
        parts = given[self.which] * jnp.asarray(self.values, given.dtype)
        return jnp.zeros(self.shape, given.dtype).at[self.rows, self.columns].add(parts)

    def __call__(self, coefficients: AnyArray, x: AnyArray) -> jax.Array:
        """The map applied to vectors along the last axis of x."""
        x = jnp.asarray(x)
        if x.ndim == 0 or x.shape[-1] != self.shape[1]:
            raise SymmetryError(
                f"`maps(coefficients, x)` maps vectors of length {self.shape[1]} along the last axis, got {x.shape}."
            )
        return x @ self.matrix(coefficients).T

    def init(self, key: jax.Array, dtype: DTypeLike | None = None) -> jax.Array:
        """Random coefficients: outputs are as large as inputs on the average."""
        scale = np.sqrt(self.shape[0] / max(float(np.sum(self.values.astype(float) ** 2)), 1.0))
        dtype = jnp.result_type(float if dtype is None else dtype)
        return jax.random.normal(key, (self.dim,), dtype) * jnp.asarray(scale, dtype)

    def coefficients(self, matrix: AnyArray) -> np.ndarray:
        """The coefficients of the equivariant map that is nearest to a matrix, in the sum of squares of its entries.

        For orthogonal representations that is the average over the group.
        """
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import spsolve

        given = np.asarray(matrix, float)
        if given.shape != self.shape:
            raise SymmetryError(f"`maps.coefficients(matrix)` needs a matrix of {self.shape}, got {given.shape}.")
        if not self.dim:
            return np.zeros(0)
        places = self.rows * self.shape[1] + self.columns
        basis = csr_array((self.values.astype(float), (places, self.which)), (given.size, self.dim))
        return np.atleast_1d(spsolve((basis.T @ basis).tocsc(), basis.T @ given.ravel()))

    # --- exactly

    @functools.cached_property
    def basis(self) -> np.ndarray:
        """The maps written out, one below the other: whole numbers."""
        if self.dim * self.shape[0] * self.shape[1] > WRITTEN:
            raise SymmetryError(f"`maps.basis` would have {self.dim} maps of {self.shape}; `maps.matrix` makes one.")
        found = np.zeros((self.dim, *self.shape), np.int64)
        found[self.which, self.rows, self.columns] = self.values
        return found

    def expression(self, name: str = "c") -> Tree:
        """The general map as a SymPy matrix of its coefficients."""
        import sympy

        symbols = sympy.symbols(f"{name}:{self.dim}") if self.dim else ()
        entries: dict[tuple[int, int], Any] = {}
        for row, column, which, value in zip(self.rows, self.columns, self.which, self.values, strict=True):
            place = int(row), int(column)
            entries[place] = entries.get(place, 0) + int(value) * symbols[int(which)]
        return sympy.ImmutableDenseMatrix(*self.shape, lambda i, j: entries.get((int(i), int(j)), 0))

    def __str__(self) -> str:
        """One readable line."""
        known = "" if self.by_characters is None else f", as the characters of {self.order:,} elements say"
        return (
            f"{self.dim} equivariant maps from {self.rep_in} to {self.rep_out} "
            f"({self.shape[0]} x {self.shape[1]} matrices), all there are: an exact null space{known}"
        )

    def _given(self, coefficients: AnyArray) -> jax.Array:
        given = jnp.asarray(coefficients)
        if given.shape != (self.dim,):
            raise SymmetryError(f"`maps` takes {self.dim} coefficients, one for each map, got {given.shape}.")
        return given if jnp.issubdtype(given.dtype, jnp.inexact) else given.astype(float)


def equivariant_maps(rep_in: Representation, rep_out: Representation) -> EquivariantMaps:
    """All linear maps from one representation of a group to another that commute with it.

    Args:
        rep_in: how the group acts on inputs.
        rep_out: how it acts on outputs; generators have the same names.

    Example:
        >>> P = Representation.permutations(3)
        >>> maps = equivariant_maps(P, P)
        >>> maps.expression()
        Matrix([
        [c0, c1, c1],
        [c1, c0, c1],
        [c1, c1, c0]])
        >>> print(maps)
        2 equivariant maps from P to P (3 x 3 matrices), all there are: an exact null space, as the characters of 6 \
elements say
    """
    for name, rep in (("rep_in", rep_in), ("rep_out", rep_out)):
        if not isinstance(rep, Representation):
            raise SymmetryError(f"`{CALL}` needs {name} to be a `quotax.Representation`, got {rep!r}.")
    one_group(CALL, rep_in, rep_out)
    parts, total, top = [], 0, 0
    for out in rep_out.summands:
        left = 0
        for into in rep_in.summands:
            block = commutant(into, out, rep_in.names)
            entries = block.basis.tocoo()
            rows, columns = np.divmod(entries.coords[0], block.into)
            parts.append((rows + top, columns + left, entries.coords[1] + total, entries.data))
            total += block.dim
            left += block.into
        top += length(out)
    rows, columns, which, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    known = counted(rep_in, rep_out)
    if known is not None and known[0] != total:
        raise AssertionError(f"{total} equivariant maps from {rep_in} to {rep_out}, {known[0]} by characters")
    order = np.lexsort((columns, rows, which))
    by_characters, elements = known or (None, None)
    return EquivariantMaps(
        rep_in, rep_out, total, rows[order], columns[order], which[order], values[order], by_characters, elements
    )
