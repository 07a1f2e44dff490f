"""Pictures of results: what is drawn where, several results in one picture, and no setting of matplotlib that stays."""

import builtins

import matplotlib
import numpy as np
import pytest

from quotax.discretisation import ChargeHistory
from quotax.errors import DiscretisationError, QuotaxError
from quotax.presenting.drawing import WIDTH, dark
from quotax.sharpness import Barrier, Density, DriftingMeasure, LossSlice, OrbitDrift, Profile, Spectrum, Spread

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.text import Text

ENDS = np.array([3.0, 1.0]), np.array([-1.0, -0.5])
DENSITY = Density(np.array([-1.0, 0.0, 3.0]), np.array([0.25, 0.5, 0.25]), 1, 3)


def spectrum(density):
    return Spectrum(*ENDS, [], [], np.zeros(2), np.zeros(2), 8, "Euclidean", 4, "converged", density)


@pytest.fixture(autouse=True)
def nothing_stays():
    before = dict(matplotlib.rcParams)
    yield
    pyplot.close("all")
    assert dict(matplotlib.rcParams) == before


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_spectra_share_axes_and_their_densities_count_eigenvalues():
    ax = spectrum(DENSITY).plot(label="full")
    assert spectrum(DENSITY).plot(ax, label="quotient") is ax
    assert legend(ax) == ["full", "quotient"]
    curves = [line for line in ax.lines if line.get_gid() == "curve"]
    assert len({line.get_color() for line in curves}) == 2
    x, y = curves[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(8, rel=1e-3)
    assert [sorted(line.get_xdata()) for line in ax.lines if line.get_gid() == "ends"] == [[-1, -0.5, 1, 3]] * 2
    assert ax.get_yscale() == "log"
    assert ax.get_ylim()[1] > y.max()


def test_a_spectrum_without_density_has_its_ends():
    ax = spectrum(None).plot(label="full")
    assert sorted(ax.lines[0].get_xdata()) == [-1, -0.5, 1, 3]
    assert legend(ax) == ["full"]


def test_profiles_and_barriers():
    ax = Profile(np.array([0.1, 0.2]), np.array([0.01, 0.04]), (), 0, None, "").plot()
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_legend()) == ("log", "log", None)
    assert ax.figure.get_size_inches()[0] <= 3.5
    times, losses = np.linspace(0, 1, 5), np.array([0.0, 1, 2, 1, 0])
    ax = Barrier(2.0, 0.5, times, losses, losses / 4, None).plot()
    assert legend(ax) == ["barrier 2", "0.5 once aligned"]
    assert [line.get_ydata().tolist() for line in ax.lines] == [losses.tolist(), (losses / 4).tolist(), [0, 0]]
    assert legend(Barrier(2.0, None, times, losses, None, None).plot()) == ["barrier 2"]


def overlapping(figure):
    """Words of a picture that lie on one another, or stand out of it."""
    figure.canvas.draw()
    unseen = set()
    for axis in (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        unseen |= {tick.label1 for tick in ticks if not low <= tick.get_loc() <= high}
    words = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in words if text not in unseen]
    whole = figure.bbox.padded(1)
    out = [words for words, box in boxes if not whole.contains(box.x0, box.y0) or not whole.contains(box.x1, box.y1)]
    return out + [
        (words, other)
        for n, (words, box) in enumerate(boxes)
        for other, beside in boxes[:n]
        if box.padded(-1).overlaps(beside.padded(-1))
    ]


def slice_of(losses, frame="fixed"):
    places = np.linspace(-1, 1, len(losses))
    return LossSlice(places, places, np.asarray(losses, float), frame, 0.0, 0.0, 1.0, {}, {})


def drift_of(rows):
    return OrbitDrift(
        np.array([-1.0, 0.0, 1.0]), tuple(DriftingMeasure(*row, 0.0, None) for row in rows), 0.1, False, {}
    )


BOWL = np.add.outer(np.zeros(5), np.linspace(-1, 1, 5) ** 2)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_the_loss_along_and_across_is_drawn_by_level_on_any_ground(style):
    with pyplot.style.context(style):
        ax = slice_of(BOWL).plot()
        assert dark(ax) == (style == "dark_background")
        assert ax.figure.get_figwidth() == WIDTH
        low, high = ax.collections[0].get_cmap()([0.0, 1.0])[:, :3].mean(1)
        assert (low > high) != dark(ax)  # what is low stands back
        assert overlapping(ax.figure) == []
        holes = np.where(BOWL > 0.5, np.nan, BOWL)
        assert overlapping(slice_of(holes, "linear").plot().figure) == []


@pytest.mark.parametrize(
    ("losses", "said"),
    [(np.full((3, 3), np.nan), "the loss is no number anywhere"), (np.ones((3, 3)), "the loss is 1 everywhere")],
)
def test_where_there_is_no_level_the_picture_says_so(losses, said):
    assert [text.get_text() for text in slice_of(losses).plot().texts] == [said]


def test_measures_along_an_orbit_are_ratios():
    rows = [("loss", "", [1.0, 1, 1]), ("trace", "full", [9.0, 3, 30]), ("trace", "quotient", [2.0, 2, np.nan])]
    ax = drift_of([(name, ball, np.array(values)) for name, ball, values in rows]).plot()
    curves = [line for line in ax.lines if line.get_gid() == "curve"]
    assert [line.get_linestyle() for line in curves] == ["-", "-", "--"]
    assert curves[1].get_color() == curves[2].get_color() != curves[0].get_color()
    assert curves[1].get_ydata().tolist() == [3, 1, 10]
    assert (legend(ax), ax.get_yscale()) == (["loss", "trace", "on the quotient"], "log")
    assert overlapping(ax.figure) == []
    nothing = drift_of([("loss", "", np.array([1.0, 0, 1])), ("trace", "full", np.full(3, np.nan))]).plot()
    assert [text.get_text() for text in nothing.texts] == ["nothing was measured but zeros and NaN"]


def history(names, steps=5):
    changes = {name: np.arange(float(steps)) * 10.0**-n for n, name in enumerate(names)}
    entries = {name: np.add.outer(change, np.arange(3.0)) for name, change in changes.items()}
    return ChargeHistory(np.arange(steps), changes, changes, entries, {names[0]: changes[names[0]]}, {})


def test_charges_by_family_and_of_one():
    ax = history(["h", "k"]).plot()
    assert (legend(ax), ax.get_yscale()) == (["h", "k", "predicted"], "linear")
    assert len(history(["h", "k"]).plot(family="k").lines) == 3
    assert [text.get_text() for text in history(["h"], 1).plot().texts] == ["one place: nothing has changed"]
    with pytest.raises(DiscretisationError, match=r"`history.plot\(\)`: no charges of a family 'w'; those are of h, k"):
        history(["h", "k"]).plot(family="w")


def test_many_long_names_make_a_figure_higher_and_no_wider():
    names = [f"layers/attention/{kind} values of head {n}" for n in range(6) for kind in ("queries against", "scaled")]
    ax = history(names).plot()
    assert ax.figure.get_figwidth() == WIDTH
    assert overlapping(ax.figure) == []
    assert ax.get_window_extent().height > 150


def test_values_at_representatives_share_axes():
    full, quot = Spread(np.array([3.0, 1.0, 2.0]), 2.0, 0.5), Spread(np.full(3, 1.0), 0.0, 0.5)
    ax = quot.plot(full.plot(label="full"), label="quotient")
    assert [line.get_ydata().tolist() for line in ax.lines] == [[1, 2, 3], [1, 1, 1]]
    assert quot.plot().get_ylim() == pytest.approx((0.94, 1.06))
    with pytest.raises(QuotaxError, match=r"`spread.plot\(\)` draws on one pair of axes of matplotlib, .* got ndarray"):
        full.plot(np.array([ax]))


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(QuotaxError, match=r"`spectrum\.plot\(\)` draws with matplotlib: install quotax\[plots\]"):
        spectrum(None).plot()
