"""What jaxprs are made of: calls, bodies, random keys, and the equations that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jax.interpreters.partial_eval import dce_jaxpr

CALLS = {
    "jit": "jaxpr",
    "closed_call": "call_jaxpr",
    "call": "call_jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "composite": "jaxpr",
}
"""Primitives that compute the jaxpr in one of their settings, and the setting's name."""

IDENTITIES = ("copy", "stop_gradient", "optimization_barrier", "name")
"""Primitives whose outputs are their inputs."""


def as_closed(jaxpr: Any) -> ClosedJaxpr:
    """A jaxpr with its constants."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())


def bare(jaxpr: Any) -> Jaxpr:
    """A jaxpr without them."""
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


def bodies(value: Any) -> list[Any]:
    """The jaxprs in a setting of an equation, as they are there."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return [p for p in parts if isinstance(p, (ClosedJaxpr, Jaxpr))]


def live(jaxpr: Jaxpr) -> list[Any]:
    """The equations that some output depends on."""
    needed = {v for v in jaxpr.outvars if not isinstance(v, Literal)}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            kept.append(equation)
            needed.update(v for v in equation.invars if not isinstance(v, Literal))
    return kept[::-1]


def equations(jaxpr: Any) -> Iterator[Any]:
    """The equations that some output depends on, those of bodies included."""
    for equation in live(bare(jaxpr)):
        yield equation
        for value in equation.params.values():
            for body in bodies(value):
                yield from equations(body)


def needed(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr without what no output depends on, in calls too: keys split for a dropout that is off."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return ClosedJaxpr(jaxpr, closed.consts) if len(jaxpr.constvars) == len(closed.consts) else closed


def rewritten(closed: Any, rule: Callable[[Any, Mapping[Any, Any]], Any]) -> Any:
    """The jaxpr with other equations in the place of some, in nested ones too; itself where none is another.

    `rule` takes an equation, and the equations by what they make; it gives the equation that is in its place, or None.
    """
    jaxpr = bare(closed)
    made = {v: e for e in jaxpr.eqns for v in e.outvars}
    equations = []
    for equation in jaxpr.eqns:
        other = rule(equation, made)
        if other is None:
            params = {
                name: inside(value, lambda body: rewritten(body, rule)) for name, value in equation.params.items()
            }
            same = all(params[name] is value for name, value in equation.params.items())
            other = equation if same else equation.replace(params=params)
        equations.append(other)
    if all(a is b for a, b in zip(equations, jaxpr.eqns, strict=True)):
        return closed
    other = jaxpr.replace(eqns=equations)
    return ClosedJaxpr(other, closed.consts) if isinstance(closed, ClosedJaxpr) else other


def inside(value: Any, read: Callable[[Any], Any]) -> Any:
    """A setting of an equation with its jaxprs read; itself where each of them is."""
    if not bodies(value):
        return value
    if isinstance(value, (list, tuple)):
        parts = [inside(part, read) for part in value]
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else type(value)(parts)
    return read(value)


def traced(function: Callable[..., Any], arguments: Iterable[Any]) -> tuple[ClosedJaxpr, Any]:
    """A function's jaxpr and the shapes of its outputs, by a trace that leaves nothing behind in the user's arrays.

    JAX keeps what it made of a NumPy array for as long as somebody holds it, whatever types were enabled then. Traced
    in double precision, an array that the user's function closes over would be in double precision there ever after,
    and the function, run in single precision, would fail with a buffer of another size than its program expects. So
    the trace gets constants of its own, and comes to its end where the function raises: one that does not is kept.
    """
    raised: list[Exception] = []

    def run(*leaves: Any) -> Any:
        try:
            return function(*leaves)
        except Exception as error:  # whatever it raises is raised below
            raised.append(error)
            return ()

    closed, outputs = jax.make_jaxpr(run, return_shape=True)(*arguments)
    _constants_apart(closed)
    if raised:
        raise raised.pop()
    return closed, outputs


def _constants_apart(jaxpr: Any) -> None:
    """Copies in the place of constants, in the bodies too."""
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr.consts[:] = [value.copy() if isinstance(value, np.ndarray) else value for value in jaxpr.consts]
    for equation in bare(jaxpr).eqns:
        for value in equation.params.values():
            for body in bodies(value):
                _constants_apart(body)


def is_key(value: Any) -> bool:
    """Whether an array of JAX's, or an atom of a jaxpr, is a random key."""
    aval = getattr(value, "aval", None)
    return aval is not None and bool(jnp.issubdtype(aval.dtype, jax.dtypes.extended))
