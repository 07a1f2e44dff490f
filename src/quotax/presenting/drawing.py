"""Pictures of results: axes of matplotlib, of a column's width in a paper, in colours that everybody can tell apart."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from quotax.errors import QuotaxError

WIDTH, HEIGHT = 3.4, 2.4
"""Inches of a picture."""

STYLE: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.use_mathtext": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
}
"""What is set while a picture is drawn; nothing of it stays."""

COLOURS = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"
"""Those of Okabe and Ito, one for each curve."""

MARKERS = "o", "s", "^", "D"
"""For curves that lie on one another, and where there are no colours."""

QUIET = "0.55"
"""The grey of what only guides the eye."""


@contextmanager
def drawn(ax: Any, call: str) -> Generator[tuple[Any, dict[str, Any]]]:
    """The axes to draw on, new ones if none are given, and what tells the next curve from the others."""
    try:
        import matplotlib
    except ImportError:
        raise QuotaxError(f"`{call}` draws with matplotlib: install quotax[plots].") from None
    with matplotlib.rc_context(STYLE):
        if ax is None:
            from matplotlib import pyplot

            _, ax = pyplot.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
        curves = sum(line.get_gid() == "curve" for line in ax.lines)
        yield ax, {"color": COLOURS[curves % len(COLOURS)], "marker": MARKERS[curves % len(MARKERS)], "gid": "curve"}
        labels = ax.get_legend_handles_labels()[1]
        if labels:  # above, where it hides nothing
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, ncols=min(len(labels), 3))
