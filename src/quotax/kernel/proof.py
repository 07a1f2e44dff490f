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

from dataclasses import dataclass
from typing import Literal

from quotax.kernel import atoms as kinds
from quotax.kernel.elements import Element
from quotax.kernel.images import Images, Refused, permuted
from quotax.kernel.lemma import Prover, lemma_image
from quotax.kernel.loop_laws import assume, discharge
from quotax.kernel.polynomials import Atom, Poly, slot
from quotax.kernel.sheet import Sheet, named_sum, node, reduced
from quotax.kernel.transformation import Effect, Law, permutes


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


class Proof(Images):
    """The images of a sheet's atoms under one claim, each established by a step."""

    def __init__(self, sheet: Sheet, element: Element, prove: Prover) -> None:
        """Nothing has moved yet: `claim` says what the parameters become."""
        super().__init__(sheet, element)
        self.prove = prove
        self._open: dict[int, tuple[Poly, ...]] = {}

    def do(self, step: Step) -> None:
        """One step; refused when it does not hold."""
        if step.rule in ("assume", "discharge"):
            self._loop(step)
            return
        atom = self.algebra.atoms[step.atom]
        if atom.number in self.images:
            raise Refused(f"{atom.name} has an image already")
        if step.rule == "inline":
            definition = self._definition(atom)
            self.becomes(atom, self.moved(definition))
            self.inlined[atom.number] = self.plain(definition)
        elif step.rule == "image":
            definition = self._definition(atom)
            (image,) = step.image
            stated = self.substituted(image, {atom.number: self.plain(definition)}.get)
            if not self.same(stated, self.moved(definition)):
                raise Refused(f"{atom.name} does not become what is said")
            self.becomes(atom, image)
        elif step.rule == "congruence":
            self.becomes(atom, self._congruent(atom))
        else:
            self.becomes(atom, lemma_image(self, self.prove, atom, step.laws, step.effects, step.composed))

    def _loop(self, step: Step) -> None:
        """What is assumed of a loop stays open until start and turn are seen to keep it."""
        loop = self.sheet.loops[step.atom]
        if step.rule == "assume":
            assume(self, loop, step.image)
            self._open[step.atom] = step.image
            return
        images = self._open.pop(step.atom, None)
        if images is None:
            raise Refused("nothing was assumed of this loop")
        discharge(self, loop, images)

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
        return permuted(self.algebra, term, own[0])
