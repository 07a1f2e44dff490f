"""A trace written out as a sheet: the writer, and what a rule is told about one equation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend import core
from jax.extend.core import ClosedJaxpr

from quotax.artifacts import ArraySpec, AxisFactor, OpenTrace, Trace
from quotax.interpret.constants import simplest_rational
from quotax.interpret.laws import sources, tensors
from quotax.interpret.laws.tensors import Dims, Known, NoLaw, Tensor, Value
from quotax.interpret.shared.folding import fold
from quotax.interpret.tracing.centres import centres
from quotax.interpret.tracing.provenance import place
from quotax.kernel import atoms as kinds
from quotax.kernel import rewriting
from quotax.kernel.indices import WRITTEN, Free, Index
from quotax.kernel.polynomials import UNIT, Algebra, Atoms, Poly
from quotax.kernel.sheet import Guard, Sheet, is_infinite, made_of, named_sum
from quotax.kernel.sizes import ONE, Size
from quotax.programs.jaxprs import CALLS, Settings, as_closed, is_key, live, shaped
from quotax.trees import AnyArray

INFINITE = "an infinite constant meets no zero and no other infinity"
"""What is assumed where an infinity is computed with."""
HIDDEN = "what the mask at "
"""How a condition on what a mask makes infinite begins."""
MOST = 9
"""The largest size that is asked of an axis, so that an entry exists: those below it can be looked at one by one."""
OPEN = ", where it is zero on open sets"
"""How a condition on a denominator ends that fails at more than single points."""
_LINEAR = """
    add add_any sub mul neg dot_general conv_general_dilated reduce_sum cumsum reduce_window_sum transpose reshape
    broadcast_in_dim squeeze concatenate stack split unstack slice pad rev tile gather dynamic_slice copy scatter
    dynamic_update_slice scatter-add convert_element_type reduce_precision stop_gradient name optimization_barrier
"""
_BOUNDS = ("max", "min", "clamp", "eq", "ne", "lt", "le", "gt", "ge", "pad")
"""Primitives for which an infinite constant is a bound that every number keeps."""
LINEAR = frozenset(_LINEAR.split())
"""Primitives that keep an infinity one, or make it no number."""
BODIES = (*CALLS, "scan", "while", "cond")
"""Primitives that run another jaxpr."""
Rule = Callable[["Eqn", list[Value]], list[Value]]


@dataclass
class Writer:
    """The sheet that is being written, and what is known on the way."""

    sheet: Sheet
    algebra: Algebra
    rules: Mapping[str, Rule]
    expressions: Callable[[ClosedJaxpr, Sequence[np.ndarray]], list[np.ndarray]]
    numbers: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    casts: int = 0
    emptied: Literal["", "sometimes", "always"] = ""
    """Whether masks leave nothing of a row that is summed: for some inputs, or for all that were looked at."""
    _fresh: int = 0

    def fresh(self, size: Size) -> Free:
        """A free index that no dimension has."""
        self._fresh += 1
        return Free((WRITTEN, self._fresh), size)

    def at_least(self, size: Size, value: Size) -> bool:
        """Whether a size is at least another; of one axis and a number, it may be made a condition of the sheet."""
        apart = size.minus(value)
        if apart.nonnegative:
            return True
        symbols = apart.symbols
        if len(symbols) != 1 or len(apart) > 2:
            return False
        (axis,) = symbols
        rest = apart.minus(Size.of(axis)).value
        if rest is None or not axis.isidentifier() or rest < -MOST:
            return False
        self.sheet.conditions[f"{axis} ≥ {-rest}"] = None
        return True

    def is_fresh(self, index: Index) -> bool:
        """Whether an index is none of a dimension: outside a rule, the time of a loop that is being read."""
        return isinstance(index, Free) and index.place[0] == WRITTEN

    def tensor(self, value: Value, dims: Dims | None = None) -> Tensor:
        """A value as a tensor; `dims` says how the dimensions of a constant factor."""
        if isinstance(value, Tensor):
            return value
        array = np.asarray(value.array)
        dims = tensors.dims_of([Size.of(n) for n in array.shape]) if dims is None else dims
        at = tensors.flat(tensors.labels(dims))
        poly = self.array(array.reshape([_count(i.extent) for i in at]), at)
        infinite = array.dtype.kind == "f" and not np.all(np.isfinite(array))
        return Tensor(dims, poly, frozenset({INFINITE}) if infinite else frozenset())

    def array(self, array: np.ndarray, at: Sequence[Index]) -> Poly:
        """An array of numbers at these indices: rationals where it is one number, exact floats elsewhere."""
        if uniform(array):
            return self.number(array.flat[0])
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            key = ("infinite", array.shape, array.tobytes())
            made = self.algebra.atoms.make(key, kinds.Infinite(array), "c", [i.extent for i in at])
            return self.algebra.entry(made, at)
        found = rewriting.constant(self.algebra, array, at)
        return self.algebra.substituted(found)

    def number(self, value: float | np.generic) -> Poly:
        """A number: the simplest rational that it stands for, or an infinity."""
        value = value.item() if isinstance(value, np.generic) and value.dtype.kind in "bi" else value
        if not np.isfinite(value):
            level = float(value)
            made = self.algebra.atoms.make(("infinite", str(level)), kinds.Infinite(level), str(value), ())
            return self.algebra.entry(made, ())
        exact = Fraction(int(value)) if isinstance(value, (bool, int)) else simplest_rational(value)
        return {(): exact} if exact else {}

    def arbitrary(self, literal: int) -> Poly:
        """A number of which nothing is known: a proof for every value of it is one for ours.

        Two of them are never one, whatever values they had where they were looked at.
        """
        made = self.algebra.atoms.make(("arbitrary", literal), kinds.Real(None), "c", ())
        return self.algebra.entry(made, ())

    def settled(self, value: Tensor) -> Tensor:
        """The value with long polynomials named, so that later products stay short.

        Roots that all of a sum is multiplied by, the length that a norm divides by, stay outside.
        """
        algebra = self.algebra
        if tensors.simple(algebra, value.poly):
            return value
        common, rest = tensors.parted(algebra, value.poly, lambda f: f.power != int(f.power))
        return replace(value, poly=algebra.multiply(named_sum(algebra, rest), algebra.normal(1, common)))

    def run(self, closed: ClosedJaxpr, arguments: Sequence[Value], origin: str) -> list[Value]:
        """The outputs of a jaxpr at these values."""
        jaxpr = closed.jaxpr
        values: dict[core.Var, Value] = {}

        def read(atom: core.Var | core.Literal) -> Value:
            if not isinstance(atom, core.Literal):
                return values[atom]
            if id(atom) in self.numbers:
                return Tensor((), self.arbitrary(list(self.numbers).index(id(atom))))
            return Known(np.asarray(atom.val))

        values.update(zip(jaxpr.constvars, map(_constant, closed.consts), strict=True))
        values.update(zip(jaxpr.invars, arguments, strict=True))
        for equation in live(jaxpr):
            results = self._step(equation, [read(atom) for atom in equation.invars], place(equation) or origin)
            values.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _step(self, equation: core.JaxprEqn, args: list[Value], where: str) -> list[Value]:
        name = equation.primitive.name
        outputs = tuple(shaped(atom) for atom in equation.outvars)
        known = [a.array for a in args if isinstance(a, Known)]
        constant = len(known) == len(args) and outputs and name not in (*BODIES, "dim_as_value")
        if constant and all(map(_is_plain, outputs)):
            return self._computed(equation, known)
        rule = self.rules.get(name)
        if rule is None:
            raise NoLaw(f"`{name}` at {where} has no law")
        eqn = Eqn(equation.primitive, equation.params, tuple(shaped(a) for a in equation.invars), outputs, self, where)
        before = len(self.algebra.atoms.made)
        try:
            results = rule(eqn, args)
        except NoLaw as error:
            raise NoLaw(str(error) if str(error).startswith("`") else f"`{name}` at {where}: {error}") from error
        for number in range(before, len(self.algebra.atoms.made)):
            self.sheet.places.setdefault(number, f"{name} at {where}")
        if name in BODIES:
            apart = name not in CALLS  # what is carried is an atom of its own
            return [replace(r, lost=True) if apart and isinstance(r, Tensor) and r.assumed else r for r in results]
        return [self._conditioned(eqn, args, r) for r in results]

    def _computed(self, equation: core.JaxprEqn, arrays: list[AnyArray]) -> list[Value]:
        """What follows from constants alone; random keys are constants of JAX's own."""
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            if any(map(is_key, (*equation.invars, *equation.outvars))):
                found = equation.primitive.bind(*arrays, **equation.params)
                found = found if equation.primitive.multiple_results else [found]
            else:
                found = fold(equation.primitive, equation, arrays)
        outvars = equation.outvars
        return [Known(a if is_key(v) else np.asarray(a)) for v, a in zip(outvars, found, strict=True)]

    def _conditioned(self, eqn: Eqn, args: Sequence[Value], value: Value) -> Value:
        """The result with the conditions of the operands.

        What is no real number (a truth value, a position) has a value where its operands have none, so conditions
        become guards there. `select_n` and the casts say for themselves what they make of conditions.
        """
        if not isinstance(value, Tensor):
            return value
        operands = [a for a in args if isinstance(a, Tensor)]
        value = replace(value, source=sources.source(eqn, args, value))
        if eqn.primitive.name not in _BOUNDS:
            operands += [self.tensor(a) for a in args if isinstance(a, Known) and not _finite(a.array)]
        value = replace(value, lost=self._lost(eqn, operands, value))
        if not operands or eqn.primitive.name == "select_n":
            return value
        assumed = value.assumed.union(*(a.assumed for a in operands)) - value.freed
        guards = value.guards.union(*(a.guards for a in operands))
        if eqn.out_kind == "b" and assumed and value.source is not None:
            return Tensor(value.dims, sources.opaque(self.algebra, value.source))
        if eqn.out_kind != "f" and any(k == "f" for k in eqn.kinds):
            guards |= {Guard(c, None) for c in assumed}
            assumed = frozenset()
        if eqn.primitive.name not in LINEAR:
            # a function of an infinity may be a number again
            read = args[1:] if eqn.primitive.name == "div" else args
            guards |= {Guard(c, None) for a in read if isinstance(a, Tensor) for c in a.assumed if c.endswith(OPEN)}
        return replace(value, assumed=assumed, guards=guards, freed=frozenset())

    def _lost(self, eqn: Eqn, operands: Sequence[Tensor], value: Tensor) -> bool:
        """Whether an infinity of the operands does not stand in the result: two that cancel, one times zero.

        What fills a mask stands in it.
        """
        about = [a for a in operands if any(map(about_infinities, a.assumed))]
        if eqn.primitive.name == "select_n":
            about = [a for a in about if not self._alone(a.poly)]
        if not about:
            return False
        there = lambda polys: {a.number for a in made_of(self.algebra, polys) if is_infinite(a)}
        return any(a.lost for a in about) or not there([a.poly for a in about]) <= there([value.poly])

    def _alone(self, poly: Poly) -> bool:
        """Whether a polynomial is an infinite constant, or a number times one."""
        atoms = [self.algebra.atoms[f.atom] for term in poly for f in term]
        return len(poly) == len(atoms) == 1 and isinstance(atoms[0].what, kinds.Infinite)


def about_infinities(condition: str) -> bool:
    """Whether a condition is about what a mask hides, or about an infinite constant."""
    return condition == INFINITE or condition.startswith(HIDDEN)


@dataclass(frozen=True)
class Eqn:
    """One equation of a jaxpr as a rule sees it."""

    primitive: core.Primitive
    params: Settings
    inputs: tuple[ShapedArray, ...]
    outputs: tuple[ShapedArray, ...]
    writer: Writer
    place: str

    @property
    def algebra(self) -> Algebra:
        """The writer's."""
        return self.writer.algebra

    def shape(self, position: int) -> tuple[Size, ...]:
        """The shape of one operand."""
        return tensors.shape_of(self.inputs[position])

    @property
    def out_shape(self) -> tuple[Size, ...]:
        """The shape of the first output."""
        return tensors.shape_of(self.outputs[0])

    def kind(self, position: int) -> str:
        """`b`, `i` or `f`: truth values, integers or reals."""
        return _kind(self.inputs[position])

    @property
    def kinds(self) -> tuple[str, ...]:
        """Those of all operands."""
        return tuple(map(_kind, self.inputs))

    @property
    def out_kind(self) -> str:
        """The kind of the first output."""
        return _kind(self.outputs[0])

    def run(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        """The outputs of a nested jaxpr."""
        return self.writer.run(as_closed(closed), args, self.place)


def write_sheet(
    program: OpenTrace | Trace,
    rules: Mapping[str, Rule],
    expressions: Callable[[ClosedJaxpr, Sequence[np.ndarray]], list[np.ndarray]],
) -> tuple[Sheet, Writer]:
    """What a trace computes, written out by these rules; `expressions` are a jaxpr's outputs at SymPy's numbers.

    A parameter `w` that is read as `w + r` alone is written as `s - r`: `s` is what the sheet has an atom for.
    """
    sizes = {axis: Size.of(size) for axis, size in program.sizes.items()}
    sheet = Sheet(Atoms())
    algebra = Algebra(sheet.atoms, rewriting.RULES)
    writer = Writer(sheet, algebra, rules, expressions, getattr(program, "numbers", {}))
    sheet.centres = centres(program)
    arguments = []
    for spec in (*program.params, *program.inputs):
        value = array(writer, spec, sizes, spec in program.params)
        if spec in program.params:
            (((number, _, _),),) = value.poly
            sheet.parameters[spec.name] = number
            value = replace(value, poly=algebra.add(value.poly, UNIT, -sheet.centres.get(spec.name, Fraction(0))))
        arguments.append(value)
    outputs = [writer.tensor(v) for v in writer.run(program.jaxpr, arguments, "a place that JAX did not record")]
    sheet.outputs = [v.poly for v in outputs]
    sheet.guards = tuple(dict.fromkeys(g for v in outputs for g in sorted(v.guards, key=lambda g: g.condition)))
    conditions = sorted({c for v in outputs for c in v.assumed} | {g.condition for g in sheet.guards})
    sheet.assumptions = (*conditions, *writer.notes)
    return sheet, writer


def array(writer: Writer, spec: ArraySpec, sizes: Mapping[str, Size], parameter: bool) -> Tensor:
    """A parameter or an input as a tensor."""
    dims = tuple(tuple(s for f in axis if (s := _factor(f, sizes)) != ONE) for axis in spec.axes)
    at = tensors.flat(tensors.labels(dims))
    what, sign = kinds.Parameter() if parameter else kinds.Input(), "real"
    if spec.kind == "tokens":
        assert spec.below is not None
        what, sign = kinds.TokenInput(_factor(spec.below, sizes)), "nonnegative"
    elif spec.kind in ("mask", "positive"):
        sign = "boolean" if spec.kind == "mask" else "positive"
    key = (type(what).__name__, spec.name)
    r = writer.sheet.centres.get(spec.name) if parameter else None
    name = spec.name if r is None else f"({spec.name} {'+' if r > 0 else '-'} {abs(r)})"
    made = writer.algebra.atoms.make(key, what, name, [i.extent for i in at], sign=sign)
    return Tensor(dims, writer.algebra.entry(made, at))


def _factor(factor: AxisFactor, sizes: Mapping[str, Size]) -> Size:
    return Size.of(factor) if isinstance(factor, int) else sizes[factor]


def uniform(array: np.ndarray) -> bool:
    """Whether an array is one number everywhere."""
    return bool(array.size) and bool(np.all(array == array.flat[0]) or np.all(array != array))


def _constant(value: AnyArray) -> Known:
    return Known(value if is_key(value) else np.asarray(value))


def _kind(aval: ShapedArray) -> str:
    kind = np.dtype(aval.dtype).kind if not jax.numpy.issubdtype(aval.dtype, jax.dtypes.extended) else "k"
    # bfloat16 and its relatives are no floats to NumPy
    return "f" if jax.numpy.issubdtype(aval.dtype, np.floating) else "i" if kind == "u" else kind


def _finite(array: AnyArray) -> bool:
    return np.asarray(array).dtype.kind != "f" or bool(np.all(np.isfinite(array)))


def _is_plain(aval: ShapedArray) -> bool:
    return all(isinstance(d, (int, np.integer)) for d in aval.shape)


def _count(size: Size) -> int:
    if size.value is None:
        raise NoLaw(f"an array of numbers meets an axis of size {size}")
    return size.value


def unit(dims: Dims) -> Tensor:
    """All ones."""
    return Tensor(dims, UNIT)
