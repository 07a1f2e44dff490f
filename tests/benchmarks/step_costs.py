"""What one step of the search costs: on the quotient beside the full space, and as networks and batches grow."""

from __future__ import annotations

import itertools
import statistics
import time
import warnings
from typing import Any

import jax
import numpy as np
import optax

import quotax as qx
from quotax.errors import MetricWarning

LIMITS = {2048: 1.10, 512: 1.25}
"""Largest ratio of a step on the quotient to one in the full space, by batch size."""


@qx.architecture(
    params={"W1": "a x", "b1": "a", "W2": "b a", "b2": "b", "W3": "y b"},
    inputs={"x": "x"},
)
def mlp(p: Any, x: jax.Array) -> jax.Array:
    """Two hidden layers of ReLUs."""
    z = jax.nn.relu(p["W1"] @ x + p["b1"])
    return p["W3"] @ jax.nn.relu(p["W2"] @ z + p["b2"])


SCALES = (
    qx.Symmetry("first layer", qx.PositiveDiagonal("a"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    qx.Symmetry("second layer", qx.PositiveDiagonal("b"), {"W2": "g @ W2", "b2": "g @ b2", "W3": "W3 @ inv(g)"}),
)


def problem(x: int, hidden: int, batch: int) -> tuple[Any, Any, Any, Any]:
    """A network, a loss, parameters and a random batch."""
    net = mlp.at(x=x, a=hidden, b=hidden, y=10)
    one, two, three = jax.random.split(jax.random.key(0), 3)
    data = jax.random.normal(one, (batch, x)), jax.random.randint(two, (batch,), 0, 10)

    def loss(p: Any, data: Any) -> jax.Array:
        inputs, labels = data
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(net, (None, 0))(p, inputs), labels).mean()

    return net, loss, net.init(three), data


def seconds_a_step(loss: Any, params: Any, batch: Any, space: Any, steps: int = 24) -> float:
    """The median time of a gradient with everything around it, between the reports of one search."""
    marks = []

    def mark(line: str) -> None:
        marks.append((time.perf_counter(), int(line.split(" after ")[1].split(" of ")[0])))

    for _ in range(2):  # the first compiles
        marks.clear()
        qx.sharpness(
            loss, params, 1.0, batch=batch, space=space, budget=steps, restarts=2, curvature=0, memory=4, progress=mark
        )
    return statistics.median((b - a) / (n - m) for (a, m), (b, n) in itertools.pairwise(marks) if n > m)


def overhead(smoke: bool = False) -> None:
    """The quotient's step beside the full one."""
    x, hidden = (64, 64) if smoke else (784, 1820)
    net, *_ = problem(x, hidden, 1)
    with warnings.catch_warnings(action="ignore", category=MetricWarning):
        space = qx.quotient(net, SCALES, metric="euclidean")
    print(f"\nA step on the quotient and in the full space: MLP of {net.num_parameters / 1e6:.2f} million parameters\n")
    print(f"{'batch':>8}{'full':>12}{'quotient':>12}{'ratio':>8}{'limit':>8}")
    for batch, limit in LIMITS.items():
        _, loss, params, data = problem(x, hidden, batch)
        pairs = [[seconds_a_step(loss, params, data, each) for each in (None, space)] for _ in range(1 if smoke else 3)]
        full, quotient = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(q / f for f, q in pairs)
        print(f"{batch:8}{full:10.4f} s{quotient:10.4f} s{ratio:8.3f}{limit:8.2f}", flush=True)


def scaling(smoke: bool = False) -> None:
    """A step as the network and as the batch grow, with the straight lines through these costs."""
    print("\nCost of a step in the full space, in parameters (batch 256) and in the batch (1.1 million parameters)\n")
    print(f"{'parameters':>12}{'batch':>8}{'a step':>12}{'/ params / batch':>20}")
    widths, batches = ((32, 64), (64, 128)) if smoke else ((300, 500, 900, 1600), (128, 256, 512, 1024))
    cases = [(width, 256) for width in widths] + [(widths[-2] if smoke else 750, batch) for batch in batches]
    points = []
    for hidden, batch in cases:
        net, loss, params, data = problem(784, hidden, batch)
        step = seconds_a_step(loss, params, data, None)
        each = step / net.num_parameters / batch
        points.append((net.num_parameters, batch, step))
        print(f"{net.num_parameters:12}{batch:8}{step:10.4f} s{each * 1e12:17.2f} ps", flush=True)
    grown, fed = points[: len(widths)], points[len(widths) :]
    line("million parameters", [size / 1e6 for size, _, _ in grown], [step for *_, step in grown])
    line("thousand examples", [batch / 1e3 for _, batch, _ in fed], [step for *_, step in fed])


def line(unit: str, sizes: list[float], steps: list[float]) -> None:
    """The least-squares line through the costs, and how far they are from it."""
    slope, start = np.polyfit(sizes, steps, 1)
    off = max(abs(start + slope * size - step) / step for size, step in zip(sizes, steps, strict=True))
    print(f"a step = {start * 1e3:.1f} ms + {slope * 1e3:.1f} ms for every {unit}, within {off:.0%}")


if __name__ == "__main__":
    overhead()
    scaling()
