"""Three of the page's pictures for a paper, by matplotlib: tensors with families, measures along the orbit, a plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from quotax.presenting.drawing import COLOURS, QUIET, WIDTH, drawn
from quotax.report.page.graph import picture

_SMALL = 0.65
"""Size of an axis's name, of that of the array."""
_MARKS = "o", "s", "^", "D", "v", "P"


def tensors(model: Mapping[str, Any], ax: Any) -> Any:
    """A box for each array, and in it numbers of the families that act along its axes."""
    graph = picture(model["tensors"], model["families"])
    with drawn(ax, "report.plot('tensors')") as (ax, _):
        from matplotlib.patches import FancyBboxPatch, PathPatch
        from matplotlib.path import Path

        fresh = not ax.lines and not ax.patches
        if fresh and len(ax.figure.axes) == 1:
            ax.figure.set_size_inches(WIDTH, WIDTH * graph["height"] / max(graph["width"], 200.0))
        ax.set(xlim=(-2, max(graph["width"], 200.0)), ylim=(graph["height"], -2), aspect="equal")
        ax.axis("off")
        point = 72 * WIDTH / max(graph["width"], 200.0)

        def box(x: float, y: float, wide: float, high: float, **look: Any) -> None:
            style = "round,pad=0,rounding_size=3"
            ax.add_patch(FancyBboxPatch((x, y), wide, high, style, linewidth=0.5, **look))

        def text(x: float, y: float, words: str, size: float = 1.0, **look: Any) -> None:
            ax.text(x, y, words, ha="center", va="center", fontsize=12 * size * point, **look)

        for curve in graph["paths"]:
            codes = [Path.MOVETO, *[Path.CURVE4] * (len(curve) - 1)]
            ax.add_patch(PathPatch(Path(curve, codes), fill=False, edgecolor=QUIET, linewidth=0.6, zorder=0))
        for each in graph["boxes"]:
            x, y = each["x"], each["y"]
            edge = QUIET if each["kind"] != "parameter" else "0.75"
            box(x, y, each["width"], each["height"], facecolor="0.97", edgecolor=edge)
            top = 11 if each["kind"] == "parameter" else each["height"] / 2
            text(x + each["width"] / 2, y + top, each["name"], weight="bold" if each["kind"] == "parameter" else None)
            for column in each.get("columns", ()):
                text(x + column["x"] + column["width"] / 2, y + 29, column["axis"], _SMALL, style="italic", color="0.4")
                for mark in column["badges"]:
                    colour = COLOURS[mark["family"] % len(COLOURS)]
                    box(x + mark["x"] + 1, y + mark["y"] + 1, 15, 15, facecolor=colour, edgecolor="none")
                    text(x + mark["x"] + 8.5, y + mark["y"] + 8.5, str(mark["family"] + 1), _SMALL, color="white")
    return ax


def orbit(model: Mapping[str, Any], ax: Any) -> Any:
    """Measures along the orbit over their values at the parameters: solid in the full ball, dashed on the quotient."""
    found = model["along"]
    names = list(dict.fromkeys(row["name"] for row in found["rows"]))
    for row in found["rows"]:
        with drawn(ax, "report.plot('orbit')") as (ax, look):
            values = np.asarray(row["values"], float)
            n = names.index(row["name"])
            look |= {"color": COLOURS[n % len(COLOURS)], "marker": _MARKS[n % len(_MARKS)]}
            line = "--" if row["ball"] == "quotient" else "-"
            label = row["name"].removeprefix("length of the ") if row["ball"] != "quotient" else None
            ax.semilogy(found["stretches"], values / values[0], line, label=label, **look)
            ax.set_xlabel("distance moved along the orbit")
            ax.set_ylabel("value / value at the parameters")
    return ax


def plane(model: Mapping[str, Any], ax: Any) -> Any:
    """The loss on a plane along and across the orbit, by level."""
    found = model["points"][0]["slice"]
    with drawn(ax, "report.plot('plane')") as (ax, _):
        steps, losses = np.asarray(found["steps"]), np.asarray(found["losses"], float).T
        ax.contourf(steps, steps, losses, 12, cmap="Blues", alpha=0.6)
        ax.contour(steps, steps, losses, 12, colors="0.25", linewidths=0.5)
        ax.plot(0, 0, "o", color=COLOURS[1])
        ax.set(xlabel="along the orbit", ylabel="across the orbit", aspect="equal")
    return ax


PICTURES: dict[str, tuple[str, Callable[[Mapping[str, Any], Any], Any]]] = {
    "tensors": ("tensors", tensors),
    "orbit": ("along", orbit),
    "plane": ("points", plane),
}
"""By name: what of a model is drawn, and how."""
