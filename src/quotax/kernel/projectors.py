r"""The orthogonal projector onto what several maps send to zero, $P = 1 - A^+ A$: an atom, and what is known of it.

$A$ is the maps under one another, as parameters with an axis in common; there is one for each index of the axes that a
copy has. $A P = 0$ and $P^2 = P = P^T$ hold at every point, whatever the rank of $A$ is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from quotax.kernel import indices as ix
from quotax.kernel.atoms import Atom, Atoms, Factor, Scalar
from quotax.kernel.indices import Bound
from quotax.kernel.polynomials import Algebra, Rewritten, Rule
from quotax.kernel.rewriting import occurrences
from quotax.kernel.sizes import Size


@dataclass(frozen=True)
class Projector:
    """Of the maps `(atom, slot of the axis, slots of the copies)`; `slots` are the extents of the copies, and the axis.

    Where the axis has one index there is no slot for it, and nothing is known.
    """

    name: str
    maps: tuple[tuple[int, int | None, tuple[int, ...]], ...]
    slots: tuple[Size, ...]

    def atom(self, atoms: Atoms) -> Atom:
        """Its entries: of the copies, of the axis, of the axis again."""
        return atoms.make(("projector", self.name), Scalar(), "P", self.slots, moved=True)

    def relations(self, atoms: Atoms) -> tuple[Rule, ...]:
        """What its entries obey; the atom is made here."""
        made = self.atom(atoms)
        maps = {number: (slot, copies) for number, slot, copies in self.maps if slot is not None}
        return (lambda algebra, factors: _projected(algebra, factors, made, maps),) if maps else ()


def _projected(
    algebra: Algebra, factors: list[Factor], made: Atom, maps: dict[int, tuple[int, tuple[int, ...]]]
) -> list[Rewritten] | None:
    r"""$\sum_j A_{ij} P_{jk} = 0$ and $\sum_j P_{ij} P_{jk} = P_{ik}$; the two places of $P$ are alike."""
    mine = [k for k, f in enumerate(factors) if f.atom == made.number and f.power == 1]
    for k in mine:
        *each, first, second = factors[k].at
        if ix.order(second) < ix.order(first) and not (isinstance(first, Bound) and isinstance(second, Bound)):
            swapped = Factor(made.number, (*each, second, first), 1)
            return [(Fraction(1), [*factors[:k], swapped, *factors[k + 1 :]], ())]
        for common, stays in ((first, second), (second, first)):
            if not isinstance(common, Bound) or len(occurrences(factors, common)) != 2:
                continue
            for j, (number, at, power) in enumerate(factors):
                if j == k or power != 1:
                    continue
                if number in maps:
                    slot, copies = maps[number]
                    if at[slot] == common and [at[c] for c in copies] == each:
                        algebra.lemmas["kernel: A P = 0 for the projector onto the kernel of A"] = None
                        return []
                if j in mine and list(at[:-2]) == each and common in at[-2:]:
                    algebra.lemmas["projector: P² = P"] = None
                    end = at[-1] if at[-2] == common else at[-2]
                    rest = [f for m, f in enumerate(factors) if m not in (j, k)]
                    return [(Fraction(1), [*rest, Factor(number, (*each, stays, end), 1)], (common,))]
    return None
