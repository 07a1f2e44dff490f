"""Everything that is measured of one vector of parameters: in the full Euclidean ball, and on the quotient."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx

SAMPLES, PROBES, PRODUCTS = 64, 3, 30
"""Of mean rises, of densities, and of traces along the orbit."""
_POINTS = 240
"""Of the curve of a density."""
_PLACES = 4
"""Places along the orbit, the parameters among them."""


class Wish(NamedTuple):
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
    refuted: str = ""
    """Why measures in the full ball are no functions on the quotient, where that is known."""

    @property
    def data(self) -> dict[str, Any]:
        """The loss's data, as every measure takes them."""
        return {"batch": self.batch, "microbatch": self.microbatch}

    @property
    def balls(self) -> dict[str, dict[str, Any]]:
        """The full ball, and that of the quotient where there is one, as settings of a measure."""
        if self.space is None:
            return {"full": {}}
        known = {} if self.refuted else {"space": self.space, "ball": "full"}
        return {"full": known, "quotient": {"space": self.space}}


def settled(asked: Wish, params: Any) -> Wish:
    """Whether the group changes the full ball, asked once: measures in it are then told so, and need not ask again."""
    if asked.space is None:
        return asked
    told = qx.average_sharpness(
        asked.loss, params, asked.radii[-1], samples=4, probes=0, space=asked.space, ball="full", **asked.data
    )
    return asked._replace(refuted=told.reason if told.invariant is False else "")


def measured(asked: Wish, params: Any) -> dict[str, Any]:
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
    out["spectrum"] = _spectra(asked, spectra)
    out["trace"] = {
        ball: {
            "value": (found := qx.trace(asked.loss, params, key=asked.key, **setting, **asked.data)).value,
            "error": found.standard_error,
            "method": found.method,
            "dimension": found.dim,
            "status": found.status,
            **_verdict(asked, ball, found),
        }
        for ball, setting in balls.items()
    }
    for ball in balls:
        largest, slope = out["spectrum"][ball]["values"], out["gradient"][ball]
        mean = out["trace"][ball]["value"] / max(out["trace"][ball]["dimension"], 1)
        out["worst case"][ball]["second order"] = [slope * r + 0.5 * largest[0] * r**2 for r in asked.radii if largest]
        out["average"][ball]["second order"] = [0.5 * mean * r**2 for r in asked.radii]
    return out


def along(asked: Wish, params: Any) -> dict[str, Any]:
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

    def keep(name: str, ball: str, value: float, invariant: bool | None) -> None:
        row = rows.setdefault((name, ball), {"name": name, "ball": ball, "invariant": invariant})
        row.setdefault("values", []).append(float(value))

    for t in stretches:
        asked.tell(f"along the orbit, {t:.2g} of {asked.stretch:g}")
        at = params
        if t:
            element = space.random_element(jax.random.fold_in(_key(asked.key), 1), scale=t)
            at = space.act(params, {name: g for name, g in element.items() if name in moving})
        keep("loss", "", _loss(asked, at), True)
        keep("length of the parameters", "", _norm(at), False)
        for ball, setting in asked.balls.items():
            own = setting | asked.data
            keep("length of the gradient", ball, _slope(asked, at, ball), _lengths(asked, ball))
            worst = qx.sharpness(asked.loss, at, radius, steps=asked.steps, key=asked.key, **own)
            keep("worst case", ball, worst.value, _verdict(asked, ball, worst)["invariant"])
            mean = qx.average_sharpness(asked.loss, at, radius, samples=SAMPLES, probes=0, key=asked.key, **own)
            keep("average", ball, mean.value, _verdict(asked, ball, mean)["invariant"])
            trace = qx.trace(asked.loss, at, probes=_products(asked), key=asked.key, **own)
            keep("trace", ball, trace.value, _verdict(asked, ball, trace)["invariant"])
    names = list(dict.fromkeys(name for name, _ in rows))
    found = sorted(rows.values(), key=lambda row: names.index(row["name"]))
    for row in found:
        row["change"] = _change(row["values"])
    return {"radius": radius, "stretches": stretches, "rows": found}


def between(asked: Wish, params: Any, other: Any) -> dict[str, Any]:
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
        }
        if asked.space.metric_certificate:
            told = asked.space.distance(params, other).to_dict()
            out["distance"] = {name: told[name] for name in ("value", "lower", "upper", "reason")}
    return out


def _lengths(asked: Wish, ball: str) -> bool | None:
    """Whether lengths in the metric of a ball stay along the orbit."""
    assert asked.space is not None
    if ball == "quotient":
        return True if asked.space.metric_certificate else None
    return False if asked.refuted else None


def _products(asked: Wish) -> int | None:
    """Exact traces where they cost no more."""
    assert asked.space is not None
    return None if asked.space.network.num_parameters <= PRODUCTS else PRODUCTS


def _loss(asked: Wish, params: Any) -> float:
    return qx.barrier(asked.loss, params, params, points=3, **asked.data).losses[0].item()


def _norm(params: Any) -> float:
    return math.sqrt(sum(float(jnp.sum(jnp.abs(array) ** 2)) for array in jax.tree.leaves(params)))


def _key(key: Any) -> jax.Array:
    return jax.random.key(0 if key is None else key) if key is None or isinstance(key, int) else key


def _slope(asked: Wish, params: Any, ball: str) -> float:
    return qx.gradient_norm(asked.loss, params, space=asked.space if ball == "quotient" else None, **asked.data)


def _verdict(asked: Wish, ball: str, result: Any) -> dict[str, Any]:
    """Whether a measure belongs to the quotient, and why."""
    if ball == "full" and asked.refuted:
        return {"invariant": False, "reason": asked.refuted}
    return {"invariant": result.invariant, "reason": result.reason}


def _profile(asked: Wish, params: Any, ball: str) -> dict[str, Any]:
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
        **_verdict(asked, ball, found),
    }


def _average(asked: Wish, params: Any, ball: str) -> dict[str, Any]:
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
        **_verdict(asked, ball, found[0]),
    }


def _spectra(asked: Wish, spectra: dict[str, Any]) -> dict[str, Any]:
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
        out[ball] = {
            "values": found.values.tolist(), "bottom": found.bottom.tolist(), "dimension": found.dim,
            "hessian": found.hessian, "products": found.products, "width": width, "curve": curve,
            "status": found.status, **_verdict(asked, ball, found),
        }  # fmt: skip
    return out


def _rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    """Of a curve that is looked at: six digits."""
    return [float(f"{value:.6g}") for value in values]


def _change(values: Sequence[float]) -> float:
    """The largest change from the first value, relative to it."""
    first = values[0]
    return max(abs(value - first) for value in values) / abs(first) if first else math.nan
