"""The tensors of a model as a graph: which array meets the data after which.

A trace is walked once. A value knows the last place where it came together with something: an input, a parameter, or a
*join* of two streams of data (a residual sum, queries with keys). A parameter that meets data is a node below them; two
different streams that meet make a join; everything else hands its place on. What no output depends on is left out, but
for the parameters. Loops are walked through their body once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from jax.extend.core import Jaxpr

from quotax.trees import Tree

_SIGNS = {
    "add": "+", "add_any": "+", "sub": "−", "mul": "×", "div": "÷", "dot_general": "·", "concatenate": "‖",
    "max": "max", "min": "min", "conv_general_dilated": "∗", "gather": "[ ]", "dynamic_slice": "[ ]", "select_n": "?",
}  # fmt: skip
LARGEST = 400
"""More nodes than these are no picture any more."""


@dataclass
class Flow:
    """Nodes as (kind, name), kinds being "input", "parameter", "join" and "output", and edges between their places."""

    nodes: list[tuple[str, str]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class _Fresh:
    """A parameter, or something that is made of it alone, before it meets anything."""

    name: str


_Source = int | _Fresh | None


def flow(trace: Any) -> Flow:
    """The graph of a model's trace; without edges where it would have too many nodes."""
    walk = _Walk()
    sources: list[_Source] = [_Fresh(spec.name) for spec in trace.params]
    sources += [walk.new("input", spec.name) for spec in trace.inputs]
    last = [walk.settled(source) for source in walk.through(trace.jaxpr.jaxpr, sources)]
    end = walk.new("output", "output")
    for source in dict.fromkeys(s for s in last if s is not None):
        walk.connect(source, end)
    return walk.pruned(end, [spec.name for spec in trace.params])


class _Walk:
    def __init__(self) -> None:
        self.flow = Flow()
        self.made: dict[Any, int] = {}

    def new(self, kind: str, name: str) -> int:
        self.flow.nodes.append((kind, name))
        return len(self.flow.nodes) - 1

    def connect(self, source: int, node: int) -> None:
        if (source, node) not in self.flow.edges:
            self.flow.edges.append((source, node))

    def through(self, jaxpr: Jaxpr, sources: Sequence[_Source]) -> list[_Source]:
        """The sources of a jaxpr's results, from those of its arguments."""
        known: dict[Any, _Source] = dict(zip(jaxpr.invars, sources, strict=True))
        read = lambda atom: None if hasattr(atom, "val") else known.get(atom)
        for eqn in jaxpr.eqns:
            given = [read(atom) for atom in eqn.invars]
            for variable, source in zip(eqn.outvars, self.results(eqn, given), strict=True):
                known[variable] = source
        return [read(atom) for atom in jaxpr.outvars]

    def results(self, eqn: Any, given: list[_Source]) -> list[_Source]:
        name, count = str(eqn.primitive), len(eqn.outvars)
        bodies = _bodies(eqn.params)
        if name == "while":
            given, bodies = given[eqn.params["cond_nconsts"] :], [eqn.params["body_jaxpr"].jaxpr]
        if name == "cond":
            given = given[1:]
        fitting = [b for b in bodies if len(b.invars) == len(given) and len(b.outvars) == count]
        if fitting:
            ways = [self.through(body, given) for body in fitting[: None if name == "cond" else 1]]
            return [self.met(list(way), "if") for way in zip(*ways, strict=True)]
        return [self.met(given, _SIGNS.get(name, name))] * count

    def met(self, sources: list[_Source], sign: str) -> _Source:
        """Where things come together."""
        found = list(dict.fromkeys(s for s in sources if s is not None))
        if len(found) <= 1:
            return found[0] if found else None
        streams = [s for s in found if isinstance(s, int)]
        fresh = [s for s in found if isinstance(s, _Fresh)]
        if not streams:
            return self.join([self.settled(s) for s in fresh], sign)
        here = streams[0] if len(streams) == 1 else self.join(streams, sign)
        for parameter in fresh:
            here = self.placed(parameter.name, here)
        return here

    def join(self, streams: list[Tree], sign: str) -> int:
        key = sign, frozenset(streams)
        if key not in self.made:
            self.made[key] = self.new("join", sign)
            for stream in streams:
                self.connect(stream, self.made[key])
        return self.made[key]

    def placed(self, name: str, above: int | None) -> int:
        """A parameter where it meets data; it is drawn again where it meets others."""
        key = name, above
        if key not in self.made:
            self.made[key] = self.new("parameter", name)
            if above is not None:
                self.connect(above, self.made[key])
        return self.made[key]

    def settled(self, source: _Source) -> int | None:
        return self.placed(source.name, None) if isinstance(source, _Fresh) else source

    def pruned(self, end: int, names: list[str]) -> Flow:
        """What leads to the end, and every parameter."""
        above: dict[int, list[int]] = {}
        for a, b in self.flow.edges:
            above.setdefault(b, []).append(a)
        kept, waiting = {end}, [end]
        while waiting:
            new = set(above.get(waiting.pop(), ())) - kept
            kept |= new
            waiting += new
        if len(kept) > LARGEST:
            return Flow([("parameter", name) for name in names])
        order = sorted(kept)
        at = {node: n for n, node in enumerate(order)}
        out = Flow([self.flow.nodes[n] for n in order], [(at[a], at[b]) for a, b in self.flow.edges if b in at])
        drawn = {name for kind, name in out.nodes if kind == "parameter"}
        out.nodes += [("parameter", name) for name in names if name not in drawn]
        return out


def _bodies(params: Tree) -> list[Tree]:
    """The jaxprs that an equation calls."""
    found = []
    for value in params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            inner = getattr(each, "jaxpr", each)
            if hasattr(inner, "eqns") and hasattr(inner, "invars"):
                found.append(inner)
    return found
