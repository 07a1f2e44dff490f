"""Steps of finite size: the flow that training follows, the charges it breaks, and what early stopping learns.

    python examples/finite_steps.py            about a minute
    python examples/finite_steps.py --quick    some seconds

Predicted is printed beside measured; a figure is saved in `docs/assets` (`--figures DIR` puts it elsewhere).
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_digits

import quotax as qx

ASSETS = Path(__file__).parents[1] / "docs" / "assets"

Row = tuple[str, float, float]
"""What, predicted, measured."""

NOTHING = float("nan")
"""Where nothing is predicted."""


@qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})
def two(p, x):
    return p["B"] @ (p["A"] @ x)


MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})


def show(rows: list[Row]) -> list[Row]:
    print(f"   {'':<72} {'predicted':>10} {'measured':>12}")
    for what, predicted, measured in rows:
        expected = "-" if predicted != predicted else f"{predicted:.5g}"
        print(f"   {what:<72} {expected:>10} {measured:>12.5g}", flush=True)
    return rows


def task(n: int = 20) -> tuple[Any, Any, Any, Any]:
    """A linear network of two layers, a start, examples and targets."""
    net = two.at(x=4, h=3, y=2)
    params = net.init(jax.random.key(0))
    inputs, targets = (jax.random.normal(jax.random.key(k), (n, d)) for k, d in ((1, 4), (2, 2)))
    return net, params, inputs, targets


def orders() -> tuple[list[Row], dict[str, Any]]:
    """How far training is from the flow of each order after a fixed time, as steps are halved."""
    print("1. training after time 1 beside the flow that it follows, to more and more terms")
    net, params, x, y = task()
    loss = lambda p: jnp.mean((jax.vmap(lambda row: net(p, row))(x) - y) ** 2)
    away = lambda p, q: float(jnp.sqrt(sum(jnp.sum((p[name] - q[name]) ** 2) for name in p)))
    etas, rows, curves = np.array([0.1, 0.05, 0.025]), [], {}
    for name, scheme in (("gradient descent", qx.gradient_descent()), ("heavy ball 0.5", qx.heavy_ball(0.5))):
        for order in range(3):
            flow, errors = qx.modified_flow(scheme, order), []
            for eta in etas:
                start, end = (scheme.run(loss, params, eta, round(t / eta)) for t in (2, 3))
                errors.append(away(flow.run(loss, start, eta, 1.0, 100), end))
            slope = np.polyfit(np.log(etas), np.log(errors), 1)[0]
            rows.append((f"{name}, flow of order {order}: power of the step", order + 1.0, slope))
            curves[f"{name}, order {order}"] = np.array(errors)
    return show(rows + batches(net, params, x, y)), {"etas": etas, **curves}


def batches(net: Any, params: Any, x: Any, y: Any) -> list[Row]:
    """The mean of an epoch over all orders of four batches, beside the flow that says so."""
    loss = lambda p, rows: jnp.mean((jax.vmap(lambda row: net(p, row))(rows[0]) - rows[1]) ** 2)
    found, rows = qx.mini_batches(loss, (x, y), 5), []
    dealt = [(x[k : k + 5], y[k : k + 5]) for k in range(0, 20, 5)]
    slope, away = jax.jit(jax.grad(loss)), lambda p, q: float(jnp.linalg.norm(p["A"] - q["A"]))
    gaps = []
    for eta in (0.004, 0.002):
        ends = []
        for order in itertools.permutations(dealt):
            p = params
            for batch in order:
                p = jax.tree.map(lambda a, g, eta=eta: a - eta * g, p, slope(p, batch))
            ends.append(p)
        mean = jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *ends)
        plain = qx.modified_flow().run(lambda p: loss(p, (x, y)), params, eta, 4 * eta)
        gaps.append([away(found.run(params, eta, 4 * eta), mean), away(plain, mean)])
    powers = np.log2(np.divide(*gaps))
    rows.append(("mean epoch of 4 shuffled batches from its flow: power of the step", 3.0, float(powers[0])))
    rows.append(("  from the flow of whole batches: power of the step", 2.0, float(powers[1])))
    return rows


def broken(quick: bool) -> tuple[list[Row], dict[str, np.ndarray]]:
    """The charge A A^T - B^T B along training: predicted from gradients, measured from weights."""
    print("\n2. the charge A A^T - B^T B of a linear network, which gradient flow keeps")
    net, params, x, y = task(24)
    space = qx.quotient(net, MIX, metric="invariant")
    squares = lambda p, x, y: jnp.mean((jax.vmap(lambda row: net(p, row))(x) - y) ** 2)
    charge = lambda p: np.asarray(space.conserved(p)["mix"])
    quadratic = lambda p: p["A"] @ p["A"].T - p["B"].T @ p["B"]
    eta, steps = 0.1, 100 if quick else 600

    @jax.jit
    def descend(p: Any) -> Any:
        def step(p: Any, _: Any) -> Any:
            g = jax.grad(squares)(p, x, y)
            return jax.tree.map(lambda a, b: a - eta * b, p, g), (quadratic(p), eta**2 * quadratic(g))

        return jax.lax.scan(step, p, None, steps)

    end, (seen, added) = descend(params)
    start, size = charge(params), np.linalg.norm
    predicted = np.asarray(start + np.cumsum(np.asarray(added), 0))
    rows = [("steps of gradient descent: change of the charge", size(predicted[-1] - start), size(charge(end) - start))]
    rates = qx.charge_rates(space, lambda p: squares(p, x, y), params, eta)
    once = jax.tree.map(lambda a, b: a - eta * b, params, jax.grad(squares)(params, x, y))
    rows.append(("in one step, from the rate", size(eta * rates.rates["mix"]), size(charge(once) - start)))

    heavy, settled, small = qx.heavy_ball(0.8), 200, 0.0005
    whole = lambda p: squares(p, x, y)
    here, later = (heavy.run(whole, params, small, settled + k) for k in (0, 2))
    middle = heavy.run(whole, params, small, settled + 1)
    rates = qx.charge_rates(space, whole, middle, small, heavy)
    measured = size((charge(later) - charge(here)) / (2 * small))
    rows.append(("momentum 0.8: rate of the charge, to second order", size(rates.next_order["mix"]), measured))
    plain = qx.charge_rates(space, whole, middle, small).rates["mix"]
    rows.append(("  over that of plain steps: (1 + b) / (1 - b)^3", 1.8 / 0.008, measured / size(plain)))

    few = qx.mini_batches(lambda p, rows: squares(p, *rows), (x, y), 4)
    mean = eta * qx.charge_rates(space, few, params, eta).rates["mix"]
    slopes = [jax.grad(squares)(params, x[k : k + 4], y[k : k + 4]) for k in range(0, 24, 4)]
    moved = [charge(jax.tree.map(lambda a, g: a - eta * g, params, g)) - start for g in slopes]
    rows.append(("mini-batches of 4: mean change in one step", size(mean), size(np.mean(moved, 0))))
    rows.append(("  over that of whole batches", NOTHING, size(np.mean(moved, 0)) / size(charge(once) - start)))

    decay, fine = 0.5, 0.01
    p = params
    slope = jax.jit(jax.grad(squares))
    for _ in range(100):
        p = jax.tree.map(lambda a, g: (1 - fine * decay) * a - fine * g, p, slope(p, x, y))
    left = size(charge(p)) / size(start)
    rows.append(("weight decay 0.5 for time 1: the charge over before", np.exp(-2 * decay), left))
    norms = lambda stack: np.linalg.norm(np.asarray(stack) - start, axis=(1, 2))
    return show(rows), {"measured": norms(seen)[1:], "predicted": norms(predicted)[:-1]}


def filters(quick: bool) -> list[Row]:
    """A linear model of digits: early stopping, momentum, weight decay; trained beside predicted."""
    print("\n3. what a linear model of digits has learned of every mode")
    digits, count = load_digits(), 100 if quick else 1000
    X, y = digits.data[:count] / 16, np.eye(10)[digits.target[:count]]
    rng = np.random.default_rng(0)
    start = 0.1 * rng.standard_normal((64, 10))
    top = np.linalg.norm(X, 2) ** 2 / count
    rows = []
    for name, beta, steps in (("gradient descent", 0.0, 300), ("momentum 0.9", 0.9, 300)):
        eta, now = 1 / top, start
        before = now
        for _ in range(steps):
            now, before = now + beta * (now - before) - eta * X.T @ (X @ now - y) / count, now
        scheme = qx.heavy_ball(beta) if beta else None
        off = np.abs(now - qx.filtered(X, y, qx.early_stopping(eta, steps, scheme), start)).max()
        rows.append((f"{name}, {steps} steps: largest error of a weight", 0.0, off))
    unseen = np.eye(64) - np.linalg.pinv(X) @ X
    rows.append(("the part of the start that no example sees: change", 0.0, np.abs(unseen @ (now - start)).max()))
    alpha = 0.01
    ridge = np.linalg.solve(X.T @ X / count + alpha * np.eye(64), X.T @ y / count)
    off = np.abs(ridge - qx.filtered(X, y, qx.weight_decay(alpha))).max()
    rows.append(("weight decay: largest error of a weight", 0.0, off))
    rows += near_a_minimum()
    values = np.logspace(-6, 6, 20001)
    gap = np.abs(qx.flow_until(1.0)(values) - qx.weight_decay(1.0)(values)).max()
    rows.append(("early stopping at t against decay 1/t: largest difference of the filters", 0.20362, gap))
    return show(rows)


def near_a_minimum() -> list[Row]:
    """The same filters at a minimum of a network: modes of the Hessian are learned, the orbit's directions are kept."""
    net, params, x, y = task()
    space = qx.quotient(net, MIX, metric="invariant")
    loss = lambda p: jnp.mean((jax.vmap(lambda row: net(p, row))(x) - y) ** 2)
    best = qx.gradient_descent().run(loss, params, 0.1, 20_000)
    inner = lambda a, b: float(sum(jnp.vdot(a[name], b[name]) for name in a))
    along = space.field(best, {"mix": jax.random.normal(jax.random.key(5), (3, 3))})
    rows, eta, steps = [], 0.1, 30
    for metric in ("euclidean", "invariant"):
        quotient = qx.quotient(net, MIX, metric=metric)
        modes = qx.spectrum(loss, best, k=8, space=quotient, ball="linear", which="top")
        step = jax.jit(lambda p, q=quotient: jax.tree.map(lambda a, g: a - eta * g, p, q.gradient(loss, p)))
        errors = []
        for size in (1e-4, 5e-5):
            start = jax.tree.map(lambda a, *v, size=size: a + size * sum(v), best, *modes.vectors, along)
            predicted, end = (
                qx.filtered_modes(loss, best, start, qx.early_stopping(eta, steps), modes, space=quotient),
                start,
            )
            for _ in range(steps):
                end = step(end)
            errors.append(np.abs(predicted.measured(end) - predicted.left).max() / size)
        rows += [
            (f"at a minimum, {metric} metric: error of what is left of a mode", 0.0, errors[1]),
            ("  over that at half of the distance", 2.0, errors[0] / errors[1]),
        ]
        if metric == "euclidean":
            off = jax.tree.map(lambda a, b, size=size: (a - b) / size, end, best)
            rows.append(("  what is left along the orbit", 1.0, inner(off, along) / inner(along, along)))
    return rows


def factorised(depth: int, goal: Any, seen: Any, quick: bool) -> tuple[Any, Any]:
    """A product of matrices trained on the entries that are seen: the matrices at the end, and products on the way."""
    eta, every, count, n = 0.1, 20 if quick else 50, 60 if quick else 200, len(goal)
    start = [jnp.eye(n) * 1e-3 ** (1 / depth) for _ in range(depth)]
    loss = lambda Ws: 0.5 * jnp.sum(jnp.where(seen, product(Ws) - goal, 0) ** 2)

    def product(Ws: Any) -> Any:
        found = Ws[0]
        for W in Ws[1:]:
            found = W @ found
        return found

    @jax.jit
    def run(Ws: Any) -> Any:
        step = lambda Ws, _: (jax.tree.map(lambda w, g: w - eta * g, Ws, jax.grad(loss)(Ws)), None)

        def some(Ws: Any, _: Any) -> Any:
            later, _ = jax.lax.scan(step, Ws, None, every)
            return later, product(later)

        return jax.lax.scan(some, Ws, None, count)

    return run(start)


def completion(quick: bool) -> tuple[list[Row], dict[str, Any]]:
    """Matrices of rank two of which half is seen, as products of one, two and three matrices from a small start."""
    print("\n4. completion of a matrix of rank 2 by products of matrices, from a small balanced start")
    n = 10 if quick else 24
    rng = np.random.default_rng(1)
    target = rng.standard_normal((n, 2)) @ rng.standard_normal((2, n))
    target /= np.linalg.norm(target, 2)
    seen = rng.random((n, n)) < 0.5
    rows: list[Row] = []
    curves = {}
    for depth in (1, 2, 3):
        end, path = factorised(depth, jnp.asarray(target), jnp.asarray(seen), quick)
        singular = np.linalg.svd(np.asarray(path), compute_uv=False)
        shares = singular / singular.sum(1, keepdims=True)
        curves[f"depth {depth}"] = np.exp(-np.sum(shares * np.log(np.maximum(shares, 1e-300)), 1))
        missed = np.linalg.norm((np.asarray(path[-1]) - target)[~seen]) / np.linalg.norm(target[~seen])
        rows += [
            (f"depth {depth}: effective rank", NOTHING, float(curves[f"depth {depth}"][-1])),
            ("  nuclear norm, and that of the matrix", float(np.linalg.norm(target, "nuc")), float(singular[-1].sum())),
            ("  error where nothing was seen, over its size", NOTHING, float(missed)),
        ]
        charges = [float(jnp.abs(a @ a.T - b.T @ b).max()) for a, b in itertools.pairwise(end)]
        if charges:
            rows.append(("  largest charge at the end (zero at the start)", 0.0, max(charges)))
    return show(rows), curves


# --- architectures of one linear function


def fourier(w: np.ndarray) -> float:
    """The sum of the sizes of the Fourier coefficients."""
    return float(np.abs(np.fft.fft(w)).sum() / np.sqrt(len(w)))


def least(X: np.ndarray, norm: Any) -> np.ndarray:
    """The vector of least norm with margin one at all points; the norm is smoothed less and less."""
    w = np.linalg.lstsq(X, np.ones(len(X)), rcond=None)[0]
    for smooth in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6):
        inside = {"type": "ineq", "fun": lambda w: X @ w - 1}
        w = minimize(norm, w, (smooth,), "SLSQP", constraints=inside, options={"maxiter": 1000, "ftol": 1e-13}).x
    return w


def biases(quick: bool) -> list[Row]:
    """One linear classifier, as a product of matrices and as a convolution: the norms that training makes small.

    Gunasekar and others (2018): fully connected networks of any depth go to the least l2 norm, convolutional ones of
    depth L and full width to stationary points of the l_{2/L} norm of the Fourier coefficients; of depth 2 that is l1.
    """
    print("\n5. five separable points in nine dimensions: which margin is the largest")
    X, d = np.random.default_rng(0).standard_normal((5, 9)), 9
    euclidean = least(X, lambda w, smooth: w @ w / 2)
    sparse = least(X, lambda w, smooth: np.sqrt(np.abs(np.fft.fft(w)) ** 2 + smooth**2).sum())
    keys = jax.random.split(jax.random.key(0))
    draw = lambda key, *shape: 0.1 * jax.random.normal(key, shape)
    nets = {
        "fully connected": (lambda p: p[1] @ p[0], (draw(keys[0], d, d), draw(keys[1], d))),
        "convolutional": (
            lambda p: jnp.fft.ifft(jnp.fft.fft(p[0]) * jnp.fft.fft(p[1])).real,
            (draw(keys[0], d), draw(keys[1], d)),
        ),
    }
    rows: list[Row] = []
    for name, (whole, start) in nets.items():

        @jax.jit
        def run(p: Any, whole: Any = whole) -> Any:
            # The logarithm of the loss has the same path, without its exponentially long times.
            loss = lambda p: jax.nn.logsumexp(-jnp.asarray(X) @ whole(p))

            def step(_: Any, p: Any) -> Any:
                size = jnp.maximum(sum(jnp.sum(a**2) for a in p), 1e-3)
                return jax.tree.map(lambda a, g: a - 0.05 * g / size, p, jax.grad(loss)(p))

            return jax.lax.fori_loop(0, 40_000 if quick else 400_000, step, p)

        w = np.asarray(whole(run(start)))
        w = w / (X @ w).min()
        l2 = float(np.linalg.norm(w) / np.linalg.norm(euclidean))
        predicted = (1.0, NOTHING) if name == "fully connected" else (NOTHING, 1.0)
        rows.append((f"{name}: l2 norm over the least", predicted[0], l2))
        rows.append((f"{name}: Fourier l1 norm over the least", predicted[1], fourier(w) / fourier(sparse)))
    return show(rows)


def figure(steps: dict[str, Any], charges: dict[str, Any], ranks: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(1, 3, figsize=(14, 4), layout="constrained")
    for name, errors in steps.items():
        if name != "etas":
            style = "o-" if name.startswith("gradient") else "s--"
            axes[0].loglog(steps["etas"], errors, style, color=f"C{name[-1]}", ms=4, label=name)
    axes[0].set(xlabel="step", ylabel="distance of training from the flow", ylim=(1e-9, None))
    axes[0].legend(fontsize=8, ncols=2, loc="lower right")
    steps_taken = np.arange(1, len(charges["measured"]) + 1)
    axes[1].semilogx(steps_taken, charges["measured"], "-", lw=3, alpha=0.4, label="measured from weights")
    axes[1].semilogx(steps_taken, charges["predicted"], "--", label=r"predicted: sum of $\eta^2 q(\nabla L)$")
    axes[1].set(xlabel="steps", ylabel="change of the charge")
    axes[1].legend()
    for name, rank in ranks.items():
        axes[2].loglog(np.arange(1, len(rank) + 1), rank, label=name)
    axes[2].set(xlabel="training, in parts", ylabel="effective rank")
    axes[2].legend()
    drawing.savefig(folder / "finite_steps.png", dpi=110)
    pyplot.close(drawing)


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="some seconds, smaller")
    parser.add_argument("--figures", type=Path, default=ASSETS, help="where the figure is saved")
    options = parser.parse_args(arguments)
    with jax.enable_x64(True):
        first, steps = orders()
        second, charges = broken(options.quick)
        third = filters(options.quick)
        fourth, ranks = completion(options.quick)
        fifth = biases(options.quick)
    figure(steps, charges, ranks, options.figures)
    return [*first, *second, *third, *fourth, *fifth]


if __name__ == "__main__":
    main()
