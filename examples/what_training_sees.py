"""Function space: how fast errors decay, and how far a test set's minimum is; predictions beside measurements.

    python examples/what_training_sees.py            about five minutes on two free cores
    python examples/what_training_sees.py --quick    a few seconds, smaller

Two parts, and two figures in `docs/assets` (`--figures DIR` puts them elsewhere):

1. The tangent kernel predicts e^(-lambda t) for every error mode. Networks of growing width are trained on handwritten
   digits. With outputs scaled by 1/sqrt(width) the prediction gets better with width; with 1/width (where features
   are learned) it does not.
2. From minima of one network that differ in sharpness: the least horizontal step to a minimum of the loss on digits
   that were not trained on. Is it longer where the minimum is sharper? Rank correlations, with bootstrap intervals.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import quotax as qx

ASSETS = Path(__file__).parents[1] / "docs" / "assets"


def digits(count: int, classes: int, key: int, coarse: bool = False) -> tuple[jax.Array, jax.Array]:
    """Pictures of length one, flat, and their classes as 0 and 1."""
    data = load_digits()
    chosen = np.random.default_rng(key).permutation(np.flatnonzero(data.target < classes))[:count]
    images = data.images[chosen]
    if coarse:
        images = images.reshape(-1, 4, 2, 4, 2).mean((2, 4))
    flat = images.reshape(count, -1)
    flat = flat / np.linalg.norm(flat, axis=1, keepdims=True)
    return jnp.asarray(flat), jax.nn.one_hot(data.target[chosen], classes, dtype=float)


# --- 1. error modes


def scaled(power: float) -> Callable[..., Any]:
    """A network of one hidden layer whose output is divided by a power of its width."""

    def network(p: Any, x: Any) -> Any:
        return p["a"] @ jnp.tanh(p["W"] @ x) / p["a"].shape[0] ** power

    return network


def decay(width: int, power: float, quick: bool) -> dict[str, Any]:
    """Measured and predicted error modes of one network, and how much the kernel changes meanwhile."""
    net = scaled(power)
    inputs, classes = digits(12 if quick else 40, 2, 0)
    targets = 2 * classes[:, 0] - 1
    first, second = jax.random.split(jax.random.key(width))
    params = {"W": jax.random.normal(first, (width, 64)), "a": jax.random.normal(second, (width,))}
    errors = jax.jit(lambda p: jax.vmap(net, (None, 0))(p, inputs) - targets)
    kernel = qx.tangent_kernel(net, params, inputs)
    modes = kernel.modes()
    steps, ends = (40, 3.0) if quick else (400, 10.0)
    size = ends / steps / modes.values[1]  # the second mode falls to e^-3 (e^-10): the first is the mean, and soon gone
    step = flow(lambda p: jnp.sum(errors(p) ** 2) / 2, size)
    times, found, p = [], [], params
    for k in range(steps + 1):
        if k % (steps // 20) == 0:
            times.append(k * size)
            found.append(np.asarray(errors(p)))
        p = step(p)
    predicted = kernel.decay(errors(params), times)
    start = float(np.linalg.norm(predicted[0]))
    after = qx.tangent_kernel(net, p, inputs).matrix
    return {
        "times": np.asarray(times) * modes.values[1],
        "measured": np.stack([np.abs(modes.of(e)) for e in found]) / start,
        "predicted": np.stack([np.abs(modes.of(e)) for e in predicted]) / start,
        "error": max(float(np.linalg.norm(a - b)) for a, b in zip(found, predicted, strict=True)) / start,
        "change": float(np.linalg.norm(after - kernel.matrix) / np.linalg.norm(kernel.matrix)),
    }


def flow(loss: Callable[[Any], Any], time: float) -> Callable[[Any], Any]:
    """Gradient flow for a time, by one step of Runge and Kutta's rule of order four."""
    slope, add = jax.grad(loss), lambda p, t, v: jax.tree.map(lambda a, b: a - t * b, p, v)

    @jax.jit
    def step(p: Any) -> Any:
        a = slope(p)
        b = slope(add(p, time / 2, a))
        c = slope(add(p, time / 2, b))
        d = slope(add(p, time, c))
        return jax.tree.map(lambda p, a, b, c, d: p - time / 6 * (a + 2 * b + 2 * c + d), p, a, b, c, d)

    return step


def error_modes(quick: bool) -> dict[tuple[float, int], dict[str, Any]]:
    widths = (16, 256) if quick else (16, 64, 256, 1024, 4096)
    print("1. error modes: e^(-lambda t) against gradient flow")
    print(f"   {'outputs / width^':>16} {'width':>6} {'largest error of the prediction':>32} {'change of K':>12}")
    results = {}
    for power in (0.5, 1.0):
        for width in widths:
            r = results[power, width] = decay(width, power, quick)
            print(f"   {power:>16} {width:>6} {r['error']:>32.4f} {r['change']:>12.4f}", flush=True)
        series = [results[power, width] for width in widths]
        slope = lambda what, series=series: np.polyfit(np.log(widths), np.log([r[what] for r in series]), 1)[0]
        print(
            f"   error ~ width^{slope('error'):.2f}, change ~ width^{slope('change'):.2f}"
            + (" (proved: at most -0.5; perturbation theory: -1)" * (power == 0.5))
        )
    return results


# --- 2. minima and the way to the test set's


@qx.architecture(params={"Wg": "h x", "Wu": "h x", "Wd": "y h"}, inputs={"x": "x"})
def gated(p, x):
    return p["Wd"] @ (jax.nn.silu(p["Wg"] @ x) * (p["Wu"] @ x))


SCALE = qx.Symmetry("scale", qx.Diagonal("h"), {"Wu": "g @ Wu", "Wd": "Wd @ inv(g)"})


def minimum(net: Any, train: Any, key: int, scale: float, steps: int) -> tuple[Any, float]:
    """Trained by Adam from weights of a size; the loss that is left."""
    params = jax.tree.map(lambda a: scale * a, net.init(jax.random.key(key)))
    loss = lambda p: jnp.mean((jax.vmap(net, (None, 0))(p, train[0]) - train[1]) ** 2)
    rule = optax.adam(optax.cosine_decay_schedule(0.03, steps))

    @jax.jit
    def run(params):
        def one(carry, _):
            p, state = carry
            change, state = rule.update(jax.grad(loss)(p), state)
            return (optax.apply_updates(p, change), state), None

        return jax.lax.scan(one, (params, rule.init(params)), None, length=steps)[0][0]

    params = run(params)
    return params, float(loss(params))


def correlation(x: np.ndarray, y: np.ndarray, draws: int = 2000) -> tuple[float, float, float]:
    """Spearman's rank correlation with the middle 95 % of bootstrap samples."""
    rank = lambda v: np.argsort(np.argsort(v)).astype(float)
    rho = lambda a, b: float(np.corrcoef(rank(a), rank(b))[0, 1])
    rng = np.random.default_rng(0)
    samples = [rng.integers(0, len(x), len(x)) for _ in range(draws)]
    spread = [rho(x[s], y[s]) for s in samples if len(set(s.tolist())) > 2]
    return rho(x, y), *(float(v) for v in np.quantile(spread, [0.025, 0.975]))


def minima(quick: bool) -> dict[str, np.ndarray]:
    classes = 3 if quick else 10
    inputs, targets = digits(50 if quick else 120, classes, 1, coarse=quick)
    cut = 40 if quick else 100
    train, test = (inputs[:cut], targets[:cut]), (inputs[cut:], targets[cut:])
    net = gated.at(x=inputs.shape[1], h=8 if quick else 24, y=classes)
    space = qx.quotient(net, [SCALE], metric="invariant")
    loss = lambda p, batch: jnp.mean((jax.vmap(net, (None, 0))(p, batch[0]) - batch[1]) ** 2)
    scales = (0.5, 1.0, 2.0) if quick else np.geomspace(0.3, 3.0, 24)
    print(f"\n2. minima of {net}, {cut} training and {len(test[0])} test digits, invariant metric")
    print(
        f"   {'weights at start':>16} {'train loss':>10} {'test loss':>9} {'lambda_max':>10} {'least angle':>11} ",
        end="",
    )
    print(f"{'first order':>11} {'least step':>10} {'test loss after':>15}")
    rows = []
    for i, scale in enumerate(scales):
        params, left = minimum(net, train, i, float(scale), 300 if quick else 3000)
        sharp = qx.spectrum(loss, params, 1, which="top", space=space, batch=train).values[0]
        way = qx.transversality(net, params, train, test, space, iterations=15 if quick else 60)
        row = (left, way.losses[0], sharp, np.degrees(way.angles[0]), way.first_order_length, way.length, way.losses[2])
        rows.append(row)
        print(
            f"   {scale:>16.3g} {row[0]:>10.2e} {row[1]:>9.4f} {row[2]:>10.4g} {row[3]:>11.3g} {row[4]:>11.4f} ", end=""
        )
        print(f"{row[5]:>10.4f} {row[6]:>15.2e}", flush=True)
    names = ("train loss", "test loss", "lambda_max", "least angle", "first order", "least step", "after")
    table = dict(zip(names, np.asarray(rows).T, strict=True))
    for first, second in (
        ("lambda_max", "least step"),
        ("lambda_max", "first order"),
        ("lambda_max", "test loss"),
        ("least step", "test loss"),
    ):
        rho, low, high = correlation(table[first], table[second])
        print(f"   rank correlation of {first} and {second}: {rho:+.2f} (95 % of samples: {low:+.2f} to {high:+.2f})")
    return table


# --- figures


def figures(modes: dict[tuple[float, int], dict[str, Any]], table: dict[str, np.ndarray], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    widths = sorted({width for _, width in modes})
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axis, (power, width) in zip(axes, ((0.5, widths[0]), (0.5, widths[-1])), strict=False):
        r = modes[power, width]
        for k, colour in enumerate(("C0", "C1", "C2")):
            axis.semilogy(r["times"], r["measured"][:, k], "o", color=colour, ms=4, label=f"mode {k + 1}, measured")
            axis.semilogy(r["times"], r["predicted"][:, k], "-", color=colour, label=r"$e^{-\lambda t}$")
        axis.set(title=f"width {width}, outputs / sqrt(width)", xlabel=r"$\lambda_2 t$", ylabel="error / first error")
        axis.set_ylim(1e-4, 2)
    axes[0].legend(fontsize=8)
    for power, mark in ((0.5, "o-"), (1.0, "s--")):
        errors = [modes[power, width]["error"] for width in widths]
        axes[2].loglog(widths, errors, mark, label=f"outputs / width^{power:g}")
    for rate, line in ((-0.5, ":"), (-1.0, "-.")):
        reference = modes[0.5, widths[0]]["error"] * (np.asarray(widths) / widths[0]) ** rate
        axes[2].loglog(widths, reference, line, color="grey", label=f"width^{rate:g}")
    axes[2].set(title="largest error of the prediction", xlabel="width")
    axes[2].legend(fontsize=8)
    figure.savefig(folder / "error_modes.png", dpi=110)
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axis, (x, y) in zip(
        axes, (("lambda_max", "least step"), ("lambda_max", "test loss"), ("least step", "test loss")), strict=True
    ):
        axis.plot(table[x], table[y], "o")
        rho, low, high = correlation(table[x], table[y])
        axis.set(xlabel=x, ylabel=y, title=f"rank correlation {rho:+.2f} [{low:+.2f}, {high:+.2f}]")
        axis.set_xscale("log" if x == "lambda_max" else "linear")
    figure.savefig(folder / "minima.png", dpi=110)
    pyplot.close("all")


def main(arguments: list[str] | None = None) -> tuple[dict[tuple[float, int], dict[str, Any]], dict[str, np.ndarray]]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, smaller")
    parser.add_argument("--figures", type=Path, default=ASSETS, help="where figures are saved")
    options = parser.parse_args(arguments)
    with jax.enable_x64(True):
        modes, table = error_modes(options.quick), minima(options.quick)
    figures(modes, table, options.figures)
    return modes, table


if __name__ == "__main__":
    main()
