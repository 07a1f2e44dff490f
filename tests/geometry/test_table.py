"""The shared table says what is true: families, dimensions of orbits, and that no row is missing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from derive.rows import ROWS
from geometry.table import CASES, FAMILIES, WITHOUT


def test_every_row_with_symmetries_is_in_the_table():
    assert [row.name for row in ROWS if row.numbers[3] == 0] == WITHOUT
    assert set(CASES) == set(FAMILIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_orbit_has_the_dimension_of_the_row(name):
    case = CASES[name]
    assert case.space(discrete=True).fiber_dim == case.orbit
    row = next(row for row in ROWS if row.name == name)
    assert case.network.num_parameters == row.numbers[0]
    if not case.note:
        assert case.orbit == row.numbers[3]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_acting_leaves_the_outputs_alone(name):
    case = CASES[name]
    space = case.space(discrete=True)
    params, inputs = case.tree(1), case.inputs()
    moved = space.act(params, space.random_element(jax.random.key(3), scale=0.5))
    outputs = jax.jit(case.network.__call__)
    np.testing.assert_allclose(outputs(moved, *inputs), outputs(params, *inputs), rtol=1e-8, atol=1e-9)
    assert float(jnp.max(jnp.abs(space.ravel(moved) - space.ravel(params)))) > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_family_is_proved(name):
    case = CASES[name]
    for claim in case.symmetries(discrete=True):
        certificate = qx.verify(case.model, claim)
        assert certificate, f"{claim}: {certificate.status}"
