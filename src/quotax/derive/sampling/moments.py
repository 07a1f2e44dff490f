r"""The determining equations of one-parameter-per-axis fields, as contractions of the Jacobian with the parameters.

A field that acts on axis h of a parameter W by a matrix C contributes
$\sum_{ij} C_{ij} K_{ij}$, $K_{ij} = \sum_{rest} \partial f/\partial W_{i,rest}\, W_{j,rest}$; everything here is such
a sum.

A parameter that the model reads as `w + r` alone enters as `w + r`, of which the derivatives are the same: everything
that acts on a parameter is looked for there, `w -> g (w + r) - r`, and so is what other parameters read of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.derive.sampling.batches import Batch
from quotax.interpret.jets.residues import PRIME, inverse, product

Powers = tuple[tuple[str, int], ...]
"""A product of powers of parameters."""


class Moments:
    """One batch with fused axes taken apart: `value` is (samples, *factors), `slope` (outputs, samples, *factors)."""

    def __init__(
        self,
        batch: Batch,
        specs: Sequence[ArraySpec],
        sizes: Mapping[str, int],
        centres: Mapping[str, Fraction] | None = None,
    ) -> None:
        """Reshape every array; `centres` has the `r` of parameters that are read as `w + r`."""
        self.value: dict[str, np.ndarray] = {}
        self.slope: dict[str, np.ndarray] = {}
        self.factors = {spec.name: spec.factors for spec in specs}
        for spec in specs:
            shape = spec.split_shape(sizes)
            value, slope = batch.params[spec.name], batch.jacobian[spec.name]
            r = (centres or {}).get(spec.name, Fraction(0))
            centre = r.numerator % PRIME * pow(r.denominator % PRIME, -1, PRIME)
            self.value[spec.name] = (value.reshape(len(value), *shape) + centre) % PRIME
            self.slope[spec.name] = slope.reshape(*slope.shape[:2], *shape)
        self.rows = batch.rows
        self._reciprocals: dict[str, np.ndarray] = {}
        self._matrices: dict[tuple[str, int, tuple[int, ...], Powers], np.ndarray] = {}

    def extent(self, name: str, axis: int) -> int:
        """The size of an axis of a parameter."""
        return self.value[name].shape[axis + 1]

    def matrix(self, name: str, axis: int, each: tuple[int, ...], gain: Powers = ()) -> np.ndarray:
        r"""K of a matrix on one axis, per index of others: `(rows, each, n, n)`, target index first.

        With a gain v along the same axis the field is $\\delta W_i = v_i^{-1} C_{ij} v_j W_j$: a rotation of what
        `v * W` sees.
        """
        key = name, axis, each, gain
        if key not in self._matrices:
            self._matrices[key] = self._matrix(*key)
        return self._matrices[key]

    def _matrix(self, name: str, axis: int, each: tuple[int, ...], gain: Powers) -> np.ndarray:
        value, slope = self.value[name], self.slope[name]
        if gain:
            value = value * self._along(gain, name, axis) % PRIME
            slope = slope * self._along(gain, name, axis, over=True)[None] % PRIME
        rest = [k for k in range(value.ndim - 1) if k != axis and k not in each]
        v = value.transpose([0, *(k + 1 for k in (*each, *rest, axis))])
        s = slope.transpose([0, 1, *(k + 2 for k in (*each, *rest, axis))])
        n = v.shape[-1]
        copies = math.prod(v.shape[1 : 1 + len(each)])
        v = v.reshape(v.shape[0], copies, -1, n)
        s = s.reshape(s.shape[0], s.shape[1], copies, -1, n)
        return product(np.swapaxes(s, -1, -2), v[None]).reshape(-1, copies, n, n)

    def scale(self, name: str, places: Sequence[int]) -> np.ndarray:
        """Every index of the axes at `places` scaled by its own number: `(rows, entries)`."""
        return self._summed(self.slope[name] * self.value[name][None] % PRIME, places)

    def shift(self, name: str, places: Sequence[int], gain: Powers = (), axis: int = 0) -> np.ndarray:
        """The same vector along `places` added everywhere, over a gain along another axis if one is named."""
        slope = self.slope[name]
        if gain:
            slope = slope * self._along(gain, name, axis, over=True)[None] % PRIME
        return self._summed(slope, places)

    def weighed(self, name: str, places: Sequence[int], source: str, along: int, gain: Powers) -> np.ndarray:
        r"""The vector times the sum of `source`, or of `source` over a gain, along one of its axes.

        There is a sum for each index of the others, which `name` has too.
        """
        entries = self.value[source]
        if gain:
            entries = entries * self._along(gain, source, along, over=True) % PRIME
        rest = [f for k, f in enumerate(self.factors[source]) if k != along]
        at = [self.factors[name].index(f) for f in rest]
        slope = self.slope[name]
        return self._summed(
            slope * _placed(entries.sum(axis=along + 1) % PRIME, at, slope.ndim - 2)[None] % PRIME, places
        )

    def number(self, bias: str, gain: Powers) -> np.ndarray:
        """The sum of a bias over a gain, for every row of the equations."""
        over = self.value[bias] * self._along(gain, bias, 0, over=True) % PRIME
        outputs = len(self.slope[bias])
        return np.tile(over.sum(axis=1) % PRIME, outputs)[:, None]

    def modulo(self, columns: np.ndarray, beside: np.ndarray) -> np.ndarray:
        """What is left of columns `(rows, entries, n)` when any multiple of those `beside` is added at every point.

        Both are of the same rows, and those of one point are eliminated among each other.
        """
        samples = next(iter(self.value.values())).shape[0]
        both = np.concatenate([beside, columns], axis=-1)
        both = both.reshape(-1, samples, *both.shape[1:]).transpose(1, 2, 0, 3)
        places = np.indices(both.shape[:2])
        for column in range(beside.shape[-1]):
            entries = both[..., column]
            row = both[(*places, (entries != 0).argmax(axis=-1))]
            # the row itself becomes zero; where the whole column is, nothing is taken from any
            factors = entries * inverse(row[..., column])[..., None] % PRIME
            both = (both - factors[..., None] * row[:, :, None]) % PRIME
        return both[..., beside.shape[-1] :]

    def mixed(self, name: str, source: str, places: Sequence[int]) -> np.ndarray:
        """Another parameter of the same axes added, scaled along `places`."""
        return self._summed(self.slope[name] * self.value[source][None] % PRIME, places)

    def along(self, name: str, product: Powers, places: Sequence[int]) -> np.ndarray:
        """A product of arrays of at most the axes at `places` added, scaled along these."""
        slope, own = self.slope[name], self.factors[name]
        for source, power in product:
            factor = self._one_over(source) if power < 0 else self.value[source]
            kept = [k for k, f in enumerate(self.factors[source]) if f != 1]
            factor = factor.reshape(len(factor), *(factor.shape[k + 1] for k in kept))
            at = [next(p for p in places if own[p] == self.factors[source][k]) for k in kept]
            for _ in range(abs(power)):
                slope = slope * _placed(factor, at, len(own))[None] % PRIME
        return self._summed(slope, places)

    def contracted(
        self, name: str, source: str, places: Sequence[int], order: Sequence[int], gain: Powers = ()
    ) -> np.ndarray:
        r"""$\delta b = W \cdot \xi$: axes `places` of `source` meet the vector, `order` are the axes of `name`.

        Those in both are not summed. With a gain along the one that is summed it is $W v \cdot \xi$.
        """
        value, slope = self.value[source], self.slope[name]
        if gain:
            value = value * self._along(gain, source, next(k for k in places if k not in order)) % PRIME
        shared, summed = [k for k in order if k in places], [k for k in places if k not in order]
        across = [k for k in order if k not in places]
        lengths = lambda axes: [self.extent(source, k) for k in axes]
        slope = slope.transpose([0, 1, *(2 + order.index(k) for k in (*shared, *across))])
        value = value.transpose([0, *(k + 1 for k in (*shared, *across, *summed))])
        copies, rows, columns = (math.prod(lengths(axes)) for axes in (shared, across, summed))
        flat = slope.reshape(*slope.shape[:2], copies, 1, rows)
        met = product(flat, value.reshape(1, len(value), copies, rows, columns))
        met = met.reshape(-1, *lengths((*shared, *summed)))
        met = met.transpose([0, *(1 + [*shared, *summed].index(k) for k in places)])
        return met.reshape(len(met), -1)

    def passed(self, name: str, source: str, places: Sequence[int], order: Sequence[int]) -> np.ndarray:
        r"""$\delta S = W \xi$: axes `places` of `source` meet the vector, which has the axes `~k` of `name` itself."""
        value, slope = self.value[source], self.slope[name]
        met, carried = [k for k in places if k >= 0], [~k for k in places if k < 0]
        kept = [k for k in order if k >= 0]
        inner, outer = [self.extent(source, k) for k in met], [self.extent(name, k) for k in carried]
        slope = slope.transpose([0, 1, *(2 + k for k in carried), *(2 + order.index(k) for k in kept)])
        value = value.transpose([0, *(k + 1 for k in (*kept, *met))])
        slope = slope.reshape(*slope.shape[:2], math.prod(outer), -1)
        moved = product(slope, value.reshape(1, len(value), -1, math.prod(inner))).reshape(-1, *outer, *inner)
        spots = [1 + len(outer) + met.index(k) if k >= 0 else 1 + carried.index(~k) for k in places]
        return moved.transpose([0, *spots]).reshape(len(moved), -1)

    def _along(self, gain: Powers, name: str, axis: int, over: bool = False) -> np.ndarray:
        """A product of gains, or one over it, along an axis of an array, and along others that both have."""
        own = self.factors[name]
        out = np.ones((1,) * (len(own) + 1), np.int64)
        for vector, power in gain:
            at = [axis if f == own[axis] else own.index(f) for f in self.factors[vector]]
            factor = _placed(self._one_over(vector) if (power < 0) != over else self.value[vector], at, len(own))
            for _ in range(abs(power)):
                out = out * factor % PRIME
        return out

    def _one_over(self, name: str) -> np.ndarray:
        """One over every entry of a parameter."""
        if name not in self._reciprocals:
            self._reciprocals[name] = inverse(self.value[name])
        return self._reciprocals[name]

    def _summed(self, array: np.ndarray, places: Sequence[int]) -> np.ndarray:
        """Keep the axes at `places`, in that order, and sum the others."""
        rest = [k for k in range(array.ndim - 2) if k not in places]
        moved = array.transpose([0, 1, *(k + 2 for k in (*places, *rest))])
        entries = int(np.prod([array.shape[k + 2] for k in places], dtype=np.int64))
        return moved.reshape(array.shape[0] * array.shape[1], entries, -1).sum(axis=-1) % PRIME


def _placed(array: np.ndarray, at: Sequence[int], count: int) -> np.ndarray:
    """An array `(samples, *axes)` with its axes at these places of so many, to be multiplied with others."""
    shape = [len(array), *(1,) * count]
    for axis, place in enumerate(at):
        shape[place + 1] = array.shape[axis + 1]
    order = sorted(range(len(at)), key=lambda axis: at[axis])
    return array.transpose([0, *(axis + 1 for axis in order)]).reshape(shape)
