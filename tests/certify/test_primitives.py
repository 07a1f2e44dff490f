"""The law of each primitive is sound: behind a gate, no action that float64 sees to be false is proved.

Each row of the table that has a law has small models here that use it on parameters `b` and `c` of one axis. Candidate
actions (scalings with powers, flips, permutations, shifts) are asked for one by one; the gate hides the model from any
search, so that what is proved is proved by laws, and brute force without the gate says whether it may be.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import ClosedJaxpr, Jaxpr, primitives

import quotax as qx
from certify import gated
from quotax.certify.every_width.proving import prove_for_every_width
from quotax.certify.stated_widths import certify_at_widths
from quotax.certify.trial_sizes import traceable
from quotax.elementwise import FUNCTIONS
from quotax.interpret.sheets import laws

SIZES = gated.widths(1, 2, 3, 4, 5, 7, 11)
POS, FLIP, PERM = qx.PositiveDiagonal("h"), qx.SignFlip("h"), qx.Permutation("h")
SHIFT, ALL = qx.Translation("h"), qx.Translation()
CANDIDATES = {
    "scale": (POS, {"b": "g @ b"}),
    "scale, degree -1": (POS, {"b": "g @ b", "c": "g @ c"}),
    "scale, degree 1": (POS, {"b": "g @ b", "c": "inv(g) @ c"}),
    "scale, degree 2": (POS, {"b": "g @ b", "c": "inv(g)**2 @ c"}),
    "scale, degree 1/2": (POS, {"b": "g**2 @ b", "c": "inv(g) @ c"}),
    "scale by a number": (qx.PositiveScalar(), {"b": "g * b", "c": "c / g"}),
    "flip": (FLIP, {"b": "g @ b"}),
    "flip both": (FLIP, {"b": "g @ b", "c": "g @ c"}),
    "permute": (PERM, {"b": "g @ b"}),
    "permute both": (PERM, {"b": "g @ b", "c": "g @ c"}),
    "shift": (SHIFT, {"b": "b + g"}),
    "shift apart": (SHIFT, {"b": "b + g", "c": "c - g"}),
    "shift by a number": (ALL, {"b": "b + g"}),
    "shift, exponential": (SHIFT, {"b": "b + g", "c[h]": "c[h] exp(-g[h])"}),
}


PERMUTATIONS, *OTHERS = (
    [name for name in CANDIDATES if name.startswith(kind)] for kind in ("permute", "scale", "flip", "shift")
)


def weighed(f):
    """The models of an entrywise function: weighed by c, alone, of sums, and read at one place."""
    return [
        lambda b, c: jnp.sum(f(b) * c),
        lambda b, c: jnp.sum(f(b)),
        lambda b, c: jnp.sum(f(b + c)),
        lambda b, c: jnp.sum(f(b * c)),
        lambda b, c: f(b)[0] * c[0],
    ]


def of_two(f):
    """The models of an entrywise function of two numbers."""
    return [
        lambda b, c: jnp.sum(f(b, c)),
        lambda b, c: jnp.sum(f(b, 2.0 * b) * c),
        lambda b, c: jnp.sum(f(b, 1.0 + 0 * b) * c),
        lambda b, c: jnp.sum(f(b, c[::-1])),
    ]


def truth(f):
    """The models of a comparison, as numbers that weigh."""
    return [
        lambda b, c: jnp.sum(jnp.where(f(b, c), b, 0.0)),
        lambda b, c: jnp.sum(jnp.where(f(b, 0.0), c, 2.0 * c)),
        lambda b, c: jnp.sum(f(b, 1.0).astype(float) * c),
        lambda b, c: jnp.sum(f(b, 2.0 * b).astype(float)),
    ]


def logical(f):
    return [
        lambda b, c: jnp.sum(jnp.where(f(b > 0, c > 0), 1.0, 2.0)),
        lambda b, c: jnp.sum(jnp.where(f(b > 0, b > 1), b, 0.0)),
        lambda b, c: jnp.sum(jnp.where(f(b > c, b < c), b - c, 0.0)),
        lambda b, c: jnp.sum(f(b.astype(jnp.int32), c.astype(jnp.int32)).astype(float)),
    ]


def reduced(f):
    """The models of a reduction of an array's last axis."""
    return [
        lambda b, c: f(b) * c.sum(),
        lambda b, c: f(b * c),
        lambda b, c: f(b + c),
        lambda b, c: f(b) - b[0],
        lambda b, c: jnp.sum(f(b[:, None] * c[None])),
    ]


def running(f):
    return [
        lambda b, c: f(b)[-1],
        lambda b, c: f(b)[0],
        lambda b, c: jnp.sum(f(b) * c),
        lambda b, c: jnp.sum(f(b * c)),
        lambda b, c: jnp.sum(f(b) - b),
        lambda b, c: jnp.sum(f(b[:, None] * c[None])),
    ]


def moved(f):
    """The models of something that moves a vector's entries: `f(b)` has the length of b."""
    return [
        lambda b, c: jnp.sum(f(b) * c),
        lambda b, c: jnp.sum(f(b) * f(c)),
        lambda b, c: jnp.sum(f(b)),
        lambda b, c: jnp.ravel(f(b))[0],
        lambda b, c: b.sum() - jnp.ravel(f(b))[0],
    ]


def called(wrap):
    inner = wrap(lambda b, c: jnp.sum(jax.nn.relu(b) * c))
    other = wrap(lambda b, c: jnp.sum(jnp.tanh(b) * b[::-1]))
    return [inner, other]


@jax.custom_jvp
def plain_abs(x):
    return jnp.abs(x)


plain_abs.defjvp(lambda primals, tangents: (plain_abs(*primals), tangents[0]))


@jax.custom_vjp
def halved(x):
    return 0.5 * x


halved.defvjp(lambda x: (halved(x), None), lambda _, v: (v,))


def bound(primitive, closed):
    """`f` behind a call primitive, which JAX itself makes only inside its transformations."""

    def wrap(f):
        def run(b, c):
            body = jax.make_jaxpr(f)(*(jax.ShapeDtypeStruct(v.shape, v.dtype) for v in (b, c)))
            params = primitive.get_bind_params({"call_jaxpr": body if closed else body.jaxpr})
            return primitive.bind(b, c, **params)[0]

        return run

    return wrap


def scanned(step, start):
    """The last carry, or the last part of it."""
    return lambda b, c: jax.tree.leaves(lax.scan(step, start, (b, c))[0])[-1]


def conv(b, c):
    return lax.conv_general_dilated(b[None, None], c[None, None], (1,), [(b.shape[0] - 1, b.shape[0] - 1)])


def windows(f, start):
    return lambda b: lax.reduce_window(b, start, f, (2,), (1,), "SAME")


def gathered(b, at):
    return jnp.take(b, at, axis=0, mode="clip")


def places(b):
    return jnp.arange(b.shape[0])


def rows(b):
    return jnp.broadcast_to(places(b) // 2, (b.shape[0], b.shape[0]))


def bits(x):
    return x.astype(jnp.int8).astype(float)


def of_record(function):
    """The models of a function that has a record; if it is partial, also at numbers for which it has values."""
    f, (low, high) = getattr(lax, function.primitive), function.between
    if function.arguments == 2:
        return of_two(f)
    inside = weighed(lambda v: f((low + high) / 2 + (high - low) / 2 * jnp.sin(v)))
    return weighed(f) + (inside if function.where else [])


CASES = {
    **{name: of_record(function) for name, function in FUNCTIONS.items()},
    # calls, loops, branches
    "jit": called(jax.jit),
    "closed_call": called(bound(primitives.closed_call_p, True)),
    "call": called(bound(primitives.call_p, False)),
    "remat2": called(jax.checkpoint),
    "custom_jvp_call": [lambda b, c: jnp.sum(plain_abs(b) * c), lambda b, c: plain_abs(b[::-1])[0]],
    "custom_vjp_call": [lambda b, c: jnp.sum(halved(b) * c), lambda b, c: halved(b[::-1])[0]],
    "custom_vmap_call": called(jax.custom_batching.sequential_vmap),
    "composite": called(lambda f: lax.composite(f, "quotax.test")),
    "scan": [
        scanned(lambda t, u: (t + u[0] * u[1], None), 0.0),
        scanned(lambda t, u: (0.5 * t + u[0], None), 0.0),
        scanned(lambda t, u: (jnp.maximum(t, u[0]), None), -jnp.inf),
        scanned(lambda t, u: ((t[0] + 1.0, t[1] + t[0] * u[0]), None), (0.0, 0.0)),
        scanned(lambda t, u: ((u[0], t[1] + t[0] * u[0]), None), (0.0, 0.0)),
        lambda b, c: lax.scan(lambda t, u: (t + u, t * u), 0.0, b, reverse=True)[1].sum(),
        lambda b, c: jnp.sum(lax.scan(lambda t, u: (t, u), 0.0, b)[1] * c),
    ],
    "while": [
        lambda b, c: lax.while_loop(lambda t: t[0] < 3, lambda t: (t[0] + 1, t[1] + b * c), (0, b))[1].sum(),
        lambda b, c: lax.while_loop(lambda t: t[0] < 3, lambda t: (t[0] + 1, jnp.roll(t[1], 1)), (0, b))[1][0],
    ],
    "cond": [
        lambda b, c: jnp.sum(lax.cond(b.sum() > 0, jnp.abs, lambda v: -v, b) * c),
        lambda b, c: jnp.sum(lax.cond(b[0] > 0, lambda v: v, lambda v: v[::-1], b) * c),
        lambda b, c: lax.switch((b[0] > 0).astype(int), [jnp.sum, jnp.max], b),
    ],
    # what changes nothing
    "copy": moved(jnp.copy)[:2],
    "stop_gradient": moved(lax.stop_gradient)[:2],
    "optimization_barrier": moved(lax.optimization_barrier)[:2],
    "name": moved(lambda b: checkpoint_name(b, "here"))[:2],
    "reduce_precision": [lambda b, c: jnp.sum(lax.reduce_precision(b, 11, 52) * c)],
    "debug_print": [lambda b, c: (jax.debug.print("here"), jnp.sum(b * c))[1]],
    # moves
    "transpose": [
        *moved(lambda b: jnp.outer(b, jnp.arange(1.0, 3.0)).T[0]),
        lambda b, c: jnp.sum(jnp.outer(b, c).T * c),
        lambda b, c: jnp.sum(jnp.outer(b, c).T - jnp.outer(c, b)),
    ],
    "reshape": [
        *moved(lambda b: jnp.outer(b, jnp.arange(1.0, 3.0)).reshape(-1)[: b.shape[0]]),
        lambda b, c: jnp.sum(jnp.outer(b, c).reshape(-1) * jnp.repeat(b, b.shape[0])),
    ],
    "broadcast_in_dim": [
        lambda b, c: jnp.sum(jnp.broadcast_to(b, (3, *b.shape)) * c),
        lambda b, c: jnp.sum(b[:, None] + c[None]),
        lambda b, c: jnp.broadcast_to(b, (b.shape[0] + 1, b.shape[0])).sum() - b.shape[0] * b.sum(),
        lambda b, c: jnp.sum(jnp.broadcast_to(b[:, None], (b.shape[0], b.shape[0])) * c),
    ],
    "squeeze": [lambda b, c: jnp.sum(lax.squeeze(b[:, None, None], (1, 2)) * c), lambda b, c: jnp.squeeze(b[:1])],
    "concatenate": [
        lambda b, c: jnp.concatenate([b, c])[0],
        lambda b, c: b.sum() - jnp.concatenate([b, 2 * b])[0],
        lambda b, c: jnp.sum(jnp.concatenate([b, c]) ** 2),
        lambda b, c: jnp.sum(jnp.concatenate([b, c]) * jnp.concatenate([c, b])),
        lambda b, c: jnp.sum(jnp.concatenate([b, c])[: b.shape[0]] * c),
    ],
    "split": [
        lambda b, c: jnp.sum(jnp.split(jnp.stack([b, c]), 2)[0] * c),
        lambda b, c: jnp.sum(jnp.split(jnp.concatenate([b, c]), 2)[1] * b),
        lambda b, c: jnp.split(jnp.concatenate([b, c]), 2)[0][0],
    ],
    "slice": [
        lambda b, c: jnp.sum(b[1:] * c[1:]),
        lambda b, c: jnp.sum(b[1:] * c[:-1]),
        lambda b, c: jnp.sum(b[: b.shape[0] - 1]),
        lambda b, c: jnp.sum(b[::2]),
        lambda b, c: jnp.sum(b[1:] - b[:-1]),
    ],
    "pad": [
        lambda b, c: jnp.sum(jnp.pad(b, 1)[1:-1] * c),
        lambda b, c: jnp.sum(jnp.pad(b, (1, 0))[:-1] * c),
        lambda b, c: jnp.pad(b, (2, 1))[2],
        lambda b, c: jnp.sum(jnp.pad(b, 1, constant_values=3.0) ** 2),
    ],
    "rev": [*moved(lambda b: lax.rev(b, (0,))), lambda b, c: jnp.sum(jnp.flip(jnp.outer(b, c), 1) * c)],
    "tile": [*moved(lambda b: lax.tile(b, (2,))[:b.shape[0]]), lambda b, c: lax.tile(b, (2,)).sum() - b.sum()],
    "stack": [
        lambda b, c: jnp.sum(jnp.stack([b, c])[0] * c),
        lambda b, c: jnp.sum(jnp.stack([b, c])[::-1][0] * b),
        lambda b, c: jnp.sum(jnp.stack([b, c], 1).reshape(-1)[: b.shape[0]] * c),
        lambda b, c: jnp.stack([b, c])[0, 0],
    ],
    "unstack": [
        lambda b, c: jnp.sum(jnp.unstack(jnp.stack([b, c]))[0] * c),
        lambda b, c: jnp.unstack(jnp.stack([b, 2 * b, c]))[1][0],
    ],
    "select_n": [
        lambda b, c: jnp.sum(jnp.where(b > 0, b, 0.5 * b) * c),
        lambda b, c: jnp.sum(jnp.where(c > 0, b, b[::-1])),
        lambda b, c: jnp.sum(lax.select_n((b > 0).astype(jnp.int32) + (b > c), b, c, b * c)),
        lambda b, c: jnp.sum(jnp.where(places(b) < 2, b, 0.0)),
    ],
    "dynamic_slice": [
        lambda b, c: lax.dynamic_slice(b, (jnp.argmax(c),), (1,))[0],
        lambda b, c: lax.dynamic_slice(b, ((c[0] > 0).astype(int),), (1,)).sum(),
        lambda b, c: lax.fori_loop(0, b.shape[0], lambda i, t: t + lax.dynamic_slice(b, (i,), (1,))[0] * i, 0.0),
    ],
    "dynamic_update_slice": [
        lambda b, c: jnp.sum(lax.dynamic_update_slice(b, c[:1], (0,))),
        lambda b, c: jnp.sum(lax.dynamic_update_slice(b, 0 * c[:1], (jnp.argmax(c),)) * c),
    ],
    "gather": [
        lambda b, c: gathered(b, jnp.argmax(c)),
        lambda b, c: jnp.sum(gathered(b, jnp.minimum(places(b), 1))),
        lambda b, c: jnp.sum(gathered(b, places(b)[::-1]) * c),
        lambda b, c: jnp.sum(gathered(b, (c > 0).astype(int))),
        lambda b, c: jnp.sum(gathered(b * c, places(b) // 2)),
    ],
    "scatter": [
        lambda b, c: jnp.sum(b.at[0].set(0.0) * c),
        lambda b, c: jnp.sum(b.at[jnp.argmax(c)].set(1.0)),
        lambda b, c: jnp.sum(b.at[places(b)[::-1]].set(c) * b),
    ],
    "scatter-add": [
        lambda b, c: jnp.sum(b.at[0].add(c[0]) * c),
        lambda b, c: jnp.sum(b.at[jnp.argmax(c)].add(1.0)),
        lambda b, c: jnp.sum(b.at[places(b)[::-1]].add(c)),
        lambda b, c: jnp.sum((0 * b).at[places(b) // 2].add(b * c) ** 2),
        lambda b, c: jnp.sum((0 * b).at[2 * places(b)].add(b * c, mode="drop") * c),
        lambda b, c: jnp.sum((0 * b).at[places(b) - 1].add(c, mode="clip") * b),
        lambda b, c: jnp.sum(jax.ops.segment_sum(jnp.outer(b, c), places(b) // 2, b.shape[0]) ** 2 * c),
        lambda b, c: jnp.sum(jax.vmap(lambda u, r: (0 * u).at[r].add(u))(jnp.outer(b, c), rows(b)) * c),
    ],
    # sums of products
    "dot_general": [
        lambda b, c: b @ c,
        lambda b, c: jnp.sum(jnp.outer(b, c) @ c),
        lambda b, c: b @ c[::-1],
        lambda b, c: jnp.einsum("i,i,j->j", b, b, c).sum(),
        lambda b, c: jnp.einsum("ij,ji->", jnp.outer(b, c), jnp.outer(b, c)),
        lambda b, c: b @ jnp.eye(b.shape[0]) @ c,
    ],
    "conv_general_dilated": [
        lambda b, c: conv(b, c).sum(),
        lambda b, c: conv(b, c).ravel()[b.shape[0] - 1],
        lambda b, c: (conv(b, c) ** 2).sum(),
        lambda b, c: jnp.sum(jnp.convolve(b, jnp.array([1.0, -1.0]), mode="full") ** 2),
        lambda b, c: lax.conv_general_dilated(b[None, :, None], c[None, :, None], (1,), "VALID").sum(),
    ],
    # reductions
    "reduce_sum": [*reduced(lambda v: v.sum(-1)), lambda b, c: jnp.sum(jnp.outer(b, c).sum(0) * c)],
    "reduce_prod": reduced(lambda v: v.prod(-1)),
    "reduce_max": reduced(lambda v: v.max(-1)),
    "reduce_min": reduced(lambda v: v.min(-1)),
    "reduce_and": reduced(lambda v: jnp.where(jnp.all(v > 0, -1), 1.0, 2.0)),
    "reduce_or": reduced(lambda v: jnp.where(jnp.any(v > 1, -1), 1.0, 2.0)),
    "cumsum": running(jnp.cumsum) + running(lambda v: lax.cumsum(v, 0, reverse=True))[:3],
    "cumprod": running(jnp.cumprod)[:5],
    "cummax": running(lambda v: lax.cummax(v, 0)),
    "cummin": running(lambda v: lax.cummin(v, 0)),
    "cumlogsumexp": running(lambda v: lax.cumlogsumexp(v, 0)),
    "reduce_window_sum": moved(windows(lax.add, 0.0)),
    "reduce_window_max": moved(windows(lax.max, -jnp.inf)),
    "reduce_window_min": moved(windows(lax.min, jnp.inf)),
    "iota": [
        lambda b, c: jnp.sum(jnp.arange(b.shape[0]) * b),
        lambda b, c: jnp.sum(jnp.where(jnp.arange(b.shape[0]) < 2, b, c)),
        lambda b, c: jnp.sum(b * (jnp.arange(b.shape[0]) * 1.0) ** 2 * c),
    ],
    "sort": [
        lambda b, c: jnp.sum(jnp.sort(b) * c),
        lambda b, c: jnp.sort(b)[0] * jnp.sum(c),
        lambda b, c: jnp.sum(jnp.sort(b) * jnp.arange(b.shape[0])),
    ],
    "top_k": [
        lambda b, c: lax.top_k(b, 2)[0][1] * jnp.sum(c),
        lambda b, c: jnp.sum(lax.top_k(b, 2)[1] * 1.0),
        lambda b, c: jnp.sum(c[lax.top_k(b, 2)[1]]),
    ],
    "argmax": [
        lambda b, c: c[jnp.argmax(b)],
        lambda b, c: jnp.argmax(b) * 1.0,
        lambda b, c: jax.nn.one_hot(jnp.argmax(b), b.shape[0]) @ c,
        lambda b, c: jnp.argmax(b) * 1.0 - jnp.argmax(b * c),
    ],
    "argmin": [lambda b, c: c[jnp.argmin(b)], lambda b, c: jnp.argmin(b) * 1.0, lambda b, c: b[jnp.argmin(b)]],
    # arithmetic
    "add": of_two(jnp.add),
    "add_any": of_two(lambda b, c: jax.jvp(lambda u, v: u * v, (b, c), (1.0 + 0 * b, 1.0 + 0 * b))[1]),
    "sub": of_two(jnp.subtract),
    "mul": of_two(jnp.multiply),
    "max": of_two(jnp.maximum),
    "min": of_two(jnp.minimum),
    "neg": weighed(jnp.negative),
    "div": [*of_two(jnp.divide), lambda b, c: jnp.sum(b.astype(jnp.int32) / 1.0 // 3 * c)],
    "round": weighed(jnp.round) + weighed(lambda v: lax.round(v, lax.RoundingMethod.AWAY_FROM_ZERO))[:2],
    "clamp": [
        *weighed(lambda v: lax.clamp(-1.0, v, 1.0)),
        lambda b, c: jnp.sum(lax.clamp(-1.0, b, 2.0) * c),
        lambda b, c: jnp.sum(lax.clamp(0 * b, b, c)),
        lambda b, c: jnp.sum(lax.clamp(0.0, b, jnp.inf) * c),
    ],
    "convert_element_type": [
        lambda b, c: jnp.sum(bits(b) * c),
        lambda b, c: jnp.sum((b > 0).astype(jnp.int8).astype(float) * c),
        lambda b, c: jnp.sum(b.astype(jnp.int32).astype(jnp.int8).astype(float) * c),
        lambda b, c: jnp.sum(b.astype(bool).astype(float) * c),
        lambda b, c: jnp.sum(b.astype(jnp.int32).astype(float)),
    ],
    # powers, roots, logarithms: more than their records say
    "integer_pow": weighed(lambda v: lax.integer_pow(v, 3)) + weighed(lambda v: lax.integer_pow(v, -2))[:2],
    "pow": [*of_two(lambda b, c: jnp.abs(b) ** c)[:1], *weighed(lambda v: jnp.abs(v) ** 1.5)],
    "sqrt": weighed(jnp.sqrt) + weighed(lambda v: jnp.sqrt(jnp.abs(v)))[:2],
    "rsqrt": weighed(lambda v: lax.rsqrt(v * v)),
    "log": weighed(jnp.log) + weighed(lambda v: jnp.log(jnp.abs(v)))[:4],
    "log1p": weighed(lambda v: jnp.log1p(v * v)),
    # truth
    **{
        name: truth(f)
        for name, f in {
            "eq": jnp.equal, "ne": jnp.not_equal, "lt": jnp.less, "le": jnp.less_equal, "gt": jnp.greater,
            "ge": jnp.greater_equal,
        }.items()
    },
    "and": logical(jnp.bitwise_and),
    "or": logical(jnp.bitwise_or),
    "xor": logical(jnp.bitwise_xor),
    "not": [
        lambda b, c: jnp.sum(jnp.where(~(b > 0), b, c)),
        lambda b, c: jnp.sum((~(b > c)).astype(float)),
        lambda b, c: jnp.sum((~b.astype(jnp.int32)).astype(float) * c),
    ],
    "is_finite": [
        lambda b, c: jnp.sum(jnp.where(jnp.isfinite(jnp.log(b)), b, 0.0) * c),
        lambda b, c: jnp.sum(jnp.isfinite(jnp.sqrt(b)).astype(float)),
        lambda b, c: jnp.sum(jnp.where(jnp.isfinite(b), b, 0.0) * c),
        lambda b, c: jnp.sum(jnp.isfinite(1 / jnp.maximum(b, 0.0)).astype(float) * c),
    ],
}  # fmt: skip

SMOKE = (
    "scan", "cond", "rev", "concatenate", "broadcast_in_dim", "gather", "dot_general", "reduce_max", "cumsum",
    "argmax", "mul", "round", "convert_element_type", "integer_pow", "sin", "lt", "is_finite",
)  # fmt: skip
"""One or two of each family, of which a few claims are made by default."""
SOME = ("permute", "flip both", "shift")
"""All of the first model, the first of the last."""
# a size as a value stands in traces with symbols alone: see test_false_verdicts.py
LAWS = sorted(laws().keys() - {"dim_as_value"})


def by_laws(model, symmetry):
    """The laws' own verdict: a search sees nothing behind a gate, and takes longer than the laws do."""
    action = symmetry.bind(model.params)
    outcome = prove_for_every_width(model, action)
    if outcome.proved:
        return qx.Certificate("by laws", "proved", outcome.scope)
    return certify_at_widths(model, action, searched=traceable(model, action.group, "by_laws"))


def false_proofs(name, models, candidates, ask=qx.verify):
    """What is said of a primitive that is not so; `candidates` are chosen by the number of the model."""
    wrong = []
    for number, difference in enumerate(models):
        for label in candidates(number):
            group, action = CANDIDATES[label]
            symmetry, params = qx.Symmetry("candidate", group, action), {"b": "h", "c": "h"}
            function = lambda p, f=difference: f(p["b"], p["c"])
            claim = gated.gated_claim(f"{name}, model {number}, {label}", function, params, symmetry, SIZES)
            try:
                found = gated.judged(claim, ask(gated.gated_model(function, params), symmetry))
            except qx.UnsupportedPrimitiveError:  # refused by name, which proves nothing
                found = None
            if found is not None:
                wrong.append(f"{claim.name}: {found}")
    return "\n".join(wrong)


ALL = sorted(set(LAWS) & set(CASES))


@pytest.mark.parametrize("name", SMOKE)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nothing_false_is_proved_of_a_few(name):
    wrong = false_proofs(name, [CASES[name][0], CASES[name][-1]], lambda number: SOME[: 3 - 2 * number])
    assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nothing_false_is_proved(name):
    """Every model with a permutation, which each primitive's own law must know of, and with a group in turn."""
    models, start = len(CASES[name]), ALL.index(name)

    def chosen(number):
        groups = [PERMUTATIONS, *(group for k, group in enumerate(OTHERS) if k % models == number % len(OTHERS))]
        return [group[(number + start) % len(group)] for group in groups]

    wrong = false_proofs(name, CASES[name], chosen, by_laws)
    assert not wrong, wrong


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nothing_false_is_proved_by_any_candidate(name):
    wrong = false_proofs(name, CASES[name], lambda number: CANDIDATES)
    assert not wrong, wrong


def used(program, names):
    """The primitives of a jaxpr and of those inside it."""
    for equation in (program.jaxpr if isinstance(program, ClosedJaxpr) else program).eqns:
        names.add(equation.primitive.name)
        for value in equation.params.values():
            for part in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(part, (ClosedJaxpr, Jaxpr)):
                    used(part, names)
    return names


def test_every_law_has_a_case():
    missing = sorted(set(LAWS) - set(CASES))
    assert not missing, f"rows with a law and no case in this file: {', '.join(missing)}"


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_case_uses_its_primitive(name):
    """And brute force in NumPy computes what JAX does."""
    rng = np.random.default_rng(0)
    b, c = np.abs(rng.normal(size=4)) + 0.1, rng.normal(size=4)
    names = set()
    for f in CASES[name]:
        program = gated.Program(f, b, c)
        used(program.program, names)
        np.testing.assert_allclose(program(b, c), f(jnp.asarray(b), jnp.asarray(c)), rtol=1e-9, atol=1e-12)
    assert name in names
