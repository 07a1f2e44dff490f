"""The metrics by name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from quotax.errors import GeometryError
from quotax.geometry.families.velocities import Family
from quotax.geometry.metrics.absorbed import invariant
from quotax.geometry.metrics.dense import Dense, InnerProduct
from quotax.geometry.metrics.euclidean import Euclidean
from quotax.geometry.metrics.metric import Metric
from quotax.geometry.metrics.two_factor import Pairs

_NAMED: dict[str, Callable[[Sequence[Family]], Metric]] = {
    "euclidean": Euclidean,
    "invariant": functools.partial(invariant, pullback=False),
    "pullback": functools.partial(invariant, pullback=True),
    "inv": functools.partial(Pairs, kind="inv"),
    "mix": functools.partial(Pairs, kind="mix"),
}

METRICS = tuple(_NAMED)
"""What `quotient` and `verify_metric` know by name."""

DENSE_LIMIT = 2000
"""A metric given as a function is made a matrix, for networks with at most this many parameters."""


def choose(metric: str | InnerProduct, families: Sequence[Family], parameters: int) -> Metric:
    """The metric of a name, or of a function `(params, tangent, tangent) -> number`."""
    if callable(metric):
        if parameters > DENSE_LIMIT:
            raise GeometryError(
                f"`quotient`: a metric given as a function is turned into a matrix, which is possible for at most "
                f"{DENSE_LIMIT} parameters; this network has {parameters}. The named metrics have no such limit."
            )
        return Dense(families, metric)
    if isinstance(metric, str) and metric in _NAMED:
        return _NAMED[metric](families)
    raise GeometryError(
        f"`quotient`: metric must be one of {', '.join(map(repr, METRICS))} "
        f"or a function of (params, tangent, tangent), got {metric!r}."
    )


def suspects(metric: Metric, families: Sequence[Family]) -> list[str]:
    """The families under which a metric is not known to be invariant by their structure; the certificate decides."""
    return metric.suspects(families)
