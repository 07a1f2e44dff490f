"""Everything that is measured of one vector of parameters: in the full Euclidean ball, and on the quotient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx
from quotax.presenting import Json
from quotax.trees import Tree

SAMPLES, PROBES = 64, 3
"""Of mean rises, and of densities."""
_GEODESICS = 16
"""Of mean rises along geodesics, each of which solves a differential equation."""
_POINTS = 240
"""Of the curve of a density."""
_ACROSS = 17
"""Points of each side of a plane."""
_PLACES = 4
"""Places along the orbit, the parameters among them."""


class Wish(NamedTuple):
    """What is measured, and how hard."""

    loss: Callable[..., Tree]
    space: qx.QuotientSpace | None
    batch: Tree
    microbatch: int | None
    radii: tuple[float, ...]
    steps: int
    k: int
    key: Any
    stretch: float
    tell: Callable[[str], object]
    refuted: str = ""
    """Why measures in the full ball are no functions on the quotient, where that is known."""

    @property
    def data(self) -> dict[str, Json]:
        """The loss's data, as every measure takes them."""
        return {"batch": self.batch, "microbatch": self.microbatch}

    @property
    def balls(self) -> dict[str, dict[str, Json]]:
        """The full ball, and that of the quotient where there is one, as settings of a measure."""
        if self.space is None:
            return {"full": {}}
        known = {} if self.refuted else {"space": self.space, "ball": "full"}
        return {"full": known, "quotient": {"space": self.space}}


def settled(wish: Wish, params: Tree) -> Wish:
    """Whether the group changes the full ball, asked once: measures in it are then told so, and need not ask again."""
    if wish.space is None:
        return wish
    told = qx.average_sharpness(
        wish.loss, params, wish.radii[-1], samples=4, probes=0, space=wish.space, ball="full", **wish.data
    )
    return wish._replace(refuted=told.reason if told.invariant is False else "")


def measured(wish: Wish, params: Tree) -> dict[str, Json]:
    """All measures at these parameters, as JSON values."""
    balls = wish.balls
    out: dict[str, Json] = {"loss": _loss(wish, params), "norm": _norm(params)}
    out["gradient"] = {ball: _slope(wish, params, ball) for ball in balls}
    profiles = {ball: _profile(wish, params, ball) for ball in balls}
    out["worst case"] = {ball: _risen(wish, ball, found) for ball, found in profiles.items()}
    out["average"] = {ball: _average(wish, params, ball) for ball in balls}
    wish.tell("spectra of the Hessian")
    spectra = {
        ball: qx.spectrum(wish.loss, params, wish.k, density=True, probes=PROBES, key=wish.key, **setting, **wish.data)
        for ball, setting in balls.items()
    }
    out["spectrum"] = _spectra(wish, spectra)
    out["trace"] = {
        ball: {
            "value": (found := qx.trace(wish.loss, params, key=wish.key, **setting, **wish.data)).value,
            "error": found.standard_error,
            "method": found.method,
            "dimension": found.dim,
            "status": found.status,
            **_verdict(wish, ball, found),
        }
        for ball, setting in balls.items()
    }
    for ball in balls:
        largest, slope = out["spectrum"][ball]["values"], out["gradient"][ball]
        mean = out["trace"][ball]["value"] / max(out["trace"][ball]["dimension"], 1)
        out["worst case"][ball]["second order"] = [slope * r + 0.5 * largest[0] * r**2 for r in wish.radii if largest]
        out["average"][ball]["second order"] = [0.5 * mean * r**2 for r in wish.radii]
    curved = wish.space is not None and wish.space.fiber_dim and wish.space.metric_name != "euclidean"
    if curved:  # otherwise geodesics are straight
        _along_geodesics(wish, params, profiles["quotient"], out)
    if wish.space is not None and wish.space.fiber_dim and np.isfinite(spectra["quotient"].values[:1]).any():
        out["slice"] = _slice(wish, params, spectra["quotient"].vectors[0])
    return out


def along(wish: Wish, params: Tree) -> dict[str, Json]:
    """The same measures at representatives of one orbit, farther and farther away.

    Each is the parameters moved by a random element of the connected group, the exponential of the same normal
    coordinates times `stretch`, from zero up.
    """
    radius = wish.radii[len(wish.radii) // 2]
    stretches = [float(t) for t in np.linspace(0, wish.stretch, _PLACES)]
    found = qx.orbit_drift(
        wish.loss, params, radius, space=wish.space, times=stretches, steps=wish.steps, key=wish.key,
        progress=wish.tell, **wish.data,
    )  # fmt: skip
    told = found.to_dict(largest=None)
    return {"radius": radius, "stretches": told["times"], "rows": told["rows"], "the loss moves": found.loss_moves}


def between(wish: Wish, params: Tree, other: Tree) -> dict[str, Json]:
    """Two networks: the barrier of the loss on the segment, before and after alignment, and their distance."""
    wish.tell("aligning the two networks")
    found = qx.barrier(wish.loss, params, other, space=wish.space, **wish.data)
    out: dict[str, Json] = {
        "barrier": {name: getattr(found, name) for name in ("height", "aligned_height", "status")},
        "times": found.times.tolist(),
        "losses": found.losses.tolist(),
        "aligned losses": None if found.aligned_losses is None else found.aligned_losses.tolist(),
    }
    alignment = found.alignment
    if alignment is not None and wish.space is not None:
        out["apart"] = _norm(jax.tree.map(jnp.subtract, params, other))
        out["alignment"] = {
            "distance": float(alignment.distance),
            "lower bound": float(alignment.lower_bound),
            "attained": bool(alignment.attained),
        }
        if wish.space.metric_certificate:
            told = wish.space.distance(params, other).to_dict()
            out["distance"] = {name: told[name] for name in ("value", "lower", "upper", "reason")}
    return out


def _slice(wish: Wish, params: Any, across: Any) -> dict[str, Any]:
    """The loss on a plane: along the orbit, a random tangent of it, and across, where the quotient is sharpest."""
    wish.tell("the loss on a plane along and across the orbit")
    space = wish.space
    assert space is not None
    tangent = space.random_algebra(jax.random.fold_in(_key(wish.key), 2))
    length = float(space.norm(params, space.field(params, tangent))) or 1.0
    reach = 2 * wish.radii[-1]
    found = qx.loss_slice(
        wish.loss, params, reach, space=space, stretch=reach, frame="linear", across=across, points=_ACROSS,
        along={name: xi / length for name, xi in tangent.items()}, progress=wish.tell, **wish.data,
    )  # fmt: skip
    losses = [_rounded(row) for row in found.losses]
    return {"steps": found.along.tolist(), "losses": losses, "along": found.change_along, "across": found.change_across}


def _loss(wish: Wish, params: Tree) -> float:
    return qx.barrier(wish.loss, params, params, points=3, **wish.data).losses[0].item()


def _norm(params: Tree) -> float:
    return math.sqrt(sum(float(jnp.sum(jnp.abs(array) ** 2)) for array in jax.tree.leaves(params)))


def _key(key: Any) -> jax.Array:
    return jax.random.key(0 if key is None else key) if key is None or isinstance(key, int) else key


def _slope(wish: Wish, params: Tree, ball: str) -> float:
    return qx.gradient_norm(wish.loss, params, space=wish.space if ball == "quotient" else None, **wish.data)


def _verdict(wish: Wish, ball: str, result: Any) -> dict[str, Json]:
    """Whether a measure belongs to the quotient, and why."""
    if ball == "full" and wish.refuted:
        return {"invariant": False, "reason": wish.refuted}
    return {"invariant": result.invariant, "reason": result.reason}


def _profile(wish: Wish, params: Any, ball: str) -> Any:
    wish.tell(f"the largest rise by radius, {ball}")
    return qx.profile(
        wish.loss, params, wish.radii, steps=wish.steps, key=wish.key, progress=wish.tell,
        **wish.balls[ball], **wish.data,
    )  # fmt: skip


def _risen(wish: Wish, ball: str, found: Any) -> dict[str, Any]:
    return {
        "radii": found.radii.tolist(),
        "values": found.values.tolist(),
        "statuses": [each.status for each in found.results],
        "kinks": [each.kink for each in found.results],
        "evaluations": found.evaluations,
        **_verdict(wish, ball, found),
    }


def _along_geodesics(wish: Wish, params: Any, straight: Any, out: dict[str, Any]) -> None:
    """The largest and the mean rise along geodesics, at the larger radii.

    Geodesics leave straight lines as the square of the radius, so the smaller radii say the same twice. A search starts
    at the steepest straight step, which for the same reason is near the steepest geodesic.
    """
    ball: dict[str, Any] = {"space": wish.space, "ball": "geodesic", "key": wish.key} | wish.data
    first = len(wish.radii) // 2
    budget = max(4, wish.steps // 3)
    worst, mean = [], []
    try:
        for radius, start in zip(wish.radii[first:], straight.results[first:], strict=False):
            wish.tell(f"the rise along geodesics at radius {radius:g}")
            begin = {"start": start.perturbation} if start.value > 0 else {}
            worst.append(qx.sharpness(wish.loss, params, radius, budget=budget, progress=wish.tell, **begin, **ball))
            mean.append(qx.average_sharpness(wish.loss, params, radius, samples=_GEODESICS, probes=0, **ball))
    except qx.QuotaxError as refused:
        out["without geodesics"] = str(refused)
        return
    radii = list(wish.radii[first : first + len(worst)])
    out["worst case"]["geodesic"] = {
        "radii": radii,
        "values": [each.value for each in worst],
        "statuses": [each.status for each in worst],
        "kinks": [each.kink for each in worst],
        "evaluations": sum(each.evaluations for each in worst),
        "second order": [],
        **_verdict(wish, "geodesic", worst[-1]),
    }
    out["average"]["geodesic"] = _mean(wish, "geodesic", radii, mean) | {"second order": []}


def _average(wish: Wish, params: Any, ball: str) -> dict[str, Any]:
    wish.tell(f"the mean rise by radius, {ball}")
    found = [
        qx.average_sharpness(
            wish.loss, params, radius, samples=SAMPLES, probes=0, key=wish.key, **wish.balls[ball], **wish.data
        )
        for radius in wish.radii
    ]
    return _mean(wish, ball, wish.radii, found)


def _mean(wish: Wish, ball: str, radii: Sequence[float], found: list[Any]) -> dict[str, Any]:
    return {
        "radii": list(radii),
        "values": [each.value for each in found],
        "errors": [each.standard_error for each in found],
        "statuses": [each.status for each in found],
        **_verdict(wish, ball, next((each for each in found if each.invariant is not None), found[0])),
    }


def _spectra(wish: Wish, spectra: dict[str, Json]) -> dict[str, Json]:
    """The ends of each spectrum, and the densities as curves of one smoothing, eigenvalues per unit."""
    known = [np.concatenate([s.values, s.bottom, s.density.nodes]) for s in spectra.values()]
    every = np.concatenate(known)
    width = float(np.ptp(every[np.isfinite(every)])) / 100 if np.isfinite(every).any() else 0.0
    out = {}
    for (ball, found), own in zip(spectra.items(), known, strict=True):
        curve: dict[str, Json] = {"x": [], "y": []}
        if width > 0 and np.all(np.isfinite(own)):
            grid = np.linspace(own.min() - 5 * width, own.max() + 5 * width, _POINTS)
            heights = found.dim * found.density.smooth(grid, width)
            curve = {"x": _rounded(grid), "y": _rounded(heights)}
        out[ball] = {
            "values": found.values.tolist(), "bottom": found.bottom.tolist(), "dimension": found.dim,
            "hessian": found.hessian, "products": found.products, "width": width, "curve": curve,
            "status": found.status, **_verdict(wish, ball, found),
        }  # fmt: skip
    return out


def _rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    """Of a curve that is looked at: six digits."""
    return [float(f"{value:.6g}") for value in values]
