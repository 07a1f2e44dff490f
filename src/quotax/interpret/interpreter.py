"""The interpreter: walk a jaxpr with the primitive table, in a domain."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from quotax.artifacts import Trace
from quotax.errors import ArchitectureError, UnsupportedPrimitiveError
from quotax.interpret.domain import RANDOM, AnyValue, Domain, Eqn, Rule, Unreadable, is_known
from quotax.interpret.primitives import TABLE
from quotax.interpret.shared.folding import fold
from quotax.interpret.tracing.provenance import place
from quotax.programs.jaxprs import CALLS, Atom, is_key, shaped

_FACTORISATIONS = (
    *("svd", "eig", "lu", "qr", "cholesky", "schur", "hessenberg", "householder"),
    *("triangular_solve", "tridiagonal", "custom_linear_solve"),
)
_ADVICE = {
    RANDOM: "a random key that is no constant of the model cannot be followed: draw outside, pass what is drawn",
    _FACTORISATIONS: (
        "matrix factorisations are not read: pass the factor as a parameter, or write the formula with `@`"
    ),
    ("sort", "top_k", "approx_top_k"): (
        "orderings are not read: use `jnp.max`, `jnp.min`, `jnp.argmax` or a fixed mask"
    ),
    ("complex", "conj", "real", "imag"): (
        "this is not read of complex numbers: write it with their real and imaginary parts"
    ),
    ("pure_callback", "io_callback"): "a callback's formula is not visible: write it in `jax.numpy`",
}


def evaluate(program: Trace | ClosedJaxpr, domain: Domain, arguments: Sequence[AnyValue]) -> list[AnyValue]:
    """The outputs of a trace (or closed jaxpr) when its inputs are these values of `domain`.

    Arguments are in the jaxpr's order: for a trace, parameters and then inputs. NumPy arrays are constants, and what
    follows from constants alone is computed by JAX itself in float64.
    """
    closed = program.jaxpr if isinstance(program, Trace) else program
    expected = len(closed.jaxpr.invars)
    if len(arguments) != expected:
        raise ArchitectureError(f"`evaluate` got {len(arguments)} arguments for a jaxpr of {expected} inputs.")
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return _run(closed, domain, arguments, "a place that JAX did not record")


def _run(closed: ClosedJaxpr, domain: Domain, arguments: Sequence[AnyValue], origin: str) -> list[AnyValue]:
    jaxpr = closed.jaxpr
    values: dict[Var, AnyValue] = {}

    def read(atom: Atom) -> AnyValue:
        return np.asarray(atom.val) if isinstance(atom, Literal) else values[atom]

    values.update(zip(jaxpr.constvars, map(_constant, closed.consts), strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        outputs = _step(equation, domain, [read(atom) for atom in equation.invars], origin)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _constant(value: AnyValue) -> AnyValue:
    return np.asarray(value) if isinstance(value, (jax.Array, int, float, bool)) and not is_key(value) else value


def _step(equation: JaxprEqn, domain: Domain, arguments: list[AnyValue], origin: str) -> list[AnyValue]:
    primitive = equation.primitive
    name = primitive.name
    if equation.outvars and name not in CALLS and all(is_known(a) or is_key(a) for a in arguments):
        if not any(map(is_key, (*equation.invars, *equation.outvars))):
            return fold(primitive, equation, arguments)
        found = primitive.bind(*arguments, **equation.params)  # a random key that is a constant, as JAX has it
        return [_constant(out) for out in (found if primitive.multiple_results else [found])]
    rule = _rule(name, domain)
    if rule is None:
        raise _refusal(name, domain, place(equation) or origin, None)
    eqn = Eqn(
        primitive,
        equation.params,
        tuple(shaped(atom) for atom in equation.invars),
        tuple(shaped(atom) for atom in equation.outvars),
        domain,
        lambda closed, args: _run(closed, domain, args, place(equation) or origin),
    )
    try:
        return rule(eqn, arguments)
    except Unreadable as error:
        raise _refusal(name, domain, place(equation) or origin, error) from error


def _rule(name: str, domain: Domain) -> Rule | None:
    row = TABLE.get(name)
    if row is None:
        return None
    return next((rule for rule in map(row.entry, domain.columns) if rule is not None), None)


def _refusal(name: str, domain: Domain, where: str, error: Unreadable | None) -> UnsupportedPrimitiveError:
    if error is not None:
        why, advice = f"here {error}", error.advice
    else:
        why = f"it has no entry in the primitive table for the {domain.name} domain"
        advice = next((text for names, text in _ADVICE.items() if name.startswith(names)), None) or (
            "write it with elementwise `jax.numpy` functions, `@`, `jnp.einsum`, sums, `jnp.where`, constant indices, "
            f"`jax.lax.scan` and `jax.nn`, or add a row for `{name}` to quotax/interpret/primitives.py"
        )
    return UnsupportedPrimitiveError(f"cannot read the JAX primitive `{name}` at {where}: {why}. What to do: {advice}.")
