"""What a search knows, as a pytree that can be saved, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quotax.errors import SharpnessError
from quotax.sharpness.climbing import ROUNDING, RUNNING, STATIONARY, Climber
from quotax.sharpness.curvature import Curvature
from quotax.sharpness.exploring import Explorer
from quotax.sharpness.places import Centre
from quotax.sharpness.single import SHORTEST


class Found(NamedTuple):
    """The outcome of a search; `history[i]` is the best rise after i steps, `spent` the batches of gradients."""

    delta: jax.Array
    rise: Any
    base: Any
    spent: Any
    history: Any
    rises: Any
    done: Any
    nonfinite: Any
    steepest: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Search:
    """Everything a search knows, as a pytree of arrays: to be saved, and taken up again.

    `history[i]` is the best rise after i + 1 gradients; `planted` counts the starts of short ascents.
    """

    seed: Any
    radius: Any
    centre: Centre
    known: Curvature | None
    pool: Explorer
    climbs: Climber | None
    history: Any
    planted: Any
    nonfinite: Any
    steepest: Any

    @property
    def spent(self) -> int:
        """Gradients so far."""
        return len(self.history)

    @property
    def best(self) -> float:
        """The largest rise so far."""
        return float(self.history[-1])


def check_state(call: str, state: Any, radius: float, size: int) -> None:
    """A state that belongs to this measurement, as far as can be seen."""
    if state is None:
        return
    if not isinstance(state, Search):
        raise SharpnessError(f"`{call}` needs state= the `.state` of an earlier result, got {type(state).__name__}.")
    held = state.pool.here.x.shape[-1]
    if held != size or not np.isclose(float(state.radius), radius):
        raise SharpnessError(
            f"`{call}` got the state= of another measurement: {held} parameters and radius "
            f"{float(state.radius):g}, and here are {size} and {radius:g}."
        )


def outcome(search: Search) -> Found:
    """The best place of all, and how its search ended; the centre if nothing lies above it."""
    rises = np.asarray(search.pool.here.rise)
    stacks = [search.pool.here.x]
    done = np.full(rises.shape, RUNNING)
    if rises.size == 1 and float(search.pool.side[0]):  # a single ascent that has arrived
        done[:] = STATIONARY if float(search.pool.reach[0]) >= SHORTEST else ROUNDING
    if search.climbs is not None:
        # The best explorers went on as climbers.
        climbed = np.argsort(-rises, kind="stable")[: search.climbs.done.size - (search.known is not None)]
        rises = rises.copy()
        rises[climbed] = -np.inf
        rises = np.concatenate([np.asarray(search.climbs.here.rise), rises])
        stacks.insert(0, search.climbs.here.x)
        done = np.concatenate([np.asarray(search.climbs.done), done])
    winner = int(np.argmax(rises))
    above = rises[winner] > 0
    place = winner
    while place >= len(stacks[0]):
        place -= len(stacks.pop(0))
    x = _row(stacks[0], place)
    seen = rises[np.isfinite(rises)]
    return Found(
        delta=x if above else jnp.zeros_like(x),
        rise=rises[winner] if above else np.zeros_like(rises[winner]),
        base=search.centre.base,
        spent=search.spent,
        history=search.history,
        rises=seen if seen.size else np.zeros(1),
        done=done[winner] if above else done.max(),
        nonfinite=search.nonfinite,
        steepest=search.steepest,
    )


_row = jax.jit(lambda stack, i: stack[i])
