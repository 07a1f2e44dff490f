"""A model's jaxpr at given sizes, with the names of what goes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax.core import ShapedArray, Tracer
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from quotax.artifacts import ArraySpec, Trace, sizes_text
from quotax.checks import LOOKED_AT, first_words
from quotax.errors import ArchitectureError, QuotaxError
from quotax.interpret.tracing.apart import program_of_parts
from quotax.interpret.tracing.beyond_the_end import read_beyond_the_end
from quotax.interpret.tracing.plain_reading import in_plain_words
from quotax.interpret.tracing.precisions import compared
from quotax.parts import groups, tree, whole_shape
from quotax.programs.jaxprs import needed, traced
from quotax.trees import AnyArray, Dim, Tree, named

DTYPES = {"real": jnp.float64, "positive": jnp.float64, "mask": jnp.float64, "tokens": jnp.int32}


def trace(
    function: Callable[..., Tree],
    params: tuple[ArraySpec, ...],
    inputs: tuple[ArraySpec, ...],
    sizes: Mapping[str, int],
    *,
    twice: bool = True,
) -> Trace:
    """Trace `function(params_pytree, *inputs)` once, at exactly these sizes, in float64.

    float64 keeps every digit of a Python constant; the flag is set for this thread and for the trace only. Tokens are
    int32, masks float64. Names joined with "/" become nested dicts. It is traced `twice`: a function that takes other
    steps in float32 is refused, one that raises there runs in float64 alone.
    """
    sizes = dict(sizes)
    declared = groups(params)
    names, name = list(declared), getattr(function, "__name__", "function")
    nested(names, names)  # refuse names that collide before anything is traced

    def flat(*leaves: AnyArray) -> Tree:
        return function(nested(names, leaves[: len(names)]), *leaves[len(names) :])

    with jax.enable_x64(True):
        arrays = given(params, inputs, lambda spec: _shape(spec, sizes), sizes)
        try:
            closed, outputs = traced(flat, arrays)
            closed = needed(closed)
        except QuotaxError:
            raise
        except Exception as error:
            at = ", ".join(f"{axis}={size}" for axis, size in sizes.items()) or "no named axes"
            called = (*names, *(spec.name for spec in inputs))
            shapes = ", ".join(f"{each}: {array.shape}" for each, array in zip(called, arrays, strict=True))
            raise _raised(name, error, f"at {at} (shapes {shapes})", names) from error
        beyond = read_beyond_the_end(closed)
    if (refused := _unusable(name, outputs, closed.consts)) is not None:
        raise refused
    if beyond is not None:
        raise ArchitectureError(
            f"`{name}` returns NaN at {sizes_text(sizes)}: {beyond} reads positions beyond the end of an array, and "
            "JAX fills in what is not there. Give it sizes at which they exist, or say what is to be read there "
            "(`x.at[i].get(mode='clip')`)."
        )
    try:
        if twice:
            compared(flat, name, arrays, closed)
    except QuotaxError:
        raise
    except Exception:
        pass
    with jax.enable_x64(True):
        apart = program_of_parts(in_plain_words(closed), params, sizes)
        written = None if apart is closed else _of_parts(closed, params, sizes, apart.in_avals)
    return Trace(apart, tuple(params), tuple(inputs), sizes, jax.tree.structure(outputs), written)


def _raised(name: str, error: Exception, where: str, names: Sequence[str]) -> ArchitectureError:
    """A model's own error, and what to do about it."""
    told, always, hint = first_words(error), True, "Check that the declared axes are what the function expects."
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        hint = f"The parameters that are declared are {', '.join(names) or 'none'}."
    elif isinstance(error, LOOKED_AT):
        hint = "A model is traced: write what depends on values with `jax.numpy`, `jnp.where` or `jax.lax.cond`."
    elif "must have integer" in told:  # JAX's words where real numbers are an index
        hint = "An input of integers is declared as `qx.Tokens('t', below='vocab')`."
    else:
        always = isinstance(error, NameError)
    refused = ArchitectureError(f"`{name}` raised {type(error).__name__} while it was traced {where}: {told}. {hint}")
    refused.whatever_sizes = always
    return refused


def _unusable(name: str, outputs: Tree, consts: Sequence[AnyArray]) -> ArchitectureError | None:
    """What is wrong with a model that was traced."""
    held = next((value for value in consts if isinstance(value, Tracer)), None)
    why = None
    if not jax.tree.leaves(outputs):
        why = "returns no array; a model returns its outputs, one array or a tree of them"
    elif held is not None:
        why = (
            f"closes over an array that JAX is tracing elsewhere ({held.aval}): declare the model outside jit, grad "
            "and vmap, of arrays that are numbers, or make this one an input"
        )
    if why is None:
        return None
    refused = ArchitectureError(f"`{name}` {why}.")
    refused.whatever_sizes = True
    return refused


def _of_parts(
    closed: ClosedJaxpr, params: Sequence[ArraySpec], sizes: Mapping[str, int], arguments: Sequence[ShapedArray]
) -> ClosedJaxpr:
    """The program as it was written, of parts that are concatenated before it runs."""

    def run(*leaves: AnyArray) -> Tree:
        parts = {spec.name: leaf for spec, leaf in zip(params, leaves, strict=False)}
        whole = named(tree(params, parts, sizes))
        return jaxpr_as_fun(closed)(*(whole[name] for name in groups(params)), *leaves[len(params) :])

    return jax.make_jaxpr(run)(*arguments)


def given(
    params: Sequence[ArraySpec],
    inputs: Sequence[ArraySpec],
    shape: Callable[[ArraySpec], tuple[Dim, ...]],
    sizes: Mapping[str, Dim],
) -> list[jax.ShapeDtypeStruct]:
    """What the user's function is traced on: arrays as they are declared, then inputs."""
    first = [(own[0], whole_shape(own[0], sizes) if own[0].cuts else shape(own[0])) for own in groups(params).values()]
    return [jax.ShapeDtypeStruct(dims, DTYPES[spec.kind]) for spec, dims in (*first, *((s, shape(s)) for s in inputs))]


def _shape(spec: ArraySpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    missing = [axis for axis in spec.axis_names if axis not in sizes]
    if missing:
        raise ArchitectureError(
            f"`trace`: no size for axis {missing[0]!r} of {spec.name!r} ({spec.axes_text!r}); given: {dict(sizes)}."
        )
    return spec.shape(sizes)


def nested(names: Sequence[str], leaves: Sequence[Tree]) -> dict[str, Tree]:
    """Leaves as nested dicts: `a/b` is `tree["a"]["b"]`."""
    tree: dict[str, Tree] = {}
    for name, leaf in zip(names, leaves, strict=True):
        *path, last = name.split("/")
        node = tree
        for key in path:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise ArchitectureError(
                    f"parameter {name!r} lies inside {key!r}, which is an array itself; rename one."
                )
        if last in node:
            raise ArchitectureError(
                f"parameter {name!r} is declared twice, or is also the name of a group; rename one."
            )
        node[last] = leaf
    return tree
