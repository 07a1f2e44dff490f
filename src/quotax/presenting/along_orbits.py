"""Pictures of what is seen along an orbit: values over the first one; the loss along and across by its level sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quotax.presenting.drawing import (
    COLOURS,
    MARKERS,
    QUIET,
    colour,
    dark,
    drawn,
    few_decades,
    ink,
    says,
    whole_numbers,
)

LEVELS = 12
_ROUNDING = 1e-6
"""Of a loss: less is no level set."""
_LOGARITHMIC = 4
"""Ratios that differ by more than this factor stand on a logarithmic scale."""

ALONG = r"along the orbit (t of $e^{t\xi}$)"


def ratios(times: Any, rows: Sequence[tuple[str, str, Any]], ax: Any, call: str) -> Any:
    """Values over those at the time nearest to zero: rows of a name, a ball and values; dashed on the quotient."""
    centre = int(np.argmin(np.abs(times)))
    names = list(dict.fromkeys(name for name, _, _ in rows))
    curves = [(name, ball, np.asarray(values, float)) for name, ball, values in rows]
    curves = [curve for curve in curves if np.isfinite(curve[2][centre]) and curve[2][centre] != 0]
    known, labelled = [1.0], set()
    with drawn(ax, call) as (ax, look):
        for name, ball, values in curves:
            n = names.index(name)
            look |= {"color": colour(n, ax), "marker": MARKERS[n % len(MARKERS)]}
            label = None if name in labelled else name.removeprefix("length of the ")
            labelled.add(name)
            ratio = values / values[centre]
            known += ratio[np.isfinite(ratio)].tolist()
            ax.plot(times, ratio, "--" if ball == "quotient" else "-", label=label, **look)
        ax.set_xlabel(ALONG)
        ax.set_ylabel("value / value at t = 0")
        if not curves:
            says(ax, "nothing was measured but zeros and NaN")
            return ax
        if any(ball == "quotient" for _, ball, _ in curves):
            ax.plot([], [], "--", color=QUIET, label="on the quotient")
        low, high = min(*known, 0.9), max(*known, 1.1)
        if low > 0 and high / low > _LOGARITHMIC:
            ax.set_yscale("log")
            ax.set_ylim(low / 1.1, high * 1.1)
            few_decades(ax)
        else:
            ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    return ax


def level_sets(
    along: Any, across: Any, losses: Any, ax: Any, call: str, *, labels: tuple[str, str], straight: bool = False
) -> Any:
    """The loss by level, a row of `losses` for each place along; what is no number has no colour.

    The line along which the parameters are moved is drawn, dashed where it is `straight` and leaves the orbit.
    """
    with drawn(ax, call) as (ax, _):
        from matplotlib.colors import BoundaryNorm
        from matplotlib.ticker import FixedFormatter

        along, across = np.asarray(along, float), np.asarray(across, float)
        values = np.ma.masked_invalid(np.asarray(losses, float).T)
        ax.set(xlabel=labels[0], ylabel=labels[1], xlim=along[[0, -1]], ylim=across[[0, -1]])
        low, high = (float(values.min()), float(values.max())) if values.count() else (np.nan, np.nan)
        if not high - low > _ROUNDING * max(abs(low), abs(high)):
            says(ax, f"the loss is {low:.4g} everywhere" if values.count() else "the loss is no number anywhere")
            return ax
        levels = low + (high - low) * np.linspace(0, 1, LEVELS + 1) ** 2  # those of a parabola are equally far apart
        look: dict[str, Any] = {"cmap": "Blues_r" if dark(ax) else "Blues", "norm": BoundaryNorm(levels, 256)}
        shade = ax.contourf(along, across, values, levels, alpha=0.75, **look)
        ax.contour(along, across, values, levels[1:-1], colors=[ink(ax)], linewidths=0.4, alpha=0.7)
        ax.axhline(0, color=COLOURS[1], linewidth=1.0, linestyle="--" if straight else "-")
        ax.plot(0, 0, "o", color=COLOURS[1], clip_on=False)
        marks = levels[::3]
        bar = ax.figure.colorbar(shade, ax=ax, ticks=marks, format=FixedFormatter(whole_numbers(marks)), pad=0.02)
        bar.minorticks_off()
        bar.set_label("loss", color=ink(ax))
        bar.ax.tick_params(labelsize=7, colors=ink(ax), length=2)
        bar.outline.set_edgecolor(QUIET)
    return ax
