"""A choice within a choice by the same truth: `where(p, F(where(p, y, z)), w)` is `where(p, F(y), w)`.

Where a case that is not chosen would divide by zero, or be the root of a negative number, its derivative is no number,
and people choose twice: `where(z > 0, sqrt(where(z > 0, z, 1)), 0)`. As a function of real numbers the inner choice is
none: what is not chosen has no value to lose. `F` is entry by entry. An inner choice that fills in an infinity, or a
number that stands for one, is a mask, and stays.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from quotax.elementwise import FUNCTIONS
from quotax.interpret.tracing.provenance import place
from quotax.programs.jaxprs import (
    CALLS,
    Atom,
    Program,
    as_closed,
    bare,
    needed,
    with_bodies,
    with_equations,
    with_jaxpr,
)

_ENTRYWISE = {
    *FUNCTIONS,
    *("add", "sub", "mul", "div", "neg", "max", "min", "select_n", "clamp", "integer_pow", "add_any"),
    *("and", "or", "not", "xor", "gt", "lt", "ge", "le", "eq", "ne", "is_finite"),
    *("convert_element_type", "copy", "stop_gradient"),
}
"""Primitives whose outputs are functions of the same entry of every argument."""

_MASKS = 1e8
"""Constants from here on stand for infinity where something chooses them."""

Truth = tuple[Hashable, bool]
"""What is compared, and whether it holds where the truth value is true."""


def chosen_once(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr without choices within choices by the same truth, in bodies too; itself where there are none."""
    read = _read(closed)
    return closed if read is closed else needed(read)


def _read(closed: Program) -> Program:
    jaxpr = bare(closed)
    found = _Choices(jaxpr) if _choices(jaxpr) > 1 else None
    if found is not None and found.changed:
        jaxpr = found.jaxpr
    jaxpr = with_equations(jaxpr, [with_bodies(equation, _read) for equation in jaxpr.eqns])
    return closed if jaxpr is bare(closed) else with_jaxpr(closed, jaxpr)


def _choices(jaxpr: Jaxpr) -> int:
    """How many there are, in calls too."""
    calls = (bare(e.params[CALLS[e.primitive.name]]) for e in jaxpr.eqns if e.primitive.name in CALLS)
    return sum(e.primitive.name == "select_n" for e in jaxpr.eqns) + sum(map(_choices, calls))


class _Choices:
    """A jaxpr with the bodies of its calls in their place, and every choice made once."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        """`changed` says whether some choice was made twice; `jaxpr` is then what is read."""
        self.equations: list[JaxprEqn] = []
        self.made: dict[Var, JaxprEqn] = {}
        self.numbers: dict[Hashable, int] = {}
        self.changed = False
        ends = self._inlined(jaxpr, {}, None)
        self.jaxpr = jaxpr.replace(eqns=self.equations, outvars=ends)

    def _inlined(self, jaxpr: Jaxpr, at: dict[Var, Atom], origin: JaxprEqn | None) -> list[Atom]:
        """The equations one by one, what they read renamed; what the outputs are called."""

        def read(atom: Atom) -> Atom:
            return atom if isinstance(atom, Literal) else at.get(atom, atom)

        for equation in jaxpr.eqns:
            arguments = [read(atom) for atom in equation.invars]
            name = equation.primitive.name
            where = equation if origin is None or place(equation) else origin
            body = as_closed(equation.params[CALLS[name]]) if name in CALLS else None
            if body is not None and not body.consts and len(body.jaxpr.invars) == len(arguments):
                ends = self._inlined(body.jaxpr, dict(zip(body.jaxpr.invars, arguments, strict=True)), where)
                at.update(zip(equation.outvars, ends, strict=True))
                continue
            outputs = equation.outvars if origin is None else [Var(v.aval) for v in equation.outvars]
            at.update((old, new) for old, new in zip(equation.outvars, outputs, strict=True) if old is not new)
            self._keep(equation.replace(invars=arguments, outvars=outputs, source_info=where.source_info))
        return [read(atom) for atom in jaxpr.outvars]

    def _keep(self, equation: JaxprEqn) -> None:
        if equation.primitive.name == "select_n" and len(equation.invars) == 3:
            which, *cases = equation.invars
            truth, sense = self._truth(which)
            chosen = [self._where(case, (truth, sense == bool(k)), {}) for k, case in enumerate(cases)]
            equation = equation.replace(invars=[which, *chosen])
        self.equations.append(equation)
        self.made.update((v, equation) for v in equation.outvars)

    def _where(self, atom: Atom, truth: Truth, known: dict[Var, Atom]) -> Atom:
        """What a value is where this truth value is as it is there."""
        if isinstance(atom, Literal):
            return atom
        equation = self.made.get(atom)
        if equation is None or equation.primitive.name not in _ENTRYWISE:
            return atom
        if atom not in known:
            known[atom] = self._remade(atom, equation, truth, known)
        return known[atom]

    def _remade(self, atom: Atom, equation: JaxprEqn, truth: Truth, known: dict[Var, Atom]) -> Atom:
        if equation.primitive.name == "select_n" and len(equation.invars) == 3:
            own, sense = self._truth(equation.invars[0])
            if own == truth[0]:
                taken = int(sense == truth[1])
                if self._fills(equation.invars[2 - taken]):
                    return atom
                self.changed = True
                return self._where(equation.invars[1 + taken], truth, known)
        arguments = [self._where(a, truth, known) for a in equation.invars]
        if all(a is b for a, b in zip(arguments, equation.invars, strict=True)):
            return atom
        outputs = [Var(v.aval) for v in equation.outvars]
        other = equation.replace(invars=arguments, outvars=outputs)
        self.equations.append(other)
        self.made.update((v, other) for v in outputs)
        return outputs[0]

    def _fills(self, atom: Atom) -> bool:
        """Whether it is an infinity, or a number that stands for one."""
        equation = None if isinstance(atom, Literal) else self.made.get(atom)
        if equation is not None and equation.primitive.name in ("broadcast_in_dim", "convert_element_type", "neg"):
            return self._fills(equation.invars[0])
        if not isinstance(atom, Literal) or np.ndim(atom.val) or np.asarray(atom.val).dtype.kind not in "fiu":
            return False
        return not abs(float(atom.val)) < _MASKS

    def _truth(self, atom: Atom) -> Truth:
        """What a truth value says, and whether it says so or the opposite: `a != b` is not `a == b`."""
        equation = None if isinstance(atom, Literal) else self.made.get(atom)
        name = "" if equation is None else equation.primitive.name
        if equation is not None and name == "not":
            truth, sense = self._truth(equation.invars[0])
            return truth, not sense
        if equation is not None and name in _COMPARED:
            said, turned, sense = _COMPARED[name]
            sides = [self._number(a) for a in equation.invars]
            if said == "eq":
                return (said, frozenset(sides)), sense
            return (said, *(sides[::-1] if turned else sides)), sense
        return ("is", self._number(atom)), True

    def _number(self, atom: Atom) -> int:
        """A number for each value: values that are computed in the same way have one."""
        return self.numbers.setdefault(self._key(atom), len(self.numbers))

    def _key(self, atom: Atom) -> Hashable:
        if isinstance(atom, Literal):
            plain = np.asarray(atom.val)
            return ("constant", plain.dtype.kind, plain.tobytes()) if plain.ndim == 0 else ("literal", id(atom))
        equation = self.made.get(atom)
        if equation is None or equation.primitive.name not in _ENTRYWISE:
            return ("variable", atom)
        settings = str(sorted((k, str(v)) for k, v in equation.params.items()))
        return (equation.primitive.name, settings, *(self._number(a) for a in equation.invars))


_COMPARED: Mapping[str, tuple[str, bool, bool]] = {
    "gt": ("gt", False, True), "lt": ("gt", True, True), "ge": ("ge", False, True), "le": ("ge", True, True),
    "eq": ("eq", False, True), "ne": ("eq", False, False),
}  # fmt: skip
"""Every comparison as one of three, turned around or not, or its opposite.

`a <= b` is not the opposite of `a > b`: of a root of a negative number neither holds.
"""
