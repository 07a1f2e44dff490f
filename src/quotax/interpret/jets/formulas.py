"""What a record says of a function, in residues: its value, computed or drawn, and its slope.

The value is free where nothing is known of it, and the slope follows from the function's differential relation. `c f`
with a constant c obeys the same relation as f when it is linear (powers, exponentials): such values may be drawn
without solving for a root.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import sympy as sp

from quotax.elementwise import FUNCTIONS, Elementwise, formula
from quotax.interpret.domain import Eqn, Rule, Unreadable
from quotax.interpret.jets.domain import JetDomain, Value
from quotax.interpret.jets.residues import PRIME, inverse

Z, V = formula("z"), formula("v")


def smooth(function: Elementwise) -> Rule[JetDomain]:
    """Apply a function of one number, entry by entry."""

    def rule(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
        domain, jet = eqn.domain, eqn.domain.lift(args[0])
        domain.finite(jet)
        value, slope = value_and_slope(function, domain, jet.values.astype(np.int64))
        return [domain.entrywise(value, (jet, slope))]

    return rule


def value_and_slope(function: Elementwise, domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Residues of the value and of the slope at residues of the argument."""
    value = _residues(domain, formula(function.through or function.form), {Z: z})
    return value, _residues(domain, _slope(function), {Z: z, V: value})


@functools.cache
def _slope(function: Elementwise) -> sp.Expr:
    form = formula(function.form)
    return formula(function.slope) if function.slope else sp.diff(form, Z).xreplace({form: V})


def _residues(domain: JetDomain, e: sp.Expr, at: Mapping[sp.Expr, np.ndarray]) -> np.ndarray:
    """A formula at residues of its symbols."""
    if e in at:
        return at[e]
    if e.is_Rational:
        return np.asarray(e.p * pow(e.q, -1, PRIME) % PRIME, np.int64)
    if e.is_number:
        return _constant(str(e))
    args = [_residues(domain, a, at) for a in e.args]
    if e.is_Add:
        return functools.reduce(lambda a, b: (a + b) % PRIME, args)
    if e.is_Mul:
        return functools.reduce(lambda a, b: a * b % PRIME, args)
    if e.is_Pow and e.exp.is_Rational:
        p, q = int(e.exp.p), int(e.exp.q)
        base = args[0] if q == 1 else _drawn(domain, Z ** sp.Rational(1, q), args[0])
        base = base if p > 0 else domain.divided(base) if q == 1 else inverse(base)
        return functools.reduce(lambda a, b: a * b % PRIME, [base] * abs(p))
    if isinstance(e, sp.exp):
        return domain.functions.exponential(args[0])
    if isinstance(e, (sp.sin, sp.cos)):
        return _circle(domain, args[0])[isinstance(e, sp.cos)]
    where = [k for k, part in enumerate(e.args) if not part.is_number]
    if len(where) != 1:
        raise Unreadable(f"nothing is known of the function {e.func}", "write its `slope` with functions of one number")
    form, z = e.func(*(Z if k in where else part for k, part in enumerate(e.args))), args[where[0]]
    through = _records()[form].through if form in _records() else ""
    return _residues(domain, formula(through), {Z: z}) if through else _drawn(domain, form, z)


@functools.cache
def _records() -> dict[sp.Expr, Elementwise]:
    return {formula(f.form): f for f in FUNCTIONS.values() if f.form}


@functools.cache
def _known(form: sp.Expr) -> dict[int, int]:
    """The function's values at 0 and 1, as far as they are whole numbers."""
    values = {k: form.subs(Z, k) for k in (0, 1)}
    return {k: int(value) for k, value in values.items() if value.is_Integer}


def _drawn(domain: JetDomain, form: sp.Expr, z: np.ndarray) -> np.ndarray:
    """A free value, odd if the function has a record that says so, and its own where that is a whole number."""
    flipped = (z > PRIME // 2) & (form in _records() and _records()[form].parity == -1)
    size = np.where(flipped, PRIME - z, z)
    value = domain.functions.free(str(form), size)
    for argument, known in _known(form).items():
        value = np.where(size == argument, known, value)
    return np.where(flipped, -value % PRIME, value)


def _circle(domain: JetDomain, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A point (sin, cos) of the circle by its rational parameter, odd and even in z."""
    flipped = z > PRIME // 2
    u = domain.functions.free("circle", np.where(flipped, PRIME - z, z))
    u = np.where(z == 0, 0, np.where(flipped, PRIME - u, u))
    over = domain.divided((1 + u * u) % PRIME)
    return 2 * u * over % PRIME, (1 - u * u) % PRIME * over % PRIME


def _constant(name: str) -> np.ndarray:
    """A transcendental constant: free, the same in a whole sample."""
    return np.asarray(sum(ord(c) * 7919**i for i, c in enumerate(name)) % PRIME, np.int64)
