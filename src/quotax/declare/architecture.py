"""`architecture`: a model declared once, as an ordinary JAX function with named axes."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy as sp

from quotax.artifacts import ArraySpec, AxisFactor, OpenTrace, Trace
from quotax.declare.axes import parse_arrays, parse_inputs
from quotax.declare.fused_axes import DeclaredArray
from quotax.declare.initialisers import Initialiser, check_overrides
from quotax.declare.network import Network
from quotax.declare.relations import Relations, parse_relations
from quotax.errors import ArchitectureError
from quotax.interpret import open_trace, symbolic_outputs, symbols_for, trace
from quotax.trees import NESTED, Dim, Tree, Trees


def architecture(
    params: Mapping[str, Tree],
    inputs: Mapping[str, Tree],
    *,
    init: Mapping[str, Initialiser | float] | None = None,
    parts: Mapping[str, str] | None = None,
    where: str | None = None,
) -> Callable[[Callable[..., Tree]], Architecture]:
    """Declare a model: `params` and `inputs` name the axes of what the decorated function takes.

    Args:
        params: name -> blank-separated axes; `""` is a scalar, an integer token a fixed size, `head*k` one array
            dimension that fuses two axes, `3*head*k` one that holds three arrays (so does `head*3*k`, where they take
            turns), `(head+2*group)*k` one that holds three of unequal sizes. Dicts nest, and nested names join with
            `/`.
        inputs: the same for the arguments after the parameters, in their order. A string is a real array,
            `Tokens("t", below="vocab")` an array of integers, `Mask("t")` an array of zeros and ones,
            `Positive("c")` one of positive numbers.
        init: initialisers `(key, shape, dtype) -> array`, or numbers, for parameters that should not start as usual.
        parts: names for what such an array holds, `{"c_attn/w": "q k v"}`: symmetries then speak of `c_attn/w.q`; of
            `c_attn/w.0` without. An axis of its own, as in `"3 d k"`, holds arrays only if they are named.
        where: what sizes have to do with one another, `"d = head*k, f = 4*d, k even"`. What is on a left need not be
            given, sizes that do not fit are refused, and proofs are of those that do.

    The function may take a keyword-only argument `sizes` and receives the axis sizes as a dict: for a fused
    axis, whose factors no array shape shows.

    >>> import jax
    >>> @architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
    ... def mlp(p, x):
    ...     return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])
    >>> mlp
    Architecture mlp(W1: h x, b1: h, W2: y h; x: x)
    """
    arrays, input_specs = parse_arrays(params, parts), parse_inputs(inputs)
    overrides = check_overrides(init, arrays)
    relations = parse_relations(where, _axis_names(arrays, input_specs))

    def declare(function: Callable[..., Tree]) -> Architecture:
        if not callable(function):
            raise ArchitectureError(f"`architecture` decorates a function of (params, *inputs), got {function!r}.")
        return Architecture(function, arrays, input_specs, overrides, relations)

    return declare


def _axis_names(arrays: tuple[DeclaredArray, ...], inputs: tuple[ArraySpec, ...]) -> list[str]:
    """Every axis of a declaration, and what tokens may be."""
    names = [name for spec in (*arrays, *inputs) for name in spec.axis_names]
    return list(dict.fromkeys([*names, *(spec.below for spec in inputs if isinstance(spec.below, str))]))


class Architecture:
    """A declared model of any width. Sizes turn it into a `Network`; numbers of any kind run through its trace."""

    def __init__(
        self,
        function: Callable[..., Tree],
        arrays: tuple[DeclaredArray, ...],
        inputs: tuple[ArraySpec, ...],
        init: Mapping[str, Initialiser],
        relations: Relations | None = None,
    ) -> None:
        """Keep the declaration; nothing is traced yet."""
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.arrays = arrays
        self.params = tuple(spec for array in arrays for spec in array.parts)
        self.inputs = inputs
        self.init = dict(init)
        self.relations = relations or Relations()
        self.fixed: Mapping[str, int | str] = self.relations.fixed
        """Axes whose size is settled: a number, or a product of others."""
        self._takes_sizes = _check_signature(function, self.name, inputs)
        self.function = function
        self._traces: dict[tuple[tuple[str, int], ...], Trace | ArchitectureError] = {}
        self._open: dict[tuple[tuple[str, int | str], ...], OpenTrace] = {}
        self.__doc__ = function.__doc__

    trees: Trees = NESTED
    """What the parameters look like to the user."""

    own: Mapping[str, int] = {}
    """The sizes that the model was brought with; a declaration has none."""

    @property
    def parameter_axes(self) -> tuple[str, ...]:
        """The axis names whose sizes a network needs: those of the parameters, and of what tokens may be."""
        names = [name for spec in self.params for name in spec.axis_names]
        names += [spec.below for spec in self.inputs if isinstance(spec.below, str)]
        return tuple(dict.fromkeys(names))

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name, parameters first."""
        return tuple(dict.fromkeys([*self.parameter_axes, *(n for spec in self.inputs for n in spec.axis_names)]))

    def call(self, params: Tree, *inputs: Tree, sizes: Mapping[str, int]) -> Tree:
        """Run the user's function; `sizes` reaches it when its signature asks for it."""
        return self.function(params, *inputs, **({"sizes": dict(sizes)} if self._takes_sizes else {}))

    def at(self, **sizes: int) -> Network:
        """The network of these sizes. Axes that only inputs have may be left out: they may vary from call to call."""
        return Network(self, self.check_sizes(sizes, required=self.parameter_axes, call=f"{self.name}.at"))

    def trace(self, sizes: Mapping[str, int]) -> Trace:
        """The model's jaxpr at these sizes, made once and kept, as a refusal is."""
        checked = self.check_sizes(sizes, required=self.axis_names, call=f"{self.name}.trace")
        key = tuple(sorted(checked.items()))
        if key not in self._traces:
            function = functools.partial(self.call, sizes=checked)
            named = functools.wraps(self.function, updated=())(function)
            try:
                self._traces[key] = trace(named, self.params, self.inputs, checked)
            except ArchitectureError as refused:
                self._traces[key] = refused
                raise
        found = self._traces[key]
        if isinstance(found, ArchitectureError):
            raise found.with_traceback(None)
        return found

    def open(self, axes: Mapping[str, int | str]) -> OpenTrace:
        """The model's jaxpr with sizes that stay symbols: `{"h": "h", "k": "2*k", "head": 2}`, made once and kept."""
        key = tuple(axes.items())
        if key not in self._open:
            self._open[key] = open_trace(self.call, self.params, self.inputs, axes)
        return self._open[key]

    def expression(self, **sizes: int) -> Tree:
        """The outputs at these sizes, as SymPy expressions of the parameters and inputs.

        A scalar output is an expression, an array a `sympy.Array`, several outputs the pytree that the function
        returns. Entry `(i, j)` of parameter `W` is the symbol named `W[i,j]`, of its part q `W.q[i,j]`: see `symbols`.
        """
        import jax

        call = f"{self.name}.expression"
        traced = self.trace(self.check_sizes(sizes, required=self.axis_names, call=call))
        outputs, _ = symbolic_outputs(traced)
        return jax.tree.unflatten(traced.out_tree, [as_sympy(array) for array in outputs])

    def symbols(self, **sizes: int) -> dict[str, Tree]:
        """The symbols that stand for each parameter and input in `expression`, by name."""
        checked = self.check_sizes(sizes, required=self.axis_names, call=f"{self.name}.symbols")
        return {spec.name: as_sympy(symbols_for(spec, checked)) for spec in self.params + self.inputs}

    def check_sizes(self, sizes: Mapping[str, Dim], *, required: tuple[str, ...], call: str) -> dict[str, int]:
        """`sizes` as plain integers, refused with the caller's names when they do not fit the axes."""
        known = self.axis_names
        for axis, size in sizes.items():
            if axis not in known:
                raise ArchitectureError(
                    f"`{call}`: unknown axis {axis!r}; the axes of {self.name} are {', '.join(known) or 'none'}."
                )
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise ArchitectureError(f"`{call}`: axis {axis!r} needs a positive integer size, got {size!r}.")
        sizes = self.relations.completed({axis: int(size) for axis, size in sizes.items()}, call)
        missing = [axis for axis in required if axis not in sizes]
        if missing:
            hint = ", ".join(f"{axis}=..." for axis in missing)
            raise ArchitectureError(f"`{call}`: missing size of axis {', '.join(map(repr, missing))}; add {hint}.")
        return {axis: sizes[axis] for axis in known if axis in sizes}

    # --- by reference, as functions are kept

    @functools.cached_property
    def declaration(self) -> Callable[[], tuple[Tree, ...]]:
        """What made this architecture, as a function that is found below it: pickle asks for `module.mlp.declaration`.

        The decorated function itself is not found by its name, where the architecture stands. cloudpickle keeps this
        one by value where it keeps functions by value, and with it what it returns.
        """
        parts = (self.function, self.arrays, self.inputs, self.init, self.relations)

        def declaration() -> tuple[Tree, ...]:
            return parts

        declaration.__module__, declaration.__qualname__ = self.function.__module__, f"{self.place}.declaration"
        return declaration

    @property
    def place(self) -> str | None:
        """Where this architecture stands in the module of its function: under its name, or another."""
        module = getattr(self.function, "__module__", None) or ""
        own = getattr(self.function, "__qualname__", "")
        if _standing(module, own) is self:
            return own
        names = vars(sys.modules[module]) if module in sys.modules else {}
        return next((name for name, value in names.items() if value is self), None)

    def __reduce__(self) -> tuple[object, ...]:
        """By reference where it stands in its module, as functions are kept; else by what made it."""
        if self.place:
            return _declared, (self.declaration,)
        return Architecture, self.declaration(), {"name": self.name}

    def __deepcopy__(self, memo: dict[int, Any]) -> Architecture:
        """Itself, as a function is: nothing of it changes."""
        return self

    def __repr__(self) -> str:
        """The declaration on one line."""
        params = ", ".join(f"{a.name}: {a.axes_text}".rstrip() for a in self.arrays)
        inputs = ", ".join(f"{s.name}: {s.axes_text}{_kind_text(s.kind, s.below)}".rstrip() for s in self.inputs)
        where = f"; {self.relations.text}" if self.relations.text else ""
        return f"Architecture {self.name}({params}; {inputs}{where})"


def _standing(module: str, path: str) -> Tree:
    """What a module has under a dotted path, or nothing."""
    found: Tree = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _declared(declaration: Callable[[], tuple[Tree, ...]]) -> Architecture:
    """The architecture below which a declaration was found, or one made of what it returns."""
    standing = _standing(declaration.__module__, declaration.__qualname__.rpartition(".")[0])
    if isinstance(standing, Architecture) and standing.declaration is declaration:
        return standing
    return Architecture(*declaration())


def as_sympy(array: np.ndarray) -> Tree:
    """An object array as SymPy shows it: an expression for a scalar, else an immutable `sympy.Array`."""
    return sp.sympify(array[()]) if array.ndim == 0 else sp.Array(array.ravel().tolist(), array.shape)


def _kind_text(kind: str, below: AxisFactor | None) -> str:
    return {"real": "", "mask": " (mask)", "positive": " (positive)"}.get(kind, f" (tokens below {below})")


def _check_signature(function: Callable[..., Tree], name: str, inputs: tuple[ArraySpec, ...]) -> bool:
    """Refuse a function that cannot be called as `f(params, *inputs)`; say whether it wants `sizes`."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature: nothing to check
        return False
    parameters = signature.parameters.values()
    takes_sizes = any(p.name == "sizes" and p.kind is p.KEYWORD_ONLY for p in parameters)
    keywords = {"sizes": {}} if takes_sizes else {}
    try:
        signature.bind({}, *inputs, **keywords)
    except TypeError as error:
        raise ArchitectureError(
            f"`architecture`: {name}{signature} cannot be called with the parameters and the "
            f"{len(inputs)} declared input(s) {', '.join(s.name for s in inputs)}: {error}."
        ) from None
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][1:]
    declared = [spec.name for spec in inputs]
    if set(declared) == set(positional) and declared != positional:
        raise ArchitectureError(
            f"`architecture`: inputs are declared as {', '.join(declared)} but {name} takes {', '.join(positional)}; "
            "inputs are passed in the order of the declaration: use the same order."
        )
    return takes_sizes
