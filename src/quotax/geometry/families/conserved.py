r"""Conserved quantities of gradient flow, one set per family, derived from its generators.

Let the loss be constant on orbits, so that $\langle \nabla L, X_\xi\rangle = 0$ for every generator. Where a generator
is itself a gradient, $X_\xi = \nabla J_\xi$, gradient flow $\dot\theta = -\nabla L$ keeps it:
$\dot J_\xi = -\langle X_\xi, \nabla L\rangle = 0$. A field is a gradient exactly when its Jacobian is symmetric,
$\partial X_i/\partial\theta_j = \partial X_j/\partial\theta_i$, which is decided here on the general entry of the
field's terms: it holds for every $\xi$ (scalings, shifts), for symmetric $\xi$ (GL), or for none (rotations, and a
shift that a weight carries).

Charges of one family are one array, stated without the factor 1/2: $2 J_\xi = \langle \xi, A\rangle$ with
$A = W_1 W_1^T - W_2^T W_2$ for GL, $|\mathrm{row}|^2 - |\mathrm{col}|^2$ for a scaling. A family of shifts only has
$J_\xi = \langle\xi, A\rangle$ itself: column sums for a softmax head.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import sympy as sp

from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.presenting import Result
from quotax.symmetry import Group, Term
from quotax.symmetry.new_entries.general_entries import extent
from quotax.trees import AnyArray, Tree

Part = Literal["all", "symmetric", "skew", "none"]
"""The algebra elements whose field is a gradient."""


class _Drift(NamedTuple):
    first: jax.Array
    second: jax.Array


class Drift(Result, _Drift):
    """What a finite step adds to a charge: `first` is linear in the step, `second` quadratic; there is no third."""

    __slots__ = ()

    @property
    def total(self) -> jax.Array:
        """The difference of the charge after and before the step."""
        return self.first + self.second


def charges(families: Sequence[Family], arrays: Mapping[str, jax.Array]) -> Named:
    """The conserved quantities at these parameters by family; a family without any is left out."""
    return {f.name: _charge(f, arrays) for f in families if count(f)}


def drift(
    families: Sequence[Family], arrays: Mapping[str, jax.Array], update: Mapping[str, jax.Array]
) -> dict[str, Drift]:
    """How a step `theta -> theta + update` changes the charges, exactly.

    The first order is the pairing of the update with the generators: it vanishes for gradients of invariant losses,
    and for every update that is horizontal in the Euclidean metric. What is left, the charge of the update itself, is
    how far a discrete step breaks a law of the flow.
    """
    drifts = {}
    for family in families:
        if count(family):
            charge = functools.partial(_charge, family)
            first = jax.jvp(charge, (dict(arrays),), (dict(update),))[1]
            drifts[family.name] = Drift(first, _charge(family, update, shifts=False))
    return drifts


def count(family: Family) -> int:
    """How many independent laws the family gives: the dimension of its generators that are gradients."""
    known = family.group.continuous and family.group.selfadjoint  # of others, symmetric elements are not looked for
    part = gradient_part(family.terms) if known else "none"
    return _dimension(family.group, family.sizes, part)


def formulas(families: Sequence[Family]) -> dict[str, sp.Expr]:
    """The general entry of every charge by family, as SymPy writes it.

    The indices of the entry are those of the group element: `h, h1` for a matrix on `h`. Where pairs of indices share
    a number they are `k, k1`, the two indices of a pair.
    """
    return {f.name: _formula(f) for f in families if count(f)}


# --- which generators are gradients


@functools.cache
def gradient_part(terms: tuple[Term, ...] | None) -> Part:
    r"""The algebra elements for which the Jacobian of the field is symmetric.

    A term `c xi[E] q[S]` of the velocity of `p[T]` has the derivative `c xi[E] delta(S, S')` by `q[S']`: an entry of
    `xi` times Kronecker deltas between the indices of `p` and of `q`. The block of `(p, q)` less the transposed
    block of `(q, p)` is a sum of such monomials; what it asks of `xi` is that `xi` be anything (all cancel),
    symmetric or skew (two are left that differ by a transposition), or nothing.
    """
    if terms is None:
        return "none"
    blocks: dict[tuple[str, str], dict[_Monomial, float]] = defaultdict(lambda: defaultdict(float))
    for term in terms:
        if term.source is None:
            continue
        if set(term.element) - set(term.source_labels) - set(term.target_labels):
            return "none"  # a sum over an index of xi alone
        blocks[term.target, term.source][_monomial(term)] += term.coefficient
    parts: set[Part] = {"all"}
    for target, source in {pair for key in blocks for pair in (key, key[::-1])}:
        rest: dict[tuple[object, object], dict[tuple[_Label, ...], float]] = defaultdict(lambda: defaultdict(float))
        for (deltas, element), coefficient in blocks[target, source].items():
            rest[deltas, _untransposed(element)][element] += coefficient
        for monomial, coefficient in blocks[source, target].items():
            deltas, element = _transpose(monomial)
            rest[deltas, _untransposed(element)][element] -= coefficient
        parts |= {_solve(equation) for equation in rest.values()}
    parts.discard("all")
    return "all" if not parts else parts.pop() if len(parts) == 1 else "none"


# The positions of the target are `(0, j)`, those of the source `(1, k)`; a delta identifies one of each, and the
# identified index is called after the target.
_Label = tuple[int, int]
_Monomial = tuple[frozenset[tuple[int, int]], tuple[_Label, ...]]


def _monomial(term: Term) -> _Monomial:
    target, source = term.target_labels, term.source_labels
    deltas = frozenset((target.index(s), k) for k, s in enumerate(source) if s in target)
    place = lambda s: (0, target.index(s)) if s in target else (1, source.index(s))
    return deltas, tuple(place(s) for s in term.element)


def _transpose(monomial: _Monomial) -> _Monomial:
    deltas, element = monomial
    swapped = frozenset((k, j) for j, k in deltas)
    called = {(1, k): (0, j) for j, k in swapped}
    exchange = ((1 - side, place) for side, place in element)
    return swapped, tuple(called.get(label, label) for label in exchange)


def _untransposed(element: tuple[_Label, ...]) -> Tree:
    """What the entries of `xi` and of its transpose have in common."""
    return element[:-2], frozenset(element[-2:])


def _solve(equation: Mapping[tuple[_Label, ...], float]) -> Part:
    left = {element: c for element, c in equation.items() if abs(c) > 1e-12}
    if not left:
        return "all"
    if len(left) == 2:
        first, second = left.values()
        return "symmetric" if first == -second else "skew" if first == second else "none"
    return "none"


# --- the charges


def _dimension(group: Group, sizes: Mapping[str, int], part: Part) -> int:
    """The dimension of the elements of the algebra whose fields are gradients."""
    whole = group.dimension(sizes)
    if part in ("all", "none"):
        return whole if part == "all" else 0
    symmetric = group.selfadjoint_dimension(sizes)
    return symmetric if part == "symmetric" else whole - symmetric


def _charge(family: Family, arrays: Mapping[str, jax.Array], *, shifts: bool = True) -> jax.Array:
    """The derivative of `2 J` (of `J`, where every term is a shift) by the entries of `xi`."""
    group, sizes = family.group, family.sizes
    moment: AnyArray = 0
    for term in _terms(family):
        target = _split(family, term.target, arrays)
        if term.source is None:
            moment += _factor(family) * shifts * term.coefficient * _einsum(term, target)
        else:
            moment += term.coefficient * _einsum(term, target, _split(family, term.source, arrays))
    part = gradient_part(family.terms)
    if part in ("symmetric", "skew"):
        moment = (moment + (1 if part == "symmetric" else -1) * jnp.swapaxes(moment, -1, -2)) / 2
    if not group.paired:
        return group.pairing(moment) if _shared(group) else group.nearest(moment, sizes)
    return group.pairing(moment)[..., 0 if part == "symmetric" else 1]


def _shared(group: Group) -> bool:
    """Whether pairs of indices share a factor."""
    return group.layout == "diagonal" and not group.free


def _terms(family: Family) -> tuple[Term, ...]:
    return family.terms or ()


def _factor(family: Family) -> int:
    """What `J` is multiplied by: two, unless it is linear."""
    return 1 if all(term.source is None for term in _terms(family)) else 2


def _split(family: Family, name: str, arrays: Mapping[str, jax.Array]) -> jax.Array:
    return jnp.reshape(arrays[name], family.splits[name])


def _einsum(term: Term, target: jax.Array, *source: jax.Array) -> jax.Array:
    """The pairing of the target with the term's velocity, as a covector in `xi`."""
    words = [term.target_labels, *([term.source_labels] if source else [])]
    return jnp.einsum(f"{','.join(words)}->{term.element}", target, *source, precision="highest")


# --- formulas


def _formula(family: Family) -> sp.Expr:
    group, part = family.group, gradient_part(family.terms)
    entry = tuple(_index(axis, group.element_axes[:i]) for i, axis in enumerate(group.element_axes))
    total = sp.Add(*(_term_formula(family, term, entry) for term in _terms(family)))
    if part in ("symmetric", "skew"):
        swapped = _swap(total, *entry[-2:])
        total = total if part == "symmetric" and _same(total, swapped) else (total + swapped) / 2
    if group.paired:
        diagonal = lambda index: total.subs({entry[-2]: index, entry[-1]: index}, simultaneous=True)
        total = diagonal(entry[-2]) + diagonal(entry[-1])
    if _shared(group):
        total += total.subs(entry[-1], _index(str(group.axis), [str(index) for index in entry]))
    return total


def _term_formula(family: Family, term: Term, entry: tuple[sp.Symbol, ...]) -> sp.Expr:
    axes = {spec.name: tuple(factor for axis in spec.axes for factor in axis) for spec in family.specs}
    index: dict[str, sp.Symbol] = dict(zip(term.element, entry, strict=True))
    limits = []
    words = [(term.target, term.target_labels), *([(term.source, term.source_labels)] if term.source else [])]
    for name, labels in words:
        for label, factor in zip(labels, axes[name], strict=True):
            if label not in index:
                taken = [str(symbol) for symbol in index.values()]
                index[label] = _index(factor if isinstance(factor, str) else "i", taken)
                limits.append((index[label], 0, extent(factor) - 1))
    product = sp.nsimplify(term.coefficient) * (_factor(family) if term.source is None else 1)
    for name, labels in words:
        indices = tuple(index[label] for label in labels)
        product *= sp.Indexed(sp.IndexedBase(name), *indices) if indices else sp.Symbol(name)
    return sp.Sum(product, *limits) if limits else product


def _index(axis: str, taken: Sequence[str]) -> sp.Symbol:
    """An index called after its axis, numbered where that name is taken."""
    number = sum(str(other).rstrip("0123456789") == axis for other in taken)
    return sp.Symbol(f"{axis}{number or ''}", integer=True)


def _swap(expression: sp.Expr, first: sp.Symbol, second: sp.Symbol) -> sp.Expr:
    return expression.subs({first: second, second: first}, simultaneous=True)


def _same(left: sp.Expr, right: sp.Expr) -> bool:
    return sp.expand(left - right) == 0
