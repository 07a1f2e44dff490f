r"""The flow that a scheme follows, of any loss: as SymPy expressions and as JAX functions.

To first order it is the gradient flow of another loss,
$\tilde L = c_1 L - \tfrac{\eta c_2}{2} |\nabla L|^2$: for gradient descent $L + \tfrac\eta4 |\nabla L|^2$ (Barrett and
Dherin, 2021), for momentum $\tfrac{1}{1-\beta} L + \eta \tfrac{1+\beta}{4 (1-\beta)^3} |\nabla L|^2$. The next term is

$$-\eta^2 \big( c_{32} H^2 \nabla L + c_{31} \nabla^3 L(\nabla L, \nabla L) \big),$$

the gradient of $\tfrac12 c_{32} \nabla L^T H \nabla L$ where $c_{32} = 2 c_{31}$, and of no function in general where
not. For gradient descent the two are 1/3 and 1/12: to second order there is a modified flow, and no modified loss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import sympy as sp

from quotax.checks import finite_params, whole_number
from quotax.discretisation.schemes import Scheme, gradient_descent
from quotax.errors import DiscretisationError
from quotax.presenting import Result
from quotax.trees import AnyArray, Tree

CALL = "quotax.modified_flow"


@dataclass(frozen=True, repr=False)
class ModifiedFlow(Result):
    """The flow that a scheme follows, to some order in the step.

    Attributes:
        scheme: by its name.
        order: the highest power of the step: 0 is gradient flow.
        coefficients: by what they multiply, as SymPy expressions.
        has_loss: whether it is the gradient flow of a loss, whatever the loss that is trained.
    """

    scheme: Scheme
    order: int
    coefficients: dict[str, sp.Expr]
    has_loss: bool

    def __str__(self) -> str:
        """The flow, on one line."""
        c1, c2, c31, c32 = self.coefficients.values()
        terms = [
            f"({c1}) grad L",
            f"eta ({-c2}) H grad L",
            f"eta^2 (({c32}) H^2 grad L + ({c31}) D^3 L(grad L, grad L))",
        ]
        return f"{self.scheme.name}: theta' = -[{' + '.join(terms[: self.order + 1])}]"

    # --- as SymPy expressions

    def field(self, loss: sp.Expr, symbols: Sequence[sp.Symbol], eta: AnyArray = None) -> list[sp.Expr]:
        """The velocity of every symbol, for a loss that is an expression of them."""
        h = sp.Symbol("eta", positive=True) if eta is None else sp.sympify(eta)
        f = [-sp.diff(loss, x) for x in symbols]
        along = lambda field, v: [sum(sp.diff(e, x) * w for x, w in zip(symbols, v, strict=True)) for e in field]
        c1, c2, c31, c32 = self.coefficients.values()
        total = [c1 * e for e in f]
        once = along(f, f) if self.order else f
        if self.order >= 1:
            total = [a + h * c2 * b for a, b in zip(total, once, strict=True)]
        if self.order >= 2:
            twice = along(f, once)
            pairs = list(zip(symbols, f, strict=True))
            bent = [sum(sp.diff(e, x, y) * v * w for x, v in pairs for y, w in pairs) for e in f]
            total = [a + h**2 * (c31 * b + c32 * c) for a, b, c in zip(total, bent, twice, strict=True)]
        return total

    def loss(self, loss: sp.Expr, symbols: Sequence[sp.Symbol], eta: AnyArray = None) -> sp.Expr:
        """The modified loss, to first order."""
        h = sp.Symbol("eta", positive=True) if eta is None else sp.sympify(eta)
        c1, c2, c31, c32 = self.coefficients.values()
        slope = [sp.diff(loss, x) for x in symbols]
        found = c1 * loss
        if self.order >= 1:
            found -= h * c2 / 2 * sum(e**2 for e in slope)
        if self.order >= 2:
            if not self.has_loss:
                raise DiscretisationError(
                    f"`ModifiedFlow.loss`: to second order {self.scheme.name} follows no gradient flow ({c32} is not "
                    f"twice {c31}); `field` has its velocity, and order=1 the modified loss."
                )
            pairs = list(zip(symbols, slope, strict=True))
            found += h**2 * c32 / 2 * sum(sp.diff(loss, x, y) * v * w for x, v in pairs for y, w in pairs)
        return found

    # --- as JAX functions

    def velocity(self, loss: Callable[[Tree], Any], eta: float) -> Callable[[Tree], Tree]:
        """The velocity at given parameters, by a few derivatives along vectors: no Hessian is written out."""
        return functools.partial(_velocity, loss, self.scheme.numbers, self.order, eta)

    def run(self, loss: Callable[[Tree], Any], params: Tree, eta: float, time: float, steps: int = 200) -> Tree:
        """Where the flow is after a time, by so many steps of Runge and Kutta's method of order four.

        Whether they are enough is seen with twice as many.
        """
        params = finite_params(CALL, params)
        whole_number(DiscretisationError, CALL, "steps", steps, 1)
        return _flow(loss, self.scheme.numbers, self.order, params, eta, time / steps, steps)


def modified_flow(scheme: Scheme | None = None, order: int = 1) -> ModifiedFlow:
    """The flow that a scheme follows to some order in its step: backward error analysis.

    Args:
        scheme: gradient descent, if none is given: see `quotax.gradient_descent`, `quotax.heavy_ball`,
            `quotax.nesterov`, `quotax.implicit`, or make a `quotax.Scheme`.
        order: 0 to 2; the scheme after a fixed time differs from the flow by one power of the step more.

    Example:
        >>> import sympy as sp
        >>> x = sp.Symbol("x")
        >>> modified_flow().loss(x**2 / 2, [x])
        eta*x**2/4 + x**2/2
        >>> print(modified_flow(order=1))
        gradient descent: theta' = -[(1) grad L + eta (1/2) H grad L]
    """
    chosen = gradient_descent() if scheme is None else scheme
    if not isinstance(chosen, Scheme):
        raise DiscretisationError(f"`{CALL}` needs a `quotax.Scheme`, got {scheme!r}.")
    if order not in (0, 1, 2):
        raise DiscretisationError(f"`{CALL}` knows orders 0, 1 and 2, got {order!r}.")
    _, _, c31, c32 = chosen.coefficients.values()
    return ModifiedFlow(chosen, order, chosen.coefficients, order < 2 or sp.simplify(c32 - 2 * c31) == 0)


def _velocity(loss: Any, constants: tuple[float, ...], order: int, eta: AnyArray, params: Tree) -> Tree:
    c1, c2, c31, c32 = constants
    f = lambda p: jax.tree.map(jnp.negative, jax.grad(loss)(p))
    along = lambda v: jax.jvp(f, (params,), (v,))[1]
    start = f(params)
    parts, weights = [start], [c1]
    once = along(start) if order else start
    if order >= 1:
        parts, weights = [*parts, once], [*weights, eta * c2]
    if order >= 2:
        bent = jax.jvp(lambda p: jax.jvp(f, (p,), (start,))[1], (params,), (start,))[1]
        parts, weights = [*parts, bent, along(once)], [*weights, eta**2 * c31, eta**2 * c32]
    return jax.tree.map(lambda *leaves: sum(w * x for w, x in zip(weights, leaves, strict=True)), *parts)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _flow(loss: Any, constants: Any, order: int, params: Tree, eta: AnyArray, step: AnyArray, steps: AnyArray) -> Tree:
    return runge_kutta(functools.partial(_velocity, loss, constants, order, eta), params, step, steps)


def runge_kutta(g: Callable[[Tree], Tree], params: Tree, step: AnyArray, steps: AnyArray) -> Tree:
    """Where a field leads in so many steps of the method of order four."""
    move = lambda p, v, h: jax.tree.map(lambda a, b: a + jnp.asarray(h, a.dtype) * b, p, v)

    def once(_: Any, p: Tree) -> Tree:
        k1 = g(p)
        k2 = g(move(p, k1, step / 2))
        k3 = g(move(p, k2, step / 2))
        k4 = g(move(p, k3, step))
        return move(p, jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, k1, k2, k3, k4), step)

    return jax.lax.fori_loop(0, steps, once, params)
