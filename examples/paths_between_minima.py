"""Paths between minima: through an orbit, along a curve, down a linear network; and how degenerate minima are.

    python examples/paths_between_minima.py            about two minutes
    python examples/paths_between_minima.py --quick    about half a minute

Predicted is printed beside measured; a figure is saved in `docs/assets` (`--figures DIR` puts it elsewhere).
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import quotax as qx

ASSETS = Path(__file__).parents[1] / "docs" / "assets"

Row = tuple[str, float, float]
"""What, predicted, measured."""

NOTHING = float("nan")
"""Where nothing is predicted."""


@qx.architecture(params={"A": "h x", "B": "y h"}, inputs={"x": "x"})
def linear(p, x):
    return p["B"] @ (p["A"] @ x)


MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})


def show(rows: list[Row]) -> list[Row]:
    print(f"   {'':<72} {'predicted':>10} {'measured':>12}")
    for what, predicted, measured in rows:
        expected = "-" if predicted != predicted else f"{predicted:.4g}"
        print(f"   {what:<72} {expected:>10} {measured:>12.4g}", flush=True)
    return rows


def squares(net: Any, inputs: Any, targets: Any) -> Callable[[Any], Any]:
    return lambda p: jnp.mean(jnp.sum((jax.vmap(lambda x: net(p, x))(inputs) - targets) ** 2, 1)) / 2


# --- one orbit


def orbits(quick: bool) -> tuple[list[Row], dict[str, Any]]:
    """Two parameters of one linear network, in one component of GL(h) or in two."""
    print("1. two minima on one orbit of a linear network, 3 inputs and 2 outputs")
    rows, kept = [], {}
    inputs = jnp.asarray(np.linalg.qr(np.random.default_rng(0).standard_normal((12, 3)))[0] * np.sqrt(12))
    for h, sign in ((2, 1), (2, -1), (3, -1))[quick:]:
        net = linear.at(x=3, h=h, y=2)
        params = net.init(jax.random.key(0))
        target = params["B"] @ params["A"]
        loss = squares(net, inputs, inputs @ target.T)
        space = qx.quotient(net, MIX, metric="invariant")
        g = space.random_element(jax.random.key(4))["mix"]
        g = g.at[0].multiply(sign)
        other = space.act(params, {"mix": g})
        found = qx.minima_paths(loss, params, other, space=space, steps=600 if quick else 4000, bends=5)
        # With rank-many hidden units a path to the other component meets det A = 0, and a product of smaller rank.
        least = float(np.linalg.svd(np.asarray(target))[1][1]) ** 2 / 2
        wall = least if (h, sign) == (2, -1) else 0.0
        name = f"width {h}, det {'>' if sign > 0 else '<'} 0"
        rows += [
            (f"{name}: highest loss on the segment", NOTHING, found.segment.highest),
            ("  through the orbit", NOTHING if wall else 0.0, found.orbit.highest),
            ("  along a curve", wall, found.curve.highest),
        ]
        kept[name] = found
    return show(rows), kept


# --- down a linear network of any width


def descent(start: list[np.ndarray], X: np.ndarray, Y: np.ndarray) -> list[list[Callable[[float], np.ndarray]]]:
    """A path of which the loss never rises, from given matrices W_1, W_2, ... to a minimum of the mean of squares.

    Between them is the narrowest hidden layer, of width p: the network is B A, with A the layers before and B those
    after. Legs: B to the best for A; A by rows that B does not read, to full rank; B to the best again; the row space
    of A along a geodesic of the Grassmannian to the first p singular directions, with the best B at every time. Its
    loss is a constant minus the sum of squares of the target on that space, and principal vectors turn from the lower
    directions to the upper ones: it falls. W_1 and the last matrix follow A and B through the layers between, which
    must have full rank: those of almost all parameters do, and with two matrices there are none.
    """
    half = np.linalg.cholesky(X.T @ X / len(X))
    goal = np.linalg.lstsq(X, Y, rcond=None)[0].T @ half
    widths = [W.shape[0] for W in start[:-1]]
    j = int(np.argmin(widths)) + 1
    p = widths[j - 1]
    product = lambda Ws, size: np.linalg.multi_dot([*Ws[::-1], np.eye(size)]) if Ws else np.eye(size)
    before = np.linalg.pinv(product(start[1:j], start[0].shape[0]))
    after = np.linalg.pinv(product(start[j:-1], p))
    A0, B0 = product(start[:j], X.shape[1]) @ half, product(start[j:], p)
    legs: list[tuple[Callable[[float], Any], Callable[[float], Any]]] = []
    line = lambda a, b: lambda t: (1 - t) * a + t * b
    best = lambda A: goal @ np.linalg.pinv(A, rcond=1e-9)

    A, B = A0, best(A0)
    legs.append((line(A, A), line(B0, B)))
    left, sizes, right = np.linalg.svd(A)
    rank = int(np.sum(sizes > 1e-9 * max(sizes[0], 1e-300)))
    more = min(A.shape) - rank
    unread = left[:, rank : rank + more] @ right[rank : rank + more]
    legs.append((line(A, A + unread), line(B, B)))
    A = A + unread
    legs.append((line(A, A), line(B, best(A))))
    if p < A.shape[1]:
        left, sizes, right = np.linalg.svd(A, full_matrices=False)
        top = np.linalg.svd(goal)[2][:p]
        turn, cosines, back = np.linalg.svd(right @ top.T)
        angles = np.arccos(np.clip(cosines, -1, 1))[:, None]
        here, there = turn.T @ right, back @ top
        aside = here - np.cos(angles) * there
        aside /= np.maximum(np.linalg.norm(aside, axis=1, keepdims=True), 1e-300)
        frame = lambda t: np.cos((1 - t) * angles) * there + np.sin((1 - t) * angles) * aside
        turned = lambda t: left * sizes @ turn @ frame(t)
        legs.append((turned, lambda t: best(turned(t))))

    into = np.linalg.inv(half)
    first = lambda A: start[0] + before @ (A - A0) @ into
    last = lambda B: start[-1] + (B - B0) @ after
    return [[lambda t, a=a: first(a(t)), lambda t, b=b: last(b(t))] for a, b in legs]


def downhill(quick: bool) -> tuple[list[Row], dict[str, np.ndarray]]:
    """The largest rise of the loss on such paths, and where they end, from random starts and from saddles."""
    print("\n2. linear networks: a path of which the loss never rises, to the best network of its rank")
    rng = np.random.default_rng(1)
    X, n = rng.standard_normal((40, 6)), 40
    Y = X @ rng.standard_normal((6, 5)) + rng.standard_normal((n, 5))
    half = np.linalg.cholesky(X.T @ X / n)
    fit = np.linalg.lstsq(X, Y, rcond=None)[0].T
    noise = np.sum((Y - X @ fit.T) ** 2) / (2 * n)
    sizes = np.linalg.svd(fit @ half, compute_uv=False)
    rows, curves = [], {}
    for widths in ((1,), (2,), (4,), (9,), (7, 3), (3, 8, 4)):
        ends = [6, *widths, 5]
        starts = {"random": [rng.standard_normal((b, a)) / np.sqrt(a) for a, b in itertools.pairwise(ends)]}
        if len(widths) == 1:
            starts["the saddle at zero"] = [np.zeros((b, a)) for a, b in itertools.pairwise(ends)]
        lowest = noise + np.sum(sizes[min(widths) :] ** 2) / 2
        for name, start in starts.items():
            losses = []
            for first, last in descent(start, X, Y):
                for t in np.linspace(0, 1, 40 if quick else 400):
                    W = np.linalg.multi_dot([last(t), *start[-2:0:-1], first(t)])
                    losses.append(np.sum((Y - X @ W.T) ** 2) / (2 * n))
            rises = max(float(np.diff(losses).max()), 0.0)
            rows.append((f"widths {widths}, {name}: largest rise of the loss", 0.0, rises))
            rows.append(("  loss at the end", lowest, losses[-1]))
            if name == "random":
                curves[str(widths)] = np.array(losses)
    return show(rows), curves


# --- networks that are not linear


def trained(loss: Callable[[Any], Any], params: Any, steps: int) -> Any:
    rule = optax.adam(optax.cosine_decay_schedule(0.02, steps, 1e-4))

    @jax.jit
    def run(params: Any) -> Any:
        def step(state: Any, _: Any) -> tuple[Any, None]:
            p, memory = state
            updates, memory = rule.update(jax.grad(loss)(p), memory, p)
            return (optax.apply_updates(p, updates), memory), None

        return jax.lax.scan(step, (params, rule.init(params)), None, steps)[0][0]

    return run(params)


def curves(quick: bool) -> tuple[list[Row], dict[str, Any]]:
    """Two trainings of one network, of more units than examples and of few."""
    print("\n3. two trainings of a network of two layers on 10 examples")
    rows, kept = [], {}
    inputs, targets = (jax.random.normal(jax.random.key(k), (10, d)) for k, d in ((1, 4), (2, 2)))
    nets = (("ReLU", jax.nn.relu, 16), ("tanh", jnp.tanh, 16), ("tanh", jnp.tanh, 2))
    for name, nonlinearity, h in nets[: 1 if quick else 3]:
        model = qx.architecture(params={"A": "h x", "b": "h", "B": "y h"}, inputs={"x": "x"})(
            lambda p, x, f=nonlinearity: p["B"] @ f(p["A"] @ x + p["b"])
        )
        net = model.at(x=4, h=h, y=2)
        loss = squares(net, inputs, targets)
        steps = 1500 if quick else 6000
        one, two = (trained(loss, net.init(jax.random.key(k)), steps) for k in (3, 4))
        space = qx.quotient(net, qx.derive(model), metric="invariant")
        found = qx.minima_paths(loss, one, two, space=space, steps=600 if quick else 4000, bends=4)
        ends = max(found.ends)
        rows += [
            (f"{name}, {h} units: loss at the worse end", 0.0 if h > 10 else NOTHING, ends),
            ("  highest on the segment", NOTHING, found.segment.highest),
            ("  once aligned", NOTHING, found.aligned.highest),
            ("  along a curve, above the ends", 0.0 if h > 10 else NOTHING, found.curve.height),
        ]
        kept[f"{name}, {h} units"] = found
    return show(rows), kept


# --- degenerate minima


def kernels() -> list[Row]:
    """The kernel of the Hessian against the dimension of the orbit, where both are known."""
    print("\n4. the kernel of the Hessian at equilibria, and what of it is the orbit's")
    rng, rows = np.random.default_rng(2), []
    inputs = jnp.asarray(rng.standard_normal((12, 4)))
    for h, a, b in ((2, 2, 2), (3, 3, 2), (3, 2, 2), (6, 4, 2)):
        net = linear.at(x=4, h=h, y=2)
        A = rng.standard_normal((h, a)) @ rng.standard_normal((a, 4))
        B = rng.standard_normal((2, b)) @ rng.standard_normal((b, h))
        space = qx.quotient(net, MIX, metric="euclidean")
        loss = squares(net, inputs, inputs @ (B @ A).T)
        found = qx.degeneracy(loss, {"A": jnp.asarray(A), "B": jnp.asarray(B)}, space=space)
        name = f"B A of widths 4, {h}, 2, ranks {a} and {b}"
        rows += [
            (f"{name}: k, the orbit: h^2 - (h - a)(h - b)", h * h - (h - a) * (h - b), found.orbit),
            ("  beyond it: (h - b)(x - a) + (h - a)(y - b)", (h - b) * (4 - a) + (h - a) * (2 - b), found.beyond),
        ]
    X, y = jnp.asarray(rng.standard_normal((7, 30))), jnp.asarray(rng.standard_normal(7))
    line = lambda w: jnp.mean((X @ w - y) ** 2) / 2
    found = qx.degeneracy(line, jnp.asarray(np.linalg.pinv(np.asarray(X)) @ np.asarray(y)))
    rows.append(("least squares, 30 weights and 7 examples: beyond: d - n", 23, found.beyond))
    model = qx.architecture(params={"A": "h x", "b": "h", "c": "h"}, inputs={"x": "x"})(
        lambda p, x: p["c"] @ jnp.tanh(p["A"] @ x + p["b"])
    )
    net = model.at(x=4, h=10)
    p = net.init(jax.random.key(0))
    fitted = squares(lambda p, x: net(p, x)[None], inputs[:5], jax.vmap(lambda x: net(p, x)[None])(inputs[:5]))
    found = qx.degeneracy(fitted, p)
    rows.append(("tanh, 60 weights that fit 5 numbers: beyond: d - n", 55, found.beyond))
    return show(rows)


def figure(one: dict[str, Any], falls: dict[str, np.ndarray], others: dict[str, Any], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(1, 3, figsize=(14, 4), layout="constrained")
    styles = {"segment": ":", "orbit": "--", "curve": "-"}
    for axis, kept in ((axes[0], one), (axes[2], others)):
        for colour, (name, found) in enumerate(kept.items()):
            for kind, style in styles.items():
                path = getattr(found, kind)
                label = name if kind == "curve" else None
                axis.semilogy(path.times, np.maximum(path.losses, 1e-9), style, color=f"C{colour}", label=label)
        axis.set(xlabel="from one minimum to the other", ylabel="loss (segment dotted, orbit dashed, curve solid)")
        axis.legend(fontsize=8)
    for name, losses in falls.items():
        axes[1].plot(np.linspace(0, 1, len(losses)), losses, label=f"widths {name}")
    axes[1].set(xlabel="along the path", ylabel="loss of linear networks, never rising")
    axes[1].legend(fontsize=8)
    drawing.savefig(folder / "paths_between_minima.png", dpi=110)
    pyplot.close(drawing)


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="about half a minute, smaller")
    parser.add_argument("--figures", type=Path, default=ASSETS, help="where the figure is saved")
    options = parser.parse_args(arguments)
    with jax.enable_x64(True):
        first, one = orbits(options.quick)
        second, falls = downhill(options.quick)
        third, others = curves(options.quick)
        fourth = kernels()
    figure(one, falls, others, options.figures)
    return [*first, *second, *third, *fourth]


if __name__ == "__main__":
    main()
