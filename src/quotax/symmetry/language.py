"""The small language of actions: a string for each parameter becomes the SymPy expression of its general entry.

Matrix form, for arrays of one or two axes: `"g @ W1"`, `"W2 @ inv(g)"`, `"b + g"`, `"exp(-g) * a"`.
Index form, for any rank, repeated indices that are not on the left summed:
`{"Wq[head,x,k]": "g[head,k,l] Wq[head,x,l]"}`.

`null(V)` is the projector onto the kernel of a parameter, `null(V.T)` onto that of its transpose, `null(V, W)` onto
what both send to zero; in index form `null(V)[h,l]`, one for each layer `null(V)[layer,h,l]`.

Both become one tree, the `Entry` of `general_entries`.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

import sympy as sp

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.errors import SymmetryError
from quotax.parts import groups, plain
from quotax.symmetry.general_entries import (
    ELEMENT,
    INVERSE,
    NULL,
    RESERVED,
    Entry,
    Map,
    entry_of,
    label,
    projector,
    total,
    variable,
    written,
)
from quotax.symmetry.groups import Group
from quotax.symmetry.sums import contract_deltas
from quotax.symmetry.whole_arrays import by_parts

_FUNCTIONS: dict[str, Callable[[sp.Expr], sp.Expr]] = {"exp": sp.exp, "log": sp.log}


def parse_action(key: str, text: str, specs: tuple[ArraySpec, ...], group: Group, owner: str) -> tuple[Entry, ...]:
    """The entries of `key: text`: one, or one for each part of a fused array that it speaks of as a whole."""
    end = r"(?!\w|/[A-Za-z_]|\.(?!T\b))"
    said = lambda name: (
        re.search(rf"(?<![\w/.]){re.escape(written(name))}{end}", text) or name == key.split("[")[0].strip()
    )
    wholes = {name: own for name, own in groups(specs).items() if own[0].cuts and said(name)}
    if not wholes:
        return (_Parser(key, text, specs, group, owner).parse(),)
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
    parser = _Parser(key, text, tuple(named), group, owner)
    parser.wholes = wholes
    return by_parts(parser.parse(), places, text)


@dataclass(frozen=True)
class _Array:
    """An operand of the matrix form: its axes, and its entry as a function of one index tuple per axis."""

    axes: tuple[tuple[AxisFactor, ...], ...]
    entry: Callable[[tuple[tuple[sp.Symbol, ...], ...]], sp.Expr]

    @property
    def factors(self) -> tuple[AxisFactor, ...]:
        return tuple(f for axis in self.axes for f in axis)


@dataclass(frozen=True)
class _Word:
    """A number times a product of `g`, `inv(g)` and their transposes: each letter is (inverted, transposed)."""

    letters: tuple[tuple[bool, bool], ...]
    coefficient: sp.Expr = sp.S.One

    def inverse(self) -> _Word:
        letters = tuple((not inverted, transposed) for inverted, transposed in reversed(self.letters))
        return _Word(letters, 1 / self.coefficient)

    def transpose(self) -> _Word:
        letters = tuple((inverted, not transposed) for inverted, transposed in reversed(self.letters))
        return _Word(letters, self.coefficient)

    def times(self, number: sp.Expr) -> _Word:
        return _Word(self.letters, number * self.coefficient)


_Value = _Array | _Word


class _Parser:
    wholes: Collection[str] = ()
    """The arrays that hold several, of which the parts have kernels."""

    def __init__(self, key: str, text: str, specs: tuple[ArraySpec, ...], group: Group, owner: str) -> None:
        self.key, self.text, self.group, self.owner = key, text, group, owner
        self.specs = {spec.name: spec for spec in specs}
        self.factors: dict[sp.Symbol, AxisFactor] = {}
        self.labels: dict[str, sp.Symbol] = {}
        self.placeholders: dict[str, str] = {}

    # --- shared

    def parse(self) -> Entry:
        name, bracket, labels = self.key.partition("[")
        name = name.strip()
        if name not in self.specs:
            self.refuse(f"{name!r} is no parameter; the parameters are {', '.join(self.specs)}")
        spec = self.specs[name]
        if bracket or (not spec.axes and "[" in self.text):  # a scalar has no indices that would say which form it is
            return self.parse_index_form(spec, labels.rstrip().removesuffix("]"))
        indices = tuple(tuple(self.fresh(f) for f in axis) for axis in spec.axes)
        value = self.as_array(self.matrix(self.python(self.text)))
        if value.axes != spec.axes:
            if value.axes == ():
                self.refuse(f"the right-hand side is a scalar, but {name} has axes {spec.axes_text!r}")
            got = ArraySpec("", value.axes).axes_text
            self.refuse(f"the right-hand side has axes {got!r}, but {name} has {spec.axes_text!r}")
        return self.finish(name, _flat(indices), value.entry(indices))

    def finish(self, name: str, indices: tuple[sp.Symbol, ...], expression: sp.Expr) -> Entry:
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
        raise SymmetryError(f"{self.owner}: in {{{self.key!r}: {self.text!r}}}, {reason}.")

    def fresh(self, factor: AxisFactor) -> sp.Symbol:
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
        written = ast.unparse(node)
        if isinstance(node, ast.Name):
            self.refuse(f"{written!r} is neither g nor a parameter; the parameters are {', '.join(self.specs)}")
        self.refuse(
            f"{written!r} is not part of the language: "
            "use g, parameters, inv(g), .T, exp, log, +, -, *, /, @ and numbers"
        )

    def number(self, node: ast.expr) -> sp.Expr | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return sp.Rational(str(node.value))
        return None

    # --- matrix form

    def matrix(self, node: ast.expr) -> _Value:
        number = self.number(node)
        if number is not None:
            return _Array((), lambda _, value=number: value)
        spec = self.parameter(node)
        if spec is not None:
            if len(spec.axes) > 2:
                self.refuse(
                    f"{spec.name} has {len(spec.axes)} axes ({spec.axes_text!r}); the matrix form is for one or two; "
                    f"use the index form, as in {{'{spec.name}[{','.join(map(str, _flat(spec.axes)))}]': '...'}}"
                )
            base = sp.IndexedBase(variable(spec.name))
            return _Array(spec.axes, lambda indices, base=base: entry_of(base, _flat(indices)))
        match node:
            case ast.Name(id="g"):
                return _Word(((False, False),)) if self.group.layout == "matrix" else self.element_vector()
            case ast.Attribute(attr="T", value=inner):
                return self.transpose(self.matrix(inner))
            case ast.Call(func=ast.Name(id="inv"), args=[argument], keywords=[]):
                return self.invert(self.matrix(argument), ast.unparse(argument))
            case ast.Call(func=ast.Name(id=word), args=[_, *_] as arguments, keywords=[]) if word == NULL:
                return self.projector(arguments, node)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
                value, function = self.as_array(self.matrix(argument)), _FUNCTIONS[name]
                return _Array(value.axes, lambda indices: function(value.entry(indices)))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.matrix(operand)
                if isinstance(value, _Word):
                    return value.times(sp.S.NegativeOne)
                return _Array(value.axes, lambda indices: -value.entry(indices))
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return self.product(self.matrix(left), self.matrix(right), node)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self.power(self.matrix(left), self.constant(right))
            case ast.BinOp(left=left, op=ast.Mult(), right=right) if (number := self.number(left)) is not None:
                value = self.matrix(right)
                if isinstance(value, _Word):
                    return value.times(number)
                return _Array(value.axes, lambda indices: number * value.entry(indices))
            case ast.BinOp(left=left, op=op, right=right):
                return self.elementwise(self.as_array(self.matrix(left)), op, self.as_array(self.matrix(right)), node)
        return self.unknown(node)

    def constant(self, node: ast.expr) -> sp.Expr:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.constant(operand)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self.constant(left) / self.constant(right)
        number = self.number(node)
        if number is None:
            self.refuse(f"an exponent must be a number, got {ast.unparse(node)!r}")
        return number

    def element_vector(self) -> _Array:
        """`g` of a diagonal group, a translation or a scalar: a vector over its axes (a diagonal matrix under `@`)."""
        axes = self.group.element_axes
        base = sp.IndexedBase(ELEMENT)
        return _Array((axes,) if axes else (), lambda indices: entry_of(base, _flat(indices)))

    def as_array(self, value: _Value) -> _Array:
        """A product of group matrices, as the plain matrix it is."""
        if isinstance(value, _Array):
            return value
        if self.group.each:
            self.refuse(
                f"g is one matrix per {' and '.join(self.group.each_axes)}, so g alone is no array of two axes; "
                "multiply it with `@`"
            )
        axis = (self.group.axis or "",)
        return _Array((axis, axis), lambda indices: self.word_entry(value, indices[0], indices[1]))

    def word_entry(self, word: _Word, left: tuple[sp.Symbol, ...], right: tuple[sp.Symbol, ...]) -> sp.Expr:
        """Entry `(left, right)` of a product of group matrices; indices of other factors are shared by both."""
        axis = self.group.axis or ""
        place = next(i for i, symbol in enumerate(left) if self.factors[symbol] == axis)
        batch = tuple(next(s for s in left if self.factors[s] == each) for each in self.group.each_axes)
        path = [left[place], *(self.fresh(axis) for _ in word.letters[1:]), right[place]]
        terms = []
        for (inverted, transposed), a, b in zip(word.letters, path, path[1:], strict=False):
            base = sp.IndexedBase(INVERSE if inverted else ELEMENT)
            terms.append(entry_of(base, (*batch, b, a) if transposed else (*batch, a, b)))
        return total(sp.Mul(word.coefficient, *terms), path[1:-1], self.factors)

    def transpose(self, value: _Value) -> _Value:
        if isinstance(value, _Word):
            return value.transpose()
        if len(value.axes) != 2:
            return value
        return _Array(value.axes[::-1], lambda indices: value.entry(indices[::-1]))

    def projector(self, arguments: Sequence[ast.expr], node: ast.expr) -> _Array:
        """`null(V)`: onto the kernel of the matrices that are named, or of their transposes."""
        maps, axes = [], []
        for argument in arguments:
            inner = argument.value if isinstance(argument, ast.Attribute) and argument.attr == "T" else None
            spec = self.mapped(argument if inner is None else inner, node)
            if len(spec.axes) > 2 or len(spec.axes) < 1 or any(len(axis) > 1 for axis in spec.axes):
                self.refuse(
                    f"`{self.restore(node)}`: {spec.name} is no matrix ({spec.axes_text!r}); use the index form"
                )
            place = len(spec.axes) - 1 if inner is None else 0
            maps.append(Map(variable(spec.name), place, ()))
            axes.append(spec.axes[place])
        if len(set(axes)) > 1:
            self.refuse(f"`{self.restore(node)}` is of maps from different axes, {' and '.join(a[0] for a in axes)}")
        base = sp.IndexedBase(projector(maps))
        return _Array((axes[0], axes[0]), lambda indices: entry_of(base, _flat(indices)))

    def mapped(self, node: ast.expr, whole: ast.expr) -> ArraySpec:
        spec = self.parameter(node)
        if spec is None:
            self.refuse(f"`{self.restore(whole)}`: null takes parameters, got {self.restore(node)!r}")
        if spec.name in self.wholes:
            self.refuse(f"`{self.restore(whole)}`: {spec.name} holds several arrays; name one of its parts")
        return spec

    def invert(self, value: _Value, written: str) -> _Value:
        if isinstance(value, _Word):
            return value.inverse()
        if self.group.layout == "vector":
            self.refuse("g is a translation, which has no matrix inverse; write -g")
        if self.group.layout == "matrix" or not (
            value.axes == () or set(value.factors) <= set(self.group.element_axes)
        ):
            self.refuse(f"inv applies to g, got {written!r}")
        return self.power(value, sp.Integer(-1))

    def power(self, value: _Value, exponent: sp.Expr) -> _Array:
        if isinstance(value, _Word):
            self.refuse("a power of a matrix is written as a product, g @ g")
        return _Array(value.axes, lambda indices: value.entry(indices) ** exponent)

    def product(self, left: _Value, right: _Value, node: ast.BinOp) -> _Value:
        if isinstance(left, _Word) and isinstance(right, _Word):
            return _Word(left.letters + right.letters, left.coefficient * right.coefficient)
        if isinstance(left, _Word) and isinstance(right, _Array):
            return self.act(left, right, 0, node)
        if isinstance(right, _Word) and isinstance(left, _Array):
            return self.act(right, left, -1, node)
        assert isinstance(left, _Array)
        assert isinstance(right, _Array)
        if self.is_diagonal(node.left):
            return self.scale(left, right, 0, node)
        if self.is_diagonal(node.right):
            return self.scale(right, left, -1, node)
        if not left.axes or not right.axes or left.axes[-1] != right.axes[0]:
            self.mismatch(left, right, node)
        summed = tuple(self.fresh(f) for f in right.axes[0])
        cut = len(left.axes) - 1

        def entry(indices: tuple[tuple[sp.Symbol, ...], ...]) -> sp.Expr:
            term = left.entry((*indices[:cut], summed)) * right.entry((summed, *indices[cut:]))
            return total(term, summed, self.factors)

        return _Array(left.axes[:-1] + right.axes[1:], entry)

    def is_diagonal(self, node: ast.expr) -> bool:
        """Whether a node is built from `g` of a diagonal group and numbers: then `@` reads it as a diagonal matrix."""
        if self.group.layout != "diagonal" or not self.group.element_axes:
            return False
        match node:
            case ast.Name(id="g"):
                return True
            case ast.Call(func=ast.Name(id="inv"), args=[argument]):
                return self.is_diagonal(argument)
            case ast.Attribute(attr="T", value=inner) | ast.BinOp(left=inner, op=ast.Pow()):
                return self.is_diagonal(inner)
            case ast.UnaryOp(op=ast.USub(), operand=inner) | ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=inner):
                return self.is_diagonal(inner)
            case ast.BinOp(left=left, op=ast.MatMult(), right=right):
                return self.is_diagonal(left) and self.is_diagonal(right)
        return False

    def act(self, word: _Word, value: _Array, side: int, node: ast.BinOp) -> _Array:
        """A group matrix times an array, on the factor of its first or last axis that the group acts on."""
        place = self.acted_factor(value, side, node)
        which = 0 if side == 0 else len(value.axes) - 1

        def entry(indices: tuple[tuple[sp.Symbol, ...], ...]) -> sp.Expr:
            axis = indices[which]
            summed = self.fresh(value.axes[which][place])
            moved = (*axis[:place], summed, *axis[place + 1 :])
            inner = value.entry((*indices[:which], moved, *indices[which + 1 :]))
            matrix = self.word_entry(word, axis, moved) if side == 0 else self.word_entry(word, moved, axis)
            return total(matrix * inner, [summed], self.factors)

        return _Array(value.axes, entry)

    def scale(self, diagonal: _Array, value: _Array, side: int, node: ast.BinOp) -> _Array:
        """A diagonal matrix times an array: entry by entry on the first or last axis."""
        self.acted_factor(value, side, node)
        which = 0 if side == 0 else len(value.axes) - 1
        wanted = diagonal.factors
        places = [value.axes[which].index(f) for f in wanted]

        def entry(indices: tuple[tuple[sp.Symbol, ...], ...]) -> sp.Expr:
            own = tuple(indices[which][p] for p in places)
            return diagonal.entry((own,)) * value.entry(indices)

        return _Array(value.axes, entry)

    def acted_factor(self, value: _Array, side: int, node: ast.BinOp) -> int:
        axis = self.group.axis
        if not value.axes:
            self.refuse(f"`{ast.unparse(node)}` multiplies g with a scalar; use `*`")
        factors = value.axes[side]
        where = "first" if side == 0 else "last"
        if factors.count(axis or "") != 1:
            got = "*".join(map(str, factors))
            self.refuse(f"g acts on axis {axis!r}, but the {where} axis in `{self.restore(node)}` is {got!r}")
        for each in self.group.each_axes:
            if factors.count(each) != 1:
                self.refuse(
                    f"g is one matrix per {each!r}, which the {where} axis in `{self.restore(node)}` does not contain; "
                    "use the index form"
                )
        return factors.index(axis or "")

    def restore(self, node: ast.expr) -> str:
        written = ast.unparse(node)
        for placeholder, name in self.placeholders.items():
            written = written.replace(placeholder, name)
        return written

    def mismatch(self, left: _Array, right: _Array, node: ast.expr) -> NoReturn:
        sides = " and ".join(repr(ArraySpec("", side.axes).axes_text) for side in (left, right))
        self.refuse(f"`{self.restore(node)}` does not fit: its sides have axes {sides}")

    def elementwise(self, left: _Array, op: ast.operator, right: _Array, node: ast.expr) -> _Array:
        combine: dict[type, Callable[[sp.Expr, sp.Expr], sp.Expr]] = {
            ast.Add: lambda a, b: a + b,
            ast.Sub: lambda a, b: a - b,
            ast.Mult: lambda a, b: a * b,
            ast.Div: lambda a, b: a / b,
        }
        if type(op) not in combine:
            self.unknown(node)
        frame = left if len(left.factors) >= len(right.factors) else right
        read_left, read_right = self.align(left, frame, node), self.align(right, frame, node)
        function = combine[type(op)]
        return _Array(frame.axes, lambda indices: function(read_left(indices), read_right(indices)))

    def align(
        self, value: _Array, frame: _Array, node: ast.expr
    ) -> Callable[[tuple[tuple[sp.Symbol, ...], ...]], sp.Expr]:
        """Read `value` at the indices of a larger array: by position if the axes agree, else by axis name."""
        if value.axes == frame.axes:
            return value.entry
        places = []
        for factor in value.factors:
            if frame.factors.count(factor) != 1 or not isinstance(factor, str):
                self.mismatch(value, frame, node)
            places.append(frame.factors.index(factor))

        def entry(indices: tuple[tuple[sp.Symbol, ...], ...]) -> sp.Expr:
            flat, own, start = _flat(indices), [], 0
            for axis in value.axes:
                own.append(tuple(flat[p] for p in places[start : start + len(axis)]))
                start += len(axis)
            return value.entry(tuple(own))

        return entry

    # --- index form

    def parse_index_form(self, spec: ArraySpec, labels: str) -> Entry:
        node = self.python(f"_[{labels}]" if labels.strip() else "_")
        names = self.label_names(node.slice) if isinstance(node, ast.Subscript) else []
        factors = _flat(spec.axes)
        if len(names) != len(factors):
            self.refuse(f"{spec.name} has axes {spec.axes_text!r}: {len(factors)} indices are needed, got {len(names)}")
        if len(set(names)) != len(names):
            self.refuse("an index stands twice on the left")
        indices = tuple(self.label(name, factor) for name, factor in zip(names, factors, strict=True))
        text = re.sub(r"(?<=[\])\w])\s+(?=[\w(])", " * ", self.text.strip())
        text = re.sub(r"(?<=[\])])(?=[A-Za-z_(])", " * ", text)
        expression = self.index_sum(self.python(text), frozenset(indices))
        return self.finish(spec.name, indices, expression)

    def label_names(self, node: ast.expr) -> list[str]:
        match node:
            case ast.Tuple(elts=elements):
                return [name for element in elements for name in self.label_names(element)]
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self.label_names(left) + self.label_names(right)
            case ast.Name(id=name):
                return [self.placeholders.get(name, name)]
        return self.refuse(f"an index must be a name, got {ast.unparse(node)!r}")

    def label(self, name: str, factor: AxisFactor) -> sp.Symbol:
        symbol = self.labels.setdefault(name, sp.Symbol(name, integer=True))
        known = self.factors.setdefault(symbol, factor)
        if known != factor:
            self.refuse(f"index {name!r} runs over axis {known!r} in one place and {factor!r} in another")
        return symbol

    def index_sum(self, node: ast.expr, bound: frozenset[sp.Symbol]) -> sp.Expr:
        """A sum of terms, each summed over its own indices that are not bound."""
        match node:
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.index_sum(left, bound) + self.index_sum(right, bound)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self.index_sum(left, bound) - self.index_sum(right, bound)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.index_sum(operand, bound)
        counts = self.count_labels(node)
        free = []
        for name, count in counts.items():
            symbol = self.labels.get(name) or sp.Symbol(name, integer=True)
            if symbol in bound:
                continue
            if count < 2:
                self.refuse(
                    f"index {name!r} stands once in `{self.restore(node)}` and not on the left; "
                    "repeat it to sum over it"
                )
            free.append(name)
        term = self.index_factor(node, bound | {sp.Symbol(name, integer=True) for name in counts})
        return total(term, [self.labels[name] for name in free], self.factors)

    def count_labels(self, node: ast.expr) -> dict[str, int]:
        """How often each index occurs in a term; what a function or a bracket contains alone is its own affair."""
        counts: dict[str, int] = {}
        scopes: list[dict[str, int]] = []

        def visit(part: ast.expr) -> None:
            match part:
                case ast.Subscript(slice=labels):
                    for name in self.label_names(labels):
                        counts[name] = counts.get(name, 0) + 1
                case ast.Call(args=[argument]):
                    scopes.append(self.scope_labels(argument))
                case ast.BinOp(op=ast.Add() | ast.Sub()):
                    scopes.append(self.scope_labels(part))
                case ast.BinOp(left=left, right=right):
                    visit(left)
                    visit(right)
                case ast.UnaryOp(operand=operand):
                    visit(operand)

        visit(node)
        for scope in scopes:
            for name, count in scope.items():
                shared = name in counts or sum(name in other for other in scopes) > 1
                if shared or count < 2:
                    counts[name] = counts.get(name, 0) + count
        return counts

    def scope_labels(self, node: ast.expr) -> dict[str, int]:
        counts: dict[str, int] = {}
        for part in ast.walk(node):
            if isinstance(part, ast.Subscript):
                for name in self.label_names(part.slice):
                    counts[name] = counts.get(name, 0) + 1
        return counts

    def index_factor(self, node: ast.expr, bound: frozenset[sp.Symbol]) -> sp.Expr:
        number = self.number(node)
        if number is not None:
            return number
        spec = self.parameter(node)
        if spec is not None:
            if spec.axes:
                self.refuse(f"{spec.name} needs its indices, as in {spec.name}[{','.join(map(str, _flat(spec.axes)))}]")
            return entry_of(sp.IndexedBase(variable(spec.name)), ())
        match node:
            case ast.Name(id="g"):
                if self.group.element_axes:
                    self.refuse(f"g needs its indices, as in g[{','.join(self.group.element_axes)}]")
                return entry_of(sp.IndexedBase(ELEMENT), ())
            case ast.Subscript(value=base, slice=labels):
                return self.indexed(base, self.label_names(labels), node)
            case ast.Call(func=ast.Name(id="inv"), args=[argument]) if self.group.layout != "matrix":
                return 1 / self.index_factor(argument, bound)
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _FUNCTIONS:
                return _FUNCTIONS[name](self.index_sum(argument, bound))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.index_factor(operand, bound)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self.index_sum(node, bound)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self.index_factor(left, bound) * self.index_factor(right, bound)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return self.index_factor(left, bound) / self.index_factor(right, bound)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self.index_factor(left, bound) ** self.constant(right)
        return self.unknown(node)

    def projected(self, arguments: Sequence[ast.expr], names: list[str], node: ast.expr) -> sp.Expr:
        """`null(V)[layer,h,l]`: h and l run over the axis whose kernel it is, V has a copy for every other index."""
        specs = [self.mapped(argument, node) for argument in arguments]
        known = [self.factors[self.labels[n]] for n in names[-2:] if n in self.labels]
        if len(names) < 2 or not known:
            self.refuse(
                f"`{self.restore(node)}`: which axis it is the kernel along is said by an index of the left side"
            )
        copies = [self.label_axis(n, node) for n in names[:-2]]
        for spec in specs:
            for factor in (*copies, known[0]):
                if spec.factors.count(factor) != 1:
                    self.refuse(f"`{self.restore(node)}`: {spec.name} ({spec.axes_text!r}) has not one axis {factor!r}")
        symbols = [self.label(n, f) for n, f in zip(names, (*copies, known[0], known[0]), strict=True)]
        at = lambda spec, factor: spec.factors.index(factor)
        maps = [Map(variable(s.name), at(s, known[0]), tuple(at(s, f) for f in copies)) for s in specs]
        return entry_of(sp.IndexedBase(projector(maps)), tuple(symbols))

    def label_axis(self, name: str, node: ast.expr) -> AxisFactor:
        if name not in self.labels:
            self.refuse(f"`{self.restore(node)}`: index {name!r} must be one of the left side")
        return self.factors[self.labels[name]]

    def indexed(self, base: ast.expr, names: list[str], node: ast.expr) -> sp.Expr:
        match base:
            case ast.Call(func=ast.Name(id=word), args=[_, *_] as arguments, keywords=[]) if word == NULL:
                return self.projected(arguments, names, node)
        spec = self.parameter(base)
        if spec is not None:
            factors = _flat(spec.axes)
            if len(names) != len(factors):
                self.refuse(
                    f"`{self.restore(node)}` has {len(names)} indices, but {spec.name} has axes {spec.axes_text!r}"
                )
            return entry_of(
                sp.IndexedBase(variable(spec.name)),
                tuple(self.label(n, f) for n, f in zip(names, factors, strict=True)),
            )
        inverted, transposed = False, False
        while not isinstance(base, ast.Name):
            match base:
                case ast.Call(func=ast.Name(id="inv"), args=[inner]):
                    inverted, base = not inverted, inner
                case ast.Attribute(attr="T", value=inner):
                    transposed, base = not transposed, inner
                case _:
                    self.unknown(node)
        if base.id != ELEMENT:
            self.unknown(base)
        axes = self.group.element_axes
        layout = self.group.layout
        if layout == "diagonal" and self.group.axis and len(names) == len(axes) + 1:
            last = [self.label(n, self.group.axis) for n in names[-2:]]
            return self.indexed(base, names[:-1], node) ** (-1 if inverted else 1) * sp.KroneckerDelta(*last)
        if len(names) != len(axes):
            self.refuse(f"`{self.restore(node)}` has {len(names)} indices, but g has axes {' '.join(axes) or 'none'}")
        symbols = tuple(self.label(n, axis) for n, axis in zip(names, axes, strict=True))
        if layout != "matrix":
            if inverted and layout == "vector":
                self.refuse("g is a translation, which has no matrix inverse; write -g")
            return entry_of(sp.IndexedBase(ELEMENT), symbols) ** (-1 if inverted else 1)
        if transposed:
            symbols = (*symbols[:-2], symbols[-1], symbols[-2])
        return entry_of(sp.IndexedBase(INVERSE if inverted else ELEMENT), symbols)


def _flat(axes: tuple[tuple, ...]) -> tuple:
    return tuple(item for axis in axes for item in axis)
