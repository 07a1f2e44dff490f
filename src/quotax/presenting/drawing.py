"""Pictures of results: axes of matplotlib, of a column's width in a paper, in colours that everybody can tell apart."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from quotax.errors import QuotaxError

if TYPE_CHECKING:
    import matplotlib.axes
    from matplotlib.figure import Figure

Axes: TypeAlias = "matplotlib.axes.Axes"
"""What is drawn on; matplotlib is imported when something is drawn."""

Look: TypeAlias = Any
"""How something looks: a dict of matplotlib's keywords, or one of them."""

WIDTH, HEIGHT = 3.4, 2.4
"""Inches of a picture."""

STYLE: Look = {
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
"""The grey of what only guides the eye, on light grounds and on dark ones."""

FACES = {"parameter": ("0.95", "0.25"), "other": ("1.0", "0.12")}
"""Of boxes that words stand in, on a light ground and on a dark one."""

_OURS = "quotax"
"""What marks a figure that was made here: it may grow when a legend does."""
_LONGEST, _ACROSS = 44, 40
"""Characters of a label, and of a line on the axes."""


@contextmanager
def drawn(ax: Axes | None, call: str) -> Generator[tuple[Axes, Look]]:
    """The axes to draw on, new ones if none are given, and what tells the next curve from the others."""
    try:
        import matplotlib
    except ImportError:
        raise QuotaxError(f"`{call}` draws with matplotlib: install quotax[plots].") from None
    if ax is not None and not callable(getattr(ax, "get_xaxis_transform", None)):
        raise QuotaxError(
            f"`{call}` draws on one pair of axes of matplotlib, ax= as `pyplot.subplots()[1]` is, got "
            f"{type(ax).__name__}."
        )
    with matplotlib.rc_context(STYLE):
        if ax is None:
            from matplotlib import pyplot

            figure, ax = pyplot.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
            figure.set_gid(_OURS)
        yield ax, next_look(ax)
        _numbered(ax)
        _legend(ax)


def next_look(ax: Any) -> dict[str, Any]:
    """What tells the next curve from those that are there."""
    curves = sum(line.get_gid() == "curve" for line in ax.lines)
    return {"color": colour(curves, ax), "marker": MARKERS[curves % len(MARKERS)], "gid": "curve"}


def colour(number: int, ax: Any) -> str:
    """That of a curve; what is black on a light ground is white on a dark one."""
    found = COLOURS[number % len(COLOURS)]
    return "#ffffff" if found == "#000000" and dark(ax) else found


def dark(ax: Any) -> bool:
    """Whether the axes have a dark ground, as with `pyplot.style.use("dark_background")`."""
    from matplotlib.colors import to_rgb

    for each in (ax.get_facecolor(), ax.figure.get_facecolor()):
        if each[3]:
            return _light(each[:3]) < _MIDDLE
    return _light(to_rgb(ax.xaxis.label.get_color())) >= _MIDDLE  # nothing behind it: words were made to be read there


_MIDDLE = 0.5


def _light(rgb: Any) -> float:
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), rgb, strict=True))


def words_on(shade: str) -> str:
    """The colour of words on a filled box of this colour."""
    from matplotlib.colors import to_rgb

    return "white" if _light(to_rgb(shade)) < _MIDDLE else "black"


def face(kind: str, ax: Any) -> str:
    """Of a box that words stand in."""
    return FACES[kind][dark(ax)]


def ink(ax: Any) -> Any:
    """The colour of words beside the axes."""
    return ax.xaxis.label.get_color()


def soft(ax: Any) -> str:
    """The grey of words that stand behind others."""
    return "0.7" if dark(ax) else "0.4"


def accent(ax: Any) -> str:
    """The colour of words that stand out."""
    return COLOURS[5] if dark(ax) else COLOURS[0]


def says(ax: Any, words: str) -> None:
    """Where there is nothing to draw, why."""
    ax.minorticks_off()
    ax.set(xticks=[], yticks=[])
    told, above = textwrap.fill(words, _ACROSS), [text.get_text() for text in ax.texts]
    if told not in above:
        look = {"ha": "center", "va": "center", "color": soft(ax), "fontsize": 8}
        ax.text(0.5, 0.8 - 0.15 * len(above), told, transform=ax.transAxes, **look)


def counted(ax: Any) -> None:
    """Whole numbers across."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))


def _numbered(ax: Any) -> None:
    """Each tick on the left has its whole number: a factor for all of them would stand where the legend does."""
    from matplotlib.ticker import FuncFormatter, ScalarFormatter

    class Whole(FuncFormatter):
        def format_ticks(self, values: Any) -> list[str]:
            return whole_numbers(values)

    if ax.yaxis.get_scale() == "linear" and type(ax.yaxis.get_major_formatter()) is ScalarFormatter:
        ax.yaxis.set_major_formatter(Whole(lambda value, _: f"{value:.4g}"))


def whole_numbers(values: Any) -> list[str]:
    r"""Numbers with as many digits as tell them apart.

    >>> whole_numbers([0.0, 2e-6, 4e-6]), whole_numbers([1.0, 1.00001]), whole_numbers([-0.5, 0.0])
    (['0', '$2 \\times 10^{-6}$', '$4 \\times 10^{-6}$'], ['1.00000', '1.00001'], ['−0.5', '0.0'])
    """
    listed = [float(value) for value in values]
    largest = max(map(abs, listed), default=0.0)
    power = math.floor(math.log10(largest)) if 0 < largest < math.inf else 0
    power = power if not -4 < power < 5 else 0
    parts = [value / 10.0**power for value in listed]
    texts: list[str] = []
    for digits in range(12):
        texts = [f"{part:.{digits}f}".replace("-", "\u2212") for part in parts]
        off = max((abs(float(f"{part:.{digits}f}") - part) for part in parts), default=0.0)
        gaps = [abs(b - a) for a, b in itertools.pairwise(sorted(parts)) if b != a]
        if off < 0.02 * min(gaps, default=1.0):
            break
    if not power:
        return texts
    return [f"${text} \\times 10^{{{power}}}$" if part else "0" for text, part in zip(texts, parts, strict=True)]


def _legend(ax: Any) -> None:
    """Above, where it hides nothing, in as many columns as are no wider than the axes."""
    handles, labels = ax.get_legend_handles_labels()
    if not labels:
        return
    short = [text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..." for text in labels]
    figure = ax.get_figure(root=True)
    room, rows = ax.get_window_extent().width, 1
    if figure.get_gid() == _OURS:
        room = max(room, _SHARE * WIDTH * figure.dpi)
    for columns in range(min(len(labels), 3), 0, -1):
        legend = ax.legend(
            handles, short, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, ncols=columns, labelcolor=ink(ax),
            handlelength=1.7, columnspacing=1.2,
        )  # fmt: skip
        rows = -(-len(labels) // columns)
        if legend.get_window_extent().width <= room:
            break
    if figure.get_gid() == _OURS:
        figure.set_size_inches(WIDTH, max(figure.get_figheight(), HEIGHT + (rows - 1) * _LINE))


_LINE, _SHARE = 0.155, 0.8
"""Inches of a line of a legend; what axes have of a figure's width, at least, once it is laid out."""


def few_decades(ax: Any, which: str = "y") -> None:
    """Plain numbers on a logarithmic axis that spans no more than about two decades, powers on a longer one."""
    from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, LogLocator, NullFormatter

    axis = getattr(ax, f"{which}axis")
    low, high = getattr(ax, f"get_{which}lim")()
    few = low > 0 and high / low < _FEW_DECADES
    parts = (1.0,) if not few else (1, 2, 5) if high / low > _ONE_DECADE else (1, 1.5, 2, 3, 4, 5, 7)
    axis.set_major_locator(LogLocator(10, parts))
    axis.set_minor_locator(LogLocator(10, "all" if few else "auto"))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}") if few else LogFormatterSciNotation())
    axis.set_minor_formatter(NullFormatter())


_FEW_DECADES, _ONE_DECADE = 300, 8


def blank(ax: Axes, aspect: float) -> bool:
    """Whether nothing is drawn yet; a figure that has no other axes becomes so many times as high as it is wide."""
    fresh = not ax.lines and not ax.patches
    if fresh and len(ax.figure.axes) == 1:
        cast("Figure", ax.figure).set_size_inches(WIDTH, WIDTH * aspect)
    return fresh
