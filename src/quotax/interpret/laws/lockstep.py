"""Several traces of one model read together: the same equations, at several sizes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from quotax.interpret.evaluate import _fold
from quotax.interpret.laws.reading import Break, Joint, Laws
from quotax.interpret.laws.showing import law_text
from quotax.interpret.laws.tensors import Constant, NoLaw, Tensor, find_law
from quotax.interpret.provenance import place
from quotax.interpret.table import TABLE

_RANDOM = ("random_", "rng_", "threefry")
_BODIES = ("jit", "closed_call", "call", "remat2", "custom_jvp_call", "custom_vjp_call", "scan", "while", "cond")


class StructureDiffers(Exception):
    """The traces are not the same equations; the message says where they part."""


class LawMissing(Exception):
    """A primitive that the laws domain does not read here; the message says which, where and why."""


def read_together(closed: Sequence[ClosedJaxpr], domain: Laws, arguments: Sequence[Any]) -> list[Any]:
    """The outputs, as constants and tensors, of the same program traced at several sizes."""
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return _run(closed, domain, arguments, "a place that JAX did not record")


def _run(closed: Sequence[Any], domain: Laws, arguments: Sequence[Any], origin: str) -> list[Any]:
    jaxprs = [c.jaxpr for c in closed]
    first = jaxprs[0]
    if any(len(j.eqns) != len(first.eqns) or len(j.outvars) != len(first.outvars) for j in jaxprs[1:]):
        raise StructureDiffers(f"the number of operations depends on the sizes at {origin}")
    values: list[dict[Any, Any]] = [{} for _ in jaxprs]
    numbers: list[dict[Any, int]] = [{} for _ in jaxprs]

    def bind(variables: Sequence[Any], results: Sequence[Any]) -> None:
        for k, row in enumerate(variables):
            for position, variable in enumerate(row):
                numbers[k][variable] = len(numbers[k])
                if k == 0:
                    values[0][variable] = results[position]

    def read(atoms: Sequence[Any], where: str) -> Any:
        literals = [isinstance(a, Literal) for a in atoms]
        if all(literals):
            return Constant(tuple(np.asarray(a.val) for a in atoms))
        if any(literals) or len({numbers[k][a] for k, a in enumerate(atoms)}) > 1:
            raise StructureDiffers(f"what an operation is applied to depends on the sizes at {where}")
        return values[0][atoms[0]]

    if any(len(c.consts) != len(closed[0].consts) for c in closed):
        raise StructureDiffers(f"the constants depend on the sizes at {origin}")
    consts = [Constant(tuple(np.asarray(c.consts[k]) for c in closed)) for k in range(len(closed[0].consts))]
    bind([j.constvars for j in jaxprs], consts)
    bind([j.invars for j in jaxprs], arguments)
    for equations in zip(*(j.eqns for j in jaxprs), strict=True):
        where = place(equations[0]) or origin
        if len({e.primitive.name for e in equations}) > 1 or len({len(e.invars) for e in equations}) > 1:
            names = " and ".join(sorted({e.primitive.name for e in equations}))
            raise StructureDiffers(f"{names} stand in one place at different sizes, at {where}")
        args = [read(atoms, where) for atoms in zip(*(e.invars for e in equations), strict=True)]
        bind([e.outvars for e in equations], _step(equations, domain, args, where))
    return [read(atoms, origin) for atoms in zip(*(j.outvars for j in jaxprs), strict=True)]


def _step(equations: Sequence[Any], domain: Laws, args: list[Any], where: str) -> list[Any]:
    name = equations[0].primitive.name
    if all(isinstance(a, Constant) for a in args) and equations[0].outvars and name not in _BODIES:
        if name.startswith(_RANDOM):
            raise LawMissing(f"`{name}` at {where} draws random numbers")
        results = [_fold(e.primitive, e, [np.asarray(a.arrays[k]) for a in args]) for k, e in enumerate(equations)]
        return [Constant(tuple(row)) for row in zip(*results, strict=True)]
    row = TABLE.get(name)
    rule: Any = None if row is None else row.laws
    if rule is None:
        raise LawMissing(f"`{name}` at {where} has no entry in the laws column")
    step = Joint(
        equations[0].primitive,
        tuple(e.params for e in equations),
        tuple(tuple(v.aval for v in atoms) for atoms in zip(*(e.invars for e in equations), strict=True)),
        tuple(tuple(v.aval for v in atoms) for atoms in zip(*(e.outvars for e in equations), strict=True)),
        domain,
        where,
        lambda bodies, values: _run(bodies, domain, values, where),
    )
    try:
        results = rule(step, args)
    except NoLaw as error:
        raise LawMissing(f"`{name}` at {where}: {error}") from error
    if name not in _BODIES:
        _record(domain, name, where, args, results)
    return results


def _record(domain: Laws, name: str, where: str, args: Sequence[Any], results: Sequence[Any]) -> None:
    """One line of the proof for each tensor that moves, said once for each line of the user's code."""
    for value in results:
        if not isinstance(value, Tensor) or value.invariant:
            if any(isinstance(a, Tensor) and not a.invariant for a in args):
                domain.record(f"{name} at {where}: does not move  [normal form]")
            continue
        law = find_law(domain.algebra, value.plain, value.moved)
        if law is not None:
            domain.record(f"{name} at {where}: T becomes {law_text(domain.algebra, law)}")
        elif all(not isinstance(a, Tensor) or _has_law(domain, a) for a in args):
            domain.open.append(Break(where, f"{name} gives a tensor that becomes no multiple of itself plus a shift"))
            domain.record(f"{name} at {where}: kept as an unevaluated product")


def _has_law(domain: Laws, value: Tensor) -> bool:
    return value.invariant or find_law(domain.algebra, value.plain, value.moved) is not None
