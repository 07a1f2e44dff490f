"""How long derivations take, beside the straightforward SymPy route where that one finishes.

Run `python tests/benchmarks/derive.py` (all rows, then blocks as people write them). `--blocks 12` adds the decoder of
twelve blocks, `--only NAME` leaves what has this in its name. `--layers 2 8 32` is depth alone: decoders as LLaMA has
them, of so many layers, each in a process of its own.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time

import sympy as sp
from memory import peak
from tables import table

import quotax as qx

LIMITS = {"attention": 10, "attention biases": 10, "grouped query": 10, "multi query": 10, "rope": 10, "decoder": 30}
LIMITS |= {"qk norm": 10, "qk norm, eps": 10}
"""Seconds; every other row has three."""


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


def show(block):
    """One line: the time, and what is flat and left over at each assignment of sizes."""
    start = time.perf_counter()
    found = qx.derive(block.model, progress=lambda line: None)
    seconds = time.perf_counter() - start
    audits = [found.audit(**sizes) for sizes, _ in block.flat]
    limit = 30 if block.name in ("decoder with layer norms", "llama", "decoder, fused", "gpt2, a layer") else 60
    flat = "/".join(str(audit.flat) for audit in audits)
    surplus = "/".join(str(audit.surplus) for audit in audits)
    scopes = {found.certificate(family.name).scope for family in found} - {"every width"}
    mark = "".join([", but " + ", ".join(scopes)] * bool(scopes) + ["  over the limit"] * (seconds > limit))
    print(f"{block.name:26}{seconds:9.2f}{limit:7d}{flat:>6}{surplus:>8}  {len(found)}{mark}", flush=True)


AUDITED = {"vocab": 7, "d": 4, "head": 2, "k": 2, "f": 3}
"""Where deep models are audited."""


RANKED = 2500
"""Above so many parameters an audit has no rank."""


def deep(layers):
    """One line about a decoder of so many layers; families are those that are proved, `all` every one of them."""
    model = table("derive.blocks").llama(layers)
    start, busy = time.perf_counter(), time.process_time()
    found = qx.derive(model, budget_seconds=3600, progress=lambda line: None)
    seconds, busy = time.perf_counter() - start, time.process_time() - busy
    memory = peak() / 2**30
    every = all(found.certificate(s.name).scope == "every width" for s in (*found, *found.discrete))
    start = time.perf_counter()
    parameters = model.at(**AUDITED).num_parameters
    surplus = found.audit(**AUDITED).surplus if parameters <= RANKED else "-"
    mark = "" if every and not found.unproved and not found.unsearched else "  not all for every width"
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


def main():
    """Print one line a row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=0, help="also a decoder of this many blocks")
    parser.add_argument("--layers", type=int, nargs="+", default=(), help="LLaMAs of these many layers alone")
    parser.add_argument("--deep", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    arguments = parser.parse_args()
    if arguments.deep or arguments.layers:
        deep(arguments.deep) if arguments.deep else depth(arguments.layers)
        return
    module = table("derive.rows")
    total = 0.0
    polynomial = {"linear", "linear wide-narrow", "u*v", "u^2-v^2", "tied", "cube", "lora"}
    print(f"{'row':24}{'derive':>9}{'limit':>7}{'audit':>9}{'SymPy':>9}  orbit")
    for row in module.ROWS:
        if arguments.only not in row.name:
            continue
        start = time.perf_counter()
        found = qx.derive(row.model, progress=lambda line: None, **row.options)
        derived = time.perf_counter() - start
        start = time.perf_counter()
        audit = found.audit(**row.sizes)
        audited = time.perf_counter() - start
        plain = ""
        if row.name in polynomial and audit.parameters <= 14:
            start = time.perf_counter()
            sympy_route(row.model, row.sizes)
            plain = f"{time.perf_counter() - start:.1f}"
        total += derived
        limit = LIMITS.get(row.name, 3)
        mark = "" if derived < limit else "  over the limit"
        print(f"{row.name:24}{derived:9.2f}{limit:7d}{audited:9.2f}{plain:>9}  {audit.orbit}{mark}", flush=True)
    print(f"{'total':24}{total:9.1f}{240:7d}")
    print(f"\n{'block':26}{'derive':>9}{'limit':>7}{'flat':>6}{'surplus':>8}  families, all for every width")
    blocks, fused = table("derive.blocks"), table("derive.fused")
    for block in (*blocks.BLOCKS, *fused.FUSED, fused.GPT2):
        if arguments.only in block.name:
            show(block)
    if arguments.blocks:
        start = time.perf_counter()
        found = qx.derive(module.decoder(arguments.blocks), progress=print)
        seconds = time.perf_counter() - start
        print(f"{arguments.blocks} blocks: {len(found)} families, {seconds:.0f} s, {peak() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
