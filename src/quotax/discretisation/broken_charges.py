r"""Which conserved quantities a scheme breaks, and at what rate.

Where a generator is a symmetric linear map A, gradient flow of an invariant loss keeps $q = \theta^T A \theta$, because
$\nabla L \cdot A \theta = 0$. Differentiated along $\nabla L$ that says $H A \theta = -A \nabla L$, so that along the
flow which a scheme follows

$$\dot q = 2 \eta c_2 \, H \nabla L \cdot A \theta = -2 \eta c_2 \, q(\nabla L) + O(\eta^2):$$

$\eta\, q(\nabla L)$ for gradient descent, whose steps change q by $\eta^2 q(\nabla L)$ exactly, and
$\eta \tfrac{1 + \beta}{(1 - \beta)^3} q(\nabla L)$ with momentum. What is linear in the parameters (shifts, the part in
flat directions of a linear model) no scheme breaks. Mini-batches take the mean of $q(\nabla L_B)$ over batches, which
differs from that of the mean gradient by the trace of A times the covariance; weight decay $\alpha$ multiplies q by
$e^{-2 \alpha t}$.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.checks import finite_params
from quotax.discretisation.backward_errors import modified_flow
from quotax.discretisation.mini_batches import MiniBatches
from quotax.discretisation.schemes import Scheme, gradient_descent
from quotax.errors import DiscretisationError
from quotax.presenting import Result
from quotax.trees import AnySpace, Tree

CALL = "quotax.charge_rates"


@dataclass(frozen=True, repr=False)
class ChargeRates(Result):
    """The charges of a quotient's families, and how fast a scheme changes them.

    Attributes:
        charges: by family, as `space.conserved` has them.
        rates: to first order in the step, per unit of the time `steps * eta`.
        next_order: the rates along the flow to second order; nothing for mini-batches.
        flow: the rates along gradient flow: zero but for rounding, or the loss is not invariant.
        kept: families whose charges are linear in the parameters, which no scheme breaks.
        scheme: its name.
        eta: the step.
    """

    charges: Mapping[str, np.ndarray] = field(repr=False)
    rates: Mapping[str, np.ndarray] = field(repr=False)
    next_order: Mapping[str, np.ndarray] = field(repr=False)
    flow: Mapping[str, np.ndarray] = field(repr=False)
    kept: tuple[str, ...]
    scheme: str
    eta: float

    def __str__(self) -> str:
        """A line for each family."""
        size = lambda array: float(np.linalg.norm(np.ravel(array)))
        rows = [
            f"{name}: charge of size {size(q):.4g}, "
            + ("kept" if name in self.kept else f"changes by {size(self.rates[name]):.4g} per unit of time")
            for name, q in self.charges.items()
        ]
        return "\n".join([f"{self.scheme}, step {self.eta:g}", *rows])


def charge_rates(
    space: AnySpace, loss: Callable[[Tree], Tree] | MiniBatches, params: Tree, eta: float, scheme: Scheme | None = None
) -> ChargeRates:
    """How fast a scheme changes the conserved quantities of proved symmetries.

    Args:
        space: a quotient, whose families are proved.
        loss: `loss(params)`, a function of the network's outputs, or `quotax.mini_batches` of one: the rates are then
            means over what is drawn.
        params: where.
        eta: the step.
        scheme: gradient descent, if none is given.

    Example:
        >>> import jax, jax.numpy as jnp, quotax as qx
        >>> @qx.architecture(params={"a": "", "b": ""}, inputs={"x": ""})
        ... def net(p, x):
        ...     return p["a"] * p["b"] * x
        >>> scale = qx.Symmetry("scale", qx.PositiveScalar(), {"a": "g * a", "b": "inv(g) * b"})
        >>> space = qx.quotient(net.at(), scale, metric="invariant")
        >>> loss, params = lambda p: (p["a"] * p["b"] - 1) ** 2, {"a": jnp.ones(()), "b": jnp.zeros(())}
        >>> print(charge_rates(space, loss, params, 0.1))
        gradient descent, step 0.1
        scale: charge of size 1, changes by 0.4 per unit of time
    """
    if not callable(getattr(space, "charge_drift", None)):
        raise DiscretisationError(
            f"`{CALL}` needs space= a quotient, got {type(space).__name__}; `quotax.quotient` makes one."
        )
    if not eta > 0:
        raise DiscretisationError(f"`{CALL}` needs a positive step eta, got {eta!r}.")
    params = finite_params(CALL, params)
    numbers = lambda tree: {name: np.asarray(value) for name, value in tree.items()}
    draw = np.random.default_rng(0)
    probe = jax.tree.map(lambda a: jnp.asarray(draw.standard_normal(a.shape), a.dtype), params)
    linear = tuple(n for n, each in space.charge_drift(params, probe).items() if not np.any(np.asarray(each.second)))
    charges = numbers(space.conserved(params))
    if isinstance(loss, MiniBatches):
        if scheme is not None:
            raise DiscretisationError(f"`{CALL}`: mini-batches are taken by gradient descent, not by {scheme!r}.")
        rates, flow = _of_batches(space, loss, params, eta)
        name = f"{loss.steps} batches of {loss.size}, {loss.order}"
        return ChargeRates(charges, rates, {}, flow, linear, name, float(eta))
    chosen = gradient_descent() if scheme is None else scheme
    drifts = space.charge_drift(params, slope := jax.grad(loss)(params))
    rates = first_order_rates(space, loss, params, eta, chosen, slope)
    velocity = modified_flow(chosen, 2).velocity(loss, eta)(params)
    later = {name: np.asarray(each.first) for name, each in space.charge_drift(params, velocity).items()}
    flow = {name: -chosen.numbers[0] * np.asarray(each.first) for name, each in drifts.items()}
    return ChargeRates(charges, rates, later, flow, linear, chosen.name, float(eta))


Charges = dict[str, np.ndarray]


def first_order_rates(
    space: Any, loss: Any, params: Any, eta: float, scheme: Scheme | None = None, slope: Any = None
) -> Charges:
    """The rates per unit of time to first order in the step: by the gradient `slope`, or of mini-batches."""
    if isinstance(loss, MiniBatches):
        return _of_batches(space, loss, params, eta)[0]
    c2 = (gradient_descent() if scheme is None else scheme).numbers[1]
    return {name: -2 * eta * c2 * np.asarray(each.second) for name, each in space.charge_drift(params, slope).items()}


def _of_batches(space: Any, batches: MiniBatches, params: Any, eta: float) -> tuple[Charges, Charges]:
    """The mean of what a step adds by its square, over the step; and what the mean gradient does at first order."""
    gradients, mean, share = batches.slopes(params)
    second = jax.vmap(lambda g: {name: each.second for name, each in space.charge_drift(params, g).items()})
    each, whole = second(gradients), space.charge_drift(params, mean)
    mixed = lambda name, own: (1 - share) * np.asarray(own.second) + share * np.asarray(each[name]).mean(0)
    rates = {name: eta * mixed(name, own) for name, own in whole.items()}
    return rates, {name: -np.asarray(own.first) for name, own in whole.items()}
