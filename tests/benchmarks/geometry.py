"""How long projections take at real sizes: `python tests/benchmarks/geometry.py [--smoke]`.

Every network is measured in a process of its own, in float32. Times are given as multiples of one pass over the
parameters (`x * 1.0000001`, jitted), measured beside; memory as a multiple of the parameters, beyond them; in brackets
what is aimed at. The residual is the vertical part left in a horizontal vector, computed in NumPy in float64, relative
to the vector.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

from memory import peak, resident, trim

LIMITS = {
    "mlp": {"project": 6, "factor": 40, "memory": 5},
    "gpt2 heads": {"project": 12, "factor": 40, "memory": 5},
    "gpt2 gains": {"project": 12, "factor": 40, "memory": 5},
}
"""The multiples that are aimed at, at full size."""

GPT2 = {"blocks": 12, "d": 768, "head": 12, "k": 64, "f": 3072, "vocab": 50257, "t": 1024}
SIZES = {
    "mlp": {"layers": 5, "x": 784, "h1": 1165, "h2": 1165, "h3": 1165, "h4": 1165, "y": 10},
    "gpt2 heads": GPT2,
    "gpt2 gains": GPT2,
    "rms residual": GPT2 | {"blocks": 1, "vocab": 1000},
}
SMALL_GPT2 = {"blocks": 2, "d": 96, "head": 3, "k": 32, "f": 192, "vocab": 100, "t": 16}
SMALL = {
    "mlp": {"layers": 5, "x": 20, "h1": 300, "h2": 300, "h3": 300, "h4": 300, "y": 10},
    "gpt2 heads": SMALL_GPT2,
    "gpt2 gains": SMALL_GPT2,
    "rms residual": SMALL_GPT2,
}


def build(name, sizes):
    """The sized network, and its quotient; a symmetry of every kind is verified first."""
    import networks

    import quotax as qx
    from quotax.geometry import QuotientSpace
    from quotax.geometry.metrics.euclidean import Euclidean
    from quotax.lower import lower_action

    sizes = dict(sizes)
    if name == "mlp":
        layers = sizes.pop("layers")
        model, claims = networks.relu_mlp(layers)
        small, verified = networks.relu_mlp(2)
    else:
        blocks = sizes.pop("blocks")
        make = networks.rms_decoder if name == "rms residual" else networks.gpt2
        model, claims, more = make(blocks)
        small, verified, more_verified = make(1)
        if name != "gpt2 heads":
            claims, verified = claims + more, verified + more_verified
    # Every block (every layer) has the same symmetries: those of the first are verified, on a network of one.
    proofs = {}
    for symmetry in verified:
        proofs[kind(symmetry.name)] = certificate = qx.verify(small, symmetry)
        assert certificate, certificate
    network = model.at(**sizes)
    families = [lower_action(claim.bind(model.params), model.params, network.sizes) for claim in claims]
    certificates = [proofs[kind(claim.name)] for claim in claims]
    # What `qx.quotient` makes, without asking whether the metric is invariant: the Euclidean one is not.
    refuted = lambda: qx.Certificate("the euclidean metric is invariant", "refuted", "not asked here")
    return network, QuotientSpace(network, model.params, families, certificates, Euclidean(families), refuted)


def kind(name):
    """The name of a symmetry without the number of its block or layer."""
    return "".join(letter for letter in name if not letter.isdigit())


def alternating(*calls, repeats=15):
    """The median times of calls that are compiled, one after the other in turn: all find the caches as the others left
    them, where a call repeated by itself would find its own arrays."""
    import jax

    times = [[] for _ in calls]
    for _ in range(repeats + 1):
        for call, own in zip(calls, times, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(call())
            own.append(time.perf_counter() - start)
    return [sorted(own[1:])[repeats // 2] for own in times]


def prepared(name, sizes):
    """The sized network, its space, parameters and a vector; projections compiled, which took so many seconds."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from quotax.trees import nest

    network, space = build(name, sizes)
    rng = np.random.default_rng(0)

    def draw():
        arrays = {}
        for key, shape in network.shapes.items():
            scale = 1 / shape[-1] ** 0.5 if len(shape) > 1 else 1.0
            arrays[key] = jnp.asarray(rng.standard_normal(shape, np.float32) * np.float32(scale))
        return nest(arrays)

    params, v = draw(), draw()
    start = time.perf_counter()
    jax.block_until_ready(space.at(params).horizontal(v))
    return network, space, params, v, time.perf_counter() - start


def factored(space, params):
    """The factored point, made anew: a space remembers the last one."""
    space._last._forget()
    return space.at(params)


def measure(name, sizes):
    """One row: times, residual."""
    import jax

    network, space, params, v, compiling = prepared(name, sizes)
    count = network.num_parameters
    copy = jax.jit(lambda x: jax.tree.map(lambda a: a * 1.0000001, x))
    point = space.at(params)
    repeats = 45 if count < 1e7 else 7
    passing, once = alternating(lambda: copy(params), lambda: point.horizontal(v), repeats=repeats)
    (factoring,) = alternating(lambda: factored(space, params), repeats=5)
    return {
        "name": name,
        "parameters": count,
        "algebra": space.algebra_dim,
        "pass ms": 1e3 * passing,
        "project": once / passing,
        "factor": factoring / passing,
        "compile s": compiling,
        "residual": residual(space, params, v, point.horizontal(v)),
    }


def memory(name, sizes):
    """What factoring and one projection hold at most beyond the parameters, the projected vector included."""
    import jax

    network, space, params, v, _ = prepared(name, sizes)
    trim()
    before = resident() - 4 * network.num_parameters
    jax.block_until_ready(space.at(params).horizontal(v))
    return {"memory": (peak() - before) / (4 * network.num_parameters)}


def beside(row, what):
    """A measured multiple and, in brackets, its limit; nothing where a smoke test has not measured it."""
    limit = LIMITS.get(row["name"], {}).get(what)
    return f"{row[what]:7.1f}x {f'({limit})' if limit else '':4s}" if what in row else f"{'-':>13s}"


def dense(small):
    """Beside it, on a size it can finish: NumPy's QR of all fields of a small MLP, and the projection with its Q."""
    import jax
    import numpy as np

    from quotax.trees import nest

    width = 20 if small else 100
    network, space = build("mlp", {"layers": 5, "x": 20, **dict.fromkeys(("h1", "h2", "h3", "h4"), width), "y": 10})
    rng = np.random.default_rng(0)
    draw = lambda: nest({key: rng.standard_normal(shape, np.float32) for key, shape in network.shapes.items()})
    params, v = draw(), draw()
    point = space.at(params)
    (part,) = space._parts
    columns = jax.vmap(lambda c: part.field(point.arrays, c), out_axes=-1)(np.eye(part.dimension, dtype=np.float32))
    matrix = np.concatenate([np.asarray(columns[key]).reshape(-1, part.dimension) for key in part.moved])
    vector = np.concatenate([np.asarray(v[key]).ravel() for key in part.moved])
    basis = np.linalg.qr(matrix)[0]
    times = {
        "factoring": alternating(lambda: np.linalg.qr(matrix)[0], lambda: factored(space, params)),
        "projection": alternating(lambda: vector - basis @ (basis.T @ vector), lambda: point.horizontal(v)),
    }
    shown = "; ".join(f"{what} {1e3 * a:.1f} ms by dense QR, {1e3 * b:.1f} ms here" for what, (a, b) in times.items())
    print(f"{network.num_parameters:,} parameters, {part.dimension} fields: {shown}")


GEOMSTATS = """
import sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
np.trapz = np.trapezoid  # geomstats' numpy backend imports what numpy 2.4 dropped
from geomstats.geometry.rank_k_psd_matrices import PSDBuresWassersteinMetric, PSDMatrices
data = np.load(sys.argv[1])
base = PSDMatrices(*data["point"].shape, equip=False)
base.equip_with_metric(PSDBuresWassersteinMetric)
project = lambda: base.metric._total_space.fiber_bundle.horizontal_projection(data["vector"], data["point"])
result, times = project(), []
for _ in range(7):
    start = time.perf_counter()
    project()
    times.append(time.perf_counter() - start)
np.savez(sys.argv[2], result=result, seconds=sorted(times)[3])
"""
"""The horizontal projection of matrices divided by rotations, as geomstats has it, on its numpy backend."""


def geomstats(small):
    """Beside it, on what geomstats has built in: matrices divided by O(k), in a process with its numpy backend."""
    import tempfile

    import jax
    import numpy as np

    import quotax as qx

    @qx.architecture(params={"W": "h x"}, inputs={"x": "x"})
    def tied(p, x):
        return p["W"].T @ (p["W"] @ x)

    n, k = (40, 5) if small else (2000, 64)
    rotation = qx.Symmetry("rotate", qx.O("h"), {"W": "g @ W"})
    space = qx.quotient(tied.at(h=k, x=n), rotation, "euclidean")
    rng = np.random.default_rng(0)
    point, vector = (rng.standard_normal((n, k)) for _ in range(2))
    with tempfile.TemporaryDirectory() as folder, jax.enable_x64(True):
        np.savez(f"{folder}/in.npz", point=point, vector=vector)
        command = [sys.executable, "-c", GEOMSTATS, f"{folder}/in.npz", f"{folder}/out.npz"]
        subprocess.run(command, check=True, env=os.environ | {"GEOMSTATS_BACKEND": "numpy"}, capture_output=True)
        theirs = dict(np.load(f"{folder}/out.npz"))
        params, v = {"W": jax.numpy.asarray(point.T)}, {"W": jax.numpy.asarray(vector.T)}
        whole = jax.jit(space.horizontal)
        factored = space.at(params)
        ours, again = alternating(lambda: whole(params, v), lambda: factored.horizontal(v))
        gap = np.abs(np.asarray(whole(params, v)["W"]).T - theirs["result"]).max()
    print(
        f"{n} x {k} matrices by O({k}), float64: {1e3 * theirs['seconds']:.1f} ms by geomstats on numpy, "
        f"{1e3 * ours:.1f} ms here, {1e3 * again:.1f} ms at a factored point; largest difference {gap:.0e}"
    )


def residual(space, params, v, h):
    """`|vertical(h)| / |v|` in float64: by the same code where the parameters are many, with an independent norm."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from quotax.trees import named

    with jax.enable_x64(True):
        wide = lambda tree: {key: jnp.asarray(np.asarray(a, np.float64)) for key, a in named(tree).items()}
        point = space.at(wide(params))
        left = point.vertical(wide(h))
        size = lambda tree: np.sqrt(sum(float(np.sum(np.asarray(a, np.float64) ** 2)) for a in jax.tree.leaves(tree)))
        return size(left) / size(v)


def output(command, environment):
    """The lines that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout.splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small sizes, as in CI")
    parser.add_argument("--row", help="measure one row here and print it as JSON")
    parser.add_argument("--memory", action="store_true", help="with --row: its memory, and not its times")
    parser.add_argument("rows", nargs="*", help="the rows to measure; all of them by default")
    arguments = parser.parse_args()
    table = SMALL if arguments.smoke else SIZES
    if arguments.row == "dense":
        dense(arguments.smoke)
        return
    if arguments.row == "geomstats":
        geomstats(arguments.smoke)
        return
    if arguments.row:
        what = memory if arguments.memory else measure
        print(json.dumps(what(arguments.row, table[arguments.row])))
        return
    print(
        f"{'network':14s} {'parameters':>11s} {'algebra':>8s} {'pass':>9s}  project        factor        memory       "
        f"{'residual':>9s} {'compile':>8s}"
    )
    weighed = False
    for name in arguments.rows or [*table, "dense", "geomstats"]:
        command = [sys.executable, __file__, "--row", name, *(["--smoke"] if arguments.smoke else [])]
        # LAPACK's threads and XLA's get in each other's way: 144 eigenvalue problems of size 64 take 40 times longer.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        lines = output(command, environment)
        if name in ("dense", "geomstats"):
            print(lines[-1])
            continue
        row = json.loads(lines[-1])
        if not (arguments.smoke and weighed):  # one row shows that the code runs
            # Arrays that are given back are to leave the process, where malloc would keep them for the next.
            held = output([*command, "--memory"], environment | {"MALLOC_MMAP_THRESHOLD_": "65536"})
            row |= json.loads(held[-1])
            weighed = True
        limits = {} if arguments.smoke else LIMITS.get(name, {})
        over = [what for what, limit in limits.items() if row[what] > limit]
        print(
            f"{name:14s} {row['parameters']:11,d} {row['algebra']:8,d} {row['pass ms']:6.1f} ms "
            f"{beside(row, 'project')} {beside(row, 'factor')} {beside(row, 'memory')} "
            f"{row['residual']:9.1e} {row['compile s']:6.1f} s{'  over: ' + ', '.join(over) if over else ''}",
            flush=True,
        )
    if arguments.smoke:
        print("The limits in brackets are those of full size; here nothing is held to them.")


if __name__ == "__main__":
    main()
