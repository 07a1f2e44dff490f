"""The pictures of docs/concepts.md: orbits, horizontal spaces, balls, and what a certificate covers.

    python examples/pictures_of_concepts.py                         draws into docs/assets
    python examples/pictures_of_concepts.py --quick --figures DIR   fewer points, another folder

All are of one neuron, `v relu(w x)` for x > 0, whose orbits are hyperbolas `w v = c`. Directions, lengths and
the worst case in a ball are asked of the library, and printed; only places of words are chosen by hand.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle

import quotax as qx

mpl.use("Agg")
from matplotlib import pyplot

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#007a5a", "#666666"
CLEAR = {"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.8}
STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9}
RADIUS = 0.35
SCALES = (0.6, 1.0, 2.2)


@qx.architecture(params={"w": "h", "v": "h"}, inputs={"x": ""})
def neuron(p, x):
    return p["v"] @ jax.nn.relu(p["w"] * x)


def loss(p):
    return jnp.sum((neuron.at(h=1)(p, 1.0) - 0.4) ** 2)


def spaces() -> dict[str, Any]:
    """The quotient by the scalings that are found, in the Euclidean and in the invariant metric."""
    scalings = [family for family in qx.derive(neuron, progress=lambda line: None) if family.group.continuous]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qx.MetricWarning)  # that the Euclidean one has no quotient is the subject
        return {name: qx.quotient(neuron.at(h=1), scalings, metric=name) for name in ("euclidean", "invariant")}


def tree(point: Any) -> dict[str, Any]:
    return {name: jnp.asarray([value], jnp.float32) for name, value in zip("wv", point, strict=True)}


def pair(params: Any) -> np.ndarray:
    return np.array([float(params[name][0]) for name in "wv"])


# --- one orbit, a point


def orbits(where: Path) -> None:
    """Orbits in the plane of parameters, and the line of functions."""
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(7, 3), width_ratios=(3, 1.2), layout="constrained")
    levels = np.array([0.25, 0.6, 1.0, 1.5, 2.1])
    colours = mpl.colormaps["viridis"](np.linspace(0.05, 0.8, len(levels)))
    for level, colour in zip(levels, colours, strict=True):
        w = np.geomspace(level / 3, 4.2, 200)
        left.plot(w, level / w, color=colour, lw=2.2 if level == 1 else 1.2)
        right.plot([0], [level], "o", color=colour, ms=9 if level == 1 else 6)
    points = [(0.5, 2.0), (1.0, 1.0), (2.5, 0.4)]
    left.plot(*zip(*points, strict=True), "o", color=ORANGE, ms=6, zorder=5)
    for (w, v), text in zip(points, ("g = ½", "1", "g = 2½"), strict=True):
        left.annotate(text, (w, v), (6, 5), textcoords="offset points", color=ORANGE, bbox=CLEAR)
    left.annotate(
        "one orbit: $w v = 1$", (3.2, 1 / 3.2), (2.6, 1.5), color=GREY, arrowprops={"arrowstyle": "-", "color": GREY}
    )
    left.set(xlabel="incoming weight $w$", ylabel="outgoing weight $v$", xlim=(0, 4.2), ylim=(0, 3))
    left.set_title("parameters: many points, one function on each curve")
    right.plot([0, 0], [0, 2.6], color=GREY, lw=0.8, zorder=0)
    right.annotate("the same function", (0, 1), (12, -3), textcoords="offset points", color=ORANGE)
    right.set(xlim=(-0.3, 1.6), ylim=(0, 2.7), ylabel="$w v$", xticks=[])
    right.spines["bottom"].set_visible(False)
    right.set_title("quotient: one point each")
    save(figure, where / "orbits.png")


# --- directions


def horizontal(where: Path, found: dict[str, Any]) -> dict[str, list[float]]:
    """Horizontal steps of one length at three representatives, and the orbits that they reach."""
    figure, axes = pyplot.subplots(1, 2, figsize=(7, 3.3), sharex=True, sharey=True, layout="constrained")
    reached: dict[str, list[float]] = {}
    for ax, (metric, space) in zip(axes, found.items(), strict=True):
        background(ax)
        reached[metric] = []
        for scale in SCALES:
            here = np.array([scale, 1 / scale])
            along = np.array([here[0], -here[1]]) * 0.3
            step = space.horizontal(tree(here), tree((1.0, 1.0)))
            step = pair(step) * RADIUS / float(space.norm(tree(here), step))
            arrow(ax, here, here + along, GREY)
            arrow(ax, here, here + step, ORANGE)
            ax.plot(*here, "o", color="black", ms=4)
            there = here + step
            reached[metric].append(float(there[0] * there[1]))
        for level in {round(c, 3) for c in reached[metric]}:
            curve(ax, level, color=ORANGE, lw=0.9, ls="--")
        ax.set_title(f"{metric[0].upper()}{metric[1:]} metric")
    axes[0].set_ylabel("outgoing weight $v$")
    axes[0].annotate(
        "vertical: nothing changes", (0.75, 1.2), (0.9, 2.45), color=GREY, arrowprops={"arrowstyle": "-", "color": GREY}
    )
    axes[0].annotate(
        "horizontal", (1.2, 1.18), (1.5, 1.75), color=ORANGE, arrowprops={"arrowstyle": "-", "color": ORANGE}
    )
    axes[1].annotate(
        "all three reach one orbit",
        (1.75, 0.9),
        (1.3, 1.95),
        color=ORANGE,
        arrowprops={"arrowstyle": "-", "color": ORANGE},
    )
    save(figure, where / "horizontal.png")
    return reached


# --- balls


def balls(where: Path, found: dict[str, Any], quick: bool) -> dict[str, list[float]]:
    """Balls of one radius at three representatives, with the worst rise of the loss in each."""
    figure, axes = pyplot.subplots(1, 2, figsize=(7, 3.3), sharex=True, sharey=True, layout="constrained")
    angles = np.linspace(0, 2 * np.pi, 30 if quick else 200)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    worst: dict[str, list[float]] = {}
    for ax, (metric, space) in zip(axes, found.items(), strict=True):
        background(ax)
        worst[metric] = []
        for scale, place in zip(SCALES, ((0.1, 2.3), (1.15, 1.65), (2.05, 1.15)), strict=True):
            here = np.array([scale, 1 / scale])
            basis = [tree((1.0, 0.0)), tree((0.0, 1.0))]
            gram = np.array([[float(space.inner(tree(here), a, b)) for b in basis] for a in basis])
            ax.plot(*(here[:, None] + RADIUS * np.linalg.solve(np.linalg.cholesky(gram).T, circle)), color=ORANGE)
            within = {"space": space} if metric == "invariant" else {}
            result = qx.sharpness(loss, tree(here), RADIUS, progress=lambda line: None, **within)
            end = here + pair(result.perturbation)
            ax.plot(*here, "o", color="black", ms=4)
            ax.plot(*end, "x", color=BLUE, ms=6, mew=1.6)
            text = ax.annotate(f"+{result.value:.2f}", here, place, color=BLUE)
            text.set_bbox(CLEAR)
            worst[metric].append(result.value)
        for level in {round(c, 2): c for c in (0.4 + np.sqrt(0.36 + s) for s in worst[metric])}.values():
            curve(ax, level, color=BLUE, lw=0.9, ls="--")
        kind = "invariant" if metric == "invariant" else "Euclidean"
        ax.set_title(f"balls of the {kind} metric")
    axes[0].set_ylabel("outgoing weight $v$")
    save(figure, where / "balls.png")
    return worst


# --- certificates


def widths(where: Path) -> None:
    """What the four verdicts cover, in the plane of two widths."""
    figure, axes = pyplot.subplots(1, 4, figsize=(7, 2.3), sharex=True, sharey=True, layout="constrained")
    cells = [(x, h) for x in range(1, 8) for h in range(1, 8)]
    for ax, title in zip(
        axes,
        ("refuted:\na witness", "undecided:\nseen at points", "proved\nat stated widths", "proved\nfor every width"),
        strict=True,
    ):
        ax.plot(*zip(*cells, strict=True), "s", color="#dddddd", ms=3)
        ax.set(
            title=title,
            xlabel="width $x$",
            xlim=(0.3, 8),
            ylim=(0.3, 8),
            xticks=[2, 4, 6],
            yticks=[2, 4, 6],
            aspect="equal",
        )
    axes[0].set_ylabel("width $h$")
    axes[0].plot([2], [3], "x", color=ORANGE, ms=10, mew=2.5)
    axes[1].plot([2, 3, 5], [3, 2, 6], "o", mfc="none", color=GREY, ms=8)
    for x, h in ((2, 3), (3, 4)):
        axes[2].add_patch(Rectangle((x - 0.45, h - 0.45), 0.9, 0.9, color=GREEN))
    axes[3].add_patch(Rectangle((0.5, 0.5), 7.5, 7.5, color=GREEN, alpha=0.85))
    for start, end in (((6.5, 4), (8.6, 4)), ((4, 6.5), (4, 8.6))):
        axes[3].add_patch(FancyArrowPatch(start, end, arrowstyle="->", mutation_scale=12, color="black", clip_on=False))
    save(figure, where / "widths.png")


def laws(where: Path) -> list[str]:
    """The trace of a network with the law of each tensor, in the words of its certificate."""

    @qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
    def mlp(p, x):
        return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])

    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"})
    certificate = qx.verify(mlp, scale)
    assert certificate.scope == "every width"
    lines = [
        line.split(". ", 1)[1].partition("  [")[0]
        for line in str(certificate).splitlines()
        if line.startswith("  ") and ". " in line[:6]
    ]
    W1, b1, W2, dot, add, _, out = lines[:7]
    said = lambda line: line.partition("becomes ")[2] or line.partition(": ")[2]
    figure, ax = pyplot.subplots(figsize=(7, 2.5), layout="constrained")
    ax.set(xlim=(0, 10), ylim=(-0.3, 3.5))
    ax.axis("off")
    nodes = {
        "$x$": (0.5, 1.2, "does not move", GREY),
        "$W_1$": (2.3, 2.7, said(W1), ORANGE),
        "$W_1 x$": (2.3, 1.2, said(dot), ORANGE),
        "$b_1$": (4.1, 2.7, said(b1), ORANGE),
        "$+$": (4.1, 1.2, said(add), ORANGE),
        "relu": (6.1, 1.2, f"{said(add)}, since\n$F(αz) = α F(z)$ for $α > 0$", ORANGE),
        "$W_2$": (8.6, 2.7, said(W2), ORANGE),
        "output": (8.6, 1.2, said(out), GREEN),
    }
    for name, (x, y, law, colour) in nodes.items():
        ax.text(x, y, name, ha="center", va="center", bbox={"boxstyle": "round", "fc": "white", "ec": GREY})
        at, side = ((x + 0.4, y), "left") if y > 2 else ((x, y - 0.65), "center")
        ax.text(*at, law, ha=side, va="center", color=colour, fontsize=8)
    for a, b in (
        ("$x$", "$W_1 x$"),
        ("$W_1$", "$W_1 x$"),
        ("$W_1 x$", "$+$"),
        ("$b_1$", "$+$"),
        ("$+$", "relu"),
        ("relu", "output"),
        ("$W_2$", "output"),
    ):
        start, end = np.array(nodes[a][:2]), np.array(nodes[b][:2])
        ax.add_patch(
            FancyArrowPatch(start, end, arrowstyle="->", mutation_scale=10, color=GREY, shrinkA=18, shrinkB=18)
        )
    save(figure, where / "laws.png")
    return lines


# --- what panels share


def background(ax: Any) -> None:
    """Orbits, lightly."""
    for level in np.linspace(0.2, 3.2, 11):
        curve(ax, level, color="#cccccc", lw=0.7, zorder=0)
    curve(ax, 1.0, color="black", lw=1.2, zorder=1)
    ax.set(xlabel="incoming weight $w$", xlim=(0, 3.4), ylim=(0, 2.9), aspect="equal")


def curve(ax: Any, level: float, **how: Any) -> None:
    w = np.geomspace(level / 4, 4, 200)
    ax.plot(w, level / w, **how)


def arrow(ax: Any, start: np.ndarray, end: np.ndarray, colour: str) -> None:
    ax.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=9, color=colour, shrinkA=0, shrinkB=0, lw=1.6, zorder=4
        )
    )


def save(figure: Any, where: Path) -> None:
    figure.savefig(where, dpi=150)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """What was reached and the worst cases; with the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--figures", type=Path, default=Path("docs/assets"))
    asked = parser.parse_args(arguments)
    found = spaces()
    with mpl.rc_context(STYLE):
        orbits(asked.figures)
        reached = horizontal(asked.figures, found)
        worst = balls(asked.figures, found, asked.quick)
        widths(asked.figures)
        laws(asked.figures)
    print(f"{'at g =':30}" + "".join(f"{scale:10}" for scale in SCALES))
    for title, rows in (("orbit reached", reached), ("worst rise", worst)):
        for metric, values in rows.items():
            print(f"{title + ', ' + metric:30}" + "".join(f"{value:10.3f}" for value in values))
    return reached, worst


if __name__ == "__main__":
    main()
