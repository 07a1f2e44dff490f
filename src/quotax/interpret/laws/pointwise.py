"""Elementwise functions: what the action makes of their values, by lemmas about scalar functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import sympy as sp

from quotax.interpret.laws import indices as ix
from quotax.interpret.laws import tensors
from quotax.interpret.laws.algebra import Algebra, Factor, Poly
from quotax.interpret.laws.indices import Index
from quotax.interpret.laws.lemmas import Effect
from quotax.interpret.laws.reading import Break, Joint
from quotax.interpret.laws.tensors import Constant, Law, NoLaw, Tensor, find_law

_COMPOSED = 30
"""Compositions with more nodes than this are not given to the lemma search."""


@dataclass(frozen=True)
class Function:
    """A function of the entries at one place: a SymPy expression in `symbols`, or a rule for values that have none."""

    expression: sp.Expr
    symbols: tuple[sp.Symbol, ...]
    name: str


def variables(count: int) -> tuple[sp.Symbol, ...]:
    """The symbols of a function's arguments."""
    return tuple(sp.Symbol(f"z{k}", real=True) for k in range(count))


def operands(step: Joint, args: Sequence[Any]) -> list[Tensor]:
    """The operands at the output's shape: a scalar, or a dimension of size one, is an index that does not occur."""
    shapes = step.out_shapes
    rank = len(shapes[0])
    extents = [tuple(s[d] for s in shapes) for d in range(rank)]
    dims: list[tuple[ix.Range, ...]] = [() if ix.trivial(e) else (e,) for e in extents]
    for k, arg in enumerate(args):
        if isinstance(arg, Tensor) and len(arg.dims) == rank:
            for d, extent in enumerate(extents):
                if arg.dims[d] and tuple(s[d] for s in step.shapes(k)) == extent:
                    dims[d] = tuple(tensors.common_factors(dims[d], arg.dims[d])[1])
    out: list[Tensor] = []
    for k, arg in enumerate(args):
        own = step.shapes(k)
        if len(own[0]) not in (0, rank):
            raise NoLaw("its operands have different ranks")
        whole = len(own[0]) == rank and rank > 0
        full = [whole and tuple(s[d] for s in own) == e for d, e in enumerate(extents)]
        if isinstance(arg, Constant):
            arg = step.domain.tensor(
                arg, tuple(f if kept else () for f, kept in zip(dims, full, strict=True)) if whole else None
            )
        value = Tensor(arg.dims if whole else ((),) * rank, arg.plain, arg.moved)
        fine = tensors.refined(
            step.domain.algebra, value, tuple(f if kept else () for f, kept in zip(dims, full, strict=True))
        )
        out.append(Tensor(tuple(dims), fine.plain, fine.moved))
    return out


def rational(poly: Poly) -> Fraction | None:
    """The number that a polynomial is, if it is one."""
    if not poly:
        return Fraction(0)
    return poly[()] if set(poly) == {()} else None


def scalar_function(step: Joint, args: Sequence[Any]) -> tuple[Function, list[int]]:
    """The primitive as a SymPy function of those arguments that are not plain numbers; and which ones those are."""
    from quotax.interpret.evaluate import evaluate
    from quotax.interpret.symbolic import SYMBOLIC

    params = step.params[0]
    if any(repr(p) != repr(params) for p in step.params[1:]):
        raise NoLaw("its settings depend on the sizes")
    inline: dict[int, np.ndarray] = {}
    for k, arg in enumerate(args):
        if isinstance(arg, Constant):
            values = {float(v) for a in arg.arrays for v in np.unique(a)}
            if len(values) == 1 or all(v != v for v in values):
                inline[k] = np.asarray(arg.arrays[0]).reshape(-1)[0]
    kept = [k for k in range(len(args)) if k not in inline]
    symbols = variables(len(kept))
    shaped = [jax.ShapeDtypeStruct((), avals[0].dtype) for avals in step.inputs]
    with jax.enable_x64(True):
        closed = jax.make_jaxpr(lambda *xs: step.primitive.bind(*xs, **params))(*shaped)
    values = []
    for k in range(len(args)):
        if k in inline:
            values.append(np.asarray(inline[k], step.inputs[k][0].dtype))
        elif step.kind(k) == "b":
            values.append(np.array(sp.Ne(symbols[kept.index(k)], 0), dtype=object))
        else:
            values.append(np.array(symbols[kept.index(k)], dtype=object))
    (out,) = evaluate(closed, SYMBOLIC, values)
    value = out[()] if isinstance(out, np.ndarray) else out
    if isinstance(value, (bool, np.bool_)):
        value = sp.true if value else sp.false
    if value in (sp.true, sp.false):
        value = sp.Integer(1 if value == sp.true else 0)
    value = sp.sympify(value)
    if not isinstance(value, sp.Expr):
        value = sp.Piecewise((1, value), (0, True))
    return Function(value, symbols, step.primitive.name), kept


def generic(step: Joint, args: list[Any]) -> list[Any]:
    """Any elementwise primitive with a symbolic meaning."""
    function, kept = scalar_function(step, args)
    values = operands(step, args)
    return [apply(step, function, [values[k] for k in kept], values[0].dims)]


def apply(step: Joint, function: Function, args: Sequence[Tensor], dims: tensors.Dims) -> Tensor:
    """The function of tensors of one shape: its value before the action, and what the action makes of it."""
    laws, algebra = step.domain, step.domain.algebra
    if not args or function.expression.is_number:
        value = algebra.number([function.expression] * laws.traces)
        return Tensor(dims, value, value)
    boolean = step.out_kind == "b"
    plain = node(algebra, function, [a.plain for a in args], boolean)
    if all(a.invariant for a in args):
        algebra.remember(plain, plain)
        return Tensor(dims, plain, plain)

    def effects(kind: str, chosen: Sequence[sp.Symbol]) -> Effect | None:
        if kind == "shift":
            return laws.lemmas.shifting(function.expression, chosen)
        return laws.lemmas.scaling(function.expression, chosen, kind)  # type: ignore[arg-type]  # one of three by now

    moved = transformed(step, plain, args, function.symbols, effects, function.name)
    if moved is None:
        moved = composed(step, function, args, plain)
    if moved is None:
        laws.breaks.append(Break(step.place, f"{function.name} of a tensor that becomes {_words(algebra, args)}"))
        moved = node(algebra, function, [a.moved for a in args], boolean)
    algebra.remember(plain, moved)
    return Tensor(dims, plain, moved)


def _words(algebra: Algebra, args: Sequence[Tensor]) -> str:
    from quotax.interpret.laws.showing import law_text

    shown = [law_text(algebra, find_law(algebra, a.plain, a.moved)) for a in args if not a.invariant]
    return " and ".join(shown)


def node(algebra: Algebra, function: Function, args: Sequence[Poly], boolean: bool = False) -> Poly:
    """The value of a function at polynomials: one atom, made once for each function and arguments."""
    if any(len(a) > 60 for a in args):
        args = [tensors.atomised(algebra, a) for a in args]
    labels = algebra.free_in(*args)
    slots = {label: ix.free(k, label[2]) for k, label in enumerate(labels)}
    definitions = tuple(algebra.substitute(a, slots) for a in args)
    numbers = [rational(d) for d in definitions]
    if all(n is not None for n in numbers):
        value = function.expression.xreplace(
            {
                z: sp.Rational(n.numerator, n.denominator)
                for z, n in zip(function.symbols, numbers, strict=True)
                if n is not None
            }
        )
        if value.is_Rational:
            return {(): Fraction(int(value.p), int(value.q))} if value else {}
    key = ("function", function.expression, tuple(frozenset(d.items()) for d in definitions))
    made = algebra.atom(
        key,
        "function",
        function.name,
        [label[2] for label in labels],
        sign="boolean" if boolean else _range(function, [tensors.sign_of(algebra, d) for d in definitions]),
        moved=any(algebra.moved(f) for d in definitions for term in d for f in term),
        data=(function, definitions),
    )
    return algebra.normal(1, [(made.number, tuple(labels), 1)])


def _range(function: Function, signs: Sequence[str]) -> str:
    symbols = {
        z: sp.Symbol(z.name, positive=True) if s == "positive" else z
        for z, s in zip(function.symbols, signs, strict=True)
    }
    value = function.expression.xreplace(symbols)
    return "positive" if value.is_positive else "nonnegative" if value.is_nonnegative else "real"


# --- assembling the image of a value from the laws of its arguments


def transformed(
    step: Joint,
    plain: Poly,
    args: Sequence[Tensor],
    symbols: Sequence[sp.Symbol],
    effects: Callable[[str, Sequence[sp.Symbol]], Effect | None],
    name: str,
    merged: Sequence[Index] = (),
    fixed: Sequence[Index] = (),
) -> Poly | None:
    """What the action makes of `plain`, a function of `args`; None when no lemma says it.

    `merged` are indices that the function reduces in any order (a permutation of them is forgotten); along `fixed`
    ones nothing may be permuted. Neither may carry a factor or a shift that varies.
    """
    laws, algebra = step.domain, step.domain.algebra
    found = [find_law(algebra, a.plain, a.moved) for a in args]
    if any(law is None for law in found):
        return None
    rules = [law for law in found if law is not None]
    blocked = set(merged) | set(fixed)
    matrices: dict[Index, Any] = {}
    for law in rules:
        for index, word, end in law.matrices:
            if index in fixed or any(not algebra.atoms[f[0]].rows for f in word):
                return None
            shape = (_wordshape(word, index, end), word, end)
            if matrices.setdefault(index, shape)[0] != shape[0]:
                return None
    for arg, law in zip(args, rules, strict=True):
        here = {m[0] for m in law.matrices}
        used = set(algebra.free_in(arg.plain))
        if any(index in used and index not in here for index in matrices):
            return None
        if any(i in blocked for _, at, _ in law.scale for j in at for i in ix.atoms(j)):
            return None
        if any(i in blocked for i in algebra.free_in(law.shift)):
            return None
    factors = {law.factor for law, a in zip(rules, args, strict=True) if a.plain and law.factor != (1, ())}
    shifts = [law.shift for law in rules if law.shift]
    if len(factors) > 1 or any(s != shifts[0] for s in shifts):
        return None
    out = _permuted(algebra, plain, matrices, merged)
    if factors:
        ((coefficient, scale),) = factors
        kind = kind_of(algebra, coefficient, scale)
        if kind is None:
            return None
        chosen = [z for z, law, a in zip(symbols, rules, args, strict=True) if a.plain and law.factor != (1, ())]
        effect = effects(kind, chosen)
        if effect is None:
            return None
        result = _scaled(algebra, out, effect, coefficient, scale, laws.traces)
        if result is None:
            return None
        laws.record(f"{name}: {effect.words}")
        out = result
    if shifts:
        effect = effects("shift", [z for z, law in zip(symbols, rules, strict=True) if law.shift])
        if effect is None:
            return None
        if effect.rate:
            out = algebra.multiply(out, exponential(algebra, shifts[0], effect.rate))
        if effect.shift:
            out = algebra.add(out, shifts[0], Fraction(int(effect.shift.p), int(effect.shift.q)))
        laws.record(f"{name}: {effect.words}")
    if matrices:
        laws.record(f"{name}: commutes with a permutation of an axis")
    return out


def _wordshape(word: Sequence[Factor], start: Index, end: Index) -> Any:
    inner: dict[Index, str] = {start: "start", end: "end"}
    return tuple((a, tuple(inner.get(i, i if i[0] == ix.FREE else "inner") for i in at), p) for a, at, p in word)


def _permuted(algebra: Algebra, plain: Poly, matrices: dict[Index, Any], merged: Sequence[Index]) -> Poly:
    kept = [(index, word, end) for index, (_, word, end) in matrices.items() if index not in merged]
    return tensors.applied(algebra, Law(matrices=tuple(kept)), plain) if kept else plain


def kind_of(algebra: Algebra, coefficient: Fraction, scale: Sequence[Factor]) -> str | None:
    """Whether a factor is positive, a sign, or nonzero; None when it may vanish."""
    signs = "positive" if coefficient > 0 else "sign"
    positive = abs(coefficient) == 1
    for number, _, power in scale:
        sign = algebra.atoms[number].sign
        whole = power == int(power)
        if sign == "positive" or (sign == "nonzero" and whole and int(power) % 2 == 0):
            positive = False
        elif sign == "sign":
            signs = "sign"
        elif sign == "nonzero" and whole:
            signs, positive = "sign", False
        else:
            return None
    if signs == "positive":
        return "positive"
    return "sign" if positive else "nonzero"


def _scaled(
    algebra: Algebra, value: Poly, effect: Effect, coefficient: Fraction, scale: Sequence[Factor], traces: int
) -> Poly | None:
    if effect.logs:
        total = logarithm(algebra, coefficient, scale, traces)
        return None if total is None else algebra.add(value, total, _fraction(effect.logs))
    centre = algebra.number([effect.centre] * traces) if effect.centre else {}
    factor = powered(algebra, coefficient, scale, effect, traces)
    if factor is None:
        return None
    return algebra.add(algebra.multiply(algebra.add(value, centre, -1), factor), centre)


def _fraction(value: Any) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def powered(
    algebra: Algebra, coefficient: Fraction, scale: Sequence[Factor], effect: Effect, traces: int
) -> Poly | None:
    """The factor to the power of the effect, through absolute values where the effect says so."""
    power = _fraction(effect.power)
    power = int(power) if power.denominator == 1 else power
    if effect.absolute:
        coefficient = abs(coefficient)
    if coefficient < 0 and power != int(power):
        return None
    number = {(): coefficient ** int(power)} if power == int(power) else algebra.root(coefficient, power)
    factors = []
    for atom, at, p in scale:
        sign = algebra.atoms[atom].sign
        if effect.absolute and sign == "sign":
            continue
        if sign == "nonzero" and (effect.absolute or power != int(power)):
            absolute = magnitude(algebra, atom)
            factors.append((absolute, at, p * power))
        elif sign == "sign" and power != int(power):
            return None
        else:
            factors.append((atom, at, p * power))
    return algebra.multiply(number, algebra.normal(1, factors))


def magnitude(algebra: Algebra, atom: int) -> int:
    """The absolute value of an entry that may be negative."""
    base = algebra.atoms[atom]
    return algebra.atom(
        ("abs", atom), "abs", f"|{base.name}|", base.slots, sign="positive", moved=base.moved, data=atom
    ).number


def exponential(algebra: Algebra, poly: Poly, rate: Any = 1) -> Poly:
    """`exp(rate * poly)`, as a product of one factor for each term."""
    factors: list[Factor] = []
    for term, coefficient in poly.items():
        labels = algebra.free_in({term: Fraction(1)})
        slots = {label: ix.free(k, label[2]) for k, label in enumerate(labels)}
        key = frozenset(algebra.substitute({term: Fraction(1)}, slots).items())
        made = algebra.atom(
            ("exp", key), "exp", "exp", [label[2] for label in labels], sign="positive", moved=True, data=dict(key)
        )
        factors.append((made.number, tuple(labels), coefficient * Fraction(str(rate))))
    return algebra.normal(1, factors)


def logarithm(algebra: Algebra, coefficient: Fraction, scale: Sequence[Factor], traces: int) -> Poly | None:
    """The logarithm of the absolute value of a factor."""
    out: Poly = {}
    if abs(coefficient) != 1:
        out = algebra.number([float(np.log(abs(float(coefficient))))] * traces)
    for number, at, power in scale:
        atom = algebra.atoms[number]
        if atom.sign == "sign":
            continue
        if atom.kind == "exp":
            return None
        made = algebra.atom(("log", number), "element", f"log|{atom.name}|", atom.slots, moved=True)
        out = algebra.add(out, {((made.number, at, 1),): Fraction(1)}, power)
    return out


# --- compositions


def composed(step: Joint, function: Function, args: Sequence[Tensor], plain: Poly) -> Poly | None:
    """The function as a composition: its arguments written out in the entries they are made of, at the same place."""
    laws, algebra = step.domain, step.domain.algebra
    leaves: dict[tuple[int, tuple[Index, ...]], sp.Symbol] = {}
    inner = []
    for arg in args:
        expression = _written(algebra, arg.plain, leaves, 0)
        if expression is None:
            return None
        inner.append(expression)
    whole = function.expression.xreplace(dict(zip(function.symbols, inner, strict=True)))
    if whole == function.expression or len(list(sp.preorder_traversal(whole))) > _COMPOSED or not leaves:
        return None
    values = []
    for number, at in leaves:
        image = algebra.image(number, at)
        if image is None:
            return None
        values.append(Tensor((), {((number, at, 1),): Fraction(1)}, image))
    symbols = list(leaves.values())
    joint = tuple(variables(len(symbols)))
    whole = whole.xreplace(dict(zip(symbols, joint, strict=True)))

    def effects(kind: str, chosen: Sequence[sp.Symbol]) -> Effect | None:
        if kind == "shift":
            return laws.lemmas.shifting(whole, chosen)
        return laws.lemmas.scaling(whole, chosen, kind)  # type: ignore[arg-type]  # one of three by now

    return transformed(step, plain, values, joint, effects, f"composition with {function.name}")


def _written(
    algebra: Algebra, poly: Poly, leaves: dict[tuple[int, tuple[Index, ...]], sp.Symbol], depth: int
) -> sp.Expr | None:
    if depth > 4:
        return None
    total: sp.Expr = sp.Integer(0)
    for term, coefficient in poly.items():
        if algebra.bound_in(term):
            return None
        product: sp.Expr = sp.Rational(coefficient.numerator, coefficient.denominator)
        for number, at, power in term:
            atom = algebra.atoms[number]
            value: sp.Expr | None = None
            if atom.kind == "function":
                function, definitions = atom.data
                slots = {ix.free(k, ix.extent(i)): i for k, i in enumerate(at)}
                inner = [_written(algebra, algebra.substitute(d, slots), leaves, depth + 1) for d in definitions]
                if all(i is not None for i in inner):
                    value = function.expression.xreplace(dict(zip(function.symbols, inner, strict=True)))
            if value is None:
                value = leaves.setdefault((number, at), sp.Symbol(f"leaf{len(leaves)}", real=True))
            product *= value ** sp.Rational(str(power))
        total += product
    return total
