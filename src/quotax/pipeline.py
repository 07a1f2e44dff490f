"""The only place that wires stages together: declared models and symmetries in, certified geometry and numbers out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from quotax.artifacts import ArraySpec, Certificate
from quotax.certify import certify_at_widths
from quotax.declare import Architecture, Network
from quotax.errors import ArchitectureError, GeometryError, SymmetryError
from quotax.geometry import QuotientSpace
from quotax.lower import lower_action
from quotax.symmetry import Symmetry


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

    Random small rationals are tried first; where they find no difference, the identity is proved in exact arithmetic
    for all parameters, inputs and group elements of each width tried. `sizes` replaces the widths (one dict, or
    several), `budget_seconds` bounds the time that one of them may take. The certificate is true only for a proof; its `scope` says where it holds.

    >>> import jax, quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ jax.nn.relu(p["W1"] @ x)
    >>> scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    >>> qx.verify(net, scale).status
    'proved'
    """
    _check_architecture(architecture, "verify")
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
    return certify_at_widths(
        architecture,
        symmetry.bind(architecture.params),
        sizes=assignments,
        budget_seconds=budget_seconds,
        seed=seed,
        progress=progress,
    )


def quotient(
    network: Network,
    symmetries: Symmetry | Iterable[Symmetry],
    metric: str = "euclidean",
    *,
    verified: Iterable[Certificate] | None = None,
) -> QuotientSpace:
    """The quotient of a network's parameter space by symmetries, each of them verified first.

    A symmetry that is refuted, or that cannot be decided, is refused: the quotient by something that changes the
    function means nothing. `verified` passes certificates that you already have, one for each symmetry.
    """
    if not isinstance(network, Network):
        hint = f"; give it sizes first, as in {network.name}.at(...)" if isinstance(network, Architecture) else ""
        raise GeometryError(f"`quotient(network, symmetries)`: network must be a sized network, got {network!r}{hint}.")
    families = [symmetries] if isinstance(symmetries, Symmetry) else list(symmetries)
    for symmetry in families:
        if not isinstance(symmetry, Symmetry):
            raise GeometryError(
                f"`quotient(network, symmetries)`: symmetries must be `qx.Symmetry` objects, got {symmetry!r}."
            )
    model = network.architecture
    certificates = list(verified) if verified is not None else [verify(model, symmetry) for symmetry in families]
    if len(certificates) != len(families):
        raise GeometryError(
            f"`quotient`: {len(families)} symmetries need as many certificates, got {len(certificates)}."
        )
    for symmetry, certificate in zip(families, certificates, strict=True):
        if not certificate:
            raise SymmetryError(
                f"`quotient`: {symmetry.name!r} is {certificate.status}, so dividing by it would change the function. "
                f"`qx.verify({model.name}, ...)` says why: {'; '.join(certificate.steps) or certificate.residual}."
            )
    specs: tuple[ArraySpec, ...] = model.params
    lowered = [lower_action(symmetry.bind(specs), specs, network.sizes) for symmetry in families]
    return QuotientSpace(network, specs, lowered, certificates, metric)


def _check_architecture(architecture: object, call: str) -> None:
    if not isinstance(architecture, Architecture):
        hint = "; pass the architecture that `.at` was called on" if isinstance(architecture, Network) else ""
        raise ArchitectureError(
            f"`{call}(architecture, ...)` needs what `@qx.architecture` returns, got {architecture!r}{hint}."
        )
