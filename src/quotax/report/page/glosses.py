"""What the signs on the page mean, in words: groups, and the steps of a proof."""

from __future__ import annotations

import re
from collections.abc import Iterable

_GROUPS = (
    (r"R\+\^(?P<axis>\w+)", "a positive factor for each {axis}"),
    (r"R\+", "one positive factor"),
    (r"R\*\^(?P<axis>\w+)", "a factor other than zero for each {axis}"),
    (r"R\+\^\((?P<axis>\w+)/2\)", "a positive factor for each pair of {axis}"),
    (r"C\*\^\((?P<axis>\w+)/2\)", "a rotation and a positive factor for each pair of {axis}"),
    (r"SO\(2\)\^\((?P<axis>\w+)/2\)", "a rotation for each pair of {axis}"),
    (r"GL\((?P<axis>\w+)\)", "all invertible {axis} × {axis} matrices"),
    (r"O\((?P<axis>\w+)\)", "rotations and reflections of {axis}"),
    (r"O_1\((?P<axis>\w+)\)", "rotations of {axis} that keep the vector of ones"),
    (r"F_0\((?P<axis>\w+)\)", "matrices on {axis} that keep vectors whose entries add up to zero"),
    (r"S\((?P<axis>\w+)\)", "permutations of {axis}"),
    (r"Z2\^(?P<axis>\w+)", "a sign for each {axis}"),
    (r"Z2", "one sign"),
    (r"R\^(?P<axis>\w+)", "a shift for each {axis}"),
)
"""Groups as they are written, most of all first, and what their elements are."""

_EACH = r"(?P<each>(\^\w+)*)"

_MARKS = (
    ("[the action]", "the action", "what the symmetry does to a parameter, as the formulas above say it"),
    (
        "[normal form]",
        "normal form",
        "both sides, written out as sums of products of named entries, are the same sum once indices are renamed and "
        "equal terms added",
    ),
    ("dot_general", "dot_general", "JAX's name of a sum of products, such as a matrix product"),
    ("becomes", "T becomes g T", "the tensor that this operation makes is multiplied by g along one of its axes"),
    ("F(", "F(αz) = α F(z)", "a law of the function, which lets a factor or a permutation through"),
    ("by ", "by …", "a rule about the group's elements that was used to rewrite both sides"),
    (
        "the kernel replayed",
        "the kernel",
        "a short program that checks the steps one by one, apart from the search that found them",
    ),
)


def group_words(text: str) -> str:
    """What the elements of a group are, or nothing for one that is not known here.

    >>> group_words("GL(k)^head"), group_words("R+^h"), group_words("?")
    ('all invertible k × k matrices, one for each head', 'a positive factor for each h', '')
    """
    for pattern, words in _GROUPS:
        if found := re.fullmatch(pattern + _EACH, text):
            axis = found.groupdict().get("axis") or ""
            each = [name for name in found["each"].split("^") if name]
            own = words.format(axis=axis)
            if not each:
                return own
            joined = " and ".join(each)
            return f"{own} and each {joined}" if "for each" in own else f"{own}, one for each {joined}"
    return ""


def marks(steps: Iterable[str]) -> list[tuple[str, str]]:
    """The marks that steps of a proof bear, each with what it means."""
    text = list(steps)
    starts = lambda mark: any(step.startswith(mark) for step in text)
    inside = lambda mark: any(mark in step for step in text)
    return [(name, words) for mark, name, words in _MARKS if (starts if mark == "by " else inside)(mark)]


def scopes(families: Iterable[dict[str, object]]) -> str:
    """How far the proofs of families reach, in the words of a sentence."""
    found = {str(family["certificate"]["scope"]) for family in families}  # type: ignore[index]
    if found and all(scope.startswith("every width") for scope in found):
        return "each proved for every width"
    return "each proved, as far as stands beside it"


def claimed(claim: str) -> str:
    """A claim without the formulas that stand above it.

    >>> claimed("mlp is invariant under scale h: R+^h, W1 -> g @ W1"), claimed("the metric 'a' is invariant under b")
    ('mlp is invariant under scale h', "the metric 'a' is invariant under b")
    """
    before, _, formulas = claim.partition(": ")
    return before if "->" in formulas else claim
