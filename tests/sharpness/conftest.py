"""Compiling is nearly all that these tests do, and they are about values: leave XLA's optimisations out."""

import jax
import pytest


@pytest.fixture(scope="module", autouse=True)
def quick_compilation():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
