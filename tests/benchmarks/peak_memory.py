"""The peak memory of measuring the sharpness of a large network: `python peak_memory.py 100_000_000`."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
from memory import peak

import quotax as qx

LAYERS = 6
MICROBATCH = 16
LIMIT = 8.0
"""Peak memory over the bytes of the parameters, beside one microbatch."""


def loss(params: Any, batch: jax.Array) -> jax.Array:
    """A deep ReLU network that reproduces its input's mean."""
    z = batch
    for W in params:
        z = jax.nn.relu(z @ W)
    return jnp.mean((z - batch.mean()) ** 2)


def main() -> None:
    """Print the peak over the parameters' bytes."""
    wanted = int(sys.argv[1].replace("_", ""))
    width = round((wanted / LAYERS) ** 0.5)
    keys = jax.random.split(jax.random.key(0), LAYERS + 1)
    params = [jax.random.normal(k, (width, width), jnp.float32) * (2 / width) ** 0.5 for k in keys[1:]]
    batch = jax.random.normal(keys[0], (2 * MICROBATCH, width), jnp.float32)
    jax.block_until_ready((params, batch))
    size = sum(W.nbytes for W in params)
    # Forward values and their cotangents, layer by layer.
    microbatch = 2 * LAYERS * MICROBATCH * width * 4
    before = peak()
    found = qx.sharpness(loss, params, 1.0, batch=batch, microbatch=MICROBATCH, budget=6, progress=lambda _: None)
    ratio = (peak() - microbatch) / size
    print(
        f"{size / 4e6:.1f} million parameters, {size / 2**20:.0f} MB; before the measurement {before / 2**20:.0f} MB,"
    )
    print(f"peak {peak() / 2**20:.0f} MB = {ratio:.2f} x the parameters + a microbatch (limit {LIMIT:g})")
    print(found)


if __name__ == "__main__":
    main()
