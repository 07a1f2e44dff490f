"""Steps as data: JSON values that name atoms by how they were made, and the replay that reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import sympy as sp

from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.elements import Element
from quotax.kernel.images import Refused
from quotax.kernel.indices import Affine, Bound, Fixed, Free, Index, Pair
from quotax.kernel.lemma import Prover
from quotax.kernel.polynomials import Algebra, Factor, Poly
from quotax.kernel.proof import Proof, Step
from quotax.kernel.sheet import Sheet, named_sum
from quotax.kernel.sizes import Size, read
from quotax.kernel.transformation import Effect, Law, exponential, log_magnitude, magnitude
from quotax.presenting import Json

Claim = Callable[[Algebra], Mapping[str, Poly]]
"""What the action makes of the parameters, in the atoms of this algebra."""


def replay(sheet: Sheet, element: Element, claim: Claim, steps: Sequence[Json], prove: Prover) -> bool:
    """Whether these steps prove the claim. `Refused` says which of them does not hold, or cannot be read here.

    Steps may come from a file, or have been found for another model: what has no meaning on this sheet proves nothing.
    """
    return replayed(sheet, element, claim, steps, prove).settled()


def replayed(sheet: Sheet, element: Element, claim: Claim, steps: Sequence[Json], prove: Prover) -> Proof:
    """The claim after these steps, settled or not."""
    proof = Proof(sheet, element, prove)
    proof.claim(claim(proof.algebra))
    reader = _Decoder(proof)
    for number, step in enumerate(steps):
        try:
            proof.do(reader.step(step))
        except _MEANINGLESS as error:
            raise Refused(f"step {number} has no meaning here: {type(error).__name__} {error}") from error
    return proof


_MEANINGLESS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


def encode(proof: Proof, steps: Sequence[Step]) -> list[dict[str, Json]]:
    """Steps as JSON values."""
    writer = _Encoder(proof)
    return [writer.step(step) for step in steps]


class _Encoder:
    """Atoms of the sheet and of the group have the same numbers in every proof; others say how they are made."""

    def __init__(self, proof: Proof) -> None:
        self.atoms = proof.algebra.atoms
        self.common = proof.common

    def step(self, step: Step) -> dict[str, Json]:
        out: dict[str, Json] = {"rule": step.rule, "atom": step.atom}
        if step.image:
            out["image"] = [self.poly(p) for p in step.image]
        if step.laws:
            out["laws"] = [self.law(law) for law in step.laws]
            out["effects"] = [None if e is None else self.effect(e) for e in step.effects]
        if step.composed:
            out["composed"] = step.composed
        if step.words:
            out["words"] = step.words
        return out

    def law(self, law: Law) -> dict[str, Json]:
        return {
            "coefficient": str(law.coefficient),
            "scale": self.factors(law.scale),
            "matrices": [[self.index(i), self.factors(word), self.index(end)] for i, word, end in law.matrices],
            "shift": self.poly(law.shift),
        }

    def effect(self, effect: Effect) -> dict[str, Json]:
        numbers = {k: str(getattr(effect, k)) for k in ("power", "rate", "logs", "shift", "centre")}
        return {**numbers, "absolute": effect.absolute, "words": effect.words}

    def poly(self, poly: Poly) -> list[Json]:
        return [[str(c), self.factors(term)] for term, c in poly.items()]

    def factors(self, factors: Sequence[Factor]) -> list[Json]:
        return [[self.atom(a), [self.index(i) for i in at], str(p)] for a, at, p in factors]

    def atom(self, number: int) -> Json:
        if number < self.common:
            return number
        atom = self.atoms[number]
        match atom.what:
            case kinds.Delta():
                return ["delta", str(atom.slots[0])]
            case kinds.Ramp():
                return ["iota", str(atom.slots[0])]
            case kinds.Magnitude(of):
                return ["abs", self.atom(of)]
            case kinds.Logarithm(of):
                return ["log", self.atom(of)]
            case kinds.Exponential(poly):
                return ["exp", self.poly(poly)]
            case kinds.NamedSum(poly):
                return ["let", self.poly(poly)]
            case kinds.Rational(value):
                return ["rational", str(value)]
            case kinds.Extent(symbol):
                return ["size", symbol]
            case _:
                raise Refused(f"{atom.name} cannot be written down")

    def index(self, index: Index) -> list[Json]:
        if isinstance(index, Free):
            return ["free", list(index.place), str(index.extent)]
        if isinstance(index, Bound):
            return ["bound", index.number, str(index.extent)]
        if isinstance(index, Fixed):
            return ["fixed", str(index.position), str(index.extent)]
        if isinstance(index, Pair):
            return ["pair", self.index(index.outer), self.index(index.inner)]
        return ["affine", str(index.start), index.stride, self.index(index.of), str(index.extent)]


class _Decoder:
    """The inverse, in the atoms of another proof of the same claim."""

    def __init__(self, proof: Proof) -> None:
        self.proof = proof
        self.algebra = proof.algebra
        self.common = proof.common

    def step(self, data: Mapping[str, Json]) -> Step:
        effects = [None if e is None else self.effect(e) for e in data.get("effects", (None, None))]
        return Step(
            data["rule"],
            data["atom"],
            tuple(self.poly(p) for p in data.get("image", ())),
            tuple(self.law(law) for law in data.get("laws", ())),
            (effects[0], effects[1]),
            data.get("composed", 0),
            data.get("words", ""),
        )

    def law(self, data: Mapping[str, Json]) -> Law:
        matrices = tuple((self.index(i), self.factors(word), self.index(end)) for i, word, end in data["matrices"])
        return Law(Fraction(data["coefficient"]), self.factors(data["scale"]), matrices, self.poly(data["shift"]))

    def effect(self, data: Mapping[str, Json]) -> Effect:
        numbers = {k: sp.Rational(data[k]) for k in ("power", "rate", "logs", "shift", "centre")}
        return Effect(**numbers, absolute=data["absolute"], words=data["words"])

    def poly(self, data: Sequence[Json]) -> Poly:
        return {tuple(self.factors(term)): Fraction(c) for c, term in data}

    def factors(self, data: Sequence[Json]) -> tuple[Factor, ...]:
        out = []
        for atom, at, power in data:
            exact = Fraction(power)
            whole = exact.denominator == 1
            out.append(Factor(self.atom(atom), tuple(self.index(i) for i in at), int(exact) if whole else exact))
        return tuple(out)

    def atom(self, data: Json) -> int:
        if isinstance(data, int):
            if data >= self.common:
                raise Refused("a step names an atom that only another proof has")
            return data
        kind, made = data
        algebra = self.algebra
        if kind == "delta":
            size = _size(made)
            return algebra.delta(Free((0, 0), size), Free((0, 1), size)).atom
        if kind == "iota":
            return algebra.ramp(_size(made)).number
        if kind == "abs":
            return magnitude(algebra, self.atom(made))
        if kind == "log":
            return log_magnitude(algebra, self.atom(made)).number
        if kind == "rational":
            return algebra.rational(Fraction(made)).number
        found = (
            exponential(algebra, self.poly(made))
            if kind == "exp"
            else algebra.size(Size.of(made))
            if kind == "size"
            else named_sum(algebra, self.poly(made))
        )
        ((term, _),) = found.items()
        return term[0].atom

    def index(self, data: Sequence[Json]) -> Index:
        index = self._index(data)
        self.proof.within(index)
        return index

    def _index(self, data: Sequence[Json]) -> Index:
        kind = data[0]
        if kind == "free":
            return Free((data[1][0], data[1][1]), _size(data[2]))
        if kind == "bound":
            return Bound(data[1], _size(data[2]))
        if kind == "fixed":
            return Fixed(_size(data[1]), _size(data[2]))
        if kind == "pair":
            return ix.pair(self.index(data[1]), self.index(data[2]))
        return Affine(_size(data[1]), data[2], self.index(data[3]), _size(data[4]))


@lru_cache(maxsize=1024)
def _size(text: str) -> Size:
    return read(text)
