"""Sharpness beside what people use today, in one run: values at equal gradient budgets, costs of a step, memory.

python tests/benchmarks/sharpness.py                 everything but memory: 15 to 20 minutes on two quiet cores,
                                                     most of them for compilers and the costs of a step
python tests/benchmarks/sharpness.py --smoke         one row of each table: under a minute
python tests/benchmarks/sharpness.py --settings "MLP 32 ReLU;CNN" --budget 60
python tests/benchmarks/sharpness.py --held-out      networks that nothing was tuned on
python tests/benchmarks/sharpness.py --memory        the peak memory of a network of 100 million parameters
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from baselines import LONGEST, PUBLISHED, Rise, apgd, apgd_with_restarts, sam_step
from digits import HELD_OUT, SETTINGS, Setting, trained
from jax.flatten_util import ravel_pytree
from step_costs import overhead, scaling

import quotax as qx

RADII = (0.1, 0.5, 2.0)
BUDGETS = (20, 60, 200)
WANTED = {20: 0.8, 60: 0.9, 200: 0.9}
"""The share of settings in which quotax must be at or above APGD."""
CLOSE = 0.97
"""Of the best value that any search found, at the largest budget."""
LONGER, FEW = 5, 2
"""Budgets of one long run of quotax; not with so few long runs of APGD as in a smoke test."""
TIE = 1e-4
"""Relative: single precision, and iterations that are stopped before they have converged to the last digit."""


def rise_of(setting: Setting) -> tuple[Rise, int]:
    """The rise of the loss and its gradient on flat displacements, and the number of parameters."""
    flat, unravel = ravel_pytree(setting.params)
    base = setting.loss(setting.params, setting.batch)
    return lambda x: jax.value_and_grad(lambda x: setting.loss(unravel(flat + x), setting.batch) - base)(x), flat.size


def compare(
    setting: Setting, rise: Rise, size: int, radius: float, budgets: tuple[int, ...], keys: range, runs: int
) -> dict:
    """Values of all methods, one for each key, at one radius."""

    def ours(budget, key):
        found = qx.sharpness(
            setting.loss, setting.params, radius, batch=setting.batch, budget=budget, key=key, progress=lambda _: None
        )
        assert found.evaluations <= budget
        return found.value

    values: dict[Any, Any] = {"SAM": float(sam_step(rise, size, jnp.float32(radius)))}
    for budget in budgets:
        values["ours", budget] = [ours(budget, key) for key in keys]
        values["APGD", budget] = [apgd_with_restarts(rise, size, radius, jax.random.key(key), budget) for key in keys]
    long = [float(apgd(rise, size, radius, k, LONGEST)) for k in jax.random.split(jax.random.key(99), runs)]
    if runs > FEW:
        long.append(ours(LONGER * max(budgets), keys.stop))
    everything = [v for name, many in values.items() if name != "SAM" for v in many]
    values["best"] = max([*long, *everything])
    return values


def table(
    names: list[str], radii: tuple[float, ...], budgets: tuple[int, ...], keys: range, runs: int, seed: int = 1
) -> None:
    """One line for each setting and radius: medians over keys, as shares of the best value that any search found."""
    print(f"\nValues as shares of the best of all searches; medians over {len(keys)} keys; APGD as published, ")
    print(f"{PUBLISHED} iterations a run, restarts to fill the budget. The best includes {runs} runs of APGD of")
    longer = f", and one of quotax with {LONGER * max(budgets)} gradients" if runs > FEW else ""
    print(f"{LONGEST} iterations{longer}. Trained from seed {seed}.\n")
    heads = "".join(f"  {f'{b} gradients':>21}" for b in budgets)
    print(f"{'':26}{'radius':>7}{'best':>10}{'SAM':>7}{heads}")
    print(f"{'':50}" + "".join(f"{'ours':>14}{'APGD':>9}" for _ in budgets))
    wins = {budget: [] for budget in budgets}
    single = {budget: [] for budget in budgets}
    shares = {budget: [] for budget in budgets}
    for name in names:
        setting = trained(name, seed=seed)
        rise, size = rise_of(setting)
        for radius in radii:
            v = compare(setting, rise, size, radius, budgets, keys, runs)
            line = f"{name:26}{radius:7.2g}{v['best']:10.4g}{v['SAM'] / v['best']:7.3f}"
            for budget in budgets:
                mine, theirs = (np.asarray(v[who, budget]) / v["best"] for who in ("ours", "APGD"))
                wins[budget].append(np.median(mine) >= np.median(theirs) * (1 - TIE))
                single[budget] += list(mine >= theirs * (1 - TIE))
                shares[budget].append(np.median(mine))
                line += f"{np.median(mine):14.4f}{np.median(theirs):9.4f}"
            print(line, flush=True)
    print()
    for budget in budgets:
        wanted = WANTED.get(budget, 0.9)
        print(
            f"{budget:4} gradients: at or above APGD in {sum(wins[budget])} of {len(wins[budget])} settings (wanted: "
            f"{wanted:.0%}{'' if np.mean(wins[budget]) >= wanted else ': NOT MET'}), in {np.mean(single[budget]):.0%} "
            f"of single runs"
        )
    close = np.asarray(shares[budgets[-1]])
    print(
        f"{budgets[-1]:4} gradients: {np.sum(close >= CLOSE)} of {close.size} settings within {1 - CLOSE:.0%} of the "
        f"best; the worst at {close.min():.3f}"
    )


def dense(names: list[str], radius: float = 0.01) -> None:
    """At a small radius the maximum is the quadratic model's: the dense Hessian's largest eigenvalue, and Lanczos."""
    print(
        "\nThe largest eigenvalue of the Hessian, dense and by Lanczos; and the trust-region value beside the search\n"
    )
    print(f"{'':22}{'dense':>12}{'Lanczos':>12}{'relative':>10}{f'model, r={radius:g}':>14}{'search':>12}")
    for name in names:
        with jax.enable_x64(True):
            setting = trained(name)
            params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), setting.params)
            batch = jnp.asarray(setting.batch[0], jnp.float64), setting.batch[1]
            slope, hessian = derivatives(setting, params, batch)
            values, vectors = np.linalg.eigh(hessian)
            model = trust_region(values, vectors.T @ slope, radius)
            found = qx.spectrum(setting.loss, params, 1, batch=batch, which="top").values[0]
            search = qx.sharpness(setting.loss, params, radius, batch=batch, progress=lambda _: None).value
        relative = abs(found - values[-1]) / values[-1]
        print(f"{name:22}{values[-1]:12.6g}{found:12.6g}{relative:10.1e}{model:14.6g}{search:12.6g}", flush=True)


def derivatives(setting: Setting, params: dict, batch: tuple) -> tuple[np.ndarray, np.ndarray]:
    """The gradient and the dense Hessian, one product for each parameter: all at once would not fit."""
    flat, unravel = ravel_pytree(params)
    gradient = jax.grad(lambda v: setting.loss(unravel(v), batch))
    row = jax.jit(lambda v: jax.jvp(gradient, (flat,), (v,))[1])
    hessian = np.stack([np.asarray(row(e)) for e in np.eye(flat.size)])
    return np.asarray(gradient(flat)), 0.5 * (hessian + hessian.T)


def trust_region(values: np.ndarray, slope: np.ndarray, radius: float) -> float:
    """The maximum of the quadratic model over the ball, by bisection on the multiplier: |b / (lam - a)| = radius."""
    low = max(values[-1], 0.0)
    high = low + np.linalg.norm(slope) / radius + 1
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.linalg.norm(slope / (middle - values)) > radius else (low, middle)
    z = slope / (high - values)
    return float(slope @ z + 0.5 * np.sum(values * z * z))


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="tiny versions of all tables, for CI")
    parser.add_argument("--settings", default="", help="names, separated by semicolons; all without it")
    parser.add_argument("--budget", type=int, action="append", help="gradients; may be given several times")
    parser.add_argument("--held-out", action="store_true", help="networks of other sizes, trained from other seeds")
    parser.add_argument("--memory", action="store_true", help="only the peak memory of a large network")
    parser.add_argument("--costs", action="store_true", help="only the costs of a step")
    options = parser.parse_args()
    start = time.perf_counter()
    if options.memory:
        script = pathlib.Path(__file__).with_name("peak_memory.py")
        parameters = "2_000_000" if options.smoke else "100_000_000"
        subprocess.run([sys.executable, str(script), parameters], check=True)
        return
    known = HELD_OUT if options.held_out else SETTINGS
    names = [name for name in known if not options.settings or name in options.settings.split(";")]
    if options.settings and len(names) < len(options.settings.split(";")):
        parser.error(f"--settings {options.settings!r} names something else than {'; '.join(known)}")
    if not options.costs:
        budgets = tuple(options.budget or BUDGETS)
        if options.smoke:
            table(names[:1] if options.settings else ["MLP 16 GELU"], RADII[1:2], budgets[:1], range(1), 2)
            dense(["attention, 1 layer of 8"])
        elif options.held_out:
            for seed in (2, 3):
                table(names, RADII, budgets, range(100 * seed, 100 * seed + 3), 30, seed)
        else:
            table(names, RADII, budgets, range(3), 30)
            dense([name for name in names if name in ("MLP 16 GELU", "attention, 1 layer")])
    if not options.settings and not options.held_out:
        overhead(options.smoke)
        scaling(options.smoke)
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
