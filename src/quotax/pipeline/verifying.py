"""Claims that are proved or refuted: invariance, equivariance, metrics, measures, fields; and what they leave open."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import jax

from quotax.artifacts import ArraySpec, Certificate
from quotax.certify import (
    Coverage,
    certify,
    certify_equivariance,
    certify_field,
    certify_measure,
    certify_metric,
    probed_model,
)
from quotax.certify import coverage as coverage_of
from quotax.declare import Architecture, Network
from quotax.derive import SymmetryGroup
from quotax.errors import ArchitectureError, GeometryError, SymmetryError
from quotax.geometry import METRICS, choose
from quotax.isometry import certify_isometry
from quotax.pipeline.models import check_architecture, lowered, of_trees
from quotax.pipeline.own_sizes import at_home
from quotax.symmetry import Symmetry
from quotax.trees import NESTED, Keyword, Tree, nest


def verify(
    architecture: Architecture,
    symmetry: Symmetry,
    *,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    budget_seconds: float = 20.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Certificate:
    """Prove or refute that the model computes the same function at `theta` and at `g . theta`.

    Random small rationals are tried first. Where they find no difference, the transformation law of every tensor is
    followed through the model, which proves the identity for every width; where a law is missing, the identity is
    proved in exact arithmetic at small widths. `sizes` asks for exact proofs at these widths instead (one dict, or
    several), `budget_seconds` bounds the time that one of them may take. The certificate is true only for a proof;
    its `scope` says where it holds.

    >>> import jax, quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ jax.nn.relu(p["W1"] @ x)
    >>> scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    >>> certificate = qx.verify(net, scale)
    >>> certificate.status, certificate.scope
    ('proved', 'every width')
    """
    architecture = architecture.architecture if isinstance(architecture, Network) else architecture
    check_architecture(architecture, "verify")
    if not isinstance(symmetry, Symmetry):
        raise SymmetryError(f"`verify(architecture, symmetry)`: symmetry must be a `qx.Symmetry`, got {symmetry!r}.")
    assignments = None
    if sizes is not None:
        listed = [sizes] if isinstance(sizes, Mapping) else list(sizes)
        assignments = [
            architecture.check_sizes(
                s, required=architecture.axis_names, call=f"verify({architecture.name}, ..., sizes=...)"
            )
            for s in listed
        ]
    action = symmetry.bind(architecture.params)
    settings: dict[str, Keyword] = {"budget_seconds": budget_seconds, "seed": seed, "progress": progress}
    made = certify(architecture, action, sizes=assignments, **settings)
    return made if assignments else at_home(architecture, action, made, **settings)


def verify_invariant(
    architecture: Architecture | Network,
    symmetry: Symmetry,
    measure: Callable[..., Tree] | Measured,
    *,
    inputs: bool = False,
    **settings: Keyword,
) -> Certificate:
    """Prove or refute that a function of the parameters is constant on orbits: `m(g . theta) = m(theta)`.

    `measure(params)` is a norm, a conserved quantity: JAX code on the parameters. With `inputs=True` it is
    `measure(params, *inputs)`, of the model's inputs, and the claim is about every input: a measure that is a function
    of such numbers at all examples is then one of the orbit, whatever the data. It may ask for the sizes of the axes by
    a keyword-only argument `sizes`. A measure of `qx.complexity_measures()` brings its own proof, or says what is open.

    >>> import jax.numpy as jnp, quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> turn = qx.Symmetry("turn", qx.O("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
    >>> qx.verify_invariant(net, turn, lambda p: jnp.sum(p["W1"] ** 2)).status
    'proved'
    >>> qx.verify_invariant(net, turn, lambda p, x: jnp.sum((p["W1"] @ x) ** 2), inputs=True).status
    'proved'
    """
    architecture = architecture.architecture if isinstance(architecture, Network) else architecture
    check_architecture(architecture, "verify_invariant")
    if isinstance(measure, Measured):
        return measure.verified(architecture, symmetry, **settings)
    action, own = symmetry.bind(architecture.params), of_trees(architecture, measure, 1)
    asked = ({"inputs": architecture.inputs} if inputs else {}) | {"settled": inputs}
    return certify_measure(architecture, action, own, **asked, **settings)


@runtime_checkable
class Measured(Protocol):
    """A measure that knows how it is proved to be a function on the quotient."""

    def verified(self, architecture: Architecture, symmetry: Symmetry, **settings: Keyword) -> Certificate:
        """The certificate of that claim for one symmetry."""
        ...


def verify_metric(
    architecture: Architecture,
    symmetry: Symmetry,
    metric: str | Callable[[Tree, Tree, Tree], jax.Array],
    **settings: Keyword,
) -> Certificate:
    """Prove or refute that a metric is invariant: `m(g . theta; dg . a, dg . b) = m(theta; a, b)`.

    `metric` is a name that `quotient` knows, or `metric(params, a, b)` in JAX, where `a` and `b` are trees like the
    parameters.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    >>> qx.verify_metric(net, scale, "euclidean").status, qx.verify_metric(net, scale, "invariant").status
    ('refuted', 'proved')
    """
    check_architecture(architecture, "verify_metric")
    if isinstance(metric, str) and metric in METRICS and metric != "euclidean":
        free = [axis for axis in architecture.parameter_axes if axis not in architecture.fixed]
        sizes = dict.fromkeys(free, 4) | settings.pop("sizes", {})
        if settings:
            raise GeometryError(
                f"`verify_metric(architecture, symmetry, {metric!r})` takes sizes= and no other setting, "
                f"got {', '.join(settings)}."
            )
        network = architecture.at(**sizes)
        families = lowered([symmetry], network)
        return certify_isometry(network, families, metric, choose(metric, families, network.num_parameters))
    own = of_trees(architecture, metric) if callable(metric) else metric
    return certify_metric(architecture, symmetry.bind(architecture.params), own, **settings)


def verify_field(architecture: Architecture, field: Callable[[Tree], Tree], *, seed: int = 0) -> Certificate:
    """Prove or refute that the output does not change to first order along a vector field `field(params)`.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> qx.verify_field(net, lambda p: {"W1": p["W1"], "W2": -p["W2"]}).status
    'proved'
    """
    check_architecture(architecture, "verify_field")
    own = field if architecture.trees is NESTED else functools.partial(_moved, architecture, field)
    return certify_field(architecture, functools.partial(architecture.call, sizes={}), own, seed)


def _moved(architecture: Architecture, field: Callable[[Tree], Tree], params: Tree) -> Tree:
    """A vector field of the user's trees as one of nested dicts."""
    return nest(architecture.trees.named(of_trees(architecture, field)(params)))


def verify_equivariance(
    architecture: Architecture, symmetry: Symmetry, *, output: str, **settings: Keyword
) -> Certificate:
    """Prove or refute `f(g . theta, g . x) = g . f(theta, x)`.

    The symmetry's action may move real inputs by their names, and it moves `probe`, a vector with the axes `output`
    that is paired with the output: give the probe the inverse transpose of what moves the output.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> turn = qx.Symmetry("turn", qx.O("y"), {"W2": "g @ W2", "probe": "g @ probe"})
    >>> qx.verify_equivariance(net, turn, output="y").status
    'proved'
    """
    check_architecture(architecture, "verify_equivariance")
    axes = tuple(tuple(int(f) if f.isdigit() else f for f in axis.split("*")) for axis in output.split())
    forward = functools.partial(architecture.call, sizes={})
    spec = ArraySpec("probe", axes)
    probed = probed_model(architecture, forward, spec)
    return certify_equivariance(architecture, forward, spec, symmetry.bind(probed.params), **settings)


def coverage(found: SymmetryGroup | Iterable[Symmetry], architecture: Architecture | None = None) -> Coverage:
    """What a derived group, or a list of symmetries with its architecture, leaves open.

    Parameters that no symmetry moves, forms of symmetries that were not searched, primitives that no proof for every
    width passes, and families whose proof covers less than every width.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> print(qx.coverage([qx.Symmetry("only W1", qx.Permutation("x"), {"W1": "W1 @ g"})], net))
    parameters that no symmetry moves: W2
    forms that were not tried: linear, affine, quadratic
    primitives without a law: none
    proofs of less than every width: none
    """
    model = architecture if architecture is not None else getattr(found, "model", None)
    if model is None:
        raise ArchitectureError(f"`coverage(found)`: a list of symmetries needs its architecture too, got {found!r}.")
    families = [*found, *getattr(found, "discrete", ())]
    return coverage_of(model, families, getattr(found, "certificates", ()), getattr(found, "ansatz", None))
