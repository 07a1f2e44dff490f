"""Measures against symmetries: which are functions on the quotient, by proof or by a witness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import jax

from quotax.artifacts import Certificate
from quotax.complexity.measure import Measure
from quotax.complexity.networks.small_network import small_network, small_sizes
from quotax.complexity.registry import asked
from quotax.declare import Architecture, Network
from quotax.errors import ComplexityError
from quotax.pipeline import verify
from quotax.presenting import Result
from quotax.presenting.tables import table, wrapped
from quotax.symmetry import Symmetry
from quotax.trees import Keyword

CALL = "quotax.invariance_table"


@dataclass(frozen=True, eq=False, repr=False)
class InvarianceTable(Result):
    """What is known of every measure and every symmetry.

    `found[measure, symmetry]` is the certificate, by their names; it has the proof with its assumptions, or the
    witness.

    Attributes:
        architecture: the model's name.
        symmetries: by name.
        certificates: by measure, then by symmetry.
        undefined: measures that are not defined for this model, and why.
    """

    architecture: str
    symmetries: tuple[str, ...]
    certificates: Mapping[str, Mapping[str, Certificate]] = field(repr=False)
    undefined: Mapping[str, str]

    _also = ("proved", "refuted", "undecided")

    def __getitem__(self, names: tuple[str, str]) -> Certificate:
        """The certificate for a measure and a symmetry."""
        measure, symmetry = names
        if measure in self.undefined:
            raise ComplexityError(f"`InvarianceTable`: {measure} is not defined here: {self.undefined[measure]}")
        if measure not in self.certificates or symmetry not in self.symmetries:
            raise ComplexityError(
                f"`InvarianceTable` has no {names!r}; its measures are {', '.join(self.certificates)}, its symmetries "
                f"{', '.join(self.symmetries)}."
            )
        return self.certificates[measure][symmetry]

    def _count(self, status: str) -> int:
        return sum(each.status == status for row in self.certificates.values() for each in row.values())

    @property
    def proved(self) -> int:
        """How many are proved."""
        return self._count("proved")

    @property
    def refuted(self) -> int:
        """How many are refuted."""
        return self._count("refuted")

    @property
    def undecided(self) -> int:
        """How many are neither."""
        return self._count("undecided")

    @property
    def on_quotient(self) -> tuple[str, ...]:
        """The measures that are proved to be functions on the quotient by all of these symmetries."""
        return tuple(name for name, row in self.certificates.items() if all(row.values()))

    def _title(self) -> str:
        return f"which measures of {self.architecture} are functions on the quotient"

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows = [(name, *(_cell(row[s]) for s in self.symmetries)) for name, row in self.certificates.items()]
        return ("measure", *self.symmetries), rows

    def _below(self) -> list[str]:
        lines = [f"not defined: {name} ({why})" for name, why in self.undefined.items()]
        assumed = [a for row in self.certificates.values() for each in row.values() if each for a in each.assumptions]
        return [*lines, *(f"assuming {assumption}" for assumption in dict.fromkeys(assumed))]

    def __str__(self) -> str:
        """The table; `certificate` objects have the proofs."""
        return "\n".join([table(*self._rows()), *map(wrapped, self._below())])


def _cell(certificate: Certificate) -> str:
    if certificate.status == "undecided":
        return "held at random" if "it held numerically" in (certificate.residual or "") else "open"
    if certificate.status == "refuted" and certificate.witness is not None:
        before, after = certificate.witness.output, certificate.witness.transformed_output
        leaves = [*jax.tree.leaves(before), *jax.tree.leaves(after)]
        if len(leaves) == 2 and all(getattr(leaf, "size", 0) == 1 for leaf in leaves):
            a, b = (float(leaf.reshape(())) for leaf in leaves)
            return f"no: {a:.3g} -> {b:.3g}"
        return "no"
    return "proved" if certificate.scope == "every width" else f"proved ({certificate.scope})"


def invariance_table(
    architecture: Architecture | Network,
    symmetries: Iterable[Symmetry] | Symmetry,
    measures: Iterable[str | Measure] | None = None,
    *,
    seed: int = 0,
    **settings: Keyword,
) -> InvarianceTable:
    """Measures against symmetries: each proved to be a function on the quotient, refuted with two values, or open.

    Args:
        architecture: a model.
        symmetries: a derived group, or symmetries; one that changes what the model computes is refused.
        measures: by name or as measures; by default all, with the relative flatness of every matrix of a chain.
        seed: of random parameters.
        settings: for `quotax.verify`.

    Example:
        >>> import jax, quotax as qx
        >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
        ... def net(p, x):
        ...     return p["W2"] @ jax.nn.relu(p["W1"] @ x)
        >>> scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
        >>> found = invariance_table(net, scale, ["path norm", "l1 norm"])
        >>> [found[name, "scale"].status for name in ("path norm", "l1 norm")], found.on_quotient
        (['proved', 'refuted'], ('path norm',))
    """
    model = architecture.architecture if isinstance(architecture, Network) else architecture
    if not isinstance(model, Architecture):
        raise ComplexityError(
            f"`{CALL}(architecture, ...)` needs what `@qx.architecture` returns, got {architecture!r}."
        )
    given = [symmetries] if isinstance(symmetries, Symmetry) else [*symmetries, *getattr(symmetries, "discrete", ())]
    if not given or not all(isinstance(each, Symmetry) for each in given):
        raise ComplexityError(f"`{CALL}(architecture, symmetries)` needs `qx.Symmetry` objects, got {symmetries!r}.")
    for each in given:
        if verify(model, each, seed=seed, **settings).status == "refuted":
            raise ComplexityError(
                f"`{CALL}`: {each.name!r} changes what {model.name} computes, so that there is no quotient by it: "
                f"`qx.verify` has the witness."
            )
    with jax.enable_x64(True):
        sizes = small_sizes(model, [each.group for each in given])
        chosen = asked(CALL, measures, small_network(model, sizes, seed))
    rows: dict[str, dict[str, Certificate]] = {}
    undefined: dict[str, str] = {}
    for measure in chosen:
        try:
            rows[measure.name] = {
                each.name: measure.verified(model, each, sizes=sizes, seed=seed, **settings) for each in given
            }
        except ComplexityError as error:
            undefined[measure.name] = str(error).removesuffix(".")
    return InvarianceTable(model.name, tuple(each.name for each in given), rows, undefined)
