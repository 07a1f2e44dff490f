"""A proof as a graph of tensors: what each of them is made of, and what each of its axes is multiplied by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quotax.artifacts import Model
from quotax.certify.every_width.finding import find_law
from quotax.certify.every_width.opening import opened
from quotax.certify.every_width.scalar_identities import prove
from quotax.certify.every_width.statement import claimed, element_of
from quotax.certify.every_width.words import factor_text, index_text, law_text
from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.data import replayed
from quotax.kernel.indices import Free, Index
from quotax.kernel.polynomials import Poly, slot
from quotax.kernel.proof import Proof, Refused
from quotax.kernel.sheet import Sheet, atoms_in, definitions
from quotax.kernel.sizes import Size
from quotax.kernel.transformation import Law
from quotax.presenting import Json
from quotax.symmetry import Action

_DRAWN = (
    kinds.Parameter, kinds.Input, kinds.TokenInput, kinds.NamedSum, kinds.Application, kinds.Reduction,
    kinds.Selection, kinds.Carry,
)  # fmt: skip


def law_graph(model: Model, action: Action, part: Mapping[str, Json]) -> list[dict[str, Json]]:
    """The tensors of a proof that the kernel accepts, in an order in which each comes after what it is made of.

    Of every one: `name`, `kind` ("parameter", "input", "tensor", "output"), the numbers `of` those that it is made of,
    `law`, how it moves as a whole, `moves`, whether it does, `axes` with what each is multiplied by (nothing where it
    stays), and `place`, where in the user's code it is made.
    """
    opening = opened(model, part["sizes"])
    if isinstance(opening, str):
        raise Refused(opening)
    sheet, sizes = opening.sheet, {a: Size.of(n) for a, n in opening.trace.sizes.items()}
    element = element_of(action, sheet, model, sizes)
    claim = lambda algebra: claimed(sheet, algebra, action, element, model, sizes)
    return _Graph(replayed(sheet, element, claim, part["steps"], prove), sizes).nodes()


class _Graph:
    def __init__(self, proof: Proof, sizes: dict[str, Size]) -> None:
        self.proof, self.sheet = proof, proof.sheet
        self.names = {size: axis for axis, size in reversed(sizes.items())}

    def nodes(self) -> list[dict[str, Json]]:
        atoms, found, at = self.sheet.atoms, [], {}
        for number in atoms_in(self.sheet):
            atom = atoms[number]
            if not isinstance(atom.what, _DRAWN):
                continue
            plain, law = self.proof.entry(number), self._law(number)
            kind = "parameter" if isinstance(atom.what, kinds.Parameter) else "tensor"
            kind = "input" if isinstance(atom.what, kinds.Input | kinds.TokenInput) else kind
            before = [at[n] for n in self._parts(_made_of(self.sheet, number)) if n in at]
            at[number] = len(found)
            place = self.sheet.places.get(number, "")
            found.append(self._node(atom.name, kind, before, law, plain, atom.slots, place))
        for number, output in enumerate(self.sheet.outputs):
            before = [at[n] for n in self._parts([output]) if n in at]
            name = "output" if len(self.sheet.outputs) == 1 else f"output {number}"
            extents = [index.extent for index in self.proof.algebra.free_in(output)]
            found.append(self._node(name, "output", before, Law(), output, extents, ""))
        return found

    def _law(self, number: int) -> Law | None:
        plain = self.proof.entry(number)
        try:
            moved = self.proof.image(number)
        except Refused:  # written out where it occurs
            return None
        return find_law(self.proof.algebra, plain, moved)

    def _parts(self, polys: list[Poly]) -> list[int]:
        """The atoms that are drawn among those of polynomials, and among what the others are made of."""
        out: dict[int, None] = {}
        waiting, seen = list(polys), set()
        while waiting:
            for number in sorted({n for term in waiting.pop() for n, _, _ in term} - seen):
                seen.add(number)
                if isinstance(self.sheet.atoms[number].what, _DRAWN):
                    out[number] = None
                else:
                    waiting += _made_of(self.sheet, number)
        return sorted(out)

    def _node(
        self, name: str, kind: str, before: list[int], law: Law | None, plain: Poly, extents: Sequence[Size], place: str
    ) -> dict[str, Json]:
        algebra = self.proof.algebra
        free = [slot(k, extent) for k, extent in enumerate(extents)]
        free = list(algebra.free_in(plain)) if kind == "output" else free
        axes = [{"axis": index_text(index, self.names), "law": self._axis(law, index)} for index in free]
        words = law_text(algebra, law).replace("T", name.split()[0]) if law else "is written out where it is used"
        return {
            "name": name, "kind": kind, "of": before, "law": words, "moves": law != Law(), "axes": axes, "place": place,
        }  # fmt: skip

    def _axis(self, law: Law | None, index: Index) -> str:
        """What one axis is multiplied by: matrices that mix it, and factors of which it is the last index."""
        if law is None:
            return "?"
        words = []
        for start, word, end in law.matrices:
            if start == index:
                names = [self.proof.algebra.atoms[f.atom].name + ("ᵀ" if f.at[-2] == end else "") for f in word]
                words += names
        for factor in law.scale:
            places = [i for each in factor.at for i in ix.parts(each) if isinstance(i, Free)]
            if places and places[-1] == index:
                words.append(factor_text(self.proof.algebra, factor))
        return " ".join(words)


def _made_of(sheet: Sheet, number: int) -> list[Poly]:
    atom = sheet.atoms[number]
    if isinstance(atom.what, kinds.Carry):
        for loop in sheet.loops:
            if number in loop.carries:
                return [*loop.inits, *loop.nexts]
    return list(definitions(atom))
