r"""Charges along training: what gradient flow would keep, at one set of parameters after another.

Training is a path of parameters, by whatever rule; its charges are those of `space.conserved`. Where it is one of the
schemes here, what they do is predicted beside: the rates of `charge_rates`, added up. From one step of gradient descent
to the next that is exact. Between places that are farther apart rates are taken to change exponentially, which
overstates what the first steps do, the largest of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from quotax.discretisation.broken_charges import first_order_rates
from quotax.discretisation.mini_batches import MiniBatches
from quotax.discretisation.schemes import Scheme, gradient_descent
from quotax.errors import DiscretisationError, ParameterError
from quotax.presenting import Result, shown
from quotax.presenting.drawing import QUIET, drawn, next_look, says

CALL = "quotax.charge_history"
KEPT = 64
"""Entries of a family's charge that are kept at every place; of more, so many at equal distances."""

_TOLD = 12
"""Entries whose predictions are drawn."""
_FAR = 30
"""Families whose changes differ by more than this factor are drawn on a logarithmic scale."""


@dataclass(frozen=True, repr=False)
class ChargeHistory(Result):
    """The charges of a quotient's families along training.

    Attributes:
        steps: of training at every place.
        sizes: by family, the norm of its charge.
        changes: by family, the norm of what was added to its charge since the first place: in float32 rounding, below
            about 1e-7 of its size.
        entries: by family, entries of its charge, a row for each place: all of up to 64, else so many of them.
        predicted_changes: the norms of what the scheme adds by its rates; nothing if no loss was given.
        predicted: the entries by the same.
        scheme: whose steps they are predicted for.
        status: "ok", or where and why the path was no longer followed.
    """

    steps: np.ndarray
    sizes: Mapping[str, np.ndarray] = field(repr=False)
    changes: Mapping[str, np.ndarray] = field(repr=False)
    entries: Mapping[str, np.ndarray] = field(repr=False)
    predicted_changes: Mapping[str, np.ndarray] = field(repr=False)
    predicted: Mapping[str, np.ndarray] = field(repr=False)
    scheme: str = ""
    status: str = "ok"

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows = []
        for name, size in self.sizes.items():
            told = f"{self.predicted_changes[name][-1]:.4g}" if name in self.predicted_changes else "-"
            rows.append((name, f"{size[0]:.4g}", f"{size[-1]:.4g}", f"{self.changes[name][-1]:.4g}", told))
        return ("family", "size at first", "at last", "change", "predicted"), rows

    def _below(self) -> list[str]:
        first, last = (f"{step:g}" for step in self.steps[[0, -1]])
        lines = [f"{len(self.steps)} places, steps {first} to {last}" + (f"; {self.scheme}" if self.scheme else "")]
        return lines + [self.status] * (self.status != "ok")

    def __str__(self) -> str:
        """A table."""
        from quotax.presenting.tables import table

        return "\n".join([table(*self._rows()), *self._below()])

    def plot(self, ax: Any = None, *, family: str | None = None) -> Any:
        """How far every family's charge has moved since the start, or the entries of the charge of one `family`.

        Dashed: predicted, of entries that are few.
        """
        call = "history.plot()"
        if family is None:
            return self._plot_changes(ax, call)
        if family not in self.entries:
            raise DiscretisationError(
                f"`{call}`: no charges of a family {family!r}; those are of {', '.join(self.entries)}."
            )
        many, told = self.entries[family], self.predicted.get(family)
        with drawn(ax, call) as (ax, look):
            thin = {"linewidth": 0.7 if many.shape[1] > 6 else 1.3, "marker": "o" if len(self.steps) == 1 else ""}
            for n, row in enumerate(many.T):
                ax.plot(self.steps, row, **look | thin, label=family if n == 0 else None)
            for n, row in enumerate(() if told is None or many.shape[1] > _TOLD else told.T):
                label = "predicted" if n == 0 else None
                ax.plot(self.steps, row, "--", color=QUIET, linewidth=0.7, zorder=3, label=label)
            ax.set_xlabel("step of training")
            ax.set_ylabel("entries of the charge")
        return ax

    def _plot_changes(self, ax: Any, call: str) -> Any:
        last = [each[np.isfinite(each)].max(initial=0.0) for each in self.changes.values()]
        apart = [each for each in last if each > 0]
        with drawn(ax, call) as (ax, _):
            for name, change in self.changes.items():
                ax.plot(self.steps, change, label=name, markevery=max(len(self.steps) // 8, 1), **next_look(ax))
            for n, told in enumerate(self.predicted_changes.values()):
                label = "predicted" if n == 0 else None
                ax.plot(self.steps, told, "--", color=QUIET, linewidth=0.9, zorder=3, label=label)
            ax.set_xlabel("step of training")
            ax.set_ylabel("change of the charge")
            if len(self.steps) == 1:
                says(ax, "one place: nothing has changed" if self.status == "ok" else self.status)
            elif not apart:
                says(ax, "no charge has changed")
            elif max(apart) > _FAR * min(apart):
                ax.set_yscale("log")
            else:
                ax.set_ylim(bottom=0)
        return ax


def charge_history(
    space: Any,
    path: Iterable[Any],
    *,
    steps: Sequence[float] | None = None,
    loss: Callable[[Any], Any] | MiniBatches | None = None,
    eta: float | None = None,
    scheme: Scheme | None = None,
) -> ChargeHistory:
    """The conserved quantities of proved symmetries along training, and what a scheme is predicted to do to them.

    Args:
        space: a quotient, whose families are proved.
        path: sets of parameters, one after another, by whatever rule: checkpoints that were kept, a generator that
            trains or reads files, `scheme.path(loss, params, eta, steps)`, `batches.path(params, eta, epochs, key)`.
            Each is looked at and let go.
        steps: the step of training at every place; 0, 1, 2 and so on if none are given.
        loss: that is trained, or `quotax.mini_batches` of one, if changes shall be predicted, by a gradient at every
            place.
        eta: the step of the scheme, of which as many lie between two places as `steps` says.
        scheme: gradient descent, if none is given.

    Example:
        >>> import jax.numpy as jnp, quotax as qx
        >>> @qx.architecture(params={"a": "", "b": ""}, inputs={"x": ""})
        ... def net(p, x):
        ...     return p["a"] * p["b"] * x
        >>> scale = qx.Symmetry("scale", qx.PositiveScalar(), {"a": "g * a", "b": "inv(g) * b"})
        >>> space = qx.quotient(net.at(), scale, metric="invariant")
        >>> loss, params = lambda p: (p["a"] * p["b"] - 1) ** 2, {"a": jnp.ones(()), "b": jnp.zeros(())}
        >>> path = qx.gradient_descent().path(loss, params, 0.01, 100, every=10)
        >>> found = charge_history(space, path, steps=range(0, 101, 10), loss=loss, eta=0.01)
        >>> found.changes["scale"][-1].round(3), found.predicted_changes["scale"][-1].round(3)
        (np.float64(0.008), np.float64(0.008))
    """
    if not callable(getattr(space, "charge_drift", None)):
        raise DiscretisationError(
            f"`{CALL}` needs space= a quotient, got {type(space).__name__}; `quotax.quotient` makes one."
        )
    if not isinstance(path, Iterable) or isinstance(path, Mapping | str):
        raise DiscretisationError(
            f"`{CALL}` needs path= several sets of parameters, one after another, got {shown(path)}; of one set it is "
            "[params]."
        )
    rates = _rates(loss, eta, scheme)
    found: dict[str, list[Any]] = {name: [] for name in ("sizes", "changes", "entries", "told", "told_changes")}
    first: dict[str, np.ndarray] = {}
    told: dict[str, np.ndarray] = {}
    before: dict[str, np.ndarray] = {}
    places: list[float] = []
    status = "ok"
    given = None if steps is None else [_step(k) for k in steps]
    for number, params in enumerate(path):
        if given is not None and number >= len(given):
            raise DiscretisationError(f"`{CALL}`: path= is longer than steps=, which has {len(given)} numbers.")
        at = float(number) if given is None else given[number]
        try:
            charges = {name: np.asarray(q, np.float64) for name, q in space.conserved(params).items()}
        except ParameterError as error:
            if not number or "finite" not in str(error):
                raise
            status = f"stopped at step {at:g}, where the parameters are no longer finite"
            break
        if not charges:
            raise DiscretisationError(
                f"`{CALL}`: none of the families of {space!r} has a charge: rotations and what is discrete have none."
            )
        first = first or charges
        if rates is not None:
            now = {name: rates.eta * np.asarray(each, np.float64) for name, each in rates(space, params).items()}
            if before:
                gone = at - places[-1]
                told = {name: told[name] + gone * _between(before[name], now[name], gone) for name in told}
            else:
                told = {name: np.zeros_like(q) for name, q in charges.items()}
            before = now
            found["told"].append({name: _some(first[name] + each) for name, each in told.items()})
            found["told_changes"].append({name: np.linalg.norm(each) for name, each in told.items()})
        found["sizes"].append({name: np.linalg.norm(q) for name, q in charges.items()})
        found["changes"].append({name: np.linalg.norm(q - first[name]) for name, q in charges.items()})
        found["entries"].append({name: _some(q) for name, q in charges.items()})
        places.append(at)
    if not places:
        raise DiscretisationError(f"`{CALL}` needs path= at least one set of parameters, got none.")
    if given is not None and status == "ok" and len(places) < len(given):
        raise DiscretisationError(
            f"`{CALL}`: steps= has {len(given)} numbers, and path= {len(places)} sets of parameters."
        )
    beside = lambda rows: {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    name = "" if rates is None else rates.name
    return ChargeHistory(
        steps=np.asarray(places),
        sizes=beside(found["sizes"]),
        changes=beside(found["changes"]),
        entries=beside(found["entries"]),
        predicted_changes=beside(found["told_changes"]),
        predicted=beside(found["told"]),
        scheme=name,
        status=status,
    )


class _Rates:
    """The rates of all charges at given parameters, by a gradient that is compiled once."""

    def __init__(self, loss: Any, eta: float, scheme: Scheme | None) -> None:
        self.loss, self.eta, self.scheme = loss, eta, scheme
        batches = isinstance(loss, MiniBatches)
        self.name = f"{loss.steps} batches of {loss.size}, {loss.order}" if batches else str(scheme and scheme.name)
        self._slope = None if batches else jax.jit(jax.grad(loss))

    def __call__(self, space: Any, params: Any) -> dict[str, np.ndarray]:
        slope = None if self._slope is None else self._slope(params)
        return first_order_rates(space, self.loss, params, self.eta, self.scheme, slope)


def _rates(loss: Any, eta: Any, scheme: Scheme | None) -> _Rates | None:
    if loss is None:
        if eta is not None or scheme is not None:
            raise DiscretisationError(f"`{CALL}`: eta= and scheme= predict with loss=, and there is none.")
        return None
    if not callable(loss) and not isinstance(loss, MiniBatches):
        raise DiscretisationError(f"`{CALL}` needs loss= a function of the parameters, got {shown(loss)}.")
    if eta is None or not eta > 0:
        raise DiscretisationError(f"`{CALL}` predicts for steps of one size: eta= a positive number, got {eta!r}.")
    if isinstance(loss, MiniBatches):
        if scheme is not None:
            raise DiscretisationError(f"`{CALL}`: mini-batches are taken by gradient descent, not by {scheme!r}.")
        return _Rates(loss, float(eta), None)
    return _Rates(loss, float(eta), gradient_descent() if scheme is None else scheme)


def _between(before: np.ndarray, now: np.ndarray, steps: float) -> np.ndarray:
    """The mean rate between two places: of one step that at its start; of more as if it went exponentially."""
    if steps == 1:
        return before
    grown = np.divide(now, before, out=np.ones_like(now), where=before * now > 0)
    near = np.abs(grown - 1) < 1e-3
    mean = (now - before) / np.where(near, 1.0, np.log(grown))
    return np.where(near, (before + now) / 2, mean)


def _step(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not np.isfinite(number):
        raise DiscretisationError(f"`{CALL}` needs steps= finite numbers, got {value!r} among them.")
    return number


def _some(charge: np.ndarray) -> np.ndarray:
    """The entries that are kept."""
    flat = charge.ravel()
    return flat if flat.size <= KEPT else flat[np.linspace(0, flat.size - 1, KEPT).round().astype(int)]
