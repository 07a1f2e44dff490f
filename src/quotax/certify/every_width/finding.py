"""Finding a proof: the law of each tensor, read off its image, and the steps for the kernel to check.

Nothing here is believed. A law is guessed from one term of the image; a lemma is guessed from numbers; the kernel does
each step as it is found, and `kernel.proof.replay` does all of them again before anything is said to be proved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import sympy as sp

from quotax.certify.every_width.lemmas import Lemmas
from quotax.certify.every_width.words import law_text
from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.elements import Element
from quotax.kernel.images import Refused
from quotax.kernel.indices import Bound, Free, Index
from quotax.kernel.lemma import Prover, arguments_of, extreme_effect, own_law
from quotax.kernel.polynomials import Algebra, Atom, Factor, Poly, Term, renamed
from quotax.kernel.proof import Proof, Step
from quotax.kernel.sheet import Extreme, Sheet, atoms_in
from quotax.kernel.transformation import Effect, Law, applied, kind_of

_TERMS = 24
"""Terms of an image that a law is read off."""
_LAWS = 8
"""Laws that are tried."""
_LONG = 40
"""A sum without a law is written out where it occurs, unless it has more terms than this."""
_SHORT = 4
"""A sum that is shifted is written out where it occurs, if it has no more terms than this."""
_FEW = 10
"""Polynomials of so many terms together are compared with their sums written out."""
_DEEP = 12
"""So many sums are written out in search of parts that cancel; where they do, two or three were enough."""
_STEADIER = 4
"""So many sums of a shift are written out."""
_COMPOSED = 150
"""Compositions with more nodes than this are not given to the lemma search."""


@dataclass
class FoundSteps:
    """The steps of a proof, and where laws ended."""

    proof: Proof
    steps: list[Step] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    lines: dict[str, None] = field(default_factory=dict)


def find(
    sheet: Sheet, element: Element, claim: Callable[[Algebra], Mapping[str, Poly]], lemmas: Lemmas, prove: Prover
) -> tuple[FoundSteps, Mapping[str, Poly]]:
    """Steps that give every atom of the sheet an image, as simple as can be; and what was claimed."""
    found = FoundSteps(Proof(sheet, element, prove))
    said = claim(found.proof.algebra)
    found.proof.claim(said)
    search = _Search(found, lemmas)
    for number in atoms_in(sheet):
        search.atom(found.proof.algebra.atoms[number])
    search.discharge()
    return found, said


class _Search:
    def __init__(self, found: FoundSteps, lemmas: Lemmas) -> None:
        self.found, self.lemmas = found, lemmas
        self.proof, self.algebra = found.proof, found.proof.algebra
        self.loop_of = {n: k for k, loop in enumerate(self.proof.sheet.loops) for n in loop.carries}
        self.assumed: list[int] = []

    def do(self, step: Step) -> None:
        """A step, kept when it holds."""
        self.proof.do(step)
        self.found.steps.append(step)

    def atom(self, atom: Atom) -> None:
        """The image of one atom."""
        if atom.number in self.proof.images or self.proof.stays(atom.number):
            return
        match atom.what:
            case kinds.NamedSum(poly):
                self._sum(atom, poly)
            case kinds.Application() | kinds.Reduction():
                self._function(atom)
            case kinds.Carry():
                self._loop(self.loop_of[atom.number])
            case kinds.Selection():
                self.proof.image(atom.number)
            case _:
                pass  # it is its own image, or the claim says what it becomes

    def _law(self, plain: Poly, moved: Poly) -> Law | None:
        """The law of a polynomial; one whose parts only cancel when they are written out does not move."""
        law = find_law(self.algebra, plain, moved)
        few = len(plain) + len(moved) <= _FEW
        if few and (law is None or law.shift) and self.proof.same(plain, moved, _DEEP):
            return Law()
        return law if law is None or not law.shift else self._steadier(law) or law

    def _steadier(self, law: Law) -> Law | None:
        """The law with its shift written out, where it is seen to vary along fewer indices then.

        Of `(W + q / gain) (n gain + bias)` the shift is `q` times the sums of `n`, which is zero, and of `bias / gain`.
        """
        shift = law.shift
        for _ in range(_STEADIER):
            before, shift = shift, self.proof.written_out(shift, _FEW, 1)
            if shift == before:
                break
            if set(self.algebra.free_in(shift)) < set(self.algebra.free_in(law.shift)):
                return replace(law, shift=shift)
        return None

    def _record(self, atom: Atom, words: str) -> None:
        where = self.proof.sheet.places.get(atom.number)
        if where:
            self.found.lines[f"{where}: {words}"] = None

    def _sum(self, atom: Atom, poly: Poly) -> None:
        plain, moved = self.proof.plain(poly), self.proof.moved(poly)
        law = self._law(plain, moved)
        steady = law is not None and Law(shift=law.shift) == law and law.shift != self.algebra.add(moved, plain, -1)
        if not plain or (law is not None and law.shift and not steady and len(plain) <= _SHORT):
            # a shift may cancel later, and so is kept in sight
            self.do(Step("inline", atom.number))
        elif law is not None:
            image = applied(self.algebra, law, self.proof.entry(atom.number), shifted=True)
            if plain != moved:
                self._record(atom, f"T becomes {law_text(self.algebra, law)}")
            elif any(self._moves(a) for a in _made_of(poly)):
                self._record(atom, "does not move  [normal form]")
            self.do(Step("image", atom.number, (image,)))
        elif self._composed(atom, poly):
            return
        elif len(plain) + len(moved) > _LONG:
            self._broken(atom, "gives a tensor that becomes no multiple of itself plus a shift")
            self.do(Step("congruence", atom.number))
        else:
            self._record(atom, "kept as an unevaluated product")
            self._broken(atom, "gives a tensor that becomes no multiple of itself plus a shift", last=True)
            self.do(Step("inline", atom.number))

    def _composed(self, atom: Atom, poly: Poly) -> bool:
        """A choice written out as a sum, `p a + (1 - p) b`, is a function of the entries that it is made of."""
        functions = any(isinstance(self.algebra.atoms[n].what, kinds.Application) for n in _made_of(poly))
        if not functions or any(self.algebra.bound_in(t) for t in poly):
            return False
        return self._by_lemma(atom, (1, 2))

    def _by_lemma(self, atom: Atom, compositions: Sequence[int]) -> bool:
        """Whether a lemma about the function, or about a composition of it, says what becomes of the atom."""
        for composed in compositions:
            step = self._lemma(atom, composed)
            if step is None:
                continue
            try:
                self.do(step)
            except Refused:
                continue
            self._record(atom, step.words)
            return True
        return False

    def _moves(self, number: int) -> bool:
        image = self.proof.images.get(number)
        return image is not None and image != self.proof.entry(number)

    def _broken(self, atom: Atom, what: str, last: bool = False) -> None:
        where = self.proof.sheet.places.get(atom.number, "a place that JAX did not record")
        line = f"{where} {what}"
        if last:
            self.found.breaks.append(line)
        else:
            self.found.breaks.insert(sum(1 for b in self.found.breaks if "becomes no multiple" not in b), line)

    def _function(self, atom: Atom) -> None:
        _, _, args = arguments_of(self.proof, atom, 0)
        if all(self.proof.plain(a) == self.proof.moved(a) for a in args):
            self.do(Step("congruence", atom.number))
            return
        if self._by_lemma(atom, (0, 1, 2) if isinstance(atom.what, kinds.Application) else (0,)):
            return
        shown = []
        for arg in args:
            plain, moved = self.proof.plain(arg), self.proof.moved(arg)
            if plain != moved:
                shown.append(law_text(self.algebra, find_law(self.algebra, plain, moved)))
        self._broken(atom, f"of a tensor that becomes {' and '.join(shown)}")
        self.do(Step("congruence", atom.number))

    def _lemma(self, atom: Atom, composed: int) -> Step | None:
        """The lemma that the laws of the arguments ask for."""
        try:
            expression, symbols, args = arguments_of(self.proof, atom, composed)
        except Refused:
            return None
        if composed:
            assert expression is not None
            own = atom.what.function.expression if isinstance(atom.what, kinds.Application) else None
            if expression == own or len(list(sp.preorder_traversal(expression))) > _COMPOSED:
                return None
        laws: list[Law] = []
        for arg in args:
            plain = self.proof.plain(arg)
            law = self._law(plain, self.proof.moved(arg)) if plain else Law()
            if law is None:
                return None
            laws.append(law)
        rule = None if composed else own_law(atom.what)
        factors = {law.factor for law in laws if law.factor != (1, ())}
        if len(factors) > 1:
            return None
        effects: list[Effect | None] = [None, None]
        words: list[str] = []
        for factor in factors:
            kind = kind_of(self.algebra, *factor)
            chosen = [z for z, law in zip(symbols, laws, strict=True) if law.factor != (1, ())]
            if kind is None:
                return None
            effects[0] = self._effect(expression, rule, chosen, kind)
            if effects[0] is None:
                return None
            words.append(effects[0].words)
        if any(law.shift for law in laws):
            chosen = [z for z, law in zip(symbols, laws, strict=True) if law.shift]
            effects[1] = self._effect(expression, rule, chosen, "shift")
            if effects[1] is None:
                return None
            words.append(effects[1].words)
        if any(law.matrices for law in laws):
            words.append("commutes with a permutation of an axis")
        name = f"composition with {atom.name}" if composed else atom.name
        return Step("lemma", atom.number, (), tuple(laws), (effects[0], effects[1]), composed,
                    f"{name}: {'; '.join(words)}")  # fmt: skip

    def _effect(
        self, expression: sp.Basic, rule: Extreme | None, chosen: Sequence[sp.Symbol], kind: str
    ) -> Effect | None:
        if rule is not None:
            return extreme_effect(rule, kind)
        if kind == "shift":
            return self.lemmas.shifting(expression, chosen)
        return self.lemmas.scaling(expression, chosen, kind)  # type: ignore[arg-type]  # one of three by now

    # --- loops

    def _loop(self, number: int) -> None:
        """Assume of each carry the law that it has after one turn from the start."""
        loop = self.proof.sheet.loops[number]
        images = self._guess(number) or tuple(self.proof.entry(n) for n in loop.carries)
        self.do(Step("assume", number, images, words=f"the carry of the loop at {loop.place}"))
        self.assumed.append(number)

    def _guess(self, number: int) -> tuple[Poly, ...] | None:
        """The laws of what one turn makes of the initial carries: a trial proof in which they stand for the carries."""
        loop = self.proof.sheet.loops[number]
        trial = FoundSteps(Proof(self.proof.sheet, self.proof.element, self.proof.prove))
        trial.proof.algebra = self.algebra
        trial.proof.images, trial.proof.inlined = dict(self.proof.images), dict(self.proof.inlined)
        for carry, init in zip(loop.carries, loop.inits, strict=True):
            slots = self.algebra.atoms[carry].slots
            assert slots
            trial.proof.images[carry] = self.proof.moved(init)
            trial.proof.inlined[carry] = self.proof.plain(init)
        search = _Search(trial, self.lemmas)
        out: list[Poly] = []
        try:
            for atom in atoms_in(Sheet(self.proof.sheet.atoms, outputs=list(loop.nexts), loops=self.proof.sheet.loops)):
                search.atom(self.algebra.atoms[atom])
            for carry, following in zip(loop.carries, loop.nexts, strict=True):
                law = find_law(self.algebra, trial.proof.plain(following), trial.proof.moved(following))
                if law is None:
                    return None
                out.append(applied(self.algebra, law, self.proof.entry(carry), shifted=True))
        except Refused:
            return None
        return tuple(out)

    def discharge(self) -> None:
        """Base and step of every loop."""
        for number in reversed(self.assumed):
            loop = self.proof.sheet.loops[number]
            self.do(Step("discharge", number, words=f"the carry of the loop at {loop.place} keeps its law"))
            self.found.lines[f"scan at {loop.place}: the carry keeps its law, by induction over the steps"] = None


# --- laws


def find_law(algebra: Algebra, plain: Poly, moved: Poly) -> Law | None:
    """The law that takes `plain` to `moved`, or None when none of the known form does.

    A candidate is read off one term of `moved`: the group factors that end in its free indices. It is a law when
    applying it to `plain` accounts for as many terms of `moved` as `plain` has; what remains is the shift. Failing
    that, any difference is a shift that has fewer free indices than `plain`.
    """
    if plain == moved:
        return Law()
    if not plain:
        return Law(shift=moved)
    shift = algebra.add(moved, plain, -1)
    if len(shift) == len(moved) - len(plain):
        return Law(shift=shift)
    tried = [Law()]
    for term, coefficient in list(moved.items())[:_TERMS]:
        for candidate in _candidates(algebra, term, coefficient, plain):
            if candidate in tried:
                continue
            tried.append(candidate)
            shift = algebra.add(moved, applied(algebra, candidate, plain), -1)
            if len(shift) == max(len(moved) - len(plain), 0):
                return replace(candidate, shift=shift)
        if len(tried) > _LAWS:
            break
    # what is the same along an axis may still cancel there, as a shift of all scores does in a softmax
    for candidate in tried:
        shift = algebra.add(moved, applied(algebra, candidate, plain), -1)
        if set(algebra.free_in(shift)) < set(algebra.free_in(plain)):
            return replace(candidate, shift=shift)
    return None


def _candidates(algebra: Algebra, term: Term, coefficient: Fraction, plain: Poly) -> list[Law]:
    moved = [f for f in term if algebra.moved(f)]
    rest = [f for f in term if not algebra.moved(f)]
    matrices = [f for f in moved if isinstance(algebra.atoms[f.atom].what, kinds.Matrix)]
    scale = [f for f in moved if f not in matrices]
    if any(ix.has(i, Bound) for f in scale for i in f.at):
        return []
    words = _words(algebra, matrices, rest)
    if words is None:
        return []
    signature = sorted((a, float(p)) for a, _, p in rest)
    ratios = {
        coefficient / c: None for t, c in plain.items() if sorted((a, float(p)) for a, _, p in t) == signature
    }  # fmt: skip
    ordered = tuple(sorted(scale, key=lambda f: (f.atom, tuple(map(ix.order, f.at)), float(f.power))))
    return [Law(ratio, ordered, words) for ratio in ratios]


def _words(
    algebra: Algebra, waiting: list[Factor], rest: Sequence[Factor]
) -> tuple[tuple[Index, tuple[Factor, ...], Index], ...] | None:
    """The words of matrices that lead from free indices to bound ones of what they act on."""
    ends = [i for f in waiting for i in f.at[-2:] if not isinstance(i, Bound)]
    if any(not isinstance(i, Free) for i in ends):
        return None
    out: dict[Index, tuple[tuple[Factor, ...], Index]] = {}
    for start in ends:
        word: list[Factor] = []
        here: Index = start
        while True:
            step = next((f for f in waiting if f not in word and here in f.at[-2:]), None)
            if step is None:
                break
            word.append(step)
            here = step.at[-1] if step.at[-2] == here else step.at[-2]
            if not isinstance(here, Bound):
                return None
            if any(here in tuple(ix.parts(i)) for _, at, _ in rest for i in at):
                break
        naming: dict[Index, Index] = {i: Bound(k, i.extent) for k, i in enumerate(algebra.bound_in(word))}
        out.setdefault(start, (tuple(renamed(word, naming)), ix.replaced(here, naming)))
        waiting = [f for f in waiting if f not in word]
    if waiting:
        return None
    return tuple((start, *out[start]) for start in sorted(out, key=ix.order))


def _made_of(poly: Poly) -> set[int]:
    return {number for term in poly for number, _, _ in term}
