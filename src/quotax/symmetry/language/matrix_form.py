"""The matrix form, for arrays of one or two axes: `"g @ W1"`, `"W2 @ inv(g)"`, `"b + g"`, `"exp(-g) * a"`.

A product of group matrices stays a word until it meets an array, on the axis that the group acts on; an array is its
axes and its entry at any indices.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

import sympy as sp

from quotax.artifacts import ArraySpec, AxisFactor
from quotax.symmetry.language.grammar import FUNCTIONS, Grammar, flat
from quotax.symmetry.new_entries.general_entries import (
    ELEMENT,
    INVERSE,
    NULL,
    Entry,
    Map,
    entry_of,
    projector,
    total,
    variable,
)


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


class MatrixForm(Grammar):
    """A line in matrix form."""

    def entry(self) -> Entry:
        """The entry of the parameter that the line is about."""
        spec = self.spec
        indices = tuple(tuple(self.fresh(f) for f in axis) for axis in spec.axes)
        value = self.as_array(self.matrix(self.python(self.text)))
        if value.axes != spec.axes:
            if value.axes == ():
                self.refuse(f"the right-hand side is a scalar, but {spec.name} has axes {spec.axes_text!r}")
            got = ArraySpec("", value.axes).axes_text
            self.refuse(f"the right-hand side has axes {got!r}, but {spec.name} has {spec.axes_text!r}")
        return self.finish(spec.name, flat(indices), value.entry(indices))

    def matrix(self, node: ast.expr) -> _Value:
        """What a node is: an array, or a word of group matrices."""
        number = self.number(node)
        if number is not None:
            return _Array((), lambda _, value=number: value)
        spec = self.parameter(node)
        if spec is not None:
            if len(spec.axes) > 2:
                self.refuse(
                    f"{spec.name} has {len(spec.axes)} axes ({spec.axes_text!r}); the matrix form is for one or two; "
                    f"use the index form, as in {{'{spec.name}[{','.join(map(str, flat(spec.axes)))}]': '...'}}"
                )
            base = sp.IndexedBase(variable(spec.name))
            return _Array(spec.axes, lambda indices, base=base: entry_of(base, flat(indices)))
        match node:
            case ast.Name(id="g"):
                return _Word(((False, False),)) if self.group.layout == "matrix" else self.element_vector()
            case ast.Attribute(attr="T", value=inner):
                return self.transpose(self.matrix(inner))
            case ast.Call(func=ast.Name(id="inv"), args=[argument], keywords=[]):
                return self.invert(self.matrix(argument), self.restore(argument))
            case ast.Call(func=ast.Name(id=word), args=[_, *_] as arguments, keywords=[]) if word == NULL:
                return self.projector(arguments, node)
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
                value, function = self.as_array(self.matrix(argument)), FUNCTIONS[name]
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

    def element_vector(self) -> _Array:
        """`g` of a diagonal group, a translation or a scalar: a vector over its axes (a diagonal matrix under `@`)."""
        axes = self.group.element_axes
        base = sp.IndexedBase(ELEMENT)
        return _Array((axes,) if axes else (), lambda indices: entry_of(base, flat(indices)))

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
        """With its axes exchanged; an array of one axis stays."""
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
        return _Array((axes[0], axes[0]), lambda indices: entry_of(base, flat(indices)))

    def invert(self, value: _Value, written: str) -> _Value:
        """The inverse: of a word, or entry by entry of a diagonal element."""
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
        """A power, entry by entry."""
        if isinstance(value, _Word):
            self.refuse("a power of a matrix is written as a product, g @ g")
        return _Array(value.axes, lambda indices: value.entry(indices) ** exponent)

    def product(self, left: _Value, right: _Value, node: ast.BinOp) -> _Value:
        """`left @ right`."""
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
        """Where on its first or last axis the group acts on an array."""
        axis = self.group.axis
        if not value.axes:
            self.refuse(f"`{self.restore(node)}` multiplies g with a scalar; use `*`")
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

    def mismatch(self, left: _Array, right: _Array, node: ast.expr) -> NoReturn:
        """Refuse two sides whose axes do not fit."""
        sides = " and ".join(repr(ArraySpec("", side.axes).axes_text) for side in (left, right))
        self.refuse(f"`{self.restore(node)}` does not fit: its sides have axes {sides}")

    def elementwise(self, left: _Array, op: ast.operator, right: _Array, node: ast.expr) -> _Array:
        """Entry by entry, the shorter side read along the axes that it names."""
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
            whole, own, start = flat(indices), [], 0
            for axis in value.axes:
                own.append(tuple(whole[p] for p in places[start : start + len(axis)]))
                start += len(axis)
            return value.entry(tuple(own))

        return entry
