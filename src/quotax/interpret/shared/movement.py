"""Primitives that move entries without computing: one implementation for every domain whose values are arrays.

Give each entry of the data operands its own number, run the primitive on the arrays of numbers, and take the entries
it asks for. Fills (padding values, out-of-bounds gathers) are entries with numbers of their own. What JAX does with
positions is then what we do. The commonest moves run in NumPy instead, because compiling JAX's costs about 25 ms per
new shape; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from jax.extend.core import Primitive
from jax.lax import GatherScatterMode

from quotax.interpret.domain import (
    POSITIONS,
    AnyValue,
    ArrayDomain,
    Domain,
    Eqn,
    Rule,
    SampledDomain,
    Unreadable,
    concrete,
    is_known,
)
from quotax.programs.hosted import EXACT, KERNELS
from quotax.programs.jaxprs import Settings


def bind(primitive: Primitive, params: Settings, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Run a primitive on NumPy arrays, in JAX."""
    out = primitive.bind(*arrays, **params)
    return [np.asarray(a) for a in (out if primitive.multiple_results else [out])]


def run(primitive: Primitive, params: Settings, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Run a primitive on NumPy arrays: in NumPy if that is the same to the last bit, which saves compiling."""
    if primitive.name not in EXACT:
        return bind(primitive, params, arrays)
    out = KERNELS[primitive.name](params, arrays, None)(*arrays)
    return list(out) if primitive.multiple_results else [out]


def movement(*controls: int, rest: bool = False) -> Rule[ArrayDomain]:
    """The rule of a move; `controls` are operands that say where (`rest`: and all later ones).

    They must be constant, or the domain knows them sample by sample (`SampledDomain`).
    """

    def rule(eqn: Eqn[ArrayDomain], args: list[AnyValue]) -> list[AnyValue]:
        spots = [k for k in range(len(args)) if is_control(k, controls, rest)] if controls else []
        domain = cast(SampledDomain, eqn.domain)
        drawn = {k: domain.places(args[k]) for k in spots if _differs(domain, args[k])}
        if drawn:
            stacked, pool = _moved_each(eqn, args, drawn, controls, rest)
            return [domain.take_each(pool, index) for index in stacked]
        numbered, pool = number(eqn, args, controls, rest)
        moved = move(eqn, numbered, pool)
        pool = _taken(pool, moved)
        return [eqn.domain.take(pool, index) for index in moved]

    return rule


def _differs(domain: Domain, value: AnyValue) -> bool:
    return concrete(domain, value) is None and hasattr(domain, "places")


def _moved_each(
    eqn: Eqn[ArrayDomain], args: list[AnyValue], drawn: Mapping[int, np.ndarray], controls: tuple[int, ...], rest: bool
) -> tuple[list[np.ndarray], list[AnyValue]]:
    moves, pool = [], []
    for sample in range(len(next(iter(drawn.values())))):
        placed = [np.asarray(drawn[k][sample]) if k in drawn else arg for k, arg in enumerate(args)]
        numbered, pool = number(eqn, placed, controls, rest)
        moves.append(move(eqn, numbered, pool))
    stacked = [np.stack(column) for column in zip(*moves, strict=True)]
    return stacked, _taken(pool, stacked)


def _taken(pool: list[AnyValue], moved: list[np.ndarray]) -> list[AnyValue]:
    """The pool without what nobody takes: `where(n > 0, total / n, nan)`, as in `jnp.var`, has no NaN for n > 0."""
    out, end = [], 0
    for array in pool:
        start, end = end, end + int(np.prod(array.shape, dtype=np.int64))
        idle = is_known(array) and not any(np.any((index >= start) & (index < end)) for index in moved)
        out.append(np.zeros_like(array) if idle else array)
    return out


def is_control(position: int, controls: tuple[int, ...], rest: bool) -> bool:
    """Whether the operand at this position says where rather than what."""
    return position in controls or (rest and position > controls[-1])


def number(
    eqn: Eqn[ArrayDomain], args: list[AnyValue], controls: tuple[int, ...], rest: bool
) -> tuple[list[np.ndarray], list[AnyValue]]:
    """The operands with each data entry replaced by its number, and the pool that the numbers point into."""
    numbered, pool, count = [], [], 0
    for position, (arg, aval) in enumerate(zip(args, eqn.inputs, strict=True)):
        if is_control(position, controls, rest):
            known = concrete(eqn.domain, arg)
            if known is None:
                raise Unreadable(*POSITIONS)
            numbered.append(known.astype(aval.dtype, copy=False))
        else:
            size = int(np.prod(aval.shape, dtype=np.int64))
            numbered.append(np.arange(count, count + size).reshape(aval.shape))
            pool.append(arg)
            count += size
    return numbered, pool


def move(eqn: Eqn[ArrayDomain], numbered: list[np.ndarray], pool: list[AnyValue]) -> list[np.ndarray]:
    """Run the primitive on numbers; a gather that may fall outside adds its fill value to the pool."""
    params = dict(eqn.params)
    if eqn.primitive.name == "gather" and params["mode"] == GatherScatterMode.FILL_OR_DROP:
        fill = gather_fill(eqn)
        if len(pool) == 1:
            pool.append(fill)
        params["fill_value"] = int(np.prod(eqn.inputs[0].shape, dtype=np.int64))
    return run(eqn.primitive, params, numbered)


def gather_fill(eqn: Eqn[ArrayDomain]) -> np.ndarray:
    """What a gather in fill mode puts where an index is out of bounds: JAX's defaults."""
    dtype, fill = np.dtype(eqn.inputs[0].dtype), eqn.params["fill_value"]
    if fill is None:
        if dtype == np.bool_:
            fill = True
        elif np.issubdtype(dtype, np.integer):
            fill = np.iinfo(dtype).min if np.issubdtype(dtype, np.signedinteger) else np.iinfo(dtype).max
        else:
            fill = np.nan
    return np.asarray(fill, dtype)


def identity(eqn: object, args: list[AnyValue]) -> list[AnyValue]:
    """The outputs are the inputs."""
    return list(args)


def nothing(eqn: object, args: list[AnyValue]) -> list[AnyValue]:
    """No outputs: printing and other effects say nothing about the function."""
    return []
