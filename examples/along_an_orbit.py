"""One network, many parameter vectors: what a Euclidean ball says along an orbit, and what the quotient says.

    python examples/along_an_orbit.py                       prints the table and draws docs/assets/along_an_orbit.png
    python examples/along_an_orbit.py --quick --to x.pdf    fewer points, another file

Left, the loss of one neuron `v relu(w)` on one example. Its level sets are unions of orbits `(g w, v / g)`. The two
crosses are one network, and Euclidean discs around them reach different losses. Right, a trained ReLU network moved
along its orbit: the worst loss in a Euclidean ball changes with the representative, the worst loss in a ball of the
quotient, in the invariant metric, does not.
"""

from __future__ import annotations

import argparse
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import optax
from matplotlib.patches import Circle

import quotax as qx

mpl.use("Agg")
from matplotlib import pyplot

BLUE, ORANGE = "#0072b2", "#d55e00"
RADIUS = 0.5


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
def mlp(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])


def trained() -> tuple[Any, Any, Any]:
    """A network at a minimum of its loss on data of its own, its loss, and its quotient."""
    net = mlp.at(x=3, h=6, y=2)
    xs = jax.random.normal(jax.random.key(0), (64, 3))
    ys = jnp.stack([jnp.sin(2 * xs[:, 0]), xs[:, 1] * xs[:, 2]], -1)
    loss = lambda p: jnp.mean((jax.vmap(net, (None, 0))(p, xs) - ys) ** 2)
    rule = optax.adam(0.02)

    def step(state, _):
        params, memory = state
        change, memory = rule.update(jax.grad(loss)(params), memory)
        return (optax.apply_updates(params, change), memory), None

    start = net.init(jax.random.key(1))
    (params, _), _ = jax.lax.scan(step, (start, rule.init(start)), None, 1500)
    space = qx.quotient(net, qx.derive(mlp, progress=lambda line: None), metric="invariant")
    return space.canonical(params).params, loss, space


def along(count: int) -> tuple[np.ndarray, list[float], list[float]]:
    """How far a network is moved along its orbit, and the worst rise of the loss there in both balls."""
    params, loss, space = trained()
    strengths = np.geomspace(1, 4, count)
    # one neuron is scaled up and the next down, as training and weight decay do to different extents
    full, quotient = [], []
    for s in strengths:
        factor = jnp.asarray([s, 1 / s] * 3, jnp.float32)
        moved = {"W1": params["W1"] * factor[:, None], "b1": params["b1"] * factor, "W2": params["W2"] / factor}
        full.append(qx.sharpness(loss, moved, RADIUS, progress=lambda line: None).value)
        quotient.append(qx.sharpness(loss, moved, RADIUS, space=space, progress=lambda line: None).value)
    return strengths, full, quotient


def draw(where: str, strengths: np.ndarray, full: list[float], quotient: list[float]) -> None:
    """Both panels, into a file."""
    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    with mpl.rc_context(style):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(7.6, 3.1), layout="constrained")
        w, v = np.meshgrid(np.linspace(0.02, 3.2, 300), np.linspace(0.02, 3.2, 300))
        shade = np.log10(1e-2 + (w * v - 1) ** 2)
        left.imshow(shade, extent=(0, 3.2, 0, 3.2), origin="lower", cmap="Greys", vmax=3, interpolation="bilinear")
        for level in (0.4, 1.0, 2.0):
            g = np.linspace(level / 3.2, 3.2, 200)
            left.plot(g, level / g, color=BLUE, lw=1.8 if level == 1 else 0.8)
        for x, y in ((1.0, 1.0), (2.5, 0.4)):
            left.add_patch(Circle((x, y), 0.35, fill=False, color=ORANGE, lw=1.4))
            left.plot([x], [y], "+", color=ORANGE, ms=8, mew=1.6)
        for words, at, place, colour in (
            ("an orbit: one function", (0.4, 2.5), (0.75, 2.75), BLUE),
            ("Euclidean balls", (2.5, 0.75), (1.7, 1.55), ORANGE),
        ):
            box, line = {"facecolor": "white", "edgecolor": "none", "pad": 2}, {"arrowstyle": "-", "color": colour}
            left.annotate(words, at, place, color=colour, bbox=box, arrowprops=line)
        left.set(
            xlabel="incoming weight $w$", ylabel="outgoing weight $v$", xlim=(0, 3.2), ylim=(0, 3.2), aspect="equal"
        )
        right.plot(strengths, full, "o-", color=ORANGE, ms=4, label="Euclidean ball")
        right.plot(strengths, quotient, "s-", color=BLUE, ms=4, label="ball of the quotient")
        right.set(xlabel="how far along the orbit (scale of a neuron)", ylabel="worst rise of the loss", xscale="log")
        right.set_xticks([1, 2, 4], ["1", "2", "4"], minor=False)
        right.minorticks_off()
        right.set_ylim(bottom=0)
        right.legend(frameon=False)
        figure.savefig(where, dpi=150)
        pyplot.close(figure)


def main() -> None:
    """The table, then the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--to", default="docs/assets/along_an_orbit.png")
    asked = parser.parse_args()
    strengths, full, quotient = along(3 if asked.quick else 7)
    print(f"{'scale':>8}{'Euclidean ball':>18}{'quotient':>12}")
    for row in zip(strengths, full, quotient, strict=True):
        print("{:8.2f}{:18.3f}{:12.4f}".format(*row))
    draw(asked.to, strengths, full, quotient)
    print(f"drawn: {asked.to}")


if __name__ == "__main__":
    main()
