"""Everything that is measured of one vector of parameters: in the full Euclidean ball, and on the quotient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx

SAMPLES, PROBES = 64, 4
"""Of mean rises, and of densities."""
_POINTS = 240
"""Of the curve of a density."""
_PLACES = 5
"""Places along the orbit, the parameters among them."""


class Asked(NamedTuple):
    """What is measured, and how hard."""

    loss: Callable[..., Any]
    space: qx.QuotientSpace | None
    batch: Any
    microbatch: int | None
    radii: tuple[float, ...]
    steps: int
    k: int
    key: Any
    stretch: float
    tell: Callable[[str], Any]

    @property
    def data(self) -> dict[str, Any]:
        """The loss's data, as every measure takes them."""
        return {"batch": self.batch, "microbatch": self.microbatch}

    @property
    def balls(self) -> dict[str, dict[str, Any]]:
        """The full ball, and that of the quotient where there is one, as settings of a measure."""
        if self.space is None:
            return {"full": {}}
        return {"full": {"space": self.space, "ball": "full"}, "quotient": {"space": self.space}}


def measured(asked: Asked, params: Any) -> dict[str, Any]:
    """All measures at these parameters, as JSON values."""
    balls = asked.balls
    out: dict[str, Any] = {"loss": _loss(asked, params), "norm": _norm(params)}
    out["gradient"] = {ball: _slope(asked, params, ball) for ball in balls}
    out["worst case"] = {ball: _profile(asked, params, ball) for ball in balls}
    out["average"] = {ball: _average(asked, params, ball) for ball in balls}
    asked.tell("spectra of the Hessian")
    spectra = {
        ball: qx.spectrum(
            asked.loss, params, asked.k, density=True, probes=PROBES, key=asked.key, **setting, **asked.data
        )
        for ball, setting in balls.items()
    }
    out["spectrum"] = _spectra(spectra)
    out["trace"] = {
        ball: _told(
            found := qx.trace(asked.loss, params, key=asked.key, **setting, **asked.data),
            value=found.value, error=found.standard_error, method=found.method, dimension=found.dim,
        )
        for ball, setting in balls.items()
    }  # fmt: skip
    for ball in balls:
        largest = out["spectrum"][ball]["values"]
        mean = out["trace"][ball]["value"] / max(out["trace"][ball]["dimension"], 1)
        out["worst case"][ball]["second order"] = [0.5 * largest[0] * r**2 for r in asked.radii] if largest else []
        out["average"][ball]["second order"] = [0.5 * mean * r**2 for r in asked.radii]
    return out


def along(asked: Asked, params: Any) -> dict[str, Any]:
    """The same measures at representatives of one orbit, farther and farther away.

    Each is the parameters moved by a random element of the connected group, the exponential of the same normal
    coordinates times `stretch`, from zero up.
    """
    space = asked.space
    assert space is not None
    moving = {f.name for f in space.families if f.group.continuous}
    radius = asked.radii[len(asked.radii) // 2]
    stretches = [float(t) for t in np.linspace(0, asked.stretch, _PLACES)]
    rows: dict[tuple[str, str], dict[str, Any]] = {}

    def keep(name: str, ball: str, value: float, invariant: bool | None, reason: str = "") -> None:
        row = rows.setdefault((name, ball), {"name": name, "ball": ball, "invariant": invariant, "reason": reason})
        row.setdefault("values", []).append(float(value))

    for t in stretches:
        asked.tell(f"along the orbit, {t:.2g} of {asked.stretch:g}")
        at = params
        if t:
            element = space.random_element(jax.random.fold_in(_key(asked.key), 1), scale=t)
            at = space.act(params, {name: g for name, g in element.items() if name in moving})
        keep("loss", "", _loss(asked, at), True, "every family that moves it is proved")
        keep("length of the parameters", "", _norm(at), False)
        for ball, setting in asked.balls.items():
            own = setting | asked.data
            proved = ball == "quotient" and bool(space.metric_certificate)
            keep("length of the gradient", ball, _slope(asked, at, ball), proved or None if ball == "quotient" else False)
            worst = qx.sharpness(asked.loss, at, radius, steps=asked.steps, key=asked.key, **own)
            keep("worst case", ball, worst.value, worst.invariant, worst.reason)
            mean = qx.average_sharpness(asked.loss, at, radius, samples=SAMPLES, probes=0, key=asked.key, **own)
            keep("average", ball, mean.value, mean.invariant, mean.reason)
            trace = qx.trace(asked.loss, at, key=asked.key, **own)
            keep("trace", ball, trace.value, trace.invariant, trace.reason)
    found = list(rows.values())
    for row in found:
        row["change"] = _change(row["values"])
    return {"radius": radius, "stretches": stretches, "rows": found}


def between(asked: Asked, params: Any, other: Any) -> dict[str, Any]:
    """Two networks: the barrier of the loss on the segment, before and after alignment, and their distance."""
    asked.tell("aligning the two networks")
    found = qx.barrier(asked.loss, params, other, space=asked.space, **asked.data)
    out: dict[str, Any] = {
        "barrier": {name: getattr(found, name) for name in ("height", "aligned_height", "status")},
        "times": found.times.tolist(),
        "losses": found.losses.tolist(),
        "aligned losses": None if found.aligned_losses is None else found.aligned_losses.tolist(),
    }
    alignment = found.alignment
    if alignment is not None and asked.space is not None:
        out["apart"] = _norm(jax.tree.map(jnp.subtract, params, other))
        out["alignment"] = {
            "distance": float(alignment.distance),
            "lower bound": float(alignment.lower_bound),
            "attained": bool(alignment.attained),
            "apart": _norm(jax.tree.map(jnp.subtract, alignment.params, other)),
        }
        if asked.space.metric_certificate:
            told = asked.space.distance(params, other).to_dict()
            out["distance"] = {name: told[name] for name in ("value", "lower", "upper", "reason")}
    return out


def _loss(asked: Asked, params: Any) -> float:
    return qx.barrier(asked.loss, params, params, points=3, **asked.data).losses[0].item()


def _norm(params: Any) -> float:
    return math.sqrt(sum(float(jnp.sum(jnp.abs(array) ** 2)) for array in jax.tree.leaves(params)))


def _key(key: Any) -> jax.Array:
    return jax.random.key(0 if key is None else key) if key is None or isinstance(key, int) else key


def _slope(asked: Asked, params: Any, ball: str) -> float:
    return qx.gradient_norm(asked.loss, params, space=asked.space if ball == "quotient" else None, **asked.data)


def _told(result: Any, **numbers: Any) -> dict[str, Any]:
    """Numbers, and whether they belong to the quotient."""
    return {**numbers, "status": getattr(result, "status", "ok"), "invariant": result.invariant, "reason": result.reason}


def _profile(asked: Asked, params: Any, ball: str) -> dict[str, Any]:
    asked.tell(f"the largest rise by radius, {ball}")
    found = qx.profile(
        asked.loss, params, asked.radii, steps=asked.steps, key=asked.key, progress=asked.tell,
        **asked.balls[ball], **asked.data,
    )  # fmt: skip
    return {
        "radii": found.radii.tolist(),
        "values": found.values.tolist(),
        "statuses": [each.status for each in found.results],
        "kinks": [each.kink for each in found.results],
        "evaluations": found.evaluations,
        "invariant": found.invariant,
        "reason": found.reason,
    }


def _average(asked: Asked, params: Any, ball: str) -> dict[str, Any]:
    asked.tell(f"the mean rise by radius, {ball}")
    found = [
        qx.average_sharpness(
            asked.loss, params, radius, samples=SAMPLES, probes=0, key=asked.key, **asked.balls[ball], **asked.data
        )
        for radius in asked.radii
    ]
    return {
        "radii": list(asked.radii),
        "values": [each.value for each in found],
        "errors": [each.standard_error for each in found],
        "statuses": [each.status for each in found],
        "invariant": found[0].invariant,
        "reason": found[0].reason,
    }


def _spectra(spectra: dict[str, Any]) -> dict[str, Any]:
    """The ends of each spectrum, and the densities as curves of one smoothing, eigenvalues per unit."""
    known = [np.concatenate([s.values, s.bottom, s.density.nodes]) for s in spectra.values()]
    every = np.concatenate(known)
    width = float(np.ptp(every[np.isfinite(every)])) / 100 if np.isfinite(every).any() else 0.0
    out = {}
    for (ball, found), own in zip(spectra.items(), known, strict=True):
        curve: dict[str, Any] = {"x": [], "y": []}
        if width > 0 and np.all(np.isfinite(own)):
            grid = np.linspace(own.min() - 5 * width, own.max() + 5 * width, _POINTS)
            heights = found.dim * found.density.smooth(grid, width)
            curve = {"x": _rounded(grid), "y": _rounded(heights)}
        out[ball] = _told(
            found, values=found.values.tolist(), bottom=found.bottom.tolist(), dimension=found.dim,
            hessian=found.hessian, products=found.products, width=width, curve=curve,
        )  # fmt: skip
    return out


def _rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    """Of a curve that is looked at: six digits."""
    return [float(f"{value:.6g}") for value in values]


def _change(values: Sequence[float]) -> float:
    """The largest change from the first value, relative to it."""
    first = values[0]
    return max(abs(value - first) for value in values) / abs(first) if first else math.nan
