"""Volumes of orbits: what they add to evidence, where noise goes, and how many parameters count.

    python examples/landscape_volume.py            about two minutes
    python examples/landscape_volume.py --quick    some twenty seconds

Predicted is printed beside measured; a figure is saved in `docs/assets` (`--figures DIR` puts it elsewhere).
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad
from scipy.special import k0
from scipy.stats import chi, gamma, kstest

import quotax as qx

ASSETS = Path(__file__).parents[1] / "docs" / "assets"

Row = tuple[str, float, float]
"""What, predicted, measured."""

NOTHING = float("nan")
"""Where nothing is predicted."""


@qx.architecture(params={"w": "n"}, inputs={"x": ""})
def square(p, x):
    return jnp.sum(p["w"] ** 2) * x


@qx.architecture(params={"a": "h", "b": "h"}, inputs={"x": ""})
def product(p, x):
    return jnp.vdot(p["a"], p["b"]) * x


@qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})
def two(p, x):
    return p["B"] @ (p["A"] @ x)


TURN = qx.Symmetry("turn", qx.O("n"), {"w": "g @ w"})
SCALE = qx.Symmetry("scale", qx.Diagonal("h"), {"a": "g @ a", "b": "inv(g) @ b"})
POSITIVE = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"a": "g @ a", "b": "inv(g) @ b"})
MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})


def show(rows: list[Row]) -> list[Row]:
    print(f"   {'':<76} {'predicted':>10} {'measured':>12}")
    for what, predicted, measured in rows:
        expected = "-" if predicted != predicted else f"{predicted:.5g}"
        print(f"   {what:<76} {expected:>10} {measured:>12.5g}", flush=True)
    return rows


def volumes() -> list[Row]:
    """Spheres, and all frames of two vectors in four dimensions."""
    print("1. volumes of whole orbits")
    rows = []
    for n in (2, 3, 4):
        space = qx.quotient(square.at(n=n), TURN, metric="euclidean")
        found = qx.orbit_volume(space, {"w": 2.0 * jnp.eye(n)[0]})
        area = 2 * math.pi ** (n / 2) / math.gamma(n / 2) * 2 ** (n - 1)
        rows.append((f"sphere of radius 2 in {n} dimensions", area, math.exp(found.log_volume)))
    return show(rows)


def evidence() -> tuple[list[Row], dict[str, Any]]:
    """A ring, and the product of two numbers with a flat and with a Gaussian prior."""
    print("\n2. the logarithm of the evidence around an orbit, against integrals by quadrature")
    rows: list[Row] = []
    n, beta = 4, 200.0
    space = qx.quotient(square.at(n=n), TURN, metric="euclidean")
    ring = lambda p: beta * (jnp.sum(p["w"] ** 2) - 1) ** 2
    found = qx.laplace_evidence(ring, {"w": jnp.eye(n)[0]}, space)
    area = 2 * math.pi ** (n / 2) / math.gamma(n / 2)
    exact = math.log(area * quad(lambda r: r ** (n - 1) * math.exp(-beta * (r * r - 1) ** 2), 0, 2, points=[1])[0])
    rows.append(("flat prior, a sphere in four dimensions", exact, found.value))
    damping = np.logspace(-6, 2, 60)
    naive = np.array([found.naive(each) for each in damping])
    rows += [(f"   the formula without a quotient, damping {d:g}", exact, found.naive(d)) for d in (1e-4, 1.0)]
    space = qx.quotient(product.at(h=1), SCALE, metric="invariant")
    N = 1e5
    loss = lambda p: N / 2 * (jnp.vdot(p["a"], p["b"]) - 1) ** 2
    flat = qx.laplace_evidence(loss, {"a": jnp.ones(1), "b": jnp.ones(1)}, space)
    rows.append((f"flat prior, the product of two numbers: {flat.status}", math.inf, flat.value))
    for alpha in (2.0, 8.0, 32.0):
        point = jnp.full(1, math.sqrt(1 - alpha / N))
        found = qx.laplace_evidence(loss, {"a": point, "b": point}, space, prior_precision=alpha)
        density = lambda u, alpha=alpha: alpha / math.pi * k0(alpha * u) * math.exp(-N / 2 * (u - 1) ** 2)
        known = math.log(quad(density, 0.97, 1.03, points=[1.0])[0])
        rows.append(
            (
                f"Gaussian prior of precision {alpha:g}: what Laplace's formula is off by",
                1 / (8 * alpha),
                found.value - known,
            )
        )
    return show(rows), {"damping": damping, "naive": naive, "exact": exact}


def wells(p: Any) -> Any:
    """Two minima of loss zero that curve alike, at radius 1 and 2."""
    r = jnp.sqrt(jnp.sum(p["w"] ** 2))
    return 8 * ((r - 1) * (r - 2)) ** 2


def noise(quick: bool) -> tuple[list[Row], dict[str, Any]]:
    """Where noise goes: the radius with a spring, two wells of equal loss, and the law of an invariant metric."""
    print(
        "\n3. Langevin's diffusion on the quotient: laws, and two minima of equal loss with orbits of different volume"
    )
    rows: list[Row] = []
    length = lambda p: jnp.sqrt(jnp.sum(p["w"] ** 2))
    space, n, T = qx.quotient(square.at(n=3), TURN, metric="euclidean"), 3, 0.5
    start = {"w": 1.5 * jnp.eye(3)[0]}
    spring = lambda p: jnp.sum(p["w"] ** 2) / 2
    settings: Any = {"chains": 100, "every": 200, "burn": 2, "observe": length}
    for volume, law in ((None, chi(1)), ("noise", chi(3)), ("drift", chi(3))):
        if quick and volume == "drift":
            continue
        settings["every"], step = (200, 0.02) if quick else (400, 0.01)
        run = qx.langevin(space, spring, start, 1.0, step, 1000 if quick else 12000, 1, volume=volume, **settings)
        rows.append(
            (f"spring, volume={volume}: mean square of the radius", law.moment(2), float((run.values**2).mean()))
        )
        rows.append(
            ("   p-value of Kolmogorov and Smirnov (above 0.01)", NOTHING, kstest(run.values.ravel(), law.cdf).pvalue)
        )
    curves = {}
    radii = np.linspace(1e-3, 3.2, 400)
    weight = lambda r, power: r**power * np.exp(-8 * ((r - 1) * (r - 2)) ** 2 / T)
    for volume, power in ((None, 0), ("noise", n - 1)):
        run = qx.langevin(space, wells, start, T, 0.005, 4000 if quick else 40000, 2, volume=volume, **settings)
        whole = quad(weight, 0, 5, (power,))[0]
        share = quad(weight, 1.5, 5, (power,))[0] / whole
        curves[volume] = (run.values.ravel(), radii, weight(radii, power) / whole)
        rows.append((f"two wells, volume={volume}: share of the larger orbit", share, float((run.values > 1.5).mean())))
    both = [qx.orbit_volume(space, {"w": r * jnp.eye(3)[0]}).log_volume for r in (1.0, 2.0)]
    print(f"   the larger orbit has {math.exp(both[1] - both[0]):.4g} times the volume: what the odds go to at T = 0")
    scaled = qx.quotient(product.at(h=1), POSITIVE, metric="invariant")
    value = lambda p: jnp.vdot(p["a"], p["b"])
    far = {"a": jnp.full(1, 3.0), "b": jnp.full(1, 0.3)}
    run = qx.langevin(
        scaled, value, far, 1.0, 0.01, 900 if quick else 4000, 0, chains=100, every=300, burn=2, observe=value
    )
    rows.append(("a b with the loss a b, invariant metric: mean (law Gamma(1/2))", 0.5, float(run.values.mean())))
    rows.append(
        (
            "   p-value of Kolmogorov and Smirnov (above 0.01)",
            NOTHING,
            kstest(run.values.ravel(), gamma(0.5).cdf).pvalue,
        )
    )
    return show(rows), curves


def counting(quick: bool) -> tuple[list[Row], dict[str, Any]]:
    """The best bound of the learning coefficient over points of the set of minima, against the closed form."""
    n, h = (4, 2) if quick else (8, 4)
    print(f"\n4. learning coefficients of two matrices, widths {n}, {h}, {n}: the best bound, and the closed form")
    with warnings.catch_warnings():  # dimensions are the same in every metric
        warnings.simplefilter("ignore", qx.MetricWarning)
        space = qx.quotient(two.at(x=n, h=h, y=n), MIX, metric="euclidean")
    rows, known, best, generic = [], [], [], []
    ones = lambda *places: np.diag([float(place) for place in places])
    for r in range(h + 1):
        exact = qx.deep_linear_learning_coefficient([n, h, n], r).value
        truth = ones(*[1] * r, *[0] * (n - r))
        loss = lambda p, truth=truth: jnp.sum((p["B"] @ p["A"] - truth) ** 2)
        bounds = {}
        for a, b in itertools.product(range(h - r + 1), repeat=2):  # ranks that the factors need not have
            if a + b > h - r:
                continue
            A, B = np.zeros((h, n)), np.zeros((n, h))
            A[:, :h] = ones(*[1] * (r + a), *[0] * (h - r - a))
            B[:h] = ones(*[1] * r, *[0] * (h - r - b), *[1] * b)
            bounds[a, b] = qx.learning_coefficient_bound(space, {"A": jnp.asarray(A), "B": jnp.asarray(B)}, loss)
        least = min(bounds.values(), key=lambda bound: bound.upper)
        rows.append((f"rank {r}: the best bound, where the orbit has {least.orbit} dimensions", exact, least.upper))
        known.append(exact)
        best.append(least.upper)
        generic.append(bounds[h - r, 0].from_orbit)
    return show(rows), {"known": known, "best": best, "generic": generic, "d": 2 * n * h}


def figure(naive: dict[str, Any], radii: dict[str, Any], counted: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(1, 3, figsize=(14, 4), layout="constrained")
    axes[0].semilogx(naive["damping"], naive["naive"], label="Laplace's formula at one point")
    axes[0].axhline(naive["exact"], color="k", ls="--", label="exact, and the quotient's formula")
    axes[0].set(xlabel="damping of the singular Hessian", ylabel="log evidence")
    axes[0].legend()
    names = {None: "horizontal noise", "noise": "noise in all parameters"}
    for color, (volume, (values, grid, density)) in zip(("C0", "C1"), radii.items(), strict=True):
        axes[1].hist(values, 60, range=(0, 3.2), density=True, alpha=0.4, color=color, label=names[volume])
        axes[1].plot(grid, density, color=color)
    axes[1].set(xlabel="radius: minima of equal loss at 1 and 2", ylabel="density (curves: predicted)")
    axes[1].legend()
    ranks = np.arange(len(counted["known"]))
    axes[2].axhline(counted["d"] / 2, color="0.6", ls=":", label="half the parameters")
    axes[2].plot(ranks, counted["generic"], "s-", label="half the parameters less the largest orbit")
    axes[2].plot(ranks, counted["best"], "^-", label="the best bound over points")
    axes[2].plot(ranks, counted["known"], "o--", color="k", mfc="none", label="closed form")
    axes[2].set(
        xticks=ranks, xlabel="rank of the truth", ylabel="learning coefficient", ylim=(0, 1.25 * counted["d"] / 2)
    )
    axes[2].legend(fontsize=8)
    drawing.savefig(folder / "landscape_volume.png", dpi=110)
    pyplot.close(drawing)


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="some seconds, smaller")
    parser.add_argument("--figures", type=Path, default=ASSETS, help="where the figure is saved")
    options = parser.parse_args(arguments)
    with jax.enable_x64(True):
        first = volumes()
        second, naive = evidence()
        third, radii = noise(options.quick)
        fourth, counted = counting(options.quick)
    figure(naive, radii, counted, options.figures)
    return [*first, *second, *third, *fourth]


if __name__ == "__main__":
    main()
