"""A quotient as its points and its geomstats objects see it: they are made by the space, and do not import it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import jax

from quotax.geometry.canonical.gauge import Gauge
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.geometry.matching.two_points import Between, BetweenAbsorbed
from quotax.geometry.metrics.metric import Metric
from quotax.presenting import Result
from quotax.trees import AnyArray, Tree


class SizedModel(Protocol):
    """A network, as the geometry uses it."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The parameters' shapes by name."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the axes."""
        ...

    @property
    def num_parameters(self) -> int:
        """How many numbers the parameters hold."""
        ...

    def check_params(self, params: Tree, *, call: str, finite: bool = False) -> dict[str, AnyArray]:
        """The arrays by name as the user passes them, refused when they do not fit."""
        ...

    def taken_apart(self, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """These arrays with the parts of fused ones in their place."""
        ...

    def tree(self, arrays: Mapping[str, AnyArray], like: Tree = None) -> Tree:
        """Arrays by name, fused ones by their parts, as the user's tree; what it holds besides is that of `like`."""
        ...


@dataclass(frozen=True, repr=False)
class Based(Result):
    """A base point with what the metric prepared there."""

    arrays: Named
    data: Tree
    space: Quotient


class Quotient(Protocol):
    """What points, and what is made of them, ask their space."""

    network: SizedModel
    families: tuple[Family, ...]
    _metric: Metric

    @property
    def dim(self) -> int:
        """The dimension of the quotient."""
        ...

    @functools.cached_property
    def _gauge(self) -> Gauge: ...

    @functools.cached_property
    def _between(self) -> Between | BetweenAbsorbed: ...

    def at(self, params: Tree) -> Based:
        """The parameters with everything factored that projections there share."""
        ...

    def rank_at(self, params: Tree) -> jax.Array:
        """The dimension of the orbit through `params`."""
        ...

    def _vectors(self, v: Tree, label: str, call: str) -> Named: ...

    def _needs_invariance(self, call: str) -> None: ...
