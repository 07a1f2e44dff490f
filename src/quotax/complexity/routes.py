"""How a number of a network may be proved to be a function on the quotient: by claims about JAX functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Kind = Literal["params", "inputs", "metric", "isometry", "model", "turns"]


class Estimated(NamedTuple):
    """A number, and by how much it may be wrong where it was sampled."""

    value: float
    doubt: float = 0.0


@dataclass(frozen=True)
class Claim:
    """What is proved of one symmetry.

    `"params"`: `function(params)` is invariant; `"inputs"`: `function(params, *inputs)` is, for every input;
    `"metric"`: the action is by isometries of a metric, and affine; `"isometry"`: it is by isometries; `"model"`: the
    network's outputs are invariant; `"turns"`: the array of this name is multiplied by orthogonal matrices along its
    axes, and nothing else.
    """

    kind: Kind
    function: Any = None


@dataclass(frozen=True)
class Route:
    """One way of proving it: if these claims hold (of several in one place any), so does the measure's, by the lemma.

    `exact`: the converse holds too, so that a refuted claim refutes the measure.
    """

    lemma: str
    claims: tuple[Claim | tuple[Claim, ...], ...] = ()
    exact: bool = False
