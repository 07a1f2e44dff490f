"""The vector fields of symmetries at random points: how many are independent, as functions and at a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp

from quotax.artifacts import ArraySpec
from quotax.derive.sampling import modular
from quotax.derive.sampling.moments import factors
from quotax.interpret.jets.domain import PRIME, inverse
from quotax.symmetry import TANGENT, Action, Arrays, read, variable


def _einsum(subscripts: str, *arrays: Any) -> np.ndarray:
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


def _constant(value: sp.Expr) -> np.ndarray:
    number = sp.Rational(value)
    return np.asarray(int(number.p) % PRIME * pow(int(number.q) % PRIME, -1, PRIME) % PRIME)


def _power(base: Any, exponent: sp.Expr) -> np.ndarray:
    n = int(exponent)
    base, out = (inverse(np.asarray(base)) if n < 0 else np.asarray(base)), np.ones_like(np.asarray(base))
    for _ in range(abs(n)):
        out = out * base % PRIME
    return out


RESIDUES = Arrays(
    einsum=_einsum, constant=_constant, functions={}, power=_power, eye=lambda n: np.eye(n, dtype=np.int64)
)
"""Arrays of residues, as readers of actions see them."""


def random_point(
    specs: Sequence[ArraySpec], sizes: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Random residues for every parameter, fused axes taken apart."""
    return {
        s.name: rng.integers(1, PRIME, [f if isinstance(f, int) else sizes[f] for f in factors(s)], dtype=np.int64)
        for s in specs
    }


def algebra_basis(action: Action, sizes: Mapping[str, int]) -> np.ndarray:
    """One algebra element per coordinate."""
    shape = action.group.coordinate_shape(sizes)
    count = int(np.prod(shape, dtype=np.int64))
    if not count or not action.group.continuous:
        return np.zeros((0, *action.group.shape(sizes)), np.int64)
    eye = np.eye(count, dtype=np.float32).reshape(count, *shape)
    return np.rint(np.asarray(action.group.algebra(eye, sizes))).astype(np.int64) % PRIME


def fields_at(
    action: Action,
    specs: Sequence[ArraySpec],
    sizes: Mapping[str, int],
    point: Mapping[str, np.ndarray],
    basis: np.ndarray | None = None,
) -> np.ndarray:
    """The fields of these algebra elements (a whole basis, unless given) at a point: `(elements, parameters)`."""
    starts, total = {}, 0
    for spec in specs:
        starts[spec.name] = total
        total += point[spec.name].size
    basis = algebra_basis(action, sizes) if basis is None else basis
    out = np.zeros((len(basis), total), np.int64)
    environment: dict[str, Any] = {variable(name): value for name, value in point.items()}
    for row, xi in zip(out, basis, strict=True):
        for entry in action.infinitesimal:
            value = read(entry, environment | {TANGENT: xi}, sizes, RESIDUES)
            start = starts[entry.name]
            row[start : start + point[entry.name].size] = (
                np.broadcast_to(value, point[entry.name].shape).reshape(-1) % PRIME
            )
    return out


def dimensions(
    actions: Sequence[Action], specs: Sequence[ArraySpec], sizes: Mapping[str, int], seed: int = 0, points: int = 2
) -> tuple[int, int]:
    """(algebra, orbit): the rank of the fields as functions, and their generic rank at a point."""
    rng = np.random.default_rng(seed)
    per_point = []
    for _ in range(points):
        point = random_point(specs, sizes, rng)
        rows = [fields_at(action, specs, sizes, point) for action in actions]
        total = sum(p.size for p in point.values())
        per_point.append(np.concatenate([np.zeros((0, total), np.int64), *rows]))
    return modular.rank(np.concatenate(per_point, axis=1)), max(modular.rank(p) for p in per_point)
