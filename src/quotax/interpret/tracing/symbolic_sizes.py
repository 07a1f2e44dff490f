"""One trace of a model whose sizes stay symbols, and what Python asked of them on the way.

JAX traces functions of arrays whose dimensions are polynomials in symbols. Arithmetic on sizes stays symbolic, and an
order that is not decided for every size raises. Some things would pass in silence, and are watched while tracing:

- `h == 64` is answered "no" when nothing is known. Asked by code that is not JAX's own, it is a condition of whatever
  is proved of the trace: h is not 64.
- `k < n` where JAX refuses to take the n largest of k is a condition likewise: k ≥ n.
- `np.sqrt(k)`, `k ** 0.5`: answered by the same function of the size as a traced value.
- `float(k)`, which `math.sqrt` asks: answered by a number. The model is traced for several such numbers; constants
  that differ between the traces are arbitrary numbers to whoever reads them, and the line that asked is reported.
"""

from __future__ import annotations

import keyword
import re
import sys
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from quotax.artifacts import ArraySpec, OpenTrace
from quotax.errors import ArchitectureError, QuotaxError
from quotax.interpret.tracing.apart import program_of_parts
from quotax.interpret.tracing.fixed_sizes import given, nested
from quotax.interpret.tracing.plain_reading import in_plain_words
from quotax.interpret.tracing.precisions import compared
from quotax.kernel.sizes import FUNCTIONS, Size, read
from quotax.parts import groups
from quotax.programs.jaxprs import Atom, bare, bodies, is_key, needed, traced
from quotax.trees import AnyArray, Dim, Tree

_LOCK = threading.RLock()
_OWN = ("jax", "jaxlib", "opt_einsum", "quotax")
"""Packages whose comparisons of sizes choose between ways to compute the same."""
_REFUSING = ("_top_k_abstract_eval",)
"""Functions of JAX's in which a size that is less than another is refused, and nothing else follows from it."""
_MARKERS = ((1, 1), (2, 7), (40, 61), (4000, 4001), (10**6, 10**6 + 3), (10**8, 10**8 + 7))
"""Where the numbers lie that stand for sizes where Python asks for a float, and in how many they differ by name."""


Method: TypeAlias = Callable[..., Any]
"""A method of the class of sizes: it answers whoever asks as Python does, by anything."""


class SizesMatter(ArchitectureError):
    """The model cannot be traced with sizes that stay symbols; the message says why."""


def open_trace(
    function: Callable[..., Tree],
    params: tuple[ArraySpec, ...],
    inputs: tuple[ArraySpec, ...],
    axes: Mapping[str, int | str],
    *,
    twice: bool = True,
) -> OpenTrace:
    """Trace `function(params_pytree, *inputs)` with `axes[a]` as the size of axis a: an integer, or `"k"`, `"2*k"`.

    And once more in float32, where it is `twice`: other steps are refused, and what is asked of sizes there counts.
    """
    names = list(groups(params))
    nested(names, names)

    def flat(*leaves: AnyArray) -> Tree:
        return nested(names, leaves[: len(names)]), leaves[len(names) :]

    first: OpenTrace | None = None
    jaxprs: list[ClosedJaxpr] = []
    for marker in _MARKERS:
        dims = _dimensions(axes)
        watch = _Watch(marker)

        def run(*leaves: AnyArray, dims: Mapping[str, Dim] = dims) -> Tree:
            tree, rest = flat(*leaves)
            return function(tree, *rest, sizes=dims)

        arrays = given(params, inputs, lambda spec, dims=dims: spec.shape(dims), dims)
        with jax.enable_x64(True), watch:
            try:
                closed, outputs = traced(run, arrays)
                raw = needed(closed)
                closed = program_of_parts(in_plain_words(raw), params, dims)
            except Exception as error:
                said = str(error).strip().partition("\n")[0]
                raise SizesMatter(f"{type(error).__name__}: {said}" if said else type(error).__name__) from error
        if first is None and twice:
            _in_single_precision(run, arrays, raw, watch)
        jaxprs.append(closed)
        if first is None:
            sizes = {axis: _size(dim) for axis, dim in dims.items()}
            first = OpenTrace(
                closed, params, inputs, sizes, jax.tree.structure(outputs), tuple(watch.conditions), tuple(watch.asked)
            )
        if watch.refused is not None:
            raise SizesMatter(watch.refused)
        if not watch.asked:
            return first
    assert first is not None
    numbers: dict[int, tuple[float, ...]] = {}
    _compared(jaxprs, numbers)
    return OpenTrace(
        first.jaxpr, params, inputs, first.sizes, first.out_tree, first.conditions, first.asked, numbers
    )  # fmt: skip


def _in_single_precision(
    function: Callable[..., Tree], arrays: Sequence[jax.ShapeDtypeStruct], double: ClosedJaxpr, watch: _Watch
) -> None:
    """The same function of the same sizes in float32; what it asks of them there is asked, too."""
    narrow = _Watch(watch.marker)
    try:
        with narrow:
            compared(function, "the model", arrays, double)
    except QuotaxError:
        raise
    except Exception as error:
        raise SizesMatter(f"in float32, {type(error).__name__}: {str(error).partition(chr(10))[0]}") from error
    watch.conditions |= narrow.conditions
    watch.asked |= narrow.asked
    watch.refused = watch.refused or narrow.refused


def _dimensions(axes: Mapping[str, int | str]) -> dict[str, Dim]:
    """A fresh symbol for every axis, in a scope of its own: nothing that JAX keeps of an earlier trace is found."""
    scope = export.SymbolicScope()
    out: dict[str, Dim] = {}
    safe = {axis: _safe(axis, axes) for axis in axes}
    for axis, size in axes.items():
        text = size if isinstance(size, int) else re.sub(r"[^\W\d]\w*", lambda m: safe.get(m[0], m[0]), size)
        out[axis] = text if isinstance(text, int) else export.symbolic_shape(text, scope=scope)[0]
    return out


def _safe(axis: str, axes: Mapping[str, int | str]) -> str:
    """The axis' name as one that neither Python nor JAX keeps for itself, and that no other axis has."""
    name = axis
    while keyword.iskeyword(name) or name in FUNCTIONS or (name != axis and name in axes):
        name += "_"
    return name


def _size(dim: Dim) -> Size:
    return Size.of(dim) if isinstance(dim, int) else read(str(dim))


class _Watch:
    """While it is entered, sizes answer what this module says, and `conditions` and `asked` say what was asked."""

    def __init__(self, marker: tuple[int, int]) -> None:
        self.marker = marker
        self.refused: str | None = None
        self.conditions: dict[str, None] = {}
        self.asked: dict[str, None] = {}
        self._saved: dict[str, object] = {}

    def __enter__(self) -> None:
        _LOCK.acquire()
        scope = export.SymbolicScope()
        (example,) = export.symbolic_shape("n", scope=scope)
        self._kind: type[Dim] = type(example)
        answers = {
            "__eq__": self._equal(self._kind.__eq__),
            "__ne__": self._unequal(self._kind.__eq__),
            "__bool__": self._true(self._kind.__eq__),
            "__float__": lambda size: self._float(size),
            "__hash__": self._hashed(self._kind.__hash__),
            **{name: self._decided(getattr(self._kind, name)) for name in ("__ge__", "__gt__", "__le__", "__int__")},
            "__lt__": self._least(self._decided(self._kind.__lt__)),
            "__pow__": self._power(self._kind.__pow__),
            **{name: _function(name) for name in ("sqrt", "log", "exp", "log2", "cbrt")},
        }
        for name, answer in answers.items():
            self._saved[name] = self._kind.__dict__.get(name)
            setattr(self._kind, name, answer)

    def __exit__(self, *error: object) -> None:
        for name, saved in self._saved.items():
            if saved is None:
                delattr(self._kind, name)
            else:
                setattr(self._kind, name, saved)
        _LOCK.release()

    def _note(self, size: Dim, other: Dim, frame: FrameType) -> None:
        """A comparison that code of the user's made and that sizes do not decide."""
        if not _users(frame) and not _answers(frame):
            return
        if isinstance(other, (np.ndarray, list, tuple)):
            for entry in np.ravel(np.asarray(other)):
                self._note(size, entry, frame)
            return
        try:
            if not isinstance(other, self._kind) and int(other) != other:
                return  # no size is a fraction
            apart = _size(size).minus(_size(other) if isinstance(other, self._kind) else int(other))
        except (TypeError, ValueError, OverflowError):
            return  # nothing that can be compared with a size
        if apart.positive or Size.of(0).minus(apart).positive:
            return  # they differ for every size
        self.conditions[f"{size} ≠ {other}"] = None

    def _equal(self, original: Method) -> Method:
        def equal(size: Dim, other: Dim) -> object:
            answer = original(size, other)
            if answer is False:
                self._note(size, other, sys._getframe(1))
            return answer

        return equal

    def _unequal(self, original: Method) -> Method:
        def unequal(size: Dim, other: Dim) -> object:
            answer = original(size, other)
            if answer is False:
                self._note(size, other, sys._getframe(1))
            return not answer

        return unequal

    def _true(self, original: Method) -> Method:
        def true(size: Dim) -> bool:
            if not original(size, 0):
                self._note(size, 0, sys._getframe(1))
            return not original(size, 0)

        return true

    def _float(self, size: Dim) -> float:
        frame = sys._getframe(2)
        self.asked[f"{frame.f_code.co_filename}:{frame.f_lineno} asks Python for the float of {size}"] = None
        found = _size(size)
        least, many = self.marker
        return float(found.at({s: least + zlib.crc32(f"{s} {least}".encode()) % many for s in found.symbols}))

    def _hashed(self, original: Method) -> Method:
        """A dictionary finds a size by its hash, and does not ask whether they are equal."""

        def hashed(size: Dim) -> int:
            if _users(sys._getframe(1)):
                self.refused = f"Python asks for the hash of the size {size}"
            return original(size)

        return hashed

    def _decided(self, original: Method) -> Method:
        """A question that is not answered for every size may be caught, and something else computed."""

        def decided(size: Dim, *others: object) -> object:
            try:
                return original(size, *others)
            except Exception as error:
                if _users(sys._getframe(1)):
                    self.refused = str(error).splitlines()[0]
                raise

        return decided

    def _least(self, original: Any) -> Any:
        """Where JAX refuses an axis that is too short, what it asks is a condition: the k largest of at least k."""

        def least(size: Any, other: Any) -> Any:
            try:
                return original(size, other)
            except Exception:
                axis = str(size)
                if sys._getframe(1).f_code.co_name not in _REFUSING or not axis.isidentifier():
                    raise
                self.conditions[f"{axis} ≥ {int(other)}"] = None
                return False

        return least

    def _power(self, original: Any) -> Any:
        def power(size: Any, exponent: Any, modulo: Any = None) -> Any:
            if (isinstance(exponent, float) and not exponent.is_integer()) or _negative(exponent):
                return jnp.power(_value(size), exponent)
            return original(size, exponent, modulo)

        return power


def _users(frame: FrameType | None) -> bool:
    """Whether code of the user's is asking; NumPy asks for whoever called it."""
    while frame is not None:
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if package != "numpy":
            return package not in _OWN
        frame = frame.f_back
    return False


def _answers(frame: FrameType) -> bool:
    """Whether a function of JAX's is at work whose answer to the user is whether shapes are equal."""
    name = frame.f_code.co_name
    return name in ("array_equal", "array_equiv") or (name in ("__eq__", "__ne__") and _users(frame.f_back))


def _negative(exponent: object) -> bool:
    return isinstance(exponent, (int, float)) and exponent < 0


def _value(size: Dim) -> jax.Array:
    return jnp.asarray(size.__jax_array__(), jnp.float64)


def _function(name: str) -> Method:
    """A NumPy function of a size: NumPy asks its argument for a method of the function's name."""
    return lambda size: getattr(jnp, name)(_value(size))


def _compared(jaxprs: Sequence[Jaxpr | ClosedJaxpr], numbers: dict[int, tuple[float, ...]]) -> None:
    """Collect the constants that differ between traces of the same operations, or refuse."""
    open_ones = [bare(j) for j in jaxprs]
    for consts in zip(*(j.consts for j in jaxprs if isinstance(j, ClosedJaxpr)), strict=True):
        if any(not np.array_equal(np.asarray(consts[0]), np.asarray(c)) for c in consts[1:] if not is_key(c)):
            raise SizesMatter("an array is made of the float of a size")
    if len({len(b.eqns) for b in open_ones}) > 1:
        raise SizesMatter("the list of operations depends on the float of a size")
    for equations in zip(*(b.eqns for b in open_ones), strict=True):
        if len({e.primitive.name for e in equations}) > 1:
            raise SizesMatter("the list of operations depends on the float of a size")
        for atoms in zip(*(e.invars for e in equations), strict=True):
            _collect(atoms, numbers)
        for key, value in equations[0].params.items():
            values = [e.params[key] for e in equations]
            inner = [bodies(v) for v in values]
            if inner[0]:
                for group in zip(*inner, strict=True):
                    _compared(group, numbers)
            elif not callable(value) and len({repr(v) for v in values}) > 1:
                raise SizesMatter(f"the setting {key} of {equations[0].primitive.name} depends on the float of a size")
    for atoms in zip(*(b.outvars for b in open_ones), strict=True):
        _collect(atoms, numbers)


def _collect(atoms: Sequence[Atom], numbers: dict[int, tuple[float, ...]]) -> None:
    literals = [a for a in atoms if isinstance(a, Literal)]
    if len(literals) == len(atoms):
        values = tuple(float(np.asarray(a.val)) for a in literals)
        if len(set(values)) > 1 and not all(v != v for v in values):
            numbers[id(literals[0])] = values
