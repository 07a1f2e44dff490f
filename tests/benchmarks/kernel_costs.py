"""What the tangent kernel costs: `python tests/benchmarks/kernel_costs.py [--smoke]`.

The kernel of 1,000 examples of a network with 100,000 parameters, with one output and with ten, and products with the
kernel of 1,000 examples at ten million parameters, which need no matrix. Seconds by the clock and of the processor in a
fresh process each, in float32, with everything that is compiled on the way; what is aimed at is in brackets.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

import jax
import numpy as np
from memory import peak

import quotax as qx

LIMIT = 30
"""Seconds for a kernel of 1,000 examples at 100,000 parameters."""
ROWS = {
    "matrix, one output": ("matrix", {"x": 100, "h": 981, "y": 1}, 1000),
    "matrix, ten outputs": ("matrix", {"x": 100, "h": 900, "y": 10}, 1000),
    "products, one output": ("product", {"x": 784, "h": 12722, "y": 1}, 1000),
}
"""What is computed, the sizes of the network, and how many examples."""
SMOKE = {"x": 5, "h": 7, "y": 2}


def network(sizes):
    """A network of two layers, its parameters, and their number."""

    @qx.architecture(params={"W": "h x", "b": "h", "V": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return p["V"] @ jax.numpy.tanh(p["W"] @ x + p["b"])

    net = model.at(**sizes)
    return net, net.init(jax.random.key(0)), net.num_parameters


def measured(name, smoke):
    """Print one row."""
    what, sizes, examples = ROWS[name]
    sizes, examples = (SMOKE, 6) if smoke else (sizes, examples)
    net, params, count = network(sizes)
    inputs = jax.random.normal(jax.random.key(1), (examples, sizes["x"]))
    wall, spent = time.perf_counter(), time.process_time()
    kernel = qx.tangent_kernel(net, params, inputs)
    if what == "matrix":
        made = np.asarray(kernel.matrix)
    else:
        made = np.asarray(kernel.product(np.ones((examples, sizes["y"]), np.float32)))
    first = time.perf_counter() - wall, time.process_time() - spent
    assert np.isfinite(made).all()
    again = ""
    if what == "product":
        wall = time.perf_counter()
        np.asarray(kernel.product(np.ones((examples, sizes["y"]), np.float32)))
        again = f"{time.perf_counter() - wall:.2f} s again"
    aim = f"({LIMIT})" if what == "matrix" and not smoke else ""
    print(
        f"{name:22}{count:>12,} parameters{examples:>7,} examples {first[0]:7.2f} s {aim:5}"
        f"{first[1]:7.2f} s of processors {again:14} {peak() / 2**30:5.2f} GiB",
        flush=True,
    )


def main():
    """Every row in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, in this process")
    parser.add_argument("--only", choices=ROWS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.smoke or arguments.only:
        for name in [arguments.only] if arguments.only else ROWS:
            measured(name, arguments.smoke)
        return
    for name in ROWS:
        subprocess.run([sys.executable, __file__, "--only", name], check=True)


if __name__ == "__main__":
    main()
