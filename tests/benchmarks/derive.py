"""How long derivations take, beside the straightforward SymPy route where that one finishes.

Run `python tests/benchmarks/derive.py` (the catalogue). `--blocks 12` adds the decoder of twelve blocks, `--only NAME`
leaves what has this in its name. `--layers 2 8 32` is depth alone: decoders as LLaMA has them, of so many
layers, each in a process of its own.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time

import sympy as sp
from memory import peak

import quotax as qx
from quotax import catalogue
from quotax.catalogue.transformers.llama import llama
from quotax.catalogue.transformers.pre_norm_decoder import decoder

LIMITS = {"attention": 10, "transformers": 30, "norms": 10}
"""Seconds by room; every other entry has three."""


def sympy_route(model, sizes):
    """Coefficients of X f = 0 for every linear X, collected with `Poly`, and the nullspace of the expression matrix."""
    outputs = model.expression(**sizes)
    flat = list(outputs) if hasattr(outputs, "shape") else [outputs]
    symbols = model.symbols(**sizes)
    theta = [
        s
        for spec in model.params
        for s in (list(sp.flatten(symbols[spec.name])) if spec.axes else [symbols[spec.name]])
    ]
    unknown = sp.symbols(f"c:{len(theta) ** 2}")
    slopes = dict(zip(itertools.product(range(len(theta)), repeat=2), unknown, strict=True))
    fields = [sum(slopes[i, j] * theta[j] for j in range(len(theta))) for i in range(len(theta))]
    equations = []
    for out in flat:
        along = sp.expand(sum(sp.diff(out, s) * x for s, x in zip(theta, fields, strict=True)))
        generators = sorted(along.free_symbols - set(unknown), key=str)
        equations += sp.Poly(along, *generators).coeffs()
    matrix, _ = sp.linear_eq_to_matrix(equations, unknown)
    return len(matrix.nullspace())


AUDITED = {"vocab": 7, "d": 4, "head": 2, "k": 2, "f": 3}
"""Where deep models are audited."""


RANKED = 2500
"""Above so many parameters an audit has no rank."""


def deep(layers):
    """One line about a decoder of so many layers; families are those that are proved, `all` every one of them."""
    model = llama(layers)
    start, busy = time.perf_counter(), time.process_time()
    found = qx.derive(model, budget_seconds=3600, progress=lambda line: None)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    memory = peak() / 2**30
    every = all(found.certificate(s.name).scope == "every width" for s in (*found, *found.discrete))
    start = time.perf_counter()
    parameters = model.at(**AUDITED).num_parameters
    surplus = found.audit(**AUDITED).surplus if parameters <= RANKED else "-"
    late = [what for what in found.unsearched if not what.endswith("at most)")]  # not those that it is too large for
    mark = "" if every and not found.unproved and not late else "  not all for every width"
    print(
        f"{layers:6}{parameters:12}{seconds:9.1f}{busy:8.1f}{memory:8.2f}{len(found):10}{len(found.discrete):10}"
        f"{surplus!s:>9}{time.perf_counter() - start:8.1f}{mark}",
        flush=True,
    )


def depth(layers):
    """Time and memory by depth, each in a new process."""
    titles = ("parameters", "seconds", "CPU", "GiB", "families", "discrete", "surplus", "audit")
    widths = (12, 9, 8, 8, 10, 10, 9, 8)
    print(f"{'layers':6}" + "".join(f"{t:>{w}}" for t, w in zip(titles, widths, strict=True)), flush=True)
    for count in layers:
        subprocess.run([sys.executable, __file__, "--deep", str(count)], check=True)


POLYNOMIAL = ("linear", "diagonal_linear", "autoencoder/tied", "polynomial/cubic")


def show(name):
    """One line: the time, and what is flat and left over at each assignment of sizes; returns the seconds."""
    entry = catalogue.load(name)
    start = time.perf_counter()
    found = qx.derive(entry.architecture, entry.ansatz, progress=lambda line: None)
    seconds = time.perf_counter() - start
    audits = [found.audit(**sizes) for sizes, _ in entry.flat]
    flat, surplus = ("/".join(str(n) for n in ns) for ns in zip(*((a.flat, a.surplus) for a in audits), strict=True))
    plain = ""
    if name in POLYNOMIAL:
        start = time.perf_counter()
        sympy_route(entry.architecture, entry.flat[0][0])
        plain = f"{time.perf_counter() - start:.1f}"
    room = entry.architecture.function.__module__.split(".")[-2]
    limit = LIMITS.get(room, 3)
    mark = "  over the limit" * (seconds > limit)
    print(f"{name:40}{seconds:9.2f}{limit:7d}{plain:>9}{flat:>9}{surplus:>9}  {len(found)}{mark}", flush=True)
    return seconds


def main():
    """Print one line an entry."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=0, help="also a decoder of this many blocks")
    parser.add_argument("--layers", type=int, nargs="+", default=(), help="LLaMAs of these many layers alone")
    parser.add_argument("--deep", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="entries whose name contains this")
    arguments = parser.parse_args()
    if arguments.deep or arguments.layers:
        deep(arguments.deep) if arguments.deep else depth(arguments.layers)
        return
    print(f"{'entry':40}{'derive':>9}{'limit':>7}{'SymPy':>9}{'flat':>9}{'surplus':>9}  families")
    total = sum(show(name) for name in catalogue.names() if arguments.only in name)
    print(f"{'total':40}{total:9.1f}")
    if arguments.blocks:
        start = time.perf_counter()
        found = qx.derive(decoder(arguments.blocks), progress=print)
        seconds = time.perf_counter() - start
        print(f"{arguments.blocks} blocks: {len(found)} families, {seconds:.0f} s, {peak() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
