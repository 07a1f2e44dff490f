"""What a domain is: the meaning of a number while a jaxpr is read, and what a rule is told about one equation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Primitive

from quotax.programs.jaxprs import Settings

AnyValue: TypeAlias = Any
"""An array of numbers in whatever way a domain has them; the rules of one domain say how that has its own."""


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge
}  # fmt: skip
"""What the primitives that compare mean, of whatever Python compares."""


class Unreadable(Exception):
    """Raised by a rule that cannot read its equation: why, and what to do. `evaluate` adds the primitive and line."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.advice = advice


POSITIONS = (
    "its positions depend on the parameters or inputs",
    "index with constants (or, for reading, with a `qx.Tokens` input), or select with `jnp.where`",
)
RANDOM = ("random_", "rng_", "threefry")
"""How the names of primitives begin that draw random numbers."""
COMPLEX = ("it makes complex numbers", "write what follows with their real and imaginary parts")


class Domain(Protocol):
    """One way to read a jaxpr.

    A domain reads, of each row of the primitive table, the first of its `columns` that the row fills.
    Constants reach it as NumPy arrays (see `is_known`); everything else is a value of its own kind.
    """

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The table's columns in order of preference, e.g. `("symbolic", "array", "every")`."""
        ...


class ArrayDomain(Domain, Protocol):
    """A domain whose values are arrays of numbers: what the shared rules for movement and contraction need of it.

    Every method takes constants (NumPy arrays) beside the domain's own values.
    """

    def concrete(self, value: AnyValue) -> np.ndarray | None:
        """The value as a NumPy array when all its entries are constants, otherwise None."""
        ...

    def take(self, pool: Sequence[AnyValue], index: np.ndarray) -> AnyValue:
        """The array shaped like `index` with entries from the pool's arrays, flattened and laid end to end."""
        ...

    def combine(self, operation: str, left: AnyValue, right: AnyValue) -> AnyValue:
        """Entrywise `add`, `sub`, `mul`, `max`, `min`, `and`, `or` or `xor`, broadcasting as NumPy does."""
        ...

    def fold(self, operation: str, value: AnyValue) -> AnyValue:
        """Reduce the last axis by `add`, `mul`, `max`, `min`, `and`, `or` or `xor`."""
        ...

    def matmul(self, left: AnyValue, right: AnyValue) -> AnyValue:
        """Batched product of shapes `(b, m, k)` and `(b, k, n)`."""
        ...


class SampledDomain(ArrayDomain, Protocol):
    """A domain whose values are batches of samples, which may differ in positions."""

    def places(self, value: AnyValue) -> np.ndarray:
        """The positions that a value holds, sample by sample."""
        ...

    def take_each(self, pool: Sequence[AnyValue], index: np.ndarray) -> AnyValue:
        """As `take`, with an index for each sample."""
        ...


In = TypeVar("In", bound=Domain, covariant=True)


@dataclass(frozen=True)
class Eqn(Generic[In]):
    """One equation of a jaxpr as a rule sees it: `run` evaluates a nested jaxpr in the same domain."""

    primitive: Primitive
    params: Settings
    inputs: tuple[ShapedArray, ...]
    outputs: tuple[ShapedArray, ...]
    domain: In
    run: Callable[[ClosedJaxpr, Sequence[AnyValue]], list[AnyValue]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first output."""
        return tuple(self.outputs[0].shape)


Rule = Callable[[Eqn[In], list[AnyValue]], list[AnyValue]]
"""Values of an equation's inputs to values of its outputs."""


def is_known(value: AnyValue) -> bool:
    """Whether a value is a constant: a NumPy array of numbers, the same in every domain."""
    return isinstance(value, np.ndarray) and value.dtype != object


def concrete(domain: Domain, value: AnyValue) -> np.ndarray | None:
    """`value` as a NumPy array if it is constant in this domain, otherwise None."""
    if is_known(value):
        return value
    own = getattr(domain, "concrete", None)
    return None if own is None else own(value)
