"""What both forms of the language share: names, numbers, and how a line that cannot be read is refused."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

import sympy as sp

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.errors import SymmetryError
from quotax.symmetry.groups import Group
from quotax.symmetry.new_entries.general_entries import RESERVED, Entry, label
from quotax.symmetry.new_entries.sums import contract_deltas

FUNCTIONS: dict[str, Callable[[sp.Expr], sp.Expr]] = {"exp": sp.exp, "log": sp.log}


class Grammar:
    """One line of an action, `key: text`, and what is known while it is read."""

    def __init__(
        self,
        key: str,
        text: str,
        specs: Sequence[ArraySpec],
        group: Group,
        owner: str,
        wholes: Collection[str] = (),
    ) -> None:
        """`wholes` are the arrays that hold several, of which the parts have kernels."""
        self.key, self.text, self.group, self.owner = key, text, group, owner
        self.specs = {spec.name: spec for spec in specs}
        self.wholes = wholes
        self.factors: dict[sp.Symbol, AxisFactor] = {}
        self.placeholders: dict[str, str] = {}
        name = key.partition("[")[0].strip()
        if name not in self.specs:
            self.refuse(f"{name!r} is no parameter; the parameters are {', '.join(self.specs)}")
        self.spec = self.specs[name]

    def finish(self, name: str, indices: tuple[sp.Symbol, ...], expression: sp.Expr) -> Entry:
        """The entry, its sums simplified where deltas allow it."""
        return Entry(name, indices, self.factors, contract_deltas(sp.sympify(expression)), self.text)

    def python(self, text: str) -> ast.expr:
        """The syntax tree; names that are none of Python's (`block/W`, an axis `in`) are made such for its parser."""
        for name in sorted((n for n in self.specs if "/" in n or "." in n), key=len, reverse=True):
            placeholder = f"nested__{len(self.placeholders)}"
            pattern = rf"(?<![\w/.]){re.escape(name)}(?!\w|/[A-Za-z_])"
            text, count = re.subn(pattern, placeholder, text)
            if count:
                self.placeholders[placeholder] = name
        for word in keyword.kwlist:
            placeholder = f"word__{word}"
            text, count = re.subn(rf"(?<![\w.]){word}(?!\w)", placeholder, text)
            if count:
                self.placeholders[placeholder] = word
        try:
            return ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            self.refuse(f"cannot be read: {error.msg}")

    def refuse(self, reason: str) -> NoReturn:
        """Say why this line is refused."""
        raise SymmetryError(f"{self.owner}: in {{{self.key!r}: {self.text!r}}}, {reason}.")

    def fresh(self, factor: AxisFactor) -> sp.Symbol:
        """An index of its own, named after what it runs over."""
        symbol = sp.Symbol(label(factor, [known.name for known in self.factors]), integer=True)
        self.factors[symbol] = factor
        return symbol

    def parameter(self, node: ast.expr) -> ArraySpec | None:
        """The parameter a node names: by its name, or as `p.name` when the name is taken by the language."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "p":
            transposed = node.attr == "T" and "p" in self.specs
            return None if transposed else self.specs.get(node.attr)
        if isinstance(node, ast.Name) and node.id not in RESERVED:
            return self.specs.get(self.placeholders.get(node.id, node.id))
        return None

    def unknown(self, node: ast.expr) -> NoReturn:
        """Refuse what is no part of the language."""
        written = self.restore(node)
        if isinstance(node, ast.Name):
            self.refuse(f"{written!r} is neither g nor a parameter; the parameters are {', '.join(self.specs)}")
        if isinstance(node, ast.Subscript) and (spec := self.parameter(node.value)) is not None:
            key = f"{spec.name}[{self.restore(node.slice).strip('()')}]"
            self.refuse(
                f"entries are read of entries alone: name those of the new array, as in {{{key!r}: {self.text!r}}}"
            )
        self.refuse(
            f"{written!r} is not part of the language: "
            "use g, parameters, inv(g), .T, exp, log, +, -, *, /, @ and numbers"
        )

    def number(self, node: ast.expr) -> sp.Expr | None:
        """A number as it stands, exact."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return sp.Rational(str(node.value))
        return None

    def constant(self, node: ast.expr) -> sp.Expr:
        """An exponent: numbers with signs and fractions."""
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.constant(operand)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self.constant(left) / self.constant(right)
        number = self.number(node)
        if number is None:
            self.refuse(f"an exponent must be a number, got {self.restore(node)!r}")
        return number

    def mapped(self, node: ast.expr, whole: ast.expr) -> ArraySpec:
        """The parameter whose kernel is meant."""
        spec = self.parameter(node)
        if spec is None:
            self.refuse(f"`{self.restore(whole)}`: null takes parameters, got {self.restore(node)!r}")
        if spec.name in self.wholes:
            self.refuse(f"`{self.restore(whole)}`: {spec.name} holds several arrays; name one of its parts")
        return spec

    def restore(self, node: ast.expr) -> str:
        """A node as the user wrote it."""
        written = ast.unparse(node)
        for placeholder, name in self.placeholders.items():
            written = written.replace(placeholder, name)
        return written


def flat(axes: tuple[tuple, ...]) -> tuple:
    """The factors of all axes, or their indices."""
    return tuple(item for axis in axes for item in axis)
