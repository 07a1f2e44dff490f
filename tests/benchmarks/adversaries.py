"""The kinds of claims of `adversarial.py`: what they are drawn from, one function a kind.

Most are `D(b, c, n)` on two vectors of one axis, in a table with the actions that suit it: some rows are invariant,
some nearly. Nothing here says which; float64 does. `n` holds the numbers of a claim: thresholds, moduli, coefficients.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tables import table

import quotax as qx

gated, claims = table("certify.gated"), table("certify.claims")
S = qx.Symmetry


def pick(rng, options):
    options = list(options)
    return options[int(rng.integers(len(options)))]


def chance(rng, probability):
    return bool(rng.random() < probability)


class Numbers:
    """The numbers of one claim: `t` a threshold, `m` a modulus, `k` a small integer, `a` a coefficient, `f` a map."""

    def __init__(self, rng):
        self.t = int(pick(rng, (1, 2, 3, 7, 17, 23, 33, 50, 60, 64, 100, 127, 128)))
        self.m = int(pick(rng, (2, 3, 7, 24, 50, 64, 100)))
        self.k = int(rng.integers(1, 4))
        self.a = float(pick(rng, (0.5, -1.5, 2.0, 0.3, -1.0)))
        self.label, self.f = pick(rng, MAPS.items())
        self.reverse = chance(rng, 0.4)
        self.dtype = pick(rng, (jnp.float32, jnp.bfloat16, jnp.float16))

    def __str__(self):
        return f"t={self.t} m={self.m} k={self.k} a={self.a} f={self.label} reverse={self.reverse}"


MAPS = {
    "identity": lambda z: z, "relu": jax.nn.relu, "abs": jnp.abs, "tanh": jnp.tanh, "square": jnp.square,
    "cube": lambda z: z**3, "sin": jnp.sin, "cos": jnp.cos, "sigmoid": jax.nn.sigmoid, "gelu": jax.nn.gelu,
    "leaky": jax.nn.leaky_relu, "softsign": jax.nn.soft_sign, "clip": lambda z: jnp.clip(z, -1.0, 1.0),
    "exp": lambda z: jnp.exp(0.1 * z), "round": jnp.round, "sign": jnp.sign,
}  # fmt: skip

# --- actions on two vectors b and c of one axis

VECTORS = {"b": "h", "c": "h"}
PERM, POS, DIAG, FLIP = qx.Permutation("h"), qx.PositiveDiagonal("h"), qx.Diagonal("h"), qx.SignFlip("h")
SHIFT, ALL, NUMBER = qx.Translation("h"), qx.Translation(), qx.PositiveScalar()
ACTIONS = {
    "perm b": (PERM, {"b": "g @ b"}),
    "perm both": (PERM, {"b": "g @ b", "c": "g @ c"}),
    "perm apart": (PERM, {"b": "g @ b", "c": "g.T @ c"}),
    "shift b": (SHIFT, {"b": "b + g"}),
    "shift apart": (SHIFT, {"b": "b + g", "c": "c - g"}),
    "shift both": (SHIFT, {"b": "b + g", "c": "c + g"}),
    "shift all b": (ALL, {"b": "b + g"}),
    "shift all apart": (ALL, {"b": "b + g", "c": "c - g"}),
    "scale b": (POS, {"b": "g @ b"}),
    "scale apart": (POS, {"b": "g @ b", "c": "inv(g) @ c"}),
    "signed apart": (DIAG, {"b": "g @ b", "c": "inv(g) @ c"}),
    "scale both": (POS, {"b": "g @ b", "c": "g @ c"}),
    "scale square": (POS, {"b": "g @ b", "c": "inv(g)**2 @ c"}),
    "flip b": (FLIP, {"b": "g @ b"}),
    "flip both": (FLIP, {"b": "g @ b", "c": "g @ c"}),
    "number b": (NUMBER, {"b": "g * b"}),
    "number both": (NUMBER, {"b": "g * b", "c": "g * c"}),
    "number apart": (NUMBER, {"b": "g * b", "c": "c / g"}),
    "rotate both": (qx.O("h"), {"b": "g @ b", "c": "g @ c"}),
    "GL apart": (qx.GL("h"), {"b": "g @ b", "c": "inv(g).T @ c"}),
    "GL same": (qx.GL("h"), {"b": "g @ b", "c": "inv(g) @ c"}),
    "exp shift": (SHIFT, {"b": "b + g", "c[h]": "c[h] exp(-g[h])"}),
}


def symmetry(label):
    return S(label.replace(" ", "_"), *ACTIONS[label])


def near(n, *sizes):
    """Widths: small ones, those about the numbers of a claim, and some of the pool."""
    about = {w for t in (n.t, n.m) for w in (t - 1, t, t + 1, 2 * t + 1) if 1 <= w <= 150}
    return gated.widths(*dict.fromkeys((*sizes, 1, 2, 3, 5, *sorted(about), 129, 150)))


def pooled(rng, n=None):
    sizes = (1, 2, 3, 4, 5, 7, *(pick(rng, gated.POOL) for _ in range(3)), pick(rng, (64, 65, 127, 128, 129, 150)))
    return near(n, *sizes) if n else gated.widths(*dict.fromkeys(sizes))


WRAPPERS = {
    "": lambda d, p: d, "tanh of ": lambda d, p: jnp.tanh(d), "square of ": lambda d, p: d * d,
    "share of ": lambda d, p: d / (1 + d * d), "other parameters times ": lambda d, p: d * (1 + p["e"] ** 2),
}  # fmt: skip


def of_vectors(kind, table, rng, by_size=False, thresholds=False, likely=0.6):
    """A row of a table of D(b, c, n), wrapped, under an action that suits it or under any."""
    n = Numbers(rng)
    label, (difference, suits) = pick(rng, table.items())
    under = pick(rng, suits) if chance(rng, likely) else pick(rng, ACTIONS)
    word, wrap = pick(rng, WRAPPERS.items())
    return of_difference(
        kind, f"{word}{label} ({n})", lambda p: wrap(difference(p["b"], p["c"], n), p), symmetry(under),
        pooled(rng, n if thresholds else None), rng, by_size,
    )  # fmt: skip


def of_difference(kind, name, difference, under, sizes, rng, by_size=False, exact=None, params=None):
    params = (params or VECTORS) | {"e": ""}
    if chance(rng, 0.2):
        plain = lambda p, s: s * difference(p)
        real = None if exact is None else lambda p, s: s * exact(p)
        return gated.plain_claim(
            name, plain, params, {"s": ""}, under, sizes, kind=kind, exact=real, by_size=by_size
        )  # fmt: skip
    gate = pick(rng, gated.GATES)
    return gated.gated_claim(
        name, difference, params, under, sizes, kind=kind, gate=gate, exact=exact, by_size=by_size
    )  # fmt: skip


ANY = tuple(ACTIONS)

# --- differences that vanish or do not: two forms of one number

PAIRS = {
    "sum and mean": lambda b, c, n: b.sum() - b.shape[0] * b.mean(),
    "square and product": lambda b, c, n: jnp.sum(b**2) - b @ b,
    "norm": lambda b, c, n: jnp.linalg.norm(b) ** 2 - jnp.sum(b * b),
    "tanh by exponentials": lambda b, c, n: jnp.sum(
        jnp.tanh(b / 9) - (jnp.exp(2 * b / 9) - 1) / (jnp.exp(2 * b / 9) + 1)
    ),
    "outer": lambda b, c, n: jnp.sum(jnp.outer(b, c)) - b.sum() * c.sum(),
    "trace of outer": lambda b, c, n: jnp.trace(jnp.outer(b, c)) - b @ c,
    "variance": lambda b, c, n: b.var() - (b**2).mean() + b.mean() ** 2,
    "softmax sum": lambda b, c, n: jax.nn.softmax(b).sum() - 1.0,
    "running sum": lambda b, c, n: jnp.cumsum(b)[-1] - b.sum(),
    "reversed sum": lambda b, c, n: b[::-1].sum() - b.sum(),
    "rolled sum": lambda b, c, n: jnp.roll(b, n.k).sum() - b.sum(),
    "last": lambda b, c, n: b[-1] - b[b.shape[0] - 1],
    "reversed first": lambda b, c, n: b[::-1][0] - b[-1],
    "max and minus min": lambda b, c, n: b.max() + (-b).min(),
    "relu twice": lambda b, c, n: jnp.sum(jax.nn.relu(b) - jax.nn.relu(-b) - b),
    "maximum": lambda b, c, n: jnp.sum(jnp.maximum(b, c) + jnp.minimum(b, c) - b - c),
    "absolute": lambda b, c, n: jnp.sum(jnp.abs(b * c) - jnp.abs(b) * jnp.abs(c)),
    "concatenated": lambda b, c, n: jnp.concatenate([b, c]).sum() - b.sum() - c.sum(),
    "first and sum": lambda b, c, n: b[0] - b.sum(),
    "last and sum": lambda b, c, n: b[-1] - b.sum(),
    "reversed first and sum": lambda b, c, n: b.sum() - b[::-1][0],
    "concatenated first and sum": lambda b, c, n: b.sum() - jnp.concatenate([b, n.a * b])[0],
    "mean and sum": lambda b, c, n: b.sum() - b.mean(),
    "max and logsumexp": lambda b, c, n: b.max() - jax.nn.logsumexp(b),
    "max and sum": lambda b, c, n: b.max() - b.sum(),
    "product of sums": lambda b, c, n: (b @ c) - b.sum() * c.sum(),
    "variance of one less": lambda b, c, n: (
        b.var(ddof=0) * b.shape[0] - jnp.sum((b - b.mean()) ** 2) * (1 + 1e-3 * n.a)
    ),
    "first of relu": lambda b, c, n: jnp.sum(jax.nn.relu(b) + jax.nn.relu(-b) - b),
}
PLAIN = {
    "a pairing": (lambda b, c, n: jnp.sum(b * c),
                  ("perm both", "scale apart", "signed apart", "flip both", "rotate both", "GL apart", "number apart")),
    "a map of products": (lambda b, c, n: jnp.sum(n.f(b * c)),
                          ("perm both", "scale apart", "signed apart", "flip both", "number apart")),
    "products of maps": (lambda b, c, n: jnp.sum(n.f(b) * c), ("perm both", "scale apart", "flip both", "signed apart",
                                                               "scale square")),
    "a sum of both": (lambda b, c, n: jnp.sum(n.f(b + c)), ("shift apart", "perm both", "shift all apart")),
    "a ratio": (lambda b, c, n: jnp.sum(n.f(b / c)), ("scale both", "number both", "perm both")),
    "a norm": (lambda b, c, n: jnp.sum(b * b) + n.a * c.max(), ("perm both", "flip b", "rotate both", "perm b")),
    "a centred map": (lambda b, c, n: jnp.sum(n.f(b - b.mean())), ("shift all b", "perm b", "perm both")),
    "an extreme": (lambda b, c, n: n.f(b.max() - b.min()), ("shift all b", "perm b", "perm both", "perm apart")),
    "a softmax": (lambda b, c, n: jnp.sum(jax.nn.softmax(b) * n.f(c)), ("shift all b", "perm both")),
    "exponentials": (lambda b, c, n: jnp.sum(jnp.exp(b) * c), ("exp shift", "perm both")),
    "a product": (lambda b, c, n: jnp.prod(1 + 0.1 * jnp.tanh(b * c)), ("perm both", "signed apart")),
    "logarithms": (lambda b, c, n: jnp.sum(jnp.log(jnp.abs(b)) + jnp.log(jnp.abs(c))),
                   ("signed apart", "scale apart", "perm both", "perm apart", "flip b")),
    "a quotient of norms": (lambda b, c, n: jnp.sum(b * b) / (jnp.sum(b * c) ** 2 + jnp.sum(b**2) * jnp.sum(c**2)),
                            ("rotate both", "perm both", "flip both")),
    "angles": (lambda b, c, n: jnp.sum(jnp.arctan2(b, c)), ("scale both", "number both", "perm both")),
    "lengths": (lambda b, c, n: jnp.sum(jnp.hypot(b, c) / jnp.abs(c)), ("scale both", "number both", "flip both")),
}  # fmt: skip


def gated_pairs(rng):
    if chance(rng, 0.5):
        return of_vectors("gated", {name: (f, ANY) for name, f in PAIRS.items()}, rng)
    return of_vectors("gated", PLAIN, rng)


# --- loops

SCANS = {
    "a clock": (lambda b, c, n: lax.scan(lambda t, u: (t + 1.0, n.f(t) * u), n.a, b, reverse=n.reverse)[1].sum(),
                ("perm b", "perm both", "shift b")),
    "a clock of both": (
        lambda b, c, n: lax.scan(lambda t, u: (t + 1, n.f(t * u[0] * u[1])), 0, (b, c), reverse=n.reverse)[1].sum(),
        ("scale apart", "signed apart", "perm both", "flip both")),
    "a late clock": (lambda b, c, n: lax.scan(lambda t, u: (t + 1, jnp.where(t < n.t, u, 0.0)), 0, b)[1].sum(),
                     ("perm b", "perm both")),
    "Fourier": (lambda b, c, n: sum(v.sum() ** 2 for v in lax.scan(lambda t, u: (
        t + 1.0, (jnp.cos(2 * jnp.pi * t / b.shape[0]) * u, jnp.sin(2 * jnp.pi * t / b.shape[0]) * u)), 0.0, b)[1]),
        ("perm b",)),
    "a sum": (lambda b, c, n: lax.scan(lambda t, u: (t + n.f(u), None), 0.0, b, reverse=n.reverse)[0],
              ("perm b", "perm both", "flip b")),
    "a weighted sum": (lambda b, c, n: lax.scan(lambda t, u: (n.a * t + u, None), 0.0, b, reverse=n.reverse)[0],
                       ("perm b", "perm both")),
    "a pairing": (lambda b, c, n: lax.scan(lambda t, u: (t + u[0] * u[1], None), 0.0, (b, c))[0],
                  ("perm both", "signed apart", "perm b", "perm apart", "rotate both")),
    "stacked sums": (lambda b, c, n: lax.scan(lambda t, u: (t + u, t + u), 0.0, b, reverse=n.reverse)[1].sum(),
                     ("perm b", "perm both")),
    "stacked sums of products": (
        lambda b, c, n: n.f(lax.scan(lambda t, u: (t + u[0] * u[1],) * 2, 0.0, (b, c))[1]).sum(),
        ("perm both", "scale apart", "signed apart", "flip both")),
    "last of the stacked": (lambda b, c, n: lax.scan(lambda t, u: (t + u, t + u), 0.0, b)[1][-1], ("perm b",)),
    "a maximum": (lambda b, c, n: lax.scan(lambda t, u: (jnp.maximum(t, u), None), b[0], b)[0], ("perm b", "scale b")),
    "a swap": (lambda b, c, n: lax.scan(lambda t, u: ((t[1], t[0] + u), None), (0.0, 0.0), b)[0][0], ("perm b",)),
    "differences of neighbours": (lambda b, c, n: lax.scan(lambda t, u: (u, (u - t) ** 2), b[0], b)[1].sum(),
                                  ("shift all b", "perm b", "flip b")),
    "a counter of places": (lambda b, c, n: lax.fori_loop(0, b.shape[0], lambda i, t: t + b[i] * c[i], 0.0),
                            ("perm both", "signed apart", "perm b")),
    "a counter that weighs": (lambda b, c, n: lax.fori_loop(0, b.shape[0], lambda i, t: t + b[i] * i, 0.0),
                              ("perm b", "perm both")),
    "a running sum at one place": (lambda b, c, n: jnp.cumsum(b)[min(n.k, 1) - 1], ("perm b", "scale b")),
    "running sums": (lambda b, c, n: jnp.sum(n.f(jnp.cumsum(b + c))), ("shift apart", "perm both")),
    "running maxima": (lambda b, c, n: jnp.sum(lax.cummax(b) - b), ("shift all b", "perm b")),
    "an associative scan": (lambda b, c, n: lax.associative_scan(jnp.add, b * c)[-1], ("perm both", "signed apart")),
    "a map": (lambda b, c, n: jnp.sum(lax.map(lambda u: n.f(u[0] * u[1]), (b, c))), ("perm both", "signed apart")),
    "an average that forgets, of both": (
        lambda b, c, n: lax.scan(lambda t, u: (0.5 * t + u[0] + u[1], None), 0.0, (b, c))[0],
        ("shift apart", "perm both")),
}  # fmt: skip
GAUGES = {
    "own time": lambda A, B: jnp.sum(A * B),
    "the time before": lambda A, B: lax.scan(lambda c, u: (u[0], jnp.sum(c * u[1])), A[0], (A, B))[1].sum(),
    "all times": lambda A, B: lax.scan(
        lambda c, u: (c + u[0], jnp.sum((c + u[0]) * u[1])), jnp.zeros(A.shape[1]), (A, B))[1].sum(),
    "own time, in a loop": lambda A, B: lax.scan(lambda c, u: (c + jnp.sum(u[0] * u[1]), None), 0.0, (A, B))[0],
    "last time": lambda A, B: jnp.sum(lax.scan(lambda c, u: (u, None), A[0], A)[0] * B[-1]),
    "mean of times": lambda A, B: jnp.sum(A.mean(0) * B.mean(0)),
}  # fmt: skip


def scans(rng):
    if chance(rng, 0.2):
        label, f = pick(rng, GAUGES.items())
        each = chance(rng, 0.6)
        own = "t," if each else ""
        group = qx.GL("h", each="t") if each else qx.GL("h")
        under = S("gauge", group, {"A[t,h]": f"g[{own}h,k] A[t,k]", "B[t,h]": f"B[t,k] inv(g)[{own}k,h]"})
        sizes = [{"t": t, "h": h} for t in (1, 2, 3, 5, 17) for h in (1, 2, 3)]
        return of_difference("scans", f"gauge, {label}", lambda p: f(p["A"], p["B"]), under, sizes, rng,
                             params={"A": "t h", "B": "t h"})  # fmt: skip
    return of_vectors("scans", SCANS, rng, thresholds=True)


# --- shifts, rolls, reversals, broadcasts

SHIFTS = {
    "neighbours": (lambda b, c, n: jnp.sum(n.f(b[1:] - b[:-1])), ("shift all b", "perm b")),
    "from the first": (lambda b, c, n: jnp.sum(n.f(b - b[0])), ("shift all b", "shift b")),
    "from the first of c": (lambda b, c, n: jnp.sum(n.f(b - c[0])), ("shift all b", "shift both")),
    "sums": (lambda b, c, n: jnp.sum(n.f(b + c)), ("shift apart", "shift all apart")),
    "reversed sums": (lambda b, c, n: jnp.sum(n.f(b + c[::-1])), ("shift apart", "shift all apart")),
    "rolled sums": (lambda b, c, n: jnp.sum(n.f(b + jnp.roll(c, 1))), ("shift apart", "shift all apart")),
    "sums of sums": (lambda b, c, n: n.f(b.sum() + c.sum()), ("shift apart", "shift all apart")),
    "logsumexp": (lambda b, c, n: jax.nn.logsumexp(b) - b.max(), ("shift all b", "shift b")),
    "logsumexp and the mean": (lambda b, c, n: jax.nn.logsumexp(b) + c.mean(), ("shift all apart", "shift apart")),
    "logsumexp and the sum": (lambda b, c, n: jax.nn.logsumexp(b) + c.sum(), ("shift all apart", "shift apart")),
    "a log softmax": (lambda b, c, n: jnp.sum(jax.nn.log_softmax(b) * c), ("shift all b", "exp shift")),
    "the last less the sum": (lambda b, c, n: b.sum() - b[::-1][0], ("shift b", "shift all b")),
    "a variance": (lambda b, c, n: n.f(b.var()) + b.std(), ("shift all b", "shift b")),
    "all pairs": (lambda b, c, n: jnp.sum(n.f(b[:, None] - b[None])), ("shift all b", "shift b", "perm b")),
    "pairs of both": (lambda b, c, n: jnp.sum(n.f(b[:, None] + c[None])), ("shift all apart", "shift apart")),
    "an average": (lambda b, c, n: b.mean() + n.a * c.mean(), ("shift all apart", "shift apart")),
}
ROLLS = {
    "rolled, both": (lambda b, c, n: jnp.sum(n.f(jnp.roll(b, n.k) * jnp.roll(c, n.k))),
                     ("signed apart", "scale apart", "perm both")),
    "rolled, one": (lambda b, c, n: jnp.sum(jnp.roll(b, n.k) * c), ("signed apart", "perm both", "flip both")),
    "rolled unevenly": (lambda b, c, n: jnp.sum(jnp.roll(b, n.k) * jnp.roll(c, n.k + 1)),
        ("perm both", "signed apart")),
    "rolled sum": (lambda b, c, n: jnp.sum(n.f(jnp.roll(b, -n.k))), ("perm b", "perm both")),
    "rolled difference": (lambda b, c, n: jnp.sum(n.f(jnp.roll(b, n.k) - b)), ("shift all b", "perm b", "shift b")),
    "rolled there and back": (lambda b, c, n: jnp.sum(n.f(jnp.roll(jnp.roll(b, n.k), -n.k) * c)),
                              ("signed apart", "perm both", "scale apart")),
    "first of the rolled": (lambda b, c, n: jnp.roll(b, n.k)[0], ("perm b", "shift b")),
    "rolled by half": (lambda b, c, n: jnp.sum(jnp.roll(b, b.shape[0] // 2) * c), ("perm both", "signed apart")),
    "rolled pairs": (lambda b, c, n: jnp.sum(jnp.roll(jnp.outer(b, c), 1, axis=n.k % 2)), ("perm both", "perm b")),
    "rolled trace": (lambda b, c, n: jnp.trace(jnp.roll(jnp.outer(b, c), n.k, axis=0)), ("perm both", "signed apart")),
    "rolled far": (lambda b, c, n: jnp.sum(jnp.roll(b, n.t) * b), ("perm b", "flip b")),
}  # fmt: skip
REVERSALS = {
    "reversed, both": (lambda b, c, n: jnp.sum(n.f(b[::-1] * c[::-1])), ("signed apart", "perm both")),
    "reversed, one": (lambda b, c, n: jnp.sum(b[::-1] * c), ("signed apart", "perm both", "perm apart", "flip both")),
    "reversed, itself": (lambda b, c, n: jnp.sum(b[::-1] * b), ("perm b", "flip b", "rotate both")),
    "the first of the reversed": (lambda b, c, n: b[::-1][0], ("perm b", "shift b")),
    "sum less the first of the reversed": (lambda b, c, n: b.sum() - b[::-1][0], ("shift b", "shift all b")),
    "the first of two": (lambda b, c, n: b.sum() - jnp.concatenate([b, 2 * b])[0], ("shift b", "perm b")),
    "the first of three": (lambda b, c, n: jnp.concatenate([b, c, n.a * b])[0], ("perm b", "shift b", "perm both")),
    "the last of two": (lambda b, c, n: jnp.concatenate([b, c])[-1], ("perm both", "perm b", "shift apart")),
    "the first half of two": (lambda b, c, n: jnp.sum(n.f(jnp.concatenate([b, c])[: b.shape[0]])), ("perm b",)),
    "the second half of two": (lambda b, c, n: jnp.sum(n.f(jnp.concatenate([b, c])[b.shape[0] :])),
                               ("perm both", "perm b", "shift b")),
    "halves of two, paired": (
        lambda b, c, n: jnp.sum(jnp.concatenate([b, c])[: b.shape[0]] * jnp.concatenate([b, c])[b.shape[0] :]),
        ("perm both", "signed apart", "rotate both", "perm b")),
    "stacked and read": (lambda b, c, n: jnp.sum(jnp.stack([b, c])[0] * jnp.stack([b, c])[1]),
                         ("perm both", "signed apart", "perm b")),
    "stacked and reversed": (lambda b, c, n: jnp.sum(n.f(jnp.stack([b, c])[::-1][0]) * b),
        ("perm both", "signed apart")),
    "padded": (lambda b, c, n: jnp.pad(b, (n.k, 0))[n.k], ("perm b", "shift b")),
    "padded sum": (lambda b, c, n: jnp.sum(n.f(jnp.pad(b * c, (n.k, n.k)))), ("perm both", "signed apart")),
    "every second": (lambda b, c, n: jnp.sum(b[::2]), ("perm b", "perm both")),
    "every second, both": (lambda b, c, n: jnp.sum(n.f(b[::2] * c[::2])), ("signed apart", "perm both")),
    "reversed twice": (lambda b, c, n: jnp.sum(n.f(b[::-1][::-1] * c)), ("signed apart", "perm both")),
    "set at a place": (lambda b, c, n: jnp.sum(b.at[0].set(0.0) * c), ("signed apart", "perm both")),
    "added at a place": (lambda b, c, n: jnp.sum(b.at[0].add(c[0])), ("perm both", "shift apart")),
}  # fmt: skip


def shifts(rng):
    return of_vectors("shifts", SHIFTS, rng)


def rolls(rng):
    return of_vectors("rolls", ROLLS, rng, thresholds=True)


def reversals(rng):
    return of_vectors("reversals", REVERSALS, rng)


TABLES = {"W": "h k", "a": "k", "b": "h"}
TABLE_ACTIONS = {
    "rows": (PERM, {"W": "g @ W", "b": "g @ b"}),
    "rows alone": (PERM, {"W": "g @ W"}),
    "columns": (qx.Permutation("k"), {"W": "W @ g.T", "a": "g @ a"}),
    "columns alone": (qx.Permutation("k"), {"W": "W @ g.T"}),
    "shift a": (qx.Translation("k"), {"a": "a + g"}),
    "shift all a": (ALL, {"a": "a + g"}),
    "shift b": (SHIFT, {"b": "b + g"}),
    "shift rows": (SHIFT, {"W[h,k]": "W[h,k] + g[h]", "b": "b - g"}),
    "shift columns": (qx.Translation("k"), {"W[h,k]": "W[h,k] + g[k]", "a": "a - g"}),
    "scale rows": (POS, {"W": "g @ W", "b": "inv(g) @ b"}),
    "scale columns": (qx.PositiveDiagonal("k"), {"W": "W @ g", "a": "inv(g) @ a"}),
    "flip rows": (FLIP, {"W": "g @ W", "b": "g @ b"}),
    "GL": (qx.GL("k"), {"W": "W @ inv(g)", "a": "g @ a"}),
}
BROADCASTS = {
    "to h - k rows": (
        lambda p, n: jnp.broadcast_to(p["a"], (p["b"].shape[0] - 1, p["a"].shape[0])).sum()
        - (p["b"].shape[0] - (1 if n.k > 1 else 0)) * p["a"].sum(), ("shift a", "shift all a")),
    "to h + k rows": (
        lambda p, n: jnp.broadcast_to(p["a"], (p["b"].shape[0] + n.k, p["a"].shape[0])).sum()
        - (p["b"].shape[0] + 2) * p["a"].sum(), ("shift a", "shift all a", "columns")),
    "rows repeated": (lambda p, n: jnp.sum(n.f(jnp.broadcast_to(p["a"], p["W"].shape) + p["W"])),
                      ("shift columns", "columns", "rows alone", "rows")),
    "columns repeated": (lambda p, n: jnp.sum(n.f(p["W"] + p["b"][:, None])), ("shift rows", "rows", "columns alone")),
    "repeated": (lambda p, n: jnp.repeat(p["a"], n.k).sum() - 2 * p["a"].sum(), ("shift a", "columns")),
    "repeated places": (lambda p, n: jnp.sum(jnp.repeat(p["a"], 2)[::2] - p["a"]), ("shift a", "columns")),
    "tiled": (lambda p, n: jnp.tile(p["a"], n.k).sum() - 2 * p["a"].sum(), ("shift a", "columns")),
    "tiled start": (lambda p, n: jnp.sum((jnp.tile(p["a"], 2)[: p["a"].shape[0]] - p["a"]) ** 2),
        ("shift a", "columns")),
    "repeated start": (lambda p, n: jnp.sum((jnp.repeat(p["a"], 2)[: p["a"].shape[0]] - p["a"]) ** 2),
                       ("shift a", "shift all a", "columns")),
    "scaled rows": (lambda p, n: jnp.sum(n.f(p["W"] * p["b"][:, None])), ("scale rows", "rows", "flip rows")),
    "scaled columns": (lambda p, n: jnp.sum(n.f(p["W"] * p["a"])), ("scale columns", "columns", "GL")),
    "a product": (lambda p, n: jnp.sum(n.f(p["W"] @ p["a"])), ("scale columns", "GL", "columns", "rows alone")),
    "a product and b": (lambda p, n: jnp.sum(n.f(p["W"] @ p["a"] * p["b"])), ("scale rows", "GL", "rows", "flip rows")),
    "reshaped": (lambda p, n: jnp.sum(p["W"].reshape(-1) * jnp.repeat(p["b"], p["W"].shape[1])),
                 ("scale rows", "rows", "flip rows")),
    "reshaped wrongly": (lambda p, n: jnp.sum(p["W"].reshape(-1) * jnp.tile(p["b"], p["W"].shape[1])),
                         ("scale rows", "rows", "flip rows")),
    "transposed and reshaped": (lambda p, n: jnp.sum(p["W"].T.reshape(-1) * jnp.tile(p["b"], p["W"].shape[1])),
                                ("scale rows", "rows", "flip rows")),
    "the sum of a broadcast": (lambda p, n: jnp.sum(p["b"][:, None] + 0 * p["W"]) - p["W"].shape[1] * p["b"].sum(),
                               ("shift b", "rows")),
    "the mean of a broadcast": (lambda p, n: jnp.mean(p["b"][:, None] + 0 * p["W"]) - n.k * p["b"].mean(),
                                ("shift b", "rows")),
    "over the other axis": (lambda p, n: jnp.sum(n.f(p["W"].sum(n.k % 2))),
        ("rows alone", "columns alone", "flip rows")),
    "maximum of rows": (lambda p, n: jnp.sum((p["W"] - p["W"].max(1, keepdims=True)) ** 2),
                        ("shift rows", "rows alone", "columns alone", "shift columns")),
}  # fmt: skip


def of_tables(kind, rows, rng, by_size=False, likely=0.7, sizes=None):
    n = Numbers(rng)
    label, (difference, suits) = pick(rng, rows.items())
    under = pick(rng, suits) if chance(rng, likely) else pick(rng, TABLE_ACTIONS)
    sizes = sizes or [
        {"h": h, "k": k}
        for h, k in ((2, 2), (3, 2), (2, 3), (5, 4), (1, 3), (4, 1), (7, 23), (23, 7), (64, 3), (3, 65))
    ]
    return of_difference(kind, f"{label} ({n})", lambda p: difference(p, n), S(under.replace(" ", "_"),
                         *TABLE_ACTIONS[under]), sizes, rng, by_size, params=TABLES)  # fmt: skip


def broadcasts(rng):
    return of_tables("broadcasts", BROADCASTS, rng)


# --- casts: read as the identity

NET = {"W1": "h x", "b1": "h", "W2": "y h"}
NET_SIZES = [{"h": h, "x": x, "y": y} for h, x, y in ((1, 2, 2), (2, 3, 1), (3, 2, 2), (5, 3, 2), (8, 1, 3))]
NET_ACTIONS = {
    "scale": (POS, {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    "scale square": (POS, {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)**2"}),
    "signed": (DIAG, {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    "flip": (FLIP, {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g"}),
    "even": (FLIP, {"W1": "g @ W1", "b1": "g @ b1"}),
    "permute": (PERM, {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g.T"}),
    "rotate": (qx.O("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g.T"}),
    "GL": (qx.GL("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    "rows": (qx.Translation("x"), {"W1[h,x]": "W1[h,x] + g[x]"}),
    "bias": (ALL, {"b1": "b1 + g"}),
    "columns": (SHIFT, {"b1": "b1 + g"}),
    "number": (NUMBER, {"W1": "g * W1", "b1": "g * b1"}),
    "number apart": (NUMBER, {"W1": "g * W1", "b1": "g * b1", "W2": "W2 / g"}),
    "one-sided": (POS, {"W1": "g @ W1", "b1": "g @ b1"}),
    "without the bias": (POS, {"W1": "g @ W1", "W2": "W2 @ inv(g)"}),
    "permute one side": (PERM, {"W1": "g @ W1", "b1": "g @ b1"}),
    "exponential": (SHIFT, {"b1": "b1 + g", "W2[y,h]": "W2[y,h] exp(-g[h])"}),
}


def rms(z, eps=0.0):
    return z * lax.rsqrt(jnp.mean(z * z, -1, keepdims=True) + eps)


def layer(z, eps=0.0):
    return (z - z.mean(-1, keepdims=True)) * lax.rsqrt(z.var(-1, keepdims=True) + eps)


HIDDEN = {
    "softmax": (jax.nn.softmax, ("rows", "bias", "permute", "scale")),
    "log softmax": (jax.nn.log_softmax, ("rows", "bias", "permute")),
    "RMS norm": (rms, ("rotate", "number", "permute", "flip")),
    "RMS norm with epsilon": (lambda z: rms(z, 0.1), ("rotate", "number", "permute", "flip")),
    "layer norm": (layer, ("rows", "bias", "number", "permute")),
    "layer norm with epsilon": (lambda z: layer(z, 0.1), ("rows", "bias", "number", "permute")),
    "relu": (jax.nn.relu, ("scale", "permute", "signed", "without the bias")),
    "relu squared": (lambda z: jax.nn.relu(z) ** 2, ("scale square", "scale", "permute")),
    "tanh": (jnp.tanh, ("flip", "permute", "scale")),
    "gelu": (jax.nn.gelu, ("permute", "scale", "flip")),
    "hard tanh": (jax.nn.hard_tanh, ("flip", "permute", "scale")),
    "identity": (lambda z: z, ("GL", "rotate", "signed", "permute", "one-sided")),
    "abs": (jnp.abs, ("scale", "even", "permute")),
    "logsumexp": (lambda z: z - jax.nn.logsumexp(z), ("rows", "bias", "permute")),
}


def casts(rng):
    n = Numbers(rng)
    label, (f, suits) = pick(rng, HIDDEN.items())
    under = pick(rng, suits) if chance(rng, 0.8) else pick(rng, NET_ACTIONS)
    where = pick(rng, ("before", "after", "around", "output", "twice"))

    def run(p, x, to):
        z = p["W1"] @ x + p["b1"]
        z = to(z, n.dtype) if where != "after" else z
        z = f(to(z, float) if where == "before" else to(to(z, jnp.float32), n.dtype) if where == "twice" else z)
        z = to(to(z, n.dtype), float)
        return p["W2"] @ z if where != "output" else to(to(p["W2"] @ z, jnp.float32), float)

    name = f"{label} in {jnp.dtype(n.dtype).name}, {where}"
    under = S(under.replace(" ", "_"), *NET_ACTIONS[under])
    return gated.plain_claim(
        name, lambda p, x: run(p, x, gated.cast), NET, {"x": "x"}, under, NET_SIZES, kind="casts",
        exact=lambda p, x: run(p, x, gated.uncast),
    )  # fmt: skip


# --- integers

INTEGERS = {
    "int8": lambda b, n: b.astype(jnp.int8),
    "int8 of a clip": lambda b, n: jnp.clip(b, -127.0, 127.0).astype(jnp.int8),
    "q + q": lambda b, n: (q := jnp.clip(b, -127.0, 127.0).astype(jnp.int8)) + q,
    "4 q": lambda b, n: jnp.clip(b, -127.0, 127.0).astype(jnp.int8) * jnp.int8(4),
    "q + k": lambda b, n: b.astype(jnp.int8) + jnp.int8(n.k),
    "int32 to int8": lambda b, n: b.astype(jnp.int32).astype(jnp.int8),
    "uint8": lambda b, n: b.astype(jnp.int32).astype(jnp.uint8),
    "int32": lambda b, n: b.astype(jnp.int32),
    "int32 floor division": lambda b, n: b.astype(jnp.int32) // n.m,
    "int32 remainder": lambda b, n: b.astype(jnp.int32) % n.m,
    "int16 square": lambda b, n: (q := b.astype(jnp.int16)) * q,
    "bool of a comparison": lambda b, n: (b > 0).astype(jnp.int8),
    "bool plus bool": lambda b, n: (b > 0).astype(jnp.int8) - (b < 0).astype(jnp.int8),
    "bool or": lambda b, n: ((b > n.a) | (b < -n.a)).astype(float),
    "round to int": lambda b, n: jnp.round(b).astype(jnp.int32),
    "floor to int": lambda b, n: jnp.floor(b).astype(jnp.int32),
    "abs of int8": lambda b, n: jnp.abs(b.astype(jnp.int8)),
    "negated int8": lambda b, n: -b.astype(jnp.int8),
    "and of bits": lambda b, n: (b > 0) & (b < 5.0 * n.k),
}
INTEGER_SUMS = {
    "int8 sum of signs": (lambda b, c, n: jnp.sum(b > -1e9, dtype=jnp.int8).astype(float) * b.sum()
                          - b.shape[0] * b.sum(), ("shift b", "scale b")),
    "int8 places below zero": (lambda b, c, n: jnp.sum(b * (jnp.arange(b.shape[0], dtype=jnp.int8) < 0)), ("perm b",)),
    "int8 places": (lambda b, c, n: jnp.sum(b * c * jnp.arange(b.shape[0], dtype=jnp.int8)),
        ("signed apart", "perm both")),
    "uint8 places doubled": (
        lambda b, c, n: jnp.sum(b * (2 * jnp.arange(b.shape[0], dtype=jnp.uint8) < jnp.uint8(n.k))), ("perm b",)),
    "int32 sum of comparisons": (lambda b, c, n: jnp.sum(b > c).astype(float),
        ("perm both", "scale both", "shift both")),
}  # fmt: skip


def integers(rng):
    if chance(rng, 0.25):
        return of_vectors("integers", INTEGER_SUMS, rng, thresholds=True)
    label, q = pick(rng, INTEGERS.items())
    n = Numbers(rng)
    under = pick(
        rng, ("flip both", "flip both", "flip b", "perm both", "perm both", "scale apart", "shift b", "perm b")
    )
    name = f"{label} ({n})"
    sizes = gated.widths(1, 2, 3, 64, 127, 128, 150)
    difference = lambda p: jnp.sum(q(p["b"], n).astype(float) * p["c"])
    return of_difference("integers", name, difference, symmetry(under), sizes, rng)


# --- guards

DOMAINS = {
    "log": jnp.log, "sqrt": jnp.sqrt, "1/x": lambda b: 1 / b, "arcsin": jnp.arcsin, "log1p": jnp.log1p,
    "rsqrt": lax.rsqrt, "power": lambda b: b**1.5, "0/0": lambda b: b / jnp.maximum(b, 0.0), "plain": lambda b: b,
 "arctanh": jnp.arctanh, "arccosh": jnp.arccosh,
}  # fmt: skip
GUARDS = {
    "nan_to_num": lambda v, b: jnp.where(jnp.abs(v) < 1e300, jnp.nan_to_num(v), 0.0),
    "isnan": lambda v, b: jnp.where(jnp.isnan(v), 1.0, 2.0),
    "isfinite": lambda v, b: jnp.where(jnp.isfinite(v), b, 0.0),
    "isinf": lambda v, b: jnp.where(jnp.isinf(v), 3.0, b),
    "finite as a number": lambda v, b: jnp.isfinite(v).astype(float),
    "unlike itself": lambda v, b: jnp.where(v != v, 0.0, 1.0),
    "itself": lambda v, b: (v == v).astype(float),
    "where inside": lambda v, b: jnp.where(b > 0.05, jnp.clip(v, -9.0, 9.0), 0.0),
    "fmax": lambda v, b: jnp.where(jnp.isnan(v) | jnp.isinf(v), 0.0, 1.0) * b,
}


def guards(rng):
    domain, f = pick(rng, DOMAINS.items())
    guard, g = pick(rng, GUARDS.items())
    form = pick(rng, ("one", "times c", "less c", "product"))

    def difference(p):
        b, c = p["b"], p["c"]
        value = lambda z: g(f(z), z)
        if form == "one":
            return jnp.sum(value(b))
        if form == "times c":
            return jnp.sum(value(b) * c)
        return jnp.sum(value(b) - value(c)) if form == "less c" else jnp.sum(value(b * c))

    suits = {
        "one": ("scale b", "flip b", "perm b", "number b", "shift b"),
        "times c": ("scale apart", "flip both", "perm both", "signed apart"),
        "less c": ("perm both", "scale both", "perm b", "shift both"),
        "product": ("scale apart", "signed apart", "perm both", "flip both", "flip b"),
    }[form]
    return of_difference("guards", f"{guard} of {domain}, {form}", difference, symmetry(pick(rng, suits)),
                         gated.widths(1, 2, 3, 5, 16), rng)  # fmt: skip


# --- constants that depend on sizes


MASKS = {
    "below": lambda i, n: i < n.t, "at": lambda i, n: i == n.t, "block": lambda i, n: i // n.m,
    "periodic": lambda i, n: i % n.m == 0, "from": lambda i, n: i >= n.t, "ramp": lambda i, n: jnp.maximum(i - n.t, 0),
    "saturating": lambda i, n: jnp.minimum(i, n.t), "wave": lambda i, n: jnp.sin(i / n.m),
    "last": lambda i, n: i == i.shape[0] - 1, "constant": lambda i, n: 0 * i + n.k, "all": lambda i, n: i >= 0,
    "not the first": lambda i, n: i > 0, "parity": lambda i, n: i % 2, "never": lambda i, n: i < 0,
    "relative": lambda i, n: i < i.shape[0] - n.k, "int8": lambda i, n: i.astype(jnp.int8) < 0,
    "share": lambda i, n: i / i.shape[0],
}  # fmt: skip


def masked(word, b, n):
    return MASKS[word](jnp.arange(b.shape[0]), n)


CONSTANTS = {
    **{f"mask {w}": (lambda b, c, n, w=w: jnp.sum(n.f(b) * masked(w, b, n)), ("perm b", "perm both")) for w in MASKS},
    **{f"mask {w} of both": (lambda b, c, n, w=w: jnp.sum(b * c * masked(w, b, n)),
                             ("signed apart", "scale apart", "perm both", "flip both")) for w in MASKS},
    **{f"where {w}": (lambda b, c, n, w=w: jnp.sum(jnp.where(masked(w, b, n) > 0, b, c)),
                      ("shift b", "perm both", "shift apart")) for w in MASKS},
    "slice": (lambda b, c, n: jnp.sum(n.f(b[: n.t])), ("perm b", "shift b", "scale b")),
    "slice from": (lambda b, c, n: jnp.sum(b[n.t :]), ("perm b", "shift b", "scale b")),
    "slices of both": (lambda b, c, n: jnp.sum(b[: n.t] * c[: n.t]), ("signed apart", "perm both", "scale apart")),
    "slices that meet": (lambda b, c, n: jnp.sum(n.f(b[: n.t])) + jnp.sum(n.f(b[n.t :])), ("perm b", "flip b")),
    "slices that miss": (lambda b, c, n: jnp.sum(b[: n.t]) + jnp.sum(b[n.t + 1 :]), ("perm b", "shift b")),
    "taken at": (lambda b, c, n: jnp.sum(b[jnp.minimum(jnp.arange(b.shape[0]), n.t)]), ("perm b", "shift b")),
    "taken at, both": (lambda b, c, n: jnp.sum((b * c)[jnp.minimum(jnp.arange(b.shape[0]), n.t)]),
                       ("signed apart", "perm both")),
    "taken modulo": (lambda b, c, n: jnp.sum(b[jnp.arange(b.shape[0]) % n.m]), ("perm b",)),
    "taken backwards": (lambda b, c, n: jnp.sum(b[b.shape[0] - 1 - jnp.arange(b.shape[0])]), ("perm b", "perm both")),
    "window": (lambda b, c, n: _window(b, b, n.t), ("perm b", "flip b")),
    "window of the same": (lambda b, c, n: _window(b * c, b * c, n.t), ("signed apart", "perm both", "scale apart")),
    "diagonals": (lambda b, c, n: jnp.sum(_gaps(b) % n.m == 0), ("perm b",)),
    "every diagonal": (lambda b, c, n: jnp.sum(jnp.where(_gaps(b) % n.m == 0, 1.0, 0.0) * b[:, None] * b), ("perm b",)),
    "triangle": (lambda b, c, n: jnp.sum(jnp.tril(jnp.outer(b, c))), ("perm both", "signed apart")),
    "triangle of products": (lambda b, c, n: jnp.sum(jnp.tril(jnp.outer(b * c, b * c))), ("perm both", "signed apart")),
    "identity matrix": (lambda b, c, n: b @ jnp.eye(b.shape[0]) @ c,
        ("perm both", "GL apart", "rotate both", "signed apart")),
    "identity from t": (lambda b, c, n: b @ jnp.where(_gaps(b) == n.t, 1.0, 0.0) @ c, ("perm both", "signed apart")),
    "one hot": (lambda b, c, n: jax.nn.one_hot(n.t, b.shape[0]) @ b, ("perm b", "scale b", "shift b")),
    "linspace": (lambda b, c, n: jnp.sum(b * jnp.linspace(0.0, 1.0, b.shape[0])), ("perm b",)),
    "ones": (lambda b, c, n: jnp.ones(b.shape) @ n.f(b), ("perm b", "perm both")),
}  # fmt: skip


def _gaps(b):
    i = jnp.arange(b.shape[0])
    return i[:, None] - i[None]


def _window(b, c, reach):
    return jnp.sum(jnp.where(jnp.abs(_gaps(b)) < reach, 1.0, 0.0) * b[:, None] * c[None])


def constants(rng):
    return of_vectors("constants", CONSTANTS, rng, thresholds=True)


# --- Python that reads a size

SETTINGS = {
    "exponent": (lambda b, c, n: jnp.sum(b ** (2 if b.shape[0] < n.t else 3) * c),
        ("scale square", "flip b", "perm both")),
    "branch": (lambda b, c, n: b.sum() if b.shape[0] != n.t else b[0], ("perm b", "perm both")),
    "map": (lambda b, c, n: jnp.sum(c * (jax.nn.relu(b) if b.shape[0] < n.t else jnp.tanh(b))),
        ("scale apart", "flip both")),
    "maximum": (lambda b, c, n: b.sum() + b[0] * (max(b.shape[0], n.t) - n.t), ("perm b",)),
    "minimum": (lambda b, c, n: jnp.sum(b[: min(b.shape[0], n.t)]), ("perm b", "scale b")),
    "dtype": (lambda b, c, n: jnp.sum(b.astype(float if b.shape[0] < n.t else jnp.int32) * c),
        ("signed apart", "flip both")),
    "reversed when even": (lambda b, c, n: jnp.sum(b[:: 1 if b.shape[0] % 2 else -1] * c),
        ("perm both", "signed apart")),
    "divisibility": (lambda b, c, n: b.sum() if b.shape[0] % n.m else b[0] + b.sum(), ("perm b", "perm both")),
    "both branches hold": (lambda b, c, n: jnp.sum(c * (jax.nn.relu(b) if b.shape[0] < n.t else jnp.abs(b))),
                           ("scale apart", "perm both")),
    "a loop": (lambda b, c, n: sum(b[k] * c[k] for k in range(min(b.shape[0], 40))), ("signed apart", "perm both")),
    "a loop over blocks": (lambda b, c, n: sum(jnp.sum(b[k : k + n.m]) for k in range(0, b.shape[0], n.m)),
        ("perm b",)),
    "a loop that weighs": (lambda b, c, n: sum(b[k] * k for k in range(min(b.shape[0], 40))), ("perm b",)),
    "a NumPy constant": (lambda b, c, n: jnp.sum(b * np.arange(b.shape[0])), ("perm b", "perm both")),
    "a NumPy constant of both": (lambda b, c, n: jnp.sum(b * c * np.arange(b.shape[0]) ** 2),
        ("signed apart", "perm both")),
    "a root of a size": (lambda b, c, n: jnp.sum(b * c) / np.sqrt(b.shape[0]),
        ("signed apart", "perm both", "GL apart")),
    "a power of a size": (lambda b, c, n: jnp.sum(n.f(b * c * b.shape[0] ** -0.5)), ("signed apart", "perm both")),
    "a root of a size, wrongly": (lambda b, c, n: jnp.sum(b) * np.sqrt(b.shape[0]), ("scale b", "perm b", "shift b")),
}  # fmt: skip
TABLE_SETTINGS = {
    "axis": (lambda p, n: _ranked(p["W"].max(axis=0 if p["W"].shape[0] < n.t else 1)), ("rows alone", "columns alone")),
    "subscripts": (lambda p, n: _ranked(jnp.einsum("hk->k" if p["W"].shape[0] < n.t else "hk->h", p["W"])),
                   ("rows alone", "columns alone")),
    "axis of a softmax": (lambda p, n: jnp.sum(jax.nn.softmax(p["W"], 0 if p["W"].shape[0] < n.t else 1) ** 2),
                          ("shift rows", "shift columns", "rows alone")),
    "transposed": (lambda p, n: _ranked((p["W"] if p["W"].shape[1] < n.t else p["W"].T).sum(0)), ("rows alone",)),
    "layout": (lambda p, n: _convolved(p["W"], n), ("rows alone", "columns alone")),
    "keepdims": (lambda p, n: jnp.sum((p["W"] - p["W"].mean(0 if p["W"].shape[0] < n.t else 1, keepdims=True)) ** 2),
                 ("shift rows", "shift columns", "rows alone", "columns alone")),
    "order of reshape": (lambda p, n: jnp.sum(p["W"].reshape(-1, order="C" if p["W"].shape[0] < n.t else "F")[: 2]),
                         ("rows alone", "columns alone")),
}  # fmt: skip


def _ranked(v):
    return jnp.sum(v * jnp.arange(v.shape[0]))


def _convolved(W, n):
    side = min(W.shape)
    kernel = W[:side, :side, None]
    layout = ("NCW", "OIW" if W.shape[0] < n.t else "IOW", "NCW")
    x = jnp.arange(1.0, side + 1)[None, :, None]
    return jnp.sum(lax.conv_general_dilated(x, kernel, (1,), "VALID", dimension_numbers=layout) ** 2)


def settings(rng):
    if chance(rng, 0.25):
        sizes = [{"h": h, "k": k} for h in (2, 3, 7, 17, 24, 51, 64, 65, 101, 128) for k in (2, 3)]
        sizes += [{"h": 3, "k": k} for k in (17, 51, 65, 128)]
        return of_tables("settings", TABLE_SETTINGS, rng, by_size=True, sizes=sizes)
    return of_vectors("settings", SETTINGS, rng, by_size=True, thresholds=True)


# --- random compositions

UNARY = {  # a map of the hidden layer: its degree under positive scaling, or None
    "relu": (jax.nn.relu, 1), "abs": (jnp.abs, 1), "leaky": (jax.nn.leaky_relu, 1), "square": (jnp.square, 2),
    "tanh": (jnp.tanh, None), "sin": (jnp.sin, None), "gelu": (jax.nn.gelu, None), "negated": (lambda z: -z, 1),
    "halved": (lambda z: 0.5 * z, 1), "cube": (lambda z: z**3, 3), "sigmoid": (jax.nn.sigmoid, None),
    "clip": (lambda z: jnp.clip(z, -2.0, 2.0), None), "soft sign": (jax.nn.soft_sign, None), "sign": (jnp.sign, 0),
    "RMS norm": (lambda z: rms(z), None), "layer norm": (lambda z: layer(z), None), "softmax": (jax.nn.softmax, None),
    "reversed": (lambda z: z[::-1], None), "running sum": (jnp.cumsum, None), "centred": (lambda z: z - z.mean(), None),
    "less its maximum": (lambda z: z - z.max(), None), "l1": (lambda z: z / jnp.sum(jnp.abs(z)), None),
    "self-gated": (lambda z: z * jax.nn.sigmoid(z), None), "z |z|": (lambda z: z * jnp.abs(z), 2),
    "log1p abs": (lambda z: jnp.log1p(jnp.abs(z)), None), "root of square": (lambda z: jnp.sqrt(z * z), 1),
    "elu": (jax.nn.elu, None), "erf": (lax.erf, None), "max 0.1": (lambda z: jnp.maximum(z, 0.1), None),
    "where": (lambda z: jnp.where(z > 0, z, 0.2 * z), 1), "step": (lambda z: jnp.where(z > 0, 1.0, 0.0), 0),
    "stopped": (lambda z: z + lax.stop_gradient(jnp.tanh(z) - z), None),
}  # fmt: skip
HEADS = {
    "linear": lambda p, z: p["W2"] @ z,
    "softmax head": lambda p, z: jax.nn.softmax(p["W2"] @ z),
    "norm head": lambda p, z: layer(p["W2"] @ z, 1e-2),
    "relu head": lambda p, z: jax.nn.relu(p["W2"] @ z),
    "gated": lambda p, z: p["W2"] @ (z * jax.nn.sigmoid(p["c"])),
}


def compositions(rng):
    steps, degree = [], 1
    for _ in range(int(rng.integers(1, 4))):
        label, (f, d) = pick(rng, UNARY.items())
        steps.append((label, f))
        degree = None if d is None or degree is None else degree * d
    head, close = pick(rng, HEADS.items())
    enter = pick(rng, ("affine", "linear", "residual", "twice"))

    def run(p, x):
        z = p["W1"] @ x + (p["b1"] if enter != "linear" else 0.0)
        start = z
        for _, f in steps:
            z = f(z)
        if enter == "residual":
            z = z + start
        return close(p, z * z if enter == "twice" else z)

    if enter == "twice" and degree is not None:
        degree *= 2
    if enter == "residual" and degree not in (None, 1):
        degree = None
    words = ["permute", "flip", "even", "number", "number apart", "rows", "bias", "rotate", "scale", "signed", "GL"]
    under = pick(rng, (*words, "permute", "permute", "one-sided", "permute one side", "without the bias"))
    group, action = NET_ACTIONS[under]
    if degree is not None and chance(rng, 0.5):
        under, group, power = f"degree {degree}", POS if chance(rng, 0.7) else DIAG, degree + int(chance(rng, 0.25))
        action = {"W1": "g @ W1", "b1": "g @ b1"} | ({"W2": f"W2 @ inv(g)**{power}"} if power else {})
    action = dict(action)
    if under == "permute" and head == "gated":
        action["c"] = "g @ c"
    if len(action) > 1 and chance(rng, 0.12):
        del action[pick(rng, sorted(action))]
    name = f"{enter}, {', '.join(word for word, _ in steps)}, {head}"
    sizes = [*NET_SIZES, {"h": int(pick(rng, (31, 64, 65, 128))), "x": 2, "y": 2}]
    params = NET | {"c": "h"}
    made = S(under.replace(" ", "_"), group, action)
    if chance(rng, 0.5):
        return gated.plain_claim(name, run, params, {"x": "x"}, made, sizes, kind="compositions")
    return gated.gated_claim(name, run, params, made, sizes, kind="compositions", inputs={"x": "x"},
                             gate=pick(rng, gated.GATES))  # fmt: skip


# --- textbook networks


def attention(causal, bias, root):
    def run(p, x):
        q, k = (jnp.einsum("tx,nxk->ntk", x, p[w]) for w in ("Wq", "Wk"))
        if bias:
            q, k = q + p["bq"][:, None], k + p["bk"][:, None]
        v = jnp.einsum("tx,nxv->ntv", x, p["Wv"])
        scores = jnp.einsum("ntk,nsk->nts", q, k) / root(q.shape[-1])
        if causal:
            scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
        return jnp.einsum("nts,nsv,nvy->ty", jax.nn.softmax(scores, -1), v, p["Wo"])

    return run


ATTENTION = {"Wq": "n x k", "Wk": "n x k", "Wv": "n x v", "Wo": "n v y", "bq": "n k", "bk": "n k"}
ROOTS = {
    "jnp.sqrt": jnp.sqrt, "np.sqrt": lambda k: np.sqrt(k), "a power": lambda k: k**0.5, "one": lambda k: 1.0,
}  # fmt: skip
ATTENTION_ACTIONS = {
    "keys": (qx.GL("k", each="n"), {
        "Wq[n,x,k]": "Wq[n,x,l] g[n,l,k]", "Wk[n,x,k]": "inv(g)[n,k,l] Wk[n,x,l]",
        "bq[n,k]": "bq[n,l] g[n,l,k]", "bk[n,k]": "inv(g)[n,k,l] bk[n,l]"}),
    "keys without biases": (qx.GL("k", each="n"), {
        "Wq[n,x,k]": "Wq[n,x,l] g[n,l,k]", "Wk[n,x,k]": "inv(g)[n,k,l] Wk[n,x,l]"}),
    "keys rotated": (qx.O("k", each="n"), {
        "Wq[n,x,k]": "Wq[n,x,l] g[n,l,k]", "Wk[n,x,k]": "Wk[n,x,l] g[n,l,k]",
        "bq[n,k]": "bq[n,l] g[n,l,k]", "bk[n,k]": "bk[n,l] g[n,l,k]"}),
    "values": (qx.GL("v", each="n"), {"Wv[n,x,v]": "Wv[n,x,l] g[n,l,v]", "Wo[n,v,y]": "inv(g)[n,v,l] Wo[n,l,y]"}),
    "values transposed": (qx.GL("v", each="n"), {
        "Wv[n,x,v]": "Wv[n,x,l] g[n,l,v]", "Wo[n,v,y]": "inv(g)[n,l,v] Wo[n,l,y]"}),
    "key bias": (qx.Translation("k", each="n"), {"bk[n,k]": "bk[n,k] + g[n,k]"}),
    "query bias": (qx.Translation("k", each="n"), {"bq[n,k]": "bq[n,k] + g[n,k]"}),
    "heads": (qx.Permutation("n"), {
        f"{w}[n,{axes}]": f"g[n,m] {w}[m,{axes}]"
        for w, axes in (("Wq", "x,k"), ("Wk", "x,k"), ("Wv", "x,v"), ("Wo", "v,y"), ("bq", "k"), ("bk", "k"))}),
    "heads without the output": (qx.Permutation("n"), {
        f"{w}[n,{axes}]": f"g[n,m] {w}[m,{axes}]"
        for w, axes in (("Wq", "x,k"), ("Wk", "x,k"), ("Wv", "x,v"), ("bq", "k"), ("bk", "k"))}),
}  # fmt: skip


def gru(p, x):
    def step(h, u):
        z, r = (jax.nn.sigmoid(p[f"W{w}"] @ u + p[f"U{w}"] @ h) for w in "zr")
        n = jnp.tanh(p["Wn"] @ u + r * (p["Un"] @ h))
        return (1 - z) * n + z * h, None

    return p["V"] @ lax.scan(step, jnp.zeros(p["Uz"].shape[0]), x)[0]


GRU = {f"W{w}": "h x" for w in "zrn"} | {f"U{w}": "h h" for w in "zrn"} | {"V": "y h"}
GRU_PERM = {f"W{w}": f"g @ W{w}" for w in "zrn"} | {f"U{w}": f"g @ U{w} @ g.T" for w in "zrn"} | {"V": "V @ g.T"}


def routed(p, x):
    logits = p["R"] @ x
    best = jax.nn.one_hot(jnp.argmax(logits), logits.shape[0])
    return jnp.einsum("e,e,eyx,x->y", best, jax.nn.softmax(logits), p["W"], x)


def dense_routed(p, x):
    return jnp.einsum("e,eyx,x->y", jax.nn.softmax(p["R"] @ x), p["W"], x)


def weight_norm(p, x):
    rows = p["W1"] / jnp.linalg.norm(p["W1"], axis=1, keepdims=True)
    return p["W2"] @ jax.nn.relu(p["b1"] * (rows @ x))


def batch(p, x):
    z = x @ p["W1"].T + p["b1"]
    return jax.nn.relu((z - z.mean(0)) / jnp.sqrt(z.var(0) + 1e-2)) @ p["W2"].T


def deep_set(p, x):
    return p["W2"] @ jnp.max(jax.nn.relu(x @ p["W1"].T + p["b1"]), axis=0)


MOE = {"R": "e x", "W": "e y x"}
OTHERS = [
    ("GRU permuted", gru, GRU, {"x": "t x"}, PERM, GRU_PERM),
    ("GRU permuted on one side", gru, GRU, {"x": "t x"}, PERM, GRU_PERM | {"Un": "g @ Un"}),
    ("experts", routed, MOE, {"x": "x"}, qx.Permutation("e"), {"R": "g @ R", "W[e,y,x]": "g[e,f] W[f,y,x]"}),
    ("experts without the router", routed, MOE, {"x": "x"}, qx.Permutation("e"), {"W[e,y,x]": "g[e,f] W[f,y,x]"}),
    (
        "dense experts",
        dense_routed,
        MOE,
        {"x": "x"},
        qx.Permutation("e"),
        {"R": "g @ R", "W[e,y,x]": "g[e,f] W[f,y,x]"},
    ),
    ("router rows", dense_routed, MOE, {"x": "x"}, qx.Translation("x"), {"R[e,x]": "R[e,x] + g[x]"}),
    ("top-1 router rows", routed, MOE, {"x": "x"}, qx.Translation("x"), {"R[e,x]": "R[e,x] + g[x]"}),
    ("router scaled", dense_routed, MOE, {"x": "x"}, NUMBER, {"R": "g * R"}),
    ("weight norm", weight_norm, NET, {"x": "x"}, POS, {"W1": "g @ W1"}),
    ("weight norm after", weight_norm, NET, {"x": "x"}, POS, {"b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    ("weight norm, signed", weight_norm, NET, {"x": "x"}, DIAG, {"W1": "g @ W1"}),
    ("batch norm shift", batch, NET, {"x": "n x"}, SHIFT, {"b1": "b1 + g"}),
    ("batch norm scale", batch, NET, {"x": "n x"}, POS, {"W1": "g @ W1", "b1": "g @ b1"}),
    ("batch norm permuted", batch, NET, {"x": "n x"}, *NET_ACTIONS["permute"]),
    ("deep set scale", deep_set, NET, {"x": "n x"}, *NET_ACTIONS["scale"]),
    ("deep set signed", deep_set, NET, {"x": "n x"}, *NET_ACTIONS["signed"]),
    ("deep set permuted", deep_set, NET, {"x": "n x"}, *NET_ACTIONS["permute"]),
]


def few(rng, axes, count=3, even=()):
    made = [{a: int(rng.integers(2, 6)) for a in axes} for _ in range(count)]
    for sizes in made:
        sizes.update({a: 2 * int(rng.integers(1, 3)) for a in even})
    return made


def textbook(rng):
    turn = rng.random()
    if turn < 0.3:
        root, by = pick(rng, ROOTS.items())
        causal, bias = chance(rng, 0.5), chance(rng, 0.6)
        word, (group, action) = pick(rng, ATTENTION_ACTIONS.items())
        return gated.plain_claim(
            f"attention, {root}, causal={causal}, bias={bias}", attention(causal, bias, by), ATTENTION, {"x": "t x"},
            S(word.replace(" ", "_"), group, action), few(rng, "nxkvyt"), kind="textbook",
        )  # fmt: skip
    if turn < 0.5:
        name, function, params, inputs, group, action = pick(rng, OTHERS)
        axes = dict.fromkeys(" ".join([*params.values(), *inputs.values()]).split())
        return gated.plain_claim(name, function, params, inputs, S("textbook", group, action), few(rng, axes),
                                 kind="textbook")  # fmt: skip
    rows = [row for row in (claims.TRUE if chance(rng, 0.7) else claims.FALSE) if "decoder" not in row[0]]
    name, model, under = pick(rng, rows)
    call = lambda p, *given: model.call(p, *given, sizes={})
    even = ("k",) if "RoPE" in name else ()
    holds = gated.invariance(call, model.params, model.inputs, under)
    return gated.Claim("textbook", f"{name}: {under}", lambda: qx.verify(model, under), holds,
                       few(rng, model.axis_names, even=even))  # fmt: skip


# --- measures, metrics, fields, equivariance


def measures(rng):
    n = Numbers(rng)
    rows = PLAIN | {k: v for k, v in CONSTANTS.items() if chance(rng, 0.5)} | SHIFTS | ROLLS | SCANS
    label, (difference, suits) = pick(rng, rows.items())
    under = pick(rng, suits) if chance(rng, 0.7) else pick(rng, ACTIONS)
    return gated.measure_claim(f"{label} ({n})", lambda p: difference(p["b"], p["c"], n), VECTORS, symmetry(under),
                               pooled(rng, n))  # fmt: skip


def _inner(weight):
    return lambda p, u, v, n: sum(jnp.sum(weight(p, key, n) * u[key] * v[key]) for key in ("b", "c"))


METRICS = {
    "Euclidean": _inner(lambda p, key, n: 1.0),
    "by its own square": _inner(lambda p, key, n: p[key] ** -2),
    "by the other's square": _inner(lambda p, key, n: p["c" if key == "b" else "b"] ** 2),
    "by its own size": _inner(lambda p, key, n: 1 / jnp.abs(p[key])),
    "by its norm": _inner(lambda p, key, n: 1 / jnp.sum(p[key] ** 2)),
    "by the first t": _inner(lambda p, key, n: jnp.where(jnp.arange(p[key].shape[0]) < n.t, 1.0, 2.0)),
    "by place t": _inner(lambda p, key, n: 1.0 + (jnp.arange(p[key].shape[0]) == n.t)),
    "of pairs": lambda p, u, v, n: jnp.sum(u["b"] * v["c"]) + jnp.sum(u["c"] * v["b"]),
    "of sums": lambda p, u, v, n: u["b"].sum() * v["b"].sum() + jnp.sum(u["c"] * v["c"]),
    "of neighbours": lambda p, u, v, n: jnp.sum(jnp.diff(u["b"]) * jnp.diff(v["b"])),
    "of the first": lambda p, u, v, n: u["b"][0] * v["b"][0] + u["c"][::-1][0] * v["c"][::-1][0],
    "pulled back": lambda p, u, v, n: jnp.sum(
        (u["b"] * p["c"] + p["b"] * u["c"]) * (v["b"] * p["c"] + p["b"] * v["c"])
    ),
    "of a clock": lambda p, u, v, n: lax.scan(lambda t, w: (t + 1.0, t * w[0] * w[1]), 0.0, (u["b"], v["b"]))[1].sum(),
}


def metrics(rng):
    n = Numbers(rng)
    label, metric = pick(rng, METRICS.items())
    words = [w for w in ACTIONS if w != "exp shift"]
    return gated.metric_claim(f"{label} ({n})", lambda p, u, v: metric(p, u, v, n), VECTORS, symmetry(pick(rng, words)),
                              pooled(rng, n))  # fmt: skip


ZERO = jnp.zeros_like
FIELDS = {
    "scaling apart": lambda p, n: {"b": p["b"], "c": -p["c"]},
    "scaling both": lambda p, n: {"b": p["b"], "c": p["c"]},
    "shift apart": lambda p, n: {"b": jnp.ones_like(p["b"]), "c": -jnp.ones_like(p["c"])},
    "shift b": lambda p, n: {"b": jnp.ones_like(p["b"]), "c": ZERO(p["c"])},
    "shift by a square": lambda p, n: {"b": p["b"] ** 2, "c": -p["b"] * p["c"]},
    "scaling by place": lambda p, n: {k: s * jnp.arange(p[k].shape[0]) * p[k] for k, s in (("b", 1), ("c", -1))},
    "shift beyond t": lambda p, n: {"b": (jnp.arange(p["b"].shape[0]) >= n.t) * 1.0, "c": ZERO(p["c"])},
    "shift at t": lambda p, n: {"b": (jnp.arange(p["b"].shape[0]) == n.t) * 1.0, "c": ZERO(p["c"])},
    "shift by differences": lambda p, n: {"b": p["b"] - jnp.roll(p["b"], 1), "c": ZERO(p["c"])},
    "shift by what centres": lambda p, n: {"b": p["c"] - p["c"].mean(), "c": ZERO(p["c"])},
    "swap": lambda p, n: {"b": p["c"], "c": -p["b"]},
    "stopped scaling": lambda p, n: {"b": lax.stop_gradient(p["b"]), "c": -p["c"]},
    "nothing": lambda p, n: {"b": ZERO(p["b"]), "c": ZERO(p["c"])},
}  # fmt: skip
FIELD_MODELS = {
    "products": lambda b, c, n: jnp.sum(n.f(b * c)),
    "a pairing": lambda b, c, n: jnp.sum(b * c),
    "sums": lambda b, c, n: jnp.sum(n.f(b + c)),
    "ratios": lambda b, c, n: jnp.sum(n.f(b / (c + 3.0 * jnp.sign(c)))),
    "a sum": lambda b, c, n: n.f(b.sum()),
    "squares": lambda b, c, n: jnp.sum(b**2 + c**2),
    "stopped": lambda b, c, n: jnp.sum(lax.stop_gradient(b)),
    "stopped products": lambda b, c, n: jnp.sum(lax.stop_gradient(b) * c),
    "less the stopped": lambda b, c, n: jnp.sum((b - lax.stop_gradient(b)) * c),
    "straight-through": lambda b, c, n: jnp.sum(b + lax.stop_gradient(jnp.tanh(b) - b)) + c.sum(),
    "below t": lambda b, c, n: jnp.sum(b[: n.t]),
    "relu and c": lambda b, c, n: jnp.sum(jax.nn.relu(b) * c),
    "centred": lambda b, c, n: jnp.sum(n.f(b - b.mean())),
    "a softmax": lambda b, c, n: jnp.sum(jax.nn.softmax(b) * c),
    "a scan of products": lambda b, c, n: lax.scan(lambda t, u: (0.5 * t + u[0] * u[1], None), 0.0, (b, c))[0],
}


def fields(rng):
    n = Numbers(rng)
    while n.label in ("round", "sign"):  # which change by jumps
        n = Numbers(rng)
    word, vector = pick(rng, FIELDS.items())
    label, f = pick(rng, FIELD_MODELS.items())
    if chance(rng, 0.5):
        suits = {
            "products": "scaling apart", "a pairing": "swap", "sums": "shift apart", "a sum": "shift by what centres",
            "squares": "swap", "centred": "shift b", "a softmax": "shift b", "below t": "shift beyond t",
            "relu and c": "scaling apart", "straight-through": "nothing", "a scan of products": "scaling apart",
            "stopped products": "scaling apart", "less the stopped": "shift b", "stopped": "shift by what centres",
        }  # fmt: skip
        word = suits.get(label, word)
        vector = FIELDS[word]
    gate = pick(rng, gated.GATES) if chance(rng, 0.6) else None
    function = (lambda p, *s: f(p["b"], p["c"], n)) if gate else (lambda p, s: s * f(p["b"], p["c"], n))
    return gated.field_claim(f"{label} along {word} ({n}) [{gate}]", function, VECTORS, lambda p: vector(p, n),
                             pooled(rng, n), inputs={} if gate else {"s": ""}, gate=gate)  # fmt: skip


def clocked(x, n):
    return lax.scan(lambda t, u: (t + 1.0, n.f(t + n.a) * u), 0.0, x, reverse=n.reverse)[1]


MAPS_OF_ROWS = {
    "centred": lambda x, n: x - x.mean(0), "of each": lambda x, n: n.f(x), "clocked": clocked,
    "running": lambda x, n: jnp.cumsum(x, 0), "reversed": lambda x, n: x[::-1],
    "rolled": lambda x, n: jnp.roll(x, 1, 0),
    "normed": lambda x, n: rms(x), "layer norm": lambda x, n: layer(x, 1e-2),
    "attended": lambda x, n: jax.nn.softmax(x @ x.T) @ x,
    "causal": lambda x, n: jnp.tril(x @ x.T) @ x, "sorted": lambda x, n: x * jnp.sum(x * x, 1, keepdims=True),
    "the first t": lambda x, n: x * (jnp.arange(x.shape[0]) < n.t)[:, None], "doubled": lambda x, n: 2 * x,
    "mixed": lambda x, n: x + n.a * x.sum(0), "by place": lambda x, n: x * jnp.arange(x.shape[0])[:, None],
    "less the first": lambda x, n: x - x[0], "less the largest": lambda x, n: x - x.max(0),
    "softmax": lambda x, n: jax.nn.softmax(x, 0),
}  # fmt: skip
ROW_ACTIONS = {
    "order": (qx.Permutation("n"), {"x": "g @ x", "probe": "g @ probe"}),
    "order of the input": (qx.Permutation("n"), {"x": "g @ x"}),
    "order of columns": (qx.Permutation("d"), {"x": "x @ g.T", "probe": "probe @ g.T"}),
    "turn": (qx.O("d"), {"x": "x @ g.T", "probe": "probe @ g.T"}),
    "mirror": (qx.SignFlip("d"), {"x": "x @ g", "probe": "probe @ g"}),
    "linear": (qx.GL("d"), {"x": "x @ g", "probe": "probe @ inv(g).T"}),
    "larger": (NUMBER, {"x": "g * x", "probe": "probe / g"}),
    "larger, same output": (NUMBER, {"x": "g * x"}),
    "rows turned": (qx.SignFlip("n"), {"x": "g @ x", "probe": "g @ probe"}),
    "moved": (qx.Translation("d"), {"x[n,d]": "x[n,d] + g[d]"}),
}


def equivariance(rng):
    n = Numbers(rng)
    label, f = pick(rng, MAPS_OF_ROWS.items())
    word, (group, action) = pick(rng, ROW_ACTIONS.items())
    sizes = [{"n": r, "d": d} for r, d in ((2, 2), (3, 2), (5, 3), (1, 2), (7, 1))]
    sizes += [{"n": r, "d": 2} for r in {n.t - 1, n.t + 1, 65} if r > 0]
    under = S(word.replace(" ", "_").replace(",", ""), group, action)
    if chance(rng, 0.6):  # what the gate adds must be equivariant on its own, and what it is added to is
        gate = pick(rng, gated.GATES)
        base = 1.0 if "probe" in action else 0.0
        return gated.equivariance_claim(
            f"{label} ({n}) [{gate}]", lambda p, s, x: base * x * p["a"] + gated.GATES[gate](s) * f(x, n), {"a": ""},
            {"s": "", "x": "n d"}, "n d", under, sizes, exact=lambda p, s, x: base * x * p["a"] + f(x, n),
        )  # fmt: skip
    alone = lambda p, x: p["a"] * f(x, n)
    return gated.equivariance_claim(f"{label} ({n})", alone, {"a": ""}, {"x": "n d"}, "n d", under, sizes)


KINDS = {
    "gated": gated_pairs, "scans": scans, "shifts": shifts, "rolls": rolls, "reversals": reversals,
    "broadcasts": broadcasts, "casts": casts, "integers": integers, "guards": guards, "constants": constants,
    "settings": settings, "compositions": compositions, "textbook": textbook, "measures": measures, "metrics": metrics,
    "fields": fields, "equivariance": equivariance,
}  # fmt: skip
