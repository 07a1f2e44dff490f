"""What jaxprs are made of: calls, bodies, random keys, and the equations that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.interpreters.partial_eval import dce_jaxpr

Atom: TypeAlias = Var | Literal
"""What an equation reads."""

Setting: TypeAlias = Any
"""Of an equation: each primitive has its own, of types that JAX does not state."""

Settings: TypeAlias = Mapping[str, Setting]
"""Those of one equation, by name."""

Program = TypeVar("Program", Jaxpr, ClosedJaxpr)

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


def as_closed(jaxpr: Jaxpr | ClosedJaxpr) -> ClosedJaxpr:
    """A jaxpr with its constants."""
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())


def bare(jaxpr: Jaxpr | ClosedJaxpr) -> Jaxpr:
    """A jaxpr without them."""
    return jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr


def bodies(value: Setting) -> list[Jaxpr | ClosedJaxpr]:
    """The jaxprs in a setting of an equation, as they are there."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return [p for p in parts if isinstance(p, (ClosedJaxpr, Jaxpr))]


def live(jaxpr: Jaxpr) -> list[JaxprEqn]:
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


def rewritten(closed: Program, rule: Callable[[JaxprEqn, Mapping[Var, JaxprEqn]], JaxprEqn | None]) -> Program:
    """The jaxpr with other equations in the place of some, in nested ones too; itself where none is another.

    `rule` takes an equation, and the equations by what they make; it gives the equation that is in its place, or None.
    """
    jaxpr = bare(closed)
    made = {v: e for e in jaxpr.eqns for v in e.outvars}
    read = lambda body: rewritten(body, rule)
    return with_equations(closed, [rule(e, made) or with_bodies(e, read) for e in jaxpr.eqns])


def with_equations(closed: Program, equations: Sequence[JaxprEqn]) -> Program:
    """The jaxpr with these in the place of its equations; itself where they are its own."""
    jaxpr = bare(closed)
    same = all(a is b for a, b in zip(equations, jaxpr.eqns, strict=True))
    return closed if same else with_jaxpr(closed, jaxpr.replace(eqns=list(equations)))


def with_jaxpr(closed: Program, jaxpr: Jaxpr) -> Program:
    """Another jaxpr with the constants of this one, if it has any."""
    return cast(Program, ClosedJaxpr(jaxpr, closed.consts) if isinstance(closed, ClosedJaxpr) else jaxpr)


def with_bodies(equation: JaxprEqn, read: Callable[[Program], Program]) -> JaxprEqn:
    """The equation with the jaxprs in its settings read; itself where each of them is."""
    params = {name: inside(value, read) for name, value in equation.params.items()}
    same = all(params[name] is value for name, value in equation.params.items())
    return equation if same else equation.replace(params=params)


def inside(value: Setting, read: Callable[[Program], Program]) -> Setting:
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


def shaped(atom: Atom) -> ShapedArray:
    """The shape and type of an array in a jaxpr; JAX's own annotation leaves open what an atom is."""
    return cast(ShapedArray, atom.aval)


def is_key(value: Any) -> bool:
    """Whether an array of JAX's, or an atom of a jaxpr, is a random key."""
    aval = getattr(value, "aval", None)
    return aval is not None and bool(jnp.issubdtype(aval.dtype, jax.dtypes.extended))
