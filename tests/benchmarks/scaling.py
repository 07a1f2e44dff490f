"""What each stage costs as models grow: `python tests/benchmarks/scaling.py [--measure | --least]`.

Without arguments it prints what the cost model of docs/scaling.md predicts for decoders of 1, 70 and 400 billion
parameters whose parameters are split over devices (`space.shard`). `--measure` prints the points that the constants
below were read off, on this machine: how long derivations take by depth, and projections and factorings, as multiples
of a pass over the parameters (`geometry.py`). `--least` prints what rotations of a stream cost at least: BLAS and
LAPACK alone, on one thread, in processor time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

BYTES = 4
"""Of a number: curvature is measured in float32."""

DERIVING = (7.0, 0.8)
"""Seconds of one processor for a decoder as LLaMA has it: at the start, and for a layer. Measured at 2 to 32 layers."""
PROJECTING = 12
"""Passes over the parameters for a projection: heads, gains, units. The most that was measured, and the limit."""
FACTORING = 70
"""Passes for a factoring of the same. The most that was measured above five million parameters."""
ROTATION = (5, 20)
"""Products of the parameters with a matrix of the stream's width, for a projection and for a factoring that rotations
take part in. Read off 176 and 705 passes at a width of 768, where such a product takes some 35 passes here."""
VECTORS = 8
"""Of the size of the parameters, held by a search. Measured: the limit of peak_memory.py."""
GRADIENTS = 120
"""Spent by a search. Measured on digits, of at most 200."""
BASIS = 160
"""Products of a spectrum with k = 5, and twice as many vectors held: the default, 20 k + 60."""
TOKENS = 2**20
"""In the batch on which the loss is measured."""


@dataclass(frozen=True)
class Decoder:
    """A decoder by its parameters, layers and the width of its stream."""

    name: str
    parameters: float
    layers: int
    width: int


@dataclass(frozen=True)
class Machine:
    """A device: operations and bytes of its memory in a second, what it holds, bytes from other devices in a second."""

    operations: float = 1e14
    memory: float = 2e12
    holds: float = 80e9
    link: float = 1e11


DECODERS = (
    Decoder("1 B", 1e9, 16, 2048),
    Decoder("70 B", 70e9, 80, 8192),
    Decoder("400 B", 405e9, 126, 16384),
)


@dataclass(frozen=True)
class Prediction:
    """Seconds of each stage on so many devices, and the bytes that a search and a spectrum hold."""

    devices: int
    derive: float
    factor: float
    project: float
    gradient: float
    traffic: float
    search: float
    spectrum: float
    search_bytes: float
    spectrum_bytes: float

    @property
    def overhead(self) -> float:
        """What the quotient adds to a step."""
        return self.project / (self.gradient + self.traffic)


def devices(decoder: Decoder, machine: Machine, vectors: int) -> int:
    """The least power of two of devices that hold so many vectors, with half of their memory left for activations."""
    needed, count = vectors * BYTES * decoder.parameters / (0.5 * machine.holds), 1
    while count < needed:
        count *= 2
    return count


def predicted(decoder: Decoder, machine: Machine, count: int) -> Prediction:
    """Every stage, with parameters and batch split evenly over `count` devices."""
    size = BYTES * decoder.parameters
    a_pass = 2 * size / count / machine.memory
    product = 2 * decoder.parameters * decoder.width / count / machine.operations
    shared = decoder.width**2 * BYTES / machine.link * 2  # a Gram matrix, added over the devices
    factor = FACTORING * a_pass + ROTATION[1] * (product + shared) + 20 * decoder.width**3 / machine.operations
    project = PROJECTING * a_pass + ROTATION[0] * (product + shared)
    gradient = 6 * decoder.parameters * TOKENS / count / machine.operations
    # Gathered for the way there and for the way back, and gradients scattered: each device sees every parameter thrice.
    traffic = 0.0 if count == 1 else 3 * size / machine.link
    step = gradient + traffic + project
    product_of_hessian = 2 * (gradient + traffic) + 2 * project
    reorthogonalised = 2 * BASIS * size / count / machine.memory
    return Prediction(
        devices=count,
        derive=DERIVING[0] + DERIVING[1] * decoder.layers,
        factor=factor,
        project=project,
        gradient=gradient,
        traffic=traffic,
        search=factor + GRADIENTS * step,
        spectrum=factor + BASIS * (product_of_hessian + reorthogonalised),
        search_bytes=VECTORS * size,
        spectrum_bytes=2 * BASIS * size,
    )


def table() -> list[str]:
    """The rows of the page."""
    machine = Machine()
    rows = []
    for decoder in DECODERS:
        for count in dict.fromkeys((devices(decoder, machine, VECTORS), devices(decoder, machine, 2 * BASIS))):
            p = predicted(decoder, machine, count)
            fits = p.spectrum_bytes <= 0.5 * count * machine.holds
            cells = [decoder.name, f"{count:,}", *(_time(s) for s in (p.derive, p.factor, p.project))]
            cells += [*(_time(s) for s in (p.gradient, p.traffic)), f"{p.overhead:.0%}", _time(p.search)]
            cells += [_time(p.spectrum) if fits else f"needs {p.spectrum_bytes / 1e12:.3g} TB"]
            rows.append(f"| {' | '.join(cells)} |")
    return rows


def _time(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if seconds >= 2 * length or unit == "s":
            return f"{seconds / length:.2g} {unit}" if seconds / length < 100 else f"{seconds / length:.0f} {unit}"
    raise AssertionError


POINTS = {
    "heads, gains, units: GPT-2": [
        ("gpt2 gains", {"blocks": b, "d": 64 * h, "head": h, "k": 64, "f": 256 * h, "vocab": 4000, "t": 64})
        for b, h in ((2, 4), (4, 6), (6, 8))
    ],
    "units: an MLP": [
        ("mlp", {"layers": 5, "x": 784, "h1": n, "h2": n, "h3": n, "h4": n, "y": 10}) for n in (300, 600, 1165)
    ],
    "rotations of the stream": [
        ("rms residual", {"blocks": 1, "d": 64 * h, "head": h, "k": 64, "f": 256 * h, "vocab": 1000, "t": 64})
        for h in (2, 4, 6)
    ],
}


DERIVE = """
import time, quotax as qx
from memory import peak
from quotax.catalogue.transformers.llama import llama
model, start = llama({layers}), time.process_time()
found = qx.derive(model, budget_seconds=3600, progress=lambda line: None)
seconds = time.process_time() - start
assert all(found.certificate(s.name).scope == "every width" for s in (*found, *found.discrete))
print(f"{layers:8}{{seconds:12.1f}}{{len(found) + len(found.discrete):10}}{{peak() / 2**30:8.2f}}")
"""

PROJECT = "import json, geometry; print(json.dumps(geometry.measure({name!r}, {sizes!r})))"


def measure() -> None:
    """The points, each in a process of its own."""
    print(f"decoders as LLaMA has them\n{'layers':>8}{'derive, CPU s':>14}{'families':>10}{'GiB':>8}", flush=True)
    for layers in (2, 4, 8, 16, 32):
        print(_output(DERIVE.format(layers=layers)), flush=True)
    for title, cases in POINTS.items():
        print(f"\n{title}\n{'parameters':>12}{'width':>8}{'project':>10}{'factor':>10}", flush=True)
        for name, sizes in cases:
            row = json.loads(_output(PROJECT.format(name=name, sizes=sizes)))
            width = sizes.get("d", sizes.get("h1"))
            print(f"{row['parameters']:12,}{width:8}{row['project']:9.1f}x{row['factor']:9.0f}x", flush=True)


LEAST = """
import time, numpy as np, scipy.linalg
from threadpoolctl import threadpool_limits
draw = lambda *shape: np.random.default_rng(0).standard_normal(shape).astype(np.float32)

def least(call, repeats):
    times = []
    for _ in range(repeats + 1):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times[1:])

with threadpool_limits(1):
    for d in (128, 256, 512, 768):
        arrays = [draw(rows, d) for rows in (1000, 1024, 1000, d, d, d, d, 4 * d, 4 * d)]  # E, P, U, Q, K, V, O, W1, W2
        count, g, out = sum(a.size for a in arrays), draw(d, d), [np.empty_like(a) for a in arrays]
        square = g @ g.T
        once = least(lambda: [np.multiply(a, np.float32(1.0000001), out=o) for a, o in zip(arrays, out)], 15)
        calls = {
            "velocity": lambda: [np.matmul(a, g, out=o) for a, o in zip(arrays, out)],
            "covelocity": lambda: sum(a.T @ o for a, o in zip(arrays, out)),
            "eigenvectors": lambda: scipy.linalg.eigh(square, driver="evd"),
            "two products": lambda: g.T @ g @ g,
        }
        shown = ", ".join(f"{name} {least(call, 4) / once:.1f}" for name, call in calls.items())
        print(f"d = {d}, {count:,} parameters: a pass {1e3 * once:.2f} ms; passes: {shown}", flush=True)
"""


def _output(code: str) -> str:
    """The last line that a program prints, which finds the benchmarks beside it."""
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout.splitlines()[-1]


def main() -> None:
    """Predictions, or points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--least", action="store_true")
    chosen = parser.parse_args()
    if chosen.measure:
        measure()
    elif chosen.least:
        subprocess.run([sys.executable, "-c", LEAST], check=True)
    else:
        print("\n".join(table()))


if __name__ == "__main__":
    main()
