"""The loss between two networks: closed forms, and no barrier between points of one orbit once they are aligned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import models
import quotax as qx
from quotax.errors import SharpnessError


def test_a_double_well_has_the_barrier_of_its_formula():
    found = qx.barrier(lambda p: (1 - p["a"] ** 2) ** 2 + p["b"], {"a": -1.0, "b": 0.0}, {"a": 1.0, "b": 3.0}, points=5)
    np.testing.assert_allclose(found.losses, (1 - (2 * found.times - 1) ** 2) ** 2 + 3 * found.times, atol=1e-12)
    assert found.height == pytest.approx(1)
    assert (found.aligned_height, found.alignment) == (None, None)
    assert str(found) == "barrier 1 on the segment; the loss is 0 and 3 at the ends"


@pytest.mark.slow
def test_equivalent_networks_have_no_barrier_once_aligned(derived):
    network = models.linear.at(x=3, h=2, y=2)
    space = qx.quotient(network, derived(models.linear), metric="invariant")
    there = network.init(jax.random.key(0))
    moved = space.act(there, space.random_element(jax.random.key(1)))
    x = jax.random.normal(jax.random.key(2), (5, 3))
    target = jax.vmap(network, (None, 0))(there, x)
    loss = lambda p, x: jnp.mean((jax.vmap(network, (None, 0))(p, x) - target) ** 2)
    found = qx.barrier(loss, moved, there, space=space, points=5, batch=x)
    assert found.height > 1e-3
    assert abs(found.aligned_height) < 1e-9
    assert found.alignment.attained
    assert found.to_dict()["losses"] == found.losses.tolist()


def test_what_is_not_finite_is_said_and_what_does_not_fit_refused():
    assert qx.barrier(lambda p: jnp.log(p), jnp.array(-1.0), jnp.array(1.0), points=3).status == "not finite"
    loss = lambda p: jnp.sum(p)
    with pytest.raises(SharpnessError, match="two sets of parameters of one network"):
        qx.barrier(loss, jnp.ones(2), jnp.ones(3))
    with pytest.raises(SharpnessError, match="points= a whole number, at least 3, got 1"):
        qx.barrier(loss, jnp.ones(2), jnp.ones(2), points=1)
    with pytest.raises(SharpnessError, match="space= with `alignment`"):
        qx.barrier(loss, jnp.ones(2), jnp.ones(2), space=3)
