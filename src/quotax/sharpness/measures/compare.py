"""All measures of several networks side by side, with what the numbers do not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jax.sharding import Mesh

from quotax.checks import finite_params
from quotax.errors import SharpnessError
from quotax.presenting import Json, Result, shown
from quotax.presenting.tables import table, wrapped
from quotax.sharpness.measures.average import average_sharpness
from quotax.sharpness.measures.spectrum import spectrum
from quotax.sharpness.measures.trace import slope, trace
from quotax.sharpness.measures.worst_case import sharpness
from quotax.sharpness.problem.arguments import Key, check_radius
from quotax.sharpness.problem.setting import Measurement
from quotax.sharpness.problem.vectors import layout
from quotax.trees import Tree

CALL = "quotax.compare"

WARNING = (
    "Widths: dividing by d, or by d - k, does not make networks of different widths comparable. Splitting every neuron "
    "in two keeps the function, and at the balanced point keeps the trace and lambda_max, but it about halves trace/d "
    "and trace/(d - k) alike."
)

COLUMNS = (
    ("d", "parameters"),
    ("k", "dimension of the orbits"),
    ("loss", "at the parameters"),
    ("|grad|", "of the gradient, in the metric"),
    ("S full", "worst rise in the full Euclidean ball"),
    ("S quot", "worst rise in the horizontal ball, in the metric"),
    ("avg full", "mean rise on the full sphere"),
    ("avg quot", "mean rise on the horizontal sphere"),
    ("lambda", "largest eigenvalue of the Hessian on the quotient"),
    ("trace full", "of the Euclidean Hessian"),
    ("trace quot", "of the Hessian on the quotient"),
    ("full/d", "trace full / d"),
    ("quot/(d-k)", "trace quot / (d - k)"),
)
"""Names and meanings of the measures."""

_BESIDE = 4
"""So many networks stand side by side."""


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Measures of several networks side by side.

    Attributes:
        rows: dicts with "name" and the measures of the table; NaN without a space where one is needed; "invariant" says
            whether the quotient's measures are functions on the quotient, and "reason" why.
        radius: of all balls and spheres.
        warning: what the normalised columns do not mean.
    """

    rows: tuple[dict[str, Json], ...]
    radius: float
    warning: str = WARNING

    def _title(self) -> str:
        return f"radius {self.radius:g}"

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        return _beside(self.rows)

    def __str__(self) -> str:
        """A column for each network, a line for each measure with its meaning, and the warning."""
        parts = [table(*_beside(self.rows[k : k + _BESIDE])) for k in range(0, len(self.rows), _BESIDE)]
        return "\n\n".join([*parts, "\n".join(map(wrapped, [self._title(), *self._below()]))])

    def _below(self) -> list[str]:
        return [*(f"{row['name']}: {row['reason']}" for row in self.rows if row["reason"]), self.warning]


def _beside(rows: Sequence[Mapping[str, Json]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows of the table of these networks."""
    show = lambda value: value if isinstance(value, str) else f"{value:.4g}" if value == value else "-"
    cells = [(title, *(show(row[title]) for row in rows), meaning) for title, meaning in COLUMNS]
    return ("measure", *(row["name"] for row in rows), "meaning"), cells


def compare(
    models: Mapping[str, Tree],
    radius: float = 0.05,
    *,
    batch: Tree = None,
    microbatch: int | None = None,
    samples: int = 256,
    steps: int = 40,
    probes: int | None = None,
    mesh: Mesh | None = None,
    key: Key = None,
) -> Comparison:
    """All measures of several networks: a dict of name -> `(loss, params, space)`, or `(loss, params)`.

    The networks may differ in width and in kind. `batch`, if given, goes to every loss, and `mesh` splits it.

    Example:
        >>> import jax.numpy as jnp
        >>> square = lambda p: jnp.sum(p**2)
        >>> table = compare({"narrow": (square, jnp.ones(2)), "wide": (square, jnp.ones(4))})
        >>> tuple(row["trace full"] for row in table.rows)
        (4.0, 8.0)
    """
    if not isinstance(models, Mapping) or not models:
        raise SharpnessError(f"`{CALL}` needs models= a dict of name -> (loss, params, space), got {shown(models)}.")
    for name, model in models.items():
        if not isinstance(model, tuple | list) or len(model) not in (2, 3):
            raise SharpnessError(f"`{CALL}`: models[{name!r}] must be (loss, params, space), got {model!r}.")
    radius = check_radius(CALL, radius)
    data = {"batch": batch, "microbatch": microbatch, "mesh": mesh}
    rows = []
    for name, (loss, params, *rest) in models.items():
        space = rest[0] if rest else None
        params = finite_params(CALL, params)
        d = layout(params).size
        full = sharpness(loss, params, radius, steps=steps, key=key, **data)
        average = average_sharpness(loss, params, radius, samples=samples, probes=0, key=key, **data)
        whole = trace(loss, params, probes=probes, key=key, **data)
        row = {"name": str(name), "d": d, "k": jnp.nan, "loss": full.base}
        row |= {"S full": full.value, "avg full": average.value, "trace full": whole.value, "full/d": whole.value / d}
        row |= {"S quot": jnp.nan, "avg quot": jnp.nan, "trace quot": jnp.nan, "quot/(d-k)": jnp.nan}
        row |= {"invariant": None, "reason": ""}
        if space is not None:
            # The full ball holds the horizontal one only in the Euclidean metric; elsewhere the two are not ordered.
            quot = sharpness(loss, params, radius, space=space, steps=steps, key=key, **data)
            mean = average_sharpness(loss, params, radius, space=space, samples=samples, probes=0, key=key, **data)
            part = trace(loss, params, space=space, probes=probes, key=key, **data)
            row |= {"k": d - part.dim, "S quot": quot.value, "avg quot": mean.value, "trace quot": part.value}
            told = next((each for each in (mean, part) if each.arithmetic and each.arithmetic.lost), quot)
            row |= {"quot/(d-k)": part.value / part.dim, "invariant": told.invariant, "reason": told.reason}
        row["|grad|"] = slope(Measurement(CALL, loss, space, **data), params)[0]
        top = spectrum(loss, params, 1, space=space, which="top", key=key, **data)
        row["lambda"] = float(top.values[0])
        rows.append(row)
    return Comparison(tuple(rows), radius)
