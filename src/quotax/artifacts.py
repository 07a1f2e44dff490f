"""The frozen records that stages hand to each other.

Stages do not import one another; what they exchange is defined here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from quotax.errors import ArchitectureError
from quotax.presenting import Result, plain

AxisFactor = str | int
"""An axis name, or a fixed size."""


@dataclass(frozen=True)
class Cut:
    """Where a part lies in the array that holds it: an axis is `before * (pieces one after another) * after`.

    Attributes:
        axis: the array's axis, counted from its end.
        pieces: what every part has of the axis, a product of factors each; the empty product is one.
        index: which of them this part is.
        before: what runs slower than the parts along the axis: heads, in `head*3*k`.
        after: what runs faster: heads and their columns, in `3*head*k`.
        stacked: the parts lie along an axis of its own, which they do not have.
    """

    axis: int
    pieces: tuple[tuple[AxisFactor, ...], ...]
    index: int
    before: tuple[AxisFactor, ...] = ()
    after: tuple[AxisFactor, ...] = ()
    stacked: bool = False


@dataclass(frozen=True)
class ArraySpec:
    """Name and axes of one array; each axis is a product of factors (`head*k` fuses two).

    `kind` and `below` matter for inputs only: what an input may be decides which symmetries exist. `cuts` says where
    the array lies in the one that the user declared and passes, if it is a part of one: the outermost cut first.
    """

    name: str
    axes: tuple[tuple[AxisFactor, ...], ...]
    kind: Literal["real", "positive", "tokens", "mask"] = "real"
    below: AxisFactor | None = None
    cuts: tuple[Cut, ...] = ()

    @property
    def discrete(self) -> bool:
        """Whether an entry is one of finitely many numbers."""
        return self.kind in ("tokens", "mask")

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name that occurs, in order, each once."""
        return tuple(dict.fromkeys(f for axis in self.axes for f in axis if isinstance(f, str)))

    @property
    def factors(self) -> tuple[AxisFactor, ...]:
        """The axes with fused ones taken apart."""
        return tuple(factor for axis in self.axes for factor in axis)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The array's shape once every axis has a size."""
        return tuple(math.prod(_length(factor, sizes) for factor in axis) for axis in self.axes)

    def split_shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with fused axes taken apart."""
        return tuple(_length(factor, sizes) for factor in self.factors)

    def bound(self, sizes: Mapping[str, int]) -> int:
        """How many values a token may take."""
        assert self.below is not None
        return _length(self.below, sizes)

    @property
    def axes_text(self) -> str:
        """The axes as the user writes them: `"head*k x"`."""
        return " ".join("*".join(str(f) for f in axis) for axis in self.axes)


def _length(factor: AxisFactor, sizes: Mapping[str, int]) -> int:
    return factor if isinstance(factor, int) else sizes[factor]


def sizes_text(sizes: Mapping[str, int | str]) -> str:
    """For example `h=2, x=3, y=4`."""
    return ", ".join(f"{axis}={size}" for axis, size in sizes.items()) or "fixed sizes"


def settled(sizes: Mapping[str, Any], fixed: Mapping[str, int | str]) -> dict[str, Any]:
    """Sizes with those that are settled in the place of any others; products of symbols are written as text.

    >>> settled({"D": 5, "n": 2, "k": 3}, {"D": "n*k"}), settled({"D": 5, "n": 2, "k": "k"}, {"D": "n*k"})
    ({'D': 6, 'n': 2, 'k': 3}, {'D': '2*k', 'n': 2, 'k': 'k'})
    """
    out = dict(sizes) | {axis: size for axis, size in fixed.items() if isinstance(size, int)}
    for axis, size in fixed.items():
        if isinstance(size, str):
            factors = [int(f) if f.isdecimal() else out[f] for f in size.split("*")]
            number = math.prod(f for f in factors if isinstance(f, int))
            symbols = [f for f in factors if not isinstance(f, int)]
            out[axis] = "*".join([*([str(number)] if number != 1 else []), *symbols]) if symbols else number
    return out


def completed(sizes: Mapping[str, int], fixed: Mapping[str, int | str], call: str) -> dict[str, int]:
    """Sizes with those that are settled by the others, a product by its factors or a factor by the rest.

    What does not fit is refused.

    >>> completed({"D": 6, "k": 3}, {"D": "n*k"}, "net.at")
    {'D': 6, 'k': 3, 'n': 2}
    """
    out = dict(sizes)
    for axis, size in [*fixed.items()] * (len(fixed) + 1):
        factors = [int(f) if f.isdecimal() else f for f in str(size).split("*")]
        missing = [f for f in factors if isinstance(f, str) and f not in out]
        known = math.prod(f if isinstance(f, int) else out.get(f, 1) for f in factors)
        if not missing and axis not in out:
            out[axis] = known
        elif axis in out and (out[axis] % known if missing else out[axis] != known):
            names = dict.fromkeys([*(f for f in factors if isinstance(f, str)), axis])
            given = ", ".join(f"{name}={out[name]}" for name in names if name in out)
            found = "" if missing or isinstance(size, int) else f" = {known}"
            raise ArchitectureError(
                f"`{call}`: {axis} is {size}{found}, which {given} does not fit; "
                + (f"leave out {axis}, or give sizes that fit." if size != known else f"leave out {axis}.")
            )
        elif len(missing) == 1 and axis in out:
            out[missing[0]] = out[axis] // known
    return out


@dataclass(frozen=True)
class Trace:
    """One jaxpr of a model at given sizes, with the names of what goes in.

    The jaxpr's inputs are the parameters in the order of `params`, then the inputs in the order of `inputs`.
    It is traced in float64, so that Python constants keep every digit.
    """

    jaxpr: Any
    params: tuple[ArraySpec, ...]
    inputs: tuple[ArraySpec, ...]
    sizes: Mapping[str, int]
    out_tree: Any
    _written: Any = None
    """The user's program, where `jaxpr` is that program taken apart."""

    @property
    def written(self) -> Any:
        """The program as the user wrote it, of the same arrays: nothing in it was taken apart."""
        return self.jaxpr if self._written is None else self._written

    @property
    def arrays(self) -> tuple[ArraySpec, ...]:
        """Parameters, then inputs."""
        return self.params + self.inputs


@dataclass(frozen=True)
class OpenTrace:
    """One jaxpr of a model whose sizes stay symbols: what is read off it holds for every width.

    Attributes:
        sizes: the size of every axis, as a polynomial in symbols.
        conditions: comparisons of sizes that Python made, as they were answered: `h ≠ 64`.
        asked: the lines at which Python asked for the float of a size.
        numbers: by the `id` of a literal, its values for several sizes, where it depends on such a float.
    """

    jaxpr: Any
    params: tuple[ArraySpec, ...]
    inputs: tuple[ArraySpec, ...]
    sizes: Mapping[str, Any]
    out_tree: Any
    conditions: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    numbers: Mapping[int, tuple[float, ...]] = field(default_factory=dict)


class Model(Protocol):
    """What the stages need to know of an architecture."""

    @property
    def name(self) -> str:
        """What messages and claims call it."""
        ...

    @property
    def params(self) -> tuple[ArraySpec, ...]:
        """Its parameters."""
        ...

    @property
    def inputs(self) -> tuple[ArraySpec, ...]:
        """Its inputs."""
        ...

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Every axis name of the parameters and inputs."""
        ...

    @property
    def fixed(self) -> Mapping[str, int | str]:
        """Axes whose size is settled: a number, or a product of others: `{"D": 8, "d": "heads*k", "f": "4*h"}`."""
        ...

    def trace(self, sizes: Mapping[str, int]) -> Trace:
        """The model's jaxpr at these sizes."""
        ...

    def open(self, axes: Mapping[str, int | str]) -> OpenTrace:
        """The model's jaxpr at sizes some of which stay symbols: `{"h": "h", "k": "2*k", "head": 2}`."""
        ...


Status = Literal["proved", "refuted", "undecided"]


def _arrays(tree: Any, name: str = "") -> list[tuple[str, Any]]:
    """The arrays of a tree with their joined names."""
    if isinstance(tree, Mapping):
        return [row for key, value in tree.items() for row in _arrays(value, f"{name}/{key}" if name else str(key))]
    if isinstance(tree, (list, tuple)):
        return [row for number, value in enumerate(tree) for row in _arrays(value, f"{name}[{number}]")]
    return [(name, tree)]


def _numbers(value: Any, most: int = 24) -> str:
    """An array on one line: fractions where the numbers are small fractions, its shape when it is long."""
    from fractions import Fraction

    import numpy as np

    array = np.asarray(value)
    if array.size > most:
        return f"array of shape {array.shape}"

    def show(number: Any) -> str:
        if not isinstance(number, (int, float)) or number != number or number in (float("inf"), float("-inf")):
            return str(number)
        near = Fraction(number).limit_denominator(64)
        return str(near) if float(near) == number else f"{number:.6g}"

    def nest(part: Any) -> str:
        return f"[{', '.join(map(nest, part))}]" if isinstance(part, list) else show(part)

    return nest(array.tolist())


def _plain(tree: Any) -> Any:
    import numpy as np

    if isinstance(tree, Mapping):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return {"sequence": [_plain(value) for value in tree]}
    return None if tree is None else plain(np.asarray(tree), None)


def _restored(tree: Any) -> Any:
    import numpy as np

    if isinstance(tree, Mapping):
        if set(tree) == {"sequence"}:
            return [_restored(value) for value in tree["sequence"]]
        return {key: _restored(value) for key, value in tree.items()}
    if tree is None:
        return None
    read = np.asarray(tree)
    return np.asarray(tree, float) if read.dtype.kind == "U" else read  # JSON has no number for what is no number


@dataclass(frozen=True, repr=False)
class Witness(Result):
    """A counterexample: at `params`, `element` and `inputs` the two outputs differ."""

    sizes: Mapping[str, int]
    params: Any
    element: Any
    inputs: Mapping[str, Any]
    output: Any
    transformed_output: Any
    transformed_params: Any = None

    def lines(self) -> list[str]:
        """The point, one array a line, and the two outputs."""
        rows = [f"sizes {', '.join(f'{a}={n}' for a, n in self.sizes.items()) or 'fixed'}"]
        rows += [f"{name} = {_numbers(value)}" for name, value in _arrays(self.params)]
        rows += [f"g = {_numbers(self.element)}"]
        rows += [f"{name} = {_numbers(value)}" for name, value in self.inputs.items()]
        rows += [f"output {_numbers(value)}" for _, value in _arrays(self.output)]
        rows += [f"output after the action {_numbers(value)}" for _, value in _arrays(self.transformed_output)]
        return rows

    def to_dict(self, *, largest: int | None = None) -> dict[str, Any]:
        """JSON values; arrays as nested lists, whatever their size: `from_dict` reads them."""
        return {
            "sizes": dict(self.sizes),
            "params": _plain(self.params),
            "element": _plain(self.element),
            "inputs": _plain(self.inputs),
            "output": _plain(self.output),
            "transformed_output": _plain(self.transformed_output),
            "transformed_params": _plain(self.transformed_params),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Witness:
        """A witness that `to_dict` wrote, lists as arrays again."""
        return cls(
            sizes=dict(data["sizes"]),
            params=_restored(data["params"]),
            element=_restored(data["element"]),
            inputs=_restored(data["inputs"]),
            output=_restored(data["output"]),
            transformed_output=_restored(data["transformed_output"]),
            transformed_params=_restored(data.get("transformed_params")),
        )

    @property
    def difference(self) -> float:
        """Largest absolute difference between entries of the two outputs that are finite on both sides."""
        import jax
        import numpy as np

        worst = 0.0
        for before, after in zip(jax.tree.leaves(self.output), jax.tree.leaves(self.transformed_output), strict=True):
            a, b = (1.0 * np.asarray(o) for o in (before, after))
            finite = np.isfinite(a) & np.isfinite(b)
            worst = max(worst, float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)))
        return worst


@dataclass(frozen=True, repr=False)
class Certificate(Result):
    """What was claimed, whether it holds, and exactly where that was established.

    `bool(certificate)` is true for a proof and nothing else. `str` is the proof, one line a step; `latex` the same for
    a paper; `to_dict` the same as JSON; `recheck` makes it again.
    """

    claim: str
    status: Status
    scope: str
    steps: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    witness: Witness | None = None
    residual: str | None = None
    derivation: Sequence[Any] = field(default=(), compare=False, repr=False)
    """The parts of a proof by laws, as data that the kernel replays: sizes at which the model is traced, and steps."""
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """With what it was asked for: what `recheck` asks with again, where there are no steps to replay."""
    recipe: Callable[[], Certificate] | None = field(default=None, compare=False, repr=False)

    def _title(self) -> str:
        return self.claim

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows = [("", f"{self.status} ({self.scope})"), *((f"{n}", step) for n, step in enumerate(self.steps, 1))]
        rows += [("witness", line) for line in (self.witness.lines() if self.witness is not None else ())]
        rows += [("left over", left) for left in (self.residual,) if left is not None]
        return ("", ""), [*rows, *(("assuming", assumption) for assumption in self.assumptions)]

    def __bool__(self) -> bool:
        """Whether the claim is proved."""
        return self.status == "proved"

    def __str__(self) -> str:
        """The claim, what was established and where, and every step with its lemma."""
        lines = [f"Claim. {self.claim}.", f"Status: {self.status} ({self.scope})."]
        title = {"proved": "Proof.", "refuted": "Refutation.", "undecided": "What was tried."}[self.status]
        if self.steps:
            lines += [title, *(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))]
        if self.witness is not None:
            lines += ["Witness.", *(f"  {line}" for line in self.witness.lines())]
        if self.residual is not None:
            lines.append(f"Left over: {self.residual}")
        if self.assumptions:
            lines += ["Assuming", *(f"  - {assumption}" for assumption in self.assumptions)]
        return "\n".join(lines)

    def latex(self) -> str:
        """The certificate as a LaTeX proposition with its proof."""
        steps = "\n".join(f"  \\item {_latex(step)}" for step in self.steps)
        assuming = "\n".join(f"  \\item {_latex(assumption)}" for assumption in self.assumptions)
        parts = [f"\\paragraph{{Claim ({_latex(self.status)}, {_latex(self.scope)}).}} {_latex(self.claim)}."]
        if assuming:
            parts.append(f"\\noindent Assuming\n\\begin{{itemize}}\n{assuming}\n\\end{{itemize}}")
        if steps:
            parts.append(f"\\noindent\\emph{{Steps.}}\n\\begin{{enumerate}}\n{steps}\n\\end{{enumerate}}")
        if self.residual is not None:
            parts.append(f"\\noindent Left over: {_latex(self.residual)}")
        return "\n".join(parts)

    def to_dict(self, *, largest: int | None = None) -> dict[str, Any]:
        """Everything but the recipe, as JSON values: arrays whole, for `from_dict` reads them."""
        return {
            "claim": self.claim,
            "status": self.status,
            "scope": self.scope,
            "steps": list(self.steps),
            "assumptions": list(self.assumptions),
            "witness": None if self.witness is None else self.witness.to_dict(),
            "residual": self.residual,
            "settings": dict(self.settings),
            "derivation": list(self.derivation),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Certificate:
        """A certificate that `to_dict` wrote. It has no recipe: it says what was proved, and cannot prove it again."""
        witness = data.get("witness")
        return cls(
            data["claim"],
            data["status"],
            data["scope"],
            tuple(data.get("steps", ())),
            tuple(data.get("assumptions", ())),
            None if witness is None else Witness.from_dict(witness),
            data.get("residual"),
            tuple(data.get("derivation", ())),
            dict(data.get("settings", {})),
        )

    def recheck(self) -> Certificate:
        """Replay the steps of a proof by laws in the kernel; make any other certificate again from the claim.

        Raises when what comes out does not say the same.
        """
        from quotax.errors import SymmetryError

        if self.recipe is None:
            raise SymmetryError(
                "`certificate.recheck()`: this certificate was read from data and does not know its model; "
                "verify the claim again, as in qx.verify(architecture, symmetry)."
            )
        again = self.recipe()
        if (again.status, again.scope) != (self.status, self.scope):
            raise SymmetryError(
                f"`certificate.recheck()`: of the claim that {self.claim} the certificate says {self.status} "
                f"({self.scope}), made again it says {again.status} ({again.scope})"
                f"{f': {again.residual}' if again.residual else ''}."
            )
        return again


_TEX = {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}"} | {c: f"\\{c}" for c in "&%$#_{}"}
_TEX |= {"≠": r"$\neq$", "α": r"$\alpha$", "δ": r"$\delta$", "→": r"$\to$"}
_TEX |= {"²": r"$^2$", "⁻¹": r"$^{-1}$", "⁻²": r"$^{-2}$", "ᵀ": r"$^\top$"}


def _latex(text: str) -> str:
    for pair in ("⁻¹", "⁻²"):
        text = text.replace(pair, "\0" if pair == "⁻¹" else "\1")
    written = "".join(_TEX.get(c, c) for c in text)
    return written.replace("\0", _TEX["⁻¹"]).replace("\1", _TEX["⁻²"])
