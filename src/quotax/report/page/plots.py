"""Three of the page's pictures for a paper, by matplotlib: tensors with families, measures along the orbit, a plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from quotax.presenting import Json
from quotax.presenting.along_orbits import level_sets, ratios
from quotax.presenting.drawing import QUIET, WIDTH, Axes, Look, blank, colour, drawn, face, ink, soft, words_on
from quotax.report.page.graph import picture

_SMALL = 0.65
"""Size of an axis's name, of that of the array."""


def tensors(model: Mapping[str, Json], ax: Axes | None) -> Axes:
    """A box for each array, and in it numbers of the families that act along its axes."""
    graph = picture(model["tensors"], model["families"])
    with drawn(ax, "report.plot('tensors')") as (ax, _):
        from matplotlib.patches import FancyBboxPatch, PathPatch
        from matplotlib.path import Path

        blank(ax, graph["height"] / max(graph["width"], 200.0))
        ax.set(xlim=(-2, max(graph["width"], 200.0)), ylim=(graph["height"], -2), aspect="equal")
        ax.axis("off")
        point = 72 * WIDTH / max(graph["width"], 200.0)

        def box(x: float, y: float, wide: float, high: float, **look: Look) -> None:
            style = "round,pad=0,rounding_size=3"
            ax.add_patch(FancyBboxPatch((x, y), wide, high, style, linewidth=0.5, **look))

        def text(x: float, y: float, words: str, size: float = 1.0, **look: Any) -> None:
            look = {"color": ink(ax)} | look
            ax.text(x, y, words, ha="center", va="center", fontsize=12 * size * point, **look)

        for curve in graph["paths"]:
            codes = [Path.MOVETO, *[Path.CURVE4] * (len(curve) - 1)]
            ax.add_patch(PathPatch(Path(curve, codes), fill=False, edgecolor=QUIET, linewidth=0.6, zorder=0))
        for each in graph["boxes"]:
            x, y = each["x"], each["y"]
            edge = QUIET if each["kind"] != "parameter" else "0.75"
            box(x, y, each["width"], each["height"], facecolor=face("parameter", ax), edgecolor=edge)
            top = 11 if each["kind"] == "parameter" else each["height"] / 2
            text(x + each["width"] / 2, y + top, each["name"], weight="bold" if each["kind"] == "parameter" else None)
            for column in each.get("columns", ()):
                middle = x + column["x"] + column["width"] / 2
                text(middle, y + 29, column["axis"], _SMALL, style="italic", color=soft(ax))
                for mark in column["badges"]:
                    shade, number = colour(mark["family"], ax), str(mark["family"] + 1)
                    box(x + mark["x"] + 1, y + mark["y"] + 1, 15, 15, facecolor=shade, edgecolor="none")
                    text(x + mark["x"] + 8.5, y + mark["y"] + 8.5, number, _SMALL, color=words_on(shade))
    return ax


def orbit(model: Mapping[str, Json], ax: Axes | None) -> Axes | None:
    """Measures along the orbit over their values at the parameters: solid in the full ball, dashed on the quotient."""
    found = model["along"]
    rows = [(row["name"], row["ball"], row["values"]) for row in found["rows"]]
    return ratios(found["stretches"], rows, ax, "report.plot('orbit')")


def plane(model: Mapping[str, Json], ax: Axes | None) -> Axes:
    """The loss on a plane along and across the orbit, by level."""
    found = model["points"][0]["slice"]
    labels, steps = ("along the orbit", "across the orbit"), found["steps"]
    drawn_on = level_sets(steps, steps, found["losses"], ax, "report.plot('plane')", labels=labels, straight=True)
    drawn_on.set_aspect("equal")
    return drawn_on


PICTURES: dict[str, tuple[str, Callable[[Mapping[str, Json], Any], Any]]] = {
    "tensors": ("tensors", tensors),
    "orbit": ("along", orbit),
    "plane": ("points", plane),
}
"""By name: what of a model is drawn, and how."""
