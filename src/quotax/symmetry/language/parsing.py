"""The small language of actions: a string for each parameter becomes the SymPy expression of its general entry.

Matrix form, for arrays of one or two axes: `"g @ W1"`, `"W2 @ inv(g)"`, `"b + g"`, `"exp(-g) * a"`.
Index form, for any rank, repeated indices that are not on the left summed:
`{"Wq[head,x,k]": "g[head,k,l] Wq[head,x,l]"}`.

`null(V)` is the projector onto the kernel of a parameter, `null(V.T)` onto that of its transpose, `null(V, W)` onto
what both send to zero; in index form `null(V)[h,l]`, one for each layer `null(V)[layer,h,l]`.

Both become one tree, the `Entry` of `general_entries`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from quotax.artifacts import ArraySpec
from quotax.errors import SymmetryError
from quotax.parts import groups, plain
from quotax.symmetry.groups import Group
from quotax.symmetry.language.index_form import IndexForm
from quotax.symmetry.language.matrix_form import MatrixForm
from quotax.symmetry.language.whole_arrays import by_parts
from quotax.symmetry.new_entries.general_entries import Entry, variable, written


def parse_action(key: str, text: str, specs: tuple[ArraySpec, ...], group: Group, owner: str) -> tuple[Entry, ...]:
    """The entries of `key: text`: one, or one for each part of a fused array that it speaks of as a whole."""
    end = r"(?!\w|/[A-Za-z_]|\.(?!T\b))"
    said = lambda name: (
        re.search(rf"(?<![\w/.]){re.escape(written(name))}{end}", text) or name == key.split("[")[0].strip()
    )
    wholes = {name: own for name, own in groups(specs).items() if own[0].cuts and said(name)}
    if not wholes:
        return (_read(key, text, specs, group, owner),)
    places, named = {}, list(specs)
    for name, own in wholes.items():
        found = plain(own)
        if found is None:
            raise SymmetryError(
                f"{owner}: in {{{key!r}: {text!r}}}, the parts of {name} differ in size; "
                f"say what becomes of each: {', '.join(spec.name for spec in own)}."
            )
        named.append(found[0])
        places[variable(name)] = (found[1], own)
    return by_parts(_read(key, text, named, group, owner, wholes), places, text)


def _read(
    key: str, text: str, specs: Sequence[ArraySpec], group: Group, owner: str, wholes: Collection[str] = ()
) -> Entry:
    """The entry of one line, in the form that its left side says; a scalar has no indices that would say it."""
    name, bracket, _ = key.partition("[")
    scalar = any(spec.name == name.strip() and not spec.axes for spec in specs)
    form = IndexForm if bracket or (scalar and "[" in text) else MatrixForm
    return form(key, text, specs, group, owner, wholes).entry()
