"""Loops, branches and solves: kernels that run programs, which they are told how to host."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jax.extend.core import ClosedJaxpr

from quotax.programs.hosted.makers import Kernel, Params, Unhosted
from quotax.trees import AnyArray

Host = Callable[[ClosedJaxpr], Callable[..., list[AnyArray]]]


def _scan(params: Params, host: Host) -> Kernel:
    body, length = host(params["jaxpr"]), params["length"]
    held, carried = params["num_consts"], params["num_carry"]
    shapes = params["jaxpr"].out_avals[carried:]

    def run(*arrays: AnyArray) -> list[AnyArray]:
        consts, carry, rows = arrays[:held], list(arrays[held : held + carried]), arrays[held + carried :]
        collected: list[list[AnyArray]] = []
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


def _while(params: Params, host: Host) -> Kernel:
    test, body = host(params["cond_jaxpr"]), host(params["body_jaxpr"])
    first, second = params["cond_nconsts"], params["body_nconsts"]

    def run(*arrays: AnyArray) -> list[AnyArray]:
        carry = list(arrays[first + second :])
        while (goes := test(*arrays[:first], *carry)[0]).any():
            new = body(*arrays[first : first + second], *carry)
            # Under `vmap` each row stops by itself.
            rows = [goes.reshape(goes.shape + (1,) * (x.ndim - goes.ndim)) for x in new]
            carry = [np.where(row, x, old) for row, x, old in zip(rows, new, carry, strict=True)] if goes.ndim else new
        return carry

    return run


def _cond(params: Params, host: Host) -> Kernel:
    branches = [host(branch) for branch in params["branches"]]
    return lambda index, *xs: branches[min(max(int(index), 0), len(branches) - 1)](*xs)


def _platform(params: Params, host: Host) -> Kernel:
    for index, names in enumerate(params["platforms"]):
        if names is None or "cpu" in names:
            return lambda: np.asarray(index, np.int32)
    raise Unhosted("platform_index")


def _solve(params: Params, host: Host) -> Kernel:
    count = params["const_lengths"]
    start = count.matvec + count.vecmat
    solve, held = host(params["jaxprs"].solve), count.solve
    last = start + held + count.transpose_solve
    return lambda *xs: solve(*xs[start : start + held], *xs[last:])


CONTROL: dict[str, Callable[[Params, Host], Kernel]] = {
    "cond": _cond,
    "custom_linear_solve": _solve,
    "platform_index": _platform,
    "scan": _scan,
    "while": _while,
}
"""From an equation's settings, and what hosts a program, to the function that computes it."""
