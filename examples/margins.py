"""Margins along training, and which complexity measures are functions on the quotient.

    python examples/margins.py            some minutes
    python examples/margins.py --quick    a few seconds

What is proved, and what is predicted beside what is measured; a figure is saved in `docs/assets` (`--figures DIR`
puts it elsewhere).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize, nnls
from sklearn.datasets import load_digits

import quotax as qx

ASSETS = Path(__file__).parents[1] / "docs" / "assets"

Row = tuple[str, float, float]
"""What, predicted, measured."""

NOTHING = float("nan")
"""Where nothing is predicted."""


@qx.architecture(params={"W1": "h x", "W2": "k h", "W3": "y k"}, inputs={"x": "x"})
def relu(p, x):
    return p["W3"] @ jax.nn.relu(p["W2"] @ jax.nn.relu(p["W1"] @ x))


@qx.architecture(params={"W1": "h x", "W2": "k h", "W3": "y k"}, inputs={"x": "x"})
def linear(p, x):
    return p["W3"] @ (p["W2"] @ (p["W1"] @ x))


@qx.architecture(params={"W": "h x", "a": "h"}, inputs={"x": "x"})
def shallow(p, x):
    return p["a"] @ jax.nn.relu(p["W"] @ x)


RESCALE = qx.Symmetry("rescale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
PERMUTE = qx.Symmetry("permute", qx.Permutation("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
ROTATE = qx.Symmetry("rotate", qx.O("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
MIX = qx.Symmetry("mix", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
NEURONS = qx.Symmetry("neurons", qx.PositiveDiagonal("h"), {"W": "g @ W", "a": "a @ inv(g)"})


def show(rows: list[Row]) -> list[Row]:
    print(f"   {'':<72} {'predicted':>10} {'measured':>12}")
    for what, predicted, measured in rows:
        expected = "-" if predicted != predicted else f"{predicted:.5g}"
        print(f"   {what:<72} {expected:>10} {measured:>12.5g}", flush=True)
    return rows


def tables(quick: bool) -> list[qx.InvarianceTable]:
    """Measures against symmetries, of a ReLU network and of a linear one."""
    print("1. which measures are functions on the quotient: proved, or two values on one orbit")
    few = ["l2 norm", "path norm", "product of spectral norms", "Fisher-Rao norm"] if quick else None
    found = [qx.invariance_table(relu, [RESCALE, PERMUTE], few), qx.invariance_table(linear, [ROTATE, MIX], few)]
    for table in found:
        print(f"{table}\n   on the quotient: {', '.join(table.on_quotient)}\n")
    return found


# --- a linear classifier


def support(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vector of least length with margin one at all points (times their signs), and its multipliers."""
    found = minimize(
        lambda w: 0.5 * w @ w, points.mean(0), jac=lambda w: w, method="SLSQP", options={"ftol": 1e-15, "maxiter": 500},
        constraints={"type": "ineq", "fun": lambda w: points @ w - 1, "jac": lambda w: points},
    )  # fmt: skip
    tight = np.flatnonzero(points @ found.x < 1 + 1e-7)
    multipliers = np.zeros(len(points))
    multipliers[tight] = nnls(points[tight].T, found.x)[0]
    return found.x, multipliers


def separable(quick: bool) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Gradient descent on the logistic loss of separable points, against the vector of the largest margin.

    Soudry and others (2018): w(t) = w^ log t + w~ + o(1), where eta exp(-x_n . w~) is the multiplier of every support
    vector. So the direction is off by |w~ across w^| / (|w^| log t), and the margin by as much, not faster.
    """
    rng = np.random.default_rng(0)
    signs = np.repeat([-1.0, 1.0], 8)
    data = rng.standard_normal((16, 2)) + 1.6 * signs[:, None] * np.array([1.0, 0.4])
    points = jnp.asarray(data * signs[:, None])
    best, multipliers = support(np.asarray(points))
    eta = 1.0 / float(jnp.linalg.norm(points, 2) ** 2)
    held = multipliers > 1e-9
    rest = np.linalg.lstsq(np.asarray(points)[held], -np.log(multipliers[held] / eta), rcond=None)[0]
    times = np.unique(np.logspace(1, 5 if quick else 6.5, 9 if quick else 40).astype(int))

    @jax.jit
    def run(w: Any, steps: Any) -> Any:
        slope = lambda w: -(jax.nn.sigmoid(-points @ w) @ points)
        return jax.lax.fori_loop(0, steps, lambda _, w: w - eta * slope(w), w)

    w, seen, before = jnp.zeros(2), [], 0
    for t in times:
        w, before = run(w, t - before), int(t)
        seen.append(np.asarray(w))
    seen = np.asarray(seen)
    unit = lambda a: a / np.linalg.norm(a, axis=-1, keepdims=True)
    off = np.linalg.norm(unit(seen) - unit(best), axis=1)
    predicted = np.linalg.norm(unit(best * np.log(times)[:, None] + rest) - unit(best), axis=1)
    net = lambda p, x: p @ x
    margins = np.array(
        [qx.margins(net, jnp.asarray(v), jnp.asarray(data), jnp.asarray(signs)).normalised for v in seen]
    )
    print("2. gradient descent on separable points: the direction goes to the largest margin, at the rate 1/log t")
    slope = np.polyfit(np.log(times[-4:]), np.linalg.norm(seen[-4:], axis=1), 1)[0]
    rows = [
        (f"margin over |w| after {times[-1]:,} steps, and the largest there is", 1 / np.linalg.norm(best), margins[-1]),
        ("growth of |w| with log t", np.linalg.norm(best), slope),
        (f"direction off by, after {times[-1]:,} steps", predicted[-1], off[-1]),
        ("w - w^ log t, first entry", rest[0], (seen[-1] - best * np.log(times[-1]))[0]),
        ("second entry", rest[1], (seen[-1] - best * np.log(times[-1]))[1]),
    ]
    curves = {"times": times, "off": off, "predicted": predicted, "margins": margins, "best": 1 / np.linalg.norm(best)}
    return show(rows), curves


# --- a network


def network(quick: bool) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Two starts of one function: margins over |theta|^2 differ, those on the quotient are the same."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((40, 3))
    signs = np.sign(inputs[:, 0] * inputs[:, 1])
    inputs += 0.3 * np.stack([np.sign(inputs[:, 0]), np.sign(inputs[:, 1]), 0 * signs], 1)
    x, y = jnp.asarray(inputs), jnp.asarray(signs)
    net = shallow.at(x=3, h=24)
    space = qx.quotient(net, NEURONS, metric="invariant")
    start = net.init(jax.random.key(0))
    moved = space.act(start, space.random_element(jax.random.key(1), scale=0.7))
    times = np.unique(np.logspace(0, 3 if quick else 4.5, 6 if quick else 24).astype(int))
    loss = lambda p: jnp.sum(jax.nn.softplus(-y * jax.vmap(lambda row: net(p, row))(x)))

    @jax.jit
    def run(p: Any, steps: Any) -> Any:
        # Steps over the loss itself follow the same path, where plain ones would take exponentially long.
        def step(_: Any, p: Any) -> Any:
            value, slope = jax.value_and_grad(loss)(p)
            rate = 0.02 / jnp.clip(value, 1e-250, 1.0) / sum(jnp.sum(a**2) for a in p.values())
            return jax.tree.map(lambda a, g: a - rate * g, p, slope)

        return jax.lax.fori_loop(0, steps, step, p)

    print("3. a network of two starts on one orbit, margins over |theta|^2 and over the least norm on the orbit")
    curves: dict[str, Any] = {"steps": times}
    for name, p in (("drawn", start), ("moved", moved)):
        found, before = [qx.margins(net, p, x, y, space)], 0
        for t in times:
            p, before = run(p, t - before), int(t)
            found.append(qx.margins(net, p, x, y, space))
        print(f"   {name}: {str(found[-1]).replace(chr(10), ', ')}")
        curves[name] = np.array([f.normalised for f in found])
        curves[f"{name} on the quotient"] = np.array([f.on_quotient for f in found])
    first = lambda name: float(curves[name][0])
    last = lambda name: float(curves[name][-1])
    share = first("moved on the quotient") / first("drawn on the quotient")
    rows = [
        ("at the start, on the quotient: moved over drawn", 1.0, share),
        ("at the start, over |theta|^2: moved over drawn", NOTHING, first("moved") / first("drawn")),
        ("at the end, over |theta|^2: drawn", NOTHING, last("drawn")),
        ("at the end, over |theta|^2: moved", NOTHING, last("moved")),
        ("at the end, on the quotient: drawn", NOTHING, last("drawn on the quotient")),
        ("at the end, on the quotient: moved", NOTHING, last("moved on the quotient")),
    ]
    return show(rows), curves


# --- digits


def digits(quick: bool) -> tuple[list[Row], dict[str, np.ndarray]]:
    """True and random labels: the spectral complexity over margin and number of examples."""
    import optax

    images, count = load_digits(), 200 if quick else 1000
    x = jnp.asarray(images.data[:count] / 16)
    labels = {"true": jnp.asarray(images.target[:count])}
    labels["random"] = jnp.asarray(np.random.default_rng(0).permutation(images.target[:count]))
    net = relu.at(x=64, h=64 if quick else 256, k=64 if quick else 256, y=10)
    optimiser = optax.adam(2e-3)
    curves, rows = {}, []
    print("4. digits with true and with random labels, trained until all are told apart")
    for name, y in labels.items():
        p = net.init(jax.random.key(0))
        state = optimiser.init(p)

        @jax.jit
        def train(p: Any, state: Any, y: Any) -> Any:
            def loss(p: Any) -> Any:
                outputs = jax.vmap(lambda row: net(p, row))(x)
                return -jnp.mean(jax.nn.log_softmax(outputs)[jnp.arange(count), y])

            def step(_: Any, carried: Any) -> Any:
                p, state = carried
                updates, state = optimiser.update(jax.grad(loss)(p), state)
                return optax.apply_updates(p, updates), state

            return jax.lax.fori_loop(0, 50, step, (p, state))

        spent = 0
        while qx.margins(net, p, x, y).smallest <= 0 and spent < 2000:
            p, state = train(p, state, y)
            spent += 50
        bound = qx.margin_bound(net, p, x, y)
        print(f"   {name} labels, {spent} steps: {bound}")
        curves[f"{name} labels"] = bound.normalised
        size = bound.data_norm * bound.complexity / (bound.margin * count)
        rows.append((f"|X| R_A / (gamma n), {name} labels", NOTHING, size))
    return show(rows), curves


def figure(line: dict[str, Any], net: dict[str, Any], labels: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(1, 3, figsize=(14, 4), layout="constrained")
    logs = np.log10(line["times"])
    axes[0].plot(logs, line["off"], "o", ms=4, label="measured")
    axes[0].plot(logs, line["predicted"], "-", label="$\\hat w \\log t + \\tilde w$")
    axes[0].set(xlabel="log10 of steps", ylabel="direction off from the largest margin's", ylim=(0, 1))
    axes[0].legend()
    steps = np.concatenate([[0.5], net["steps"]])
    for name, color in (("drawn", "C0"), ("moved", "C1")):
        axes[1].semilogx(steps, net[name], "--", color=color, label=f"{name}: over $|\\theta|^2$")
        axes[1].semilogx(steps, net[f"{name} on the quotient"], "-", color=color, label=f"{name}: on the quotient")
    axes[1].axhline(0, color="grey", lw=0.5)
    axes[1].set(xlabel="steps", ylabel="normalised margin")
    axes[1].legend()
    for name, margins in labels.items():
        axes[2].hist(np.log10(margins[margins > 0]), 40, density=True, histtype="step", label=name)
    axes[2].set(xlabel="log10 of margin n / (|X| R_A)", ylabel="density of examples")
    axes[2].legend()
    drawing.savefig(folder / "margins.png", dpi=110)
    pyplot.close(drawing)


def main(arguments: list[str] | None = None) -> tuple[list[qx.InvarianceTable], list[Row]]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, smaller")
    parser.add_argument("--figures", type=Path, default=ASSETS, help="where the figure is saved")
    options = parser.parse_args(arguments)
    found = tables(options.quick)
    with jax.enable_x64(True):
        rows, line = separable(options.quick)
        more, net = network(options.quick)
    last, labels = digits(options.quick)
    figure(line, net, labels, options.figures)
    return found, [*rows, *more, *last]


if __name__ == "__main__":
    main()
