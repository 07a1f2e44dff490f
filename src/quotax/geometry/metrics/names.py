"""The metrics by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quotax.errors import GeometryError
from quotax.geometry.canonical.absorption import absorption
from quotax.geometry.canonical.gauge import gauge
from quotax.geometry.families.compact import compact_blocks
from quotax.geometry.families.family import Family
from quotax.geometry.families.roles import is_isometric
from quotax.geometry.metrics.absorbed import Absorbed
from quotax.geometry.metrics.dense import Dense
from quotax.geometry.metrics.euclidean import Euclidean
from quotax.geometry.metrics.metric import Metric
from quotax.geometry.metrics.moving_frame import MovingFrame
from quotax.geometry.metrics.two_factor import Pairs

METRICS = ("euclidean", "invariant", "pullback", "inv", "mix")

DENSE_LIMIT = 2000
"""A metric given as a function is made a matrix, for networks with at most this many parameters."""


def choose(metric: str | Callable[[Any, Any, Any], Any], families: Sequence[Family], parameters: int) -> Metric:
    """The metric of a name, or of a function `(params, tangent, tangent) -> number`."""
    if callable(metric):
        if parameters > DENSE_LIMIT:
            raise GeometryError(
                f"`quotient`: a metric given as a function is turned into a matrix, which is possible for at most "
                f"{DENSE_LIMIT} parameters; this network has {parameters}. The named metrics have no such limit."
            )
        return Dense(families, metric)
    if metric == "euclidean":
        return Euclidean(families)
    if metric in ("invariant", "pullback"):
        return _moving(families, pullback=metric == "pullback")
    if metric == "inv" or metric == "mix":
        return Pairs(families, metric)
    raise GeometryError(
        f"`quotient`: metric must be one of {', '.join(map(repr, METRICS))} "
        f"or a function of (params, tangent, tangent), got {metric!r}."
    )


def _moving(families: Sequence[Family], *, pullback: bool) -> Metric:
    """The moving frame; in coordinates that absorb gains, where families depend on these."""
    found = gauge(families, unique=True)
    absorbed = absorption(families, found.unsettled) if found.unsettled else None
    if absorbed is not None and len(gauge(absorbed.families, unique=True).unsettled) < len(found.unsettled):
        return Absorbed(families, absorbed, pullback=pullback)
    return MovingFrame(families, found, pullback=pullback)


def suspects(metric: Metric, families: Sequence[Family]) -> list[str]:
    """The families under which a metric is not known to be invariant by their structure; the certificate decides."""
    if isinstance(metric, Absorbed):
        return suspects(metric.frame, metric.frame.families)
    if isinstance(metric, Dense):
        return [family.name for family in families]
    discrete = list(unusable([family for family in families if not family.group.continuous]))
    if isinstance(metric, MovingFrame):
        return [*metric.gauge.unsettled, *discrete]
    isometric = {f.name for f in families if is_isometric(f)}
    if isinstance(metric, Pairs):
        isometric |= {f.name for f in metric.pairs}
    return [*(f.name for f in families if f.name not in isometric), *discrete]


def unusable(families: Sequence[Family]) -> dict[str, str]:
    """The discrete families that the metrics by name and the alignment cannot use, with the reasons."""
    found = {block.name: block for block in compact_blocks(families)}
    reasons = {}
    for family in families:
        if family.name not in found:
            reasons[family.name] = "its action does not permute indices or change signs, one axis at a time"
        elif found[family.name].carried:
            targets = ", ".join(found[family.name].carried)
            reasons[family.name] = f"it carries other parameters into {targets}, which is no isometry of a named metric"
    return reasons
