r"""The kernel: what decides that a claim is proved for every width.

The sheet says what the model computes, the claim how the parameters move. A `Proof` gives every atom of the sheet an
*image*, the same tensor at $g\cdot\theta$ written in the atoms at $\theta$, one step an atom:

- inputs, constants, ramps and tokens are their own images; those of parameters are the claim;
- a named sum is inlined, or has the image that a step states, if substituting the images in its definition gives it;
- a function or a reduction of tensors that obey a law moves by a lemma, which `prove` decides as a statement about real
  numbers, or else is the function of the images of its arguments;
- what is a function of tensors that are their own images is its own image: no step says so, and what a claim does not
  reach costs nothing;
- a loop's carries have the images that a step assumes, if they hold at the start and one turn keeps them.

The claim holds when every output has the normal form of its image. Steps are data; `data.replay` does them again,
knowing nothing of how they were found. A step that does not hold raises `Refused`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import sympy as sp

from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Extreme, Function, What
from quotax.kernel.elements import Element
from quotax.kernel.indices import Affine, Bound, Fixed, Free, Index
from quotax.kernel.polynomials import UNIT, Algebra, Atom, Factor, Poly, Term, TooLarge, fraction, renamed, single, slot
from quotax.kernel.rewriting import RULES
from quotax.kernel.sheet import Loop, Sheet, definitions, named_sum, node, reduced
from quotax.kernel.sizes import Size
from quotax.kernel.transformation import (
    Effect,
    Law,
    applied,
    exponential,
    identities,
    kind_of,
    leads,
    magnitude,
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


class Refused(Exception):
    """A step does not hold."""


@dataclass(frozen=True)
class Step:
    """One step of a proof, as data.

    Attributes:
        rule: what is done.
        atom: the atom that gets its image; for a loop, its number.
        image: what it becomes, in its slots (`image`), or what each carry becomes (`assume`).
        laws: how each argument moves (`lemma`).
        effects: what the function makes of a factor and of a shift (`lemma`).
        composed: whether the lemma is one of the function with its arguments written out: the functions in them (1),
            and the sums too (2).
        words: what it says.
    """

    rule: Literal["image", "inline", "lemma", "congruence", "assume", "discharge"]
    atom: int
    image: tuple[Poly, ...] = ()
    laws: tuple[Law, ...] = ()
    effects: tuple[Effect | None, Effect | None] = (None, None)
    composed: int = 0
    words: str = ""


class Proof:
    """The images of a sheet's atoms under one claim, each established by a step."""

    def __init__(self, sheet: Sheet, element: Element, prove: Prover) -> None:
        """Nothing has moved yet: `claim` says what the parameters become."""
        self.sheet, self.element, self.prove = sheet, element, prove
        atoms = sheet.atoms.fork()
        self.algebra = Algebra(atoms, RULES, element.relations(atoms))
        self.common = len(atoms.made)
        """Atoms below this number, those of the sheet and of the group, are the same in every proof of the claim."""
        self.written = len(sheet.atoms.made)
        """Atoms below this number are those of the sheet."""
        self.images: dict[int, Poly] = {}
        self.inlined: dict[int, Poly] = {}
        self._open: dict[int, tuple[Poly, ...]] = {}
        self._moved: dict[Any, Poly] = {}
        self._still: set[int] = set()

    # --- what a polynomial is, before and after

    def claim(self, images: Mapping[str, Poly]) -> None:
        """What the action makes of the parameters, in their slots; one that is not named stays."""
        for name, number in self.sheet.parameters.items():
            self._moves(self.algebra.atoms[number], images.get(name, self.entry(number)))

    def entry(self, number: int) -> Poly:
        """An atom at its own slots."""
        at = tuple(slot(k, extent) for k, extent in enumerate(self.algebra.atoms[number].slots))
        return {(Factor(number, at, 1),): Fraction(1)}

    def plain(self, poly: Poly) -> Poly:
        """The polynomial with inlined atoms written out."""
        inlined = any(number in self.inlined for term in poly for number, _, _ in term)
        return self._substituted(poly, self.inlined.get) if inlined else poly

    def moved(self, poly: Poly) -> Poly:
        """The polynomial with every atom replaced by its image."""
        if all(self.stays(number) for term in poly for number, _, _ in term):
            return poly
        key = frozenset(poly.items())
        if key not in self._moved:
            self._moved[key] = self._substituted(poly, self.image)
        return self._moved[key]

    def image(self, number: int) -> Poly:
        """The image of an atom, in its slots."""
        if number in self.images:
            return self.images[number]
        atom = self.algebra.atoms[number]
        if isinstance(atom.what, kinds.Unmoved):
            return self.entry(number)
        if isinstance(atom.what, kinds.Selection) and self.moved(atom.what.poly) == self.plain(atom.what.poly):
            return self.entry(number)
        if self.stays(number):
            return self.entry(number)
        raise Refused(f"nothing says how {atom.name} moves")

    def stays(self, number: int) -> bool:
        """Whether an atom is its own image: by a step, or as what nothing moves, or as a function of such atoms."""
        waiting = [number]
        while waiting:
            here = waiting[-1]
            own = self._stays(here)
            if own is not None:
                waiting.pop()
                if not own:
                    return False
                self._still.add(here)
                continue
            parts = self.sheet.parts(here) if here < self.written else None
            unknown = None if parts is None else [part for part in parts if part not in self._still]
            if unknown is None:
                return False
            if unknown:
                waiting += unknown
            else:
                waiting.pop()
                self._still.add(here)
        return True

    def _stays(self, number: int) -> bool | None:
        """The same without a look at what it is made of: None where that is the question."""
        if number in self._still:
            return True
        if number in self.images:
            return _is_entry(self.images[number], number)
        what = self.algebra.atoms[number].what
        if isinstance(what, kinds.Unmoved):
            return True
        return None

    def _substituted(self, poly: Poly, image: Callable[[int], Poly | None]) -> Poly:
        out: Poly = {}
        for term, coefficient in poly.items():
            out = self.algebra.add(out, self._substituted_term(term, image), coefficient)
        return out

    def _substituted_term(self, term: Term, image: Callable[[int], Poly | None]) -> Poly:
        """Bound indices are free ones while factors are replaced one by one, and are summed at the end."""
        algebra = self.algebra
        summed = [Free((ix.OPENED, k), i.extent) for k, i in enumerate(algebra.bound_in(term))]
        opened: dict[Any, Index] = dict(zip(algebra.bound_in(term), summed, strict=True))
        kept: list[Factor] = []
        product: Poly = UNIT
        for number, at, power in term:
            at = tuple(ix.replaced(i, opened) for i in at)
            found = image(number)
            if found is None or _is_entry(found, number):
                kept.append(Factor(number, at, power))
            else:
                product = algebra.multiply(product, self._power(number, found, at, power))
        if not summed:
            return algebra.multiply(algebra.normal(1, kept), product)
        return algebra.multiply(algebra.normal(1, kept), product, summed)

    def _power(self, number: int, image: Poly, at: tuple[Index, ...], power: Any) -> Poly:
        """A power of the image of an entry."""
        algebra = self.algebra
        if power == int(power) and 0 < power <= 6:
            here = algebra.at(image, at)
            out = here
            for _ in range(int(power) - 1):
                out = algebra.multiply(out, here)
            return out
        found = self._monomial_power(number, image, power)
        if found is None:
            named = named_sum(algebra, image)
            ((term, coefficient),) = named.items()
            if coefficient < 0 and power != int(power):
                raise Refused(f"the root of a negative multiple of {algebra.atoms[number].name}")
            found = algebra.multiply(
                algebra.root(coefficient, power), algebra.normal(1, [term[0]._replace(power=power)])
            )
        return algebra.at(found, at)

    def _monomial_power(self, number: int, image: Poly, power: Any) -> Poly | None:
        """`(alpha T)^p = alpha^p T^p`, and a permutation passes a power.

        For a root, alpha has to be positive: an entry that may be negative is one to an even power, whose root is a
        power of its absolute value. A row of a permutation selects one entry, and the power of a sum of which one term
        is not zero is the sum of the powers.
        """
        algebra = self.algebra
        if len(image) != 1:
            return None
        ((term, coefficient),) = image.items()
        whole = power == int(power)
        if not whole and coefficient < 0:
            return None
        own = [f for f in term if f.atom == number]
        if len(own) != 1 or own[0].power != 1:
            return None
        out: list[Factor] = [own[0]._replace(power=power)]
        for factor in term:
            atom, at, p = factor
            if factor is own[0]:
                continue
            sign = algebra.atoms[atom].sign
            if permutes(algebra, [factor]):
                out.append(factor)
            elif any(ix.has(i, Bound) for i in at):
                return None
            elif sign == "positive" or (whole and sign in ("sign", "nonzero")):
                out.append(Factor(atom, at, p * power))
            elif sign == "nonzero" and p == int(p) and int(p) % 2 == 0:
                out.append(Factor(magnitude(algebra, atom), at, p * power))
            else:
                return None
        if not _permuted(algebra, term, own[0]):
            return None
        return algebra.multiply(algebra.root(coefficient, power) if coefficient > 0 else {(): coefficient**int(power)},
                                algebra.normal(1, out))  # fmt: skip

    def written_out(self, poly: Poly, most: int = 64, turns: int | None = None) -> Poly:
        """The polynomial with the definitions of its named sums written out, the last made first, while it is short.

        `turns` bounds how many definitions are.
        """
        for _ in itertools.count() if turns is None else range(turns):
            if not poly or len(poly) > most:
                break
            found = {number for term in poly for number, _, power in term if power == int(power) and power > 0}
            named = {n: what.poly for n in found if isinstance(what := self.algebra.atoms[n].what, kinds.NamedSum)}
            if not named:
                break
            last = max(named)
            poly = self._substituted(poly, {last: named[last]}.get)
        return poly

    # --- steps

    def do(self, step: Step) -> None:
        """One step; refused when it does not hold."""
        if step.rule in ("assume", "discharge"):
            (self._assume if step.rule == "assume" else self._discharge)(step)
            return
        atom = self.algebra.atoms[step.atom]
        if atom.number in self.images:
            raise Refused(f"{atom.name} has an image already")
        if step.rule == "inline":
            definition = self._definition(atom)
            self._moves(atom, self.moved(definition))
            self.inlined[atom.number] = self.plain(definition)
        elif step.rule == "image":
            definition = self._definition(atom)
            (image,) = step.image
            stated = self._substituted(image, {atom.number: self.plain(definition)}.get)
            if not self.same(stated, self.moved(definition)):
                raise Refused(f"{atom.name} does not become what is said")
            self._moves(atom, image)
        elif step.rule == "congruence":
            self._moves(atom, self._congruent(atom))
        else:
            self._moves(atom, self._lemma(atom, step))

    def _moves(self, atom: Atom, image: Poly) -> None:
        """Keep an image: a polynomial in the atom's own slots, and in no other free index."""
        slots = {slot(k, extent) for k, extent in enumerate(atom.slots)}
        if not set(self.algebra.free_in(image)) <= slots:
            raise Refused(f"the image of {atom.name} has an index that it has not")
        for term in image:
            self._formed(term)
        self.images[atom.number] = image

    def _formed(self, factors: Iterable[Factor]) -> None:
        """Every entry has as many indices as its atom has slots, each within its extent."""
        for number, at, _ in factors:
            atom = self.algebra.atoms[number]
            if [i.extent for i in at] != list(atom.slots):
                raise Refused(f"an entry of {atom.name} with the wrong indices")
            for index in (part for i in at for part in ix.inside(i)):
                self.within(index)

    def within(self, index: Index) -> None:
        """An index is one position of its extent, at all sizes that the sheet is about."""
        if isinstance(index, Bound) and index.number < 0:
            raise Refused("a summed index has a number below zero")
        if isinstance(index, Free) and (index.place[0] not in (0, 1) or index.place[1] < 0):
            raise Refused("a free index that is no slot")
        ends: list[Size] = []
        if isinstance(index, Fixed):
            ends = [index.position]
        elif isinstance(index, Affine):
            last = index.of.extent.minus(1)
            ends = [index.start, index.start.plus(last, index.stride)]
        for end in ends:
            if not (self._least(end).nonnegative and self._least(index.extent.minus(end)).positive):
                raise Refused(f"position {end} may lie outside of {index.extent}")

    def _least(self, size: Size) -> Size:
        """A size with its axes counted from the least that the sheet's conditions allow."""
        for condition in self.sheet.conditions:
            axis, _, least = condition.partition(" ≥ ")
            if least.isdigit():
                size = size.raised(axis, int(least) - 1)
        return size

    def _definition(self, atom: Atom) -> Poly:
        """The polynomial that a named sum is."""
        if not isinstance(atom.what, kinds.NamedSum):
            raise Refused(f"{atom.name} is no let")
        return atom.what.poly

    def _congruent(self, atom: Atom) -> Poly:
        """The function of the images of its arguments."""
        algebra = self.algebra
        match atom.what:
            case kinds.NamedSum(poly):
                return named_sum(algebra, image) if (image := self.moved(poly)) else {}
            case kinds.Application(function, args, boolean):
                return node(algebra, function, [self.moved(a) for a in args], boolean)
            case kinds.Reduction(name, settings, law, touched, extents, definition):
                new = [slot(len(atom.slots) - len(extents) + k, e) for k, e in enumerate(extents)]
                image = self.moved(definition)
                return reduced(algebra, image, touched, new, law, name, settings, atom.sign == "boolean")
            case _:
                raise Refused(f"{atom.name} is no function")

    def arguments(self, atom: Atom, composed: int) -> tuple[sp.Expr | None, tuple[sp.Symbol, ...], list[Poly]]:
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
        leaves: dict[tuple[int, tuple[Index, ...]], sp.Symbol] = {}
        inner = [self._written(a, leaves, 0, composed > 1) for a in args]
        if any(e is None for e in inner):
            raise Refused("its arguments are no functions of single entries")
        whole = function.expression.xreplace(dict(zip(function.symbols, inner, strict=True)))
        joint = tuple(sp.Symbol(f"z{k}", real=True) for k in range(len(leaves)))
        whole = whole.xreplace(dict(zip(leaves.values(), joint, strict=True)))
        return whole, joint, [{(Factor(number, at, 1),): Fraction(1)} for number, at in leaves]

    def _written(
        self, poly: Poly, leaves: dict[tuple[int, tuple[Index, ...]], sp.Symbol], depth: int, sums: bool
    ) -> sp.Expr | None:
        if depth > _DEPTH:
            return None
        total: sp.Expr = sp.Integer(0)
        for term, coefficient in poly.items():
            if self.algebra.bound_in(term):
                return None
            product: sp.Expr = sp.Rational(coefficient.numerator, coefficient.denominator)
            for number, at, power in term:
                value = self._opened(number, at, leaves, depth, sums)
                if value is None:
                    value = leaves.setdefault((number, at), sp.Symbol(f"leaf{len(leaves)}", real=True))
                product *= value ** sp.Rational(str(power))
            total += product
        return total

    def _opened(
        self, number: int, at: tuple[Index, ...], leaves: dict[tuple[int, tuple[Index, ...]], sp.Symbol], depth: int,
        sums: bool,
    ) -> sp.Expr | None:  # fmt: skip
        """A function, or a named sum of few entries, as an expression in what it is made of."""
        what = self.algebra.atoms[number].what
        if isinstance(what, kinds.NamedSum) and (sums or self._chooses(what.poly)):
            if any(self.algebra.bound_in(t) for t in what.poly) or len(what.poly) > 6:
                return None
            return self._written(self.algebra.at(what.poly, at), leaves, depth + 1, sums)
        if not isinstance(what, kinds.Application):
            return None
        function = what.function
        before = dict(leaves)
        inner = [self._written(self.algebra.at(a, at), leaves, depth + 1, sums) for a in what.arguments]
        if any(e is None for e in inner):
            leaves.clear()
            leaves.update(before)
            return None
        return function.expression.xreplace(dict(zip(function.symbols, inner, strict=True)))

    def _chooses(self, poly: Poly) -> bool:
        """Whether a sum is a choice written out: it has a truth value in it."""
        return any(self.algebra.atoms[n].sign == "boolean" for term in poly for n, _, _ in term)

    def _lemma(self, atom: Atom, step: Step) -> Poly:
        """The image that a lemma gives, once every argument is seen to move by its law.

        Entry by entry `f(P z) = P f(z)` for a permutation P of places, if it is the same for all arguments; then
        `f(a z) = a^p f(z)`, `f(z + s) = exp(r s) f(z)` and their relatives hold at each place by the effects. What a
        reduction reads may be permuted freely, unless order matters; a factor or a shift has to be the same along it.
        """
        algebra = self.algebra
        expression, symbols, args = self.arguments(atom, step.composed)
        if len(args) != len(step.laws):
            raise Refused(f"{atom.name} has {len(args)} arguments")
        for law in step.laws:
            self._stated(law)
        for arg, law in zip(args, step.laws, strict=True):
            if not self.same(applied(algebra, law, self.plain(arg), shifted=True), self.moved(arg)):
                raise Refused(f"an argument of {atom.name} does not move so")
        merged: tuple[Index, ...] = ()
        made = atom.what
        rule = None if step.composed else own_law(made)
        if isinstance(made, kinds.Reduction):
            merged = made.touched
            if made.law.ordered and any(i in merged for law in step.laws for i, _, _ in law.matrices):
                raise Refused(f"{atom.name} depends on the order of what it reads")
            if any(touches(algebra, law, merged) for law in step.laws):
                raise Refused(f"what moves varies along what {atom.name} reads")
        words: dict[Index, Any] = {}
        for law in step.laws:
            for index, word, end in law.matrices:
                if not permutes(algebra, word) or not leads(word, index, end):
                    raise Refused(f"{atom.name} does not commute with a matrix")
                if words.setdefault(index, (index, word, end)) != (index, word, end):
                    raise Refused("two arguments are permuted in two ways")
        for arg, law in zip(args, step.laws, strict=True):
            # what does not have an index is constant along it, and a permutation leaves that alone
            used = {i for i in algebra.free_in(self.plain(arg)) if i in words}
            if used - {i for i, _, _ in law.matrices}:
                raise Refused("one argument is permuted and another is not")
        factors = {law.factor for law in step.laws if law.factor != (1, ())}
        shifts = [law.shift for law in step.laws if law.shift]
        if len(factors) > 1 or any(s != shifts[0] for s in shifts):
            raise Refused("two arguments move in two ways")
        kept = tuple(words[i] for i in words if i not in merged)
        if isinstance(made, kinds.Reduction) and made.law.follows:
            # the place of an entry moves with the entry
            new = slot(len(atom.slots) - 1, atom.slots[-1])
            kept += tuple((new, tuple(renamed(w, {i: new})), end) for i, w, end in words.values() if i in merged)
        out = applied(algebra, Law(matrices=kept), self.entry(atom.number)) if kept else self.entry(atom.number)
        if factors:
            (factor,) = factors
            kind = kind_of(algebra, *factor)
            chosen = [z for z, law in zip(symbols, step.laws, strict=True) if law.factor != (1, ())]
            effect = self._effect(expression, rule, chosen, kind, step.effects[0])
            image = scaled(algebra, out, effect, *factor)
            if image is None:
                raise Refused("the effect of a factor cannot be written")
            out = image
        if shifts:
            chosen = [z for z, law in zip(symbols, step.laws, strict=True) if law.shift]
            effect = self._effect(expression, rule, chosen, "shift", step.effects[1])
            if effect.rate:
                out = algebra.multiply(out, exponential(algebra, shifts[0], effect.rate))
            if effect.shift:
                out = algebra.add(out, shifts[0], fraction(effect.shift))
        return out

    def _stated(self, law: Law) -> None:
        """A law has factors at free indices, and matrices on them: nothing in it is summed with what it acts on."""
        if not law.coefficient:
            raise Refused("a law with the factor zero")
        if any(not isinstance(index, Free) for index, _, _ in law.matrices):
            raise Refused("a matrix acts on an index that is not free")
        if any(ix.has(i, Bound) for _, at, _ in law.scale for i in at):
            raise Refused("a factor is summed")
        for factors in (law.scale, *(word for _, word, _ in law.matrices), *law.shift):
            self._formed(factors)

    def _effect(
        self, expression: sp.Expr | None, rule: Extreme | None, chosen: list[sp.Symbol], kind: str | None,
        effect: Effect | None,
    ) -> Effect:  # fmt: skip
        """The effect, once it is seen to be one: of a reduction by its law, of a function by the prover."""
        if kind is None or effect is None:
            raise Refused("a factor may vanish, or nothing is said of what it does")
        if rule is not None:
            if effect != extreme_effect(rule, kind) or chosen != [Z]:
                raise Refused("a reduction does not move so")
        elif expression is None or not all(
            self.prove([left], [right]) for left, right in identities(expression, chosen, kind, effect)
        ):
            raise Refused(f"no proof that {effect.words}")
        return effect

    # --- loops

    def _assume(self, step: Step) -> None:
        loop: Loop = self.sheet.loops[step.atom]
        if len(step.image) != len(loop.carries):
            raise Refused("not every carry has an image")
        for number, init, following in zip(loop.carries, loop.inits, loop.nexts, strict=True):
            slots = {slot(k, e) for k, e in enumerate(self.algebra.atoms[number].slots) if k}
            time = slot(0, loop.length)
            if not (
                set(self.algebra.free_in(init)) <= slots and set(self.algebra.free_in(following)) <= slots | {time}
            ):
                raise Refused("a carry depends on an index that it has not")
        for number, image in zip(loop.carries, step.image, strict=True):
            if number in self.images:
                raise Refused("a carry has an image already")
            self._timeless(number, image)
            self._moves(self.algebra.atoms[number], image)
        self._open[step.atom] = step.image

    def _timeless(self, number: int, image: Poly) -> None:
        """The law of a carry may not depend on time: it reads the carry at slot 0, and nothing else there."""
        time = slot(0, self.algebra.atoms[number].slots[0])
        for term in image:
            for atom, at, _ in term:
                here = [k for k, i in enumerate(at) if time in tuple(ix.inside(i))]
                if (here or atom == number) and (atom != number or here != [0] or at[0] != time):
                    raise Refused("the law of a carry depends on time")

    def _discharge(self, step: Step) -> None:
        """Base and step: with a law L, `C'[0] = L C[0]`, and `C'[t] = L C[t]` gives `C'[t + 1] = L C[t + 1]`."""
        loop: Loop = self.sheet.loops[step.atom]
        images = self._open.pop(step.atom, None)
        if images is None:
            raise Refused("nothing was assumed of this loop")
        for number, image, init, following in zip(loop.carries, images, loop.inits, loop.nexts, strict=True):
            for body in (init, following):
                if not self.same(self.carried(number, image, self.plain(body)), self.moved(body)):
                    raise Refused(f"the law of a carry of the loop at {loop.place} is not kept")

    def carried(self, number: int, image: Poly, body: Poly) -> Poly:
        """The law of a carry, applied to a polynomial in its slots other than time."""
        algebra = self.algebra
        out: Poly = {}
        for term, coefficient in image.items():
            bound = algebra.bound_in(term)
            summed = [Free((ix.OPENED, k), i.extent) for k, i in enumerate(bound)]
            factors = renamed(term, dict(zip(bound, summed, strict=True)))
            product = algebra.normal(coefficient, [f for f in factors if f.atom != number])
            for _, at, power in (f for f in factors if f.atom == number):
                if power != int(power) or power < 1:
                    raise Refused("the law of a carry has a power of it")
                here = algebra.substitute(body, {slot(k, i.extent): i for k, i in enumerate(at) if k})
                for _ in range(int(power)):
                    product = algebra.multiply(product, here)
            out = algebra.add(out, algebra.multiply(UNIT, product, summed))
        return out

    # --- the end

    def settled(self) -> bool:
        """Whether every output is its own image, every guard stays, and no loop is left open."""
        if self._open:
            return False
        for guard in self.sheet.guards:
            if guard.predicate is None:
                return False
            predicate = dict(guard.predicate)
            if self.same(self.moved(predicate), self.plain(predicate)):
                continue
            if guard.together is None or not self._permuted_entry(dict(guard.together)):
                return False
        return all(self.same(self.moved(output), self.plain(output)) for output in self.sheet.outputs)

    def _permuted_entry(self, poly: Poly) -> bool:
        """Whether an entry becomes the same entry in permuted places."""
        moved = self.moved(poly)
        ((entry, one),) = poly.items()
        if len(entry) != 1 or entry[0].power != 1 or one != 1 or len(moved) != 1:
            return False
        ((term, coefficient),) = moved.items()
        own = [f for f in term if f.atom == entry[0].atom]
        rest = [f for f in term if f.atom != entry[0].atom]
        if len(own) != 1 or own[0].power != 1 or coefficient != 1 or not all(permutes(self.algebra, [f]) for f in rest):
            return False
        return _permuted(self.algebra, term, own[0])

    def same(self, left: Poly, right: Poly, turns: int | None = None) -> bool:
        """Whether two polynomials are equal, with named sums written out where they have to be; `turns` bounds that."""
        difference = self.algebra.add(left, right, -1)
        if not difference:
            return True
        try:
            return not self.written_out(difference, turns=turns)
        except TooLarge:
            return False


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


def atoms_in(sheet: Sheet) -> list[int]:
    """The atoms that the outputs are made of, in the order in which they were made."""
    loops = {number: loop for loop in sheet.loops for number in loop.carries}
    seen: set[int] = set()
    asked = [key for g in sheet.guards for key in (g.predicate, g.together) if key is not None]
    waiting = [*map(dict, asked), *sheet.outputs]
    while waiting:
        for term in waiting.pop():
            for number, _, _ in term:
                if number not in seen:
                    seen.add(number)
                    waiting += definitions(sheet.atoms[number])
                    if number in loops:
                        waiting += [*loops[number].inits, *loops[number].nexts]
    return sorted(seen)


def _is_entry(poly: Poly, number: int) -> bool:
    """Whether an image is the atom itself, at its own slots."""
    own = single(poly)
    if own is None or own.atom != number:
        return False
    return all(isinstance(i, Free) and i.place == (0, k) for k, i in enumerate(own.at))


def _permuted(algebra: Algebra, term: Term, own: Factor) -> bool:
    """Whether the permutations of a monomial lead from free indices to indices of the entry, and bind nothing else."""
    waiting = [f for f in term if f is not own and permutes(algebra, [f])]
    ends = [i for i in own.at if ix.has(i, Bound)]
    if any(not isinstance(i, Bound) for i in ends) or len(set(ends)) != len(ends):
        return False
    for end in ends:
        here: Index = end
        while isinstance(here, Bound):
            step = next((f for f in waiting if here in f.at[-2:]), None)
            if step is None or step.at[-2] == step.at[-1] or any(ix.has(i, Bound) for i in step.at[:-2]):
                return False
            waiting.remove(step)
            here = step.at[-1] if step.at[-2] == here else step.at[-2]
        if not isinstance(here, Free):
            return False
    return not waiting
