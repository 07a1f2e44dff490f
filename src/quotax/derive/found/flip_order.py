"""How many sign patterns the flips that were found generate."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from quotax.artifacts import ArraySpec
from quotax.derive.candidates.sign_subspaces import SignSpace
from quotax.derive.found.dimensions import axis_symbol
from quotax.symmetry import Symmetry
from quotax.symmetry.new_entries.general_entries import ELEMENT


def flip_order(flips: Sequence[Symmetry], specs: Sequence[ArraySpec]) -> sp.Expr:
    """The order of the group that sign flips of axes generate, in the axis names.

    A generator flips the indices of its axis one by one: `2^n` patterns. A product of signs `s_i t_j` of two axes is
    one only where both are constant and equal, so what two generators may share is a flip of whole parameters: each is
    a vector over GF(2), by the parity of the places that it flips in a parameter, and what is dependent among these
    vectors is counted once.
    """
    listed = [s for s in flips if s.group.kind == "sign"]
    exponent = sp.Add(*(axis_symbol(s.group.axis) if s.group.axis else sp.S.One for s in listed))
    span, shared = SignSpace(), 0
    for symmetry in listed:
        entries = symmetry.bind(tuple(specs)).entries
        if any(entry.expression.has(sp.Sum) for entry in entries):
            continue  # a flip with an offset is no product of others
        odd = {entry.name for entry in entries if _signs(entry.expression) % 2}
        whole = sum(1 << k for k, spec in enumerate(specs) if spec.name in odd)
        shared += not span.add(whole)
    return sp.Pow(2, exponent - shared, evaluate=False)


def _signs(entry: sp.Expr) -> int:
    """How many signs an entry is multiplied by; `w + 1` is in `g (w + 1) - 1`."""
    product = next((part for part in sp.Add.make_args(entry) if not part.is_number), entry)
    return sum(getattr(getattr(f, "base", f), "name", None) == ELEMENT for f in sp.Mul.make_args(product))
