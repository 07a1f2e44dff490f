"""How long a user waits for the first number: the first and the second duration of each public call.

python tests/benchmarks/first_number.py                      everything: about 20 minutes, more where rows time out
python tests/benchmarks/first_number.py --only mlp:trace     one row; `mlp` is all rows of a network, `:trace` of a call
python tests/benchmarks/first_number.py --only import        what `import quotax` takes, beside jax and sympy
python tests/benchmarks/first_number.py --smoke              two calls, not held to their limits

A row is measured cold, in a process of its own that keeps no compiled programs. What comes before it is done there
first: imports, `derive`, training, the quotient, the gradient of the loss. The unit is the time that
`jit(value_and_grad(loss))` takes to compile in that process; (first - second) is given in units, with its limit in
brackets, and the second call in what it spends: gradients, the loss's Hessian-vector products, another call. Where
that has a limit it is the median of the second, third and fourth call, each beside what it is measured in.
The last line is the import, in fresh processes: the best of five, interleaved with those of jax and sympy.
The exit status is 1 when a row is above a limit, or over `--timeout`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

FIRST = {
    "horizontal": 4,
    "full": 6,
    "quotient": 8,
    "spectrum": 8,
    "trace": 5,
    "average": 6,
    "profile": 8,
    "alignment": 10,
    "dist": 12,
    "geodesic": 25,
}
"""Limits of (first - second), in compile times of the loss with its gradient."""

SECOND = {"horizontal": 5, "spectrum": 2, "trace": 2, "average": 2, "geodesic": 20}
"""Limits of the second call: `horizontal` in gradients, `geodesic` in second calls of `quotient`, the others in what
they report to have spent."""

IMPORT = 1.25
"""Limit of `import quotax`, in what jax and sympy take together."""

SIZES = {
    "mlp": {"x": 64, "h1": 64, "h2": 64, "y": 10},
    "attention": {"row": 8, "pixel": 8, "d": 16, "head": 2, "k": 8, "f": 32, "y": 10},
    "cnn": {"in": 1, "c": 8, "e": 16, "y": 10},
    "tiny": {"x": 64, "h1": 4, "y": 10},
}
EXAMPLES, RADIUS, RADII = 512, 0.5, (0.1, 0.5, 2.0)
STEPS = 200
"""Of training: two networks, from different seeds."""


# --- one row, in a process of its own


class Row:
    """Everything that a call needs; made before anything is timed."""

    def __init__(self, name):
        """Derive, train twice, build the quotient."""
        import digits
        import jax
        import jax.numpy as jnp
        import networks
        import optax

        import quotax as qx

        model = {
            "mlp": lambda: networks.relu_mlp(3)[0],
            "attention": networks.rms_block,
            "cnn": networks.small_cnn,
            "tiny": lambda: networks.relu_mlp(2)[0],
        }[name]()
        images, labels = digits.digits()
        images = images.reshape(-1, *{"attention": (8, 8), "cnn": (1, 8, 8)}.get(name, (64,)))
        net = model.at(**SIZES[name])

        def loss(params, batch):
            x, y = batch
            logits = jax.vmap(net, (None, 0))(params, x)
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

        train = lambda seed: digits.adam(loss, net.init(jax.random.key(seed)), STEPS, images, labels)
        self.loss, self.params, self.other = loss, train(1), train(2)
        self.batch = images[:EXAMPLES], labels[:EXAMPLES]
        found = qx.derive(model, progress=lambda line: None)
        self.space = qx.quotient(net, found, "invariant")
        self.direction = jax.tree.map(jnp.subtract, self.other, self.params)
        self.parameters = net.num_parameters
        self.gradient = jax.jit(jax.value_and_grad(loss))

    def unit(self):
        """The seconds that tracing and compiling the loss with its gradient take."""
        start = time.perf_counter()
        self.gradient.lower(self.params, self.batch).compile()
        return time.perf_counter() - start

    def call(self, name):
        """The public call, with nothing left to do when it returns."""
        import jax

        import quotax as qx

        there = {"batch": self.batch, "space": self.space}
        at, quiet = (self.loss, self.params), {"progress": lambda line: None}
        return jax.block_until_ready(
            {
                "horizontal": lambda: self.space.horizontal(self.params, self.direction),
                "full": lambda: qx.sharpness(*at, RADIUS, batch=self.batch, **quiet),
                "quotient": lambda: qx.sharpness(*at, RADIUS, **there, **quiet),
                "spectrum": lambda: qx.spectrum(*at, **there),
                "trace": lambda: qx.trace(*at, **there),
                "average": lambda: qx.average_sharpness(*at, RADIUS, **there),
                "profile": lambda: qx.profile(*at, RADII, **there),
                "alignment": lambda: self.space.alignment(self.other, self.params),
                "dist": lambda: self.space.dist(self.params, self.other),
                "geodesic": lambda: qx.sharpness(*at, RADIUS, **there, **quiet, ball="geodesic"),
            }[name]()
        )

    def spent(self, name, found, gradient):
        """What the second call is held against: seconds, and in words."""
        import jax

        if name == "geodesic":
            self.call("quotient")
            seconds, _ = timed(lambda: self.call("quotient"))
            return seconds, "linear balls"
        if name in ("trace", "spectrum", "average"):
            derivative = jax.grad(self.loss)
            along = jax.jit(lambda p, v, b: jax.jvp(lambda p: derivative(p, b), (p,), (v,))[1])
            product = often(lambda: along(self.params, self.direction, self.batch))
            if name != "average":
                return product * found.products, f"{found.products} products"
            alone = jax.jit(self.loss)
            # The prediction's trace is Hutch++ with its default number of products, which is not reported.
            return often(lambda: alone(self.params, self.batch)) * found.samples + 120 * product, "losses and products"
        if name in ("full", "quotient", "profile"):
            return gradient * found.evaluations, f"{found.evaluations} gradients"
        return gradient, "gradients"


def timed(call):
    """Seconds, and what came back."""
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def often(call, repeats=15):
    """The median seconds of a compiled call."""
    import jax

    run = lambda: timed(lambda: jax.block_until_ready(call()))[0]
    run()
    return statistics.median(run() for _ in range(repeats))


def measure(network, name):
    """Print a line of JSON for each thing that is known, as soon as it is: what a time-out leaves can be read."""
    tell = lambda **known: print(json.dumps(known), flush=True)
    row = Row(network)
    unit = row.unit()
    gradient = often(lambda: row.gradient(row.params, row.batch))
    tell(parameters=row.parameters, unit=unit, gradient=gradient)
    first, _ = timed(lambda: row.call(name))
    tell(first=first)
    second, found = timed(lambda: row.call(name))
    tell(second=second)
    share, words = row.spent(name, found, gradient)
    ratios = [second / share]
    if name in SECOND and second < 5:  # beside each other, because machines are noisy: the median of three
        for _ in range(2):
            again, found = timed(lambda: row.call(name))
            ratios.append(again / row.spent(name, found, gradient)[0])
    tell(spent=statistics.median(ratios), words=words)


# --- the table


def cold(network, name, timeout):
    """What a fresh process finds out about a row, and why it says no more."""
    environment = {key: value for key, value in os.environ.items() if key != "JAX_COMPILATION_CACHE_DIR"}
    command = [sys.executable, __file__, "--row", f"{network}:{name}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, timeout=timeout or None
        )
        lines, why = done.stdout, "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
    except subprocess.TimeoutExpired as late:
        said = late.stdout or ""  # bytes on some systems, whatever was asked for
        lines = said.decode() if isinstance(said, bytes) else said
        why = f"no answer in {timeout:g} s"
    known = {}
    for line in lines.splitlines():
        known |= json.loads(line)
    return known, why


def show(network, name, known, why, smoke=False):
    """Print a row; whether it is within its limits."""
    seconds = lambda what: f"{known[what]:8.2f} s" if what in known else f"{'-':>10}"
    units = "-"
    within = not why
    if "second" in known:
        waited = (known["first"] - known["second"]) / known["unit"]
        within = within and waited <= FIRST[name]
        units = f"{waited:.1f} ({FIRST[name]})"
    spent = ""
    if "spent" in known:
        limit = SECOND.get(name)
        within = within and (limit is None or known["spent"] <= limit)
        spent = f"{known['spent']:.1f}{f' ({limit})' if limit else ''} x {known['words']}"
    unit = f"{known['unit']:6.2f} s" if known else f"{'-':>8}"
    gradient = f"{1e3 * known['gradient']:6.2f} ms" if known else f"{'-':>9}"
    print(
        f"{network:10}{name:11}{unit}{gradient}{seconds('first')}{seconds('second')}{units:>14}  {spent:32}"
        f"{'' if smoke else 'ok' if within else 'ABOVE'}{f': {why}' if why else ''}",
        flush=True,
    )
    return within


def imports():
    """Print what an import takes, and what every public name with its room does; whether the first is in its limit."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    run = lambda code: timed(lambda: subprocess.run([sys.executable, "-c", code], check=True, env=environment))[0]
    codes = (
        "import jax, jax.numpy, sympy",
        "import jax, jax.numpy, sympy, quotax",
        "import quotax; [getattr(quotax, name) for name in quotax.__all__]",
    )
    run(codes[-1])  # compiles bytecode, warms the file cache
    rounds = [[run(code) for code in codes] for _ in range(5)]
    alone, ours, rooms = (min(column) for column in zip(*rounds, strict=True))
    within = ours <= IMPORT * alone
    print(
        f"import: jax and sympy {alone:.2f} s, with quotax {ours / alone:.2f} ({IMPORT}) times that "
        f"{'ok' if within else 'ABOVE'}; with every public name {rooms / alone:.2f} times"
    )
    return within


def rows(only):
    """Networks and calls that a selection names; each part may be empty."""
    network, _, call = only.partition(":")
    known = [name for name in SIZES if name != "tiny"]
    if (network and network not in known) or (call and call not in FIRST):
        sys.exit(f"--only {only!r}: networks are {', '.join(known)}; calls are {', '.join(FIRST)}.")
    return [(n, c) for n in known for c in FIRST if network in ("", n) and call in ("", c)]


def main():
    """Print the table, or measure one row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="NETWORK:CALL, or one of them; may be given several times")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for a row, its set-up included; 0: none")
    parser.add_argument("--smoke", action="store_true", help="two calls, for CI")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        measure(*options.row.split(":"))
        return
    named = [only for only in options.only or [""] if only != "import"]
    smoke = [("tiny", "quotient"), ("attention", "trace")]
    chosen = smoke if options.smoke else [row for only in named for row in rows(only)]
    heads = f"{'unit':>8}{'gradient':>9}{'first':>10}{'second':>10}{'units (limit)':>14}"
    print(f"{'network':10}{'call':11}{heads}  second call")
    above = 0
    for network, name in chosen:
        known, why = cold(network, name, options.timeout)
        above += not show(network, name, known, why, options.smoke)
        if options.smoke and why:
            sys.exit(1)
    if options.smoke:
        print("A smoke test: nothing is held to its limit.")
        return
    if chosen:
        print(f"{len(chosen) - above} of {len(chosen)} rows within their limits")
    late = (not options.only or "import" in options.only) and not imports()
    sys.exit(above > 0 or late)


if __name__ == "__main__":
    main()
