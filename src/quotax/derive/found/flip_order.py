"""How many sign patterns the flips that were found generate."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence

import sympy as sp

from quotax.artifacts import ArraySpec
from quotax.derive.candidates.sign_subspaces import SignSpace
from quotax.derive.found.dimensions import axis_symbol
from quotax.symmetry import Symmetry
from quotax.symmetry.new_entries.general_entries import ELEMENT


def flip_order(flips: Sequence[Symmetry], specs: Sequence[ArraySpec]) -> sp.Expr:
    """The order of the group that sign flips of axes generate, in the axis names.

    A generator is a sign for every index of its axes, seen at some places of some parameters. Functions of indices with
    values in GF(2) are sums of parts, each a function of some of these indices that is zero where one of them is the
    first, in one way: `prod (n_a - 1)` dimensions for the axes `a` of the part. Parts of other axes have nothing in
    common, and of those of the same axes as many are independent as the generators' vectors of places, modulo 2.
    """
    listed = [s for s in flips if s.group.kind == "sign"]
    spans: dict[tuple[str, ...], SignSpace] = {}
    seen: dict[Hashable, int] = {}
    exponent: sp.Expr = sp.S.Zero
    for number, symmetry in enumerate(listed):
        group = symmetry.group
        own = (*group.each_axes, *([group.axis] if group.axis else []))
        entries = symmetry.bind(tuple(specs)).entries
        places = [(e.name, e.indices, signs) for e in entries if (signs := _signs(e.expression))]
        if any(entry.expression.has(sp.Sum) for entry in entries):
            places = []  # a flip with an offset is no product of others
        for count in range(len(own) + 1):
            for part in itertools.combinations(range(len(own)), count):
                vector = 0 if places else 1 << seen.setdefault(number, len(seen))
                for name, indices, signs in places:
                    for at in signs:
                        spot = (name, *((own[k], indices.index(at[k])) for k in part))
                        vector ^= 1 << seen.setdefault(spot, len(seen))
                axes = tuple(sorted(own[k] for k in part))
                if spans.setdefault(axes, SignSpace()).add(vector):
                    exponent += sp.Mul(*(axis_symbol(axis) - 1 for axis in axes))
    return sp.Pow(2, sp.expand(exponent), evaluate=False)


def _signs(entry: sp.Expr) -> list[tuple[sp.Expr, ...]]:
    """The indices of the signs that an entry is multiplied by; `w + 1` is in `g (w + 1) - 1`."""
    product = next((part for part in sp.Add.make_args(entry) if not part.is_number), entry)
    found = []
    for factor in sp.Mul.make_args(product):
        base, power = factor.as_base_exp()
        if getattr(getattr(base, "base", base), "name", None) == ELEMENT:
            found += [tuple(getattr(base, "indices", ()))] * int(power)
    return found
