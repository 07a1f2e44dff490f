"""`report`: what is known and measured of a network as one record, which writes itself as a page."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import quotax as qx
from quotax.presenting import Json, Result, plain
from quotax.presenting.drawing import Axes
from quotax.report.page.describing import described
from quotax.report.page.measuring import Wish, along, between, measured, settled
from quotax.trees import Tree

RADII = (0.01, 0.03, 0.1, 0.3)
"""Of the balls, unless others are asked for."""


@dataclass(frozen=True, repr=False)
class Report(Result):
    """What is known and measured of a network, or of several, as JSON values.

    Attributes:
        title: of the page.
        models: of each network its families with their proofs, audits, tensors, quotient and measures.
        made: versions, the type of numbers and the device, and how hard was measured.
        notes: what the reader should know of how this came about.
    """

    title: str
    models: tuple[dict[str, Json], ...] = field(repr=False)
    made: dict[str, Json] = field(repr=False)
    notes: tuple[str, ...] = ()

    def html(self) -> str:
        """The page: one file that needs no network."""
        from quotax.report.page.writing_out import page

        return page(self.to_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html(), encoding="utf-8")

    def plot(self, picture: str = "tensors", ax: Axes | None = None, *, model: int = 0) -> Axes:
        """One of the page's pictures on axes of matplotlib, for a paper.

        `"tensors"`: the arrays in the order in which data meet them, with the families that act along their axes;
        `"orbit"`: measures along the orbit, dashed on the quotient; `"plane"`: the loss along and across the orbit.
        """
        from quotax.report.page.plots import PICTURES

        if picture not in PICTURES:
            raise qx.QuotaxError(f"`report.plot`: there is no picture {picture!r}; those are {', '.join(PICTURES)}.")
        needed, draw = PICTURES[picture]
        if needed not in self.models[model] or (picture == "plane" and "slice" not in self.models[model]["points"][0]):
            raise qx.QuotaxError(
                f"`report.plot({picture!r})`: nothing was measured; report(found, loss, params, space=)."
            )
        return draw(self.models[model], ax)

    def beside(self, other: Report) -> Report:
        """One report of the networks of two."""
        notes = (*self.notes, *(note for note in other.notes if note not in self.notes))
        return replace(self, title=f"{self.title} and {other.title}", models=(*self.models, *other.models), notes=notes)

    @property
    def complete(self) -> bool:
        """Whether everything was proved and searched, and every loss is a number."""
        return all(
            not model["unproved"]
            and not model["unsearched"]
            and all(isinstance(point["loss"], float) for point in model.get("points", ()))
            for model in self.models
        )

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows = []
        for model in self.models:
            rows.append((model["name"], f"{len(model['families'])} families, orbits of dimension {model['orbit']}"))
            if quotient := model["quotient"]:
                rows.append(("", f"quotient of dimension {quotient['dimension']:,} of {model['parameters']:,}"))
            for point in model.get("points", ()):
                for ball, found in point["worst case"].items():
                    rows.append(
                        (point["name"], f"{ball}: rises by {found['values'][-1]:.4g} within {found['radii'][-1]:g}")
                    )
        return ("", ""), rows

    def _title(self) -> str:
        return self.title

    def _below(self) -> list[str]:
        return list(self.notes)

    def __str__(self) -> str:
        """A few readable lines."""
        lines = [f"  {name + ': ' if name else ''}{text}" for name, text in self._rows()[1]]
        return "\n".join([f"report of {self.title}", *lines])


def report(
    found: qx.SymmetryGroup,
    loss: Callable[..., Tree] | None = None,
    params: Tree = None,
    *,
    space: qx.QuotientSpace | None = None,
    other: Tree = None,
    names: Sequence[str] = ("network", "other"),
    counterparts: qx.Counterparts | None = None,
    batch: Any = None,
    microbatch: int | None = None,
    radii: Iterable[float] = RADII,
    steps: int = 20,
    k: int = 5,
    stretch: float = 0.5,
    key: Any = 0,
    title: str | None = None,
    notes: Iterable[str] = (),
    progress: Callable[[str], object] | None = None,
) -> Report:
    """All that is known of a network, for one page: symmetries and proofs, audits, and what is measured of its loss.

    Args:
        found: what `qx.derive` found.
        loss: `loss(params)`, or `loss(params, batch)` when `batch` is given; without it nothing is measured.
        params: where it is measured.
        space: the quotient by `found`; without it only the full ball is measured.
        other: parameters of a second network, which is aligned to the first.
        names: what the two are called.
        counterparts: what `qx.counterparts` found of the network and of one of another model; where arrays were not
            matched, why not.
        batch: a pytree whose leaves share their leading axis.
        microbatch: examples in memory at once.
        radii: of the balls.
        steps: gradients that each search for the largest rise may spend.
        k: eigenvalues of each end of a spectrum.
        stretch: how far the orbit is followed: the standard deviation of the logarithm of the element.
        key: a JAX key or an integer.
        title: of the page; by default the model's name.
        notes: lines that the page begins with.
        progress: is told what is being done.

    Example:
        >>> import quotax as qx
        >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
        ... def net(p, x):
        ...     return p["W2"] @ (p["W1"] @ x)
        >>> page = qx.report(qx.derive(net)).html()
        >>> "every width" in page
        True
    """
    radii = tuple(sorted(radii))
    if not isinstance(found, qx.SymmetryGroup):
        raise qx.QuotaxError(f"`quotax.report` needs what `qx.derive(model)` found, got {type(found).__name__}.")
    for name, value, needed, lacking in (("loss", loss, "params", params), ("params", params, "loss", loss)):
        if value is not None and lacking is None:
            raise qx.QuotaxError(f"`quotax.report`: {name}= is given and {needed}= is not; measures need both.")
    if other is not None and params is None:
        raise qx.QuotaxError("`quotax.report`: other= is a second network beside params=, and there is none.")
    if not radii or not all(math.isfinite(radius) and radius > 0 for radius in radii):
        given = ", ".join(map(str, radii)) or "none"
        raise qx.QuotaxError(f"`quotax.report` needs radii= at least one number, all of them positive, got {given}.")
    for name, number in (("steps", steps), ("k", k), ("stretch", stretch)):
        if not number > 0:
            raise qx.QuotaxError(f"`quotax.report` needs {name}= a positive number, got {number!r}.")
    if space is not None:
        _check_network(found, space, {"params": params, "other": other})
    if len(set(names)) != len(names) or len(names) < 2:
        raise qx.QuotaxError(f"`quotax.report` needs two different names=, got {list(names)}.")
    tell = progress if progress is not None else lambda line: None
    tell("counting flat directions")
    model = described(found, space)
    if loss is not None:
        wish = settled(Wish(loss, space, batch, microbatch, radii, steps, k, key, stretch, tell), params)
        pairs = list(zip(names, (params, other)[: 1 if other is None else 2], strict=False))
        model["points"] = [{"name": name} | measured(wish, point) for name, point in pairs]
        if space is not None and space.fiber_dim:
            model["along"] = along(wish, params) | {"of": names[0]}
        if other is not None:
            model["between"] = between(wish, params, other) | {"of": list(names[:2])}
    if counterparts is not None:
        model["counterparts"] = counterparts.to_dict()
    made = _made(params) | {"steps": steps, "metric": None if space is None else space.metric_name}
    return Report(title or model["name"], (plain(model),), made, tuple(notes))


def _check_network(found: qx.SymmetryGroup, space: qx.QuotientSpace, given: dict[str, Json]) -> None:
    """Refuse a space of another model, and parameters of another network."""
    network: Any = space.network
    if network.architecture.params != found.model.params:
        raise qx.QuotaxError(
            f"`quotax.report`: found= is of {found.model.name}, and space= is a quotient of {network!r}; both are of "
            "one model, as in space=qx.quotient(net, found)."
        )
    for name, params in given.items():
        if params is not None:
            network.check_params(params, call=f"quotax.report({name}=)", finite=True)


def _made(params: Tree) -> dict[str, Json]:
    import jax

    leaves = jax.tree.leaves(params)
    return {
        "quotax": qx.__version__,
        "jax": jax.__version__,
        "numbers": str(leaves[0].dtype) if leaves else None,
        "device": jax.default_backend(),
    }
