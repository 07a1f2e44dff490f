"""A factory of a model at other sizes: which dimension is which product of its keywords.

The factory is asked for shapes alone, at sizes that are distinct primes and larger than what a model writes into its
shapes as a number. A dimension that is an integer times a product of keywords is that product for one reason only,
because primes factor uniquely; two further assignments have to agree. A dimension that is no such product is kept with
what it is at those assignments: a sum whose terms the trace shows is known by them, anything else (a quotient) refused.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from quotax.errors import ArchitectureError
from quotax.trees import Tree

Shapes = dict[str, tuple[int, ...]]
Measured = Callable[[Mapping[str, int]], "Shapes"]
"""The parameters' shapes at these keywords, or those of other parameters, where a keyword changes the structure."""

_PRIMES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179, 181, 191, 193, 197)
_SMALL = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
_COUNTS = 24
"""A keyword that says how many layers there are is looked for up to here."""

Seen = list[tuple[Mapping[str, int], int]]
"""Keywords, and what a dimension is there."""

Product = tuple[int, tuple[str, ...]]
"""An integer, and the keywords that it is multiplied by, each as often as it occurs."""


class Fit:
    """What a factory's keywords do.

    Attributes:
        products: by parameter, a product for each dimension; None for one that is none.
        own: the keywords at which the factory makes the shapes of the parameters.
        counts: keywords that change the structure, held at the value that gives that of the parameters.
        others: by parameter and place, of dimensions that are no products, keywords and what they are there.
    """

    def __init__(
        self,
        call: str,
        products: dict[str, tuple[Product | None, ...]],
        own: dict[str, int],
        counts: dict[str, int],
        others: dict[tuple[str, int], Seen],
    ) -> None:
        self.call, self.products, self.own, self.counts, self.others = call, products, own, counts, others

    def is_sum(self, name: str, place: int, terms: Sequence[Sequence[str | int]]) -> bool:
        """Whether a dimension is the sum of these products of keywords and numbers, wherever it was looked at."""
        times = lambda sizes, term: math.prod(f if isinstance(f, int) else sizes[f] for f in term)
        total = lambda sizes: sum(times(sizes, term) for term in terms)
        words = {f for term in terms for f in term if isinstance(f, str)}
        seen = self.others[name, place]
        return words <= set(self.own) and all(total(sizes) == size for sizes, size in seen)

    def refuse(self, name: str, place: int) -> NoReturn:
        """Say of a dimension that nothing explains it."""
        raise _no_product(self.call, name, place, self.others[name, place])


def _no_product(call: str, name: str, place: int, seen: Seen) -> ArchitectureError:
    sizes, size = seen[0]
    said = ", ".join(f"{k}={v}" for k, v in sizes.items())
    return ArchitectureError(
        f"`{call}`: dimension {place} of {name!r} is {size} at {said}: no product of an integer and sizes, and no sum "
        "of what the model puts together there. Give make= a keyword for it, or leave out make=."
    )


def keywords(call: str, make: Callable[..., Tree]) -> tuple[list[str], dict[str, int]]:
    """The sizes that a factory takes, and the defaults that it has for some."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        raise ArchitectureError(f"`{call}`: make= must be a function of sizes by keyword, got {make!r}.") from None
    unnamed = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if unnamed or not parameters:
        raise ArchitectureError(
            f"`{call}`: make= must name its sizes, as in make=lambda width: eqx.nn.MLP(..., width_size=width), "
            f"got a function of {', '.join(unnamed) or 'nothing'}."
        )
    given = {p.name: p.default for p in parameters if isinstance(p.default, int) and not isinstance(p.default, bool)}
    sizes = [p.name for p in parameters if p.default is p.empty or p.name in given]
    return sizes, given


class _Asked:
    """A factory that may raise: None then, and `said` is what it raised."""

    def __init__(self, measured: Measured) -> None:
        self.measured, self.said = measured, ""

    def __call__(self, sizes: Mapping[str, int]) -> Shapes | None:
        try:
            return self.measured(sizes)
        except Exception as error:  # whatever the user's own code raises at sizes that it does not accept
            at = ", ".join(f"{k}={v}" for k, v in sizes.items())
            self.said = f"make({at}) raised {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            return None


def fitted(call: str, names: list[str], given: Mapping[str, int], factory: Measured, own: Shapes) -> Fit:
    """Each dimension as a product of keywords, and the keywords of the parameters."""
    measured = _Asked(factory)
    counts = _counts(call, names, measured, own)
    sizes = [name for name in names if name not in counts]
    assignments = [
        {name: _PRIMES[(k * (1 + 2 * turn) + 5 * turn) % len(_PRIMES)] for k, name in enumerate(sizes)}
        for turn in range(3)
    ]
    at = []
    for assignment in assignments:
        shapes = measured(assignment | counts)
        if shapes is None:
            raise ArchitectureError(
                f"`{call}`: {measured.said}. Its keywords must be free of one another: where one has to be a multiple "
                "of another, let make= multiply them."
            )
        if set(shapes) != set(own) or any(len(shapes[n]) != len(own[n]) for n in own):
            said = ", ".join(f"{k}={v}" for k, v in (assignment | counts).items())
            raise ArchitectureError(
                f"`{call}`: make({said}) has other parameters than those given; every keyword of make= must be a size "
                "or a number of layers."
            )
        at.append(shapes)
    products: dict[str, tuple[Product | None, ...]] = {}
    others: dict[tuple[str, int], Seen] = {}
    for name, shape in own.items():
        row: list[Product | None] = []
        for place in range(len(shape)):
            product = _product(at[0][name][place], assignments[0])
            seen: Seen = [(a, s[name][place]) for a, s in zip(assignments, at, strict=True)]
            agrees = all(value(product, a) == size for a, size in seen)
            if not agrees:
                others[name, place] = seen
            row.append(product if agrees else None)
        products[name] = tuple(row)
    solved = _solved(call, sizes, given, products, own, others)
    return Fit(call, products, solved, counts, others)


def value(product: Product, sizes: Mapping[str, int]) -> int:
    """A product at these sizes."""
    number, names = product
    for name in names:
        number *= sizes[name]
    return number


def _product(size: int, primes: Mapping[str, int]) -> Product:
    names: list[str] = []
    for name, prime in primes.items():
        while size % prime == 0:
            size //= prime
            names.append(name)
    return size, tuple(names)


def _counts(call: str, names: list[str], measured: _Asked, own: Shapes) -> dict[str, int]:
    """The keywords that change which parameters there are, at the values that give those of the model."""
    base = {name: _SMALL[k % len(_SMALL)] for k, name in enumerate(names)}
    here = measured(base)
    if here is None:
        raise ArchitectureError(
            f"`{call}`: {measured.said}. Its keywords must be free of one another: where one has to be a multiple of "
            "another, let make= multiply them."
        )
    layout = lambda shapes: None if shapes is None else {n: len(s) for n, s in shapes.items()}
    changing = [name for name in names if layout(measured(base | {name: base[name] + 1})) != layout(here)]
    if layout(here) == layout(own) and not changing:
        return {}
    changing = changing or names
    for values in itertools.product(range(_COUNTS), repeat=len(changing)):
        counts = dict(zip(changing, values, strict=True))
        if layout(measured(base | counts)) == layout(own):
            return counts
    raise ArchitectureError(
        f"`{call}`: make= makes no model with the parameters given ({', '.join(own)}); it must make the same model at "
        f"other sizes. At {', '.join(f'{k}={v}' for k, v in base.items())} it has "
        f"{', '.join(here) or 'none'}."
    )


def _slope(seen: Seen, size: int, known: Mapping[str, int], sizes: Sequence[str]) -> dict[str, int]:
    """The one keyword that is not known yet, where a dimension is its sum with others, or more than that by a number.

    Which sum it is is not decided here: that it is one with this keyword in it once, every assignment has to show.
    """
    unknown = [name for name in sizes if name not in known]
    if len(unknown) != 1:
        return {}
    (name,) = unknown
    for count in range(len(known) + 1):
        for used in itertools.combinations(known, count):
            rest = {n - at[name] - sum(at[k] for k in used) for at, n in seen}
            if len(rest) == 1:
                found = size - rest.pop() - sum(known[k] for k in used)
                return {name: found} if found > 0 else {}
    return {}


def _solved(
    call: str,
    sizes: list[str],
    given: Mapping[str, int],
    products: Mapping[str, tuple[Product | None, ...]],
    own: Shapes,
    others: Mapping[tuple[str, int], Seen],
) -> dict[str, int]:
    """The keywords of the model at hand, from its shapes."""
    known: dict[str, int] = {}
    rows = [(p, n) for name, row in products.items() for p, n in zip(row, own[name], strict=True)]
    for _ in range(len(sizes) + 1):
        for product, size in rows:
            if product is None:
                continue
            number, names = product
            left = [name for name in names if name not in known]
            if len(set(left)) == 1:
                rest = size / value((number, tuple(n for n in names if n in known)), known)
                root = round(rest ** (1 / len(left)))
                if root ** len(left) == rest:
                    known[left[0]] = root
    for (name, place), seen in others.items():
        known |= _slope(seen, own[name][place], known, sizes)
    for name in sizes:
        if name not in known and name in given:
            known[name] = given[name]
    unknown = [name for name in sizes if name not in known]
    if unknown and others:
        (name, place), seen = next(iter(others.items()))
        raise _no_product(call, name, place, seen)
    if unknown:
        raise ArchitectureError(
            f"`{call}`: the parameters' shapes do not say what {', '.join(unknown)} of make= is for them; give it a "
            f"default, as in make=lambda {unknown[0]}=8: ..."
        )
    for name, row in products.items():
        shape = tuple(n if p is None else value(p, known) for p, n in zip(row, own[name], strict=True))
        if shape != own[name]:
            said = ", ".join(f"{k}={v}" for k, v in known.items())
            raise ArchitectureError(
                f"`{call}`: {name!r} has shape {own[name]}, but make({said}) gives it {shape}: "
                "the factory must make the model given at some sizes."
            )
    return known
