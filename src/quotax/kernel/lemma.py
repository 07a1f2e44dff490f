r"""What a lemma makes of a function, or of a reduction, of tensors that move by laws.

A law says how an argument moves: by permutations of its places, a common factor, a common shift. The effects that a
function has on a factor and on a shift are statements about real numbers, which a prover decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import sympy as sp

from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Extreme, Function, What
from quotax.kernel.images import Images, Refused
from quotax.kernel.indices import Bound, Free, Index
from quotax.kernel.polynomials import Atom, Factor, Poly, fraction, renamed, slot
from quotax.kernel.transformation import (
    Effect,
    Law,
    applied,
    exponential,
    identities,
    kind_of,
    leads,
    permutes,
    scaled,
    touches,
)

Prover = Callable[[Sequence[sp.Expr], Sequence[sp.Expr]], bool]
"""Decides identities of expressions in real symbols."""

Z = sp.Symbol("z0", real=True)
"""The first argument of every function."""
_DEPTH = 4
"""A composition is written out through this many functions."""

Leaves = dict[tuple[int, tuple[Index, ...]], sp.Symbol]
"""The entries that a composition is made of, with their symbols."""


def arguments_of(known: Images, atom: Atom, composed: int) -> tuple[sp.Expr | None, tuple[sp.Symbol, ...], list[Poly]]:
    """The function that an atom is of its arguments; composed, of the entries that its arguments are made of."""
    match atom.what:
        case kinds.Reduction():
            return None, (Z,), [atom.what.definition]
        case kinds.NamedSum(poly) if composed:
            function, args = Function(Z, (Z,), atom.name), (poly,)
        case kinds.Application(function, args, _):
            pass
        case _:
            raise Refused(f"{atom.name} is no function")
    if not composed:
        return function.expression, function.symbols, list(args)
    leaves: Leaves = {}
    inner = [_written(known, a, leaves, 0, composed > 1) for a in args]
    if any(e is None for e in inner):
        raise Refused("its arguments are no functions of single entries")
    whole = function.expression.xreplace(dict(zip(function.symbols, inner, strict=True)))
    joint = tuple(sp.Symbol(f"z{k}", real=True) for k in range(len(leaves)))
    whole = whole.xreplace(dict(zip(leaves.values(), joint, strict=True)))
    return whole, joint, [{(Factor(number, at, 1),): Fraction(1)} for number, at in leaves]


def _written(known: Images, poly: Poly, leaves: Leaves, depth: int, sums: bool) -> sp.Expr | None:
    if depth > _DEPTH:
        return None
    total: sp.Expr = sp.Integer(0)
    for term, coefficient in poly.items():
        if known.algebra.bound_in(term):
            return None
        product: sp.Expr = sp.Rational(coefficient.numerator, coefficient.denominator)
        for number, at, power in term:
            value = _opened(known, number, at, leaves, depth, sums)
            if value is None:
                value = leaves.setdefault((number, at), sp.Symbol(f"leaf{len(leaves)}", real=True))
            product *= value ** sp.Rational(str(power))
        total += product
    return total


def _opened(
    known: Images, number: int, at: tuple[Index, ...], leaves: Leaves, depth: int, sums: bool
) -> sp.Expr | None:
    """A function, or a named sum of few entries, as an expression in what it is made of."""
    what = known.algebra.atoms[number].what
    if isinstance(what, kinds.NamedSum) and (sums or _chooses(known, what.poly)):
        if any(known.algebra.bound_in(t) for t in what.poly) or len(what.poly) > 6:
            return None
        return _written(known, known.algebra.at(what.poly, at), leaves, depth + 1, sums)
    if not isinstance(what, kinds.Application):
        return None
    function = what.function
    before = dict(leaves)
    inner = [_written(known, known.algebra.at(a, at), leaves, depth + 1, sums) for a in what.arguments]
    if any(e is None for e in inner):
        leaves.clear()
        leaves.update(before)
        return None
    return function.expression.xreplace(dict(zip(function.symbols, inner, strict=True)))


def _chooses(known: Images, poly: Poly) -> bool:
    """Whether a sum is a choice written out: it has a truth value in it."""
    return any(known.algebra.atoms[n].sign == "boolean" for term in poly for n, _, _ in term)


def lemma_image(
    known: Images, prove: Prover, atom: Atom, laws: Sequence[Law], effects: Sequence[Effect | None], composed: int
) -> Poly:
    """The image that a lemma gives, once every argument is seen to move by its law.

    Entry by entry `f(P z) = P f(z)` for a permutation P of places, if it is the same for all arguments; then
    `f(a z) = a^p f(z)`, `f(z + s) = exp(r s) f(z)` and their relatives hold at each place by the effects. What a
    reduction reads may be permuted freely, unless order matters; a factor or a shift has to be the same along it.
    """
    algebra = known.algebra
    expression, symbols, args = arguments_of(known, atom, composed)
    if len(args) != len(laws):
        raise Refused(f"{atom.name} has {len(args)} arguments")
    for law in laws:
        check_law(known, law)
    for arg, law in zip(args, laws, strict=True):
        if not known.same(applied(algebra, law, known.plain(arg), shifted=True), known.moved(arg)):
            raise Refused(f"an argument of {atom.name} does not move so")
    merged: tuple[Index, ...] = ()
    made = atom.what
    rule = None if composed else own_law(made)
    if isinstance(made, kinds.Reduction):
        merged = made.touched
        if made.law.ordered and any(i in merged for law in laws for i, _, _ in law.matrices):
            raise Refused(f"{atom.name} depends on the order of what it reads")
        if any(touches(algebra, law, merged) for law in laws):
            raise Refused(f"what moves varies along what {atom.name} reads")
    words: dict[Index, tuple[Index, tuple[Factor, ...], Index]] = {}
    for law in laws:
        for index, word, end in law.matrices:
            if not permutes(algebra, word) or not leads(word, index, end):
                raise Refused(f"{atom.name} does not commute with a matrix")
            if words.setdefault(index, (index, word, end)) != (index, word, end):
                raise Refused("two arguments are permuted in two ways")
    for arg, law in zip(args, laws, strict=True):
        # what does not have an index is constant along it, and a permutation leaves that alone
        used = {i for i in algebra.free_in(known.plain(arg)) if i in words}
        if used - {i for i, _, _ in law.matrices}:
            raise Refused("one argument is permuted and another is not")
    factors = {law.factor for law in laws if law.factor != (1, ())}
    shifts = [law.shift for law in laws if law.shift]
    if len(factors) > 1 or any(s != shifts[0] for s in shifts):
        raise Refused("two arguments move in two ways")
    kept = tuple(words[i] for i in words if i not in merged)
    if isinstance(made, kinds.Reduction) and made.law.follows:
        # the place of an entry moves with the entry
        new = slot(len(atom.slots) - 1, atom.slots[-1])
        kept += tuple((new, tuple(renamed(w, {i: new})), end) for i, w, end in words.values() if i in merged)
    out = applied(algebra, Law(matrices=kept), known.entry(atom.number)) if kept else known.entry(atom.number)
    if factors:
        (factor,) = factors
        kind = kind_of(algebra, *factor)
        chosen = [z for z, law in zip(symbols, laws, strict=True) if law.factor != (1, ())]
        effect = _effect(prove, expression, rule, chosen, kind, effects[0])
        image = scaled(algebra, out, effect, *factor)
        if image is None:
            raise Refused("the effect of a factor cannot be written")
        out = image
    if shifts:
        chosen = [z for z, law in zip(symbols, laws, strict=True) if law.shift]
        effect = _effect(prove, expression, rule, chosen, "shift", effects[1])
        if effect.rate:
            out = algebra.multiply(out, exponential(algebra, shifts[0], effect.rate))
        if effect.shift:
            out = algebra.add(out, shifts[0], fraction(effect.shift))
    return out


def check_law(known: Images, law: Law) -> None:
    """A law has factors at free indices, and matrices on them: nothing in it is summed with what it acts on."""
    if not law.coefficient:
        raise Refused("a law with the factor zero")
    if any(not isinstance(index, Free) for index, _, _ in law.matrices):
        raise Refused("a matrix acts on an index that is not free")
    if any(ix.has(i, Bound) for _, at, _ in law.scale for i in at):
        raise Refused("a factor is summed")
    for factors in (law.scale, *(word for _, word, _ in law.matrices), *law.shift):
        known.formed(factors)


def _effect(prove: Prover, expression: sp.Expr | None, rule: Extreme | None, chosen: list[sp.Symbol], kind: str | None,
    effect: Effect | None,
) -> Effect:  # fmt: skip
    """The effect, once it is seen to be one: of a reduction by its law, of a function by the prover."""
    if kind is None or effect is None:
        raise Refused("a factor may vanish, or nothing is said of what it does")
    if rule is not None:
        if effect != extreme_effect(rule, kind) or chosen != [Z]:
            raise Refused("a reduction does not move so")
    elif expression is None or not all(
        prove([left], [right]) for left, right in identities(expression, chosen, kind, effect)
    ):
        raise Refused(f"no proof that {effect.words}")
    return effect


def own_law(what: What) -> Extreme | None:
    """How a reduction behaves, or a function that no formula describes."""
    if isinstance(what, kinds.Reduction):
        return what.law
    return what.function.law if isinstance(what, kinds.Application) else None


def extreme_effect(rule: Extreme, kind: str) -> Effect | None:
    """What a maximum and its relatives make of a positive factor, or of a shift, common to all that they read."""
    if kind == "shift":
        if rule.shift is None:
            return None
        words = "of a common shift, it moves along" if rule.shift else "a common shift does not change it"
        return Effect(shift=sp.Integer(int(rule.shift)), words=words)
    if kind != "positive" or rule.scale is None:
        return None
    if rule.scale == "same":
        return Effect(power=sp.Integer(1), words="a common positive factor comes out of it")
    return Effect(words="a common positive factor does not change it")
