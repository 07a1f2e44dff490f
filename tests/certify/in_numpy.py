"""A JAX function run in NumPy, primitive by primitive, so that thousands of shapes cost no compilation.

A primitive that is not listed is run by JAX itself, at once: nothing can be missing, only slow.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.extend.core import Literal

Rule = Callable[..., Any]


def _logical(on_bits: Rule, on_truth: Rule) -> Rule:
    return lambda *args, **_: (on_truth if np.asarray(args[0]).dtype == bool else on_bits)(*args)


ENTRYWISE: dict[str, Rule] = {
    "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "neg": np.negative, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "exp": np.exp,
    "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "expm1": np.expm1, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh,
    "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sqrt": np.sqrt, "cbrt": np.cbrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square, "logistic": scipy.special.expit, "erf": scipy.special.erf,
    "erfc": scipy.special.erfc, "is_finite": np.isfinite, "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "pow": np.power,
    "copy": lambda x: x, "stop_gradient": lambda x: x, "optimization_barrier": lambda *xs: xs, "name": lambda x: x,
    "and": _logical(np.bitwise_and, np.logical_and), "or": _logical(np.bitwise_or, np.logical_or),
    "xor": _logical(np.bitwise_xor, np.logical_xor), "not": _logical(np.bitwise_not, np.logical_not),
}  # fmt: skip
REAL_ONLY = {"floor", "ceil", "rsqrt", "sqrt", "logistic", "erf", "erfc", "pow", "sign", "cbrt"}
"""Entries for floating-point numbers; of others JAX is asked."""

REDUCTIONS: dict[str, Rule] = {
    "reduce_sum": np.sum, "reduce_prod": np.prod, "reduce_max": np.max, "reduce_min": np.min, "reduce_and": np.all,
    "reduce_or": np.any,
}  # fmt: skip
RUNNING: dict[str, Rule] = {
    "cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate,
}  # fmt: skip


def _dot_general(a: Any, b: Any, params: Any) -> Any:
    (ca, cb), (ba, bb) = params["dimension_numbers"]
    letters = iter(string.ascii_letters)
    left = [next(letters) for _ in a.shape]
    right = [next(letters) for _ in b.shape]
    for i, j in (*zip(ca, cb, strict=True), *zip(ba, bb, strict=True)):
        right[j] = left[i]
    out = [left[i] for i in ba] + [x for i, x in enumerate(left) if i not in (*ca, *ba)]
    out += [x for j, x in enumerate(right) if j not in (*cb, *bb)]
    return np.einsum(f"{''.join(left)},{''.join(right)}->{''.join(out)}", a, b)


def _convert(x: Any, params: Any) -> Any:
    target = np.dtype(params["new_dtype"])
    if np.issubdtype(target, np.integer) and not np.issubdtype(x.dtype, np.integer) and x.dtype != bool:
        return None  # what becomes of a number that does not fit is JAX's to say
    return x.astype(target)


def _pad(x: Any, value: Any, params: Any) -> Any:
    config = params["padding_config"]
    if any(low < 0 or high < 0 or inner for low, high, inner in config):
        return None
    return np.pad(x, [(low, high) for low, high, _ in config], constant_values=value)


def _dynamic_slice(args: Any, params: Any) -> Any:
    x, *starts = args
    sizes = params["slice_sizes"]
    at = [int(np.clip(s, 0, n - m)) for s, n, m in zip(starts, x.shape, sizes, strict=True)]
    return x[tuple(slice(a, a + m) for a, m in zip(at, sizes, strict=True))]


def _broadcast(x: Any, params: Any) -> Any:
    shape, at = params["shape"], params["broadcast_dimensions"]
    return np.broadcast_to(x.reshape([x.shape[at.index(d)] if d in at else 1 for d in range(len(shape))]), shape)


def _moved(name: str, args: list[Any], params: Any) -> Any:
    """A primitive that has parameters; None where JAX is to be asked."""
    x = args[0] if args else None
    match name:
        case "broadcast_in_dim" if len(args) == 1:
            return _broadcast(x, params)
        case "reshape" if params.get("dimensions") is None:
            return x.reshape(params["new_sizes"])
        case "transpose":
            return np.transpose(x, params["permutation"])
        case "squeeze":
            return np.squeeze(x, tuple(params["dimensions"]))
        case "concatenate":
            return np.concatenate(args, params["dimension"])
        case "slice":
            steps = params["strides"] or [1] * x.ndim
            bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
            return x[tuple(slice(a, b, s) for a, b, s in bounds)]
        case "rev":
            return np.flip(x, params["dimensions"])
        case "pad":
            return _pad(x, args[1], params)
        case "iota" if not args:
            shape, at = params["shape"], params["dimension"]
            line = np.arange(shape[at]).astype(params["dtype"])
            return np.broadcast_to(line.reshape([-1 if d == at else 1 for d in range(len(shape))]), shape)
        case "dot_general":
            return _dot_general(x, args[1], params)
        case "convert_element_type":
            return _convert(x, params)
        case "select_n" if x.dtype == bool and len(args) == 3:
            return np.where(x, args[2], args[1])
        case "integer_pow" if np.issubdtype(x.dtype, np.floating):
            return x ** float(params["y"]) if params["y"] < 0 else x ** params["y"]
        case "div" if np.issubdtype(x.dtype, np.floating):
            return x / args[1]
        case "round" if np.issubdtype(x.dtype, np.floating) and int(params["rounding_method"]) == 1:
            return np.round(x)
        case "clamp":
            return np.minimum(np.maximum(args[1], x), args[2])
        case "argmax" | "argmin" if len(params["axes"]) == 1:
            return getattr(np, name)(x, params["axes"][0]).astype(params["index_dtype"])
        case "dynamic_slice":
            return _dynamic_slice(args, params)
    return None


def _called(params: Any) -> Any:
    return params.get("jaxpr") or params.get("call_jaxpr")


def _scan(args: list[Any], params: Any) -> list[Any]:
    constants, carried, length = params["num_consts"], params["num_carry"], params["length"]
    fixed, carry = args[:constants], args[constants : constants + carried]
    rows, made = args[constants + carried :], []
    for t in reversed(range(length)) if params["reverse"] else range(length):
        out = run(params["jaxpr"].jaxpr, params["jaxpr"].consts, [*fixed, *carry, *(r[t] for r in rows)])
        carry = out[:carried]
        made.append(out[carried:])
    if params["reverse"]:
        made.reverse()
    shapes = [v.aval for v in params["jaxpr"].jaxpr.outvars[carried:]]
    stacked = [
        np.stack([m[k] for m in made]) if made else np.zeros((0, *aval.shape), aval.dtype)
        for k, aval in enumerate(shapes)
    ]
    return [*carry, *stacked]


def _while(args: list[Any], params: Any) -> list[Any]:
    split, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    asked, fixed, carry = args[:split], args[split:second], args[second:]
    goes, body = params["cond_jaxpr"], params["body_jaxpr"]
    while bool(run(goes.jaxpr, goes.consts, [*asked, *carry])[0]):
        carry = run(body.jaxpr, body.consts, [*fixed, *carry])
    return carry


def _plain(value: Any) -> Any:
    try:
        return value if isinstance(value, np.ndarray) else np.asarray(value)
    except TypeError:
        return value  # a key


def _bound(equation: Any, args: list[Any]) -> list[Any]:
    """JAX's own answer."""
    given = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    out = equation.primitive.bind(*given, **equation.params)
    return list(out) if equation.primitive.multiple_results else [out]


def _stepped(equation: Any, args: list[Any]) -> list[Any]:
    name, params = equation.primitive.name, equation.params
    if name in ("jit", "pjit", "closed_call", "call", "remat2", "custom_jvp_call", "custom_vjp_call"):
        inner = _called(params)
        program, constants = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, [])
        return run(program, constants, args)
    if name == "scan":
        return _scan(args, params)
    if name == "while":
        return _while(args, params)
    if name == "cond":
        branch = params["branches"][int(np.clip(args[0], 0, len(params["branches"]) - 1))]
        return run(branch.jaxpr, branch.consts, args[1:])
    if all(isinstance(a, np.ndarray) for a in args):
        real = not args or np.issubdtype(args[0].dtype, np.floating)
        if name in ENTRYWISE and (real or name not in REAL_ONLY):
            out = ENTRYWISE[name](*args)
            return list(out) if isinstance(out, (tuple, list)) else [out]
        if name in REDUCTIONS and args[0].size:
            return [np.asarray(REDUCTIONS[name](args[0], axis=tuple(params["axes"]))).astype(args[0].dtype)]
        if name in RUNNING and np.issubdtype(args[0].dtype, np.floating):
            axis = params["axis"]
            if params["reverse"]:
                return [np.flip(RUNNING[name](np.flip(args[0], axis), axis=axis), axis)]
            return [RUNNING[name](args[0], axis=axis)]
        out = _moved(name, args, params)
        if out is not None:
            return [out]
    return _bound(equation, args)


def run(jaxpr: Any, constants: Any, args: Any) -> list[Any]:
    """The outputs of a jaxpr."""
    values: dict[Any, Any] = {}
    read = lambda v: _plain(v.val) if isinstance(v, Literal) else values[v]
    values.update(zip(jaxpr.constvars, map(_plain, constants), strict=True))
    values.update(zip(jaxpr.invars, map(_plain, args), strict=True))
    for equation in jaxpr.eqns:
        out = _stepped(equation, [read(v) for v in equation.invars])
        values.update(zip(equation.outvars, map(_plain, out), strict=True))
    return [read(v) for v in jaxpr.outvars]


class Program:
    """A function traced once at the shapes of its arguments."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        """Trace."""
        self.program, shape = jax.make_jaxpr(function, return_shape=True)(*args)
        self.tree = jax.tree.structure(shape)

    def __call__(self, *args: Any) -> Any:
        """The outputs at these arguments."""
        with np.errstate(all="ignore"):
            out = run(self.program.jaxpr, self.program.consts, jax.tree.leaves(args))
        return jax.tree.unflatten(self.tree, out)
