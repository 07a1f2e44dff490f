"""Axes for arrays whose dimensions were followed: unknowns become names, and a factory's keywords keep theirs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.declare.brought.examples import Example
from quotax.declare.brought.factories import Fit, Product
from quotax.declare.brought.following import Followed
from quotax.declare.brought.unknowns import Dims, Unknown, factors, summed
from quotax.declare.fused_axes import DeclaredArray, declared_array
from quotax.trees import Tree


@dataclass
class Axes:
    """The parameters and inputs with axes, and the size of every axis."""

    params: tuple[DeclaredArray, ...]
    inputs: tuple[ArraySpec, ...]
    sizes: dict[str, int] = field(default_factory=dict)
    tied: dict[str, str] = field(default_factory=dict)
    """Axes whose size is a product of a factory's keywords, and that the model never takes apart."""


class _Names:
    """A name for every unknown: after the input that has it, `y` for an output's, `h0`, `h1`, ... for the others."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.of: dict[Unknown, tuple[AxisFactor, ...]] = {}
        self.sizes: dict[str, int] = {}
        self.taken = set(taken)

    def give(self, unknown: Unknown, name: str) -> None:
        if unknown not in self.of:
            while name in self.taken or name in self.sizes:
                name += "_"
            self.of[unknown] = (name,)
            self.sizes[name] = unknown.size

    def axis(self, dim: Dims) -> tuple[AxisFactor, ...]:
        found = [f for unknown in factors(dim) for f in self.of[unknown]]
        return tuple(found) or (1,)

    def text(self, dim: Dims, sums: Mapping[Unknown, Sequence[Dims]]) -> str:
        """The axis as a declaration writes it, with what is a sum in brackets where it has to be."""
        roots = factors(dim)
        words = []
        for root in roots:
            if root in sums:
                terms = "+".join("*".join(map(str, self.axis(term))) for term in sums[root])
                words.append(terms if len(roots) == 1 else f"({terms})")
            else:
                words += map(str, self.of[root])
        return "*".join(words) or "1"


def _sums(
    dims: Mapping[str, Sequence[Dims]], read: Sequence[Sequence[Dims]], followed: Followed
) -> dict[Unknown, list[Dims]]:
    """The unknowns of parameters that are sums of others, with their terms.

    A length of an input is what it is. So is what only meets the like of constants put together: a term has to be an
    axis elsewhere.
    """
    inside = lambda terms: {unknown for term in terms for unknown in factors(term)}
    rows = [factors(dim) for row in (*dims.values(), *read) for dim in row]
    given = {unknown for row in read for dim in row for unknown in factors(dim)}
    given |= inside(followed.looked_up.values())
    roots = dict.fromkeys(unknown for row in dims.values() for dim in row for unknown in factors(dim))
    out = {unknown: summed((unknown,)) for unknown in roots if unknown not in given and not unknown.number}
    out = {unknown: terms for unknown, terms in out.items() if len(set(map(tuple, map(factors, terms)))) > 1}
    named = {unknown for row in rows for unknown in row if unknown not in out}
    factored = {unknown for terms in out.values() for unknown in inside(terms)}  # then it has a name of its own
    beside = {unknown for row in rows if sum(each in out for each in row) > 1 for unknown in row}
    return {
        unknown: terms
        for unknown, terms in out.items()
        if inside(terms) & named and unknown not in factored | beside and not any(each.number for each in inside(terms))
    }


def axes_of(
    params: Mapping[str, tuple[int, ...]],
    inputs: Sequence[Example],
    dims: Mapping[str, Sequence[Dims]],
    read: Sequence[Sequence[Dims]],
    followed: Followed,
    fit: Fit | None,
) -> Axes:
    """Axes of the parameters (`dims` by name) and of the inputs (`read`)."""
    names = _Names(list(fit.own) if fit else [])
    sums = {} if fit is not None else _sums(dims, read, followed)
    plain = lambda dim: [u for root in factors(dim) for term in sums.get(root, [(root,)]) for u in factors(term)]
    for unknown in {u for row in (*dims.values(), *read) for dim in row for u in factors(dim) if u.number}:
        names.of[unknown] = (unknown.size,)
    fused: dict[tuple[str, int], tuple[AxisFactor, ...]] = {}
    if fit is not None:
        names.sizes |= fit.own
        for single in (True, False):
            for name, row in fit.products.items():
                for place, product in enumerate(row):
                    roots = factors(dims[name][place])
                    if product is not None and product[1] and (len(roots) == 1) is single:
                        _matched(roots, product, fit.own, names.of)
                        if [f for r in roots for f in names.of.get(r, (None,))] != sorted_like(roots, names, product):
                            fused[name, place] = _plain(product)
        for name, place in fit.others:
            _in_terms(name, place, dims[name][place], fit, names)
    # a product that the trace never takes apart is an axis of its own, if its factors are axes elsewhere
    alone = {f[0] for f in names.of.values() if len(f) == 1}
    composed = {
        root: f
        for root, f in names.of.items()
        if len(f) > 1 and any(isinstance(n, str) for n in f) and alone >= {n for n in f if isinstance(n, str)}
    }
    names.of = {root: f for root, f in names.of.items() if root not in composed}
    for example, row in zip(inputs, read, strict=True):
        for place, dim in enumerate(row):
            roots = factors(dim)
            for part, unknown in enumerate(roots):
                name = example.name + (str(place) if len(row) > 1 else "") + (f"_{part}" if len(roots) > 1 else "")
                names.give(unknown, name)
    own = {unknown for row in dims.values() for dim in row for unknown in plain(dim)}
    ends = [unknown for row in followed.outputs for dim in row for unknown in plain(dim) if unknown in own]
    numbers = {
        unknown: None
        for name, row in dims.items()
        for place, dim in enumerate(row)
        if fit is None or not (fit.products[name][place] or (1, ("a sum",)))[1]
        for unknown in plain(dim)
    }
    left = [unknown for unknown in (*composed, *numbers) if unknown not in names.of]
    ends = [unknown for unknown in dict.fromkeys(ends) if unknown in numbers and unknown in left]
    for k, unknown in enumerate(ends):
        names.give(unknown, "y" if len(ends) == 1 else f"y{k}")
    for k, unknown in enumerate(unknown for unknown in left if unknown not in ends):
        names.give(unknown, f"h{k}")

    def spec(name: str) -> DeclaredArray:
        axes: list[str] = []
        for place, size in enumerate(params[name]):
            roots = factors(dims[name][place])
            product = fit.products[name][place] if fit else None
            if fit is not None and (name, place) in fit.others:
                terms = [names.axis(term) for term in summed(dims[name][place])]
                axes.append("+".join("*".join(map(str, term)) for term in terms))
            elif (name, place) in fused:
                axes.append("*".join(map(str, fused[name, place])))
            elif product is not None and not all(root in names.of for root in roots):
                axes.append("*".join(map(str, _plain(product) or (size,))))
            else:
                axes.append(names.text(dims[name][place], sums))
        return declared_array(name, " ".join(axes), f"{name!r}")

    specs = tuple(map(spec, params))
    given = []
    for number, (example, row) in enumerate(zip(inputs, read, strict=True)):
        below = example.below
        along = followed.looked_up.get(len(params) + number)
        if example.kind == "tokens":
            axis = names.axis(along) if along is not None and _known(along, names) else ()
            size = math.prod(u.size for u in along) if along is not None else None
            if len(axis) == 1 and (below is None or below in (size, axis[0])):
                below = axis[0]
            elif below is None:
                below = size
        given.append(ArraySpec(example.name, tuple(names.axis(dim) for dim in row), example.kind, below))
    used = dict.fromkeys(n for s in (*specs, *given) for n in s.axis_names)
    used |= dict.fromkeys(s.below for s in given if isinstance(s.below, str))
    tied = {str(names.of[root][0]): "*".join(map(str, f)) for root, f in composed.items() if len(names.of[root]) == 1}
    sizes = {name: names.sizes[name] for name in used if name in names.sizes}
    return Axes(specs, tuple(given), sizes, {name: size for name, size in tied.items() if name in sizes})


def _in_terms(name: str, place: int, dim: Dims, fit: Fit, names: _Names) -> None:
    """Know a dimension that is no product of keywords as the sum that the trace shows; refused where it is none."""
    terms = summed(dim)
    unknown = [r for term in terms for r in factors(term) if r not in names.of]
    choices = [[word for word, size in fit.own.items() if size == r.size] for r in unknown]
    if len(terms) > 1:
        for words in itertools.product(*choices):
            guess = dict(zip(unknown, ((word,) for word in words), strict=True))
            known = names.of | guess
            said = [[f for r in factors(term) for f in known[r]] or [1] for term in terms]
            if fit.is_sum(name, place, said):
                names.of |= guess
                return
    fit.refuse(name, place)


def _known(dim: Dims, names: _Names) -> bool:
    return all(unknown in names.of for unknown in factors(dim))


def sorted_like(roots: Sequence[Unknown], names: _Names, product: Product) -> list[Tree]:
    """The factors of the roots, if they make up the product; else nothing that equals them."""
    found = [f for root in roots for f in names.of.get(root, (None,))]
    number = math.prod(f for f in found if isinstance(f, int))
    same = number == product[0] and sorted(f for f in found if isinstance(f, str)) == sorted(product[1])
    return found if same and None not in found else [object()]


def _plain(product: Product) -> tuple[AxisFactor, ...]:
    number, names = product
    return (*((number,) if number != 1 else ()), *names)


def _matched(
    roots: Sequence[Unknown],
    product: Product,
    own: Mapping[str, int],
    known: dict[Unknown, tuple[AxisFactor, ...]],
) -> None:
    """Say which part of a product each unknown of a dimension is, by what is known and by sizes."""
    number, left = product[0], list(product[1])
    for root in roots:
        for f in known.get(root, ()):
            if isinstance(f, str) and f in left:
                left.remove(f)
            elif isinstance(f, int) and number % f == 0:
                number //= f
    unknown = [root for root in roots if root not in known]
    for place, root in enumerate(unknown):
        if place == len(unknown) - 1:
            rest = _plain((number, tuple(left)))
            if math.prod(f if isinstance(f, int) else own[f] for f in rest) == root.size:
                known[root] = rest or (1,)
            return
        name = next((n for n in left if own[n] == root.size), None)
        if name is not None:
            left.remove(name)
            known[root] = (name,)
        elif number % root.size == 0:
            number //= root.size
            known[root] = (root.size,)
        else:
            return
