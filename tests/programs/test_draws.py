"""Normal numbers drawn by one program are JAX's own."""

import jax
import numpy as np
import pytest

from quotax.programs.draws import normal


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (70, 80)])
def test_the_numbers_are_those_of_jax(shape, dtype):
    key = jax.random.key(3)
    ours, theirs = normal(key, shape, np.dtype(dtype)), jax.random.normal(key, shape, dtype)
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("key", [jax.random.PRNGKey(3), jax.random.key(3, impl="rbg")])
def test_whatever_the_key(key):
    np.testing.assert_array_equal(normal(key, (3, 5), np.float32), jax.random.normal(key, (3, 5), "float32"))


def test_under_jit_too():
    key = jax.random.key(3)
    compiled = jax.jit(lambda key: normal(key, (3, 5), np.float32))(key)
    np.testing.assert_allclose(compiled, normal(key, (3, 5), np.float32), rtol=1e-6)


def test_shapes_share_a_program():
    counts = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: counts.append(name))
    try:
        key = jax.random.key(4)
        normal(key, (2, 3), np.float32)
        counts.clear()
        for n in range(1, 40):
            normal(key, (n, 7), np.float32)
        assert not [name for name in counts if "compile" in name]
    finally:
        jax.monitoring.clear_event_listeners()
