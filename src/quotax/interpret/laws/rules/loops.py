"""Calls, branches and loops: a loop of few turns is unrolled, any other is a recurrence in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from quotax.interpret.laws import tensors
from quotax.interpret.laws.rules.choices import select
from quotax.interpret.laws.rules.pointwise import one_number
from quotax.interpret.laws.rules.reindexing import joined, picked, without
from quotax.interpret.laws.tensors import Known, NoLaw, Tensor, Value, place, relabelled
from quotax.interpret.laws.writing import Eqn, Rule
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Carry
from quotax.kernel.indices import Index
from quotax.kernel.polynomials import slot
from quotax.kernel.sheet import Loop
from quotax.kernel.sizes import ONE, Size

_TURNS = 64
"""Loops of a fixed length are unrolled up to this many turns."""


def call(parameter: str) -> Rule:
    """What a call computes is its body."""
    return lambda eqn, args: eqn.run(eqn.params[parameter], args)


def branch(eqn: Eqn, args: list[Value]) -> list[Value]:
    """The branch that a constant index names, or a choice between two."""
    index, *rest = args
    bodies = eqn.params["branches"]
    number = one_number(eqn, index)
    if number is not None:
        return _chosen(eqn, [index], eqn.run(bodies[int(np.clip(int(number), 0, len(bodies) - 1))], rest))
    if len(bodies) != 2:
        raise NoLaw("it chooses between branches by a value")
    no, yes = (eqn.run(body, rest) for body in bodies)
    # the index is 0 or 1: the truth value that it was made of, unless it is some other integer
    if isinstance(index, Tensor) and any(eqn.algebra.atoms[n].sign != "boolean" for t in index.poly for n, _, _ in t):
        raise NoLaw("it chooses between branches by an integer")
    out = []
    for position, cases in enumerate(zip(no, yes, strict=True)):
        aval = eqn.outputs[position]
        chooses = replace(eqn, inputs=(eqn.inputs[0], aval, aval), outputs=(aval,))
        out += select(chooses, [index, *cases])
    return out


def _chosen(eqn: Eqn, tests: list[Value], results: list[Value]) -> list[Value]:
    """Results with the guards of what decided that it is these."""
    guards = frozenset().union(*(t.guards for t in tests if isinstance(t, Tensor)))
    if not guards:
        return results
    return [replace(v, guards=v.guards | guards) for v in map(eqn.writer.tensor, results)]


def while_loop(eqn: Eqn, args: list[Value]) -> list[Value]:
    """A loop whose condition is constant at every turn, unrolled."""
    p = eqn.params
    first = p["cond_nconsts"]
    second = first + p["body_nconsts"]
    test, body, carry = args[:first], args[first:second], list(args[second:])
    tests: list[Value] = []
    for _ in range(_TURNS):
        (goes_on,) = eqn.run(p["cond_jaxpr"], [*test, *carry])
        number = one_number(eqn, goes_on)
        if number is None:
            raise NoLaw("its condition is a value")
        tests.append(goes_on)
        if not number:
            return _chosen(eqn, tests, carry)
        carry = eqn.run(p["body_jaxpr"], [*body, *carry])
    raise NoLaw(f"it turns more than {_TURNS} times")


def scan(eqn: Eqn, args: list[Value]) -> list[Value]:
    """Unrolled when it is short and has a fixed length, a recurrence otherwise."""
    p = eqn.params
    length = tensors.extent(p["length"])
    first, second = p["num_consts"], p["num_consts"] + p["num_carry"]
    consts, carry, sequences = args[:first], args[first:second], args[second:]
    if length.value is not None and length.value <= _TURNS:
        return _unrolled(eqn, consts, carry, sequences, length.value)
    return _recurrence(eqn, consts, carry, sequences, length)


def _unrolled(eqn: Eqn, consts: list[Value], carry: list[Value], sequences: list[Value], length: int) -> list[Value]:
    p = eqn.params
    collected: list[list[Value]] = [[] for _ in eqn.outputs[p["num_carry"] :]]
    order = range(length)
    for time in reversed(order) if p["reverse"] else order:
        now = [_row(eqn, xs, time) for xs in sequences]
        out = eqn.run(p["jaxpr"], [*consts, *carry, *now])
        carry = out[: p["num_carry"]]
        for rows, value in zip(collected, out[p["num_carry"] :], strict=True):
            rows.append(value)
    stacked = []
    for rows in collected:
        ordered = rows[::-1] if p["reverse"] else rows
        known = [r.array for r in ordered if isinstance(r, Known)]
        if len(known) == len(ordered):
            stacked.append(Known(np.stack(known)))
            continue
        tensor = next(r for r in ordered if isinstance(r, Tensor))
        alike = tensors.unified(eqn.algebra, [eqn.writer.tensor(r, tensor.dims) for r in ordered])
        stacked.append(joined(eqn, alike, 0, new=True))
    return [*carry, *stacked]


def _row(eqn: Eqn, xs: Value, time: int) -> Value:
    if isinstance(xs, Known):
        return Known(xs.array[time])
    return without(eqn, picked(eqn, xs, 0, Size.of(time), 1, ONE), 0)


def _recurrence(eqn: Eqn, consts: list[Value], carry: list[Value], sequences: list[Value], length: Size) -> list[Value]:
    """`C[0] = init`, `C[t + 1] = body(C[t], x[t])`: the carry is one tensor with an index of time.

    Time is a free index of everything in the body, so nothing that depends on it can pass for a constant.
    """
    p, writer, algebra = eqn.params, eqn.writer, eqn.algebra
    if not length.positive:
        raise NoLaw("it may turn no time at all")
    time = writer.fresh(length)
    steps = length.plus(1)
    read: Index = ix.affine(length.minus(1), -1, time, length) if p["reverse"] else time
    start = [writer.tensor(c) for c in carry]
    avals = eqn.outputs[: len(carry)]
    rows = []
    for xs in sequences:
        value = writer.tensor(xs)
        if value.dims[0] != (length,):
            raise NoLaw("the dimension that it runs over is made of several axes")
        value = relabelled(algebra, value, {place(0, 0, length): read}, ((), *value.dims[1:]))
        rows.append(without(eqn, value, 0))
    # the times of the loops around this one: what is carried here may differ from turn to turn there
    given = [v.poly for v in (*consts, *start, *rows) if isinstance(v, Tensor)]
    around = [i for i in algebra.free_in(*given) if writer.is_fresh(i) and i != time]
    numbers: list[int] = []
    inside: list[Tensor] = []
    for k, (value, aval) in enumerate(zip(start, avals, strict=True)):
        dims = tensors.dims_of(tensors.shape_of(aval))
        own = tensors.flat(tensors.labels(dims))
        key = ("carry", eqn.place, len(writer.sheet.loops), k, len(algebra.atoms.made))
        made = algebra.atoms.make(key, Carry(), f"h{k}", [steps, *(i.extent for i in (*around, *own))])
        numbers.append(made.number)
        now = ix.affine(0, 1, time, steps)
        entry = algebra.entry(made, (now, *around, *own))
        inside.append(Tensor(dims, entry, value.assumed, value.guards, lost=bool(value.assumed)))
    writer.sheet.loops.append(Loop(tuple(numbers), (), (), length, eqn.place))
    turn = len(writer.sheet.loops) - 1
    out = [writer.tensor(v) for v in eqn.run(p["jaxpr"], [*consts, *inside, *rows])]
    inits, nexts, finals = [], [], []
    for number, before, after, value in zip(numbers, start, out, inside, strict=False):
        own = tensors.flat(tensors.labels(value.dims))
        slots: dict[Index, Index] = {i: slot(k + 1, i.extent) for k, i in enumerate((*around, *own))}
        same, following = (tensors.refined(algebra, v, value.dims) for v in (before, after))
        if same.dims != value.dims or following.dims != value.dims:
            raise NoLaw("its carry is made of several axes")
        inits.append(algebra.substitute(same.poly, slots))
        nexts.append(algebra.substitute(following.poly, {**slots, time: slot(0, length)}))
        last = algebra.entry(algebra.atoms[number], (ix.fixed(length, steps), *around, *own))
        finals.append(Tensor(value.dims, last, before.assumed | after.assumed, before.guards | after.guards))
    writer.sheet.loops[turn] = Loop(tuple(numbers), tuple(inits), tuple(nexts), length, eqn.place)
    # a condition of one turn is one of all, and so of everything that comes out
    everything = [*finals, *out[len(carry) :]]
    assumed = frozenset().union(*(v.assumed for v in everything))
    guards = frozenset().union(*(v.guards for v in everything))
    stacked = []
    for value in out[len(carry) :]:
        mapping: dict[Index, Index] = {
            place(d, f, s): place(d + 1, f, s) for d, fs in enumerate(value.dims) for f, s in enumerate(fs)
        }
        moment = place(0, 0, length)
        mapping[time] = ix.affine(length.minus(1), -1, moment, length) if p["reverse"] else moment
        stacked.append(relabelled(algebra, value, mapping, ((length,), *value.dims)))
    return [replace(v, assumed=v.assumed | assumed, guards=v.guards | guards, compared=()) for v in (*finals, *stacked)]
