"""How a budget of gradients is spent: what is divided among models, starts and climbs."""

from __future__ import annotations

from dataclasses import dataclass

from quotax.sharpness.problem.arguments import check_share, check_whole
from quotax.sharpness.problem.vectors import FlatLayout

BUDGET = 200
"""Gradients, unless said otherwise."""

PRODUCT = 2
"""Gradients that a product with the Hessian counts as: it differentiates one, forwards."""

# Vectors that the explorers that are kept, and the climbers' memories, may take, in bytes.
MEMORY_BYTES = 2**30
LONGEST_MEMORY = 20

# Few parameters: their vectors cost next to nothing, and a longer memory ends a climb in fewer gradients.
FEW = 1024
LONGEST_OF_FEW = 60

PATIENCE = 800
"""Further gradients for climbs of few parameters that have found no certificate, where the caller names no budget."""

# Short ascents that run as one batch and that are kept, climbs, gradients of a start: of budgets that are not small.
WIDTH = 2
KEPT = 12
CLIMBS = 3
VISITS = 4

# Of a budget, for the first visits of starts: at which of the local maxima a search ends matters more than how exactly.
STARTING = 0.42
FEWEST = 3

SMALL = 40
"""Budgets below this leave no room for starts that turn, nor for a model of the Hessian: two climbs from two visits."""


@dataclass(frozen=True)
class Effort:
    """How to spend a budget of gradients.

    `starts` short ascents of `visits` gradients, `width` at a time, of which the `kept` best stay in memory; then
    `climbs` of them, each with a memory of `memory` directions, and one from the model that `curvature` Hessian-vector
    products give. Climbs that are not over then go on for `patience` more.
    """

    budget: int
    curvature: int
    starts: int
    visits: int
    width: int
    kept: int
    climbs: int
    memory: int
    patience: int = 0

    @property
    def most(self) -> int:
        """Gradients that the search may spend in all."""
        return self.budget + self.patience

    @property
    def single(self) -> bool:
        """Whether one ascent at the memory of a few vectors is all there is room for."""
        return self.kept < CLIMBS

    @property
    def turning(self) -> bool:
        """Whether random starts spend their second visit where the Hessian sends them."""
        return self.budget >= SMALL

    @property
    def reserve(self) -> int:
        """Gradients that only climbers may spend."""
        return self.budget // 4


@dataclass(frozen=True)
class Wanted:
    """What a caller has said of the effort; nothing where the search is to decide."""

    budget: int | None = None
    steps: int | None = None
    restarts: int | None = None
    curvature: int | None = None
    memory: int | None = None
    tolerance: float | None = None

    def check(self, call: str) -> None:
        """Refuse what is no number of gradients."""
        for name, least in (("budget", 2), ("steps", 1), ("restarts", 1), ("curvature", 0), ("memory", 1)):
            if getattr(self, name) is not None:
                check_whole(call, name, getattr(self, name), least)
        if self.tolerance is not None:
            check_share(call, "tolerance", self.tolerance)

    def plan(self, flat: FlatLayout) -> Effort:
        """The division of the budget for so many parameters."""
        budget, restarts = self.budget, self.restarts
        if self.steps is not None:
            restarts = 4 if restarts is None else restarts
            budget = 1 + PRODUCT * (6 if self.curvature is None else self.curvature) + self.steps * restarts
        return plan(budget, flat.size, flat.dtype.itemsize, self.curvature, restarts, self.memory)

    def share(self, flat: FlatLayout) -> float:
        """The tolerance of the certificate of stationarity."""
        if self.tolerance is not None:
            return float(self.tolerance)
        return 1e-6 if flat.dtype.itemsize >= 8 else 1e-4


def plan(
    budget: int | None, size: int, itemsize: int, curvature: int | None, restarts: int | None, memory: int | None
) -> Effort:
    """The division of a budget, where the caller has not said otherwise.

    Two fifths go to the first visits of starts, four for each, and of three starts at least. The model at the
    centre comes only with budgets that leave room for it. Networks of which a handful of copies would take more than
    `MEMORY_BYTES` get a single ascent.
    """
    patience = PATIENCE if budget is None and size <= FEW else 0
    budget = budget or BUDGET
    if memory is None:
        vectors = MEMORY_BYTES // (2 * (CLIMBS + 1) * size * itemsize)
        memory = max(1, min(LONGEST_OF_FEW if size <= FEW else LONGEST_MEMORY, vectors))
    memory = min(memory, size)
    if curvature is None:
        curvature = 0 if budget < SMALL else min(6, budget // 30)
    curvature = min(curvature, memory, max(budget - 2, 0) // PRODUCT)
    visits, climbs = (2, 2) if budget < SMALL else (VISITS, CLIMBS)
    if restarts is None:
        restarts = max(FEWEST, int(STARTING * budget) // VISITS)
    kept = min(KEPT, MEMORY_BYTES // (2 * size * itemsize))
    if kept < CLIMBS:
        return Effort(budget, 0, 1, visits, 1, kept, 0, 1)
    # Even the smallest budget looks at one start.
    width = max(1, min(WIDTH, restarts, budget - 1 - PRODUCT * curvature))
    return Effort(budget, curvature, restarts, visits, width, kept, climbs, memory, patience)
