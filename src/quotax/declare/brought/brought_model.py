"""Models that exist already: a function of any pytree, with axes that nobody wrote down.

What is proved of such a model is proved of the function that was brought. With a factory of it at other sizes, a trace
at any sizes is one of what the factory makes there, and at the sizes of the parameters the factory has to make the
very function that was brought. Without one, a trace at other sizes is one of the same Python function, read with
larger or smaller arrays; an axis at whose other sizes it raises keeps its size in every claim.
"""

from __future__ import annotations

import dataclasses
import gc
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import DTypeLike

from quotax.artifacts import ArraySpec, completed, settled, sizes_text
from quotax.declare.architecture import Architecture
from quotax.declare.brought.axes_of_a_trace import Axes
from quotax.declare.brought.examples import Examples
from quotax.declare.brought.leaves import Leaves, flattened, plain
from quotax.declare.brought.single_precision import widened
from quotax.declare.fused_axes import DeclaredArray, declared_array
from quotax.declare.network import Network
from quotax.errors import ArchitectureError, ParameterError
from quotax.trees import AnyArray, Dim, Tree, named

_NAME = re.compile(r"[A-Za-z_]\w*")

Built = Callable[[Mapping[str, Tree]], tuple[Callable[..., Tree], Leaves]]
"""The function at these sizes of a factory, and the leaves of its parameters there."""


@dataclasses.dataclass(frozen=True, eq=False)
class Origin:
    """What was brought: a function of `(params, *inputs)`, its leaves, and its inputs.

    `built` makes the function at other sizes; `whole` is the tree that was given. A function that runs in `single`
    precision alone is read by its steps there.
    """

    call: str
    name: str
    function: Callable[..., Tree]
    leaves: Leaves
    whole: Any
    examples: Examples
    built: Built | None = None
    single: bool = False

    def at(self, sizes: Mapping[str, Dim]) -> tuple[Callable[..., Tree], Leaves]:
        """The function at these sizes, and its leaves there."""
        return (self.function, self.leaves) if self.built is None else self.built(sizes)

    def run(self, arrays: Mapping[str, AnyArray], inputs: Sequence[Tree], sizes: Mapping[str, Dim]) -> Tree:
        """The output, for parameters by name; constants in float64."""
        function, leaves = self.at(sizes)
        if self.single:
            run = lambda arrays, inputs: function(leaves.whole(arrays), *self.examples.filled(inputs, wide=False))
            return widened(run)(dict(arrays), tuple(inputs))
        there = dataclasses.replace(leaves, rest=tuple(map(plain, leaves.rest)))
        return function(there.whole(arrays), *self.examples.filled(inputs))


class Brought(Architecture):
    """A model that exists already. Its sizes are those of the parameters that came with it, unless others are given.

    `arch(params, x)` runs it, `arch.parameters` are the parameters that came with it, and everything that takes or
    returns parameters does so in their own tree: a module, a state, nested lists.
    """

    def __init__(
        self, origin: Origin, axes: Axes, fixed: Mapping[str, str], keywords: Mapping[str, str] | None = None
    ) -> None:
        """Use `qx.from_function`, `qx.from_equinox` or `qx.from_flax`. `fixed` says why an axis keeps its size."""
        self.origin = origin
        self._axes = axes
        self._why = dict(fixed)
        self._keywords = {axis: axis for axis in axes.sizes} if keywords is None else dict(keywords)

        def applied(params: Tree, *inputs: Tree, sizes: Mapping[str, Dim]) -> Tree:
            there = {self._keywords[axis]: size for axis, size in sizes.items() if axis in self._keywords}
            return origin.run(named(params), inputs, there)

        applied.__name__ = origin.name
        super().__init__(applied, axes.params, axes.inputs, {})
        self.__doc__ = origin.function.__doc__
        self.trees = origin.leaves
        self.own = dict(axes.sizes)
        self.fixed = {axis: axes.sizes[axis] for axis in fixed} | axes.tied

    @property
    def parameters(self) -> Tree:
        """The parameters that came with it: the tree that was given, with None for whatever is no parameter."""
        return self.trees.tree(self.trees.named(self.origin.whole))

    @property
    def num_parameters(self) -> int:
        """How many numbers the parameters hold."""
        return self.at().num_parameters

    def at(self, **sizes: int) -> BroughtNetwork:
        """The network of these sizes; those of the parameters where none is given."""
        own = {axis: self.own[axis] for axis in self.parameter_axes}
        there = {a: n for a, n in settled(own | sizes, self._axes.tied).items() if a in own}
        return BroughtNetwork(self, self.check_sizes(there | sizes, required=(), call=f"{self.name}.at"))

    def __call__(self, params: Tree, *inputs: Tree) -> Tree:
        """The output for these parameters and inputs."""
        return self.at()(params, *inputs)

    def check_sizes(self, sizes: Mapping[str, Dim], *, required: tuple[str, ...], call: str) -> dict[str, int]:
        """As a declaration does; an axis that has to keep its size may have no other."""
        checked = super().check_sizes(sizes, required=required, call=call)
        checked = {a: n for a, n in completed(checked, self._axes.tied, call).items() if a in self.axis_names}
        for axis, size in self.fixed.items():
            if axis in self._why and checked.get(axis, size) != size:
                raise ArchitectureError(
                    f"`{call}`: the axis {axis!r} of {self.name} is {size}, and {checked[axis]} was asked for: "
                    f"{self._why[axis]}. Pass make=, a function that makes the model at other sizes."
                )
        return checked

    def __reduce__(self) -> tuple[object, ...]:
        """By what it was made of, where the function that was brought can be kept."""
        return Brought, (self.origin, self._axes, self._why, self._keywords)

    def renamed(self, **names: str) -> Brought:
        """The same model with other names for its axes: `arch.renamed(h0="hidden")`."""
        unknown = [axis for axis in names if axis not in self.axis_names]
        if unknown:
            raise ArchitectureError(
                f"`{self.name}.renamed`: unknown axis {unknown[0]!r}; the axes are {', '.join(self.axis_names)}."
            )
        after = [names.get(axis, axis) for axis in self.axis_names]
        for axis, name in names.items():
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name)) or after.count(name) > 1:
                raise ArchitectureError(
                    f"`{self.name}.renamed({axis}={name!r})`: a name must be an identifier that no other axis has."
                )
        new = lambda factor: names.get(factor, factor) if isinstance(factor, str) else factor

        def array(old: DeclaredArray) -> DeclaredArray:
            return declared_array(old.name, _NAME.sub(lambda word: str(new(word[0])), old.axes_text), f"{old.name!r}")

        def spec(old: ArraySpec) -> ArraySpec:
            axes = tuple(tuple(map(new, axis)) for axis in old.axes)
            return dataclasses.replace(old, axes=axes, below=new(old.below))

        sizes = {new(axis): size for axis, size in self._axes.sizes.items()}
        product = lambda text: "*".join(map(str, map(new, text.split("*"))))
        tied = {new(axis): product(text) for axis, text in self._axes.tied.items()}
        axes = Axes(tuple(map(array, self._axes.params)), tuple(map(spec, self.inputs)), sizes, tied)
        why = {new(axis): reason for axis, reason in self._why.items()}
        return Brought(self.origin, axes, why, {new(axis): word for axis, word in self._keywords.items()})

    def describe(self) -> str:
        """The axes that were found: their sizes, where they occur, and at which sizes proofs hold."""
        net = self.at()
        rows = [("axis", "size", "may be", "where")]
        for axis in self.axis_names:
            where = [
                f"{spec.name}[{place}]"
                for spec in (*self._axes.params, *self.inputs)
                for place, text in enumerate(spec.axes_text.split())
                if axis in _NAME.findall(text)
            ]
            where += [f"tokens {spec.name}" for spec in self.inputs if spec.below == axis]
            shown = ", ".join(where[:5]) + (f", and {len(where) - 5} more" if len(where) > 5 else "")
            held = "no other" if axis in self._why else str(self.fixed.get(axis, "any"))
            rows.append((axis, str(self.own[axis]), held, shown))
        wide = [max(len(row[k]) for row in rows) for k in range(3)]
        lines = [f"{self.name}: {net.num_parameters:,} parameters in {len(self.arrays)} arrays"]
        lines += ["  ".join([*(c.ljust(w) for c, w in zip(row, wide, strict=False)), row[3]]) for row in rows]
        for title, specs in (("parameters", self._axes.params), ("inputs", self.inputs)):
            lines.append(f"{title}:")
            kind = lambda spec: _kind(spec) if isinstance(spec, ArraySpec) else ""
            lines += [f"  {s.name}: {s.axes_text or 'a number'}{kind(s)}" for s in specs] or ["  none"]
        kept = self.origin.leaves.constants
        if kept:
            lines.append(f"arrays that are no parameters: {len(kept)}, of {sum(np.size(k) for k in kept):,} numbers")
        reasons = dict.fromkeys(self._why.values())
        lines += [f"{', '.join(a for a in self._why if self._why[a] == why)}: {why}" for why in reasons]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Name, parameters and inputs, and the sizes."""
        shown = f"{len(self.arrays)} parameters" if len(self.arrays) > 8 else super().__repr__().partition("(")[2][:-1]
        return f"Brought {self.name}({shown}) at {sizes_text(self.own)}"


def _kind(spec: ArraySpec) -> str:
    return {"real": "", "tokens": f" (tokens below {spec.below})"}.get(spec.kind, f" ({spec.kind})")


class BroughtNetwork(Network):
    """A model that was brought, at given sizes: its parameters are trees of the kind that it came with."""

    architecture: Brought

    def _named(self, params: Tree, call: str) -> dict[str, Tree]:
        try:
            return self.architecture.trees.named(params)
        except ParameterError as error:
            raise ParameterError(f"`{call}`: these are not parameters of {self.architecture.name}: {error}.") from None

    def tree(self, arrays: Mapping[str, AnyArray], like: Tree = None) -> Tree:
        """Parts by name, as a tree of the user's; what it holds besides is taken from `like`, or None."""
        return self.architecture.trees.tree(named(super().tree(arrays)), like)

    def __call__(self, params: Tree, *inputs: Tree) -> Tree:
        """The output for these parameters and inputs: what the tree does not say is as it was brought."""
        arrays = self.check_params(params, call=f"{self._call}(params, ...)")
        function, leaves = self.architecture.origin.at(self._words())
        given = [leaf for _, leaf in flattened(params)[0]]
        rest = tuple(own if leaf is None else leaf for own, leaf in zip(leaves.rest, given, strict=True))
        return function(dataclasses.replace(leaves, rest=rest).whole(arrays), *inputs)

    def _words(self) -> dict[str, int]:
        words = self.architecture._keywords
        return {words[axis]: size for axis, size in self.sizes.items() if axis in words}

    def init(self, key: jax.Array, dtype: DTypeLike | None = None) -> Tree:
        """Random parameters, in a tree that can be called where the model can be."""
        arrays = named(super().init(key, dtype))
        return self.architecture.origin.at(self._words())[1].whole(arrays)


def free_axes(
    traced: Callable[[dict[str, int]], object], own: Mapping[str, int], tried: Sequence[str]
) -> dict[str, str]:
    """Of the axes that are tried, those at whose other sizes the model raises, each with what it says.

    All are moved at once first, to unequal sizes; where that is refused one by one, and then together.
    """
    refusal = lambda sizes: _refusal(traced, dict(own) | sizes)
    pool = (n for n in _PRIMES if n not in own.values())
    moved = dict(zip(tried, pool, strict=False))
    if not tried or refusal(moved) is None:
        return {}
    fixed: dict[str, str] = {}
    free: dict[str, int] = {}
    for axis in tried:
        said = None
        n = own[axis]
        for size in _others(n, moved[axis]):
            said = refusal(free | {axis: size})
            if said is None:
                free[axis] = size
                break
        else:
            fixed[axis] = f"at another size it cannot be traced ({said})"
    gc.collect()  # what was raised holds, in a cycle, traces in double precision: see `programs.jaxprs.traced`
    return fixed


def moved_together(
    traced: Callable[[dict[str, int]], object], own: Mapping[str, int], fixed: Sequence[str] | Mapping[str, str]
) -> list[tuple[str, str]]:
    """Pairs of axes of one size that have another size together and not alone.

    `one_hot(chosen, gate.shape[1])` meets experts by their number, which the trace does not show.
    """
    found: list[tuple[str, str]] = []
    for one, other in itertools.combinations(fixed, 2):
        n = own[one]
        if own[other] != n or other in (axis for pair in found for axis in pair):
            continue
        if any(_refusal(traced, dict(own) | {one: size, other: size}) is None for size in _others(n, n + 1)):
            found.append((one, other))
    return found


def _others(n: int, first: int) -> list[int]:
    """Sizes to try in place of one."""
    sizes = (first, 2 * n, 3 * n, 4 * math.ceil(n / 4) + 4, max(n - 1, 2))
    return [size for size in dict.fromkeys(sizes) if size != n]


def _refusal(traced: Callable[[dict[str, int]], object], sizes: dict[str, int]) -> str | None:
    """What a model says of sizes that it does not accept."""
    try:
        traced(sizes)
    except ArchitectureError as error:
        cause = error.__cause__ or error
        return (str(cause).strip() or type(cause).__name__).splitlines()[0][:160]  # `assert` says nothing
    return None


_PRIMES = (5, 7, 3, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107)
