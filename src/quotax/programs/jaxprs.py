"""What jaxprs are made of: calls, bodies, random keys, and the equations that matter."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
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


def needed(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr without what no output depends on, in calls too: keys split for a dropout that is off."""
    jaxpr, _ = dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True)
    return ClosedJaxpr(jaxpr, closed.consts) if len(jaxpr.constvars) == len(closed.consts) else closed


def is_key(value: Any) -> bool:
    """Whether an array of JAX's, or an atom of a jaxpr, is a random key."""
    aval = getattr(value, "aval", None)
    return aval is not None and bool(jnp.issubdtype(aval.dtype, jax.dtypes.extended))
