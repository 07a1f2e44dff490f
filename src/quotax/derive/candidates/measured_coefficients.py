r"""Coefficients of a field that are numbers of the model: a running variance that was closed over, $1/\sqrt{v + eps}$.

Modulo a prime they are residues that stand for no small fraction. In floats they are the null vector of
$\langle \partial f(\theta_k), X_u(\theta_k) \rangle$ over a few points $\theta_k$, a column for each basis field $X_u$
that occurs; where there is one such vector and no other, it is measured.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from quotax.artifacts import Trace
from quotax.derive.candidates.polynomial_fields import Unknowns
from quotax.derive.points.float_model import FloatModel

LARGEST = 64
"""Numerators and denominators above this are those of a residue that happens to be a fraction."""
POINTS = 3
NULL = 1e-10
"""A singular value this far below the next is zero."""


def arbitrary(numbers: Sequence[Fraction]) -> bool:
    """Whether fractions are too long to be the coefficients of a field that somebody would write."""
    return any(abs(n.numerator) > LARGEST or n.denominator > LARGEST for n in numbers)


def measured(trace: Trace, basis: Unknowns, row: np.ndarray) -> list[float] | None:
    """The coefficients of the basis fields that a solution has, the first of them 1; None where they are not one."""
    running, chosen = FloatModel(trace), np.flatnonzero(row)
    places = running.smooth
    if places is None:
        return None
    rng, blocks = np.random.default_rng(5), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(POINTS):
            theta = running.point(rng, places)
            found = running.matrix(theta, rng, places)
            if found is not None:
                blocks.append(found[0] @ np.stack([basis.real_field(int(u), theta) for u in chosen], axis=1))
    if not blocks:
        return None
    columns = np.concatenate(blocks)
    lengths = np.linalg.norm(columns, axis=0)
    if not lengths.all():
        return None
    _, sizes, right = np.linalg.svd(columns / lengths, full_matrices=False)
    if len(sizes) < len(chosen) or sizes[-1] > NULL * sizes[0] or (len(sizes) > 1 and sizes[-2] <= NULL * sizes[0]):
        return None
    vector = right[-1] / lengths
    out = [0.0] * len(row)
    for u, value in zip(chosen, vector / vector[0], strict=True):
        out[u] = float(value)
    return out
