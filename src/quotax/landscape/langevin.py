r"""Langevin's diffusion on a quotient: which law noise gives, with and without the volume of orbits.

A step goes along the geodesic of a horizontal vector, $-\eta \nabla L$ and noise of variance $2 T \eta$ in every
horizontal direction. Steps of this kind converge to the diffusion on the quotient (a geodesic random walk), whose law
is

$$p(x) \propto e^{-L(x) / T} \, d\mathrm{vol}(x)$$

with the Riemannian volume of the quotient. In the Euclidean metric geodesics are straight lines: the Ito equation
$d\theta = -\nabla L \, dt + \sqrt{2T} \, P_\theta \, dW$ has no drift besides. For let F be constant on orbits, f the
function that it is on the quotient. Its Hessian in a vertical direction u is $-(\nabla_u u) F$, so that, with
$\mathcal H$ the sum of the horizontal parts of $\nabla_{u_a} u_a$ (the mean curvature vector of the orbit),

$$\mathrm{tr}(P \nabla^2 F) = \Delta F + \mathcal H F, \qquad \Delta F = \Delta_{quotient} f - \mathcal H F.$$

The second says what noise in all directions does: Langevin's diffusion of the flat space is on the quotient the one
above with the drift $-T \mathcal H = T \nabla \log \nu$ besides, $\nu$ the volume of orbits. It drifts to large
orbits, and its law is

$$p(x) \propto e^{-L(x) / T} \, \nu(x) \, d\mathrm{vol}(x):$$

noise minimises the free energy $L - T \log \nu$. In space up to rotations $\nu = r^{n - 1}$ and
$T \nabla \log \nu = T (n - 1) / r$, Bessel's process.

Both are approximated to first order in the step, and the law that is left after many steps is off by as much.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from quotax.checks import finite_params
from quotax.errors import InvarianceError, LandscapeError
from quotax.landscape.demands import key_of, positive, quotient_of, scalar, whole
from quotax.presenting import Result
from quotax.presenting.drawing import Axes, drawn, says
from quotax.trees import AnyArray, AnySpace, Tree

CALL = "quotax.langevin"


@dataclass(frozen=True, repr=False)
class LangevinRun(Result):
    """Samples of Langevin's diffusion on a quotient.

    Attributes:
        values: what was observed: arrays whose first axes are samples and chains.
        losses: of the samples, likewise.
        last: the parameters at the end, a leading axis for the chains.
        temperature: T.
        step: of time.
        steps: of every chain, those that were thrown away included.
        volume: how the law got the volume of orbits as a factor, if it has it.
        status: "ok"; "left the domain" of the metric; "not finite", where a smaller step is needed.
    """

    values: AnyArray
    losses: np.ndarray
    last: Tree = field(repr=False)
    temperature: float
    step: float
    steps: int
    volume: str | None
    status: str

    _also = ("independent",)

    @property
    def independent(self) -> float:
        """About how many independent samples the losses are worth: fewer than there are where steps are correlated."""
        losses = self.losses - self.losses.mean()
        power = float(np.mean(losses**2))
        if not np.isfinite(power) or power == 0:
            return float("nan")
        time = 1.0
        for lag in range(1, len(losses)):
            time += 2 * float(np.mean(losses[lag:] * losses[:-lag])) / power
            if lag >= 5 * time:  # Sokal's window
                break
        return self.losses.size / max(time, 1.0)

    def __str__(self) -> str:
        """One readable line."""
        law = "exp(-L / T) times the volume of orbits" if self.volume else "exp(-L / T)"
        return (
            f"{self.losses.size} samples of {law} at T = {self.temperature:g}, steps of {self.step:g} ({self.status}); "
            f"mean loss {self.losses.mean():.4g}, worth about {self.independent:.0f} independent ones"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """The loss along every chain, and return the axes."""
        with drawn(ax, "run.plot()") as (ax, look):
            times = self.step * self.steps * (1 + np.arange(len(self.losses))) / len(self.losses)
            ax.plot(times, self.losses, **(look | {"marker": "", "linewidth": 0.5}))
            ax.set_xlabel("time")
            ax.set_ylabel("loss")
            if not np.isfinite(self.losses).any():
                says(ax, f"no loss is a number ({self.status})")
        return ax


def langevin(
    space: AnySpace,
    loss: Callable[[Tree], Tree],
    params: Tree,
    temperature: float,
    step: float,
    steps: int,
    key: Any = 0,
    *,
    volume: Literal["noise", "drift"] | None = None,
    chains: int = 1,
    every: int = 1,
    burn: int = 0,
    observe: Callable[[Tree], Tree] | None = None,
) -> LangevinRun:
    """Sample the quotient with the law `exp(-loss / temperature)`, by horizontal noise.

    Args:
        space: a quotient by symmetries of the loss, in a metric that is invariant.
        loss: a function of the parameters.
        params: where every chain starts.
        temperature: T.
        step: of time: the gradient moves the parameters by `step` times itself, and noise by `sqrt(2 T step)`.
        steps: of every chain.
        key: a JAX key or an integer.
        volume: None, or how orbits come to count by their volume: `"noise"` in all parameters, along orbits too, or
            horizontal noise and the `"drift"` (which is infinite where orbits shrink to less dimensions, and asks for
            smaller steps there). The law is the same. It needs the Euclidean metric, in which
            only compact orbits have a volume.
        chains: how many run beside one another.
        every: the samples are every so many steps.
        burn: so many samples are thrown away at the beginning.
        observe: a function of the parameters whose values are kept; the parameters themselves if there is none.

    Example:
        The length of a vector in space without a loss but a spring: with the volume of spheres it is Maxwell's law, of
        mean square 3 T, and on the quotient, a half line, that of mean square T.

        >>> import jax.numpy as jnp, quotax as qx
        >>> net = qx.architecture(params={"w": "n"}, inputs={"x": ""})(lambda p, x: jnp.sum(p["w"] ** 2) * x)
        >>> turn = qx.Symmetry("turn", qx.O("n"), {"w": "g @ w"})
        >>> space = qx.quotient(net.at(n=3), turn, metric="euclidean")
        >>> spring, start = lambda p: jnp.sum(p["w"] ** 2) / 2, {"w": jnp.array([1.0, 0.0, 0.0])}
        >>> settings = dict(chains=100, every=50, burn=5, observe=lambda p: jnp.sum(p["w"] ** 2))
        >>> for volume in (None, "noise"):
        ...     run = langevin(space, spring, start, 1.0, 0.02, 1500, volume=volume, **settings)
        ...     print(round(float(run.values.mean())))
        1
        3
    """
    space = quotient_of(CALL, space)
    heat, eta = positive(CALL, "temperature", temperature), positive(CALL, "step", step)
    steps, every = whole(CALL, "steps", steps, 1), whole(CALL, "every", every, 1)
    chains, burn = whole(CALL, "chains", chains, 1), whole(CALL, "burn", burn, 0)
    kept = steps // every
    if burn >= kept:
        raise LandscapeError(
            f"`{CALL}` throws away burn={burn} of {kept} samples ({steps} steps, every {every}): none is left."
        )
    params = finite_params(CALL, params)
    space.network.check_params(params, call=CALL, finite=True)
    scalar(CALL, "loss", loss, params)
    euclidean = space.metric_name == "euclidean"
    if volume not in (None, "noise", "drift"):
        raise LandscapeError(f"`{CALL}` needs volume= None, 'noise' or 'drift', got {volume!r}.")
    if volume and not euclidean:
        raise LandscapeError(
            f"`{CALL}`: volume={volume!r} asks for the law of noise in all parameters, which the Euclidean metric "
            f"measures, and the metric is {space.metric_name!r}. Use `qx.quotient(..., metric='euclidean')` where the "
            "group acts by isometries; where it does not, orbits have no finite volume."
        )
    if not space.metric_certificate:
        raise InvarianceError(
            f"`{CALL}` samples the quotient, and the {space.metric_name} metric is not invariant "
            f"({'; '.join(space.metric_certificate.steps)}): what noise does depends on the representative. "
            "Use metric='invariant'."
        )
    if not euclidean and not bool(space.canonical(params).attained):
        raise LandscapeError(
            f"`{CALL}`: the {space.metric_name} metric is made with canonical representatives, and the orbit of params "
            "has none (a factor of lower rank than its partner, as of a layer that is wider than what it reads or "
            "writes): steps would search for it in vain."
        )
    look = observe or (lambda p: p)
    start = jax.tree.map(lambda a: jnp.broadcast_to(a, (chains, *a.shape)), params)
    dtype = jnp.result_type(*jax.tree.leaves(params))
    numbers = jnp.asarray(heat, dtype), jnp.asarray(eta, dtype)
    last, fine, (values, losses) = _run(
        _Chain(space, loss, look, volume or "quotient"), (chains, kept, every), start, key_of(CALL, key), *numbers
    )
    values, losses = jax.tree.map(lambda a: np.asarray(a)[burn:], (values, losses))
    finite = bool(np.isfinite(losses).all()) and all(np.isfinite(np.asarray(a)).all() for a in jax.tree.leaves(last))
    status = "not finite" if not finite else "ok" if bool(np.all(fine)) else "left the domain"
    return LangevinRun(values, losses, last, heat, eta, steps, volume, status)


@dataclass(frozen=True, eq=False)
class _Chain:
    space: AnySpace
    loss: Callable[[Tree], Tree]
    look: Callable[[Tree], Tree]
    law: Literal["quotient", "noise", "drift"]

    def step(self, params: Tree, key: jax.Array, heat: jax.Array, eta: jax.Array) -> tuple[Any, jax.Array]:
        """One step, and whether it stayed in the domain."""
        leaves, tree = jax.tree.flatten(params)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(k, a.shape, a.dtype) for k, a in zip(keys, leaves, strict=True)]
        kick, pull = jax.tree.unflatten(tree, noise), jax.grad(self.loss)(params)
        both = lambda n, p: jnp.sqrt(2 * heat * eta) * n - eta * p
        if self.law == "noise":
            return jax.tree.map(lambda a, n, p: a + both(n, p), params, kick, pull), jnp.asarray(True)
        point = self.space.at(params)
        pull = point.gradient(pull)
        if self.law == "drift":
            drift = jax.tree.map(lambda a: heat * a, point.volume_slope())
            size = sum(jnp.vdot(a, a) for a in jax.tree.leaves(drift))
            # Infinite where orbits shrink to less dimensions: no step is longer than noise, to first order the same.
            pull = jax.tree.map(lambda a, b: a - b / (1 + eta * size / (2 * heat)), pull, drift)
        move = jax.tree.map(both, point.level(kick), point.whiten(pull))
        if point.bends_vertically:
            return jax.tree.map(jnp.add, params, point.unwhiten(move)), jnp.asarray(True)
        path = point.ray(move)
        return jax.tree.unflatten(tree, jax.tree.leaves(path.end)), path.ok

    def rebalanced(self, params: Tree) -> Tree:
        """A representative that is no worse than the point: steps along straight lines leave balance behind."""
        if self.space.metric_name == "euclidean":
            return params
        return jax.tree.unflatten(jax.tree.structure(params), jax.tree.leaves(self.space.canonical(params).params))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _run(
    chain: _Chain, counts: tuple[int, int, int], start: Tree, key: jax.Array, heat: jax.Array, eta: jax.Array
) -> tuple[Any, jax.Array, tuple[Any, jax.Array]]:
    """All chains to their end, what was observed on the way, and whether each stayed in the domain."""
    chains, kept, every = counts

    def one(carried: Tree, key: jax.Array) -> tuple[Tree, None]:
        params, fine = carried
        end, ok = jax.vmap(lambda p, k: chain.step(p, k, heat, eta))(params, jax.random.split(key, chains))
        return (end, fine & ok), None

    def some(carried: Tree, key: jax.Array) -> tuple[Any, tuple[Any, jax.Array]]:
        (params, fine), _ = jax.lax.scan(one, carried, jax.random.split(key, every))
        carried = jax.vmap(chain.rebalanced)(params), fine
        return carried, (jax.vmap(chain.look)(carried[0]), jax.vmap(chain.loss)(carried[0]))

    (last, fine), seen = jax.lax.scan(
        some, (jax.vmap(chain.rebalanced)(start), jnp.ones(chains, bool)), jax.random.split(key, kept)
    )
    return last, fine, seen
