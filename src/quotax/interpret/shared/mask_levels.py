"""Large negative constants that stand for minus infinity: `where(mask, scores, -1e10)` before a softmax.

A constant is read so only where all that is made of it is what a mask is for: it is chosen in place of numbers, moved,
shifted and scaled with them, compared with them by a maximum, and exponentiated. Where it meets anything else, is added
back, multiplied by a value, or handed out, it is the number that it is. A model that computes with a constant of such a
size may take back what a mask put there, so in it none is read.

A mask that is added, `scores + where(mask, 0, -1e10)`, is made of numbers alone and may stay what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.typing import ArrayLike

from quotax.interpret.tracing.provenance import place
from quotax.programs.jaxprs import (
    CALLS,
    IDENTITIES,
    Program,
    as_closed,
    bare,
    bodies,
    is_key,
    shaped,
    with_bodies,
    with_equations,
)

LARGE = 1e8
"""Constants below minus this are candidates. Masks in use are -1e9, -1e10, -1e30 and the least float; exp(-1e8) is zero
in every format by a margin that no scores reach, while -1e4, also in use, is of a size that scores can have."""

LEAST = 1e6
"""What is left of a level after it was scaled with the scores: exp(-1e6) is still zero in every format."""

Spot = tuple[int, int, int]
"""(jaxpr, equation, operand) where a constant stands."""


class Meaning(NamedTuple):
    """What a value has of such constants: it is one (`level`), or has them in some entries; `size` is their least."""

    level: bool
    spots: frozenset[Spot]
    size: float


_MOVED = """
    broadcast_in_dim reshape transpose squeeze expand_dims convert_element_type slice rev concatenate reduce_precision
"""
_MOVES = frozenset((*IDENTITIES, *_MOVED.split()))
_ENDS = frozenset(("exp", "exp2", "reduce_max", "argmax"))
"""After these nothing is left of a level: it is zero, or not the largest."""
_COMPARED = frozenset(
    ("max", "min", "clamp", "eq", "ne", "lt", "le", "gt", "ge", "select_n", "is_finite", "reduce_min")
)
"""Where a constant is a bound, nothing is computed with it."""


def read_masks(closed: ClosedJaxpr, added: bool = True) -> tuple[ClosedJaxpr, tuple[str, ...]]:
    """(the jaxpr with minus infinity where a constant stands for it, what is assumed with that).

    Without `added`, masks that are added are left as they are.
    """
    reader = _Reader()
    out = reader.run(closed, [None] * len(closed.jaxpr.invars), [False] * len(closed.jaxpr.invars))
    reader.refuse(out)
    here = reader.chosen.keys() - reader.refused - (set() if added else reader.added - reader.replacing)
    kept = {spot: number for spot, number in reader.seen.items() if spot in here}
    if not kept or reader.computes:
        return closed, ()
    notes = [
        f"{number:.3g} at {reader.chosen[spot] or 'a place that JAX did not record'} stands for minus infinity: "
        "what it is compared with is larger"
        for spot, number in kept.items()
    ]
    return _replaced(closed, frozenset(kept)), tuple(dict.fromkeys(notes))


@dataclass
class _Reader:
    seen: dict[Spot, float] = field(default_factory=dict)
    chosen: dict[Spot, str] = field(default_factory=dict)
    """Where a constant is chosen in place of numbers."""
    added: set[Spot] = field(default_factory=set)
    """Where it is chosen in place of a constant, and where in place of anything else."""
    replacing: set[Spot] = field(default_factory=set)
    refused: set[Spot] = field(default_factory=set)
    computes: bool = False
    """Whether some large constant is computed with."""

    def refuse(self, values: Sequence[Meaning | None]) -> None:
        for value in values:
            self.refused |= value.spots if value is not None else set()

    def run(
        self, closed: Jaxpr | ClosedJaxpr, arguments: Sequence[Meaning | None], known: Sequence[bool], origin: str = ""
    ) -> list[Meaning | None]:
        """The meanings of the outputs; `known` says which arguments are constants."""
        jaxpr = as_closed(closed).jaxpr
        self.computes = self.computes or any(map(_large, as_closed(closed).consts))
        values: dict[Var, Meaning | None] = dict(zip(jaxpr.invars, arguments, strict=True))
        constants = {*jaxpr.constvars, *(v for v, constant in zip(jaxpr.invars, known, strict=True) if constant)}
        for number, equation in enumerate(jaxpr.eqns):
            atoms = enumerate(equation.invars)
            read = [
                self.literal(atom, (id(jaxpr), number, k)) if isinstance(atom, Literal) else values.get(atom)
                for k, atom in atoms
            ]
            fixed = [isinstance(atom, Literal) or atom in constants for atom in equation.invars]
            out = self.step(equation, read, fixed, place(equation) or origin)
            values.update(zip(equation.outvars, out, strict=True))
            constants.update(equation.outvars if all(fixed) else ())
        return [None if isinstance(atom, Literal) else values.get(atom) for atom in jaxpr.outvars]

    def literal(self, atom: Literal, spot: Spot) -> Meaning | None:
        if not _large(atom.val):
            return None
        if np.ndim(atom.val):
            self.computes = True
            return None
        value = float(atom.val)
        self.seen[spot] = value
        if value > 0:
            self.refused.add(spot)
        return Meaning(True, frozenset({spot}), abs(value))

    def step(
        self, equation: JaxprEqn, args: list[Meaning | None], fixed: list[bool], where: str
    ) -> list[Meaning | None]:
        name = equation.primitive.name
        nothing: list[Meaning | None] = [None] * len(equation.outvars)
        if name in CALLS:
            return self.run(equation.params[CALLS[name]], args, fixed, where)
        masked = [a for a in args if a is not None]
        inner = [body for value in equation.params.values() for body in bodies(value)]
        if inner:
            # a loop or a branch: what is inside it is looked at, what goes in or comes out is a number
            self.refuse(args)
            self.computes = self.computes or bool(masked)
            for body in inner:
                count = len(as_closed(body).jaxpr.invars)
                self.refuse(self.run(body, [None] * count, [False] * count, where))
            return nothing
        if not masked:
            return nothing
        level = all(a is not None and a.level for a in args)
        both = Meaning(level, frozenset().union(*(a.spots for a in masked)), min(a.size for a in masked))
        if name in _MOVES:
            return [both]
        if name in _ENDS and not level:
            return nothing
        if name == "select_n" and args[0] is None and any(a is None or not a.level for a in args[1:]):
            for spot in (spot for a in masked if a.level for spot in a.spots):
                self.chosen.setdefault(spot, where)
                (self.added if all(fixed[1:]) else self.replacing).add(spot)
            return [both._replace(level=False)]
        if len(masked) == 1 and not masked[0].level:
            if name in ("add", "add_any", "max") or (name == "sub" and args[1] is None):
                return [both]
            factor = _factor(equation, args)
            if factor is not None and both.size * factor >= LEAST:
                return [both._replace(size=both.size * factor)]
        self.refuse(masked)
        self.computes = self.computes or name not in _COMPARED
        return nothing


def _factor(equation: JaxprEqn, args: Sequence[Meaning | None]) -> float | None:
    """The positive constant that the masked operand is multiplied by."""
    name, atoms = equation.primitive.name, equation.invars
    other = next((atom for atom, a in zip(atoms, args, strict=True) if a is None), None)
    if not isinstance(other, Literal) or np.ndim(other.val) or not float(other.val) > 0:
        return None
    if name == "mul":
        return float(other.val)
    return 1 / float(other.val) if name == "div" and other is atoms[1] else None


def _large(constant: ArrayLike) -> bool:
    """Whether an array of constants has an entry of such a size."""
    if is_key(constant) or not jnp.issubdtype(jnp.result_type(constant), jnp.floating):
        return False
    array = np.asarray(constant, np.float64)
    return bool((np.isfinite(array) & (np.abs(array) >= LARGE)).any())


def _replaced(closed: Program, spots: frozenset[Spot]) -> Program:
    """The jaxpr with minus infinity at these places, in nested ones too."""
    jaxpr, equations = bare(closed), []
    for number, equation in enumerate(jaxpr.eqns):
        atoms = [
            Literal(np.asarray(-np.inf, shaped(atom).dtype)[()], atom.aval) if (id(jaxpr), number, k) in spots else atom
            for k, atom in enumerate(equation.invars)
        ]
        same = all(a is b for a, b in zip(atoms, equation.invars, strict=True))
        other = equation if same else equation.replace(invars=atoms)
        equations.append(with_bodies(other, lambda body: _replaced(body, spots)))
    return with_equations(closed, equations)
