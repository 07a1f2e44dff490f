"""Calls, branches and loops; a scan whose length varies is proved by induction on its steps."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws import tensors
from quotax.interpret.laws.algebra import Poly
from quotax.interpret.laws.arithmetic import select
from quotax.interpret.laws.pointwise import rational
from quotax.interpret.laws.reading import Joint
from quotax.interpret.laws.structure import joined, picked_along
from quotax.interpret.laws.tensors import Constant, Law, NoLaw, Tensor, find_law, place, relabelled

_TURNS = 64
"""Loops of one length in all traces are unrolled up to this many turns."""


def _closed(bodies: Sequence[Any]) -> list[ClosedJaxpr]:
    return [b if isinstance(b, ClosedJaxpr) else ClosedJaxpr(b, ()) for b in bodies]


def call(parameter: str) -> Any:
    """What a call computes is its body."""
    return lambda step, args: step.run(_closed([p[parameter] for p in step.params]), args)


def identity(step: Joint, args: list[Any]) -> list[Any]:
    """The operands themselves."""
    return list(args)


def nothing(step: Joint, args: list[Any]) -> list[Any]:
    """No outputs."""
    return []


def branch(step: Joint, args: list[Any]) -> list[Any]:
    """The branch that a constant index names, or a choice between two that nothing moves."""
    index, *operands = args
    bodies = [p["branches"] for p in step.params]
    if isinstance(index, Constant):
        chosen = [int(np.clip(int(a), 0, len(b) - 1)) for a, b in zip(index.arrays, bodies, strict=True)]
        return step.run(_closed([b[k] for b, k in zip(bodies, chosen, strict=True)]), operands)
    if len(bodies[0]) != 2 or len(rational_or_none(index)) == 0:
        raise NoLaw("it chooses between branches by a value")
    results = [step.run(_closed([b[k] for b in bodies]), operands) for k in (0, 1)]
    out = []
    for position, (no, yes) in enumerate(zip(*results, strict=True)):
        avals = step.outputs[position]
        inner = Joint(
            step.primitive, step.params, (step.inputs[0], avals, avals), (avals,), step.domain, step.place, step.run
        )
        out += select(inner, [index, no, yes])
    return out


def rational_or_none(value: Tensor) -> list[Any]:
    """A number or truth value in a list; empty when the tensor is neither."""
    if rational(value.plain) is not None:
        return [rational(value.plain)]
    return [value] if len(value.plain) <= 2 else []


def while_loop(step: Joint, args: list[Any]) -> list[Any]:
    """A loop whose condition is constant at every turn, unrolled."""
    p = step.params
    first = p[0]["cond_nconsts"]
    second = first + p[0]["body_nconsts"]
    test, body, carry = args[:first], args[first:second], list(args[second:])
    for _ in range(_TURNS):
        (goes_on,) = step.run(_closed([q["cond_jaxpr"] for q in p]), [*test, *carry])
        if not isinstance(goes_on, Constant):
            raise NoLaw("its condition is a value")
        decisions = {bool(a) for a in goes_on.arrays}
        if len(decisions) > 1:
            raise NoLaw("its length depends on the sizes")
        if not decisions.pop():
            return carry
        carry = step.run(_closed([q["body_jaxpr"] for q in p]), [*body, *carry])
    raise NoLaw(f"it turns more than {_TURNS} times")


def scan(step: Joint, args: list[Any]) -> list[Any]:
    """Unrolled when the length is the same in all traces, by induction otherwise."""
    p = step.params[0]
    lengths = tuple(int(q["length"]) for q in step.params)
    consts = args[: p["num_consts"]]
    carry = args[p["num_consts"] : p["num_consts"] + p["num_carry"]]
    sequences = args[p["num_consts"] + p["num_carry"] :]
    bodies = _closed([q["jaxpr"] for q in step.params])
    if ix.constant(lengths):
        if lengths[0] > _TURNS:
            raise NoLaw(f"it turns more than {_TURNS} times")
        return _unrolled(step, bodies, consts, carry, sequences, lengths)
    return _induction(step, bodies, consts, carry, sequences, lengths)


def _unrolled(
    step: Joint, bodies: list[Any], consts: list[Any], carry: list[Any], sequences: list[Any], lengths: tuple[int, ...]
) -> list[Any]:
    p = step.params[0]
    collected: list[list[Any]] = [[] for _ in step.outputs[p["num_carry"] :]]
    order = range(lengths[0])
    for time in reversed(order) if p["reverse"] else order:
        now = [_row(step, xs, time, lengths) for xs in sequences]
        out = step.run(bodies, [*consts, *carry, *now])
        carry = out[: p["num_carry"]]
        for rows, value in zip(collected, out[p["num_carry"] :], strict=True):
            rows.append(value)
    stacked = []
    for rows in collected:
        ordered = rows[::-1] if p["reverse"] else rows
        if all(isinstance(r, Constant) for r in ordered):
            stacked.append(Constant(tuple(np.stack([r.arrays[k] for r in ordered]) for k in range(len(lengths)))))
            continue
        tensor = next(r for r in ordered if isinstance(r, Tensor))
        alike = tensors.unified(step.domain.algebra, [step.domain.tensor(r, tensor.dims) for r in ordered])
        stacked.append(joined(step, alike, 0, (1,) * len(lengths), new=True))
    return [*carry, *stacked]


def _row(step: Joint, xs: Any, time: int, lengths: tuple[int, ...]) -> Any:
    if isinstance(xs, Constant):
        return Constant(tuple(a[time] for a in xs.arrays))
    value = picked_along(step, xs, 0, lengths, [np.arange(time, time + 1)] * len(lengths))
    return _shifted(step, value)


def _shifted(step: Joint, value: Tensor) -> Tensor:
    """Without its first dimension, which has size one."""
    mapping = {
        place(d, f, e): place(d - 1, f, e) for d in range(1, len(value.dims)) for f, e in enumerate(value.dims[d])
    }
    return relabelled(step.domain.algebra, value, mapping, value.dims[1:])


def _induction(
    step: Joint, bodies: list[Any], consts: list[Any], carry: list[Any], sequences: list[Any], lengths: tuple[int, ...]
) -> list[Any]:
    """If the carry has a law before a step, it has the same law after it: then it has it at every time.

    The laws are those of the carry after one step from the initial value; the initial value must obey them too. The
    row of a sequence is the tensor at a free index of time.
    """
    laws, algebra = step.domain, step.domain.algebra
    time = tensors.place(50_000, 0, lengths)
    rows = []
    for xs in sequences:
        value = laws.tensor(xs)
        if value.dims[0] != (lengths,):
            raise NoLaw("the dimension that it runs over is made of several axes")
        value = relabelled(algebra, value, {place(0, 0, lengths): time}, value.dims)
        rows.append(_shifted(step, value))
    start = [laws.tensor(c) for c in carry]
    guess = step.run(bodies, [*consts, *start, *rows])[: len(carry)]
    hypotheses: list[Law] = []
    for value in guess:
        value = laws.tensor(value)
        law = find_law(algebra, value.plain, value.moved)
        if law is None or law.shift or any(time in algebra.free_in({law.scale: Fraction(1)}) for _ in (0,)):
            raise NoLaw("the law of its carry is not one that induction can use")
        hypotheses.append(law)
    for _ in range(2):
        inside: list[Tensor] = []
        for k, (law, value) in enumerate(zip(hypotheses, guess, strict=True)):
            dims = laws.tensor(value).dims
            inside.append(_fresh(step, dims, law, ("carry", step.place, len(algebra.atoms), k)))
        out = step.run(bodies, [*consts, *inside, *rows])
        after = [laws.tensor(v) for v in out[: len(carry)]]
        found = [find_law(algebra, v.plain, v.moved) for v in after]
        if all(
            f is not None and v.moved == tensors.applied(algebra, law, v.plain, shifted=True)
            for f, v, law in zip(found, after, hypotheses, strict=True)
        ):
            break
        raise NoLaw("the law of its carry is not kept by a step")
    for law, value in zip(hypotheses, start, strict=True):
        if value.moved != tensors.applied(algebra, law, value.plain, shifted=True):
            raise NoLaw("its initial carry does not obey the law of later ones")
    laws.record("scan: the carry keeps its law, by induction over the steps")
    finals = [
        _fresh(step, v.dims, law, ("carry", step.place, len(algebra.atoms), k))
        for k, (v, law) in enumerate(zip(after, hypotheses, strict=True))
    ]
    stacked = []
    for value in out[len(carry) :]:
        value = laws.tensor(value)
        law = find_law(algebra, value.plain, value.moved)
        if law is None or law.shift:
            raise NoLaw("what it collects has no law")
        # at time t the collected row is some tensor with this law; which one does not matter
        mapping = {place(d, f, e): place(d + 1, f, e) for d, fs in enumerate(value.dims) for f, e in enumerate(fs)}
        moved = _renamed(law, {**mapping, time: place(0, 0, lengths)})
        stacked.append(
            _fresh(step, ((lengths,), *value.dims), moved, ("collected", step.place, len(algebra.atoms), len(stacked)))
        )
    return [*finals, *stacked]


def _renamed(law: Law, mapping: dict[ix.Index, ix.Index]) -> Law:
    rename = lambda factors: tuple((a, tuple(ix.replaced(i, mapping) for i in at), p) for a, at, p in factors)
    matrices = tuple((mapping.get(i, i), rename(word), end) for i, word, end in law.matrices)
    return Law(law.coefficient, rename(law.scale), matrices, law.shift)


def _fresh(step: Joint, dims: tensors.Dims, law: Law, key: tuple[Any, ...]) -> Tensor:
    """A tensor of which nothing is known but its law."""
    algebra = step.domain.algebra
    labels = tensors.flat(tensors.free_indices(dims))
    made = algebra.atom(key, "any", "h", [label[2] for label in labels])
    plain: Poly = {((made.number, tuple(labels), 1),): Fraction(1)}
    moved = tensors.applied(algebra, law, plain)
    algebra.remember(plain, moved)
    return Tensor(dims, plain, moved)
