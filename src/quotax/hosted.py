"""Programs that run once, in NumPy: compiling such a program costs a hundred times what running it does.

A function is traced as `jax.jit` traces it, and its equations are called one after the other, by what NumPy and LAPACK
have for them: the same arithmetic in the same types, but for the order of sums. A primitive that is not in the table
says so before anything runs (`Unhosted`), and the caller compiles instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from jax.lax import GatherScatterMode, RoundingMethod

from quotax.elementwise import FUNCTIONS, Elementwise
from quotax.jaxprs import CALLS, IDENTITIES, as_closed, live

Arrays = Sequence[Any]
Kernel = Callable[..., Any]
Params = Mapping[str, Any]
Maker = Callable[[Params, Arrays, Any], Kernel]
"""From an equation's settings, what it reads and the type of its first output, to the function that computes it."""


class Unhosted(Exception):
    """A primitive that has no entry in the table, is used in a way that its entry does not know, or makes much."""


class Call(NamedTuple):
    """A call: where its arguments are, where its outputs go and of what types, whether it returns one by itself.

    And whether it is a loop, which is many calls.
    """

    run: Kernel
    reads: list[int]
    writes: list[tuple[int, Any]]
    alone: bool
    loops: bool


class Hosted:
    """A jaxpr as a list of calls, made once and run on NumPy arrays."""

    def __init__(self, closed: ClosedJaxpr) -> None:
        """Every equation finds its function now, so that what cannot be hosted is known before anything runs."""
        self._arguments = len(closed.jaxpr.invars)
        self._start: list[Any] = [None] * self._arguments
        self._steps: list[Call] = []
        self._results = self._inlined(closed, list(range(self._arguments)))
        self._ends = _ends(self._steps, self._results)

    def __call__(self, *arrays: Any) -> list[Any]:
        """The outputs; types are those of the trace."""
        return self._finished(self._steps, self._ends, [*arrays, *self._start[len(arrays) :]])

    def given(self, *arrays: Any) -> tuple[Callable[..., list[Any]], bool]:
        """The program of the last arguments, with everything done that depends on these first ones alone.

        And whether it is brief: no loops, and so few calls that a compiled program is no sooner done.
        """
        start, rest = [*arrays, *self._start[len(arrays) :]], []
        later = set(range(len(arrays), self._arguments))
        for step in self._steps:
            if later.intersection(step.reads):
                later.update(slot for slot, _ in step.writes)
                rest.append(step)
            else:
                _take(step, start)
        ends = _ends(rest, self._results)
        brief = len(rest) <= _BRIEF and not any(step.loops for step in rest)
        return lambda *last: self._finished(rest, ends, [*arrays, *last, *start[self._arguments :]]), brief

    def _finished(self, steps: list[Call], ends: list[list[int]], values: list[Any]) -> list[Any]:
        for step, over in zip(steps, ends, strict=True):
            _take(step, values)
            for slot in over:
                values[slot] = None
        return [np.asarray(values[slot]) for slot in self._results]

    def _new(self, value: Any = None) -> int:
        self._start.append(value)
        return len(self._start) - 1

    def _inlined(self, closed: ClosedJaxpr, arguments: list[int]) -> list[int]:
        """Add a jaxpr's calls, and those of what it calls; where its outputs are."""
        jaxpr = closed.jaxpr
        slots = dict(zip(jaxpr.invars, arguments, strict=True))
        for variable, value in zip(jaxpr.constvars, closed.consts, strict=True):
            slots[variable] = self._new(_array(value))

        def read(atom: Any) -> int:
            if not isinstance(atom, Literal):
                return slots[atom]
            aval: Any = atom.aval
            return self._new(np.asarray(atom.val, aval.dtype))

        for equation in live(jaxpr):
            name, params = equation.primitive.name, equation.params
            reads = [read(atom) for atom in equation.invars]
            if name in CALLS:
                outputs = self._inlined(as_closed(params[CALLS[name]]), reads)
            else:
                outputs = [self._new() for _ in equation.outvars]
                self._steps.append(_step(equation, reads, outputs))
            slots.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]


def _ends(steps: list[Call], results: list[int]) -> list[list[int]]:
    """For each step the places that nobody reads after it."""
    kept, ends = set(results), []
    for step in reversed(steps):
        places = {*step.reads, *(slot for slot, _ in step.writes)}
        ends.append(sorted(places - kept))
        kept |= places
    return ends[::-1]


def _take(step: Call, values: list[Any]) -> None:
    outputs = step.run(*[values[slot] for slot in step.reads])
    for (slot, dtype), value in zip(step.writes, (outputs,) if step.alone else outputs, strict=True):
        values[slot] = value if value.dtype is dtype else value.astype(dtype)


def _step(equation: Any, reads: list[int], outputs: list[int]) -> Call:
    name, params = equation.primitive.name, equation.params
    types: list[Any] = [variable.aval for variable in equation.outvars]
    writes = [(slot, aval.dtype) for slot, aval in zip(outputs, types, strict=True)]
    if any(jnp.issubdtype(dtype, jax.dtypes.extended) for _, dtype in writes):
        raise Unhosted(name)
    if any(math.prod(aval.shape) > _LARGEST for aval in types):
        raise Unhosted(f"{name} of {max(math.prod(aval.shape) for aval in types)} numbers")
    if name not in KERNELS:
        raise Unhosted(name)
    run = KERNELS[name](params, [a.aval for a in equation.invars], types[0])
    return Call(run, reads, writes, not equation.primitive.multiple_results, name in ("scan", "while"))


def _array(value: Any) -> np.ndarray:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.extended):
        raise Unhosted("a key of random numbers")
    return np.asarray(value)


_LARGEST = 2**23
"""Arrays of more numbers are worth compiling for."""

_BRIEF = 100
"""NumPy makes so many calls while a compiled program is called and waited for."""


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


def _broadcast(params: Params, avals: Arrays, out: Any) -> Kernel:
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


def _product(params: Params, avals: Arrays, out: Any) -> Kernel:
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


# --- places


def _places(
    numbers: Any, sizes: Sequence[int], shape: Sequence[int], starts: np.ndarray, window: Sequence[int], mode: Any
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """For each position of a gather's result the entry of its operand, and whether there is one.

    `numbers` are the dimensions as a gather names them: the same ones place the updates of a scatter.
    """
    offset, collapsed, indexed, batch, index_batch = numbers
    grid = np.indices(shape, sparse=True)
    rows = [grid[k] for k in range(len(shape)) if k not in offset]
    columns = iter([grid[k] for k in offset])
    inside: Any = np.ones((1,) * len(shape), bool)
    found = []
    for axis, size in enumerate(sizes):
        place: Any = 0
        if axis in indexed:
            start = starts[(*rows, indexed.index(axis))].astype(np.int64)
            last = size - window[axis]
            if mode in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
                start = np.clip(start, 0, last)
            else:
                inside = inside & (start >= 0) & (start <= last)
                start = np.clip(start, 0, last)
            place = place + start
        if axis in batch:
            place = place + rows[index_batch[batch.index(axis)]]
        elif axis not in collapsed:
            place = place + next(columns)
        found.append(np.asarray(place))
    return tuple(found), inside


def _lone_axis(numbers: Any, sizes: Sequence[int], window: Sequence[int], places: int, mode: Any) -> int | None:
    """The axis of `x[:, places, :]`, if that is all that a gather does and indices are in bounds."""
    offset, collapsed, indexed, batch, _ = numbers
    if batch or len(indexed) != 1 or tuple(indexed) != tuple(collapsed) or places != 1:
        return None
    axis, rank = indexed[0], len(sizes)
    whole = all(window[k] == sizes[k] for k in range(rank) if k != axis)
    alone = tuple(offset) == tuple(k for k in range(rank) if k != axis)
    return int(axis) if whole and alone and mode == GatherScatterMode.PROMISE_IN_BOUNDS else None


def _gather(params: Params, avals: Arrays, out: Any) -> Kernel:
    d, mode = params["dimension_numbers"], GatherScatterMode.from_any(params["mode"])
    numbers = (
        d.offset_dims, d.collapsed_slice_dims, d.start_index_map, d.operand_batching_dims, d.start_indices_batching_dims
    )  # fmt: skip
    fill = params["fill_value"]
    if fill is None:
        fill = np.nan if out.dtype.kind == "f" else None
    if mode == GatherScatterMode.FILL_OR_DROP and fill is None:
        raise Unhosted("gather")
    axis = _lone_axis(numbers, avals[0].shape, params["slice_sizes"], len(avals[1].shape) - 1, mode)
    if axis is not None:
        return lambda x, starts: np.take(x, starts[:, 0], axis, mode="clip")

    def run(x: np.ndarray, starts: np.ndarray) -> np.ndarray:
        places, inside = _places(numbers, x.shape, out.shape, starts, params["slice_sizes"], mode)
        found = np.broadcast_to(x[places], out.shape)
        return found if inside.all() else np.where(inside, found, np.asarray(fill, x.dtype))

    return run


def _scatter(put: Kernel, apart: Kernel) -> Kernel:
    def made(params: Params, avals: Arrays, out: Any) -> Kernel:
        d, mode = params["dimension_numbers"], GatherScatterMode.from_any(params["mode"])
        numbers = (
            d.update_window_dims, d.inserted_window_dims, d.scatter_dims_to_operand_dims,
            d.operand_batching_dims, d.scatter_indices_batching_dims,
        )  # fmt: skip
        shape = avals[2].shape
        taken = iter([shape[k] for k in d.update_window_dims])
        alone = (*d.inserted_window_dims, *d.operand_batching_dims)
        window = [1 if axis in alone else next(taken) for axis in range(len(out.shape))]
        lone = _lone_axis(numbers, out.shape, window, len(avals[1].shape) - 1, mode)
        if lone is not None and params["unique_indices"]:
            before = (slice(None),) * lone

            def set_apart(x: np.ndarray, starts: np.ndarray, updates: np.ndarray) -> np.ndarray:
                result, place = x.copy(), (*before, starts[:, 0])
                result[place] = apart(result[place], updates)
                return result

            return set_apart

        def run(x: np.ndarray, starts: np.ndarray, updates: np.ndarray) -> np.ndarray:
            places, inside = _places(numbers, x.shape, shape, starts, window, mode)
            result, inside = x.copy(), np.broadcast_to(inside, shape)
            put(result, tuple(np.broadcast_to(p, shape)[inside] for p in places), updates[inside])
            return result

        return run

    return made


def _dynamic_slice(params: Params, avals: Arrays, out: Any) -> Kernel:
    def run(x: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        ends = zip(starts, x.shape, out.shape, strict=True)
        first = [int(np.clip(start, 0, size - n)) for start, size, n in ends]
        return x[tuple(slice(k, k + n) for k, n in zip(first, out.shape, strict=True))]

    return run


def _dynamic_update_slice(params: Params, avals: Arrays, out: Any) -> Kernel:
    def run(x: np.ndarray, update: np.ndarray, *starts: np.ndarray) -> np.ndarray:
        ends = zip(starts, x.shape, update.shape, strict=True)
        first = [int(np.clip(start, 0, size - n)) for start, size, n in ends]
        result = x.copy()
        result[tuple(slice(k, k + n) for k, n in zip(first, update.shape, strict=True))] = update
        return result

    return run


def _replaced(result: np.ndarray, places: Any, values: np.ndarray) -> None:
    result[places] = values


# --- factorisations: NaN where there is none


def _cholesky(params: Params, avals: Arrays, out: Any) -> Kernel:
    def run(x: np.ndarray) -> np.ndarray:
        try:
            return np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                return np.full_like(x, np.nan)
            return np.stack([run(one) for one in x])

    return run


def _triangular_solve(params: Params, avals: Arrays, out: Any) -> Kernel:
    if params["conjugate_a"] and out.dtype.kind == "c":
        raise Unhosted("triangular_solve")

    from scipy.linalg import solve_triangular

    def one(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left, lower, over = params["left_side"], params["lower"], bool(params["transpose_a"])
        if not np.all(np.isfinite(a)) or (not params["unit_diagonal"] and not np.all(np.diagonal(a))):
            return np.full_like(b, np.nan)
        trans, right = (over, b) if left else (not over, b.T)
        found = solve_triangular(
            a, right, trans=int(trans), lower=lower, unit_diagonal=params["unit_diagonal"], check_finite=False
        )
        return found if left else found.T

    return lambda a, b: _batched(one, (a, b), out.shape)


def _batched(one: Kernel, arrays: Arrays, shape: Sequence[int]) -> np.ndarray:
    if len(shape) == 2 or 0 in shape:
        return one(*arrays) if 0 not in shape else np.zeros(shape, arrays[-1].dtype)
    flat = [a.reshape(-1, *a.shape[-2:]) for a in arrays]
    return np.stack([one(*matrices) for matrices in zip(*flat, strict=True)]).reshape(shape)


def _eigh(params: Params) -> Kernel:
    if params.get("subset_by_index") is not None:
        raise Unhosted("eigh")
    triangle = "L" if params["lower"] else "U"

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            if not np.all(np.isfinite(x)):
                raise np.linalg.LinAlgError
            values, vectors = np.linalg.eigh(x, triangle)
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                return np.full_like(x, np.nan), np.full_like(x[0], np.nan)
            pairs = [run(one) for one in x]
            return np.stack([v for v, _ in pairs]), np.stack([w for _, w in pairs])
        return vectors, values

    return run


def _svd(params: Params) -> Kernel:
    if params.get("subset_by_index") is not None:
        raise Unhosted("svd")
    vectors, full = params["compute_uv"], params["full_matrices"]

    def run(x: np.ndarray) -> tuple[np.ndarray, ...]:
        try:
            if not np.all(np.isfinite(x)):
                raise np.linalg.LinAlgError
            found = np.linalg.svd(x, full_matrices=full, compute_uv=vectors)
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                return tuple(np.full_like(part, np.nan) for part in run(np.zeros_like(x)))
            return tuple(np.stack(part) for part in zip(*map(run, x), strict=True))
        return (found.S, found.U, found.Vh) if vectors else (found,)

    return run


def _lu(params: Params) -> Kernel:
    from scipy.linalg import get_lapack_funcs

    def one(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not x.size or not np.all(np.isfinite(x)):
            order = np.arange(x.shape[0], dtype=np.int32)
            return np.full_like(x, np.nan), order[: min(x.shape)], order
        found, pivots, _ = get_lapack_funcs("getrf", (x,))(x)
        order = np.arange(x.shape[0], dtype=np.int32)
        for i, j in enumerate(pivots):
            order[[i, j]] = order[[j, i]]
        return found, pivots.astype(np.int32), order

    def run(x: np.ndarray) -> tuple[np.ndarray, ...]:
        if x.ndim == 2:
            return one(x)
        parts = zip(*map(one, x.reshape(-1, *x.shape[-2:])), strict=True)
        stacked = [np.stack(part) for part in parts]
        return tuple(part.reshape(*x.shape[:-2], *part.shape[1:]) for part in stacked)

    return run


def _qr(params: Params) -> Kernel:
    if params["pivoting"]:
        raise Unhosted("qr")
    mode = "complete" if params["full_matrices"] else "reduced"
    return lambda x: tuple(np.linalg.qr(x, mode))


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


# --- calls, loops and branches


def _scan(params: Params) -> Kernel:
    body, length = Hosted(params["jaxpr"]), params["length"]
    held, carried = params["num_consts"], params["num_carry"]
    shapes = params["jaxpr"].out_avals[carried:]

    def run(*arrays: Any) -> list[Any]:
        consts, carry, rows = arrays[:held], list(arrays[held : held + carried]), arrays[held + carried :]
        collected: list[list[Any]] = []
        for time in reversed(range(length)) if params["reverse"] else range(length):
            out = body(*consts, *carry, *(np.asarray(row[time]) for row in rows))
            carry = out[:carried]
            collected.append(out[carried:])
        if params["reverse"]:
            collected.reverse()
        if not collected:
            return [*carry, *(np.zeros((0, *aval.shape), aval.dtype) for aval in shapes)]
        return [*carry, *(np.stack(column) for column in zip(*collected, strict=True))]

    return run


def _while(params: Params) -> Kernel:
    test, body = Hosted(params["cond_jaxpr"]), Hosted(params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["body_nconsts"]

    def run(*arrays: Any) -> list[Any]:
        carry = list(arrays[first + second :])
        while (goes := test(*arrays[:first], *carry)[0]).any():
            new = body(*arrays[first : first + second], *carry)
            # Under `vmap` each row stops by itself.
            rows = [goes.reshape(goes.shape + (1,) * (x.ndim - goes.ndim)) for x in new]
            carry = [np.where(row, x, old) for row, x, old in zip(rows, new, carry, strict=True)] if goes.ndim else new
        return carry

    return run


def _cond(params: Params) -> Kernel:
    branches = [Hosted(branch) for branch in params["branches"]]
    return lambda index, *xs: branches[min(max(int(index), 0), len(branches) - 1)](*xs)


def _platform(params: Params) -> Kernel:
    for index, names in enumerate(params["platforms"]):
        if names is None or "cpu" in names:
            return lambda: np.asarray(index, np.int32)
    raise Unhosted("platform_index")


def _solve(params: Params) -> Kernel:
    count = params["const_lengths"]
    start = count.matvec + count.vecmat
    solve, held = Hosted(params["jaxprs"].solve), count.solve
    last = start + held + count.transpose_solve
    return lambda *xs: solve(*xs[start : start + held], *xs[last:])


# --- the table


def _plain(run: Kernel) -> Maker:
    """A primitive without settings that matter."""
    return lambda params, avals, out: run


def _set(run: Kernel) -> Maker:
    """A primitive whose settings are the first argument."""
    return lambda params, avals, out: functools.partial(run, params)


def _made(make: Callable[[Params], Kernel]) -> Maker:
    """A primitive whose settings prepare something."""
    return lambda params, avals, out: make(params)


def recorded(function: Elementwise) -> Maker:
    """What a function's record says."""
    return _plain(function.numpy)


KERNELS: dict[str, Maker] = {
    **{name: recorded(function) for name, function in FUNCTIONS.items()},
    **dict.fromkeys(IDENTITIES, _plain(lambda x: x)),
    "add": _plain(np.add),
    "add_any": _plain(np.add),
    "and": _plain(np.bitwise_and),
    "clamp": _plain(lambda low, x, high: np.minimum(np.maximum(x, low), high)),
    "div": _plain(_divided),
    "eq": _plain(np.equal),
    "ge": _plain(np.greater_equal),
    "gt": _plain(np.greater),
    "is_finite": _plain(np.isfinite),
    "le": _plain(np.less_equal),
    "lt": _plain(np.less),
    "max": _plain(np.maximum),
    "min": _plain(np.minimum),
    "mul": _plain(np.multiply),
    "ne": _plain(np.not_equal),
    "neg": _plain(np.negative),
    "not": _plain(np.invert),
    "optimization_barrier": _plain(lambda *xs: xs),
    "or": _plain(np.bitwise_or),
    "sub": _plain(np.subtract),
    "xor": _plain(np.bitwise_xor),
    "argmax": _set(_where_most(np.argmax)),
    "argmin": _set(_where_most(np.argmin)),
    "concatenate": _set(lambda p, *xs: np.concatenate(xs, axis=p["dimension"])),
    "convert_element_type": _set(_converted),
    "cummax": _set(_along(np.maximum.accumulate)),
    "cummin": _set(_along(np.minimum.accumulate)),
    "cumprod": _set(_along(np.cumprod)),
    "cumsum": _set(_along(np.cumsum)),
    "integer_pow": _set(_power),
    "iota": _set(_iota),
    "pad": _set(_pad),
    "reduce_and": _set(_reduced(np.all)),
    "reduce_max": _set(_most(np.maximum)),
    "reduce_min": _set(_most(np.minimum)),
    "reduce_or": _set(_reduced(np.any)),
    "reduce_precision": _set(_reduced_precision),
    "reduce_prod": _set(_reduced(np.prod)),
    "reduce_sum": _set(_reduced(np.sum)),
    "reshape": _set(lambda p, x: x.reshape(p["new_sizes"])),
    "round": _set(_rounded),
    "rev": _set(lambda p, x: np.flip(x, p["dimensions"])),
    "select_n": _set(lambda p, *xs: _selected(*xs)),
    "slice": _set(_slice),
    "squeeze": _set(lambda p, x: np.squeeze(x, axis=tuple(p["dimensions"]))),
    "stack": _set(lambda p, *xs: np.stack(xs, axis=p["axis"])),
    "tile": _set(lambda p, x: np.tile(x, p["reps"])),
    "transpose": _set(lambda p, x: np.transpose(x, p["permutation"])),
    "broadcast_in_dim": _broadcast,
    "cholesky": _cholesky,
    "dot_general": _product,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter(_replaced, lambda old, new: new),
    "scatter-add": _scatter(np.add.at, np.add),
    "scatter_add": _scatter(np.add.at, np.add),
    "triangular_solve": _triangular_solve,
    "cond": _made(_cond),
    "custom_linear_solve": _made(_solve),
    "eigh": _made(_eigh),
    "lu": _made(_lu),
    "platform_index": _made(_platform),
    "qr": _made(_qr),
    "scan": _made(_scan),
    "sort": _made(_sort),
    "split": _made(_split),
    "svd": _made(_svd),
    "while": _made(_while),
}
"""What NumPy and LAPACK have for each primitive: for whole programs, and for the constants of a trace."""

MOVES = frozenset(("broadcast_in_dim", "concatenate", "copy", "pad", "reshape", "rev", "select_n", "slice", "split"))
MOVES |= {"squeeze", "stack", "tile", "transpose"}
"""Primitives that put entries elsewhere and compute nothing; their kernels need no types."""

EXACT = MOVES | {"add", "and", "eq", "ge", "gt", "iota", "le", "lt", "max", "min", "mul", "ne", "neg", "or", "sub"}
"""Primitives that NumPy rounds exactly as JAX does."""


# --- functions


class Uncompiled:
    """`function(static, *trees)` in NumPy: traced once for each `static` and the types of the arrays.

    What comes back are NumPy arrays. Raises `Unhosted`, before it computes anything, where a primitive is in no table.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Nothing is traced yet."""
        self._trace = jax.jit(function, static_argnums=0).trace
        self._made: dict[Any, Any] = {}

    @np.errstate(all="ignore")  # what is no number is what JAX has there too
    def __call__(self, static: Any, *trees: Any) -> Any:
        """What the function returns."""
        leaves = [leaf if hasattr(leaf, "dtype") else np.asarray(leaf) for leaf in jax.tree.leaves(trees)]
        program, shape = self._program(static, trees, leaves)
        return jax.tree.unflatten(shape, program(*map(np.asarray, leaves)))

    def given(self, static: Any, first: Any, like: Any) -> tuple[Callable[[Any], Any], bool]:
        """The function of one more array, like this one, with everything done that depends on the first tree alone.

        And whether that is brief: sooner done than a compiled program of small arrays.
        """
        known = jax.tree.leaves(first)
        program, shape = self._program(static, (first, like), [*known, like])
        with np.errstate(all="ignore"):
            rest, brief = program.given(*map(np.asarray, known))

        @np.errstate(all="ignore")
        def run(last: Any) -> Any:
            return jax.tree.unflatten(shape, rest(np.asarray(last)))

        return run, brief

    def _program(self, static: Any, trees: tuple[Any, ...], leaves: list[Any]) -> tuple[Hosted, Any]:
        key = (static, jax.tree.structure(trees), tuple((leaf.shape, leaf.dtype) for leaf in leaves))
        if key not in self._made:
            if len(self._made) >= _KEPT:
                self._made.clear()
            try:
                traced = self._trace(static, *trees)
                self._made[key] = Hosted(traced.jaxpr), jax.tree.structure(traced.out_info)
            except Unhosted as error:
                self._made[key] = error
        if isinstance(self._made[key], Unhosted):
            raise self._made[key]
        return self._made[key]


_KEPT = 256
"""So many traces are kept for each function."""
