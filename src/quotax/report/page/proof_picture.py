"""The picture of a proof: a box for each tensor, under each of its axes what that is multiplied by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quotax.report.page.graph import curve, written
from quotax.report.page.layered import laid_out

WHOLE = 24
"""Graphs of so many tensors are drawn whole; of larger ones only what moves, and what is made of it and stays."""

_CHARACTER, _PADDING, _HEAD, _ROW = 7.4, 8.0, 22.0, 17.0


def drawn(nodes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tensors that are drawn, numbered anew."""
    if len(nodes) <= WHOLE:
        return [dict(node) for node in nodes]
    moving = {n for n, node in enumerate(nodes) if node["moves"]}
    kept = sorted(moving | {n for n, node in enumerate(nodes) if moving & set(node["of"])})
    at = {n: k for k, n in enumerate(kept)}
    return [nodes[n] | {"of": [at[m] for m in nodes[n]["of"] if m in at]} for n in kept]


def proof_picture(nodes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Boxes and curves with their coordinates, as the template draws them."""
    boxes = [_box(node) for node in nodes]
    edges = [(a, b) for b, node in enumerate(nodes) for a in node["of"]]
    placed = laid_out([(box["width"], box["height"]) for box in boxes], edges)
    for box, (x, y) in zip(boxes, placed.centres, strict=True):
        box["x"], box["y"] = round(x - box["width"] / 2, 1), round(y - box["height"] / 2, 1)
    paths = [curve(path) for path in placed.paths]
    wide, high = round(placed.width + 2, 1), round(placed.height + 2, 1)
    return {"boxes": boxes, "paths": paths, "curves": [written(path) for path in paths], "width": wide, "height": high}


def operation(node: dict[str, Any]) -> str:
    """How a tensor without a name of its own is made: the first word of its place."""
    return node["place"].partition(" at ")[0] or node["name"]


def said(node: dict[str, Any]) -> str:
    """What becomes of a tensor, in a sentence."""
    along = [f"{_law(one['law'])} along {one['axis']}" for one in node["axes"] if one["law"]]
    if not node["moves"]:
        return "stays"
    return f"becomes {_law(node['law'])}" + (f": {', '.join(along)}" if along else "")


def _law(text: str) -> str:
    return text.replace("^-1", "⁻¹")


def _box(node: dict[str, Any]) -> dict[str, Any]:
    name = node["name"] if node["kind"] != "tensor" else operation(node)
    columns, at = [], 0.0
    for one in node["axes"]:
        law = f"× {_law(one['law'])}" if one["law"] else ""
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
