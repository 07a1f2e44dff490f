"""The index form, for any rank: `{"Wq[head,x,k]": "g[head,k,l] Wq[head,x,l]"}`.

Indices that are repeated and not on the left are summed, each over the smallest part that has all of its places: a
function or a bracket that alone contains an index sums over it inside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import sympy as sp

from quotax.artifacts import AxisFactor
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


class IndexForm(Grammar):
    """A line in index form."""

    def entry(self) -> Entry:
        """The entry of the parameter that the line is about."""
        self.labels: dict[str, sp.Symbol] = {}
        spec = self.spec
        labels = self.key.partition("[")[2].rstrip().removesuffix("]")
        node = self.python(f"_[{labels}]" if labels.strip() else "_")
        names = self.label_names(node.slice) if isinstance(node, ast.Subscript) else []
        factors = flat(spec.axes)
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
        """The names between brackets."""
        match node:
            case ast.Tuple(elts=elements):
                return [name for element in elements for name in self.label_names(element)]
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self.label_names(left) + self.label_names(right)
            case ast.Name(id=name):
                return [self.placeholders.get(name, name)]
        return self.refuse(f"an index must be a name, got {self.restore(node)!r}")

    def label(self, name: str, factor: AxisFactor) -> sp.Symbol:
        """The index of a name, which runs over one axis."""
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
        """How often each index occurs below a node."""
        counts: dict[str, int] = {}
        for part in ast.walk(node):
            if isinstance(part, ast.Subscript):
                for name in self.label_names(part.slice):
                    counts[name] = counts.get(name, 0) + 1
        return counts

    def index_factor(self, node: ast.expr, bound: frozenset[sp.Symbol]) -> sp.Expr:
        """A factor of a term, its sums taken by the term."""
        number = self.number(node)
        if number is not None:
            return number
        spec = self.parameter(node)
        if spec is not None:
            if spec.axes:
                self.refuse(f"{spec.name} needs its indices, as in {spec.name}[{','.join(map(str, flat(spec.axes)))}]")
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
            case ast.Call(func=ast.Name(id=name), args=[argument]) if name in FUNCTIONS:
                return FUNCTIONS[name](self.index_sum(argument, bound))
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
        """What an index of the left side runs over."""
        if name not in self.labels:
            self.refuse(f"`{self.restore(node)}`: index {name!r} must be one of the left side")
        return self.factors[self.labels[name]]

    def indexed(self, base: ast.expr, names: list[str], node: ast.expr) -> sp.Expr:
        """An entry of a parameter, of the group element or of a projector."""
        match base:
            case ast.Call(func=ast.Name(id=word), args=[_, *_] as arguments, keywords=[]) if word == NULL:
                return self.projected(arguments, names, node)
        spec = self.parameter(base)
        if spec is not None:
            factors = flat(spec.axes)
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
