"""All measures of one network, as numbers or as the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from quotax.complexity.measure import Measure
from quotax.complexity.networks.measured_network import measured
from quotax.complexity.registry import asked
from quotax.errors import ComplexityError
from quotax.presenting import Result
from quotax.presenting.tables import table, wrapped
from quotax.trees import AnyArray, AnySpace, Tree

CALL = "quotax.complexity_table"


@dataclass(frozen=True, repr=False)
class ComplexityTable(Result):
    """The measures of one network at one point.

    Attributes:
        values: by name.
        doubts: three standard errors of those that were sampled.
        undefined: measures without a value, and why.
        formulas: by name.
    """

    values: Mapping[str, float]
    doubts: Mapping[str, float] = field(repr=False)
    undefined: Mapping[str, str]
    formulas: Mapping[str, str] = field(repr=False)

    def __getitem__(self, name: str) -> float:
        """The value of a measure."""
        if name in self.undefined:
            raise ComplexityError(f"`ComplexityTable`: {name} has no value here: {self.undefined[name]}")
        if name not in self.values:
            raise ComplexityError(f"`ComplexityTable` has no {name!r}; it has {', '.join(self.values)}.")
        return self.values[name]

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        sure = lambda name: f" ± {self.doubts[name]:.2g}" if self.doubts[name] else ""
        rows = [(name, f"{value:.6g}{sure(name)}", self.formulas[name]) for name, value in self.values.items()]
        return ("measure", "value", "formula"), rows

    def _below(self) -> list[str]:
        return [f"no value: {name} ({why})" for name, why in self.undefined.items()]

    def __str__(self) -> str:
        """The table, and what has no value."""
        return "\n".join([table(*self._rows()), *map(wrapped, self._below())])


def complexity_table(
    net: Callable[..., Tree],
    params: Tree,
    inputs: Tree = None,
    labels: AnyArray = None,
    *,
    start: Tree = None,
    space: AnySpace | None = None,
    measures: Iterable[str | Measure] | None = None,
    seed: int = 0,
) -> ComplexityTable:
    """All complexity measures of a network, or those that are named.

    Args:
        net: a network, or a function `net(params, x)` of one example.
        params: a pytree of floating-point arrays.
        inputs: an array whose first axis counts examples, or a tuple of one for each input of the network.
        labels: whole numbers (classes), signs for a single output, or target values.
        start: where training began, for the distance from it.
        space: a quotient, for what is measured on it.
        measures: by name, or measures; by default all, with the relative flatness of every matrix of a chain.
        seed: of what is drawn, where something is too large to be computed.

    Example:
        >>> import jax.numpy as jnp
        >>> print(complexity_table(lambda p, x: p @ x, jnp.eye(2), jnp.eye(2), measures=["l1 norm", "path norm"]))
        measure    value  formula
        ---------  -----  --------------------------
        l1 norm        2  sum |theta_i|
        path norm      2  sum over paths of prod |w|
    """
    subject = measured(CALL, net, params, inputs, labels, start=start, space=space, seed=seed)
    chosen = asked(CALL, measures, subject)
    values, doubts, undefined = {}, {}, {}
    for measure in chosen:
        missing = [need for need in measure.needs if getattr(subject, need) is None]
        if missing:
            undefined[measure.name] = f"pass {', '.join(f'{need}=' for need in missing)}"
            continue
        try:
            found = measure.value(subject)
        except ComplexityError as error:
            undefined[measure.name] = str(error).removesuffix(".")
            continue
        values[measure.name], doubts[measure.name] = found.value, found.doubt
    return ComplexityTable(values, doubts, undefined, {measure.name: measure.formula for measure in chosen})
