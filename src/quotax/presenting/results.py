"""How a result presents itself: on one short line, in a notebook, on a terminal, and as JSON.

A result is a dataclass or a named tuple that has `Result` for a base; what it presents are its fields, and the
properties that it lists in `_also`. Arrays are never written out where people read: an array of a few numbers is these
numbers, a larger one its type and shape, a tree of parameters how many arrays and numbers it has.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from quotax.trees import AnyArray, Tree

if TYPE_CHECKING:
    from rich.console import RenderableType

Json: TypeAlias = Any
"""What `json` writes, or has read: each reader says what of it has a meaning."""

LISTED = 100
"""Arrays of at most so many entries are lists in `to_dict`, unless it is told otherwise."""

_FEW = 4
_TEXT = 48
_LINE = 160
"""What a `repr` writes out: so many entries of a sequence, characters of a text, and characters in all."""


class Result:
    """What is returned to people: short as text, whole as data.

    >>> import dataclasses, numpy as np
    >>> @dataclasses.dataclass(frozen=True, repr=False)
    ... class Measured(Result):
    ...     value: float
    ...     where: dict
    ...     history: np.ndarray
    >>> found = Measured(1 / 3, {"W": np.ones((2, 3)), "b": np.zeros(2)}, np.arange(3.0))
    >>> found
    Measured(value=0.333333, where={2 arrays of 8 numbers}, history=[0, 1, 2])
    >>> found.to_dict(largest=3)["where"]
    {'W': {'shape': [2, 3], 'dtype': 'float64', 'min': 1.0, 'max': 1.0, 'norm': 2.449489742783178}, 'b': [0.0, 0.0]}
    """

    __slots__ = ()

    _also: ClassVar[tuple[str, ...]] = ()
    """Properties that are presented with the fields."""

    def _presented(self) -> Iterator[tuple[str, object]]:
        """Names and values of what is presented.

        A field that neither `repr` nor comparisons look at is the library's own.
        """
        if dataclasses.is_dataclass(self):
            names = [f.name for f in dataclasses.fields(self) if f.repr or f.compare]
        else:
            names = list(getattr(self, "_fields", ()))
        for name in (*names, *self._also):
            if not name.startswith("_"):
                yield name, getattr(self, name)

    def _told(self) -> Iterator[tuple[str, object]]:
        """What people read of that: a field that is left out of `repr` is for programs."""
        unread = {f.name for f in dataclasses.fields(self) if not f.repr} if dataclasses.is_dataclass(self) else ()
        return ((name, value) for name, value in self._presented() if name not in unread and not _nothing(value))

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the rows of the table that a notebook or a terminal shows."""
        return ("", ""), [(name.replace("_", " "), shown(value, 400)) for name, value in self._told()]

    def _title(self) -> str:
        """What stands above that table."""
        return type(self).__name__

    def _below(self) -> list[str]:
        """Lines that stand below it."""
        return []

    def to_dict(self, *, largest: int | None = LISTED) -> dict[str, Json]:
        """Everything as JSON values, for `json.dumps`.

        An array of at most `largest` entries is a list (None: every array), a larger one its shape, type, extremes and
        norm. A number that JSON has not is the text that Python's `float` reads: "nan", "inf" or "-inf".
        """
        return {name: plain(value, largest) for name, value in self._presented()}

    def __repr__(self) -> str:
        """One line, without arrays."""
        written, own = "", type(self)
        for name, value in self._told():
            part = f"{name}={shown(value)}"
            if len(written) + len(part) > _LINE:
                return f"{own.__name__}({written}, ...)"
            written += f", {part}" if written else part
        return f"{own.__name__}({written})"

    def _repr_html_(self) -> str:
        head, rows = self._rows()
        return html(self._title(), head, rows, self._below())

    def __rich__(self) -> RenderableType:
        """What rich shows on a terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        head, rows = self._rows()
        table = Table(
            title=Text(self._title()), title_justify="left", title_style="bold", box=SIMPLE_HEAD, show_header=any(head)
        )
        for name in head:
            table.add_column(Text(name), overflow="fold", style=None if any(head) or table.columns else "dim")
        for row in rows:
            table.add_row(*map(Text, row))
        return Group(table, *map(Text, self._below()))


def html(title: str, head: tuple[str, ...], rows: list[tuple[str, ...]], below: list[str]) -> str:
    """A table for a notebook."""
    cells = lambda kind, row: "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in row)
    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if any(head) else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    after = "".join(f"<p>{escape(line)}</p>" for line in below)
    return f"<table><caption>{escape(title)}</caption>{top}<tbody>{body}</tbody></table>{after}"


# --- as text


def shown(value: object, width: int = _TEXT) -> str:
    """A value in a few characters.

    >>> import numpy as np
    >>> shown(0.1 + 0.2), shown(np.ones((32, 64))), shown({"h": 3}), shown([1, 2, 3, 4, 5]), shown("text")
    ('0.3', 'float64[32,64]', '{h: 3}', '[5 entries]', "'text'")
    """
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return repr(_shortened(value, width)) if width == _TEXT else _shortened(value, width)
    if isinstance(value, Result):
        return f"{type(value).__name__}(...)" if width == _TEXT else _shortened(str(value), width)
    if _is_array(value):
        return _shown_array(value)
    arrays = _arrays_of(value)
    if arrays:
        numbers = sum(math.prod(array.shape) for array in arrays)
        return f"{{{len(arrays)} array{'s' * (len(arrays) > 1)} of {numbers:,} number{'s' * (numbers != 1)}}}"
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key}: {shown(part)}" for key, part in value.items()) if len(value) <= 2 * _FEW else ""
        return f"{{{inside}}}" if len(inside) <= width and (inside or not value) else f"{{{len(value)} entries}}"
    if isinstance(value, tuple | list):
        inside = ", ".join(map(shown, value)) if len(value) <= _FEW else ""
        return f"[{inside}]" if len(inside) <= width and (inside or not value) else f"[{len(value)} entries]"
    return _shortened(str(value), width)


def _shown_array(array: AnyArray) -> str:
    if not _known(array) or math.prod(array.shape) > _FEW or len(array.shape) > 1:
        text = f"{array.dtype}[{','.join(map(str, array.shape))}]"
        return text if _known(array) else f"traced {text}" if _traced(array) else text
    return shown(_listed(array)) if not array.shape else f"[{', '.join(map(shown, _listed(array)))}]"


def _nothing(value: object) -> bool:
    return value is None or (isinstance(value, str | tuple | list | Mapping) and not value)


def _shortened(text: str, width: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


# --- as data


def plain(value: object, largest: int | None = LISTED) -> Json:
    """A value as JSON has it.

    >>> import numpy as np
    >>> plain({"a": (1, float("inf")), "b": np.array([1, 2])})
    {'a': [1, 'inf'], 'b': [1, 2]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Result):
        return value.to_dict(largest=largest)
    if callable(own := getattr(value, "to_dict", None)) and not isinstance(value, type):
        return own()
    if _is_array(value):
        return _plain_array(value, largest)
    if isinstance(value, Mapping):
        return {str(key): plain(part, largest) for key, part in value.items()}
    if isinstance(value, tuple) and (names := getattr(value, "_fields", None)):
        return {name: plain(getattr(value, name), largest) for name in names}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(part, largest) for part in value]
    arrays = _named_arrays(value)
    if arrays:
        return {name: _plain_array(array, largest) for name, array in arrays.items()}
    return str(value)


def _plain_array(array: AnyArray, largest: int | None) -> Json:
    if _known(array) and (largest is None or math.prod(array.shape) <= largest):
        return plain(_listed(array), largest)
    about: dict[str, Json] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if _known(array):
        import numpy as np

        numbers = np.asarray(array)
        if numbers.dtype.kind in "fiu" and numbers.size:
            wide = numbers.astype(np.float64)
            found = {"min": wide.min(), "max": wide.max(), "norm": np.linalg.norm(wide)}
            about |= {name: plain(float(number)) for name, number in found.items()}
    return about


def _listed(array: AnyArray) -> Json:
    """The entries as nested lists of Python's numbers; of types that NumPy has not, as it widens them."""
    import numpy as np

    host = np.asarray(array)
    return (host if host.dtype.kind in "biufOSU" else host.astype(np.float64)).tolist()


# --- arrays, whoever made them


def _is_array(value: object) -> bool:
    return hasattr(value, "dtype") and hasattr(value, "shape") and not isinstance(value, type)


def _traced(array: AnyArray) -> bool:
    from jax.core import Tracer

    return isinstance(array, Tracer)


def _known(array: AnyArray) -> bool:
    """Whether the numbers are here: not while something is traced, nor of keys, nor where others hold a part."""
    kind = getattr(array.dtype, "kind", "")
    extended = not isinstance(kind, str) or "key<" in str(array.dtype)
    here = getattr(array, "is_fully_addressable", True) if not _traced(array) else False
    return bool(here) and not extended


def _arrays_of(value: Tree) -> list[AnyArray]:
    return list(_named_arrays(value).values())


def _named_arrays(value: Tree) -> dict[str, AnyArray]:
    """The arrays of a tree, if it is made of arrays alone, by where they stand."""
    import jax

    try:
        leaves = jax.tree_util.tree_flatten_with_path(value)[0]
    except (TypeError, ValueError):  # keys that have no order
        return {}
    arrays = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
    return arrays if arrays and all(map(_is_array, arrays.values())) else {}
