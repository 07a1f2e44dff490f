"""Programs of fused arrays as programs of their parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

import quotax.interpret.tracing.apart.rules  # noqa: F401  (fills the table)
from quotax.artifacts import ArraySpec, Cut
from quotax.interpret.tracing.apart.concatenation import Concatenation, Divided, shape_of, whole
from quotax.interpret.tracing.apart.stepping import FUSED, applied, run
from quotax.parts import groups, layout
from quotax.programs.jaxprs import CALLS, bare
from quotax.trees import AnyArray, Dim

_CONSTANT, _WEIGHT, _DATA = range(3)
"""What a value is made of, at most: constants, parameters, inputs."""


def program_of_parts(closed: ClosedJaxpr, specs: Sequence[ArraySpec], sizes: Mapping[str, Dim]) -> ClosedJaxpr:
    """The program whose first arguments are the arrays of `specs`, where those of `closed` are the arrays they make.

    A program that fuses nothing is returned as it is.
    """
    own = groups(specs)
    fused, apart = set(), set()
    kinds = [_WEIGHT if i < len(own) else _DATA for i in range(len(closed.jaxpr.invars))]
    _fusions(closed.jaxpr, kinds, fused, apart)
    if not (fused - apart or any(spec.cuts for spec in specs)):
        return closed
    kinds = [v.aval.dtype for v, members in zip(closed.jaxpr.invars, own.values(), strict=False) for _ in members]
    parts = [jax.ShapeDtypeStruct(spec.shape(sizes), kind) for spec, kind in zip(specs, kinds, strict=True)]
    rest = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in closed.jaxpr.invars[len(own) :]]

    def of_parts(*leaves: AnyArray) -> list[Divided]:
        given = iter(leaves)
        wholes = [_made([(spec.cuts, next(given)) for spec in members], sizes) for members in own.values()]
        return [whole(value) for value in run(closed.jaxpr, closed.consts, [*wholes, *given])]

    token = FUSED.set(frozenset(fused - apart))
    try:
        return jax.make_jaxpr(of_parts)(*parts, *rest)
    finally:
        FUSED.reset(token)


def _fusions(jaxpr: Jaxpr, kinds: Sequence[int], fused: set[int], apart: set[int]) -> list[int]:
    """The kinds of the outputs; `fused` and `apart` collect concatenations of parameters alone and all others."""
    known = dict.fromkeys(jaxpr.constvars, _CONSTANT) | dict(zip(jaxpr.invars, kinds, strict=True))
    read = lambda atom: _CONSTANT if isinstance(atom, Literal) else known[atom]
    for equation in jaxpr.eqns:
        name, own = equation.primitive.name, [read(atom) for atom in equation.invars]
        most = max(own, default=_CONSTANT)
        made = [most] * len(equation.outvars)
        if name in CALLS:
            made = _fusions(bare(equation.params[CALLS[name]]), own, fused, apart)
        elif name == "scan":
            held, carried = equation.params["num_consts"], equation.params["num_carry"]
            own[held : held + carried] = [_DATA] * carried
            made = _fusions(bare(equation.params["jaxpr"]), own, fused, apart)
            made[:carried] = [_DATA] * carried
        elif name in ("concatenate", "stack"):
            (fused if most == _WEIGHT and len(own) > 1 else apart).add(id(equation))
        known.update(zip(equation.outvars, made, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _made(members: Sequence[tuple[tuple[Cut, ...], AnyArray]], sizes: Mapping[str, Dim]) -> Divided:
    """The value that the parts of one array make."""
    cuts, array = members[0]
    if not cuts:
        return array
    within: dict[int, list[Divided]] = {}
    for own, value in members:
        within.setdefault(own[0].index, []).append((own[1:], value))
    pieces = [_made(own, sizes) for own in within.values()]
    cut, rank = cuts[0], len(shape_of(pieces[0]))
    if cut.stacked:
        axis = rank + 1 + cut.axis
        pieces = [applied(lambda a: jnp.expand_dims(a, axis), piece) for piece in pieces]
        return Concatenation((), axis, 1, (1,) * len(pieces), 1, ()).like(pieces, axis)
    before, lengths, after = layout(cut, sizes)
    return Concatenation((), 0, before, tuple(lengths), after, ()).like(pieces, rank + cut.axis)
