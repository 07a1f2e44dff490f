"""A function of named arrays as a model: what a claim about anything but an architecture's output is made of."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from quotax.artifacts import ArraySpec, OpenTrace, Trace
from quotax.interpret import open_trace, trace
from quotax.trees import Tree


@dataclass(frozen=True)
class FunctionModel:
    """A function of named arrays as a model."""

    name: str
    function: Callable[..., Tree]
    params: tuple[ArraySpec, ...]
    inputs: tuple[ArraySpec, ...] = ()
    fixed: Mapping[str, int | str] = field(default_factory=dict)
    users: bool = True
    """Whether the function is a user's, which may look at types."""
    _traces: dict[Hashable, Trace] = field(default_factory=dict, compare=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        """Without traces, which are made again."""
        kept = {"name": self.name, "function": self.function, "params": self.params, "inputs": self.inputs}
        return {**kept, "fixed": self.fixed, "users": self.users, "_traces": {}}

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name of the parameters and inputs."""
        names = [n for spec in (*self.params, *self.inputs) for n in spec.axis_names]
        names += [spec.below for spec in self.inputs if isinstance(spec.below, str)]
        return tuple(dict.fromkeys(names))

    def trace(self, sizes: Mapping[str, int]) -> Trace:
        """The function's jaxpr at these sizes."""
        key = tuple(sorted(sizes.items()))
        if key not in self._traces:
            function = functools.partial(self.function, sizes=dict(sizes)) if self._takes_sizes else self.function
            self._traces[key] = trace(function, self.params, self.inputs, sizes, twice=self.users)
        return self._traces[key]

    def open(self, axes: Mapping[str, int | str]) -> OpenTrace:
        """The function's jaxpr with sizes that stay symbols."""
        run = lambda *arrays, sizes: self.function(*arrays, **({"sizes": sizes} if self._takes_sizes else {}))
        return open_trace(run, self.params, self.inputs, axes, twice=self.users)

    @functools.cached_property
    def _takes_sizes(self) -> bool:
        """Whether the function asks for the sizes of the axes, by a keyword-only argument as architectures do."""
        try:
            asked = inspect.signature(self.function).parameters.get("sizes")
        except (TypeError, ValueError):  # a builtin without a signature
            return False
        return asked is not None and asked.kind is inspect.Parameter.KEYWORD_ONLY
