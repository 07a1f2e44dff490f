"""The certificate of a claim: what was claimed, whether it holds, and exactly where that was established."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from quotax.artifacts.covered_sizes import CoveredSizes
from quotax.artifacts.witness import Witness
from quotax.errors import QuotaxError, SymmetryError
from quotax.presenting import Json, Result
from quotax.presenting.drawing import Axes
from quotax.presenting.proof_picture import plotted

Status = Literal["proved", "refuted", "undecided"]


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
    derivation: Sequence[Json] = field(default=(), compare=False, repr=False)
    """The parts of a proof by laws, as data that the kernel replays: sizes at which the model is traced, and steps."""
    settings: Mapping[str, Json] = field(default_factory=dict, compare=False, repr=False)
    """With what it was asked for: what `recheck` asks with again, where there are no steps to replay."""
    covers: tuple[CoveredSizes, ...] = field(default=(), compare=False, repr=False)
    """What `scope` says of a proof of invariance, as data."""
    recipe: Callable[[], Certificate] | None = field(default=None, compare=False, repr=False)
    outline: Callable[[], list[dict[str, Json]]] | None = field(default=None, compare=False, repr=False)
    """What `tensors` calls."""

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

    def tensors(self) -> list[dict[str, Json]]:
        """A proof by laws as a graph: every tensor, what it is made of, and what each of its axes is multiplied by.

        JSON values, in an order in which each comes after what it is `of`; nothing where no such proof is at hand.
        """
        return [] if self.outline is None else self.outline()

    def plot(self, ax: Axes | None = None) -> Axes:
        """`tensors` as a picture, on axes of matplotlib: under each axis what it is multiplied by."""
        nodes = self.tensors()
        if not nodes:
            raise QuotaxError(
                f"`certificate.plot`: there is no proof by laws here ({self.status}, {self.scope}); what `qx.verify` "
                "and `qx.derive` prove for every width has one."
            )
        return plotted(nodes, ax, "certificate.plot")

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

    def to_dict(self, *, largest: int | None = None) -> dict[str, Json]:
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
            "covers": [one.to_dict() for one in self.covers],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> Certificate:
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
            tuple(map(CoveredSizes.from_dict, data.get("covers", ()))),
        )

    def recheck(self) -> Certificate:
        """Replay the steps of a proof by laws in the kernel; make any other certificate again from the claim.

        Raises when what comes out does not say the same.
        """
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
