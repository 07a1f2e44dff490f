r"""How the minima of two losses lie to one another: what their examples see, and the way from one to the other.

The parameters that fit a set of examples form a manifold whose normal space at $\theta$ is the row space of the
examples' Jacobian $J$. Two of these meet transversally where their normal spaces share no direction: where the least
principal angle between the row spaces of training and test examples is not zero. Then, to first order, the outputs on
both can be chosen at will.

From $\theta$ the least step to a minimum of the test loss is, to first order, $-J^+ r$ with the residual
$r = f(\theta) - y$: horizontal, because outputs do not change along orbits. Its length is the $\delta$ in "for every
test set a good parameter lies within $\delta$". Outputs bend, and the step is corrected by an iteration
(`least_steps.py`). It ends at a stationary point, as every descent does: no other minimum is shown to be farther.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quotax.checks import one_output
from quotax.errors import FunctionSpaceError
from quotax.function_space.jacobian import Jacobian
from quotax.function_space.least_steps import least_step
from quotax.function_space.refusals import examples, like_outputs, params_of, point_of, whole
from quotax.function_space.row_space import RowSpace
from quotax.presenting import Result
from quotax.programs.threads import one_thread
from quotax.trees import AnyArray, AnySpace, Tree

CALL = "quotax.transversality"
ROWS = 6000
"""More outputs in one of the sets are refused: their row space is factored."""


@dataclass(frozen=True, repr=False)
class Transversality(Result):
    """Angles between what training and test examples see, and the least horizontal step to a minimum of the test loss.

    Losses are means of squares over examples and outputs.

    Attributes:
        angles: principal angles between the two row spaces in the metric, ascending, in radians.
        train_rank: the dimension of the training examples' row space.
        test_rank: that of the test examples'.
        step: the least step found, shaped like the parameters and horizontal.
        length: its length in the metric: the delta.
        first_order: the step of the linearised network, in closed form.
        first_order_length: its length.
        keeping_length: the length of the least step that, to first order, moves the test outputs as `first_order` does
            and no training output. At most `first_order_length / sin(angles[0])`.
        losses: the test loss before, after the first-order step and after `step`.
        train_losses: the same of the training loss.
        status: `"converged"`, or `"budget"`: more iterations may shorten the step or lower the loss.
        iterations: spent.
        floor: what counts as zero, relative to the largest singular value.
    """

    angles: np.ndarray
    train_rank: int
    test_rank: int
    step: AnyArray = field(repr=False)
    length: float
    first_order: Any = field(repr=False)
    first_order_length: float
    keeping_length: float
    losses: tuple[float, float, float]
    train_losses: tuple[float, float, float]
    status: str
    iterations: int
    floor: float

    _also = ("transversal",)

    @property
    def transversal(self) -> bool:
        """Whether the row spaces share no direction, to the digits that are resolved."""
        return bool(self.angles.size == 0 or self.angles[0] > 10 * self.floor)

    def __str__(self) -> str:
        """Three readable lines."""
        degrees = np.degrees(self.angles[[0, -1]]) if self.angles.size else np.asarray([90.0, 90.0])
        return "\n".join(
            [
                f"row spaces of dimensions {self.train_rank} (train) and {self.test_rank} (test), angles "
                f"{degrees[0]:.3g} to {degrees[1]:.3g} degrees{'' if self.transversal else ': not transversal'}",
                f"least step {self.length:.4g} ({self.status}, {self.iterations} iterations), first order "
                f"{self.first_order_length:.4g}, keeping the training outputs {self.keeping_length:.4g}",
                f"test loss {self.losses[0]:.3g} -> {self.losses[2]:.3g} (first order {self.losses[1]:.3g}), "
                f"training loss {self.train_losses[0]:.3g} -> {self.train_losses[2]:.3g}",
            ]
        )


@one_thread
def transversality(
    net: Callable[..., Tree],
    params: Tree,
    train: Any,
    test: Any,
    space: AnySpace | None = None,
    *,
    iterations: int = 200,
) -> Transversality:
    """How training and test examples lie to one another at these parameters, and how far the test minimum is.

    Args:
        net: a network, or a function `net(params, x)` of one example; it is mapped over the examples.
        params: a pytree of floating-point arrays, such as a minimum of the training loss.
        train: a pair of inputs and targets. Inputs are an array whose first axis counts examples, or a tuple of one for
            each input of the network; targets have the shape of the outputs.
        test: the same.
        space: a quotient: steps are then horizontal at `params`, and angles and lengths those of its metric.
        iterations: that correct the first-order step, at most.

    Example:
        >>> import jax.numpy as jnp
        >>> line = lambda p, x: p["w"] @ x
        >>> params = {"w": jnp.zeros(3)}
        >>> train = jnp.array([[1.0, 0, 0]]), jnp.array([0.0])
        >>> test = jnp.array([[1.0, 1, 0]]), jnp.array([2.0])
        >>> found = transversality(line, params, train, test)
        >>> round(float(found.angles[0]), 3), round(found.length, 3), round(found.keeping_length, 3)
        (0.785, 1.414, 2.0)
    """
    params = params_of(CALL, net, params)
    whole(CALL, "iterations", iterations, 1)
    (fit, goal), (seen, target) = _set("train", net, params, train), _set("test", net, params, test)
    point = None if space is None else point_of(CALL, space, params)
    here, there = RowSpace(fit, point), RowSpace(seen, point)
    residual = there.outputs() - target
    first = there.pulled(there.weights(-residual, there.damping))
    step, status, spent = least_step(there, target, iterations)
    mean = lambda space, v, wanted: float(np.mean((space.moved(v).outputs() - wanted) ** 2))
    along = lambda space, wanted: (
        mean(space, 0 * first, wanted),
        mean(space, first, wanted),
        mean(space, step, wanted),
    )
    return Transversality(
        angles=here.angles(there),
        train_rank=here.rank,
        test_rank=there.rank,
        step=there.tree(step),
        length=float(np.linalg.norm(step)),
        first_order=there.tree(first),
        first_order_length=float(np.linalg.norm(first)),
        keeping_length=there.beside(here, there.effect(first)),
        losses=along(there, target),
        train_losses=along(here, goal),
        status=status,
        iterations=spent,
        floor=max(here.floor, there.floor),
    )


def _set(name: str, net: Callable[..., Tree], params: Tree, given: Tree) -> tuple[Jacobian, np.ndarray]:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise FunctionSpaceError(f"`{CALL}` needs {name}= a pair (inputs, targets), got {type(given).__name__}.")
    inputs = examples(CALL, f"{name}[0]", given[0])
    output = one_output(FunctionSpaceError, CALL, f"{name}[0]", net, params, inputs)
    jacobian = Jacobian(net, params, inputs, output)
    if jacobian.rows > ROWS:
        raise FunctionSpaceError(
            f"`{CALL}` factors what every set of examples sees, and {name} has {jacobian.rows:,} outputs, more than "
            f"{ROWS:,}: pass fewer examples."
        )
    goal = like_outputs(CALL, f"{name}[1]", given[1], jacobian.shape, output.dtype)
    return jacobian, np.asarray(goal, float).ravel()
