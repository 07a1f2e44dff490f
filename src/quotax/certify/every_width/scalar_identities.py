"""Identities of scalar functions, for all real arguments: what the kernel and the lemmas ask."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import sympy as sp

from quotax.certify.every_width.lemmas import Lemmas
from quotax.certify.identities.equality import prove_equal
from quotax.certify.identities.piecewise import equal_piecewise

_SECONDS = 5.0
"""What the prover of a lemma about scalar functions may take."""


@functools.lru_cache(maxsize=4096)
def _equal(left: tuple[sp.Expr, ...], right: tuple[sp.Expr, ...]) -> bool:
    if all(equal_piecewise(a, b) for a, b in zip(left, right, strict=True)):
        return True
    told = [[e.replace(sp.atan2, _angle) for e in side] for side in (left, right)]
    try:
        return bool(prove_equal(told[0], told[1], _SECONDS))
    except Exception:  # a prover that gives up has proved nothing
        return False


def _angle(y: sp.Expr, x: sp.Expr) -> sp.Expr:
    """`atan2(a y, a x) = atan2(y, x)` for a > 0."""
    shared = sp.gcd(y, x)
    factor = sp.Mul(*(f for f in sp.Mul.make_args(shared) if f.is_positive))
    return sp.atan2(sp.cancel(y / factor), sp.cancel(x / factor))


def prove(left: Sequence[sp.Expr], right: Sequence[sp.Expr]) -> bool:
    """Whether expressions in real symbols are equal: what the kernel asks about scalar functions."""
    return _equal(tuple(left), tuple(right))


LEMMAS = Lemmas(prove)
"""Lemmas about scalar functions do not depend on the model: found once in a process."""
