"""What a set of symmetries leaves open: parameters that nothing moves, forms not tried, primitives without a law."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from jax.extend.core import Jaxpr

from quotax.artifacts import Certificate, Model, settled
from quotax.errors import ArchitectureError
from quotax.interpret.sheets import laws
from quotax.presenting import Result
from quotax.presenting.tables import wrapped
from quotax.programs.jaxprs import bare, bodies
from quotax.symmetry import Symmetry

FORMS = ("linear", "affine", "quadratic")
"""The ansatz of an infinitesimal symmetry, smallest first; each contains those before it."""


@dataclass(frozen=True, repr=False)
class Coverage(Result):
    """What is not covered.

    Attributes:
        unmoved: parameters that no symmetry moves.
        untried: forms of infinitesimal symmetries that were not searched.
        lawless: primitives of the model without a law, so that no proof for every width passes them.
        narrow: symmetries whose proof does not cover every width, with its scope.
    """

    unmoved: tuple[str, ...]
    untried: tuple[str, ...]
    lawless: tuple[str, ...]
    narrow: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        """One line a kind."""
        narrow = ", ".join(f"{name} ({scope})" for name, scope in self.narrow)
        return "\n".join(
            wrapped(line)
            for line in (
                f"parameters that no symmetry moves: {', '.join(self.unmoved) or 'none'}",
                f"forms that were not tried: {', '.join(self.untried) or 'none'}",
                f"primitives without a law: {', '.join(self.lawless) or 'none'}",
                f"proofs of less than every width: {narrow or 'none'}",
            )
        )


def coverage(
    model: Model, symmetries: Iterable[Symmetry], certificates: Iterable[Certificate] = (), tried: str | None = None
) -> Coverage:
    """What these symmetries of the model leave open; `tried` is the ansatz of the search that found them."""
    families = list(symmetries)
    moved = {entry.name for symmetry in families for entry in symmetry.bind(model.params).entries}
    unmoved = tuple(spec.name for spec in model.params if spec.name not in moved)
    reached = "affine" if tried == "full" else tried
    untried = FORMS[FORMS.index(reached) + 1 :] if reached in FORMS else FORMS
    names: dict[str, None] = {}
    with contextlib.suppress(ArchitectureError):
        _primitives(model.open(settled({a: a for a in model.axis_names}, model.fixed)).jaxpr.jaxpr, names)
    known = laws()
    lawless = tuple(name for name in names if name not in known)
    narrow = tuple(
        (symmetry.name, certificate.scope)
        for symmetry, certificate in zip(families, certificates, strict=False)
        if certificate.scope != "every width"
    )
    return Coverage(unmoved, untried, lawless, narrow)


def _primitives(jaxpr: Jaxpr, names: dict[str, None]) -> None:
    for equation in jaxpr.eqns:
        names[equation.primitive.name] = None
        for value in equation.params.values():
            for body in bodies(value):
                _primitives(bare(body), names)
