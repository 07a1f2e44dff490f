"""The only place that wires stages together: declared models and symmetries in, certified geometry and numbers out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import sympy as sp

from quotax.artifacts import ArraySpec, Certificate
from quotax.certify import certify_at_widths
from quotax.certify.towers import prove_equal
from quotax.declare import Architecture, Network
from quotax.derive import SymmetryGroup
from quotax.derive import derive as derive_symmetries
from quotax.derive.ansatz import Ansatz
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
    several), `budget_seconds` bounds the time that one of them may take. The certificate is true only for a proof; its
    `scope` says where it holds.

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


def derive(
    architecture: Architecture,
    ansatz: Ansatz = "affine",
    *,
    declared: Sequence[Symmetry] = (),
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    budget_seconds: float = 20.0,
    progress: Callable[[str], None] | None = None,
    seed: int = 0,
) -> SymmetryGroup:
    """The symmetries of a model that nobody wrote down: found in exact arithmetic, each proved by `verify`.

    The determining equations are sampled at small widths (`sizes` replaces them) and solved for groups on every axis;
    what those leave unexplained is looked for among all fields of the ansatz. `declared` symmetries are verified and
    not found again. Progress is printed to standard error once two seconds have passed, or handed to `progress`.

    >>> import jax, quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> qx.derive(net).families
    (Symmetry linear h: GL(h), W1 -> g @ W1, W2 -> W2 @ inv(g),)
    """
    _check_architecture(architecture, "derive")
    if ansatz not in ("linear", "affine", "quadratic", "full"):
        raise SymmetryError(f"`derive`: ansatz must be 'linear', 'affine', 'quadratic' or 'full', got {ansatz!r}.")
    report = progress or _reporter()
    for symmetry in declared:
        certificate = verify(architecture, symmetry, budget_seconds=budget_seconds, seed=seed)
        if not certificate:
            raise SymmetryError(
                f"`derive(..., declared=[...])`: {symmetry.name!r} is {certificate.status}, so it explains nothing."
            )
    widths = None
    if sizes is not None:
        listed = [sizes] if isinstance(sizes, Mapping) else list(sizes)
        call = f"derive({architecture.name}, sizes=...)"
        widths = [architecture.check_sizes(s, required=architecture.axis_names, call=call) for s in listed]
    return derive_symmetries(
        architecture,
        lambda symmetry: verify(architecture, symmetry, budget_seconds=budget_seconds, seed=seed),
        lambda expressions: bool(prove_equal(expressions, [sp.S.Zero] * len(expressions), budget_seconds)),
        ansatz=ansatz,
        declared=tuple(declared),
        sizes=widths,
        progress=report,
        seed=seed,
    )


def _reporter() -> Callable[[str], None]:
    """Print to standard error what is being done, once it takes longer than two seconds."""
    start = time.monotonic()

    def report(line: str) -> None:
        if time.monotonic() - start > 2.0:
            print(f"derive: {line}", file=sys.stderr)

    return report


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
    if isinstance(symmetries, SymmetryGroup) and verified is None and symmetries.model is network.architecture:
        verified = symmetries.certificates
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
