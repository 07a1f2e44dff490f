r"""The flow that the mean of training by mini-batches follows, to first order in the step.

An epoch is m steps, $\theta_k = \theta_{k-1} - \eta \nabla L_k(\theta_{k-1})$, and $L$ the mean of the $L_k$. With
$g_k = \nabla L_k$ and $H_k$ its derivative, it moves by $-\eta \sum_k g_k + \eta^2 \sum_{j<k} H_k g_j + O(\eta^3)$;
a flow $\dot\theta = -\nabla L + \eta v$ in the time $m \eta$ moves by
$-m \eta \nabla L + m \eta^2 v + \tfrac12 m^2 \eta^2 H \nabla L$. Hence, if $E$ is the mean over what is drawn,

$$v = \frac1m \sum_k E\, H_k u_k, \qquad u_k = \sum_{j<k} g_j - \tfrac12 \sum_j g_j .$$

- *fixed* (one order for ever): this is it, the gradient of no function unless the $H_j g_k - H_k g_j$ cancel;
- *shuffled* (the same batches in an order that is drawn): $E u_k = - g_k / 2$, so that v is minus the gradient of
  $\tfrac{1}{4m} \sum_k |\nabla L_k|^2$ (Smith, Dherin, Barrett and De, 2021);
- *reshuffled* (N examples are dealt into batches of B again and again): the mean of that over batches,
  $\tfrac14 \big((1 - c) |\nabla L|^2 + c\, \tfrac1N \sum_i |\nabla \ell_i|^2\big)$, $c = \tfrac{N - B}{B (N - 1)}$;
- *replacement* (batches of B independent examples): $\tfrac14 |\nabla L|^2$, as with all examples at once.

Where a charge q of `charge_rates` is quadratic, a step adds $\eta^2 q(\nabla L_k)$ exactly, so that it is broken at the
rate $\eta\, E\, q(\nabla L_B)$. Without replacement the mean path says as much; with it, only the noise around it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from quotax.checks import finite_params, whole_number
from quotax.discretisation.backward_errors import runge_kutta
from quotax.errors import DiscretisationError
from quotax.presenting import Result
from quotax.trees import AnyArray, Tree

CALL = "quotax.mini_batches"
ORDERS = ("shuffled", "fixed", "reshuffled", "replacement")


@dataclass(frozen=True, eq=False, repr=False)
class MiniBatches(Result):
    """Training by mini-batches, and the flow that its mean follows to first order in the step.

    Attributes:
        order: how batches are drawn.
        examples: how many there are.
        size: of a batch.
        steps: in an epoch.
        has_loss: whether the flow is the gradient flow of a loss, whatever the loss that is trained.
    """

    order: str
    examples: int
    size: int
    _loss: Callable[..., Tree] = field(repr=False)
    _batches: Tree = field(repr=False)

    _also = ("steps", "has_loss")

    @property
    def steps(self) -> int:
        """In an epoch."""
        return self.examples // self.size

    @property
    def has_loss(self) -> bool:
        """Whether the flow is a gradient flow."""
        return self.order != "fixed"

    def __str__(self) -> str:
        """What the mean follows, on one line."""
        c = (self.examples - self.size) / (self.size * max(self.examples - 1, 1))
        added = {
            "shuffled": f"eta/(4 * {self.steps}) sum_k |grad L_k|^2",
            "fixed": f"eta/{self.steps} sum_k H_k (sum_(j<k) g_j - {self.steps}/2 grad L), no gradient",
            "reshuffled": f"eta/4 ({1 - c:.4g} |grad L|^2 + {c:.4g} mean_i |grad l_i|^2)",
            "replacement": "eta/4 |grad L|^2",
        }[self.order]
        return f"{self.steps} batches of {self.size}, {self.order}: L + {added}"

    # --- the flow

    def loss(self, params: Tree, eta: float) -> jax.Array:
        """The modified loss at given parameters."""
        if not self.has_loss:
            raise DiscretisationError(
                "`MiniBatches.loss`: batches in one fixed order follow no gradient flow; `velocity` has the flow, and "
                "order='shuffled' a modified loss."
            )
        return _modified(self._loss, self._batches, self.order, params, eta)

    def velocity(self, params: Tree, eta: float) -> Tree:
        """The velocity of the flow, by one derivative along a vector for each batch (`reshuffled`: each example)."""
        return _velocity(self._loss, self._batches, self.order, params, eta)

    def run(self, params: Tree, eta: float, time: float, steps: int = 100) -> Tree:
        """Where the flow is after a time, in so many steps of Runge and Kutta; an epoch takes `self.steps * eta`."""
        params = finite_params(CALL, params)
        whole_number(DiscretisationError, CALL, "steps", steps, 1)
        return _flow(self._loss, self._batches, self.order, params, eta, time / steps, steps)

    # --- training

    def train(self, params: Tree, eta: float, epochs: int = 1, key: Any = None) -> Tree:
        """The parameters after some epochs; jit, and vmap over keys, apply."""
        if self.order != "fixed" and key is None:
            raise DiscretisationError(
                f"`MiniBatches.train`: batches are {self.order}: key= draws them, as in key=jax.random.key(0)."
            )
        epochs = whole_number(DiscretisationError, CALL, "epochs", epochs, 0)
        drawn = jax.random.key(0) if key is None else key
        return _train(self._loss, self._batches, self.order, params, eta, epochs, drawn)

    def path(self, params: Tree, eta: float, epochs: int, key: Any = None) -> Iterator[Tree]:
        """The parameters at the start and after every epoch, one after another: none are kept."""
        epochs = whole_number(DiscretisationError, CALL, "epochs", epochs, 0)
        if self.order != "fixed" and key is None:
            self.train(params, eta, 0)  # which says what is missing
        drawn = jax.random.key(0) if key is None else key
        return self._path(params, eta, iter(jax.random.split(drawn, max(epochs, 1))[:epochs]))

    def _path(self, params: Tree, eta: float, keys: Iterator[Any]) -> Iterator[Tree]:
        yield params
        for key in keys:
            params = self.train(params, eta, 1, key)
            yield params

    # --- what charges feel

    def slopes(self, params: Tree) -> tuple[Tree, Tree, float]:
        r"""Gradients by row, their mean, and the c of $E\, q(\nabla L_B) = (1 - c) q(mean) + c \bar q$."""
        single = self.order in ("reshuffled", "replacement")
        each = _apart(self._batches) if single else self._batches
        gradients = jax.lax.map(lambda b: jax.grad(self._loss)(params, b), each)
        mean = jax.tree.map(lambda g: g.mean(0), gradients)
        return gradients, mean, _share(self.order, self.examples, self.size)


def mini_batches(
    loss: Callable[[Tree, Tree], Any], batch: Tree, size: int, order: str = "shuffled", *, key: Any = None
) -> MiniBatches:
    """Training by mini-batches of a mean over examples: the flow its mean follows, and the training itself.

    Args:
        loss: `loss(params, batch)`, a mean over the batch's examples.
        batch: all examples, arrays that share their leading axis.
        size: of a batch; it divides the number of examples.
        order: `"shuffled"`: the same batches in an order that is drawn for each epoch; `"fixed"`: in one order;
            `"reshuffled"`: examples are dealt again for each epoch; `"replacement"`: every batch is drawn by itself.
        key: a JAX key by which examples are dealt into batches; as they come if none is given.

    Example:
        >>> import jax.numpy as jnp
        >>> found = mini_batches(lambda p, x: jnp.mean((p - x) ** 2) / 2, jnp.array([0.0, 1.0, 2.0, 3.0]), 2)
        >>> print(found)
        2 batches of 2, shuffled: L + eta/(4 * 2) sum_k |grad L_k|^2
        >>> float(found.velocity(jnp.array(2.0), 0.1)), float(found.loss(jnp.array(1.5), 0.1))
        (-0.5249999761581421, 0.6499999761581421)
    """
    if not callable(loss):
        raise DiscretisationError(f"`{CALL}` needs loss(params, batch), got {type(loss).__name__}.")
    if order not in ORDERS:
        raise DiscretisationError(f"`{CALL}` knows the orders {', '.join(ORDERS)}; got {order!r}.")
    size = whole_number(DiscretisationError, CALL, "size", size, 1)
    arrays = jax.tree.map(jnp.asarray, batch)
    lengths = sorted({a.shape[0] if a.ndim else 0 for a in jax.tree.leaves(arrays)})
    if len(lengths) != 1 or lengths[0] == 0:
        raise DiscretisationError(f"`{CALL}` needs arrays with one leading axis of examples, got lengths {lengths}.")
    count = lengths[0]
    if count % size:
        near = max(k for k in range(1, size + 1) if count % k == 0)
        raise DiscretisationError(
            f"`{CALL}`: batches of {size} do not divide {count} examples, and the mean over batches is then another "
            f"loss than that over examples; size={near} does."
        )
    dealt = arrays if key is None else jax.tree.map(lambda a: a[jax.random.permutation(key, count)], arrays)
    stacked = jax.tree.map(lambda a: a.reshape(count // size, size, *a.shape[1:]), dealt)
    return MiniBatches(order, count, size, loss, stacked)


# --- the flow


def _apart(batches: Tree) -> Tree:
    """Every example as a batch of one."""
    return jax.tree.map(lambda a: a.reshape(-1, 1, *a.shape[2:]), batches)


def _share(order: str, examples: int, size: int) -> float:
    """How much of the mean over gradients themselves there is in that over batches."""
    found = {"reshuffled": (examples - size) / (size * max(examples - 1, 1)), "replacement": 1 / size}
    return found.get(order, 1.0)


def _shape(batches: Tree) -> tuple[int, int]:
    steps, size = jax.tree.leaves(batches)[0].shape[:2]
    return steps, size


def _mean(loss: Any, batches: Tree) -> Callable[[Tree], Any]:
    return lambda p: jax.lax.map(jax.checkpoint(lambda b: loss(p, b)), batches).mean(0)


@functools.partial(jax.jit, static_argnums=(0, 2))
def _modified(loss: Any, batches: Tree, order: str, params: Tree, eta: AnyArray) -> jax.Array:
    steps, size = _shape(batches)
    square = lambda tree: sum(jnp.vdot(a, a) for a in jax.tree.leaves(tree))
    each = _apart(batches) if order == "reshuffled" else batches
    count = jax.tree.leaves(each)[0].shape[0]

    def add(carry: Tree, b: AnyArray) -> tuple[Tree, None]:
        own = jax.grad(loss)(params, b)
        return (jax.tree.map(lambda a, g: a + g / count, carry[0], own), carry[1] + square(own) / count), None

    start = jax.tree.map(jnp.zeros_like, params), jnp.zeros((), jnp.result_type(*jax.tree.leaves(params)))
    (mean, squares), _ = jax.lax.scan(add, start, each)
    whole = square(mean)
    share = 0.0 if order == "replacement" else _share(order, steps * size, size)
    return _mean(loss, batches)(params) + eta / 4 * ((1 - share) * whole + share * squares)


@functools.partial(jax.jit, static_argnums=(0, 2))
def _velocity(loss: Any, batches: Tree, order: str, params: Tree, eta: AnyArray) -> Tree:
    steps, size = _shape(batches)
    add = lambda a, b, weight=1.0: jax.tree.map(lambda x, y: x + jnp.asarray(weight, x.dtype) * y, a, b)
    zero = jax.tree.map(jnp.zeros_like, params)
    slope = lambda b: jax.grad(lambda p: loss(p, b))
    along = lambda b, v: jax.jvp(slope(b), (params,), (v,))[1]

    def total(carry: Tree, b: AnyArray) -> tuple[Tree, None]:
        return add(carry, slope(b)(params)), None

    mean = jax.tree.map(lambda x: x / steps, jax.lax.scan(total, zero, batches)[0])
    each = _apart(batches) if order == "reshuffled" else batches
    share = _share(order, steps * size, size) if order == "reshuffled" else 1.0

    def term(carry: Tree, b: AnyArray) -> tuple[Tree, None]:
        before, found = carry
        own = slope(b)(params)
        if order == "fixed":
            u = add(before, mean, -steps / 2)
        elif order == "replacement":
            u = jax.tree.map(lambda x: -x / 2, mean)
        else:  # H_i ((1 - c) mean + c g_i), whose mean is (1 - c) H grad L + c mean H_i g_i
            u = jax.tree.map(lambda x, y: -((1 - share) * x + share * y) / 2, mean, own)
        return (add(before, own), add(found, along(b, u))), None

    count = jax.tree.leaves(each)[0].shape[0]
    bent = jax.lax.scan(term, (zero, zero), each)[0][1]
    return jax.tree.map(lambda g, v: -g + jnp.asarray(eta / count, g.dtype) * v, mean, bent)


@functools.partial(jax.jit, static_argnums=(0, 2))
def _flow(loss: Any, batches: Tree, order: str, params: Tree, eta: AnyArray, step: AnyArray, steps: AnyArray) -> Tree:
    return runge_kutta(lambda p: _velocity(loss, batches, order, p, eta), params, step, steps)


# --- training


@functools.partial(jax.jit, static_argnums=(0, 2, 5))
def _train(loss: Any, batches: Tree, order: str, params: Tree, eta: AnyArray, epochs: int, key: Any) -> Tree:
    steps, size = _shape(batches)
    flat = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), batches)
    places = jnp.arange(steps * size).reshape(steps, size)

    def drawn(key: Any) -> jax.Array:
        if order == "fixed":
            return places
        if order == "shuffled":
            return jax.random.permutation(key, places)
        if order == "reshuffled":
            return jax.random.permutation(key, steps * size).reshape(steps, size)
        return jax.random.randint(key, (steps, size), 0, steps * size)

    def step(p: Tree, chosen: jax.Array) -> tuple[Tree, None]:
        slope = jax.grad(loss)(p, jax.tree.map(lambda a: a[chosen], flat))
        return jax.tree.map(lambda a, g: a - jnp.asarray(eta, g.dtype) * g, p, slope), None

    epoch = lambda p, key: (jax.lax.scan(step, p, drawn(key))[0], None)
    return jax.lax.scan(epoch, params, jax.random.split(key, epochs))[0]
