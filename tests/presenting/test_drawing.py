"""Pictures of results: what is drawn where, several results in one picture, and no setting of matplotlib that stays."""

import builtins

import matplotlib
import numpy as np
import pytest

from quotax.errors import QuotaxError
from quotax.sharpness import Barrier, Density, Profile, Spectrum

matplotlib.use("Agg")
from matplotlib import pyplot

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


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(QuotaxError, match=r"`spectrum\.plot\(\)` draws with matplotlib: install quotax\[plots\]"):
        spectrum(None).plot()
