"""What was found of a shallow model, stated of every block of the deep one: the same words about other parameters.

In the shallow model block 1 stands between blocks 0 and `last`, as all that were left out do in the deep one. What
touches block 1 alone is stated of each of them, what touches two neighbours of all neighbours; what goes through all
blocks does in the blocks between what it does in block 1. These are claims: each is proved of the deep model, or is not
handed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import sympy as sp

from quotax.artifacts import ArraySpec, Certificate
from quotax.derive.candidates.continuous import FoundFamilies
from quotax.derive.candidates.wording import distinct
from quotax.derive.depth.shallow_model import Blocks, ShallowModel
from quotax.presenting.telling import Budget
from quotax.symmetry import Entry, Symmetry, variable
from quotax.symmetry.new_entries.general_entries import maps_of, projector, written

Specs = tuple[ArraySpec, ...]

ProveAlike = Callable[[Certificate, Sequence[tuple[Symmetry, Mapping[str, str]]]], list[Certificate | None]]
"""Proofs of symmetries whose parameters have these names in place of those of one that is proved; None for no proof."""


def restated(
    symmetry: Symmetry, shallow: Specs, deep: Specs, blocks: Blocks
) -> list[tuple[Symmetry, Mapping[str, str]]]:
    """The claims about the deep model that a symmetry of the shallow one stands for.

    Each comes with the names that the parameters of the first have in it.
    """
    entries = dict(zip(symmetry.action, symmetry.bind(shallow).entries, strict=True))
    names = {spec.name for spec in shallow}
    touched = {name for entry in entries.values() for name in (entry.name, *entry.named & names)}
    at = {blocks.block[name] for name in touched if name in blocks.block}
    common = any(name not in blocks.block for name in touched)
    last = blocks.last

    def moved(name: str, by: Callable[[int], int]) -> str:
        block = blocks.block.get(name)
        found = name if block is None else blocks.shifted(name, by(block) - block)
        return name if found is None else found

    def made(by: Callable[[int], int], own: Mapping[str, Entry] = entries) -> dict[str, Entry]:
        changed = {name: other for name in touched if (other := moved(name, by)) != name}
        return dict(_renamed(key, entry, changed) for key, entry in own.items())

    def stated(own: Mapping[str, Entry], by: Callable[[int], int] = lambda block: block) -> tuple:
        named = Symmetry.of(symmetry.name, symmetry.group, deep, own)
        return named, {name: moved(name, by) for name in touched}

    before_last = lambda block: last - 1 if block == 1 else block
    if at == {1} or (at == {0, 1} and not common):
        later = [lambda block, k=k: block + k for k in range(last - 1)]
        return [stated(made(by), by) for by in later]
    if 1 not in at or at == {0, 1}:
        return [stated(entries)]
    if 0 not in at:
        return [stated(made(before_last))]
    whole: dict[str, Entry] = {}
    for key, entry in entries.items():
        block = blocks.block.get(entry.name)
        if block == 1:
            for k in range(last - 1):
                whole |= made(lambda b, k=k: min(b, 2) + k, {key: entry})
        else:
            whole |= made(before_last if block is not None and block >= last else lambda b: b, {key: entry})
    order = {spec.name: k for k, spec in enumerate(deep)}
    return [stated(dict(sorted(whole.items(), key=lambda item: order[item[1].name])))]


class Statements:
    """The claims about a deep model that proposals from the shallow one make, and what became of them."""

    def __init__(
        self,
        shallow: ShallowModel,
        prove: Callable[[Symmetry], Certificate],
        prove_alike: ProveAlike,
        declared: Sequence[Symmetry],
        progress: Callable[[str], None],
        budget: Budget,
    ) -> None:
        """`prove` decides on symmetries of the deep model, `prove_alike` on those that are like one that is proved."""
        self.shallow, self.decide, self.alike = shallow, prove, prove_alike
        self.progress, self.budget = progress, budget
        self.blocks = Blocks(shallow.of)
        self.names = [s.name for s in declared]
        self.stated: dict[Symmetry, list[tuple[Symmetry, Mapping[str, str]]]] = {}

    def prove(self, symmetry: Symmetry) -> Certificate:
        """The verdict on the first of the claims that it stands for."""
        self.stated[symmetry] = restated(symmetry, self.shallow.params, self.shallow.deep.params, self.blocks)
        return self.decide(self.stated[symmetry][0][0])

    def everywhere(self, found: FoundFamilies) -> FoundFamilies:
        """All claims: of those that stand for more than one, the others are proved now."""
        out = FoundFamilies()
        for symmetry, certificate in found.proved:
            (first, _), *others = self.stated[symmetry]
            out.proved.append((self._named(first), certificate))
            if others and self.budget.allows(f"proofs of {first} in {len(others)} other blocks"):
                self.progress(f"proving {first} in {len(others)} other blocks")
                claims = [(self._named(other), names) for other, names in others]
                for (named, _), verdict in zip(claims, self.alike(certificate, claims), strict=True):
                    if verdict is None and self.budget.allows(f"a proof of {named}"):
                        self.progress(f"proving {named}")
                        verdict = self.decide(named)
                    if verdict is not None and verdict.status != "refuted":
                        (out.proved if verdict else out.unproved).append((named, verdict))
        out.unproved += [(self._named(self.stated[s][0][0]), c) for s, c in found.unproved if isinstance(s, Symmetry)]
        return out

    def _named(self, symmetry: Symmetry) -> Symmetry:
        named = distinct(symmetry.renamed(symmetry.name.partition(" (")[0]), self.names)
        self.names.append(named.name)
        return named


def restricted(symmetry: Symmetry, deep: Specs, shallow: Specs) -> Symmetry | None:
    """What a symmetry of the deep model does to the parameters of the shallow one; None where it reads others."""
    names, every = {spec.name for spec in shallow}, {spec.name for spec in deep}
    entries = dict(zip(symmetry.action, symmetry.bind(deep).entries, strict=True))
    kept = {key: entry for key, entry in entries.items() if entry.name in names}
    if not kept or any(not entry.named & every <= names for entry in kept.values()):
        return None
    return Symmetry.of(symmetry.name, symmetry.group, shallow, kept)


def _renamed(key: str, entry: Entry, names: Mapping[str, str]) -> tuple[str, Entry]:
    """An entry about other parameters, and its key."""
    if not names:
        return key, entry
    words = {written(old): written(new) for old, new in names.items()}
    longest = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w/.])(?:{longest})(?!\w|/[A-Za-z_])")
    said = lambda text: pattern.sub(lambda match: words[match[0]], text)
    arrays = {variable(old): variable(new) for old, new in names.items()}
    changed = {sp.IndexedBase(old): sp.IndexedBase(new) for old, new in arrays.items()}
    changed |= {sp.Symbol(old): sp.Symbol(new) for old, new in arrays.items()}
    for old in entry.projectors:
        maps = [own._replace(parameter=arrays.get(own.parameter, own.parameter)) for own in maps_of(old)]
        changed[sp.IndexedBase(old)] = sp.IndexedBase(projector(maps))
    name, bracket, rest = key.partition("[")
    entry = replace(
        entry,
        name=names.get(entry.name, entry.name),
        expression=entry.expression.xreplace(changed),
        text=said(entry.text),
    )
    return names.get(name, name) + bracket + rest, entry
