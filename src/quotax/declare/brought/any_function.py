"""`from_function`: any JAX function of any pytree of parameters."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from quotax.artifacts import ArraySpec, Trace
from quotax.declare.brought.axes_of_a_trace import Axes, axes_of
from quotax.declare.brought.brought_model import Brought, Built, Origin, free_axes, moved_together
from quotax.declare.brought.examples import Examples, all_or_one, examples
from quotax.declare.brought.factories import Fit, Measured, Shapes, fitted, keywords
from quotax.declare.brought.following import Followed
from quotax.declare.brought.leaves import Leaves, flattened, is_array, is_floating, names_of_axes
from quotax.declare.brought.unknowns import Dims, Unknown, factors, length, meet, summed
from quotax.declare.fused_axes import Sum
from quotax.errors import ArchitectureError, ParameterError
from quotax.interpret import trace
from quotax.interpret.tracing.beyond_the_end import tokens_read
from quotax.programs.jaxprs import bare, bodies, is_key
from quotax.trees import Dim, Tree, named


def from_function(
    function: Callable[..., Tree],
    params: Tree,
    inputs: Tree,
    *more: Tree,
    make: Callable[..., Tree] | None = None,
    trainable: Tree = is_floating,
    name: str | None = None,
) -> Brought:
    """A model of any JAX function `function(params, *inputs)`: axes are inferred, not declared.

    Args:
        function: what is computed; it may take random keys, states and caches among its inputs.
        params: its parameters: any pytree. Floating arrays are parameters, one where the same array occurs twice;
            everything else in it belongs to the function.
        inputs: an example, or several in order, or a dict of them by argument name: arrays (integers are tokens, truth
            values masks), or `qx.Positive(array)`, `qx.Mask(array)`, `qx.Tokens(array, below=...)`; trees of them too.
        more: the examples after the first, if `inputs` is not all of them.
        make: makes `params` at other sizes: its keyword arguments are the axes, `make=lambda width: init(width)`.
            Proofs then hold for every width. Without it they hold wherever the function itself accepts other
            arrays, and otherwise at the sizes of `params`; `describe()` says which.
        trainable: of which leaves are parameters, where not all floating arrays are: a function of a leaf, or a tree
            of truth values.
        name: what messages and claims call it.

    >>> import jax, jax.numpy as jnp, quotax as qx
    >>> params = [{"W": jnp.ones((5, 3)), "b": jnp.ones(5)}, {"W": jnp.ones((2, 5))}]
    >>> def net(layers, x):
    ...     first, second = layers
    ...     return second["W"] @ jax.nn.relu(first["W"] @ x + first["b"])
    >>> print(qx.from_function(net, params, jnp.ones(3)).describe())
    net: 30 parameters in 3 arrays
    axis  size  may be  where
    h0    5     any     a0/W[0], a0/b[0], a1/W[1]
    x     3     any     a0/W[1], x[0]
    y     2     any     a1/W[0]
    parameters:
      a0/W: h0 x
      a0/b: h0
      a1/W: y h0
    inputs:
      x: x
    """
    call = "from_function"
    if not callable(function):
        raise ArchitectureError(f"`{call}(function, params, inputs)`: function must be callable, got {function!r}.")
    if make is not None and not callable(make):
        raise ArchitectureError(f"`{call}(..., make=...)`: make must be a function of sizes, got {make!r}.")
    leaves = checked_leaves(call, params, chosen_by(call, trainable, params))
    given = examples(call, function, (inputs, *more) if more else all_or_one(function, inputs))
    title = name or getattr(function, "__name__", type(function).__name__)
    factory = None if make is None else tree_factory(lambda **sizes: (function, make(**sizes)))
    return brought(call, title, function, params, leaves, given, make, factory)


def checked_leaves(call: str, params: Tree, trainable: Callable[[Any], bool]) -> Leaves:
    """The leaves of a tree of parameters; refused when none of them is one, or a parameter is no number."""
    leaves = Leaves.of(params, lambda leaf: is_floating(leaf) and trainable(leaf))
    if not any(leaves.slots):
        kinds = ", ".join(sorted({type(leaf).__name__ for _, leaf in flattened(params)[0]})) or "nothing"
        raise ParameterError(f"`{call}`: params holds no floating array that is a parameter; its leaves are {kinds}.")
    for parameter, array in leaves.named(params).items():
        if isinstance(array, (jax.Array, np.ndarray)) and not np.isfinite(np.asarray(array, np.float64)).all():
            raise ParameterError(f"`{call}`: params has NaN or infinite values in {parameter}.")
    return leaves


Factory = Callable[[Mapping[str, Tree], bool], tuple[Callable[..., Tree], Any]]
"""The function and the parameters' tree at these keywords: of shapes alone, or, where asked, of arrays."""


def installed(call: str, library: str) -> Tree:
    """A library that only this call needs."""
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise ArchitectureError(f"`{call}` needs {library}: pip install 'quotax[{library}]' ({error}).") from error


def chosen_by(call: str, trainable: Tree, tree: Tree) -> Callable[[Any], bool]:
    """Which leaves of a tree are parameters, by a function of a leaf or a tree of truth values."""
    structure = jax.tree.structure(trainable)
    alike = structure == jax.tree.structure(tree)  # a module of truth values may be callable, too
    if callable(trainable) and not (alike and structure != jax.tree.structure(0)):
        return lambda leaf: bool(trainable(leaf))
    try:
        flags = jax.tree.leaves(jax.tree.broadcast(trainable, tree, is_leaf=lambda leaf: leaf is None))
    except (ValueError, TypeError) as error:
        raise ArchitectureError(
            f"`{call}`: trainable must be a function of a leaf, or a tree of truth values like the parameters: {error}"
        ) from None
    chosen = {id(leaf) for leaf, flag in zip(jax.tree.leaves(tree), flags, strict=True) if flag is True}
    return lambda leaf: id(leaf) in chosen


def tree_factory(make: Callable[..., tuple[Callable[..., Tree], Any]]) -> Factory:
    """A factory that makes trees: abstractly, so that sizes may be symbols."""

    def made(sizes: Mapping[str, Dim], concrete: bool) -> tuple[Callable[..., Tree], Any]:
        if concrete:
            with jax.ensure_compile_time_eval():
                return make(**sizes)
        held: dict[str, Tree] = {}

        def run() -> list[Tree]:
            held["function"], tree = make(**sizes)
            pairs, held["structure"] = flattened(tree)
            held["leaves"] = [leaf for _, leaf in pairs]
            return [leaf for leaf in held["leaves"] if is_array(leaf)]

        shapes = iter(jax.eval_shape(run))
        leaves = [next(shapes) if is_array(leaf) else leaf for leaf in held["leaves"]]
        return held["function"], jax.tree_util.tree_unflatten(held["structure"], leaves)

    return made


def brought(
    call: str,
    title: str,
    function: Callable[..., Tree],
    params: Tree,
    leaves: Leaves,
    given: Examples,
    make: Callable[..., Tree] | None,
    factory: Factory | None,
    measure: Measured | None = None,
) -> Brought:
    """The model: its trace is followed, the factory fitted, and axes tried at other sizes."""
    arrays = leaves.named(params)
    shapes: Shapes = {name: tuple(np.shape(array)) for name, array in arrays.items()}
    origin = Origin(call, title, function, leaves, params, given)
    origin, here = _in_some_precision(origin, shapes)
    dims = {name: [(Unknown(n),) for n in shape] for name, shape in shapes.items()}
    read: list[list[Dims]] = [[(Unknown(n),) for n in example.shape] for example in given.arrays]
    followed = Followed(here.jaxpr, [*dims.values(), *read])
    fit: Fit | None = None
    if make is not None and factory is not None:
        names, defaults = keywords(call, make)
        fit = fitted(call, names, defaults, measure or functools.partial(_measured, leaves, factory), shapes)
        origin = dataclasses.replace(origin, built=_built(call, leaves, factory, fit))
    inferred = lambda: _in_tables(axes_of(shapes, given.arrays, dims, read, followed, fit), here, given)
    axes, tables = inferred()
    for spec in axes.inputs:
        if spec.kind == "tokens" and spec.below is None:
            raise ArchitectureError(
                f"`{call}`: the input {spec.name!r} holds integers, and the trace does not say how many there are; "
                f"pass qx.Tokens({spec.name}, below=...) in its place."
            )
    model = Brought(origin, axes, {})
    if fit is not None:
        _same(call, here, _traced(origin, shapes, fit.own), fit)
    tried = [axis for axis in axes.sizes if fit is None or (axis not in fit.own and axis not in axes.tied)]
    fixed: dict[str, Any] = {**free_axes(lambda sizes: taken_apart(model, sizes), model.own, tried)}
    if fit is None and _met(axes, dims, moved_together(lambda sizes: taken_apart(model, sizes), model.own, fixed)):
        axes, tables = inferred()
        model = Brought(origin, axes, {})
        fixed = free_axes(lambda sizes: taken_apart(model, sizes), model.own, list(axes.sizes))
    fixed |= dict.fromkeys(tables, "tokens are fewer than the rows of its table, which are read further on")
    model = Brought(origin, axes, fixed) if fixed else model
    return model.renamed(**_own_names(model, params, leaves, () if fit is None else fit.own))


def _met(axes: Axes, dims: Mapping[str, Sequence[Dims]], pairs: Sequence[tuple[str, str]]) -> bool:
    """Let the dimensions of these pairs of axes be one; whether there are any."""
    whose: dict[str, Unknown] = {}
    for array in axes.params:
        for text, dim in zip(array.axes_text.split(), dims[array.name], strict=True):
            words, roots = text.split("*"), factors(dim)
            if "+" not in text and len(words) == len(roots):
                whose |= {word: root for word, root in zip(words, roots, strict=True) if not word.isdecimal()}
    known = [(whose[one], whose[other]) for one, other in pairs if one in whose and other in whose]
    for one, other in known:
        meet((one,), (other,))
    return bool(known)


def _in_some_precision(origin: Origin, shapes: Shapes) -> tuple[Origin, Trace]:
    """The trace in double precision; of a function that raises there, or is another one, by its steps in single."""
    try:
        return origin, _traced(origin, shapes, {})
    except ArchitectureError as error:
        single = dataclasses.replace(origin, single=True)
        try:
            return single, _traced(single, shapes, {})
        except Exception:  # whatever is wrong with it there too
            raise error from error.__cause__


def _own_names(model: Brought, params: Tree, leaves: Leaves, kept: Iterable[str]) -> dict[str, str]:
    """What the parameters' own arrays call an axis, where they agree and no two axes are called alike."""
    said: dict[str, set[str | None]] = {}
    whose = {id(array): name for name, array in leaves.named(params).items()}
    specs = {spec.name: spec for spec in model.arrays}
    for array, names in names_of_axes(params):
        spec = specs.get(whose.get(id(array), ""))
        for axis, name in zip(spec.axes if spec is not None else (), names, strict=False):
            if len(axis) == 1 and isinstance(axis[0], str):
                said.setdefault(axis[0], set()).add(name)
    words = {axis: str(next(iter(names))) for axis, names in said.items() if len(names) == 1 and None not in names}
    others = [*words.values(), *(axis for axis in model.axis_names if axis not in words)]
    fine = lambda word: re.fullmatch(r"[A-Za-z_]\w*", word) is not None and others.count(word) == 1
    return {axis: word for axis, word in words.items() if axis not in kept and axis != word and fine(word)}


def taken_apart(model: Brought, sizes: Mapping[str, int]) -> None:
    """Trace a model at other sizes; refused where it takes a product of axes apart in another way than at its own.

    `x.reshape(t, 2, -1)` accepts many lengths, and two of them in one dimension need not be heads times their width.
    """
    checked = model.check_sizes(sizes, required=model.axis_names, call=f"{model.name}.trace")
    specs = (*model.arrays, *model.inputs)
    shapes = {array.name: array.shape(checked) for array in model.arrays}
    traced = _traced(model.origin, shapes, checked, [spec.shape(checked) for spec in model.inputs])
    dims = [[(Unknown(n),) for n in spec.shape(checked)] for spec in specs]
    Followed(traced.jaxpr, dims)
    size = lambda product: math.prod(f if isinstance(f, int) else checked[f] for f in product)
    for spec, row in zip(specs, dims, strict=True):
        for axis, dim, text in zip(spec.axes, row, spec.axes_text.split(), strict=True):
            sums = [f for f in axis if isinstance(f, Sum)]
            if sums and len(axis) == 1:
                expected, found = [size(term) for term in sums[0].terms], [length(term) for term in summed(dim)]
            else:
                expected = [sum(map(size, f.terms)) if isinstance(f, Sum) else size((f,)) for f in axis]
                found = [unknown.size for unknown in factors(dim)]
            if len(axis) + len(sums) > 1 and len(found) > 1 and found != expected:
                joint = "+" if sums and len(axis) == 1 else "*"
                raise ArchitectureError(f"{spec.name!r} is taken apart as {joint.join(map(str, found))}, not as {text}")


def _in_tables(axes: Axes, here: Trace, given: Examples) -> tuple[Axes, dict[str, int]]:
    """The axes with fewer tokens where a model reads its tables further on: positions that begin at the third row.

    And the lengths of those tables, which have to stay what they are.
    """
    inputs, tables = [], {}
    for number, (spec, example) in enumerate(zip(axes.inputs, given.arrays, strict=True), len(here.params)):
        if spec.kind == "tokens" and example.below is None and spec.below is not None:
            below = axes.sizes[spec.below] if isinstance(spec.below, str) else spec.below
            count = tokens_read(here.jaxpr, number, below)
            if count < below:
                tables |= {spec.below: below} if isinstance(spec.below, str) else {}
                spec = dataclasses.replace(spec, below=count)
        inputs.append(spec)
    return dataclasses.replace(axes, inputs=tuple(inputs)), tables


def _traced(
    origin: Origin, params: Shapes, words: Mapping[str, int], inputs: Sequence[tuple[int, ...]] | None = None
) -> Trace:
    """The function at these shapes, arrays whole; `words` are a factory's keywords."""
    numbers = lambda shape: tuple((int(n),) for n in shape)
    examples = origin.examples.arrays
    shapes = [e.shape for e in examples] if inputs is None else inputs
    specs = tuple(ArraySpec(name, numbers(shape)) for name, shape in params.items())
    read = tuple(ArraySpec(e.name, numbers(s), e.kind) for e, s in zip(examples, shapes, strict=True))

    def run(tree: Tree, *arrays: Tree) -> Tree:
        return origin.run(named(tree), arrays, words)

    run.__name__ = origin.name
    return trace(run, specs, read, {})


def _measured(own: Leaves, factory: Factory, sizes: Mapping[str, int]) -> Shapes:
    """The shapes of what a factory makes."""
    return own.shapes(factory(sizes, False)[1])


def _built(call: str, own: Leaves, factory: Factory, fit: Fit) -> Built:
    kept: dict[tuple[tuple[str, int], ...], tuple[Callable[..., Tree], Leaves]] = {}

    @functools.cache
    def shapeless() -> Callable[..., Any] | None:
        """The function, where nothing that is made depends on sizes but the shapes of parameters."""
        made = [factory({name: n + more for name, n in fit.own.items()} | fit.counts, False) for more in (0, 12)]
        (function, first), (other, second) = made
        alike = [own.like(tree) for tree in (first, second)]
        same = function is other and all(each.structure == own.structure for each in alike)
        return function if same and all(slot is not None for slot in own.slots) else None

    def built(sizes: Mapping[str, Any]) -> tuple[Callable[..., Any], Leaves]:
        words = {name: sizes.get(name, own) for name, own in fit.own.items()} | fit.counts
        numbers = all(isinstance(size, int) for size in words.values())
        key = tuple(words.items())
        if numbers and key in kept:
            return kept[key]
        try:
            function, tree = factory(words, False)
        except Exception:  # an initialiser that wants numbers, for numbers that are not looked at
            alone = None if numbers else shapeless()
            if alone is None:
                raise
            return alone, own
        leaves = own.like(tree)
        if leaves.constants:
            if not numbers:
                raise ArchitectureError(
                    f"`{call}`: make= makes {len(leaves.constants)} arrays that are no parameters, "
                    "and their numbers are known at sizes alone that are numbers"
                )
            function, tree = factory(words, True)
            leaves = own.like(tree)
        if numbers:
            kept[key] = function, leaves
        return function, leaves

    return built


def _same(call: str, here: Trace, there: Trace, fit: Fit) -> None:
    """Refuse a factory that makes another function at the sizes of the model."""
    said = ", ".join(f"{k}={v}" for k, v in (fit.own | fit.counts).items())
    read = lambda traced: re.sub(r" at 0x[0-9a-f]+", "", str(traced.jaxpr.jaxpr))
    if read(there) != read(here):
        raise ArchitectureError(
            f"`{call}`: make({said}) has the parameters' shapes but computes something else than the model given. "
            "It must make the same model: the same activations, the same settings."
        )
    pairs = zip(_constants(here.jaxpr), _constants(there.jaxpr), strict=True)
    if any(np.shape(a) != np.shape(b) or not np.array_equal(a, b) for a, b in pairs):
        raise ArchitectureError(
            f"`{call}`: make({said}) has other numbers than the model in arrays that are no parameters (running "
            "statistics, tables): pass them among the inputs, make them the same, or leave out make=."
        )


def _constants(closed: Jaxpr | ClosedJaxpr) -> list[Tree]:
    """All arrays that a trace holds, those of its loops and calls among them."""
    own = [np.asarray(c) for c in getattr(closed, "consts", ()) if is_array(c) and not is_key(c)]
    inner = [b for e in bare(closed).eqns for value in e.params.values() for b in bodies(value)]
    return [*own, *(c for body in inner for c in _constants(body))]
