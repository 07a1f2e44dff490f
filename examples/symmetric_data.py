"""A group acts on data: what augmentation does to the loss, to its gradient and to symmetric weights.

    python examples/symmetric_data.py            about a minute
    python examples/symmetric_data.py --quick    a few seconds

Every statement is proved by one call or printed as predicted beside measured; a figure is saved in `docs/assets`
(`--figures DIR` puts it elsewhere).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import quotax as qx

AXES: dict[str, Any] = {
    "params": {"W1": "h x", "b1": "h", "W2": "y h"},
    "inputs": {"data": "n x", "target": "n y"},
}


def squared(p: Any, data: Any, target: Any) -> Any:
    return jnp.mean((jnp.tanh(data @ p["W1"].T + p["b1"]) @ p["W2"].T - target) ** 2)


loss = qx.architecture(**AXES)(squared)


@qx.architecture(**AXES)
def slope(p, data, target):
    """The gradient by the weights that read the data."""
    return jax.grad(squared)(p, data, target)["W1"]


ASSETS = Path(__file__).parents[1] / "docs" / "assets"

Row = tuple[str, float, float]
"""What, predicted, measured."""

NOTHING = float("nan")
"""Where nothing is predicted."""


def show(rows: list[Row]) -> list[Row]:
    print(f"   {'':<72} {'predicted':>10} {'measured':>12}")
    for what, predicted, measured in rows:
        expected = "-" if predicted != predicted else f"{predicted:.4g}"
        print(f"   {what:<72} {expected:>10} {measured:>12.4g}", flush=True)
    return rows


def lemma() -> list[str]:
    """Weights that read the data take back what was done to them, whatever the group: proved for every width."""
    print("1. moving the data by g is moving W1 by its inverse")
    found = []
    for group in (qx.GL("x"), qx.O("x"), qx.Permutation("x")):
        moved = {"W1": "W1 @ inv(g)", "data": "data @ g.T"}
        # A gradient is a covector: paired with a velocity of W1, which moves as W1 does, it is a number.
        for what, model, action, output in (
            ("L(W1 g^-1, g x) = L(W1, x)", loss, moved, ""),
            ("grad L(W1 g^-1, g x) = grad L(W1, x) g^T", slope, moved | {"probe": "probe @ inv(g)"}, "h x"),
        ):
            certificate = qx.verify_equivariance(model, qx.Symmetry("induced", group, action), output=output)
            found.append(str(certificate.status))
            print(f"   {group!s:<8} {what:<42} {certificate.status} for {certificate.scope}")
    net = qx.architecture(params=AXES["params"], inputs={"x": "x"})(
        lambda p, x: p["W2"] @ jnp.tanh(p["W1"] @ x + p["b1"])
    )
    total = qx.augmented(squared, qx.Representation.shifts(4))
    for what, certificate in total.proofs(net).items():
        found.append(str(certificate.status))
        print(f"   in one call, of the {what}: {certificate.status} for {certificate.scope}")
    twin = qx.Symmetry("twin", qx.GL("x"), {"W1": "W1 @ g.T", "data": "data @ g.T"})
    found.append(str(qx.verify_equivariance(loss, twin, output="").status))
    print(f"   {'GL(x)':<8} {'L(W1 g^T, g x) = L(W1, x)':<42} {found[-1]}")
    return found


def finite(quick: bool) -> list[Row]:
    """Quarter turns and reflections of handwritten digits, and hidden units that they turn as well."""
    digits, count = load_digits(), 20 if quick else 400
    images = digits.images[:count].reshape(-1, 4, 2, 4, 2).mean((2, 4)) / 16
    data, target = jnp.asarray(images.reshape(count, -1)), jax.nn.one_hot(digits.target[:count], 10, dtype=float)
    rep = qx.Representation.quarter_turns(4, reflections=True)
    turns = qx.Representation.quarter_turns(4)
    start = loss.at(x=16, h=6, y=10).init(jax.random.key(0))
    full, quarter = (qx.augmented(squared, group) for group in (rep, turns))
    found = full.check(start, data, target, reads={"W1": 1})
    moved = start | {"W1": start["W1"] @ rep.element("reflection")}
    plain = float(squared(moved, data, target) / squared(start, data, target))
    print(f"\n2. a finite group: {full.over} on {count} digits (4 x 4)")
    rows = [
        ("augmented loss after W1 -> W1 h^-1: relative change", 0.0, found.invariance),
        ("the same of the plain loss, which has no such symmetry", NOTHING, abs(plain - 1)),
        ("|grad L(g W) - g grad L(W)| / |grad L|", 0.0, found.gradient),
    ]
    maps, even = qx.equivariant_maps(rep, rep), qx.equivariant_maps(rep, 10 * rep.trivial)
    print(f"   weights that commute with the group, {maps.dim} numbers in place of {16 * 16}, before training;")
    print("   afterwards, the share of W1 that does not commute:")
    symmetric = {
        "W1": maps.matrix(maps.init(jax.random.key(1))),
        "b1": jnp.zeros(16),
        "W2": even.matrix(even.init(jax.random.key(2))) / 4,
    }
    for name, objective, predicted in (
        ("trained on whole orbits", full, 0.0),
        ("on the quarter turns alone", quarter, NOTHING),
        ("without augmentation", squared, NOTHING),
    ):
        step, p = jax.jit(jax.grad(objective)), symmetric
        for _ in range(20 if quick else 300):
            p = jax.tree.map(lambda a, g: a - 0.5 * g, p, step(p, data, target))
        off = p["W1"] - maps.matrix(maps.coefficients(p["W1"]))
        rows.append((f"  {name}", predicted, float(jnp.linalg.norm(off) / jnp.linalg.norm(p["W1"]))))
    return show(rows)


def continuous(quick: bool) -> tuple[list[Row], dict[str, np.ndarray]]:
    """Rotations of functions on a circle, given by their Fourier coefficients of frequency 0 to 4."""
    A = np.zeros((9, 9), int)
    for m in range(1, 5):
        A[2 * m - 1, 2 * m], A[2 * m, 2 * m - 1] = -m, m
    rep = qx.Representation(infinitesimal={"turn": A}, name="F")
    rng = np.random.default_rng(0)
    data, target = jnp.asarray(rng.standard_normal((30, 9))), jnp.asarray(rng.standard_normal((30, 2)))
    p = loss.at(x=9, h=6, y=2).init(jax.random.key(0))
    counts, slopes = np.array([1, 2, 4, 8, 16, 32, 64]), []
    for count in counts:
        circle = qx.augmented(squared, rep, times=(0, 2 * np.pi), nodes=int(count), rule="circle")
        found = circle.check(p, data, target, reads={"W1": 1})
        slopes.append(found.field)
    print("\n3. a continuous group: rotations of functions on a circle")
    rows = [(f"cosine of grad L and the induced field, {counts[0]} point", NOTHING, slopes[0])]
    rows.append((f"the same, averaged over {counts[-1]} points of the circle", 0.0, slopes[-1]))
    rows.append((f"change of the loss by turns of W1, {counts[-1]} points", 0.0, found.invariance))

    # Averaged over turns from -a to a, a component of frequency m is multiplied by sin(m a) / (m a).
    angles = np.linspace(0.05, 1, 4 if quick else 24) * np.pi
    still = np.zeros(9)
    line = lambda w, x: 0.5 * jnp.mean((x @ w - target[:, 0]) ** 2)
    kept = np.zeros((4, len(angles)))
    alone = np.asarray(jax.grad(line)(still, data))
    for i, a in enumerate(angles):
        slope = np.asarray(jax.grad(qx.augmented(line, rep, times=(-a, a), nodes=40))(still, data))
        for m in range(1, 5):
            pair = slice(2 * m - 1, 2 * m + 1)
            kept[m - 1, i] = slope[pair] @ alone[pair] / (alone[pair] @ alone[pair])
    predicted = np.stack([np.sin(m * angles) / (m * angles) for m in range(1, 5)])
    worst = float(np.abs(kept - predicted).max())
    rows.append(("symmetric weights leave at the rate sin(m a)/(m a): largest deviation", 0.0, worst))
    return show(rows), {
        "counts": counts,
        "cosines": np.asarray(slopes),
        "angles": angles,
        "kept": kept,
        "sinc": predicted,
    }


def figure(curves: dict[str, np.ndarray], folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawing, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    axes[0].semilogy(curves["counts"], np.maximum(curves["cosines"], 1e-18), "o-")
    axes[0].set_xscale("log", base=2)
    axes[0].set(xlabel="points of the circle in the average", ylabel="|cosine| of gradient and induced field")
    for m in range(4):
        axes[1].plot(curves["angles"], curves["kept"][m], "o", color=f"C{m}", ms=4)
        axes[1].plot(curves["angles"], curves["sinc"][m], "-", color=f"C{m}", label=f"frequency {m + 1}")
    axes[1].axhline(0, color="grey", lw=0.5)
    axes[1].set(xlabel="averaged over turns of -a to a", ylabel="asymmetric slope that is left: sin(ma)/(ma)")
    axes[1].legend()
    drawing.savefig(folder / "symmetric_data.png", dpi=110)
    pyplot.close(drawing)


def main(arguments: list[str] | None = None) -> tuple[list[str], list[Row]]:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, smaller")
    parser.add_argument("--figures", type=Path, default=ASSETS, help="where the figure is saved")
    options = parser.parse_args(arguments)
    with jax.enable_x64(True):
        proofs = lemma()
        rows = finite(options.quick)
        more, curves = continuous(options.quick)
    figure(curves, options.figures)
    return proofs, rows + more


if __name__ == "__main__":
    main()
