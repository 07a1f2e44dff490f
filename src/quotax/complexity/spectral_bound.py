r"""The spectrally-normalised margin bound of Bartlett, Foster and Telgarsky (2017), with every factor.

For matrices $A_i$ with at most W rows or columns between $\rho_i$-Lipschitz functions that are zero at zero, and
references $M_i$, the networks with $\|A_i\|_\sigma \le s_i$ and $\|A_i^T - M_i^T\|_{2,1} \le b_i$ have covering
numbers (their theorem 3.3)

$$\ln N(\epsilon) \le \frac{|X|_F^2 \ln(2 W^2)}{\epsilon^2}
\prod_i s_i^2 \rho_i^2 \Big( \sum_i (b_i / s_i)^{2/3} \Big)^3.$$

The ramp loss at margin $\gamma$ is $2/\gamma$-Lipschitz in the outputs; Dudley's integral from $1/n$ and the bound by
Rademacher complexities give, with probability $1 - \delta$ and for norms that were fixed before the examples were
seen,

$$P[\text{error}] \le \hat R_\gamma + \frac{8}{n^{3/2}} + \frac{72 \ln n \sqrt{\ln(2 W^2)}}{\gamma n} |X|_F R_A
+ 3 \sqrt{\frac{\ln(2/\delta)}{2 n}}.$$

Norms of a trained network are not fixed before. Then a union over a grid of norms and margins is taken, which at
least doubles the third term and adds logarithms: what is computed here is below the bound that a theorem gives. It is
vacuous, above 1, for every network of practice; what the literature uses is how $|X|_F R_A / (\gamma n)$ goes up and
down with other things.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from quotax.complexity.networks.layer_chain import layer_chain
from quotax.complexity.networks.measured_network import measured
from quotax.complexity.parameter_norms import complexity_of, rows, spectral
from quotax.errors import ComplexityError
from quotax.presenting import Result
from quotax.trees import AnyArray, Tree

CALL = "quotax.margin_bound"


@dataclass(frozen=True, repr=False)
class MarginBound(Result):
    """The bound and its factors.

    Attributes:
        value: the bound on the probability of an error; above 1 it says nothing.
        layers: the names of the matrices, in order.
        spectral: their spectral norms.
        distances: the (2, 1) norms of their transposes, less the references'.
        lipschitz: the Lipschitz constants of what follows each; what is done to the input counts with the first.
        complexity: the spectral complexity.
        data_norm: `|X|_F`, the root of the sum of all squares of the inputs.
        width: W, the largest number of rows or columns.
        examples: n.
        margin: gamma.
        ramp: the share of examples whose margin is at most gamma.
        covering: the term with the complexity.
        confidence: the last term.
        delta: with which probability it may fail.
        normalised: the margins over `|X|_F R_A / n`, whose distribution is compared between data sets.
    """

    value: float
    layers: tuple[str, ...]
    spectral: np.ndarray
    distances: np.ndarray
    lipschitz: np.ndarray
    complexity: float
    data_norm: float
    width: int
    examples: int
    margin: float
    ramp: float
    covering: float
    confidence: float
    delta: float
    normalised: np.ndarray = field(repr=False)

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing."""
        return not self.value < 1

    _also = ("vacuous",)

    def __str__(self) -> str:
        """The factors, one a line."""
        numbers = lambda array: ", ".join(f"{x:.4g}" for x in array)
        return "\n".join(
            [
                f"P[error] <= {self.value:.4g} with probability {1 - self.delta:g}, for norms fixed before the examples"
                + (" (vacuous)" if self.vacuous else ""),
                f"share of margins up to {self.margin:.4g}: {self.ramp:.4g}; covering term {self.covering:.4g}; "
                f"confidence {self.confidence:.4g}; 8 n^-3/2 = {8 * self.examples**-1.5:.4g}",
                f"spectral complexity {self.complexity:.4g}, |X|_F = {self.data_norm:.4g}, n = {self.examples}, "
                f"W = {self.width}",
                f"layers {', '.join(self.layers)}: spectral norms {numbers(self.spectral)}; (2, 1) norms "
                f"{numbers(self.distances)}; Lipschitz constants {numbers(self.lipschitz)}",
            ]
        )


def margin_bound(
    net: Callable[..., Tree],
    params: Tree,
    inputs: Tree,
    labels: AnyArray,
    *,
    margin: float | None = None,
    delta: float = 0.01,
    references: Mapping[str, Tree] | None = None,
) -> MarginBound:
    """The spectrally-normalised margin bound, every factor of it.

    Args:
        net: a network that is a chain of matrices and functions of single numbers; others are refused with the reason.
        params: a pytree of floating-point arrays.
        inputs: an array of vectors, one a row.
        labels: whole numbers, one for each example.
        margin: gamma; by default the lower decile of the margins.
        delta: the probability with which the bound may fail.
        references: arrays by name that were known before the examples, such as the initial ones; zero by default.

    Example:
        >>> import jax.numpy as jnp
        >>> found = margin_bound(lambda p, x: p @ x, 2 * jnp.eye(3), jnp.eye(3), jnp.arange(3), margin=1.0)
        >>> found.complexity, round(found.data_norm, 3), found.ramp, found.vacuous
        (6.0, 1.732, 0.0, True)
    """
    subject = measured(CALL, net, params, inputs, labels)
    if not 0 < delta < 1:
        raise ComplexityError(f"`{CALL}` needs 0 < delta < 1, got {delta!r}.")
    if margin is not None and not margin > 0:
        raise ComplexityError(f"`{CALL}` needs a positive margin=, got {margin!r}.")
    chain = layer_chain(subject)
    if subject.kind != "classes":
        raise ComplexityError(
            f"`{CALL}` is about several classes, and labels are {subject.kind}: give a network an output each."
        )
    if chain.biases or not chain.plain:
        why = (
            f"it adds {', '.join(chain.biases)}"
            if chain.biases
            else "a function is not zero at zero, or inputs are no vectors"
        )
        raise ComplexityError(f"`{CALL}`: the theorem is about chains without biases, and of this one {why}.")
    arrays = {name: np.asarray(a, float) for name, a in subject.arrays.items()}
    known = _references(references, arrays)
    found = [layer.matrix(arrays) for layer in chain.layers]
    sizes = [spectral(a) for a in found]
    distances = [rows(layer.matrix(arrays) - layer.matrix(known)) for layer in chain.layers]
    lipschitz = np.array([layer.lipschitz for layer in chain.layers])
    lipschitz[0] *= chain.scale
    own = subject.margins
    gamma = float(np.quantile(own, 0.1)) if margin is None else float(margin)
    if not gamma > 0:
        raise ComplexityError(
            f"`{CALL}`: a tenth of the margins is at most {gamma:.3g}, so that none is chosen: pass a positive margin=."
        )
    n, width = subject.count, max(max(a.shape) for a in found)
    total = complexity_of(sizes, distances, chain.lipschitz)
    data = float(np.linalg.norm(np.asarray(subject.examples[0], float)))
    covering = 72 * math.log(n) * math.sqrt(math.log(2 * width**2)) * data * total / (gamma * n)
    confidence = 3 * math.sqrt(math.log(2 / delta) / (2 * n))
    ramp = float(np.mean(own <= gamma))
    return MarginBound(
        ramp + 8 * n**-1.5 + covering + confidence, tuple(layer.name for layer in chain.layers), np.array(sizes),
        np.array(distances), lipschitz, total, data, width, n, gamma, ramp, covering, confidence, delta,
        own * n / (data * total) if data * total else np.full(n, np.inf),
    )  # fmt: skip


def _references(given: Mapping[str, Tree] | None, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    known = {name: np.zeros_like(a) for name, a in arrays.items()}
    for name, value in (given or {}).items():
        if name not in arrays or np.shape(value) != arrays[name].shape:
            raise ComplexityError(
                f"`{CALL}`: references[{name!r}] has shape {np.shape(value)}; the arrays are "
                f"{', '.join(f'{n} {a.shape}' for n, a in arrays.items())}."
            )
        known[name] = np.asarray(value, float)
    return known
