r"""The PAC-Bayes bound with Gaussian noise (McAllester 1999; Dziugaite and Roy 2017), computed as it is stated.

With probability $1 - \delta$ over n examples, for every $\theta$ and every $\sigma$ of J that were chosen before,

$$\mathbb E_\epsilon[\text{error}(\theta + \sigma \epsilon)] \le \hat e
+ \sqrt{\frac{|\theta - \theta_0|^2 / (2 \sigma^2)
+ \ln(2 \sqrt n J / \delta)}{2 n}}, \qquad \hat e \le \bar e + \sqrt{\frac{\ln(2 J / \delta')}{2 m}},$$

where $\bar e$ is the training error over m draws of the noise. It is about the noisy network, not about $\theta$. The
noise is isotropic in the Euclidean metric, so that the bound changes along orbits of rescalings although errors do
not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.checks import whole_number
from quotax.complexity.flatness import ISOMETRY, ROOM
from quotax.complexity.measure import Measure
from quotax.complexity.networks.measured_network import TOGETHER, MeasuredNetwork, margins_of, measured
from quotax.complexity.parameter_norms import length
from quotax.complexity.routes import Claim, Estimated, Route
from quotax.errors import ComplexityError
from quotax.presenting import Result
from quotax.programs.compiling import beside
from quotax.trees import AnyArray, Tree

CALL = "quotax.pac_bayes"
SCALES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Standard deviations of the noise; they do not depend on the examples."""


@dataclass(frozen=True, repr=False)
class PacBayes(Result):
    """The bound at the best standard deviation, and its terms.

    Attributes:
        value: bounds the expected error of the noisy network; above 1 it says nothing.
        scale: the standard deviation of the noise.
        noisy_error: the training error under noise, over the draws.
        draw_term: what the number of draws costs.
        complexity_term: the root.
        divergence: `|theta - theta_0|^2 / (2 sigma^2)`.
        inverse: the tighter bound by inverting the binary relative entropy.
        values: the bound at every scale.
        scales: these.
        samples: draws of the noise.
        delta: with which probability the bound may fail: half of it for the examples, half for the draws.
    """

    value: float
    scale: float
    noisy_error: float
    draw_term: float
    complexity_term: float
    divergence: float
    inverse: float
    values: np.ndarray
    scales: np.ndarray
    samples: int
    delta: float

    def __str__(self) -> str:
        """Two readable lines."""
        return (
            f"noisy error <= {self.value:.4g} with probability {1 - self.delta:g} "
            f"(by the relative entropy {self.inverse:.4g})\n"
            f"noise {self.scale:g}: training error {self.noisy_error:.4g} + draws {self.draw_term:.3g} + complexity "
            f"{self.complexity_term:.4g} (divergence {self.divergence:.4g})"
        )


def pac_bayes(
    net: Callable[..., Tree],
    params: Tree,
    inputs: Tree,
    labels: AnyArray,
    *,
    prior: Any = None,
    scales: Sequence[float] = SCALES,
    samples: int = 200,
    delta: float = 0.01,
    seed: int = 0,
) -> PacBayes:
    """The PAC-Bayes bound of a classifier with Gaussian noise on its parameters.

    Args:
        net: a network, or a function `net(params, x)` of one example.
        params: a pytree of floating-point arrays: the mean of the noise.
        inputs: an array whose first axis counts examples, or a tuple of one for each input of the network.
        labels: whole numbers, one for each example, or signs where the network has a single output.
        prior: the mean of the prior, chosen before the examples were seen, such as the initial parameters; zero.
        scales: standard deviations that are tried.
        samples: draws of the noise at each.
        delta: the probability with which the bound may fail.
        seed: of the draws.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> x = jax.random.normal(jax.random.key(0), (400, 2))
        >>> found = pac_bayes(lambda p, x: p @ x, jnp.array([1.0, 0.0]), x, jnp.sign(x[:, 0]))
        >>> found.scale, found.value < 0.5
        (0.3, True)
    """
    subject = measured(CALL, net, params, inputs, labels, start=prior, seed=seed)
    whole_number(ComplexityError, CALL, "samples", samples, 1)
    if not 0 < delta < 1:
        raise ComplexityError(f"`{CALL}` needs 0 < delta < 1, got {delta!r}.")
    sigma = np.asarray(list(scales), float)
    if not sigma.size or not (np.isfinite(sigma) & (sigma > 0)).all():
        raise ComplexityError(f"`{CALL}` needs scales= of positive numbers, got {list(scales)!r}.")
    return bound(subject, sigma, samples, delta)


def bound(subject: MeasuredNetwork, sigma: np.ndarray, samples: int, delta: float) -> PacBayes:
    """The bound at the best of some standard deviations."""
    if subject.kind == "values":
        raise ComplexityError(f"`{subject.call}` is about errors of classes or signs, and the labels are values.")
    n, count = subject.count, len(sigma)
    start = subject.start if subject.start is not None else jax.tree.map(jnp.zeros_like, subject.params)
    pairs = zip(jax.tree.leaves(subject.params), jax.tree.leaves(start), strict=True)
    distance = sum(float(np.sum((np.asarray(a, float) - np.asarray(b, float)) ** 2)) for a, b in pairs)
    key, labels = jax.random.key(subject.seed), subject.batch[1]
    programs = beside(subject.net, "gaussian noise", _programs)
    together = max(1, min(samples, ROOM // subject.outputs.size))
    errors = np.zeros(count)
    for place, scale in enumerate(sigma):
        keys = jax.random.split(jax.random.fold_in(key, place), samples)
        for first in range(0, samples, together):
            noisy = programs(subject.params, keys[first : first + together], scale, subject.examples)
            wrong = [np.asarray(margins_of(subject.call, subject.kind, each, labels)) <= 0 for each in noisy]
            errors[place] += float(np.mean(wrong, axis=1).sum()) / samples
    divergence = distance / (2 * sigma**2)
    drawn = math.sqrt(math.log(4 * count / delta) / (2 * samples))
    inside = (divergence + math.log(4 * math.sqrt(n) * count / delta)) / n
    roots = np.sqrt(inside / 2)
    values = errors + drawn + roots
    best = int(np.argmin(values))
    tight = min(
        _inverse(_inverse(e, math.log(4 * count / delta) / samples), c) for e, c in zip(errors, inside, strict=True)
    )
    return PacBayes(
        float(values[best]), float(sigma[best]), float(errors[best]), drawn, float(roots[best]),
        float(divergence[best]), tight, values, sigma, samples, delta,
    )  # fmt: skip


def _programs(net: Callable[[], Callable[..., Tree]]) -> Callable[..., Tree]:
    """The outputs of a network with noise, one set of them for each key."""

    def outputs(params: Tree, keys: Any, scale: AnyArray, inputs: Tree) -> Tree:
        def one(key: Any) -> Tree:
            noisy = _noisy(params, key, scale)
            return jax.lax.map(lambda x: net()(noisy, *x), inputs, batch_size=min(TOGETHER, len(inputs[0])))

        return jax.lax.map(one, keys)

    return jax.jit(outputs)


def _noisy(params: Tree, key: Any, scale: AnyArray) -> Tree:
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    draw = lambda k, a: a + jnp.asarray(scale, a.dtype) * jax.random.normal(k, a.shape, a.dtype)
    return jax.tree.unflatten(tree, [draw(k, a) for k, a in zip(keys, leaves, strict=True)])


def _inverse(error: float, limit: float) -> float:
    """The largest p whose binary relative entropy from an error is at most a limit."""
    term = lambda q, p: q * math.log(q / p) if q else 0.0
    low, high = error, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        far = middle >= 1 or term(error, middle) + term(1 - error, 1 - middle) > limit
        low, high = (low, middle) if far else (middle, high)
    return high


def _value(subject: MeasuredNetwork) -> Estimated:
    plain = MeasuredNetwork(
        subject.call, subject.net, subject.params, subject.inputs, subject.labels, seed=subject.seed
    )
    found = bound(plain, np.asarray(SCALES), 100, 0.01)
    return Estimated(found.value, 2 * found.draw_term)


PAC_BAYES = Measure(
    "PAC-Bayes bound", "E error(theta + sigma eps) <= empirical + ((|theta|^2 / 2 sigma^2 + ln ...) / 2n)^{1/2}",
    "Dziugaite and Roy 2017", ("inputs", "labels"), _value,
    lambda model, small: [
        Route(f"{ISOMETRY}, and moves Gaussian noise to Gaussian noise", (
            Claim("model"), Claim("metric", "euclidean"), Claim("params", length),
        )),
    ],
)  # fmt: skip
