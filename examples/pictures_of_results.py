"""The pictures that results draw of themselves along an orbit, across it, and along training.

    python examples/pictures_of_results.py                         draws into docs/assets
    python examples/pictures_of_results.py --quick --figures DIR   fewer points, another folder

A ReLU network is trained by gradient descent. Drawn are: the charges of its two hidden layers along training, predicted
and measured; where it ends, measures at representatives of its orbit, in Euclidean balls and on the quotient; and the
loss along the orbit and across, on the three surfaces of `qx.loss_slice`. Every picture is a result's own `.plot()`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

import quotax as qx

mpl.use("Agg")
from matplotlib import pyplot

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
ETA = 0.05


def quiet(line: str) -> None:
    """What is said meanwhile is not shown."""


@qx.architecture(params={"W1": "h x", "W2": "k h", "W3": "y k"}, inputs={"x": "x"})
def mlp(p, x):
    return p["W3"] @ jax.nn.relu(p["W2"] @ jax.nn.relu(p["W1"] @ x))


def task() -> tuple[Any, Any, Any]:
    """A network, its loss on data of its own, and its quotient."""
    net = mlp.at(x=3, h=6, k=5, y=2)
    xs = jax.random.normal(jax.random.key(0), (64, 3))
    ys = jnp.stack([jnp.sin(2 * xs[:, 0]), xs[:, 1] * xs[:, 2]], -1)
    loss = lambda p: jnp.mean((jax.vmap(net, (None, 0))(p, xs) - ys) ** 2)
    return net, loss, qx.quotient(net, qx.derive(net, progress=quiet), metric="invariant")


def charges(net: Any, loss: Any, space: Any, steps: int) -> tuple[Any, Any]:
    """Every step of training is looked at, and its end kept."""
    ends = []

    def path() -> Any:
        for params in qx.gradient_descent().path(loss, net.init(jax.random.key(1)), ETA, steps):
            ends[:] = [params]
            yield params

    found = qx.charge_history(space, path(), loss=loss, eta=ETA)
    return found, ends[0]


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """All results, printed and drawn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figures", type=Path, default=ASSETS)
    asked = parser.parse_args(arguments)
    net, loss, space = task()
    history, params = charges(net, loss, space, 20 if asked.quick else 400)
    times = np.linspace(-0.8, 0.8, 3 if asked.quick else 9)
    drift = qx.orbit_drift(loss, params, 0.2, space=space, times=times, progress=quiet)
    slices = {
        frame: qx.loss_slice(
            loss, params, 0.5, space=space, stretch=0.8, frame=frame, points=7 if asked.quick else 41, progress=quiet
        )
        for frame in ("fixed", "moved", "linear")
    }
    print(history, drift, *slices.values(), sep="\n\n")
    for name, found in (("charges", history), ("orbit_drift", drift)):
        found.plot().figure.savefig(asked.figures / f"{name}.png", dpi=150)
    figure, axes = pyplot.subplots(1, 3, figsize=(10.2, 2.5), layout="constrained")
    for ax, found in zip(axes, slices.values(), strict=True):
        found.plot(ax)
    figure.savefig(asked.figures / "loss_slices.png", dpi=150)
    pyplot.close("all")
    return {"charges": history, "drift": drift, **slices}


if __name__ == "__main__":
    main()
