"""A deep model with a few of its repeated blocks: what proposals are made from, and never what is proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quotax.artifacts import ArraySpec, Model, OpenTrace, Trace
from quotax.derive.depth.repetition import KEPT, Repetition, repetition, shortened
from quotax.errors import ArchitectureError


class ShallowModel:
    """A model whose traces are those of a deeper one, without most of the blocks."""

    def __init__(self, deep: Model, params: tuple[ArraySpec, ...], of: Repetition) -> None:
        """`params` are those of the blocks that are kept, and those of no block."""
        self.deep, self.params, self.of = deep, params, of
        self.name, self.inputs, self.axis_names, self.fixed = deep.name, deep.inputs, deep.axis_names, deep.fixed
        self._traces: dict[tuple[tuple[str, int], ...], Trace] = {}

    def trace(self, sizes: Mapping[str, int]) -> Trace:
        """The deeper model's jaxpr at these sizes, shortened; refused where other blocks repeat there."""
        key = tuple(sizes.items())
        if key not in self._traces:
            made = _shallow_trace(self.deep, sizes)
            if made is None or made[0].params != self.params or made[1].following != self.of.following:
                raise ArchitectureError(f"{self.name}: not the same blocks are repeated at all sizes.")
            self._traces[key] = made[0]
        return self._traces[key]

    def open(self, axes: Mapping[str, int | str]) -> OpenTrace:
        """Refused: nothing is proved of this model."""
        raise ArchitectureError(f"{self.name} without most of its blocks is traced at small sizes alone.")


def _shallow_trace(deep: Model, sizes: Mapping[str, int]) -> tuple[Trace, Repetition] | None:
    trace = deep.trace(sizes)
    of = repetition(trace)
    short = None if of is None else shortened(trace, of)
    return None if of is None or short is None else (short, of)


def shallow(deep: Model, sizes: Sequence[Mapping[str, int]]) -> ShallowModel | None:
    """The model with `KEPT` of its repeated blocks; None where fewer repeat, or not the same at all of these sizes."""
    made = _shallow_trace(deep, sizes[0])
    if made is None:
        return None
    short, of = made
    axes = [{name for spec in specs for name in spec.axis_names} for specs in (short.params, deep.params)]
    if axes[0] != axes[1]:
        return None
    model = ShallowModel(deep, short.params, of)
    try:
        for one in sizes:
            model.trace(one)
    except ArchitectureError:
        return None
    return model


class Blocks:
    """Where the parameters of a model stand: in which of its repeated blocks, and which is in their place elsewhere."""

    def __init__(self, of: Repetition) -> None:
        """Chains of parameters, each a block after the one before it."""
        starts = [name for name in of.following if name not in set(of.following.values())]
        chains = [[start] for start in starts]
        for chain in chains:
            while chain[-1] in of.following:
                chain.append(of.following[chain[-1]])
        self.chain = {name: chain for chain in chains for name in chain}
        self.block = {name: k for chain in chains for k, name in enumerate(chain)}
        self.last = of.copies - 1
        assert self.last >= KEPT

    def shifted(self, name: str, blocks: int) -> str | None:
        """The parameter so many blocks later; None where there is none."""
        if name not in self.chain:
            return name
        place = self.block[name] + blocks
        return self.chain[name][place] if 0 <= place < len(self.chain[name]) else None
