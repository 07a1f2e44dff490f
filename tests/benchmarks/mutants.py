"""Random edits of proved claims and of models, each verdict compared with float64 invariance at random points.

    python tests/benchmarks/mutants.py --count 2000 --seed 0

The comparison does not use the prover: it moves parameters by the lowered JAX action and runs the user's function, at
sizes of its own. A "proved" that is numerically false, or a "refuted" that is numerically true, is a failure.
"""

import argparse
import collections
import random
import re
import time

import jax
import jax.numpy as jnp
import numpy as np
from tables import table

import quotax as qx
from quotax.errors import QuotaxError
from quotax.lower import lower_action
from quotax.trees import nest

FALSE_ABOVE, TRUE_BELOW = 1e-6, 1e-9


# --- what numbers say

COMPILED = {}


def runner(model, sizes):
    key = (id(model), tuple(sorted(sizes.items())))
    if key not in COMPILED:
        COMPILED[key] = jax.jit(lambda p, *inputs: model.call(p, *inputs, sizes=sizes))
    return COMPILED[key]


def oracle_sizes(model, group, turn):
    sizes = {axis: 3 + (k + turn) % 3 for k, axis in enumerate(model.axis_names)}
    if (group.axis and group.divisor == 2) or ("k" in sizes and "RoPE" in model.name):
        sizes[group.axis] = 4
    return sizes


def element(group, rng, sizes, first):
    """A random element, not the one that the prover draws.

    In a finite group all draws may happen to be special: six permutations of order two, six signs +1. So the first
    element is a cycle through all places, or -1 with a sign or two to the contrary.
    """
    shape = group.shape(sizes)
    name = type(group).__name__
    if name == "GL":
        return rng.normal(size=shape) * 0.4 + np.eye(shape[-1])
    if name == "O":
        return np.linalg.qr(rng.normal(size=shape))[0]
    if name == "Permutation":
        order = np.roll(np.arange(shape[-1]), 1)
        rows = [np.eye(shape[-1])[order if first else rng.permutation(order)] for _ in range(group.copies(sizes))]
        return np.stack(rows) if group.each else rows[0]
    if name == "ComplexScaling":
        return np.asarray(group.random(jax.random.key(int(rng.integers(2**31))), sizes, 0.5))
    if name == "Translation":
        return rng.normal(size=shape)
    signs = np.where(np.arange(np.prod(shape, dtype=int)) % 3 == 1, 1.0, -1.0).reshape(shape)
    signs = signs if first else rng.choice([-1.0, 1.0], size=shape)
    if name == "SignFlip":
        return signs
    positive = np.exp(0.5 * rng.normal(size=shape))
    return positive * signs if name == "Diagonal" else positive


def largest_difference(model, symmetry, rng):
    worst = 0.0
    for turn in (0, 1):
        sizes = oracle_sizes(model, symmetry.group, turn)
        lowered = lower_action(symmetry.bind(model.params), model.params, sizes)
        run = runner(model, sizes)
        for draw in range(3):
            spread = 3.0 if draw == 2 else 1.0  # where activations that are linear near zero no longer are
            params = {s.name: spread * rng.normal(size=s.shape(sizes)) for s in model.params}
            moved = lowered.act(params, jnp.asarray(element(symmetry.group, rng, sizes, draw == 0)))
            inputs = []
            for s in model.inputs:
                if s.kind == "tokens":
                    inputs.append(rng.integers(0, sizes[s.below], s.shape(sizes)))
                else:
                    inputs.append(spread * rng.normal(size=s.shape(sizes)))
            a = jax.tree.leaves(run(nest(params), *inputs))
            b = jax.tree.leaves(run(nest(moved), *inputs))
            for x, y in zip(map(np.asarray, a), map(np.asarray, b), strict=True):
                if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
                    continue
                worst = max(worst, float(np.max(np.abs(x - y)) / (1e-300 + np.max(np.abs(x)) + np.max(np.abs(y)))))
    return worst


# --- mutants

GROUPS = {
    "matrix": [qx.GL, qx.O, qx.Permutation],
    "diagonal": [qx.PositiveDiagonal, qx.Diagonal, qx.SignFlip],
}


def edited(symmetry, model, source):
    """One random edit of the action or of the group; some edits keep the truth."""
    action, group = dict(symmetry.action), symmetry.group
    kind = source.choice(
        [
            "drop",
            "inverse",
            "uninvert",
            "sign",
            "power",
            "double",
            "group",
            "transpose",
            "automorphism",
            "extra",
            "none",
        ]
    )
    key = source.choice(list(action))
    text = action[key]
    if kind == "drop" and len(action) > 1:
        del action[key]
    elif kind == "inverse":
        action[key] = re.sub(r"(?<![\w(])g(?![\w(])", "inv(g)", text, count=1)
    elif kind == "uninvert":
        action[key] = text.replace("inv(g)", "g", 1)
    elif kind == "sign":
        action[key] = text.replace("+", "~").replace(" - ", " + ").replace("~", "-")
    elif kind == "power":
        action[key] = text.replace("inv(g)", "inv(g)**2") if "**" not in text else text.replace("**2", "**3")
    elif kind == "double":
        action[key] = f"2 {text}" if "[" in key and "+" not in text and " - " not in text else f"2 * ({text})"
    elif kind == "group" and group.layout in GROUPS and type(group) is not qx.ComplexScaling:
        group = source.choice(GROUPS[group.layout])(group.axis, each=group.each)
    elif kind == "transpose":
        action[key] = text.replace("inv(g)", "g.T", 1) if "inv(g)" in text else text.replace("g @", "g.T @", 1)
    elif kind == "automorphism":
        swap = {"inv(g)": "g", "g": "inv(g)"}
        if group.layout != "vector" and ".T" not in str(action.values()):
            action = {k: re.sub(r"inv\(g\)|(?<![\w(])g(?!\w)", lambda m: swap[m.group()], v) for k, v in action.items()}
    elif kind == "extra":
        spec = source.choice(model.params)
        if spec.name not in [k.split("[")[0] for k in action] and group.axis in spec.axis_names and len(spec.axes) == 1:
            action[spec.name] = "b".replace("b", f"g @ {spec.name}" if group.layout == "matrix" else f"g * {spec.name}")
    return qx.Symmetry(f"mutant_{kind}", group, action)


ACTIVATIONS = {
    "relu": jax.nn.relu, "leaky": jax.nn.leaky_relu, "abs": jnp.abs, "tanh": jnp.tanh, "sin": jnp.sin, "cos": jnp.cos,
    "sigmoid": jax.nn.sigmoid, "silu": jax.nn.silu, "gelu": jax.nn.gelu, "elu": jax.nn.elu, "exp": jnp.exp,
    "square": jnp.square, "cube": lambda z: z**3, "softsign": lambda z: z / (1 + jnp.abs(z)), "identity": lambda z: z,
    "relu6": jax.nn.relu6, "hard tanh": jax.nn.hard_tanh, "sign": jnp.sign, "z|z|": lambda z: z * jnp.abs(z),
    "relu squared": lambda z: jax.nn.relu(z) ** 2, "gauss": lambda z: jnp.exp(-z * z), "sinh": jnp.sinh,
    "step": lambda z: jnp.where(z > 0, 1.0, 0.0), "two-sided": lambda z: jax.nn.relu(z) - 0.3 * jax.nn.relu(-z),
    "cbrt": jnp.cbrt, "atan": jnp.arctan, "relu(z)-relu(-z)": lambda z: jax.nn.relu(z) - jax.nn.relu(-z),
    "sqrt|z|": lambda z: jnp.sqrt(jnp.abs(z)), "z tanh z": lambda z: z * jnp.tanh(z), "erf": jax.scipy.special.erf,
}  # fmt: skip


def model_mutants(claims):
    """Networks with activations of all kinds under actions that suit some of them."""
    actions = [
        (qx.PositiveDiagonal("h"), claims.SCALE), (qx.Diagonal("h"), claims.SCALE), (qx.SignFlip("h"), claims.FLIPPED),
        (qx.SignFlip("h"), {"W1": "g @ W1", "b1": "g @ b1"}), (qx.Permutation("h"), claims.PERMUTE),
        (qx.GL("h"), claims.SCALE), (qx.O("h"), claims.PERMUTE),
        (qx.Translation("h"), {"b1": "b1 + g", "W2[y,h]": "W2[y,h] exp(-g[h])"}),
        (qx.PositiveDiagonal("h"), claims.SCALE | {"W2": "W2 @ inv(g)**2"}),
        (qx.Diagonal("h"), claims.SCALE | {"W2": "W2 @ inv(g)**2"}),
        (qx.Translation("h"), {"b1": "b1 + g", "b2": "b2 - W2 @ g"}),
    ]  # fmt: skip
    models = {name: claims.mlp(f) for name, f in ACTIVATIONS.items()}
    for name, model in models.items():
        for group, action in actions:
            yield f"{name} under {group}", model, qx.Symmetry("mutant_model", group, action)
    for eps in (0.0, 1e-3, 0.1):
        for make, source in ((claims.batch_norm, "batch"), (claims.layer_norm, "layer")):
            for group in (qx.PositiveScalar(), qx.Translation()):
                word = "g * {}" if group.layout == "scalar" else "{} + g"
                act = {"b": word.format("b")} | ({"W": "g * W"} if group.layout == "scalar" else {})
                yield f"{source} norm eps={eps} under {group}", make(eps), qx.Symmetry("mutant_model", group, act)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="print every undecided mutant")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    claims = table("certify.claims")
    source, rng = random.Random(options.seed), np.random.default_rng(options.seed)
    fixed = list(model_mutants(claims))
    source.shuffle(fixed)
    base = [row for row in claims.TRUE if not row[0].startswith("decoder")]  # large
    verdicts, truths, wrong, undecided, seen = collections.Counter(), collections.Counter(), [], [], set()
    scopes = collections.Counter()
    start = time.perf_counter()
    made = 0
    while made < options.count:
        if fixed and made % 5 == 0:
            name, model, symmetry = fixed.pop()
        else:
            name, model, symmetry = source.choice(base)
            for _ in range(source.choice([1, 1, 1, 2, 2, 3])):
                try:
                    symmetry = edited(symmetry, model, source)
                except QuotaxError:
                    break
            name = f"{name}: {symmetry.name}"
        key = (id(model), str(symmetry.group), tuple(sorted(symmetry.action.items())))
        if key in seen:
            if len(seen) > 40 * len(base):
                seen.clear()
            continue
        seen.add(key)
        try:
            difference = largest_difference(model, symmetry, rng)
        except QuotaxError:
            continue  # not a claim: the action does not fit the parameters
        truth = "true" if difference < TRUE_BELOW else "false" if difference > FALSE_ABOVE else "unclear"
        certificate = qx.verify(model, symmetry, budget_seconds=10.0, seed=made)
        made += 1
        verdicts[certificate.status] += 1
        truths[truth, certificate.status] += 1
        scopes[
            certificate.scope if certificate.status == "proved" and "every" in certificate.scope else certificate.status
        ] += 1
        if (certificate.status, truth) in (("proved", "false"), ("refuted", "true")):
            wrong.append(f"{certificate.status} but numerically {truth} ({difference:.2g}): {name}: {symmetry}")
            print("WRONG", wrong[-1], flush=True)
        if certificate.status == "undecided":
            undecided.append(f"{name}: {symmetry}: {certificate.residual}")
            if options.show:
                print("UNDECIDED", truth, undecided[-1][:600], flush=True)
        if made % 250 == 0:
            print(f"{made} mutants, {time.perf_counter() - start:.0f} s: {dict(verdicts)}", flush=True)
    print(f"\nseed {options.seed}, {made} mutants in {time.perf_counter() - start:.0f} s")
    for (truth, status), count in sorted(truths.items()):
        print(f"  numerically {truth:8s} {status:10s} {count}")
    print(f"  scopes: {dict(scopes)}")
    print(f"  wrong verdicts: {len(wrong)}")
    print(f"  undecided: {len(undecided)} ({100 * len(undecided) / made:.2f} %)")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
