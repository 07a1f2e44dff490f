r"""Margins of a classifier, and what they are divided by.

A network is homogeneous of degree $\alpha$ where $f_{c\theta} = c^\alpha f_\theta$, which is Euler's $J \theta =
\alpha f$. Its outputs grow with the parameters, so that a margin says something over $|\theta|^\alpha$ only; gradient
flow on an exponential tail drives that quotient up, and to a stationary point of the problem of the largest one (Lyu
and Li, 2020).

The norm may be any other of the same degree. $|\theta|$ changes along orbits of rescalings: what is a function on the
quotient is the least norm on the orbit, the path norm, a product of spectral norms over layers (for scalars).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np

from quotax.complexity.measure import Measure
from quotax.complexity.networks.measured_network import MeasuredNetwork, measured
from quotax.complexity.parameter_norms import L2, PATHS, SPECTRAL, SPECTRAL_COMPLEXITY
from quotax.complexity.routes import Claim, Estimated, Route
from quotax.declare import Architecture
from quotax.errors import ComplexityError
from quotax.presenting import Result
from quotax.trees import AnyArray, AnySpace, Tree

CALL = "quotax.margins"


@dataclass(frozen=True, repr=False)
class Margins(Result):
    """The margins of all examples, and the least over norms.

    Attributes:
        margins: of every example.
        smallest: the least: positive where all are told apart.
        errors: the share of examples whose margin is not positive.
        degree: of homogeneity; None where the network is not homogeneous.
        euler: by how much `J theta` is off from `degree` times the outputs, relative.
        norm: `|theta|`.
        normalised: the least margin over `|theta|` to this degree; None where there is no degree.
        least_norm: the least norm on the orbit, if there is a space.
        on_quotient: the least margin over that to the degree: the same at every representative.
    """

    margins: np.ndarray = field(repr=False)
    smallest: float
    errors: float
    degree: float | None
    euler: float
    norm: float
    normalised: float | None
    least_norm: float | None = None
    on_quotient: float | None = None

    def __str__(self) -> str:
        """Two readable lines."""
        known = "not homogeneous" if self.degree is None else f"homogeneous of degree {self.degree:.4g}"
        lines = [
            f"least margin {self.smallest:.6g}, {100 * self.errors:.3g} % errors ({known}, |theta| = {self.norm:.6g})"
        ]
        if self.normalised is not None:
            line = f"normalised margin {self.normalised:.6g}"
            lines.append(line + ("" if self.on_quotient is None else f", on the quotient {self.on_quotient:.6g}"))
        return "\n".join(lines)


def margins(
    net: Callable[..., Tree], params: Tree, inputs: Tree, labels: AnyArray, space: AnySpace | None = None
) -> Margins:
    """The margins of a classifier on examples.

    Args:
        net: a network, or a function `net(params, x)` of one example.
        params: a pytree of floating-point arrays.
        inputs: an array whose first axis counts examples, or a tuple of one for each input of the network.
        labels: whole numbers, one for each example, or signs where the network has a single output.
        space: a quotient, for the least norm on the orbit.

    Example:
        >>> import jax.numpy as jnp
        >>> found = margins(lambda p, x: p @ x, jnp.array([3.0, 4.0]), jnp.eye(2), jnp.array([1.0, 1.0]))
        >>> found.smallest, found.degree, round(found.normalised, 6)
        (3.0, 1.0, 0.6)
    """
    subject = measured(CALL, net, params, inputs, labels, space=space)
    found = subject.margins
    degree, off = degree_of(subject)
    norm = L2.value(subject).value
    smallest = float(found.min())
    over = lambda size: None if degree is None or size is None else smallest / size**degree
    least = None if space is None else least_norm(subject)
    return Margins(found, smallest, float(np.mean(found <= 0)), degree, off, norm, over(norm), least, over(least))


def degree_of(subject: MeasuredNetwork) -> tuple[float | None, float]:
    """The degree of homogeneity at these examples, and by how much Euler's equation is off."""
    f, t = (np.asarray(array, float).ravel() for array in (subject.outputs, subject.euler))
    size = float(f @ f)
    if not size:
        return None, float("inf")
    degree = float(f @ t) / size
    off = float(np.linalg.norm(t - degree * f) / max(np.linalg.norm(t), 1e-300))
    eps = max(float(jnp.finfo(leaf.dtype).eps) for leaf in jax.tree.leaves(subject.params))
    near = round(degree)
    degree = float(near) if abs(degree - near) <= 1e3 * eps * max(1, abs(near)) else degree
    return (degree if off <= eps**0.5 else None), off


def least_norm(subject: MeasuredNetwork) -> float:
    """The norm of the balanced representative."""
    if subject.space is None:
        raise ComplexityError(f"`{subject.call}`: the least norm on the orbit needs space=, a quotient.")
    found = subject.space.canonical(subject.params)
    if not bool(found.attained):
        raise ComplexityError(f"`{subject.call}`: the orbit only comes near its least norm.")
    return L2.value(subject.at(found.params)).value


# --- as measures


def _over(norm: Measure, homogeneous: bool) -> Measure:
    def value(subject: MeasuredNetwork) -> Estimated:
        power = 1.0
        if homogeneous:
            degree, off = degree_of(subject)
            if degree is None:
                raise ComplexityError(
                    f"the network is not homogeneous in its parameters: J theta is off from a multiple of the "
                    f"outputs by {off:.1e}, so that no power of the norm goes with a margin."
                )
            power = degree
        return Estimated(float(subject.margins.min()) / norm.value(subject).value ** power)

    def routes(model: Architecture, small: MeasuredNetwork) -> Sequence[Route]:
        lemma = "margins are functions of the outputs"
        return [
            Route(f"{lemma}, and {route.lemma}", (Claim("model"), *route.claims)) for route in norm.routes(model, small)
        ]

    formula = f"min_i margin_i / ({norm.formula}){'^degree' if homogeneous else ''}"
    return Measure(f"margin over {norm.name}", formula, "margin bounds", ("inputs", "labels"), value, routes)


MARGIN = Measure(
    "margin", "min_i (f_y - max_{j != y} f_j)(x_i)", "Vapnik", ("inputs", "labels"),
    lambda subject: Estimated(float(subject.margins.min())),
    lambda model, small: [Route("margins are functions of the outputs", (Claim("model"),))],
)  # fmt: skip
MARGIN_L2 = _over(L2, homogeneous=True)
MARGIN_PATHS = _over(PATHS, homogeneous=False)
MARGIN_SPECTRAL = _over(SPECTRAL, homogeneous=False)
MARGIN_COMPLEXITY = _over(SPECTRAL_COMPLEXITY, homogeneous=False)
LEAST_NORM = Measure(
    "least norm on the orbit", "min_g |g . theta|", "quotax", ("space",),
    lambda subject: Estimated(least_norm(subject)),
    lambda model, small: [Route("the least value on an orbit, of any group that has this one in it, is the orbit's")],
)  # fmt: skip
