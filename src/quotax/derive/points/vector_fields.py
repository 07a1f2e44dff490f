"""The vector fields of symmetries at points, modulo a prime or in floats, and how many of them are independent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import sympy as sp

from quotax.artifacts import ArraySpec
from quotax.derive.sampling import modular
from quotax.interpret.jets.residues import PRIME, inverse, residue
from quotax.symmetry import FLOATS, Action, Arrays, velocity
from quotax.trees import AnyArray, Tree


def _einsum(subscripts: str, *arrays: AnyArray) -> np.ndarray:
    """`numpy.einsum` of residues: one reduction after every product, so that nothing overflows."""
    left, _, output = subscripts.partition("->")
    labels = left.split(",")
    every = dict.fromkeys("".join(labels))
    total, known = None, [*output, *(s for s in every if s not in output)]
    for own, array in zip(labels, arrays, strict=True):
        once = "".join(dict.fromkeys(own))
        array = np.einsum(f"{own}->{once}", np.asarray(array, np.int64)) if once != own else np.asarray(array, np.int64)
        ordered = [s for s in known if s in once]
        array = array.transpose([once.index(s) for s in ordered])
        array = array[tuple(slice(None) if s in once else None for s in known)]
        total = array if total is None else total * array % PRIME
    assert total is not None
    axes = tuple(range(len(output), len(known)))
    return total.sum(axis=axes) % PRIME if axes else total % PRIME


def _constant(value: sp.Expr, like: Tree) -> np.ndarray:
    number = sp.Rational(value)
    return np.asarray(int(number.p) % PRIME * pow(int(number.q) % PRIME, -1, PRIME) % PRIME)


def _power(base: AnyArray, exponent: sp.Expr) -> np.ndarray:
    n = int(exponent)
    base, out = (inverse(np.asarray(base)) if n < 0 else np.asarray(base)), np.ones_like(np.asarray(base))
    for _ in range(abs(n)):
        out = out * base % PRIME
    return out


def _projector(stack: np.ndarray) -> np.ndarray:
    """The projector onto the kernel of every matrix in a stack: `1 - R^T (R R^T)^-1 R` of independent rows R."""
    if stack.ndim > 2:
        return np.stack([_projector(block) for block in stack])
    rows, eye = modular.echelon(np.asarray(stack, np.int64) % PRIME), np.eye(stack.shape[-1], dtype=np.int64)
    gram = modular.product(rows, rows.T)
    solved = modular.echelon(np.concatenate([gram, rows], axis=1))[:, len(rows) :]
    return (eye - modular.product(rows.T, solved)) % PRIME


RESIDUES = Arrays(
    einsum=_einsum,
    constant=_constant,
    functions={},
    power=_power,
    eye=lambda n, like: np.eye(n, dtype=np.int64),
    projector=lambda maps: _projector(np.concatenate(maps, axis=-2)),
    broadcast=lambda value, shape: np.broadcast_to(value % PRIME, shape),
    held=lambda values, like: np.vectorize(residue, otypes=[np.int64])(values),
)
"""Arrays of residues, as readers of actions see them."""


def random_point(specs: Sequence[ArraySpec], sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    """Random residues for every entry of every parameter."""
    return rng.integers(1, PRIME, sum(math.prod(spec.shape(sizes)) for spec in specs), dtype=np.int64)


def split(specs: Sequence[ArraySpec], sizes: Mapping[str, int], flat: np.ndarray) -> dict[str, np.ndarray]:
    """Views of a flat vector by parameter, fused axes taken apart."""
    out, start = {}, 0
    for spec in specs:
        shape = spec.split_shape(sizes)
        size = math.prod(shape)
        out[spec.name] = flat[start : start + size].reshape(shape)
        start += size
    return out


def field_along(
    action: Action,
    specs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    theta: np.ndarray,
    xi: AnyArray,
    arrays: Arrays = FLOATS,
) -> np.ndarray:
    """The field of one algebra element at a flat point, of the point's own type."""
    field = np.zeros(len(theta), theta.dtype)
    parts = split(specs, sizes, field)
    for name, value in velocity(action, specs, sizes, split(specs, sizes, theta), xi, arrays).items():
        parts[name][...] = value
    return field


def fields_at(
    action: Action,
    specs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    theta: np.ndarray,
    basis: np.ndarray | None = None,
) -> np.ndarray:
    """The fields of these algebra elements (a whole basis, unless given) at a point, residues or floats as it is."""
    basis = action.group.basis(sizes) if basis is None else basis
    arrays, elements = (FLOATS, 1.0 * basis) if theta.dtype.kind == "f" else (RESIDUES, basis % PRIME)
    rows = [field_along(action, specs, sizes, theta, xi, arrays) for xi in elements]
    return np.array(rows, theta.dtype).reshape(len(basis), len(theta))


def dimensions(
    actions: Sequence[Action],
    specs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    others: Sequence[Callable[[np.ndarray], np.ndarray]] = (),
) -> tuple[int, int]:
    """(algebra, orbit): the rank of the fields as functions, and their generic rank at a point.

    `others` are fields beside those of the actions, as functions of the point.
    """
    rng = np.random.default_rng(3)
    per_point = []
    for _ in range(2):
        theta = random_point(specs, sizes, rng)
        rows = [fields_at(action, specs, sizes, theta) for action in actions] + [field(theta) for field in others]
        per_point.append(np.concatenate([np.zeros((0, len(theta)), np.int64), *rows]))
    return modular.rank(np.concatenate(per_point, axis=1)), max(map(modular.rank, per_point))
