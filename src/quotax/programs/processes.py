"""Programs that several processes run together: each process compiles its own.

JAX keeps compiled programs in a folder (`jax_compilation_cache_dir`), under a key that includes a fingerprint of the
devices. Of processors that fingerprint is another in every process, and the first process alone writes: it reads what
the others compile again. A program that was read exchanges in another order than one that was compiled (jaxlib 0.10.2):
with several exchanges the processes wait for one another for ever. Where all read, or all compile, they do not; on
other devices keys agree. So on processors nothing is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import jax
from jax.core import Tracer


def share_no_programs(devices: Iterable[Any]) -> None:
    """Keep and read no compiled programs from here on, if these devices are processors of several processes."""
    folder = jax.config.values["jax_compilation_cache_dir"]
    if jax.process_count() == 1 or folder is None or not jax.config.values["jax_enable_compilation_cache"]:
        return
    used = {device.process_index for device in devices if device.platform == "cpu"}
    if len(used) < 2:
        return
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()  # JAX asks for the setting once
    warnings.warn(
        f"quotax: this process no longer reads compiled programs from {folder} (jax_enable_compilation_cache=False): "
        "on processors one process would read what another compiles, and the two would wait for one another for ever.",
        stacklevel=3,
    )


def share_no_programs_of(arrays: Iterable[Any]) -> None:
    """The same for the devices on which arrays lie."""
    if jax.process_count() > 1:
        for array in arrays:
            if isinstance(array, jax.Array) and not isinstance(array, Tracer) and not array.is_fully_addressable:
                share_no_programs(array.sharding.device_set)
