"""Refusals of bad input, before anything is traced or compiled."""

from __future__ import annotations

import functools
import inspect
import math
import numbers
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from quotax.checks import LOOKED_AT, first_words, random_key, whole_number
from quotax.errors import SharpnessError
from quotax.trees import AnyArray, AnySpace, Tree

Key = jax.Array | np.ndarray | int | None
"""What random numbers are drawn from; nothing is zero."""


def check_radius(call: str, radius: AnyArray) -> float:
    """The radius as a positive float."""
    try:
        number = float(radius) if not isinstance(radius, bool | str) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise SharpnessError(f"`{call}` needs radius= a positive finite number, got {radius!r}; try 0.05.")
    return number


def check_start(call: str, start: Tree, params: Tree) -> Tree:
    """A perturbation shaped like the parameters, finite and not zero."""
    if jax.tree.structure(start) != jax.tree.structure(params):
        raise SharpnessError(
            f"`{call}` needs start= shaped like the parameters, such as another result's `.perturbation`; "
            f"its tree is {jax.tree.structure(start)}, that of the parameters {jax.tree.structure(params)}."
        )
    shapes = [(np.shape(a), np.shape(b)) for a, b in zip(jax.tree.leaves(start), jax.tree.leaves(params), strict=True)]
    for got, needed in shapes:
        if got != needed:
            raise SharpnessError(
                f"`{call}` needs start= shaped like the parameters, got an array of {got} for {needed}."
            )
    size = sum(float(np.sum(np.abs(np.asarray(leaf)))) for leaf in jax.tree.leaves(start))
    if not 0 < size < math.inf:
        raise SharpnessError(f"`{call}` needs start= a finite direction, got one of absolute sum {size}.")
    return start


check_whole = functools.partial(whole_number, SharpnessError)
"""An integer argument, at least so much."""


def check_batch(call: str, batch: Tree, microbatch: object) -> tuple[int | None, Tree]:
    """The chunk size and the batch as arrays that share their leading axis."""
    if batch is None:
        if microbatch is not None:
            raise SharpnessError(f"`{call}` got microbatch={microbatch!r} but no batch= to cut into chunks.")
        return None, None
    leaves, tree = jax.tree_util.tree_flatten_with_path(batch)
    if not leaves:
        raise SharpnessError(
            f"`{call}` needs examples, and batch={batch!r} holds no array; leave batch= out for `loss(params)`."
        )
    arrays, counts = [], {}
    for path, leaf in leaves:
        name = f"batch{jax.tree_util.keystr(path)}"
        array = jnp.asarray(leaf)
        if array.ndim == 0:
            raise SharpnessError(
                f"`{call}` needs a leading axis of examples on every array of batch=, and {name} is "
                f"the scalar {leaf!r}."
            )
        arrays.append(array)
        counts[name] = array.shape[0]
    if len(set(counts.values())) > 1:
        said = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise SharpnessError(f"`{call}` needs the same number of examples in every array of batch=: {said}.")
    if arrays[0].shape[0] == 0:
        raise SharpnessError(f"`{call}` needs examples, and batch= has 0 of them.")
    if microbatch is not None:
        microbatch = check_whole(call, "microbatch", microbatch, 1)
        if microbatch >= arrays[0].shape[0]:
            microbatch = None  # one chunk
    return microbatch, jax.tree.unflatten(tree, arrays)


def check_loss(call: str, loss: Callable[..., Tree], params: Tree, batch: Tree) -> None:
    """A callable that takes what it will be given and returns one real number."""
    arguments, said = ((params,), "loss(params)") if batch is None else ((params, batch), "loss(params, batch)")
    if not callable(loss):
        raise SharpnessError(f"`{call}` needs a function `{said}`, got {loss!r} ({type(loss).__name__}).")
    try:
        signature = inspect.signature(loss)
    except (TypeError, ValueError):
        signature = None
    if signature is not None:
        try:
            signature.bind(*arguments)
        except TypeError as error:
            hint = (
                "pass batch= or close the loss over the data" if batch is None else "leave batch= out if it needs none"
            )
            raise SharpnessError(
                f"`{call}` calls `{said}`, which `loss{signature}` does not accept ({error}); {hint}."
            ) from None
    try:
        closed, out = jax.make_jaxpr(loss, return_shape=True)(*arguments)
        held = any(isinstance(value, Tracer) for value in closed.consts)
    except LOOKED_AT as error:
        told = first_words(error).partition("\n")[0]
        raise SharpnessError(
            f"`{call}` traces the loss, which looks at the value of an array ({told}): "
            f"write it with `jax.numpy`, without NumPy, `float`, `.item()` or `if` on arrays."
        ) from error
    if held:
        raise SharpnessError(
            f"`{call}` needs a loss of numbers, and this one closes over an array that JAX is tracing, or was: "
            f"close it over arrays that were made outside jit, grad and vmap, or pass them in batch=."
        )
    if not isinstance(out, jax.ShapeDtypeStruct):
        raise SharpnessError(f"`{call}` needs a loss that returns one number, got a {type(out).__name__}.")
    if out.shape != () or not jnp.issubdtype(out.dtype, jnp.floating):
        raise SharpnessError(
            f"`{call}` needs a loss that returns one real number, got {out.dtype}{list(out.shape)}; "
            f"take the mean over examples."
        )


def check_ball(call: str, ball: str | None, space: AnySpace, natural: str, scaled: bool) -> str:
    """The kind of ball: "full", "linear" (horizontal) or "geodesic"; `natural` with a space, unless said otherwise."""
    if ball not in (None, "full", "linear", "geodesic"):
        raise SharpnessError(f"`{call}` needs ball= 'linear', 'geodesic' or 'full', got {ball!r}.")
    if ball == "geodesic" and space is None:
        raise SharpnessError(
            f"`{call}` got ball='geodesic' without a space: geodesics need a metric, "
            f"so pass space=quotax.quotient(...)."
        )
    if space is None:
        return "full"
    kind = ball or natural
    if scaled and kind != "full":
        raise SharpnessError(
            f"`{call}`: norm='linf', adaptive=, mask= and per_layer= describe balls in the coordinates of the "
            f"parameters, which horizontal spaces do not respect; leave space= out, or pass ball='full' to use the "
            f"space for its orbits only."
        )
    return kind


def takes_points(space: AnySpace) -> bool:
    """Whether it has an `at(params)`; an architecture's `at` takes sizes."""
    try:
        inspect.signature(space.at).bind(None)
    except (AttributeError, TypeError):
        return False
    except ValueError:  # no signature to be had
        return callable(space.at)
    return True


def check_point(call: str, space: AnySpace, params: Tree, kind: str = "linear") -> Tree:
    """The space's factored point, asked for once."""
    if not takes_points(space):
        raise SharpnessError(
            f"`{call}` needs space= a quotient with `at(params)`, got {type(space).__name__}; "
            f"`quotax.quotient(...)` makes one, and no space means the full ball."
        )
    point = space.at(params)
    missing = [name for name in ("horizontal", "inner", "norm") if not callable(getattr(point, name, None))]
    if missing:
        raise SharpnessError(
            f"`{call}` needs a space whose `at(params)` has horizontal, inner and norm; "
            f"that of {type(space).__name__} ({type(point).__name__}) lacks {', '.join(missing)}."
        )
    if kind == "geodesic" and not callable(getattr(point, "geodesic", None)):
        flat = getattr(point, "euclidean", not hasattr(point, "sharp"))
        if not flat:
            raise SharpnessError(
                f"`{call}` got ball='geodesic', and `{type(space).__name__}.at(params)` has no geodesic(v); "
                f"ball='linear' needs none."
            )
    return point


def check_choice(call: str, name: str, value: str, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    if value not in allowed:
        raise SharpnessError(f"`{call}` needs {name}= one of {', '.join(map(repr, allowed))}, got {value!r}.")
    return value


def check_share(call: str, name: str, value: object) -> float:
    """A positive finite number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise SharpnessError(f"`{call}` needs {name}= a positive finite number, got {value!r}.")
    return float(value)


key_of = functools.partial(random_key, SharpnessError)
"""A JAX key; an integer seeds one."""


def random_bits(call: str, key: Key) -> tuple[int, ...]:
    """A key as numbers, which seed a generator: those of `jax.random.key(n)` for an integer n."""
    if key is None:
        return (0, 0)
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return (int(key) >> 32 & 0xFFFFFFFF, int(key) & 0xFFFFFFFF)
    data = key_of(call, key)
    typed = jnp.issubdtype(data.dtype, jax.dtypes.prng_key)
    return tuple(int(word) for word in np.asarray(jax.random.key_data(data) if typed else data).ravel())
