"""Every row of the table of architectures: the four numbers of its example, and its orbit's formula."""

from __future__ import annotations

import pytest
import sympy as sp

import quotax as qx
from derive.rows import ROWS
from quotax.derive.found.dimensions import axis_symbol

params = [pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.slow else []) for row in ROWS]


@pytest.mark.parametrize("row", params)
def test_the_audit_has_the_numbers_of_the_table(row, derived):
    found = derived(row.model, **row.options)
    audit = found.audit(**row.sizes)
    parameters, rank, flat, orbit = row.numbers
    assert (audit.parameters, audit.orbit) == (parameters, orbit)
    if rank is not None:
        assert (audit.rank, audit.flat) == (rank, flat)
        assert audit.surplus == flat - orbit
    assert all(found.certificate(s.name) for s in found)


@pytest.mark.parametrize("row", params)
def test_the_orbit_formula_is_that_of_the_table(row, derived):
    if row.orbit is None:
        pytest.skip("the row has fields without a family")
    found = derived(row.model, **row.options)
    names = {a: axis_symbol(a) for a in row.model.axis_names}
    at = {axis_symbol(a): n for a, n in row.sizes.items()}
    expected = sp.sympify(row.orbit, locals=names).subs(at)
    assert sp.simplify(found.orbit_dim.subs(at) - expected) == 0


@pytest.mark.parametrize("row", params)
def test_what_is_found_says_what_it_is(row, derived):
    found, specs = derived(row.model, **row.options), row.model.params
    for symmetry in (*found, *found.discrete):
        assert symmetry.bind(specs) == qx.Symmetry(symmetry.name, symmetry.group, symmetry.action).bind(specs)


def test_the_algebra_may_be_larger_than_the_orbit(derived):
    row = next(r for r in ROWS if r.name == "linear overcomplete")
    audit = derived(row.model).audit(**row.sizes)
    assert (audit.algebra, audit.stabiliser) == (16, (4 - 2) * (4 - 3))
    assert isinstance(audit, qx.Audit)
