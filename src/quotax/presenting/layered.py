"""Where the nodes of a graph stand: in layers, edges downwards, few crossings (Sugiyama's method).

Layers are longest paths; an edge that passes layers has a place of its own in each. The order within a layer follows
the mean of neighbours, in sweeps down and up. Coordinates are those nearest to the neighbours' means that keep order
and distances: a least-squares problem with an order, solved exactly by pooling adjacent violators.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

GAP, BETWEEN = 14.0, 34.0
"""Between neighbours in a layer, and between layers."""
_LANE = 8.0
_SWEEPS = 12
_ACROSS = 6
"""Nodes that nothing is connected to stand in rows of so many."""


class Placement(NamedTuple):
    """Centres of the nodes, edges as lists of points, and the size of the whole."""

    centres: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


def laid_out(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Placement:
    """Placement for nodes of these widths and heights; edges lead from lower numbers to others without a cycle."""
    loose = [n for n in range(len(sizes)) if not any(n in edge for edge in edges)]
    layers, chains, widths = _layers(sizes, edges, set(loose))
    _ordered(layers, chains)
    x = _spread(layers, chains, widths)
    heights = [max((sizes[n][1] for n in layer if n < len(sizes)), default=0.0) for layer in layers]
    y, top = {}, 0.0
    for layer, height in zip(layers, heights, strict=True):
        for node in layer:
            y[node] = top + height / 2
        top += height + BETWEEN
    left = min((x[n] - widths[n] / 2 for n in x), default=0.0)
    right = max((x[n] + widths[n] / 2 for n in x), default=0.0)
    for row in range(0, len(loose), _ACROSS):
        at, some = left, loose[row : row + _ACROSS]
        tallest = max(sizes[n][1] for n in some)
        for n in some:
            x[n], y[n] = at + sizes[n][0] / 2, top + tallest / 2
            at += sizes[n][0] + GAP
        right, top = max(right, at - GAP), top + tallest + GAP
    centres = [(x[n] - left, y[n]) for n in range(len(sizes))]
    paths = []
    for chain in chains:
        a, b = chain[0], chain[-1]
        inside = [(x[n] - left, y[n]) for n in chain[1:-1]]
        start, end = (centres[a][0], centres[a][1] + sizes[a][1] / 2), (centres[b][0], centres[b][1] - sizes[b][1] / 2)
        paths.append([start, *inside, end])
    return Placement(centres, paths, right - left, max(top - (GAP if loose else BETWEEN), 1.0))


def curve(path: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of a smooth line through points, vertical at each: of cubic curves one after the other."""
    out = [path[0]]
    for (x, y), (u, v) in itertools.pairwise(path):
        out += [(x, (y + v) / 2), (u, (y + v) / 2), (u, v)]
    return out


def written(curve: Sequence[tuple[float, float]]) -> str:
    """The line as SVG has it."""
    first, *rest = (f"{x:.1f},{y:.1f}" for x, y in curve)
    return f"M{first}C{' '.join(rest)}"


def _layers(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], loose: set[int]
) -> tuple[list[list[int]], list[list[int]], list[float]]:
    """Layers of nodes and of places that long edges pass, every edge as its chain of those, and all widths."""
    count = len(sizes)
    below: dict[int, list[int]] = {n: [] for n in range(count)}
    above: dict[int, list[int]] = {n: [] for n in range(count)}
    for a, b in edges:
        below[a].append(b)
        above[b].append(a)
    depth: dict[int, int] = {}
    ready = [n for n in range(count) if not above[n]]
    left = {n: len(above[n]) for n in range(count)}
    order = []
    while ready:
        n = ready.pop()
        order.append(n)
        depth[n] = max((depth[a] + 1 for a in above[n]), default=0)
        for b in below[n]:
            left[b] -= 1
            if not left[b]:
                ready.append(b)
    for n in reversed(order):  # what begins here stands just above what it meets
        if not above[n] and below[n]:
            depth[n] = min(depth[b] for b in below[n]) - 1
    widths = [w for w, _ in sizes]
    layers: list[list[int]] = [[] for _ in range(max((depth[n] for n in depth if n not in loose), default=-1) + 1)]
    for n in range(count):
        if n not in loose:
            layers[depth[n]].append(n)
    chains = []
    for a, b in edges:
        chain = [a]
        for level in range(depth[a] + 1, depth[b]):
            widths.append(_LANE)
            layers[level].append(len(widths) - 1)
            chain.append(len(widths) - 1)
        chains.append([*chain, b])
    return layers, chains, widths


def _neighbours(chains: list[list[int]]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for chain in chains:
        for a, b in itertools.pairwise(chain):
            below.setdefault(a, []).append(b)
            above.setdefault(b, []).append(a)
    return above, below


def _ordered(layers: list[list[int]], chains: list[list[int]]) -> None:
    above, below = _neighbours(chains)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        toward = above if down else below
        for level in range(1, len(layers)) if down else range(len(layers) - 2, -1, -1):
            before = {n: k for k, n in enumerate(layers[level - 1 if down else level + 1])}
            own = {n: k for k, n in enumerate(layers[level])}
            middle = lambda n, before=before, own=own, toward=toward: _mean(
                [before[m] for m in toward.get(n, ())], own[n]
            )
            layers[level].sort(key=middle)


def _spread(layers: list[list[int]], chains: list[list[int]], widths: list[float]) -> dict[int, float]:
    above, below = _neighbours(chains)
    x: dict[int, float] = {}
    for layer in layers:
        at = 0.0
        for n in layer:
            x[n] = at + widths[n] / 2
            at += widths[n] + GAP
        for n in layer:
            x[n] -= (at - GAP) / 2
    # a long edge is straight inside, whatever its ends do
    lane = {n for chain in chains for n in chain[1:-1]}
    near = {n: [*above.get(n, ()), *below.get(n, ())] for n in x}
    near |= {n: [m for m in near[n] if m in lane] or near[n] for n in lane}
    for sweep in range(4 * _SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [_mean([x[m] for m in near[n]], x[n]) for n in layer]
            offsets, at = [], 0.0
            for n in layer:
                offsets.append(at + widths[n] / 2)
                at += widths[n] + GAP
            for n, value, offset in zip(
                layer, _increasing([w - o for w, o in zip(wanted, offsets, strict=True)]), offsets, strict=True
            ):
                x[n] = value + offset
    return x


def _increasing(values: list[float]) -> list[float]:
    """The nearest sequence that never decreases.

    >>> _increasing([1.0, 3.0, 2.0])
    [1.0, 2.5, 2.5]
    """
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m)]
    return [value for value, count in blocks for _ in range(count)]


def _mean(values: list[float] | list[int], otherwise: float) -> float:
    return sum(values) / len(values) if values else float(otherwise)
