r"""Constants so small that float64 does not show what depends on them: the 1e-12 that a norm adds to a variance.

Scaling what such a norm reads changes outputs by about 1e-12 of themselves, less than rounding does, and a rank in
floats counts the scaling among the flat directions. The rank is that of an analytic family in the constant $c$: for all
$c$ but isolated ones the generic rank over $(\theta, c)$ is the rank over $\theta$ alone, and $c = 0$, where the
scaling is a symmetry, is such a one. So the rank is taken where $c$ is large enough to be seen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jax.extend.core import Literal

from quotax.artifacts import Trace
from quotax.programs.jaxprs import Atom, Program, bare, with_bodies, with_equations

FAINT = 1e-8
"""What a smaller constant does when it is added is lost among digits."""
SEEN = 2.0**-6
"""It is as large as this instead."""


def raised(trace: Trace) -> tuple[Trace, tuple[float, ...]]:
    """The trace with every faint constant that something is added to as large as `SEEN`, and those constants."""
    met: dict[float, None] = {}
    jaxpr = _raised(trace.written, met)
    return replace(trace, jaxpr=jaxpr, _written=None), tuple(met)


def _raised(program: Program, met: dict[float, None]) -> Program:
    changed = []
    for eqn in bare(program).eqns:
        louder = eqn.primitive.name in ("add", "sub", "add_any")
        other = eqn.replace(invars=[_louder(atom, met) for atom in eqn.invars]) if louder else eqn
        changed.append(with_bodies(other, lambda body: _raised(body, met)))
    return with_equations(program, changed)


def _louder(atom: Atom, met: dict[float, None]) -> Atom:
    if not isinstance(atom, Literal) or np.shape(atom.val) or np.asarray(atom.val).dtype.kind != "f":
        return atom
    size = abs(float(atom.val))
    if not 0 < size < FAINT:
        return atom
    met[size] = None
    return Literal(type(atom.val)(SEEN if atom.val > 0 else -SEEN), atom.aval)
