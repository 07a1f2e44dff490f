"""What a family does to the parameters, read from its terms: a shift, a linear action, one-sided or not.

These are facts of structure and size alone; nothing here looks at the parameters' values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from quotax.geometry.families.velocities import Family
from quotax.symmetry import Term, reads


def is_shift(family: Family) -> bool:
    """Whether the family adds something that no parameter multiplies, to parameters that it moves in no other way."""
    return bool(_shifted(family)) and not _otherwise(family)


def _otherwise(family: Family) -> bool:
    """Whether something is added to what is multiplied: `w -> g (w + 1) - 1`, which fixes minus one and not zero."""
    return any(term.kind != "shift" and term.target in _shifted(family) for term in family.terms or ())


def _shifted(family: Family) -> set[str]:
    return {term.target for term in family.terms or () if term.kind == "shift"}


def is_isometric(family: Family) -> bool:
    """Whether the family acts by orthogonal matrices, or by shifts that no parameter multiplies."""
    if not family.group.continuous or (family.group.orthogonal and is_linear(family)):
        return True
    return bool(family.terms) and all(term.kind == "shift" for term in family.terms or ())


def is_linear(family: Family) -> bool:
    """Whether every generator is linear in the parameters, and self-adjoint or skew.

    Terms on a parameter itself are; carried terms are when they come in pairs, `u` from `v` as `v` from `u`.
    """
    if family.terms is None or _shifted(family) or not family.group.selfadjoint:
        return False
    carried = [term for term in family.terms if term.kind == "carried"]
    pairs = {(t.target, t.source, t.subscripts, t.coefficient) for t in carried}
    return all((t.source, t.target, _mirrored(t), t.coefficient) in pairs for t in carried)


def without_frame(families: Sequence[Family]) -> dict[str, str]:
    """The families under which no metric with a name is invariant, whatever else there is, with the reasons."""
    reasons = {}
    for family in families:
        if not family.group.selfadjoint:
            why = f"{family.group} is not closed under transposes"
        elif family.action.projectors:
            why = "it moves along kernels"
        elif family.action.constants:
            why = "it reads numbers that the model closes over"
        elif _otherwise(family):
            why = f"what it does to {', '.join(sorted(_shifted(family)))} is not a shift alone"
        else:
            continue
        reasons[family.name] = f"{why}, and no representative of its orbits is the canonical one"
    centred = {name for family in families if _otherwise(family) for name in _shifted(family)}
    for family in families:
        if family.name not in reasons and (through := sorted(reads(family.action) & centred)):
            why = f"it is seen through {', '.join(through)}, of which the scaling is left out"
            reasons[family.name] = f"{why}: no representative of its orbits is the canonical one"
    return reasons


def _mirrored(term: Term) -> str:
    """The subscripts of the term with source and target exchanged, letters renamed in order of appearance."""
    if term.source_labels != term.target_labels:
        return ""  # an index is mixed on the way: not written the same both ways
    return term.subscripts


def sides(family: Family) -> tuple[list[Term], list[Term]]:
    """The terms that grow with the group element, and those that shrink."""
    own = [term for term in family.terms or () if term.homogeneous]
    return [t for t in own if t.coefficient > 0], [t for t in own if t.coefficient < 0]


def clashes(families: Sequence[Family]) -> list[tuple[Family, Family]]:
    """Pairs that mix the same index of a parameter."""
    found = []
    for number, one in enumerate(families):
        for two in families[:number]:
            for a in one.terms or ():
                for b in two.terms or ():
                    matrices = [t for t in (a, b) if t.kind == "matrix"]
                    if a.target == b.target and matrices and _touches(a, b) and _touches(b, a):
                        found.append((one, two))
    return found


def _touches(a: Term, b: Term) -> bool:
    """Whether `a` mixes or scales apart an index that `b` mixes."""
    if b.kind != "matrix" or b.position is None:
        return a.kind == "matrix"
    label = a.target_labels[b.position]
    return a.position == b.position if a.kind == "matrix" else label in a.element


def _width(family: Family, terms: Sequence[Term]) -> int:
    """How many vectors along the axis the terms' parameters hold, for one copy of the group."""
    total = 0
    for term in terms:
        shape = dict(zip(term.target_labels, family.splits[term.target], strict=True))
        own = set(term.element[:-2]) | {term.target_labels[term.position or 0]}
        total += math.prod(n for label, n in shape.items() if label not in own)
    return total


def short_sides(family: Family) -> list[bool] | None:
    """For each side, whether it holds too few vectors to fix the element of a matrix family."""
    if family.group.layout != "matrix" or not all(term.kind == "matrix" for term in family.terms or ()):
        return None
    needed = family.group.shape(family.sizes)[-1] if family.group.general else 1
    return [bool(side) and _width(family, side) < needed for side in sides(family)]


def uninformative(family: Family) -> set[str]:
    """Parameters on the side of a matrix family that cannot fix it, while the other side can."""
    short = short_sides(family)
    if short is None or short[0] == short[1] or not all(sides(family)):
        return set()
    return {term.target for term in sides(family)[0 if short[0] else 1]}


def hopeless(family: Family) -> bool:
    """Whether every side is too short: the stabiliser is then not compact, and no metric is invariant."""
    short = short_sides(family)
    return short is not None and not any(side and not s for side, s in zip(sides(family), short, strict=True))


def one_sided(family: Family) -> int:
    """One where every parameter grows with the element, minus one where every one shrinks, zero where they balance."""
    grows, shrinks = sides(family)
    if any(term.kind == "carried" for term in family.terms or ()) or (grows and shrinks):
        return 0
    return 1 if grows else -1
