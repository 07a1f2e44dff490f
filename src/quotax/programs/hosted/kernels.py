"""A row for each primitive: what NumPy and LAPACK have for it, and the kernels of a few lines."""

from __future__ import annotations

import math

import numpy as np
from jax.lax import RoundingMethod

from quotax.elementwise import FUNCTIONS, Elementwise
from quotax.programs.hosted.addressing import ADDRESSING
from quotax.programs.hosted.factorisations import FACTORISATIONS
from quotax.programs.hosted.makers import Arrays, Kernel, Maker, Params, Unhosted, plain, prepared, with_settings
from quotax.programs.jaxprs import IDENTITIES
from quotax.trees import AnyArray

# --- entrywise


def _divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "fc":
        return np.divide(x, y)
    down = np.floor_divide(x, np.where(y == 0, 1, y))
    return np.where(y == 0, -1, down + ((x % np.where(y == 0, 1, y) != 0) & ((x < 0) != (y < 0))))


def _converted(params: Params, x: np.ndarray) -> np.ndarray:
    dtype = np.dtype(params["new_dtype"])
    if dtype.kind in "iu" and x.dtype.kind == "f":
        limits = np.iinfo(dtype)
        x = np.nan_to_num(np.trunc(x), nan=0.0, posinf=math.inf, neginf=-math.inf)
        return np.where(x >= limits.max, limits.max, np.clip(x, limits.min, None).astype(np.float64)).astype(dtype)
    return x.astype(dtype)


def _reduced_precision(params: Params, x: np.ndarray) -> np.ndarray:
    if x.dtype != np.float64 or params["exponent_bits"] != 11:
        raise Unhosted("reduce_precision")
    cut = np.uint64(52 - params["mantissa_bits"])
    if not cut:
        return x
    word, one = np.asarray(x).view(np.uint64), np.uint64(1)
    nearest = word + ((one << (cut - one)) - one) + ((word >> cut) & one)
    return np.where(np.isfinite(x), (nearest & ~((one << cut) - one)).view(np.float64), x)


def _rounded(params: Params, x: np.ndarray) -> np.ndarray:
    if params["rounding_method"] == RoundingMethod.TO_NEAREST_EVEN:
        return np.round(x)
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x)


def _power(params: Params, x: np.ndarray) -> np.ndarray:
    exponent = params["y"]
    if exponent == 2:
        return x * x
    return np.divide(np.ones((), x.dtype), x**-exponent) if exponent < 0 else x**exponent


# --- moves, sums and products


def _broadcast(params: Params, avals: Arrays, out: AnyArray) -> Kernel:
    whole = tuple(params["shape"])
    shape = [1] * len(whole)
    for axis, size in zip(params["broadcast_dimensions"], avals[0].shape, strict=True):
        shape[axis] = size
    if tuple(shape) == whole:
        return lambda x: x.reshape(shape)
    return lambda x: np.broadcast_to(x.reshape(shape), whole)


def _slice(params: Params, x: np.ndarray) -> np.ndarray:
    strides = params["strides"] or (1,) * x.ndim
    ends = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(slice(*bounds) for bounds in ends)]


def _pad(params: Params, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    config = params["padding_config"]
    shape = [low + high + n + max(n - 1, 0) * inner for n, (low, high, inner) in zip(x.shape, config, strict=True)]
    if any(low < 0 or high < 0 for low, high, _ in config):
        wide = [(max(low, 0), max(high, 0), inner) for low, high, inner in config]
        whole = _pad({"padding_config": wide}, x, value)
        cut = [slice(max(-low, 0), n - max(-high, 0)) for n, (low, high, _) in zip(whole.shape, config, strict=True)]
        return whole[tuple(cut)]
    out = np.full(shape, value, x.dtype)
    ends = zip(x.shape, config, strict=True)
    out[tuple(slice(low, low + n + max(n - 1, 0) * inner, inner + 1) for n, (low, _, inner) in ends)] = x
    return out


def _selected(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    if len(cases) == 2:
        return np.where(which if which.dtype == np.bool_ else which != 0, cases[1], cases[0])
    index, *rest = np.broadcast_arrays(which, *cases)
    return np.take_along_axis(np.stack(rest), index[None].astype(np.intp), axis=0)[0]


def _iota(params: Params) -> np.ndarray:
    shape, axis = params["shape"], params["dimension"]
    ramp = np.arange(shape[axis], dtype=params["dtype"])
    return np.broadcast_to(ramp.reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape)


def _product(params: Params, avals: Arrays, out: AnyArray) -> Kernel:
    (over_x, over_y), (batch_x, batch_y) = params["dimension_numbers"]
    one, two = (aval.shape for aval in avals)
    free_x = [k for k in range(len(one)) if k not in over_x and k not in batch_x]
    free_y = [k for k in range(len(two)) if k not in over_y and k not in batch_y]
    order_x, order_y = (*batch_x, *free_x, *over_x), (*batch_y, *over_y, *free_y)
    batch, rows = [one[k] for k in batch_x], math.prod(one[k] for k in free_x)
    depth, columns = math.prod(one[k] for k in over_x), math.prod(two[k] for k in free_y)
    left, right, kind = (*batch, rows, depth), (*batch, depth, columns), params["preferred_element_type"]
    times = np.matmul if over_x else np.multiply

    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if kind is not None and (x.dtype != kind or y.dtype != kind):
            x, y = x.astype(kind), y.astype(kind)
        return times(x.transpose(order_x).reshape(left), y.transpose(order_y).reshape(right)).reshape(out.shape)

    return run


def _reduced(function: Kernel) -> Kernel:
    return lambda params, x: function(x, axis=tuple(params["axes"]))


def _most(function: np.ufunc) -> Kernel:
    def run(params: Params, x: np.ndarray) -> np.ndarray:
        if x.dtype.kind != "f" or 0 not in [x.shape[k] for k in params["axes"]]:
            return function.reduce(x, axis=tuple(params["axes"]))
        return function.reduce(x, axis=tuple(params["axes"]), initial=-np.inf if function is np.maximum else np.inf)

    return run


def _along(function: Kernel) -> Kernel:
    def run(params: Params, x: np.ndarray) -> np.ndarray:
        axis = params["axis"]
        return np.flip(function(np.flip(x, axis), axis=axis), axis) if params["reverse"] else function(x, axis=axis)

    return run


def _where_most(function: Kernel) -> Kernel:
    return lambda params, x: function(x, axis=params["axes"][0])


# --- several outputs


def _sort(params: Params) -> Kernel:
    axis, keys = params["dimension"], params["num_keys"]

    def run(*xs: np.ndarray) -> list[np.ndarray]:
        order = np.argsort(xs[0], axis=axis, kind="stable") if keys == 1 else None
        if order is None:
            order = np.lexsort(tuple(np.moveaxis(x, axis, -1) for x in xs[:keys][::-1]), axis=-1)
            order = np.moveaxis(order, -1, axis)
        return [np.take_along_axis(x, order, axis) for x in xs]

    return run


def _split(params: Params) -> Kernel:
    ends, axis = np.cumsum(params["sizes"])[:-1], params["axis"]
    return lambda x: np.split(x, ends, axis=axis)


# --- the table


def recorded(function: Elementwise) -> Maker:
    """What a function's record says."""
    return plain(function.numpy)


KERNELS: dict[str, Maker] = {
    **{name: recorded(function) for name, function in FUNCTIONS.items()},
    **ADDRESSING,
    **FACTORISATIONS,
    **dict.fromkeys(IDENTITIES, plain(lambda x: x)),
    "add": plain(np.add),
    "add_any": plain(np.add),
    "and": plain(np.bitwise_and),
    "clamp": plain(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "div": plain(_divided),
    "eq": plain(np.equal),
    "ge": plain(np.greater_equal),
    "gt": plain(np.greater),
    "is_finite": plain(np.isfinite),
    "le": plain(np.less_equal),
    "lt": plain(np.less),
    "max": plain(np.maximum),
    "min": plain(np.minimum),
    "mul": plain(np.multiply),
    "ne": plain(np.not_equal),
    "neg": plain(np.negative),
    "not": plain(np.invert),
    "optimization_barrier": plain(lambda *xs: xs),
    "or": plain(np.bitwise_or),
    "sub": plain(np.subtract),
    "xor": plain(np.bitwise_xor),
    "argmax": with_settings(_where_most(np.argmax)),
    "argmin": with_settings(_where_most(np.argmin)),
    "concatenate": with_settings(lambda p, *xs: np.concatenate(xs, axis=p["dimension"])),
    "convert_element_type": with_settings(_converted),
    "cummax": with_settings(_along(np.maximum.accumulate)),
    "cummin": with_settings(_along(np.minimum.accumulate)),
    "cumprod": with_settings(_along(np.cumprod)),
    "cumsum": with_settings(_along(np.cumsum)),
    "integer_pow": with_settings(_power),
    "iota": with_settings(_iota),
    "pad": with_settings(_pad),
    "reduce_and": with_settings(_reduced(np.all)),
    "reduce_max": with_settings(_most(np.maximum)),
    "reduce_min": with_settings(_most(np.minimum)),
    "reduce_or": with_settings(_reduced(np.any)),
    "reduce_precision": with_settings(_reduced_precision),
    "reduce_prod": with_settings(_reduced(np.prod)),
    "reduce_sum": with_settings(_reduced(np.sum)),
    "reshape": with_settings(lambda p, x: x.reshape(p["new_sizes"])),
    "round": with_settings(_rounded),
    "rev": with_settings(lambda p, x: np.flip(x, p["dimensions"])),
    "select_n": with_settings(lambda p, *xs: _selected(*xs)),
    "slice": with_settings(_slice),
    "squeeze": with_settings(lambda p, x: np.squeeze(x, axis=tuple(p["dimensions"]))),
    "stack": with_settings(lambda p, *xs: np.stack(xs, axis=p["axis"])),
    "tile": with_settings(lambda p, x: np.tile(x, p["reps"])),
    "transpose": with_settings(lambda p, x: np.transpose(x, p["permutation"])),
    "broadcast_in_dim": _broadcast,
    "dot_general": _product,
    "sort": prepared(_sort),
    "split": prepared(_split),
}
"""What NumPy and LAPACK have for each primitive: for whole programs, and for the constants of a trace."""

MOVES = frozenset(("broadcast_in_dim", "concatenate", "copy", "pad", "reshape", "rev", "select_n", "slice", "split"))
MOVES |= {"squeeze", "stack", "tile", "transpose"}
"""Primitives that put entries elsewhere and compute nothing; their kernels need no types."""

EXACT = MOVES | {"add", "and", "eq", "ge", "gt", "iota", "le", "lt", "max", "min", "mul", "ne", "neg", "or", "sub"}
"""Primitives that NumPy rounds exactly as JAX does."""
