r"""The jets domain: residues modulo a prime, with the derivative of every output by every parameter.

A value is a batch of samples of an array, each entry a residue modulo `PRIME`. What is computed is recorded on a tape,
and `JetDomain.jacobian` walks the tape backwards: one pass gives the rows $\partial f_o / \partial \theta$ of all
outputs in exact arithmetic. Values and derivatives of nonlinearities come from `random_functions`: each obeys the
function's own differential relation, and is otherwise free, so that an identity in the tower holds for the function
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from quotax.interpret.domain import COMPLEX, Unreadable
from quotax.interpret.jets.random_functions import RandomFunctions
from quotax.interpret.jets.residues import PRIME, inverse, product, residue

Partial = tuple[int, Callable[[np.ndarray], np.ndarray]]
"""A node, and the map from adjoints of the result (outputs, samples, ...) to adjoints of the node."""


@dataclass(frozen=True)
class Jet:
    """A batch of arrays `(samples, *shape)` of residues (or of truth values), and its place on the tape if it has one.

    `infinite` holds the sign of entries that are infinite constants (masked scores), else None.
    """

    values: np.ndarray
    node: int | None = None
    infinite: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.values.shape[1:]

    @property
    def truth(self) -> bool:
        """Whether the entries are truth values."""
        return self.values.dtype == np.bool_


Value = Jet | np.ndarray
"""What rules are given: numbers with derivatives, or constants."""


@dataclass
class JetDomain:
    """One batch of samples: its random functions, the tape, and which samples are no numbers: they divided by zero."""

    functions: RandomFunctions
    samples: int
    name: str = "jets"
    columns: tuple[str, ...] = ("jets", "array", "every")
    tape: list[list[Partial]] = field(default_factory=list)
    bad: np.ndarray = field(init=False)
    opaque: bool = False
    """Whether a value was drawn at random although it is tied to others: a sign, or a function without a relation."""

    def __post_init__(self) -> None:
        """No sample has failed yet."""
        self.bad = np.zeros(self.samples, bool)

    # --- values

    def variable(self, values: np.ndarray) -> Jet:
        """An independent variable: a parameter with these residues."""
        self.tape.append([])
        return Jet(values, len(self.tape) - 1)

    def lift(self, value: Value) -> Jet:
        """A constant array as residues, one sample for all."""
        if isinstance(value, Jet):
            return value
        kind = value.dtype.kind
        if kind == "b":
            return Jet(value[None])
        if kind in "iu":
            return Jet(value.astype(np.int64)[None] % PRIME)
        if kind == "c":
            raise Unreadable(*COMPLEX)
        plain = value.astype(np.float64)
        if np.isnan(plain).any():
            raise Unreadable("a constant is not a number", "look for a division by a constant 0")
        unbounded = np.isinf(plain)
        values = np.array(
            [0 if u else residue(v) for v, u in zip(plain.ravel().tolist(), unbounded.ravel(), strict=True)], np.int64
        )
        infinite = np.where(unbounded, np.sign(plain), 0).astype(np.int8)[None] if unbounded.any() else None
        return Jet(values.reshape(1, *plain.shape), None, infinite)

    def concrete(self, value: Value) -> np.ndarray | None:
        """Only constants are concrete, and truth values that are the same in all samples by construction."""
        return None

    def record(
        self,
        values: np.ndarray,
        partials: Sequence[tuple[Jet, Callable[[np.ndarray], np.ndarray]]],
        infinite: np.ndarray | None = None,
    ) -> Jet:
        """A computed value with the pullback to each of its operands."""
        if infinite is not None:  # a mask that is repeated, as over the heads
            infinite = np.broadcast_to(infinite, (len(infinite), *values.shape[1:]))
        kept = [(jet.node, _unbroadcast(back, jet.values.shape)) for jet, back in partials if jet.node is not None]
        if not kept:
            return Jet(values, None, infinite)
        self.tape.append(kept)
        return Jet(values, len(self.tape) - 1, infinite)

    def entrywise(self, values: np.ndarray, *slopes: tuple[Jet, np.ndarray]) -> Jet:
        """A value given entry by entry, with its derivative by each operand."""
        return self.record(values, [(jet, lambda adjoint, s=slope: adjoint * s % PRIME) for jet, slope in slopes])

    def finite(self, *jets: Jet) -> None:
        """Refuse infinite entries where no rule says what becomes of them."""
        if any(jet.infinite is not None for jet in jets):
            raise Unreadable("an infinite constant reaches it", "mask scores right before the softmax")

    def divided(self, values: np.ndarray) -> np.ndarray:
        """Inverses; samples in which a divisor vanishes are marked."""
        zero = values == 0
        if zero.any():
            self.bad |= np.broadcast_to(zero.reshape(len(zero), -1).any(axis=1), self.bad.shape)
        return inverse(values)

    # --- what the shared rules need

    def take(self, pool: Sequence[Value], index: np.ndarray) -> Jet:
        """Entries of the pool, laid end to end, at these positions."""
        jets = [self.lift(value) for value in pool]
        count = max(jet.values.shape[0] for jet in jets)
        truth = all(jet.truth for jet in jets)
        flat = [jet.values if truth else jet.values.astype(np.int64) for jet in jets]
        flat = [np.broadcast_to(v.reshape(len(v), -1), (count, v[0].size)) for v in flat]
        infinite = None
        if any(jet.infinite is not None for jet in jets):
            signs = [
                np.zeros(f.shape, np.int8)
                if j.infinite is None
                else np.broadcast_to(j.infinite.reshape(len(j.infinite), -1), f.shape)
                for j, f in zip(jets, flat, strict=True)
            ]
            infinite = np.concatenate(signs, axis=1)[:, index]
            infinite = infinite if infinite.any() else None
        values = (flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1))[:, index]
        partials, start, positions = [], 0, index.reshape(-1)
        for jet, entries in zip(jets, flat, strict=True):
            size = entries.shape[1]
            if jet.node is not None:
                here = np.flatnonzero((positions >= start) & (positions < start + size))
                if len(here):
                    partials.append((jet, _scatter(here, positions[here] - start, size, jet.shape)))
            start += size
        return self.record(values, partials, infinite)

    def places(self, value: Jet) -> np.ndarray:
        """Whole numbers, sample by sample: where something stands in an order."""
        numbers = np.broadcast_to(value.values, (self.samples, *value.shape)).astype(np.int64)
        return np.where(numbers > PRIME // 2, numbers - PRIME, numbers)

    def take_each(self, pool: Sequence[Value], index: np.ndarray) -> Jet:
        """Entries of the pool at positions of each sample's own: `index` is (samples, *shape)."""
        jets = [self.lift(value) for value in pool]
        flat = [
            np.broadcast_to(jet.values.reshape(len(jet.values), -1), (len(index), jet.values[0].size)) for jet in jets
        ]
        rows = index.reshape(len(index), -1)
        taken = lambda arrays: np.take_along_axis(np.concatenate(arrays, axis=1), rows, axis=1).reshape(index.shape)
        truth = all(jet.truth for jet in jets)
        values = taken(flat if truth else [f.astype(np.int64) for f in flat])
        infinite = None
        if any(jet.infinite is not None for jet in jets):
            signs = [
                np.zeros(f.shape, np.int8) if j.infinite is None else j.infinite
                for j, f in zip(jets, flat, strict=True)
            ]
            infinite = taken(
                [np.broadcast_to(i.reshape(len(i), -1), f.shape) for i, f in zip(signs, flat, strict=True)]
            )
            infinite = infinite if infinite.any() else None
        partials, start = [], 0
        for jet, entries in zip(jets, flat, strict=True):
            if jet.node is not None:
                partials.append((jet, _scatter_each(rows - start, entries.shape[1], jet.shape)))
            start += entries.shape[1]
        return self.record(values, partials, infinite)

    def combine(self, operation: str, left: Value, right: Value) -> Jet:
        """Entrywise operation, broadcasting as NumPy does."""
        a, b = self._aligned(self.lift(left), self.lift(right))
        if operation in ("and", "or", "xor"):
            return Jet(
                {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[operation](a.values, b.values)
            )
        if operation in ("max", "min"):
            return self.extreme(operation, a, b)
        x, y = a.values.astype(np.int64), b.values.astype(np.int64)
        if operation == "mul":
            self.finite(a, b)
            return self.record(x * y % PRIME, [(a, lambda w: w * y % PRIME), (b, lambda w: w * x % PRIME)])
        sign = 1 if operation == "add" else -1
        infinite = self._signs(a, 1, b, sign)
        values = (x + sign * y) % PRIME
        if infinite is not None:
            alive = (infinite == 0).astype(np.int64)
            return self.record(
                values * alive, [(a, lambda w: w * alive), (b, lambda w: sign * w * alive % PRIME)], infinite
            )
        return self.record(values, [(a, lambda w: w), (b, lambda w: sign * w % PRIME)])

    def extreme(self, operation: str, a: Jet, b: Jet) -> Jet:
        """Maximum or minimum: which of the two is larger is drawn, the same wherever their difference occurs."""
        first = self.above(a, b)
        return self.choose(first if operation == "max" else ~first, a, b)

    def above(self, a: Jet, b: Jet) -> np.ndarray:
        """Indicator of a > b, decided where the two are equal or infinite and drawn elsewhere."""
        difference = (a.values.astype(np.int64) - b.values) % PRIME
        result = self.functions.positive(difference)
        if (difference != 0).any():
            self.opaque = True
        for jet, sign in ((a, 1), (b, -1)):
            if jet.infinite is not None:
                result = np.where(jet.infinite != 0, jet.infinite * sign > 0, result)
        return result

    def choose(self, first: np.ndarray, a: Jet, b: Jet) -> Jet:
        """`a` where `first`, else `b`."""
        if a.truth and b.truth:
            return Jet(np.where(first, a.values, b.values))
        switch = first.astype(np.int64)
        values = np.where(first, a.values, b.values).astype(np.int64)
        infinite = None
        if a.infinite is not None or b.infinite is not None:
            zero = np.zeros((1,) * values.ndim, np.int8)
            infinite = np.where(
                first, zero if a.infinite is None else a.infinite, zero if b.infinite is None else b.infinite
            )
            infinite = infinite if infinite.any() else None
        return self.record(values, [(a, lambda w: w * switch), (b, lambda w: w * (1 - switch))], infinite)

    def fold(self, operation: str, value: Value) -> Jet:
        """Reduce the last axis."""
        jet = self.lift(value)
        if operation == "add":
            self.finite(jet)
            return self.record(
                jet.values.sum(axis=-1) % PRIME,
                [(jet, lambda w: np.broadcast_to(w[..., None], (*w.shape, jet.shape[-1])))],
            )
        size = jet.shape[-1]
        if operation in ("and", "or"):
            return Jet((np.all if operation == "and" else np.any)(jet.values, axis=-1))
        positions = np.arange(int(np.prod(jet.shape, dtype=np.int64))).reshape(jet.shape)
        total = self.take([jet], positions[..., 0])
        for place in range(1, size):
            total = self.combine(operation, total, self.take([jet], positions[..., place]))
        return total

    def matmul(self, left: Value, right: Value) -> Jet:
        """Batched matrix product of shapes `(b, m, k)` and `(b, k, n)`."""
        a, b = self.lift(left), self.lift(right)
        self.finite(a, b)
        return self.record(
            product(a.values, b.values),
            [
                (a, lambda w: product(w, np.swapaxes(b.values, -1, -2)[None])),
                (b, lambda w: product(np.swapaxes(a.values, -1, -2)[None], w)),
            ],
        )

    def _aligned(self, a: Jet, b: Jet) -> tuple[Jet, Jet]:
        """Give both the same number of axes after the samples."""
        rank = max(len(a.shape), len(b.shape))
        return self._padded(a, rank), self._padded(b, rank)

    def _padded(self, jet: Jet, rank: int) -> Jet:
        if len(jet.shape) == rank:
            return jet
        shape = (1,) * (rank - len(jet.shape)) + jet.shape
        return self.take([jet], np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape))

    def _signs(self, a: Jet, sign_a: int, b: Jet, sign_b: int) -> np.ndarray | None:
        """The signs of a sum; samples in which infinities of opposite signs meet are marked: it is no number there."""
        if a.infinite is None and b.infinite is None:
            return None
        zero = np.zeros((1,) * a.values.ndim, np.int8)
        left = zero if a.infinite is None else a.infinite * sign_a
        right = zero if b.infinite is None else b.infinite * sign_b
        meet = left * right < 0
        if meet.any():
            self.bad |= np.broadcast_to(meet.reshape(len(meet), -1).any(axis=1), self.bad.shape)
        return np.where(meet, 0, np.sign(left + right)).astype(np.int8)

    # --- derivatives

    def jacobian(self, outputs: Sequence[Value], variables: Sequence[Jet]) -> list[np.ndarray]:
        """The derivative of all entries of the outputs by each variable: arrays `(outputs, samples, *shape)`."""
        jets = [self.lift(output) for output in outputs]
        sizes = [int(np.prod(jet.shape, dtype=np.int64)) for jet in jets]
        total = sum(sizes)
        adjoints: dict[int, np.ndarray] = {}
        start = 0
        for jet, size in zip(jets, sizes, strict=True):
            if jet.node is not None:
                seed = np.zeros((total, self.samples, size), np.int64)
                seed[np.arange(start, start + size), :, np.arange(size)] = 1
                seed = seed.reshape(total, self.samples, *jet.shape)
                adjoints[jet.node] = adjoints[jet.node] + seed if jet.node in adjoints else seed
            start += size
        wanted = {jet.node for jet in variables}
        for node in range(len(self.tape) - 1, -1, -1):
            if node not in adjoints or node in wanted:
                continue
            adjoint = adjoints.pop(node)
            for source, back in self.tape[node]:
                part = back(adjoint)
                adjoints[source] = (adjoints[source] + part) % PRIME if source in adjoints else part
        zero = lambda jet: np.zeros((total, self.samples, *jet.shape), np.int64)
        return [adjoints[jet.node] % PRIME if jet.node in adjoints else zero(jet) for jet in variables]  # type: ignore[index]


def _unbroadcast(
    back: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]
) -> Callable[[np.ndarray], np.ndarray]:
    """Sum the adjoint over the axes along which an operand of this shape was repeated."""

    def pull(adjoint: np.ndarray) -> np.ndarray:
        out = back(adjoint)
        axes = tuple(i + 1 for i, size in enumerate(shape) if i > 0 and size == 1 and out.shape[i + 1] != 1)
        return out.sum(axis=axes, keepdims=True) % PRIME if axes else out

    return pull


def _scatter(
    here: np.ndarray, target: np.ndarray, size: int, shape: tuple[int, ...]
) -> Callable[[np.ndarray], np.ndarray]:
    """The pullback of reading positions `target` into places `here`: add what lands together."""
    order = np.argsort(target, kind="stable")
    landing, starts = np.unique(target[order], return_index=True)
    sources = here[order]
    once = len(landing) == len(target)
    whole = once and len(target) == size

    def pull(adjoint: np.ndarray) -> np.ndarray:
        flat = adjoint.reshape(*adjoint.shape[:2], -1)[:, :, sources]
        if not once:
            flat = np.add.reduceat(flat, starts, axis=2) % PRIME
        if whole:
            return flat.reshape(*adjoint.shape[:2], *shape)
        out = np.zeros((*adjoint.shape[:2], size), np.int64)
        out[:, :, landing] = flat
        return out.reshape(*adjoint.shape[:2], *shape)

    return pull


def _scatter_each(target: np.ndarray, size: int, shape: tuple[int, ...]) -> Callable[[np.ndarray], np.ndarray]:
    """The pullback of reading positions of each sample's own: those below zero or from `size` on read elsewhere."""
    inside = (target >= 0) & (target < size)

    def pull(adjoint: np.ndarray) -> np.ndarray:
        flat = adjoint.reshape(*adjoint.shape[:2], -1)
        out = np.zeros((*adjoint.shape[:2], size), np.int64)
        for sample, (places, here) in enumerate(zip(target, inside, strict=True)):
            np.add.at(out[:, sample].T, places[here], flat[:, sample, here].T)
        return (out % PRIME).reshape(*adjoint.shape[:2], *shape)

    return pull
