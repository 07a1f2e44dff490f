"""Symmetries as they are stated on the command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from quotax.cli.asked import Asked
from quotax.cli.misuse import Misuse

if TYPE_CHECKING:
    import quotax as qx


def groups() -> list[str]:
    """The groups by their public names: what one of them is, the others are."""
    import quotax as qx

    base = qx.Permutation.__mro__[-2]
    kinds = {name: getattr(qx, name) for name in qx.__all__}
    return [name for name, kind in kinds.items() if isinstance(kind, type) and issubclass(kind, base)]


def chosen(asked: Asked, names: Sequence[str], group: str | None, actions: Sequence[str]) -> list[qx.Symmetry]:
    """The symmetries that are to be verified: the one that is written out, or those stated beside the model."""
    if group or actions:
        if names:
            raise Misuse(f"{names[0]!r} names a stated symmetry, and --group states another; ask for one of them")
        return [_written(group, actions)]
    if not asked.symmetries:
        raise Misuse(
            f"no symmetry is stated beside {asked.name}; state one as in --group 'PositiveDiagonal(h)' --action "
            f"'W1 = g @ W1' --action 'W2 = W2 @ inv(g)', or find them with `quotax derive {asked.name}`"
        )
    known = {symmetry.name: symmetry for symmetry in asked.symmetries}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            meant = f" (is {near[0]!r} meant?)" if near else ""
            raise Misuse(f"no symmetry {name!r} is stated beside {asked.name}{meant}; those are {', '.join(known)}")
    return [known[name] for name in names] or list(asked.symmetries)


def _written(group: str | None, actions: Sequence[str]) -> qx.Symmetry:
    import quotax as qx

    if not group:
        raise Misuse("--action needs the group of g, as in --group 'PositiveDiagonal(h)'")
    if not actions:
        raise Misuse(
            f"--group {group!r} needs what it does: --action 'W1 = g @ W1', once for each parameter that moves"
        )
    moved: dict[str, str] = {}
    for action in actions:
        left, arrow, right = re.fullmatch(r"\s*(.*?)\s*(=|->|$)\s*(.*?)\s*", action, re.DOTALL).groups()  # pyright: ignore
        if not arrow or not left or not right:
            raise Misuse(f"--action {action!r}: it is written as in 'W1 = g @ W1', or 'W[h,x] = g[h,k] W[k,x]'")
        moved[left] = right
    return qx.Symmetry("stated", _group(group), moved)


def _group(text: str) -> Any:
    import quotax as qx

    found = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    kind, inside = found.groups() if found else (text, None)
    known = groups()
    if kind not in known:
        near = difflib.get_close_matches(kind, known, 1)
        meant = f" (is {near[0]!r} meant?)" if near else ""
        raise Misuse(f"--group {text!r} is no group{meant}; those are {', '.join(known)}, as in 'GL(k, each=head)'")
    given = [word.strip().strip("'\"") for word in (inside or "").split(",") if word.strip()]
    plain = [word for word in given if "=" not in word]
    keywords = {k.strip(): v.strip().strip("'\"") for k, _, v in (word.partition("=") for word in given if "=" in word)}
    try:
        return getattr(qx, kind)(*plain, **keywords)
    except TypeError as error:
        raise Misuse(f"--group {text!r}: {error}") from None
