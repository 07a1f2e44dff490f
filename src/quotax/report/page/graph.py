"""The picture of a model's tensors: a box for each, its axes as columns, and in them the families that act there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quotax.presenting import Json
from quotax.presenting.layered import curve, laid_out, written

COLOURS = 10
"""Colours that families have in turn; their numbers tell all of them apart."""

_CHARACTER, _PADDING = 7.4, 7.0
_HEAD, _AXIS, _BADGE = 22.0, 17.0, 17.0
"""Heights of a box's name and of its axes' names, and the side of a family's badge."""


def picture(tensors: Mapping[str, Json], families: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Boxes and curves with their coordinates, as the template draws them."""
    boxes = [_box(node, families) for node in tensors["nodes"]]
    placed = laid_out([(box["width"], box["height"]) for box in boxes], [(a, b) for a, b in tensors["edges"]])
    for box, (x, y) in zip(boxes, placed.centres, strict=True):
        box["x"], box["y"] = round(x - box["width"] / 2, 1), round(y - box["height"] / 2, 1)
    paths = [curve(path) for path in placed.paths]
    curves = [written(path) for path in paths]
    wide, high = round(placed.width + 2, 1), round(placed.height + 2, 1)
    return {"boxes": boxes, "paths": paths, "curves": curves, "width": wide, "height": high}


def _box(node: Mapping[str, Json], families: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    name, kind = node["name"], node["kind"]
    if kind == "join":
        return {"kind": kind, "name": name, "width": max(18.0, _CHARACTER * len(name) + 8), "height": 18.0}
    if kind != "parameter":
        text = " ".join([name, *(f"[{','.join(node['axes'])}]" if node["axes"] else "",)]).strip()
        return {"kind": kind, "name": text, "width": _CHARACTER * len(text) + 20, "height": 22.0}
    acting = [number for number, family in enumerate(families) if name in family["moved"]]
    columns, taken = [], set()
    for axis in node["axes"]:
        here = [n for n in acting if n not in taken and axis == _axis(families[n])]
        taken.update(here)
        columns.append({"axis": axis, "families": here})
    rest = [n for n in acting if n not in taken]
    if rest:
        columns.append({"axis": "", "families": rest})
    across = 3 if all(len(column["families"]) <= 6 for column in columns) else 4
    rows = max([-(-len(column["families"]) // across) for column in columns], default=0)
    at = 0.0
    for column in columns:
        wide = min(len(column["families"]), across) * _BADGE
        column["x"], column["width"] = at, max(_CHARACTER * len(column["axis"]) + 2 * _PADDING, wide + 6, 22.0)
        start = at + (column["width"] - wide) / 2
        column["badges"] = [
            {
                "family": n,
                "colour": n % COLOURS,
                "x": round(start + (k % across) * _BADGE, 1),
                "y": _HEAD + _AXIS + (k // across) * _BADGE,
            }
            for k, n in enumerate(column["families"])
        ]
        at += column["width"]
    width = max(at, _CHARACTER * len(name) + 2 * _PADDING)
    shift = (width - at) / 2
    for column in columns:
        column["x"] = round(column["x"] + shift, 1)
        for badge in column["badges"]:
            badge["x"] = round(badge["x"] + shift, 1)
    height = _HEAD + (_AXIS if node["axes"] or rest else 0) + rows * _BADGE + (5 if rows else 0)
    return {
        "kind": kind, "name": name, "width": round(width, 1), "height": height, "columns": columns,
        "axes": node["axes"], "families": acting,
    }  # fmt: skip


def _axis(family: Mapping[str, Json]) -> str:
    return family["axes"][0] if family["axes"] else ""
