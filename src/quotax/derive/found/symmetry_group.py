"""`SymmetryGroup`: what a derivation found, with its certificates, its dimensions and its audit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import sympy as sp

from quotax.artifacts import Certificate, Model, completed, settled
from quotax.derive.candidates.unnamed import FieldFamily, Leftover
from quotax.derive.found.audit import LARGEST, Audit, audit
from quotax.derive.found.dimensions import OVERLAP, STABILISER, axis_symbol, dimension_formulas, group_dimension
from quotax.derive.found.flip_order import flip_order
from quotax.derive.found.lie_algebra import Structure, structure
from quotax.derive.points.vector_fields import dimensions, field_along
from quotax.errors import QuotaxError, SymmetryError
from quotax.interpret import symbols_for
from quotax.presenting import Json, Result
from quotax.presenting.tables import room, table, wrapped
from quotax.symmetry import OBJECTS, Action, Symmetry
from quotax.symmetry.merging import mapping
from quotax.symmetry.plain import symmetry_data, text
from quotax.trees import Dim, place

Field = dict[sp.Symbol, sp.Expr]

FORMAT, VERSION = "quotax symmetries", 1
"""What files of symmetries begin with; a reader of one version reads that version."""

_ACTION = 30
"""Columns of the table that actions have at least."""


def _nothing_more(sizes: Mapping[str, int]) -> Leftover:
    return Leftover()


@dataclass(frozen=True, repr=False)
class SymmetryGroup(Result):
    """Certified symmetry families: iterate over them, name one, count, and ask what they leave unexplained.

    `unnamed` holds proved fields that belong to no family with a finite action; `unproved` holds candidates, symmetries
    and fields, for which no proof was found; `unsearched` says what the budget left no time for, and what the model is
    too large for. None of them is iterated over.
    """

    model: Model
    proved: tuple[tuple[Symmetry, Certificate], ...]
    discrete_proved: tuple[tuple[Symmetry, Certificate], ...] = ()
    unnamed: tuple[FieldFamily, ...] = ()
    unproved: tuple[tuple[Symmetry | FieldFamily, Certificate], ...] = ()
    declared: tuple[Symmetry, ...] = ()
    sizes: tuple[Mapping[str, int], ...] = ()
    ansatz: str = "affine"
    more: Callable[[Mapping[str, int]], Leftover] = field(default=_nothing_more, repr=False, compare=False)
    unsearched: tuple[str, ...] = ()
    read_from: str = field(default="", compare=False)
    """The file that its certificates were read from, until `recheck` has replayed them."""

    # --- families

    @property
    def families(self) -> tuple[Symmetry, ...]:
        """The continuous families, each with a finite action and a proof."""
        return tuple(symmetry for symmetry, _ in self.proved)

    @property
    def discrete(self) -> tuple[Symmetry, ...]:
        """Proved permutations and sign flips that the continuous families do not contain."""
        return tuple(symmetry for symmetry, _ in self.discrete_proved)

    @property
    def _named(self) -> tuple[Symmetry, ...]:
        return (*self.families, *self.discrete)

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """One for each family, in the order of iteration."""
        return tuple(certificate for _, certificate in self.proved)

    def __iter__(self) -> Iterator[Symmetry]:
        """The continuous families."""
        return iter(self.families)

    def __len__(self) -> int:
        """How many continuous families."""
        return len(self.proved)

    def __getitem__(self, name: str | int) -> Symmetry:
        """A family or a discrete symmetry by name."""
        if isinstance(name, int):
            return self.families[name]
        for symmetry in self._named:
            if symmetry.name == name:
                return symmetry
        names = ", ".join(repr(s.name) for s in self._named) or "none"
        raise SymmetryError(f"`found[{name!r}]`: no such symmetry of {self.model.name}; found were {names}.")

    def certificate(self, name: str) -> Certificate:
        """The certificate of a symmetry by name."""
        self[name]
        return next(c for s, c in (*self.proved, *self.discrete_proved) if s.name == name)

    # --- as data

    def recheck(self) -> SymmetryGroup:
        """The group, every certificate checked again against the model; refused with the names of those that fail."""
        failed = []
        for symmetry, certificate in (*self.proved, *self.discrete_proved):
            try:
                certificate.recheck()
            except QuotaxError as error:
                failed.append(f"{symmetry.name}: {error}")
        if failed:
            source = f" of {self.read_from}" if self.read_from else ""
            raise SymmetryError(
                f"`found.recheck()`: these certificates{source} do not hold of {self.model.name} as it is now. "
                "Derive its symmetries again. " + "; ".join(failed)
            )
        return replace(self, read_from="")

    def to_dict(self, *, largest: int | None = None) -> dict[str, Json]:
        """Everything as JSON values: the model's declaration, families, actions, certificates with their steps."""
        head = declared_data(self.model)
        pairs = lambda found: [symmetry_data(s) | {"certificate": c.to_dict()} for s, c in found]
        some = [(s, c) for s, c in self.unproved if isinstance(s, Symmetry)]
        fields = [f.to_dict() for f, _ in self.unproved if isinstance(f, FieldFamily)]
        return {
            "format": FORMAT,
            "version": VERSION,
            **head,
            "families": pairs(self.proved),
            "discrete": pairs(self.discrete_proved),
            "declared": [symmetry_data(s) for s in self.declared],
            "fields": [f.to_dict() for f in self.unnamed],
            "unproved": pairs(some),
            "unproved fields": fields,
            "unsearched": list(self.unsearched),
            "ansatz": self.ansatz,
            "sizes": [dict(sizes) for sizes in self.sizes],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` to a file, which `qx.load_symmetries(path, model)` reads."""
        Path(path).write_text(text(self.to_dict()) + "\n", encoding="utf-8")

    def to_mapping(self) -> dict[str, Json]:
        """The transforms that leave the function as it is, as JSON values for tools that merge them into weights.

        For every family, which array is multiplied by what: along which dimension, from which side, by the element or
        its inverse or transpose, one for each head or one for all: see `quotax.symmetry.merging`. Only what is proved.
        """
        families = []
        for symmetry, certificate in (*self.proved, *self.discrete_proved):
            own = mapping(symmetry.bind(self.model.params), self.model.params)
            families.append(own | {"status": certificate.status, "scope": certificate.scope})
        return {"format": "quotax transforms", "version": VERSION, **declared_data(self.model), "families": families}

    # --- fields and dimensions

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        """The families bound to the model's parameters, after those declared."""
        return tuple(s.bind(self.model.params) for s in (*self.declared, *self.families) if s.group.continuous)

    def generators(self, **sizes: int) -> list[Field]:
        """The vector fields of all families at these sizes: `{entry: expression}` for each basis element."""
        checked = self._sizes("generators", sizes)
        fields = [f for s in self.families for f in family_fields(s.bind(self.model.params), self.model, checked)]
        return fields + [f for family in self._left(checked).proved for f in family.fields]

    def structure(self, **sizes: int) -> Structure:
        """The Lie algebra of `generators(**sizes)`: closure, structure constants, centre, radical, all exact."""
        return structure(self.generators(**sizes), dict(sizes))

    @cached_property
    def _formulas(self) -> tuple[sp.Expr, sp.Expr]:
        return dimension_formulas(self.actions, self.model.params, self.model.fixed)

    @property
    def algebra_dim(self) -> sp.Expr:
        """The dimension of the Lie algebra, in the axis names; minus `overlap` where that has no formula."""
        return self._formulas[0]

    @property
    def orbit_dim(self) -> sp.Expr:
        """The dimension of a generic orbit, in the axis names; minus `stabiliser` where that has no formula."""
        return self._formulas[1]

    def dimension(self, **sizes: int) -> dict[str, int]:
        """The dimension of each continuous family at these sizes, by name: exact at any size, for nothing is sampled.

        Where no stabilisers are, which `orbit_dim` says, their sum is that of an orbit.
        """
        checked = self._sizes("dimension", sizes)
        at = {axis_symbol(axis): size for axis, size in checked.items()}
        groups = [(s.name, s.group) for s in (*self.declared, *self.families) if s.group.continuous]
        return {name: int(sp.sympify(group_dimension(group)).subs(at)) for name, group in groups}

    def audit(self, **sizes: int) -> Audit:
        """How much of what is flat the families explain, at these sizes.

        Above 2,500 parameters there is no rank: dimensions are by formula, and random products with the Jacobian say
        whether the families' fields are flat. Fields without a family are not counted there.
        """
        checked = self._sizes("audit", sizes)
        small = sum(int(np.prod(s.shape(checked), dtype=np.int64)) for s in self.model.params) <= LARGEST
        left = self._left(checked) if small else Leftover()
        return audit(self.model, self.actions, checked, left, None if small else self._formulas)

    def _left(self, sizes: Mapping[str, int]) -> Leftover:
        """The fields without a family at these sizes, looked for where there are such fields at the sizes sampled."""
        here = tuple(f for f in self.unnamed if dict(f.sizes) == dict(sizes))
        others = tuple(f for f, _ in self.unproved if isinstance(f, FieldFamily) and dict(f.sizes) == dict(sizes))
        if here or others:
            return Leftover(here, others)
        return self.more(sizes) if self.unnamed else Leftover()

    def _sizes(self, call: str, sizes: Mapping[str, int]) -> dict[str, int]:
        own = tuple(dict.fromkeys(n for spec in self.model.params for n in spec.axis_names))
        fixed = self.model.fixed
        brought: Mapping[str, int] = getattr(self.model, "own", {})
        sizes = {axis: size for axis, size in brought.items() if axis not in fixed} | dict(sizes)
        axes = ", ".join(self.model.axis_names)
        for axis, size in sizes.items():
            if axis not in self.model.axis_names:
                raise SymmetryError(f"`found.{call}({_text(sizes)})`: unknown axis {axis!r}; the axes are {axes}.")
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
                raise SymmetryError(f"`found.{call}`: axis {axis!r} needs a positive integer size, got {size!r}.")
        sizes = completed({axis: int(size) for axis, size in sizes.items()}, fixed, f"found.{call}")
        missing = [a for a in own if a not in sizes]
        if missing:
            raise SymmetryError(
                f"`found.{call}({_text(sizes)})`: missing size of axis {missing[0]!r}; the axes are {axes}."
            )
        # axes that only inputs have: long enough that the input does not limit what can be told apart, and unequal
        free = (n for n in (6, *range(8, 10_000, 2)) if n not in sizes.values())
        return settled({a: sizes[a] if a in sizes else next(free) for a in self.model.axis_names}, fixed)

    # --- what people read

    def _title(self) -> str:
        if not self._named and not self.unnamed:
            return f"{self.model.name}: no symmetry found."
        total = f"algebra {self.algebra_dim}, orbit {self.orbit_dim}"
        total += ", and fields without a family at " + _text(self.unnamed[0].sizes) if self.unnamed else ""
        return f"{self.model.name}: {total}"

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows = []
        for symmetry, certificate in (*self.proved, *self.discrete_proved):
            action = ", ".join(f"{k} -> {v}" for k, v in symmetry.action.items())
            dimension = str(group_dimension(symmetry.group)) if symmetry.group.continuous else "discrete"
            rows.append(
                (symmetry.name, str(symmetry.group), action, dimension, f"{certificate.status}, {certificate.scope}")
            )
        for family in self.unnamed:
            rows.append(
                (family.name, "fields", _text(family.sizes), str(len(family.fields)), family.certificate.status)
            )
        return ("name", "group", "action", "dimension", "certificate"), rows

    def __str__(self) -> str:
        """A table of the families, not wider than 100 columns: where an action is too long, what it moves."""
        head, rows = self._rows()
        if not rows:
            return "\n".join(map(wrapped, [self._title(), *self._below()]))
        space = max(room(head, rows, 2), _ACTION)
        moved = {s.name: f"moves {place(s.bind(self.model.params).moved, space - 6)}" for s in self._named}
        short = [(n, g, a if len(a) <= space else moved.get(n, a), *rest) for n, g, a, *rest in rows]
        return "\n".join([wrapped(self._title()), table(head, short, rule=False), *map(wrapped, self._below())])

    def _below(self) -> list[str]:
        why = "for want of time unless another reason is given"
        after = [f"not searched, {why}: {', '.join(self.unsearched)}"] if self.unsearched else []
        after += [f"read from {self.read_from}; `found.recheck()` replays the proofs"] if self.read_from else []
        return [*(self._notes() if self._rows()[1] else ()), *after]

    def _notes(self) -> list[str]:
        """What the table needs to be read: the flips are generators, and unknowns stand for numbers."""
        notes = []
        flips = [s for s in self.discrete if s.group.kind == "sign"]
        if flips:
            what = "sign flips: a generator" if len(flips) == 1 else f"sign flips: {len(flips)} generators"
            notes.append(f"{what} of a group of order {flip_order(flips, self.model.params)}")
        unknown = {s for formula in self._formulas for s in formula.free_symbols} & {OVERLAP, STABILISER}
        if unknown and self.sizes:
            algebra, orbit = dimensions(self.actions, self.model.params, self.sizes[0])
            values = {OVERLAP: sum(len(a.group.basis(self.sizes[0])) for a in self.actions) - algebra}
            values[STABILISER] = algebra - orbit
            what = {OVERLAP: "the families have in common", STABILISER: "leaves a generic point in place"}
            notes += [
                f"{s}: the dimension of what {what[s]}, for which no formula was found; "
                f"{values[s]} at {_text(self.sizes[0])}"
                for s in sorted(unknown, key=str)
            ]
        return notes

    def latex(self) -> str:
        """The table in LaTeX, actions as SymPy writes them."""
        lines = [r"\begin{tabular}{llll}", r"family & group & action & dimension \\ \hline"]
        for symmetry in self.families:
            action = r",\ ".join(
                rf"{sp.latex(_left(e))} \mapsto {sp.latex(e.expression)}"
                for e in symmetry.bind(self.model.params).entries
            )
            group = sp.latex(sp.Symbol(str(symmetry.group)))
            dimension = sp.latex(group_dimension(symmetry.group))
            lines.append(rf"{_escaped(symmetry.name)} & ${group}$ & ${action}$ & ${dimension}$ \\")
        return "\n".join([*lines, r"\end{tabular}"])

    def __repr__(self) -> str:
        """As printed."""
        return str(self)


def declared_data(model: Model) -> dict[str, Json]:
    """What a model declares, as axes are written; tokens, masks and positive inputs say so."""
    kinds = lambda spec: {"kind": spec.kind} | ({} if spec.below is None else {"below": spec.below})
    plain = lambda spec: spec.axes_text if spec.kind == "real" else {"axes": spec.axes_text} | kinds(spec)
    params, inputs = ({spec.name: plain(spec) for spec in specs} for specs in (model.params, model.inputs))
    return {"model": model.name, "params": params, "inputs": inputs}


def _escaped(text: str) -> str:
    return text.replace("_", r"\_").replace("#", r"\#")


def _left(entry: sp.Expr) -> sp.Expr:
    return sp.Indexed(sp.IndexedBase(entry.name), *entry.indices) if entry.indices else sp.Symbol(entry.name)


def _text(sizes: Mapping[str, Dim]) -> str:
    return ", ".join(f"{a}={n!r}" for a, n in sizes.items())


def family_fields(action: Action, model: Model, sizes: Mapping[str, int]) -> list[Field]:
    """The fields of one family: its infinitesimal action at symbols, for each basis element of the algebra."""
    symbols = np.concatenate([symbols_for(spec, sizes).reshape(-1) for spec in model.params])
    out = []
    for xi in action.group.basis(sizes):
        tangent = np.vectorize(sp.Integer, otypes=[object])(xi) if xi.ndim else sp.Integer(int(xi))
        values = map(sp.sympify, field_along(action, model.params, sizes, symbols, tangent, OBJECTS))
        out.append({symbol: value for symbol, value in zip(symbols, values, strict=True) if value != 0})
    return out
