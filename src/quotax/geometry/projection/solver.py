"""Which solver a component gets, by its structure alone, and what every projection at one point shares.

- separate: one family whose block has a closed form;
- dense: few coordinates altogether: the eigenvalues of the Gram matrix;
- elimination: scalings and shifts of many layers: block elimination;
- iterative: everything else: half of the families eliminated in closed form, the others by iteration.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from quotax.geometry.families.component import Component
from quotax.geometry.linalg import inverse_roots, iterative
from quotax.geometry.linalg.named import Named, add, dot, ravel, traced, unravel
from quotax.geometry.projection import block_elimination, gram, half_eliminated, one_family
from quotax.programs.compiling import once
from quotax.trees import Tree

Method = Literal["separate", "dense", "elimination", "iterative"]

_DENSE_LIMIT = 1024
"""Components with at most this many coordinates get a factored Gram matrix."""

_SMALL = 2**17
"""Components that move at most this many numbers are always projected three times, which costs nothing."""

_PASSES_OF_SMALL = 3


class FactoredGram(NamedTuple):
    """A factored component: the Gram operator's tensors, the solver's own data, and the passes a projection needs."""

    held: gram.Data | None
    inverse: Tree
    passes: jax.Array | None


@functools.lru_cache(maxsize=256)
def method(part: Component) -> Method:
    """The solver of a component."""
    first = one_family.block(part, 0)
    if len(part.families) == 1 and first.exact and first.kind != "dense":
        return "separate"
    if part.dimension <= _DENSE_LIMIT:
        return "dense"
    if len(part.families) == 1 and first.exact:
        return "separate"
    return "elimination" if block_elimination.quick(part) else "iterative"


def small(part: Component) -> bool:
    """Whether a component is projected three times, rather than as often as one probe shows to be needed."""
    first = part.families[0]
    if first.terms is None:
        return True
    return sum(_size(part, name) for name in part.moved) <= _SMALL


def _size(part: Component, name: str) -> int:
    family = next(family for family in part.families if name in family.splits)
    return functools.reduce(lambda a, b: a * b, family.splits[name], 1)


def factor(part: Component, arrays: Mapping[str, jax.Array]) -> FactoredGram:
    """What every projection of a component at these arrays shares.

    In three programs, each compiled by itself: XLA would compute in every step of one what the one before it returns.
    Of few numbers that are known it is one, and eigenvalues are compiled only where Cholesky's factor meets rounding.
    """
    if method(part) == "dense" and small(part) and not traced(arrays):
        held, root, safe = _quick(part, dict(arrays))
        if safe:
            return FactoredGram(held, root, None)
    held = _held(part, dict(arrays))
    # Only the solution of the linear system is differentiated, in `solve`, and never a factor: the derivative of
    # eigenvectors does not exist where eigenvalues meet.
    fixed: Tree = jax.lax.stop_gradient((held, dict(arrays)))
    inverse = _invert(part, *fixed)
    if small(part):
        return FactoredGram(held, inverse, None)
    passes = _passes(part, FactoredGram(fixed[0], inverse, None), fixed[1])
    # Elimination answers without the tensors, which are as large as the weights between the layers.
    return FactoredGram(None if method(part) == "elimination" else held, inverse, passes)


def tensors(part: Component, factored: FactoredGram, arrays: Mapping[str, jax.Array]) -> gram.Data:
    """The Gram operator's tensors; made again where they were not kept, which is when something is differentiated."""
    return gram.data(part, arrays) if factored.held is None else factored.held


_held = jax.jit(gram.data, static_argnums=0)


@once
def _quick(part: Component, arrays: Named) -> tuple[gram.Data, jax.Array, jax.Array]:
    held = gram.data(part, arrays)
    return held, *inverse_roots.by_cholesky(gram.matrix(part, held, arrays))


@functools.partial(jax.jit, static_argnums=0)
def _invert(part: Component, held: gram.Data, arrays: Mapping[str, jax.Array]) -> Tree:
    match method(part):
        case "dense":
            return inverse_roots.quickest(gram.matrix(part, held, arrays))
        case "elimination":
            return block_elimination.factor(part, held, arrays)
        case "iterative":
            return half_eliminated.factor(part, held, arrays)
    return one_family.invert(part, held, arrays, one_family.block(part, 0))


def _inverse(part: Component, factored: FactoredGram, arrays: Mapping[str, jax.Array], right: Named) -> Named:
    """The inverse of the Gram operator."""
    match method(part):
        case "dense":
            return part.elements((factored.inverse @ part.flat(right)) @ factored.inverse)
        case "elimination":
            return block_elimination.solve(part, factored.inverse, right)
        case "iterative":
            return half_eliminated.solve(part, factored.inverse, tensors(part, factored, arrays), arrays, right)
    (family,) = part.families
    return {family.name: one_family.solve(factored.inverse, right[family.name])}


def solve(part: Component, factored: FactoredGram, arrays: Mapping[str, jax.Array], right: Named) -> Named:
    """Algebra elements with `V^T V xi = right`, of minimum norm where they are not unique."""
    matvec = lambda elements: gram.apply(part, tensors(part, factored, arrays), arrays, elements)
    fixed, here = jax.lax.stop_gradient((factored, dict(arrays)))

    def invert(_: Callable[[Named], Named], b: Named) -> Named:
        return part.project(_inverse(part, fixed, here, part.project(b)))

    return jax.lax.custom_linear_solve(matvec, right, invert, symmetric=True)


def nearby(part: Component, factored: FactoredGram, arrays: Named, right: Named) -> Named:
    """The same at arrays near those that are factored, as along a path: by conjugate gradients from the factors there.

    One linear system, whose solution is differentiated, not the way to it.
    """
    if method(part) == "iterative":
        return solve(part, factor(part, arrays), arrays, right)
    held = gram.data(part, arrays)
    fixed, here, start = jax.lax.stop_gradient((held, dict(arrays), factored))
    like = jax.eval_shape(lambda: right)
    # One vector: JAX's derivatives of the solution refuse a right side of which some arrays do not move.
    matvec = lambda x: ravel(gram.apply(part, held, arrays, unravel(like, x)))

    def invert(_: Callable[[jax.Array], jax.Array], b: jax.Array) -> jax.Array:
        named = lambda x: part.project(unravel(like, x))
        product = lambda x: ravel(gram.apply(part, fixed, here, named(x)))
        inverse = lambda x: ravel(part.project(_inverse(part, start, here, named(x))))
        return ravel(named(iterative.conjugate_gradients(product, inverse, ravel(named(b)))))

    return unravel(like, jax.lax.custom_linear_solve(matvec, ravel(right), invert, symmetric=True))


def slowest(part: Component, factored: FactoredGram) -> jax.Array | None:
    """A bound on the coordinates of a vertical vector of length one: on the inverse's root; nothing where unknown."""
    if method(part) == "dense":
        inverse = factored.inverse.T @ factored.inverse
        size = jnp.linalg.norm(inverse)
        square = inverse @ (inverse / size)
        # The largest eigenvalue is at most the fourth root of the norm of the fourth power.
        return size**0.375 * jnp.linalg.norm(square @ (square / size)) ** 0.125
    weights = factored.inverse.weights if method(part) == "separate" else None
    return None if weights is None else jnp.sqrt(jnp.max(weights, initial=0))


def split(
    part: Component, factored: FactoredGram, arrays: Mapping[str, jax.Array], vectors: Mapping[str, jax.Array]
) -> tuple[Named, Named]:
    """The algebra elements of the vertical part of `vectors`, and what is left without it.

    A projection in floating point is repeated on what it left: every pass divides the vertical rest by
    `eps * cond`. Whether a large component needs a second pass is found once, when it is factored.
    """
    start = {name: vectors[name] for name in part.moved}

    def rest(found: Named) -> Named:
        moved = part.velocity(arrays, found)
        return {name: start[name] - moved[name] for name in start}

    def step(vector: Named) -> Named:
        return solve(part, factored, arrays, part.covelocity(arrays, vector))

    more = lambda elements: add(elements, 1, step(rest(elements)))
    if factored.passes is None:
        zero = part.elements(jnp.zeros(part.dimension, jnp.result_type(*arrays.values())))
        found = jax.lax.fori_loop(0, _PASSES_OF_SMALL, lambda _, elements: more(elements), zero)
    else:
        found = step(start)
        found = jax.lax.cond(factored.passes > 1, more, lambda elements: elements, found)
    return found, rest(found)


@functools.partial(jax.jit, static_argnums=0)
def _passes(part: Component, factored: FactoredGram, arrays: Mapping[str, jax.Array]) -> jax.Array:
    """Once or twice: from how well one pass finds known elements, which lie mostly along the slowest directions."""
    draw = jax.random.normal(jax.random.key(0), (part.dimension,), jnp.result_type(*arrays.values()))
    right = part.project(part.elements(draw))
    known = solve(part, factored, arrays, right)
    found = solve(part, factored, arrays, part.covelocity(arrays, part.velocity(arrays, known)))
    missing = add(known, -1, found)
    image = gram.apply(part, tensors(part, factored, arrays), arrays, missing)
    square = dot(missing, image) / jnp.maximum(dot(known, right), jnp.finfo(draw.dtype).tiny)
    lost = jnp.sqrt(jnp.maximum(square, 0))
    goal = float(jnp.finfo(draw.dtype).eps) ** 0.8
    return 1 + (lost > goal).astype(int)
