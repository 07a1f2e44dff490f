"""Settings of the test process; quotax itself changes nothing global."""

import gc
import os

# Before SciPy is loaded: its threads and JAX's would wait for one another on a machine with few cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from pathlib import Path

import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", True)

# The same examples on every run: a failure in CI is a failure here. No deadline: a first call compiles.
hypothesis.settings.register_profile("quotax", derandomize=True, deadline=None, max_examples=25, database=None)
hypothesis.settings.load_profile("quotax")


def pytest_configure(config):
    """What one process has compiled the others load, and the next run does: most programs are made many times."""
    if not jax.config.jax_compilation_cache_dir and hasattr(config, "cache"):
        jax.config.update("jax_compilation_cache_dir", str(config.cache.mkdir("programs")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_collection_finish():
    """Modules and tests live as long as the process: collections of garbage need not walk them, nor come as often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def strict_promotion():
    """Mixing dtypes is an error: float32 parameters must not meet a float64 constant on the way."""
    with jax.numpy_dtype_promotion("strict"):
        yield


MAPS = Path("/proc/self/maps")
"""Linux: a line for each memory region of this process; 65,530 are allowed."""


@pytest.fixture(scope="session")
def looked():
    """When the regions were last counted."""
    return [time.monotonic()]


@pytest.fixture(autouse=True)
def forget_programs(looked):
    """Every compiled program holds a few memory regions, and LLVM aborts the process when it is refused one more.

    Counting them takes 20 ms: it is done once a second, in which no test makes as many as are left.
    """
    yield
    if time.monotonic() - looked[0] > 1:
        if MAPS.exists() and MAPS.read_bytes().count(b"\n") > 28_000:
            jax.clear_caches()
            gc.collect()
        looked[0] = time.monotonic()


@pytest.fixture(scope="session")
def derived():
    """`qx.derive`, each model once in a session."""
    cache = {}

    def derive(model, **options):
        key = (id(model), *sorted(options.items()))
        if key not in cache:
            import quotax as qx

            cache[key] = (model, qx.derive(model, progress=lambda line: None, **options))
        return cache[key][1]

    return derive
