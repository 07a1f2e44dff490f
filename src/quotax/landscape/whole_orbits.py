r"""The volume of a whole compact orbit: that of the group, over that of what stays in place.

With $\nu$ the volume that the fields span at $\theta$, an orbit of a compact group that acts by isometries has the
volume $\nu \, |G| / |G_\theta|$. The group's volume is known. The stabiliser $G_\theta$ is a product of orthogonal
groups: an orthogonal matrix that acts on one axis of some arrays leaves them in place if it leaves every vector along
that axis, so that with r independent vectors among n it is one of $O(n - r)$. $O(1)$ has two elements and no
direction: no rank sees it, and the volume is halved. Families that share arrays are looked at one after another: what
is in place because of arrays of its own leaves its neighbour the arrays between them.

Copies: of an orbit of permutations and signs as many as there are elements, over those that leave it in place. Units
that coincide and units that are zero are counted; what several families leave in place only together is not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from quotax.symmetry.groups.matrices import log_volume
from quotax.trees import AnyArray, Tree

Arrays = Mapping[str, np.ndarray]
SEED = 0


class Whole(NamedTuple):
    """The logarithms of the volume of the compact group's orbit (NaN where `reason` says why) and of its copies."""

    log_volume: float
    log_copies: float
    reason: str


class _Moved(NamedTuple):
    """Where a family's elements act: for every array the axis, and the axes along which there are copies."""

    family: Any
    group: Any
    places: dict[str, tuple[str, int, str]]

    def vectors(self, arrays: Arrays, only: set[str]) -> np.ndarray:
        """The vectors along the axis that these arrays hold: for every copy a matrix with a row for each index."""
        sizes = self.family.sizes
        n, copies = self.group.shape(sizes)[-1], self.group.copies(sizes)
        rows = [np.zeros((copies, n, 0))]
        for name in sorted(only & set(self.places)):
            labels, place, batch = self.places[name]
            array = arrays[name].reshape(self.family.splits[name])
            rest = "".join(a for a in labels if a not in batch and a != labels[place])
            rows.append(np.einsum(f"{labels}->{batch}{labels[place]}{rest}", array).reshape(copies, n, -1))
        return np.concatenate(rows, -1)

    def in_place(self, arrays: Arrays, only: set[str], tolerance: float) -> list[int]:
        """For every copy how many dimensions of the axis (or pairs of it) these arrays leave free."""
        rows = self.vectors(arrays, only)
        n = rows.shape[1]
        if self.group.paired:
            first, second = self.group.places(n)
            still = ~np.any(rows[:, first] != 0, -1) & ~np.any(rows[:, second] != 0, -1)
            return [int(count) for count in still.sum(-1)]
        frame = self.group.moved(n)
        rows = rows if frame is None else frame.T @ rows
        ranks = [np.linalg.matrix_rank(m, rtol=max(m.shape) * tolerance) if m.size else 0 for m in rows]
        return [rows.shape[1] - int(rank) for rank in ranks]

    def stabiliser(self, free: list[int]) -> tuple[float, int]:
        """The logarithm of the volume of what turns only these, and how many directions it has."""
        if self.group.paired:
            return sum(free) * math.log(2 * math.pi), sum(free)
        return sum(map(log_volume, free)), sum(m * (m - 1) // 2 for m in free)


def whole_orbit(
    families: tuple[Tree, ...], arrays: Mapping[str, AnyArray], log_density: float, rank: int, resolution: float = 0.0
) -> Whole:
    """The orbit of all orthogonal elements of the families, at arrays where their fields span so much."""
    wide = {name: np.asarray(array, np.float64) for name, array in arrays.items()}
    tolerance = max([resolution, *(float(np.finfo(np.asarray(a).dtype).eps) for a in arrays.values())])
    turning = [f for f in families if f.group.isometries is not None]
    compact = [f for f in turning if f.group.isometries.continuous]
    finite = [f for f in turning if not f.group.isometries.continuous]
    finite = [f for f in finite if not any(_contained(f, other, wide) for other in compact)]
    reason = _unfit([*compact, *finite], wide)
    copies = sum(_log_order(f, wide, finite) for f in finite)
    if reason:
        return Whole(math.nan, copies, reason)
    if not compact:
        return Whole(log_density, copies, "")
    stabiliser = _log_stabiliser(compact, wide, tolerance, rank)
    if isinstance(stabiliser, str):
        return Whole(math.nan, copies, stabiliser)
    group = sum(f.group.isometries.log_volume(f.sizes) for f in compact)
    return Whole(log_density + group - stabiliser, copies, "")


def _log_stabiliser(compact: list[Tree], arrays: Arrays, tolerance: float, rank: int) -> float | str:
    """The logarithm of its volume, or why it is not known."""
    left = {}
    for family in compact:
        places = _places(family)
        if places is None:
            return f"{family.name!r} acts twice on an array, and what leaves that in place was not found"
        left[family.name] = _Moved(family, family.group.isometries, places)
    total, directions = 0.0, 0
    while left:
        done = {}
        for name, moved in left.items():
            others = {array for other, each in left.items() if other != name for array in each.places}
            free = set(moved.places) - others
            fixed = moved.in_place(arrays, free, tolerance)
            # Nothing stays in place, by arrays of its own; or no family that is left moves what this one moves.
            if free == set(moved.places) or not any(fixed):
                done[name] = fixed
        if not done:
            names = ", ".join(map(repr, left))
            return f"{names} move the same arrays, and what leaves these in place only together was not found"
        for name, fixed in done.items():
            volume, found = left.pop(name).stabiliser(fixed)
            total, directions = total + volume, directions + found
    missing = sum(f.group.isometries.dimension(f.sizes) for f in compact) - rank
    if directions != missing:
        return f"the stabiliser has {missing} directions, of which {directions} were found"
    return total


def _places(family: Any) -> dict[str, tuple[str, int, str]] | None:
    """For every array that the family moves its labels, the axis moved, and the labels of copies; None if twice."""
    touches = family.action.touches
    if touches is None or any(t.kind != "matrix" or abs(t.coefficient) != 1 for t in touches):
        return None
    found = {t.target: (t.target_labels, t.position, t.element[:-2]) for t in touches}
    known = all(set(batch) <= set(labels) for labels, _, batch in found.values())
    return found if known and len(found) == len(touches) else None


def _unfit(families: list[Tree], arrays: Arrays) -> str:
    """Why the families are no product of groups that act by isometries, if they are not."""
    rng = np.random.default_rng(SEED)
    point, other = ({name: rng.normal(size=a.shape) for name, a in arrays.items()} for _ in range(2))
    acts = []
    for family in families:
        group = family.group.isometries
        with jax.enable_x64(True):
            g = np.asarray(group.random(jax.random.key(SEED), family.sizes, 1.0))
        acts.append(lambda a, family=family, g=g: _act(family, a, g))
        before, after = (
            sum(np.sum((x[n] - y[n]) ** 2) for n in x) for x, y in ((point, other), (acts[-1](point), acts[-1](other)))
        )
        if not np.isclose(before, after, rtol=1e-8):
            return f"{family.name!r} does not act by isometries"
    for (i, one), (j, two) in itertools.combinations(enumerate(acts), 2):
        both = families[i].group.continuous or families[j].group.continuous
        if both and not _same(one(two(point)), two(one(point))):
            return f"{families[i].name!r} and {families[j].name!r} do not commute, and the group of both is not known"
    return ""


def _contained(finite: Any, compact: Any, arrays: Arrays) -> bool:
    """Whether the permutations or signs are elements of a compact family that acts alike."""
    own, group = finite.group.isometries, compact.group.isometries
    if (own.axis, own.each) != (group.axis, group.each):
        return False
    if not (any(sub.reorders for sub in group.subgroups) if own.reorders else group.signs == "each"):
        return False
    rng = np.random.default_rng(SEED)
    point = {name: rng.normal(size=a.shape) for name, a in arrays.items()}
    with jax.enable_x64(True):
        g = np.asarray(own.random(jax.random.key(SEED), finite.sizes))
    matrix = g if own.layout == "matrix" else g[..., None] * np.eye(g.shape[-1])
    return _same(_act(finite, point, g), _act(compact, point, matrix))


def _act(family: Any, arrays: Arrays, g: AnyArray) -> dict[str, np.ndarray]:
    with jax.enable_x64(True):
        return {name: np.asarray(array) for name, array in family.act(dict(arrays), g).items()}


def _same(one: Arrays, two: Arrays) -> bool:
    return all(np.allclose(one[name], two[name], rtol=1e-9, atol=1e-9) for name in one)


def _log_order(family: Any, arrays: Arrays, finite: list[Tree]) -> float:
    """The logarithm of how many copies an orbit of permutations or signs has."""
    order, touches = family.group.isometries.log_volume(family.sizes), family.action.touches
    if touches is None or len({t.target for t in touches}) < len(touches):
        return order
    if not family.group.reorders:
        squares = [_squares(family, t, arrays) for t in touches if t.kind == "diagonal" and t.coefficient % 2]
        return order - math.log(2) * int(np.sum(sum(squares) == 0)) if squares else order
    places = _places(family)
    if places is None:
        return order
    rows = _Moved(family, family.group, places).vectors(arrays, set(places))
    flips = any(not f.group.reorders and f.group.axis == family.group.axis for f in finite)
    for copy in rows:
        if flips:  # units that differ in their sign alone coincide too
            first = (
                np.take_along_axis(copy, (copy != 0).argmax(1)[:, None], 1)
                if copy.shape[1]
                else np.ones((len(copy), 1))
            )
            copy = copy * np.where(first < 0, -1, 1)
        order -= sum(math.lgamma(count + 1) for count in np.unique(copy, axis=0, return_counts=True)[1])
    return order


def _squares(family: Any, touch: Any, arrays: Arrays) -> np.ndarray:
    """For every sign the sum of the squares of what it multiplies in an array."""
    array = arrays[touch.target].reshape(family.splits[touch.target])
    return np.einsum(f"{touch.target_labels}->{touch.element}", array**2)
