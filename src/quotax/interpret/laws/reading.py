"""The laws domain: one reading of several traces of a model, before and after the action at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quotax.interpret.laws import tensors
from quotax.interpret.laws.algebra import Algebra
from quotax.interpret.laws.lemmas import Lemmas
from quotax.interpret.laws.tensors import Constant, Tensor


@dataclass(frozen=True)
class Break:
    """The place where a tensor stopped to have a law: `what` in the user's line `where`."""

    where: str
    what: str


@dataclass
class Laws:
    """The domain: its algebra, its lemmas, and what happened on the way."""

    algebra: Algebra
    lemmas: Lemmas
    traces: int
    breaks: list[Break] = field(default_factory=list)
    open: list[Break] = field(default_factory=list)
    """Tensors without a law that a later sum may still close, such as a product of two that carry matrices."""
    steps: dict[str, None] = field(default_factory=dict)

    name: str = "laws"
    columns: tuple[str, ...] = ("laws",)

    def tensor(self, value: Any, dims: tensors.Dims | None = None) -> Tensor:
        """A value as a tensor."""
        return tensors.of_constant(self.algebra, value, dims) if isinstance(value, Constant) else value

    def record(self, line: str) -> None:
        """Add a step to the proof, once."""
        self.steps[line] = None


@dataclass(frozen=True)
class Joint:
    """One equation of all traces, as a rule sees it: everything per trace is a tuple."""

    primitive: Any
    params: tuple[Any, ...]
    inputs: tuple[tuple[Any, ...], ...]
    outputs: tuple[tuple[Any, ...], ...]
    domain: Laws
    place: str
    run: Callable[[Sequence[Any], Sequence[Any]], list[Any]]

    def shapes(self, position: int) -> list[tuple[int, ...]]:
        """The shape of one operand in each trace."""
        return [tuple(aval.shape) for aval in self.inputs[position]]

    @property
    def out_shapes(self) -> list[tuple[int, ...]]:
        """The shape of the first output in each trace."""
        return [tuple(aval.shape) for aval in self.outputs[0]]

    def kind(self, position: int) -> str:
        """`b`, `i` or `f`: truth values, integers or reals."""
        kind = self.inputs[position][0].dtype.kind
        return "i" if kind == "u" else kind

    @property
    def out_kind(self) -> str:
        """The kind of the first output."""
        kind = self.outputs[0][0].dtype.kind
        return "i" if kind == "u" else kind
