"""The loss on the segment between two parameter vectors, and on the one that is left when the first is aligned."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import numpy as np
from jax.sharding import Mesh

from quotax.checks import finite_params
from quotax.errors import SharpnessError
from quotax.presenting import Result
from quotax.presenting.drawing import QUIET, Axes, drawn, says
from quotax.programs.threads import one_thread
from quotax.sharpness.problem.arguments import check_whole
from quotax.sharpness.problem.objective import Loss
from quotax.sharpness.problem.setting import Measurement
from quotax.sharpness.problem.vectors import stacked
from quotax.trees import AnySpace, Tree

CALL = "quotax.barrier"


@dataclass(frozen=True, repr=False)
class Barrier(Result):
    """The loss along `(1 - t) params + t other`.

    Attributes:
        height: the largest excess over the straight line between the losses at the ends; zero where there is none.
        aligned_height: the same after `params` was moved along its orbit to the representative nearest to `other`;
            None without a space.
        times: from 0 to 1.
        losses: at these times.
        aligned_losses: at these times, from the representative.
        alignment: that representative, with what is known of it.
        status: `"ok"`, or `"not finite"`: the loss was NaN or infinite somewhere on the way.
    """

    height: float
    aligned_height: float | None
    times: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)
    aligned_losses: np.ndarray | None = field(repr=False)
    alignment: Tree = field(repr=False)
    status: str = "ok"

    def __str__(self) -> str:
        """One readable line."""
        text = f"barrier {self.height:.4g} on the segment"
        if self.aligned_height is not None:
            text += f", {self.aligned_height:.4g} once aligned"
        ends = f"; the loss is {self.losses[0]:.4g} and {self.losses[-1]:.4g} at the ends"
        return text + ends + ("" if self.status == "ok" else f" ({self.status})")

    def plot(self, ax: Axes | None = None) -> Axes:
        """The loss on both segments, above the straight line between its ends; the heights are in the legend."""
        for name, losses, height in (
            ("barrier {:.3g}", self.losses, self.height),
            ("{:.3g} once aligned", self.aligned_losses, self.aligned_height),
        ):
            if losses is not None:
                with drawn(ax, "barrier.plot()") as (ax, look):
                    ax.plot(self.times, losses, label=name.format(height), **look | {"markersize": 2.5})
        with drawn(ax, "barrier.plot()") as (ax, _):
            ax.plot([0, 1], self.losses[[0, -1]], "--", color=QUIET, linewidth=0.8, zorder=0)
            ax.set_xlabel("from one network to the other")
            ax.set_ylabel("loss")
            if not np.isfinite(self.losses).any():
                says(ax, "the loss is no number anywhere")
        return ax


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def barrier(
    loss: Loss,
    params: Tree,
    other: Tree,
    *,
    space: AnySpace | None = None,
    points: int = 25,
    batch: Tree = None,
    microbatch: int | None = None,
    mesh: Mesh | None = None,
) -> Barrier:
    """The loss on the segment from `params` to `other`, before and after alignment in the quotient `space`.

    Equivalent networks may stand far apart with a wall of loss between them, which says nothing of their functions:
    what is left of it when one is moved along its orbit towards the other does.

    Example:
        >>> import jax.numpy as jnp
        >>> found = barrier(lambda p: (1 - p**2) ** 2, jnp.array(-1.0), jnp.array(1.0), points=3)
        >>> found.height, found.losses.tolist()
        (1.0, [0.0, 1.0, 0.0])
    """
    params, other = finite_params(CALL, params), finite_params(CALL, other)
    check_whole(CALL, "points", points, 3)
    shapes = [jax.tree.map(np.shape, tree) for tree in (params, other)]
    if shapes[0] != shapes[1]:
        raise SharpnessError(
            f"`{CALL}` needs two sets of parameters of one network; their arrays have shapes {shapes[0]} and "
            f"{shapes[1]}."
        )
    if space is not None and not callable(getattr(space, "alignment", None)):
        raise SharpnessError(
            f"`{CALL}` needs space= with `alignment`, as `qx.quotient` makes it, got {type(space).__name__}."
        )
    request = Measurement(CALL, loss, batch=batch, microbatch=microbatch, mesh=mesh)
    times = np.linspace(0, 1, points)
    losses = _along(request, params, other, times)
    alignment = None if space is None else space.alignment(params, other)
    aligned = None if alignment is None else _along(request, alignment.params, other, times)
    both = losses if aligned is None else np.concatenate([losses, aligned])
    status = "ok" if np.all(np.isfinite(both)) else "not finite"
    height = None if aligned is None else _height(times, aligned)
    return Barrier(_height(times, losses), height, times, losses, aligned, alignment, status)


def _along(request: Measurement, params: Tree, other: Tree, times: np.ndarray) -> np.ndarray:
    setting = request.at(params)
    chord = setting.layout.gathered(other) - setting.layout.gathered(setting.params)
    along = setting.problem.lines(stacked([setting.problem.kept(chord)]))
    return np.asarray([along(setting.layout.dtype.type(t), 1)[0] for t in times])


def _height(times: np.ndarray, losses: np.ndarray) -> float:
    return float(np.max(losses - ((1 - times) * losses[0] + times * losses[-1])))
