r"""Schemes of gradient descent, and the flow that each follows: backward error analysis by SymPy.

A scheme is $\sum_j a_j \theta_{k+j} = \eta f(\sum_j d_j \theta_{k+j})$ with $f = -\nabla L$, $\sum_j a_j = 0$ and
$\sum_j d_j = 1$: gradient descent, the heavy ball, Nesterov's method, implicit steps. It is followed, to any order in
$\eta$, by a flow in the time $t = k \eta$

$$\dot\theta = c_1 f + \eta\, c_2 f' f + \eta^2 (c_{31} f''(f, f) + c_{32} f' f' f) + O(\eta^3),$$

with which $\theta(t + j \eta)$ satisfies the scheme. With $S_n = \sum_j j^n a_j$ and $D_n = \sum_j j^n d_j$, equal
powers of $\eta$ give, one after the other,

$$S_1 c_1 = 1, \quad S_1 c_2 = D_1 c_1 - \tfrac12 S_2 c_1^2, \quad
S_1 c_{31} = \tfrac12 D_1^2 c_1^2 - \tfrac12 S_2 c_1 c_2 - \tfrac16 S_3 c_1^3, \quad
S_1 c_{32} = D_1 c_2 + \tfrac12 D_2 c_1^2 - S_2 c_1 c_2 - \tfrac16 S_3 c_1^3.$$

A scheme with memory has other solutions besides, powers of the other roots of $\sum_j a_j z^j$: what they start with
dies out within a few steps where these roots lie inside the unit circle, as $\beta^k$ for momentum.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from quotax.checks import whole_number
from quotax.errors import DiscretisationError
from quotax.presenting import Result
from quotax.trees import AnyArray, Tree


@dataclass(frozen=True, repr=False)
class Scheme(Result):
    """A scheme of gradient descent.

    Attributes:
        name: what it is called.
        steps: $a_j$, oldest first.
        point: $d_j$: where the gradient is taken.

    >>> heavy_ball(sp.Symbol("beta")).coefficients["f'f"].factor()
    (beta + 1)/(2*(beta - 1)**3)
    """

    name: str
    steps: tuple[Tree, ...]
    point: tuple[Tree, ...]

    @functools.cached_property
    def coefficients(self) -> dict[str, sp.Expr]:
        """The constants of the flow, by what they multiply."""
        a, d = ([sp.nsimplify(x) for x in row] for row in (self.steps, self.point))
        S = [sum(sp.Integer(j) ** n * x for j, x in enumerate(a)) for n in range(4)]
        D = [sum(sp.Integer(j) ** n * x for j, x in enumerate(d)) for n in range(3)]
        if sp.simplify(S[0]) != 0 or sp.simplify(D[0] - 1) != 0 or sp.simplify(S[1]) == 0:
            raise DiscretisationError(
                f"`Scheme({self.name!r})`: steps must sum to zero, point to one, and steps must move: got steps "
                f"{self.steps} and point {self.point}."
            )
        c1 = 1 / S[1]
        c2 = (D[1] * c1 - S[2] * c1**2 / 2) / S[1]
        c31 = (D[1] ** 2 * c1**2 / 2 - S[2] * c1 * c2 / 2 - S[3] * c1**3 / 6) / S[1]
        c32 = (D[1] * c2 + D[2] * c1**2 / 2 - S[2] * c1 * c2 - S[3] * c1**3 / 6) / S[1]
        found = {"f": c1, "f'f": c2, "f''(f,f)": c31, "f'f'f": c32}
        return {name: sp.factor(sp.simplify(value)) for name, value in found.items()}

    @functools.cached_property
    def numbers(self) -> tuple[float, float, float, float]:
        """The constants as numbers."""
        left = set().union(*(value.free_symbols for value in self.coefficients.values()))
        if left:
            raise DiscretisationError(
                f"`{self.name}`: {', '.join(map(str, left))} has no value: make it with a number."
            )
        c1, c2, c31, c32 = (float(value) for value in self.coefficients.values())
        return c1, c2, c31, c32

    # --- the scheme itself

    def run(self, loss: Callable[[Tree], Any], params: Tree, eta: float, steps: int) -> Tree:
        """The parameters after some steps from rest; explicit schemes alone."""
        if self.point[-1] != 0:
            raise DiscretisationError(f"`{self.name}` is implicit: its steps are equations, which are not solved here.")
        return _run(loss, (params,) * (len(self.steps) - 1), eta, int(steps), self)[-1]

    def path(self, loss: Callable[[Tree], Any], params: Tree, eta: float, steps: int, every: int = 1) -> Iterator[Tree]:
        """The parameters at the start and after every so many steps from rest, one after another: none are kept."""
        if self.point[-1] != 0:
            raise DiscretisationError(f"`{self.name}` is implicit: its steps are equations, which are not solved here.")
        steps = whole_number(DiscretisationError, "Scheme.path", "steps", steps, 0)
        every = whole_number(DiscretisationError, "Scheme.path", "every", every, 1)
        return self._path(loss, params, eta, steps, every)

    def _path(self, loss: Callable[[Tree], Any], params: Tree, eta: float, steps: int, every: int) -> Iterator[Tree]:
        points = (params,) * (len(self.steps) - 1)
        yield params
        for _ in range(steps // every):
            points = _run(loss, points, eta, every, self)
            yield points[-1]

    def decay(self, values: AnyArray, eta: float, steps: int) -> np.ndarray:
        """What is left after some steps from rest of errors of a quadratic loss, by the eigenvalues of its Hessian."""
        found = np.asarray(values, float)
        size = len(self.steps) - 1
        row = [-(np.asarray(float(a)) + eta * found * float(d)) for a, d in zip(self.steps, self.point, strict=True)]
        matrix = np.zeros((*found.shape, size, size))
        matrix[..., np.arange(size - 1), np.arange(1, size)] = 1
        for place in range(size):
            matrix[..., -1, place] = row[place] / -row[-1]
        return np.linalg.matrix_power(matrix, int(steps))[..., -1, :].sum(-1)


def gradient_descent() -> Scheme:
    r"""$\theta_{k+1} = \theta_k - \eta \nabla L(\theta_k)$."""
    return Scheme("gradient descent", (-1, 1), (1, 0))


def heavy_ball(beta: AnyArray) -> Scheme:
    r"""$\theta_{k+1} = \theta_k + \beta (\theta_k - \theta_{k-1}) - \eta \nabla L(\theta_k)$."""
    return Scheme(f"heavy ball with momentum {beta}", (beta, -1 - beta, 1), (0, 1, 0))


def nesterov(beta: AnyArray) -> Scheme:
    r"""The same, with the gradient at $\theta_k + \beta (\theta_k - \theta_{k-1})$."""
    return Scheme(f"Nesterov's method with momentum {beta}", (beta, -1 - beta, 1), (-beta, 1 + beta, 0))


def implicit(share: Any = 1) -> Scheme:
    """The gradient taken a share of the way along the step: 1 is implicit Euler, 1/2 the midpoint rule."""
    return Scheme(f"implicit steps ({share})", (-1, 1), (1 - share, share))


@functools.partial(jax.jit, static_argnums=(0, 4))
def _run(loss: Callable[[Tree], Any], points: tuple[Tree, ...], eta: Any, steps: Any, scheme: Scheme) -> Any:
    """The last points, as many as the scheme remembers."""
    a, d = ([float(x) for x in row[:-1]] for row in (scheme.steps, scheme.point))
    weighted = lambda weights: lambda *leaves: sum(w * x for w, x in zip(weights, leaves, strict=True))
    mix = lambda weights, points: jax.tree.map(weighted(weights), *points)

    def step(_: Any, points: Any) -> Tree:
        slope = jax.grad(loss)(mix(d, points))
        kept = mix(a, points)
        new = jax.tree.map(lambda x, g: -(x + jnp.asarray(eta, g.dtype) * g) / float(scheme.steps[-1]), kept, slope)
        return (*points[1:], new)

    return jax.lax.fori_loop(0, steps, step, points)
