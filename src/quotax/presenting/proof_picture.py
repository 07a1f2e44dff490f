"""The picture of a proof: a box for each tensor, under each of its axes what that is multiplied by.

Tensors are as `Certificate.tensors` has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quotax.presenting import Json
from quotax.presenting.drawing import QUIET, WIDTH, Axes, accent, blank, drawn, face, ink, soft
from quotax.presenting.layered import curve, laid_out, written

WHOLE = 24
"""Graphs of so many tensors are drawn whole; of larger ones only what moves, and what is made of it and stays."""

_CHARACTER, _PADDING, _HEAD, _ROW = 7.4, 8.0, 22.0, 17.0


def shown(nodes: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    """The tensors that are drawn, numbered anew."""
    if len(nodes) <= WHOLE:
        return [dict(node) for node in nodes]
    moving = {n for n, node in enumerate(nodes) if node["moves"]}
    kept = sorted(moving | {n for n, node in enumerate(nodes) if moving & set(node["of"])})
    at = {n: k for k, n in enumerate(kept)}
    return [nodes[n] | {"of": [at[m] for m in nodes[n]["of"] if m in at]} for n in kept]


def proof_picture(nodes: Sequence[dict[str, Json]]) -> dict[str, Json]:
    """Boxes and curves with their coordinates, as the template draws them."""
    boxes = [_box(node) for node in nodes]
    edges = [(a, b) for b, node in enumerate(nodes) for a in node["of"]]
    placed = laid_out([(box["width"], box["height"]) for box in boxes], edges)
    for box, (x, y) in zip(boxes, placed.centres, strict=True):
        box["x"], box["y"] = round(x - box["width"] / 2, 1), round(y - box["height"] / 2, 1)
    paths = [curve(path) for path in placed.paths]
    wide, high = round(placed.width + 2, 1), round(placed.height + 2, 1)
    return {"boxes": boxes, "paths": paths, "curves": [written(path) for path in paths], "width": wide, "height": high}


_NO_LAW = "?"
"""Along an axis of a tensor that moves otherwise than by factors."""


def operation(node: dict[str, Any]) -> str:
    """How a tensor without a name of its own is made: the first word of its place."""
    return node["place"].partition(" at ")[0] or node["name"]


def said(node: dict[str, Json]) -> str:
    """What becomes of a tensor, in a sentence."""
    along = [f"{_law(one['law'])} along {one['axis']}" for one in node["axes"] if one["law"] not in ("", _NO_LAW)]
    if not node["moves"]:
        return "stays"
    if node["law"].startswith("is "):
        return f"moves, and {_law(node['law'])}"
    return f"becomes {_law(node['law'])}" + (f": {', '.join(along)}" if along else "")


def _law(text: str) -> str:
    return text.replace("^-1", "⁻¹")


def _box(node: dict[str, Json]) -> dict[str, Json]:
    name = node["name"] if node["kind"] != "tensor" else operation(node)
    columns, at = [], 0.0
    for one in node["axes"]:
        law = f"× {_law(one['law'])}" if one["law"] not in ("", _NO_LAW) else ""
        wide = max(_CHARACTER * max(len(one["axis"]), len(law)) + 2 * _PADDING, 26.0)
        columns.append({"axis": one["axis"], "law": law, "x": at, "width": wide})
        at += wide
    width = max(at, _CHARACTER * len(name) + 2 * _PADDING)
    for column in columns:
        column["x"] = round(column["x"] + (width - at) / 2, 1)
    lawful = any(column["law"] for column in columns)
    # what moves otherwise: by a number, by a shift, or as is seen only where it is written out
    rest = "" if lawful or not node["moves"] else _law(node["law"])
    width = max(width, _CHARACTER * len(rest) + 2 * _PADDING)
    rows = bool(columns) + (lawful or bool(rest))
    return {
        "kind": node["kind"], "name": name, "moves": node["moves"], "columns": columns, "rest": rest,
        "width": round(width, 1), "height": _HEAD + rows * _ROW + 4,
    }  # fmt: skip


def plotted(nodes: Sequence[dict[str, Json]], ax: Axes | None, call: str) -> Axes:
    """The picture on axes of matplotlib: what moves has a coloured edge, parameters are filled."""
    graph = proof_picture(shown(nodes))
    wide = max(graph["width"], 200.0)
    with drawn(ax, call) as (ax, _):
        from matplotlib.patches import FancyBboxPatch, PathPatch
        from matplotlib.path import Path

        blank(ax, graph["height"] / wide)
        ax.set(xlim=(-2, wide), ylim=(graph["height"], -2), aspect="equal")
        ax.axis("off")
        point = 72 * WIDTH / wide

        def text(x: float, y: float, words: str, size: float, **look: Any) -> None:
            ax.text(x, y, words, ha="center", va="center", fontsize=size * point, **{"color": ink(ax)} | look)

        for path in graph["paths"]:
            codes = [Path.MOVETO, *[Path.CURVE4] * (len(path) - 1)]
            ax.add_patch(PathPatch(Path(path, codes), fill=False, edgecolor=QUIET, linewidth=0.6, zorder=0))
        for box in graph["boxes"]:
            x, y, given = box["x"], box["y"], box["kind"] == "parameter"
            look = {"edgecolor": accent(ax) if box["moves"] else QUIET, "linewidth": 1.0 if box["moves"] else 0.5}
            rounded = f"round,pad=0,rounding_size={3 if given else 9}"
            ground = face("parameter" if given else "other", ax)
            ax.add_patch(FancyBboxPatch((x, y), box["width"], box["height"], rounded, facecolor=ground, **look))
            text(x + box["width"] / 2, y + 11, box["name"], 12, weight="bold" if given else None)
            for column in box["columns"]:
                middle = x + column["x"] + column["width"] / 2
                text(middle, y + 29, column["axis"], 9, style="italic", color=soft(ax))
                text(middle, y + 46, column["law"], 10, color=accent(ax), weight="bold")
            if box["rest"]:
                text(x + box["width"] / 2, y + box["height"] - 12, box["rest"], 10, color=accent(ax), weight="bold")
    return ax
