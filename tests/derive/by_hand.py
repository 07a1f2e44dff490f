"""What a template means, entry by entry, and templates with random places and numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.derive.candidates.templates import (
    Contract,
    Mix,
    Scale,
    Shift,
    Solution,
    Through,
    Turn,
    matrix_terms,
    vector_terms,
)
from quotax.symmetry import GL, ComplexScaling, O

SIZES = {"h": 4, "k": 3, "x": 2, "g": 2, "in": 3}
AXES = [("h",), ("k",), ("g",), ("in",), ("h", "k"), ("k", "h"), ()]
SHAPES = ["", "h", "h h", "k", "h x", "x h", "k h", "h k", "h*k x", "x h*k", "h k x", "2 h", "h*2", "g", "in h", "h g"]
NAMES = ["W", "g", "block/b", "c", "log"]


def arrays_of(rng):
    """A few parameters of random axes; two of them alike, some with names that the language uses."""
    chosen = list(rng.choice(SHAPES, len(NAMES)))
    axes = [
        tuple(tuple(int(f) if f.isdigit() else f for f in axis.split("*")) for axis in text.split())
        for text in (*chosen, chosen[0])
    ]
    return tuple(ArraySpec(name, own) for name, own in zip((*NAMES, "twin"), axes, strict=True))


def solutions(seed, count=40):
    """Templates with random places and numbers, on random parameters."""
    rng = np.random.default_rng(seed)
    number = lambda: Fraction(int(rng.choice([-3, -2, -1, 1, 1, 2])), int(rng.choice([1, 1, 2, 3])))
    for _ in range(count):
        specs, axes = arrays_of(rng), AXES[rng.integers(len(AXES))]
        each, axis = axes[0] if len(axes) == 2 else None, axes[-1] if axes else None
        group = None
        if axis is None or rng.integers(2):
            places = vector_terms(specs, axes)
            kinds = [(Scale, Mix, Contract, Shift), (Mix,), (Scale, Contract), (Shift, Contract, Through)][
                rng.integers(4)
            ]
            places = [t for t in places if isinstance(t, kinds)]
        else:
            groups = [GL(axis, each), O(axis, each), *([ComplexScaling(axis, each)] if SIZES[axis] % 2 == 0 else [])]
            group = groups[rng.integers(len(groups))]
            places = matrix_terms(specs, group, {} if rng.integers(2) else None)
        if places:
            kept = sorted(rng.choice(len(places), min(len(places), int(rng.integers(1, 6))), replace=False))
            terms = [places[k] for k in kept]
            # of matrices, mostly such numbers that there is a representation
            right = rng.integers(8, size=len(terms)) > 0
            unit = lambda t: Fraction(-1 if t.transposed else 1)
            numbers = [unit(t) if group and r else number() for t, r in zip(terms, right, strict=True)]
            yield Solution(axis, each, group, tuple(zip(terms, numbers, strict=True))), specs


def field(solution, specs, params, xi):
    """The velocity `sum_t a_t F_t(xi)` of a template, from its definition, as arrays with fused axes apart."""
    velocity = {spec.name: np.zeros_like(params[spec.name]) for spec in specs}
    factors = {spec.name: spec.factors for spec in specs}
    for term, a in solution.terms:
        for index in np.ndindex(velocity[term.param].shape):
            velocity[term.param][index] += float(a) * _component(term, index, params, xi, factors)
    return velocity


def _component(term, index, params, xi, factors):
    match term:
        case Turn(param, axis, each, transposed, gain):
            matrix = xi[tuple(index[k] for k in each)]
            total = 0.0
            for j in range(len(matrix)):
                there = (*index[:axis], j, *index[axis + 1 :])
                beside = lambda at: _gains(gain, param, axis, at, params, factors)
                weight = beside(there) / beside(index)
                total += (matrix.T if transposed else matrix)[index[axis], j] * weight * params[param][there]
            return total
        case Scale(param, places):
            return xi[tuple(index[k] for k in places)] * params[param][index]
        case Mix(_, source, places):
            return xi[tuple(index[k] for k in places)] * params[source][index]
        case Shift(_, places, ()):
            return xi[tuple(index[k] for k in places)]
        case Contract(_, source, places, order, gain):
            total = 0.0
            for at in np.ndindex(xi.shape):
                own, met = dict(zip(order, index, strict=True)), dict(zip(places, at, strict=True))
                if any(own[k] != met[k] for k in own.keys() & met.keys()):
                    continue  # an axis of both is not summed
                there = [(own | met)[k] for k in range(params[source].ndim)]
                weight = _gains(gain, source, next((k for k in places if k not in order), 0), there, params, factors)
                total += params[source][tuple(there)] * weight * xi[at]
            return total
        case Through(_, source, places, order):
            total = 0.0
            for at in np.ndindex(params[source].shape):
                if all(at[k] == index[t] for t, k in enumerate(order) if k >= 0):
                    there = tuple(at[k] if k >= 0 else index[~k] for k in places)
                    total += params[source][at] * xi[there]
            return total
    raise TypeError(term)


def _gains(gain, name, axis, index, params, factors):
    """A product of gains beside an entry of an array, along an axis and others that both have."""
    own, total = factors[name], 1.0
    for vector, power in gain:
        at = tuple(index[axis] if f == own[axis] else index[own.index(f)] for f in factors[vector])
        total *= params[vector][at] ** power
    return total
