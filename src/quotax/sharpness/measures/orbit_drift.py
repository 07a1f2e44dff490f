r"""Measures at one representative of an orbit after another: which of them change though the function does not.

Representatives are $e^{t\xi}\theta$, $\xi$ in the algebra of the group: one network, written in other parameters. What
is a function on the quotient has one value there, up to rounding and to the search or the sampling that it is made
with; lengths, Euclidean gradients and everything in a Euclidean ball have any.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from quotax.checks import unfinite
from quotax.errors import SharpnessError
from quotax.presenting import Result, shown
from quotax.presenting.along_orbits import ratios
from quotax.presenting.telling import Teller
from quotax.programs.threads import one_thread
from quotax.sharpness.measures.average import average_sharpness
from quotax.sharpness.measures.spectrum import spectrum
from quotax.sharpness.measures.trace import gradient_norm, trace
from quotax.sharpness.measures.worst_case import sharpness
from quotax.sharpness.problem.arguments import Key, check_radius, check_whole
from quotax.sharpness.problem.objective import Loss, objective
from quotax.sharpness.problem.orbit_curve import Along, check_along, mover
from quotax.sharpness.problem.setting import Measurement
from quotax.sharpness.verdicts.along_orbit import ERRORS
from quotax.sharpness.verdicts.arithmetic import KEPT
from quotax.sharpness.verdicts.invariance import verdict

CALL = "quotax.orbit_drift"

TIMES = (-0.5, -0.25, 0.0, 0.25, 0.5)
"""Of the representatives, unless others are asked for."""

PRODUCTS = 30
"""With the Hessian, for a trace; up to so many parameters it is exact."""

LENGTH = "length of the parameters"


@dataclass(frozen=True, repr=False)
class DriftingMeasure(Result):
    """One measure along an orbit.

    Attributes:
        name: of the measure.
        ball: "full", "quotient", or "" for what has none.
        values: at the representatives.
        change: the largest difference from the value at the parameters, relative to it.
        invariant: whether it is a function on the quotient, of a loss that sees outputs alone: True where that is
            proved and nothing measured contradicts it, None where it is not known.
    """

    name: str
    ball: str
    values: np.ndarray
    change: float
    invariant: bool | None


@dataclass(frozen=True, repr=False)
class OrbitDrift(Result):
    """Measures along an orbit.

    Attributes:
        times: t of the representatives `exp(t xi) params`; at zero are the parameters.
        rows: for each measure and ball its values there; the first is the loss.
        radius: of the balls.
        loss_moves: whether the loss itself changes along the orbit: it reads the parameters and not the function alone
            (weight decay does), or rounding has changed the network; and no measure is known to be a function on the
            quotient then.
        element: the algebra elements by family.
        status: "ok", or "not finite": a value is NaN or infinite somewhere.
    """

    times: np.ndarray
    rows: tuple[DriftingMeasure, ...]
    radius: float
    loss_moves: bool
    element: dict[str, Any] = field(repr=False)

    _also = ("status",)

    @property
    def status(self) -> str:
        """Whether all values are numbers."""
        return "ok" if all(np.all(np.isfinite(row.values)) for row in self.rows) else "not finite"

    def __getitem__(self, name: str | tuple[str, str]) -> np.ndarray:
        """The values of a measure, `drift["trace", "quotient"]`, or of one that has no ball, `drift["loss"]`."""
        wanted = name if isinstance(name, tuple) else (name, "")
        for row in self.rows:
            if (row.name, row.ball) == wanted:
                return row.values
        known = ", ".join(repr((row.name, row.ball) if row.ball else row.name) for row in self.rows)
        raise SharpnessError(f"`drift[{name!r}]`: nothing of that name was measured; known are {known}.")

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        said = {True: "yes", False: "no", None: "not known"}
        rows = []
        for row in self.rows:
            known = row.values[np.isfinite(row.values)]
            ends = (f"{known.min():.6g}", f"{known.max():.6g}") if known.size else ("nan", "nan")
            rows.append((row.name, row.ball, *ends, f"{row.change:.1e}", said[row.invariant]))
        return ("measure", "ball", "least", "largest", "relative change", "function on the quotient"), rows

    def __str__(self) -> str:
        """A table."""
        from quotax.presenting.tables import table

        return "\n".join([table(*self._rows()), *self._below()])

    def _below(self) -> list[str]:
        moved = "the loss changes along the orbit: it reads the parameters themselves, or rounding changed the network"
        return [f"{len(self.times)} representatives, t from {self.times[0]:g} to {self.times[-1]:g}; balls of radius "
                f"{self.radius:g}"] + [moved] * self.loss_moves  # fmt: skip

    def plot(self, ax: Any = None) -> Any:
        """Every measure over its value at the parameters: solid in the full ball, dashed on the quotient.

        A measure that is zero or no number at the parameters has no such ratio, and is left out.
        """
        rows = [(row.name, row.ball, row.values) for row in self.rows]
        return ratios(self.times, rows, ax, "drift.plot()")


def _worst(loss: Loss, at: Any, radius: float, steps: int, own: dict[str, Any]) -> Any:
    return sharpness(loss, at, radius, steps=steps, **own)


def _mean(loss: Loss, at: Any, radius: float, steps: int, own: dict[str, Any]) -> Any:
    return average_sharpness(loss, at, radius, samples=64, probes=0, **own)


def _traced(loss: Loss, at: Any, radius: float, steps: int, own: dict[str, Any]) -> Any:
    few = sum(leaf.size for leaf in jax.tree.leaves(at)) <= PRODUCTS
    return trace(loss, at, probes=None if few else PRODUCTS, **own)


def _top(loss: Loss, at: Any, radius: float, steps: int, own: dict[str, Any]) -> float:
    return float(spectrum(loss, at, 1, which="top", **own).values[0])


def _slope(loss: Loss, at: Any, radius: float, steps: int, own: dict[str, Any]) -> float:
    return gradient_norm(loss, at, **{name: value for name, value in own.items() if name not in ("key", "ball")})


_MEASURES: dict[str, Callable[..., Any]] = {
    "length of the gradient": _slope,
    "worst case": _worst,
    "average": _mean,
    "trace": _traced,
    "largest eigenvalue": _top,
}
"""What is measured in both balls."""

DEFAULT = (LENGTH, "length of the gradient", "worst case", "trace")


@one_thread
@np.errstate(all="ignore")  # what is no number is named in the result
def orbit_drift(
    loss: Loss,
    params: Any,
    radius: float,
    *,
    space: Any,
    times: Iterable[float] = TIMES,
    along: Along = None,
    measures: Iterable[str] = DEFAULT,
    others: Mapping[str, Callable[[Any], Any]] | None = None,
    steps: int = 20,
    batch: Any = None,
    microbatch: int | None = None,
    mesh: Mesh | None = None,
    key: Key = None,
    progress: Callable[[str], Any] | None = None,
) -> OrbitDrift:
    r"""Measures along a curve in the orbit of the parameters: which belong to the network, which to how it is written.

    Args:
        loss: `loss(params)`, or `loss(params, batch)` when `batch` is given: then a mean over the batch's examples.
        params: where the curve is at t = 0.
        radius: of the balls.
        space: a quotient with a continuous family.
        times: t of the representatives $e^{t\xi}\theta$; zero is added if it is not among them. Of a random element, t
            is the standard deviation of the logarithm: scales change by factors of about `exp(t)`.
        along: the algebra elements by family (those of a tangent vector v: `space.connection(params, v)`), or the name
            of a family in which a random one is drawn; by default it is drawn in all of them.
        measures: in the full ball and on the quotient `"length of the gradient"`, `"worst case"`, `"average"`,
            `"trace"`, `"largest eigenvalue"`; and `"length of the parameters"`. The loss is measured in any case.
        others: functions of the parameters of one's own, by name.
        steps: gradients that each search for the worst case may spend.
        batch: a pytree whose leaves share their leading axis.
        microbatch: examples in memory at once.
        mesh: a `jax.sharding.Mesh` over whose devices the batch is split.
        key: of what is random: a JAX key or an integer.
        progress: called with a line of text now and then; by default standard error is told when it takes long.

    Example:
        >>> import jax.numpy as jnp, quotax as qx
        >>> @qx.architecture(params={"a": "", "b": ""}, inputs={"x": ""})
        ... def net(p, x):
        ...     return p["a"] * p["b"] * x
        >>> scale = qx.Symmetry("scale", qx.PositiveScalar(), {"a": "g * a", "b": "inv(g) * b"})
        >>> space = qx.quotient(net.at(), scale, metric="invariant")
        >>> loss, params = lambda p: (p["a"] * p["b"] - 1) ** 2, {"a": jnp.ones(()), "b": jnp.ones(())}
        >>> curve = {"scale": jnp.ones(())}
        >>> found = orbit_drift(loss, params, 0.1, space=space, along=curve, measures=["trace"], times=[0, 1])
        >>> found["trace", "full"].round(3), found["trace", "quotient"].round(3)
        (array([ 4.   , 15.049]), array([4., 4.]))
    """
    radius = check_radius(CALL, radius)
    check_whole(CALL, "steps", steps, 1)
    places = _times(times)
    asked, own = _measures(measures, others)
    data = {"batch": batch, "microbatch": microbatch, "mesh": mesh}
    setting = Measurement(CALL, loss, key=key, **data).at(params)
    params = setting.params
    xi = check_along(CALL, space, along, params, key)
    for name, function in own.items():
        _check_own(name, function, params)
    full = verdict(Measurement(CALL, loss, space, "full", key=key, **data).at(params)).invariant
    quotient = True if space.metric_certificate else None
    balls = {"full": {}, "quotient": {"space": space}}
    value = objective(loss, setting.request.microbatch, mesh).value
    nothing = np.zeros(setting.layout.size, setting.layout.dtype)
    move, teller = mover(space, xi), Teller(progress)
    found: dict[tuple[str, str], list[float]] = {}
    known: dict[tuple[str, str], bool | None] = {("loss", ""): True, (LENGTH, ""): full}
    errors: dict[tuple[str, str], float] = {}
    for number, t in enumerate(places):
        teller(functools.partial(_told, number, len(places)))
        at = move(params, t) if t else params
        if any(map(unfinite, jax.tree.leaves(at))):
            raise SharpnessError(
                f"`{CALL}`: at t = {t:g} the parameters are beyond what {setting.layout.dtype} holds; give times= "
                "nearer to zero."
            )
        rows = {("loss", ""): float(value(at, setting.request.batch, nothing))}
        if LENGTH in asked:
            rows[LENGTH, ""] = math.sqrt(sum(float(jnp.sum(jnp.abs(leaf) ** 2)) for leaf in jax.tree.leaves(at)))
        for name in asked:
            for ball, where in balls.items() if name in _MEASURES else ():
                told = _MEASURES[name](loss, at, radius, steps, data | where | {"key": key})
                rows[name, ball] = float(getattr(told, "value", told))
                judged = full if ball == "full" else getattr(told, "invariant", quotient)
                known[name, ball] = judged if known.get((name, ball), judged) == judged else None
                errors[name, ball] = max(errors.get((name, ball), 0.0), getattr(told, "standard_error", 0.0))
        rows |= {(name, ""): float(function(at)) for name, function in own.items()}
        for which, number_there in rows.items():
            found.setdefault(which, []).append(number_there)
    centre = places.index(0.0)
    rounding = math.sqrt(float(jnp.finfo(setting.layout.dtype).eps))
    changes = {which: _change(values, centre) for which, values in found.items()}
    # what is proved is that outputs stay: a loss that reads the parameters themselves need not
    moves = not changes["loss", ""] <= rounding
    for which, values in found.items():
        explained = max(KEPT * max(map(abs, values)), ERRORS * errors.get(which, 0.0))
        stays = max(abs(each - values[centre]) for each in values) <= explained
        if which[0] in own and not stays and not moves:
            known[which] = False
        elif known.get(which) and (moves or not stays):  # whatever is proved in exact arithmetic
            known[which] = None
    rows = (DriftingMeasure(*which, np.asarray(found[which]), changes[which], known.get(which)) for which in found)
    return OrbitDrift(np.asarray(places), tuple(rows), radius, moves, xi)


def _times(times: Iterable[float]) -> list[float]:
    listed = list(times) if isinstance(times, Iterable) and not isinstance(times, str) else [times]
    try:
        found = sorted({float(t) for t in listed} | {0.0})
    except (TypeError, ValueError):
        found = [math.nan]
    if not all(map(math.isfinite, found)) or len(found) < 2:
        raise SharpnessError(
            f"`{CALL}` needs times= numbers, at least one of them not zero, got {shown(times)}; try {TIMES}."
        )
    return found


def _measures(measures: Iterable[str], others: Any) -> tuple[list[str], dict[str, Callable[[Any], Any]]]:
    asked = [measures] if isinstance(measures, str) else list(measures)
    allowed = (LENGTH, *_MEASURES)
    for name in asked:
        if name not in allowed:
            raise SharpnessError(
                f"`{CALL}`: measures= has {name!r}; known are {', '.join(map(repr, allowed))}, and others= takes "
                "functions of your own."
            )
    own = {} if others is None else others
    if not isinstance(own, Mapping) or not all(callable(function) for function in own.values()):
        raise SharpnessError(f"`{CALL}` needs others= a dict of name -> function of the parameters, got {shown(own)}.")
    for name in own:
        if name in (*allowed, "loss"):
            raise SharpnessError(f"`{CALL}`: others= names {name!r}, as a measure is called; give it another name.")
    return list(dict.fromkeys(asked)), dict(own)


def _check_own(name: str, function: Callable[[Any], Any], params: Any) -> None:
    found = function(params)
    if np.shape(found) != () or not np.issubdtype(np.asarray(found).dtype, np.number):
        raise SharpnessError(f"`{CALL}`: others[{name!r}] must return one number, got {shown(found)}.")


def _change(values: list[float], centre: int) -> float:
    base = values[centre]
    largest = max(abs(value - base) for value in values)
    return largest / abs(base) if base else math.nan if largest else 0.0


def _told(number: int, places: int, seconds: float) -> str:
    left = f", about {seconds * (places - number) / number:.0f} s left" if number else ""
    return f"{CALL}: representative {number + 1} of {places}{left}"
