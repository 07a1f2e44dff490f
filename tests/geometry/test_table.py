"""The shared table says what is true: families and dimensions of orbits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from geometry.table import CASES


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_orbit_has_the_dimension_of_the_entry(name):
    assert CASES[name].space(discrete=True).fiber_dim == CASES[name].orbit


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
