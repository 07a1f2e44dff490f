r"""Repeated blocks of a trace: a stretch of equations that is its own translate, and the trace without most of them.

A loop of Python over layers is traced as the same equations again and again, up to the names of variables. With one
word per equation (primitive, settings, types) a repetition is a stretch $[a, b)$ on which $w_i = w_{i+p}$, for one
period $p$; nothing asks where a block begins. What the equations read then says how names correspond: if $e_i$ reads
the parameter $u$ where $e_{i+p}$ reads $u'$, then $u'$ is what $u$ is one block later.

Of many blocks the first two and the last are kept: what reads a block that is left out reads, where the block before
it is needed, the one that many periods earlier. This is a model of its own, from which proposals are made and nothing
is concluded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var

from quotax.artifacts import Trace
from quotax.programs.jaxprs import Atom, Setting, bare, bodies, is_key, live
from quotax.trees import AnyArray

KEPT = 3
"""Blocks that are kept: one that follows what comes before, one between equals, one that precedes what comes after."""


@dataclass(frozen=True)
class Repetition:
    """Equations `start` to `start + copies * period` are `copies` of one block; `following` is what an array becomes.

    `following` maps the name of a parameter to the one in its place a block later.
    """

    start: int
    period: int
    copies: int
    following: Mapping[str, str]


def repetition(trace: Trace) -> Repetition | None:
    """The repetition of which most can be left out, or None."""
    equations = live(trace.jaxpr.jaxpr)
    words = _words(trace.jaxpr, equations)
    found: tuple[int, int, int, int] | None = None
    for period in range(1, len(words) // (KEPT + 1) + 1):
        alike = np.flatnonzero(np.diff(np.concatenate([[0], words[:-period] == words[period:], [0]])))
        for start, end in zip(alike[::2].tolist(), alike[1::2].tolist(), strict=True):
            copies = (end - start) // period + 1
            spared = (copies - KEPT) * period
            if copies > KEPT and (found is None or spared > found[0]):
                found = spared, start, period, copies
    if found is None:
        return None
    _, start, period, copies = found
    following = _following(trace, equations, start, period, copies)
    return None if following is None else Repetition(start, period, copies, following)


def shortened(trace: Trace, of: Repetition) -> Trace | None:
    """The trace with `KEPT` of the blocks, and with the parameters that it reads; None where that makes no model."""
    jaxpr = trace.jaxpr.jaxpr
    equations = live(jaxpr)
    first = of.start + (KEPT - 1) * of.period
    end = of.start + (of.copies - 1) * of.period
    made = {v: (i, k) for i, e in enumerate(equations) for k, v in enumerate(e.outvars)}

    def kept(operand: Atom) -> Atom:
        """What is read in place of an operand, from behind the gap."""
        i, k = made.get(operand, (-1, 0)) if not isinstance(operand, Literal) else (-1, 0)
        if not first <= i < end:
            return operand
        before = i - (end - first)
        if i < end - of.period or before < of.start:
            raise LookupError
        return equations[before].outvars[k]

    try:
        behind = [e.replace(invars=[kept(v) for v in e.invars]) for e in equations[end:]]
        outputs = [kept(v) for v in jaxpr.outvars]
    except LookupError:
        return None
    if [v.aval for v in outputs] != [v.aval for v in jaxpr.outvars]:
        return None
    lived = live(jaxpr.replace(outvars=outputs, eqns=[*equations[:first], *behind]))
    read = {v for v in (*outputs, *(v for e in lived for v in e.invars)) if not isinstance(v, Literal)}
    arrays = dict(zip(jaxpr.invars, trace.arrays, strict=True))
    dropped = {v for v, spec in arrays.items() if spec.name in _later(of) and v not in read}
    invars = [v for v in jaxpr.invars if v not in dropped]
    params = tuple(spec for v, spec in arrays.items() if v not in dropped and spec in trace.params)
    closed = ClosedJaxpr(jaxpr.replace(invars=invars, outvars=outputs, eqns=lived), trace.jaxpr.consts)
    return Trace(closed, params, trace.inputs, trace.sizes, trace.out_tree)


def _later(of: Repetition) -> set[str]:
    return {*of.following, *of.following.values()}


def _words(closed: ClosedJaxpr, equations: list[JaxprEqn]) -> np.ndarray:
    """A number for each equation: the same for equations that differ in the names of variables alone."""
    numbers: dict[Hashable, int] = {}
    texts: dict[int, str] = {}
    constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))

    def written(value: Setting) -> str:
        if bodies(value):
            if id(value) not in texts:
                parts = [(str(bare(b)), *map(_bytes, getattr(b, "consts", ()))) for b in bodies(value)]
                texts[id(value)] = repr(parts)
            return texts[id(value)]
        return "" if callable(value) else repr(value)

    def operand(v: Atom) -> str:
        if isinstance(v, Literal):
            return _bytes(v.val)
        return _bytes(constants[v]) if v in constants else str(v.aval)

    def word(e: JaxprEqn) -> Hashable:
        settings = tuple((name, written(value)) for name, value in e.params.items())
        outputs = tuple(str(v.aval) for v in e.outvars)
        return e.primitive.name, settings, tuple(map(operand, e.invars)), outputs

    return np.array([numbers.setdefault(word(e), len(numbers)) for e in equations], np.int64)


def _bytes(value: AnyArray) -> str:
    array = np.asarray(jax.random.key_data(value) if is_key(value) else value)
    return f"{array.dtype}{array.shape}{array.tobytes()!r}"


def _following(trace: Trace, equations: list[JaxprEqn], start: int, period: int, copies: int) -> dict[str, str] | None:
    """What each parameter is one block later, by name; None where two places of one block disagree."""
    made = {v: (i, k) for i, e in enumerate(equations) for k, v in enumerate(e.outvars)}
    arrays = dict(zip(trace.jaxpr.jaxpr.invars, trace.arrays, strict=True))
    params = {v for v, spec in arrays.items() if spec in trace.params}
    inner = range(start, start + copies * period)
    paired: dict[Var, Var] = {}

    def pairs(here: Atom, there: Atom) -> Iterator[tuple[Var, Var]]:
        """Parameters read in the same place of two blocks, through what is computed of them before the first."""
        waiting = [(here, there)]
        while waiting:
            u, v = waiting.pop()
            if isinstance(u, Literal) or isinstance(v, Literal) or (u, v) in seen:
                continue
            seen.add((u, v))
            if u in arrays and v in arrays:
                yield u, v
            elif u is not v and u in made and v in made and made[u][0] not in inner and made[v][0] not in inner:
                one, other = equations[made[u][0]], equations[made[v][0]]
                if made[u][1] == made[v][1] and one.primitive is other.primitive:
                    waiting += zip(one.invars, other.invars, strict=False)

    seen: set[tuple[Var, Var]] = set()
    for i in range(start, start + (copies - 1) * period):
        for here, there in zip(equations[i].invars, equations[i + period].invars, strict=True):
            for u, v in pairs(here, there):
                same = u is v or (arrays[u].axes == arrays[v].axes and {u, v} <= params)
                if not same or paired.setdefault(u, v) is not v:
                    return None
    out = {arrays[u].name: arrays[v].name for u, v in paired.items() if u is not v}
    return out if out and len(set(out.values())) == len(out) else None
