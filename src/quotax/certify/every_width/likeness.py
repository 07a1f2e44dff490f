"""A proof about one block as a proof about another: the same steps, of the atoms that stand in the same places.

Where the parameters of one claim are renamed those of another, atoms are paired as they are met: two that are the same
function of paired atoms are a pair. Nothing is searched for and nothing here is believed: the kernel replays the steps,
and refuses them where the blocks are not alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quotax.kernel import atoms as kinds
from quotax.kernel.polynomials import Poly
from quotax.kernel.sheet import Sheet
from quotax.presenting import Json

_TRIED = 12
"""So many users of an atom are looked at for the one in the same place."""


def carried(
    sheet: Sheet, names: Mapping[str, str], steps: Sequence[Mapping[str, Json]]
) -> list[dict[str, Json]] | None:
    """Encoded steps with the atoms of the renamed parameters; None where some atom has no counterpart."""
    pairs = _Pairs(sheet, {sheet.parameters[a]: sheet.parameters[b] for a, b in names.items()})
    out = []
    for step in steps:
        if step["rule"] in ("assume", "discharge") or not pairs.meets(step["atom"]):
            return None
        place, other = (sheet.places.get(n) for n in (step["atom"], pairs.of[step["atom"]]))
        if place != other:
            return None
        out.append(pairs.step(step))
    return out


class _Pairs:
    """The atoms of one block by those of another."""

    def __init__(self, sheet: Sheet, of: dict[int, int]) -> None:
        self.sheet, self.of = sheet, of
        self.written = len(sheet.atoms.made)

    # --- finding pairs

    def meets(self, number: int) -> bool:
        """Whether an atom has a counterpart."""
        if number in self.of:
            return True
        for part in self.sheet.parts(number) or ():
            other = self.of.get(part)
            if other is None or other == part:
                continue
            rank = list(self.sheet.users(part)).index(number)
            users = self.sheet.users(other)
            for candidate in [*users[rank : rank + 1], *users[:_TRIED]]:
                if self._alike(number, candidate):
                    return True
        return False

    def _alike(self, number: int, other: int) -> bool:
        """Whether two atoms are the same function of paired atoms; what they are made of is paired then."""
        before = dict(self.of)
        one, two = (self.sheet.atoms[n].what for n in (number, other))
        match one, two:
            case kinds.NamedSum(p), kinds.NamedSum(q):
                same = self._polys(p, q)
            case kinds.Application(f, ps, b), kinds.Application(g, qs, c):
                same = f == g and b == c and len(ps) == len(qs) and all(map(self._polys, ps, qs))
            case kinds.Reduction(), kinds.Reduction():
                settings = lambda r: (r.name, r.settings, r.law, r.touched, r.new)
                same = settings(one) == settings(two) and self._polys(one.definition, two.definition)
            case _:
                same = False
        same = same and self._pair(number, other)
        if not same:
            self.of = before
        return same

    def _polys(self, left: Poly, right: Poly) -> bool:
        """Term by term, in the order in which both were made."""
        if len(left) != len(right):
            return False
        for (one, c), (two, d) in zip(left.items(), right.items(), strict=True):
            if c != d or len(one) != len(two):
                return False
            for f, g in zip(one, two, strict=True):
                if f.at != g.at or f.power != g.power or not self._pair(f.atom, g.atom):
                    return False
        return True

    def _pair(self, number: int, other: int) -> bool:
        if number not in self.of and self.sheet.atoms[number].slots == self.sheet.atoms[other].slots:
            self.of[number] = other
        return self.of.get(number) == other

    # --- steps of the other block

    def step(self, data: Mapping[str, Json]) -> dict[str, Json]:
        """An encoded step."""
        out = dict(data) | {"atom": self.of[data["atom"]]}
        if "image" in data:
            out["image"] = [self.poly(p) for p in data["image"]]
        if "laws" in data:
            out["laws"] = [self.law(law) for law in data["laws"]]
        return out

    def law(self, data: Mapping[str, Json]) -> dict[str, Json]:
        matrices = [[index, self.factors(word), end] for index, word, end in data["matrices"]]
        parts = {"scale": self.factors(data["scale"]), "matrices": matrices, "shift": self.poly(data["shift"])}
        return dict(data) | parts

    def poly(self, data: Sequence[Json]) -> list[Json]:
        return [[c, self.factors(term)] for c, term in data]

    def factors(self, data: Sequence[Json]) -> list[Json]:
        return [[self.atom(atom), at, power] for atom, at, power in data]

    def atom(self, data: Json) -> Json:
        if isinstance(data, int):
            return self.of.get(data, data)  # atoms of the group have the same numbers in both proofs
        kind, made = data
        if kind in ("abs", "log"):
            return [kind, self.atom(made)]
        return [kind, self.poly(made)] if kind in ("exp", "let") else [kind, made]
