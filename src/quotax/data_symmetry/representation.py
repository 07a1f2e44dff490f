r"""Groups that act on data, declared by matrices of generators.

A representation assigns a matrix to every generator of a group: $\rho(g)$ to a group element, $d\rho(A)$ to an element
of the Lie algebra, which generates the elements $e^{t A}$. From representations others are made: sums, tensor products
and powers, duals.

$$(\rho \oplus \sigma)(g) = \begin{pmatrix} \rho(g) & \\ & \sigma(g) \end{pmatrix}, \quad
(\rho \otimes \sigma)(g) = \rho(g) \otimes \sigma(g), \quad
d(\rho \otimes \sigma)(A) = d\rho(A) \otimes 1 + 1 \otimes d\sigma(A), \quad \rho^*(g) = \rho(g)^{-T} .$$
"""

from __future__ import annotations

import functools
import itertools
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quotax.data_symmetry.exact_matrices import ExactMatrix, exact, kronecker, multiple, unit, unit_matrix
from quotax.errors import SymmetryError
from quotax.trees import AnyArray, Tree

Generators = tuple[tuple[str, ExactMatrix], ...]


@dataclass(frozen=True)
class Declared:
    """A representation that was declared by its matrices."""

    name: str
    size: int
    finite: Generators
    infinitesimal: Generators

    @functools.cached_property
    def dual(self) -> Declared:
        """The inverse transposes; itself where its matrices are orthogonal."""
        turned = tuple((name, _inverse(self.name, name, matrix).transpose) for name, matrix in self.finite)
        lie = tuple((name, matrix.transpose.scaled(-1)) for name, matrix in self.infinitesimal)
        same = turned == self.finite and lie == self.infinitesimal
        return self if same else Declared(f"{self.name}*", self.size, turned, lie)


Word = tuple[Declared, ...]
"""A tensor product; of nothing, the trivial representation."""


@dataclass(frozen=True)
class Representation:
    """A group that acts on vectors by matrices: a sum of tensor products of declared ones.

    `V + W` is the sum, `V * W` the tensor product (of sums: the sum of products, in the order in which they are
    written), `V**k` its power, `3 * V` three copies, `V.dual` the inverse transpose, `V.trivial` the group acting on
    one number that it does not change. Two representations are of one group if their generators have the same names.

    Args:
        finite: by name, the matrix of a group element: rational numbers in any nested form, or a list `p` that sends
            the index i to `p[i]`.
        infinitesimal: by name, the matrix of an element of the Lie algebra.
        name: what it is called.

    Example:
        >>> V = Representation(infinitesimal={"turn": [[0, -1], [1, 0]]}, name="V")
        >>> (V * V + 2 * V).dim, str(V * V + 2 * V)
        (8, 'V*V + V + V')
    """

    summands: tuple[Word, ...]
    names: tuple[tuple[str, ...], tuple[str, ...]]

    def __init__(
        self, finite: Mapping[str, Tree] | None = None, infinitesimal: Mapping[str, Tree] | None = None, name: str = "V"
    ) -> None:
        """Read the matrices exactly, and check that they are of one size and, of group elements, invertible."""
        given: list[Generators] = []
        for label, matrices in (("finite", finite or {}), ("infinitesimal", infinitesimal or {})):
            if not isinstance(matrices, Mapping):
                raise SymmetryError(f"`Representation`: {label}= is a dict of matrices by name, got {matrices!r}.")
            found = []
            for key, value in matrices.items():
                refuse = lambda why, key=key: SymmetryError(f"`Representation`: the generator {key!r} {why}.")
                found.append((str(key), exact(value, refuse)))
            given.append(tuple(sorted(found)) if len(found) < 2 else tuple(sorted(found, key=lambda pair: pair[0])))
        sizes = {key: matrix.size for key, matrix in itertools.chain(*given)}
        if not sizes:
            raise SymmetryError("`Representation` needs generators: finite= or infinitesimal=, a dict of matrices.")
        if len(set(sizes.values())) > 1:
            raise SymmetryError(f"`Representation`: generators act on vectors of one length, got {sizes}.")
        shared = set(dict(given[0])) & set(dict(given[1]))
        if shared:
            raise SymmetryError(f"`Representation`: {min(shared)!r} names a finite and an infinitesimal generator.")
        for key, matrix in given[0]:
            _inverse(name, key, matrix)
        atom = Declared(str(name), next(iter(sizes.values())), *given)
        object.__setattr__(self, "summands", ((atom,),))
        object.__setattr__(self, "names", (tuple(k for k, _ in given[0]), tuple(k for k, _ in given[1])))

    # --- groups that are often meant

    @classmethod
    def permutations(cls, n: int) -> Representation:
        """All permutations of n numbers."""
        n = _count("permutations", "n", n)
        swap = [1, 0, *range(2, n)] if n > 1 else [0]
        return cls({f"swap of {n}": swap, f"cycle of {n}": [*range(1, n), 0]}, name="P")

    @classmethod
    def shifts(cls, *sides: int) -> Representation:
        """Cyclic shifts of numbers on a ring, or on a grid (of these sides, flat with the last side fastest)."""
        if not sides:
            raise SymmetryError("`Representation.shifts` needs the sides of the grid, as in shifts(8) or shifts(8, 8).")
        sides = tuple(_count("shifts", "a side", side) for side in sides)
        grid = np.arange(math.prod(sides)).reshape(sides)
        moves = {f"shift {axis} of {side}": np.roll(grid, -1, axis).ravel() for axis, side in enumerate(sides)}
        return cls(moves, name="S")

    @classmethod
    def quarter_turns(cls, side: int, *, reflections: bool = False) -> Representation:
        """Quarter turns of a square picture of side x side numbers, and its reflection too if asked for."""
        grid = np.arange(_count("quarter_turns", "side", side) ** 2).reshape(side, side)
        moves = {"quarter turn": np.rot90(grid).ravel()}
        return cls(moves | ({"reflection": grid[:, ::-1].ravel()} if reflections else {}), name="Q")

    @classmethod
    def rotations(cls, n: int, *, negative: int = 0, reflections: bool = False) -> Representation:
        """Rotations of n-vectors by their generators; with `negative` signs in the metric, Lorentz's group and its kin.

        Those are all that are connected with the identity; `reflections` adds one of the first coordinate, and of the
        last where that is of the other sign.
        """
        n = _count("rotations", "n", n)
        if not isinstance(negative, numbers.Integral) or not 0 <= negative <= n:
            raise SymmetryError(f"`Representation.rotations` needs negative= 0 to {n}, got {negative!r}.")
        signs = [1] * (n - negative) + [-1] * negative
        planes, mirrors = {}, {}
        for i in range(n - 1):  # neighbouring planes generate the others
            matrix = np.zeros((n, n), int)
            matrix[i, i + 1], matrix[i + 1, i] = -signs[i], signs[i + 1]
            planes[f"turn {i} {i + 1} of {n}{f'-{negative}' * bool(negative)}"] = matrix
        for i in {0, n - 1} if 0 < negative < n else {0}:
            mirror = np.eye(n, dtype=int)
            mirror[i, i] = -1
            mirrors[f"mirror {i} of {n}"] = mirror
        return cls(mirrors if reflections or n == 1 else {}, planes, name="R")

    # --- made of others

    @classmethod
    def together(cls, *reps: Representation) -> tuple[Representation, ...]:
        """The same representations as ones of the product of their groups, in which each group leaves the others alone.

        >>> P, V = Representation.together(Representation.permutations(5), Representation.rotations(3))
        >>> points = P * V  # five points of space, in any order
        >>> points.dim, len(points.names[0]), len(points.names[1])
        (15, 2, 2)
        """
        for rep in reps:
            if not isinstance(rep, Representation):
                raise SymmetryError(f"`Representation.together` takes representations, got {rep!r}.")
        every = [name for rep in reps for kind in rep.names for name in kind]
        for name in every:
            if every.count(name) > 1:
                raise SymmetryError(
                    f"`Representation.together` takes representations of different groups, and {name!r} is a generator "
                    f"of two of them."
                )
        names = (
            tuple(sorted(name for rep in reps for name in rep.names[0])),
            tuple(sorted(name for rep in reps for name in rep.names[1])),
        )

        def extended(atom: Declared) -> Declared:
            still, nothing = unit_matrix(atom.size), ExactMatrix(atom.size, ())
            finite, lie = dict(atom.finite), dict(atom.infinitesimal)
            return Declared(
                atom.name,
                atom.size,
                tuple((name, finite.get(name, still)) for name in names[0]),
                tuple((name, lie.get(name, nothing)) for name in names[1]),
            )

        words = (tuple(tuple(map(extended, word)) for word in rep.summands) for rep in reps)
        return tuple(_made(summands, names) for summands in words)

    @property
    def trivial(self) -> Representation:
        """The group acting on one number, which it does not change."""
        return self._made(((),))

    @property
    def dual(self) -> Representation:
        """The inverse transpose of every matrix."""
        return self._made(tuple(tuple(atom.dual for atom in word) for word in self.summands))

    def __add__(self, other: Tree) -> Representation:
        """The direct sum: the one's numbers, then the other's."""
        if not isinstance(other, Representation):
            return NotImplemented
        self._of_one_group(other, "+")
        return self._made(self.summands + other.summands)

    def __mul__(self, other: Tree) -> Representation:
        """The tensor product, or copies."""
        if isinstance(other, numbers.Integral) and not isinstance(other, bool):
            return self._made(self.summands * _count("copies", "the number of copies", other))
        if not isinstance(other, Representation):
            return NotImplemented
        self._of_one_group(other, "*")
        return self._made(tuple(a + b for a, b in itertools.product(self.summands, other.summands)))

    __rmul__ = __mul__

    def __pow__(self, k: int) -> Representation:
        """The tensor power; the zeroth is trivial."""
        if not isinstance(k, numbers.Integral) or isinstance(k, bool) or k < 0:
            raise SymmetryError(f"`Representation ** k` needs a whole number k that is not negative, got {k!r}.")
        return functools.reduce(lambda a, b: a * b, [self] * int(k), self.trivial)

    # --- what it is

    @property
    def dim(self) -> int:
        """The length of the vectors that it acts on."""
        return sum(map(length, self.summands))

    @property
    def finite(self) -> bool:
        """Whether it was declared by group elements alone."""
        return not self.names[1]

    def matrix(self, name: str) -> Tree:
        """The matrix of a generator, in SymPy."""
        import sympy

        if name not in (*self.names[0], *self.names[1]):
            known = ", ".join((*self.names[0], *self.names[1]))
            raise SymmetryError(f"`Representation.matrix`: no generator is called {name!r}; there are {known}.")
        blocks = []
        for word in self.summands:
            numerators, denominator = generator(word, name, name in self.names[1])
            blocks.append(sympy.Matrix(numerators.toarray().tolist()) / denominator)
        return sympy.diag(*blocks)

    def element(self, name: str, time: float = 1.0) -> np.ndarray:
        """The group element of a generator in floats: its matrix, or `exp(time A)` of one of the Lie algebra."""
        matrix = np.array(self.matrix(name).tolist(), float)
        if name in self.names[0]:
            return matrix
        from scipy.linalg import expm

        return np.asarray(expm(float(time) * matrix))

    def elements(self, most: int = 6000) -> np.ndarray:
        """All matrices of a finite group in floats, the identity first: what data are augmented by.

        Of more than `most`, or of a continuous group, there are none.
        """
        if not self.finite:
            raise SymmetryError(
                f"`Representation.elements`: {self} has infinitesimal generators ({', '.join(self.names[1])}), and its "
                f"elements cannot be listed; `element(name, time)` is one."
            )
        generators = [np.array(self.matrix(name).tolist(), float) for name in self.names[0]]
        found = [np.eye(self.dim)]
        known, reached = {_key(found[0])}, 0
        while reached < len(found):
            for matrix in generators:
                new = matrix @ found[reached]
                if _key(new) not in known:
                    if len(found) == most:
                        raise SymmetryError(
                            f"`Representation.elements`: {self} has more than most={most} elements, or infinitely many."
                        )
                    known.add(_key(new))
                    found.append(new)
            reached += 1
        return np.stack(found)

    def __str__(self) -> str:
        """For example `V*V + V`."""
        words = ["*".join(atom.name for atom in word) or "1" for word in self.summands]
        shown = words if len(words) <= 8 else [*words[:6], f"{len(words) - 6} more"]
        return " + ".join(shown)

    def __repr__(self) -> str:
        """What it is made of, and the generators."""
        return f"Representation {self} of dimension {self.dim} ({', '.join((*self.names[0], *self.names[1]))})"

    def _made(self, summands: tuple[Word, ...]) -> Representation:
        return _made(summands, self.names)

    def _of_one_group(self, other: Representation, call: str) -> None:
        one_group(f"Representation {call} Representation", self, other)


def _made(summands: tuple[Word, ...], names: tuple[tuple[str, ...], tuple[str, ...]]) -> Representation:
    made = object.__new__(Representation)
    object.__setattr__(made, "summands", summands)
    object.__setattr__(made, "names", names)
    return made


def one_group(call: str, left: Representation, right: Representation) -> None:
    """Refuse representations whose generators are not called the same."""
    if left.names != right.names:
        shown = [", ".join((*rep.names[0], *rep.names[1])) for rep in (left, right)]
        raise SymmetryError(
            f"`{call}` needs representations of one group, whose generators have the same names; got those of "
            f"{left} ({shown[0]}) and of {right} ({shown[1]})."
        )


def length(word: Word) -> int:
    """The dimension of a tensor product."""
    return math.prod(atom.size for atom in word)


@functools.lru_cache(maxsize=64)
def generator(word: Word, name: str, infinitesimal: bool) -> tuple[Any, int]:
    """The matrix of a generator on a tensor product: whole numbers, sparse, over a denominator."""
    from scipy.sparse import csr_array

    parts = [dict(atom.infinitesimal if infinitesimal else atom.finite)[name] for atom in word]
    whole = lambda matrix: (matrix.numerators, matrix.denominator)
    if not infinitesimal:
        total, denominator = csr_array(np.ones((1, 1), np.int64)), 1
        for matrix in map(whole, parts):
            total, denominator = kronecker(total, matrix[0]), denominator * matrix[1]
        return total, denominator
    total, denominator = csr_array((1, 1), dtype=np.int64), 1
    for numerators, own in map(whole, parts):
        common = math.lcm(denominator, own)
        left = kronecker(multiple(total, common // denominator), unit(numerators.shape[0]))
        total = left + kronecker(unit(total.shape[0]), multiple(numerators, common // own))
        denominator = common
    return total, denominator


def _key(matrix: np.ndarray) -> bytes:
    """Matrices that differ by rounding are one: elements of a finite group are far from one another."""
    return (np.round(matrix, 6) + 0.0).tobytes()


def _inverse(name: str, key: str, matrix: ExactMatrix) -> ExactMatrix:
    found = matrix.inverse()
    if found is None:
        raise SymmetryError(
            f"`Representation`: the generator {key!r} of {name} is singular, and group elements are not; an element of "
            f"the Lie algebra goes into infinitesimal=."
        )
    return found


def _count(call: str, name: str, value: AnyArray) -> int:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise SymmetryError(f"`Representation.{call}` needs {name} to be a whole number, at least 1, got {value!r}.")
    return int(value)
