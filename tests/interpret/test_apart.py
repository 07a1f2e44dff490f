"""Programs of whole arrays as programs of their parts: the same numbers, and what can stay apart does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import jaxpr_as_fun

import quotax as qx
from quotax.declare.axes import parse_arrays
from quotax.errors import ArchitectureError
from quotax.interpret.tracing.apart import program_of_parts
from quotax.interpret.tracing.fixed_sizes import nested, trace
from quotax.parts import taken_apart, tree, whole_shape
from quotax.programs.jaxprs import bare, bodies

SIZES = {"h": 2, "k": 3, "g": 2, "d": 5, "t": 4, "x": 3, "y": 5}


def names_in(jaxpr):
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for value in equation.params.values():
            for body in bodies(value):
                yield from names_in(bare(body))


def compared(function, params, labels=None):
    """The largest difference of the two programs, and the primitives of that of parts."""
    arrays = parse_arrays(params, labels)
    specs = tuple(spec for array in arrays for spec in array.parts)
    rng = np.random.default_rng(0)
    whole = {a.name: rng.normal(size=a.shape(SIZES)) for a in arrays}
    x = rng.normal(size=(SIZES["t"], SIZES["d"]))
    closed = jax.make_jaxpr(lambda *leaves: function(nested(list(whole), leaves[:-1]), leaves[-1]))(*whole.values(), x)
    apart = program_of_parts(closed, specs, SIZES)
    parts = taken_apart(specs, whole, SIZES)
    assert [v.aval.shape for v in apart.jaxpr.invars[:-1]] == [s.shape(SIZES) for s in specs]
    one = jax.jit(jaxpr_as_fun(closed))(*whole.values(), x)
    other = jax.jit(jaxpr_as_fun(apart))(*parts.values(), x)
    assert [a.shape for a in one] == [a.shape for a in other]
    return max(
        float(np.abs(np.asarray(a, float) - np.asarray(b, float)).max()) for a, b in zip(one, other, strict=True)
    ), list(names_in(apart.jaxpr))


def over_time(p, x):
    def step(state, now):
        i, j = jnp.split(now + p["U"] @ state, 2)
        state = jnp.tanh(i) * j
        return state, (state, now)

    return jax.lax.scan(step, jnp.zeros(3), x @ p["W"].T + p["b"], reverse=True)[1][0]


def _three_times(function, start):
    return jax.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, function(s[1])), (0, start))[1]


SEPARATE = {
    "split": (lambda p, x: jnp.split(x @ p["W"], 3, -1)[1], {"W": "d 3*h*k"}),
    "bias": (lambda p, x: jnp.split(x @ p["W"] + p["b"], 3, -1), {"W": "d 3*h*k", "b": "3*h*k"}),
    "reshape": (lambda p, x: (x @ p["W"]).reshape(4, 3, 2, 3)[:, 1], {"W": "d 3*h*k"}),
    "reshape, last": (lambda p, x: (x @ p["W"]).reshape(4, 3, 2, 3)[:, -1], {"W": "d 3*h*k"}),
    "unpacked": (lambda p, x: [*(x @ p["W"]).reshape(4, 3, 2, 3).transpose(1, 2, 0, 3)], {"W": "d 3*h*k"}),
    "unstacked": (lambda p, x: jnp.unstack((x @ p["W"]).reshape(4, 3, 2, 3), axis=1), {"W": "d 3*h*k"}),
    "unstacked, each": (lambda p, x: [jnp.split(z, 3) for z in jnp.unstack(x @ p["W"])], {"W": "d 3*h*k"}),
    "moved": (lambda p, x: jnp.moveaxis((x @ p["W"]).reshape(4, 2, 3, 3), 2, 0)[2], {"W": "d h*3*k"}),
    "in turns": (lambda p, x: jnp.split((x @ p["W"]).reshape(4, 2, 9), 3, -1), {"W": "d h*3*k"}),
    "strided": (lambda p, x: ((x @ p["W"])[:, ::2], (x @ p["W"])[:, 1::2]), {"W": "d k*2"}),
    "rows": (lambda p, x: [p["W"][i * 6 : (i + 1) * 6] @ x.T for i in range(3)], {"W": "3*h*k d"}),
    "unequal": (lambda p, x: jnp.split(x @ p["W"], [6, 9], -1), {"W": "d (g+2)*k"}),
    "unequal, heads": (lambda p, x: (x @ p["W"]).reshape(4, 2, 4, 3)[:, :, 2], {"W": "d h*(g+2)*k"}),
    "unequal, two of three": (lambda p, x: jnp.split((x @ p["W"])[:, 6:], 2, -1), {"W": "d (g+2)*k"}),
    "einsum": (lambda p, x: jnp.einsum("td,dshk->sthk", x, p["W"].reshape(5, 3, 2, 3))[0], {"W": "d 3*h*k"}),
    "stacked": (lambda p, x: [jnp.einsum("td,dk->tk", x, p["W"][i]) for i in range(3)], {"W": "3 d k"}, {"W": "q r s"}),
    "stacked, at once": (lambda p, x: jnp.einsum("td,sdk->stk", x, p["W"])[1], {"W": "3 d k"}, {"W": "q r s"}),
    "swish": (lambda p, x: [jax.nn.silu(z) for z in jnp.split(jax.nn.gelu(x @ p["W"]), 2, -1)], {"W": "d 2*k"}),
    "contracted": (lambda p, x: jnp.concatenate([x, 2 * x], -1) @ p["W"], {"W": "d+d k"}),
    "both": (lambda p, x: jnp.split(jnp.concatenate([x, x[:, :1]], -1) @ p["W"], 2, -1), {"W": "d+1 2*k"}),
    "norm": (lambda p, x: jnp.sum(p["W"] ** 2), {"W": "d 3*h*k"}),
    "largest": (lambda p, x: jnp.max(p["W"], 0)[3:], {"W": "d 2*k"}),
    "scan": (over_time, {"W": "2*k d", "U": "2*k k", "b": "2*k"}),
    "taken": (lambda p, x: jnp.take((x @ p["W"]).reshape(4, 2, 3), 1, axis=1), {"W": "d 2*k"}),
    "looked up": (lambda p, x: jnp.split(p["E"][jnp.array([1, 0, 3])], 2, -1), {"E": "d 2*k"}),
    "outer": (lambda p, x: jnp.split(p["b"][:, None] * x[0], 2), {"b": "2*k"}),
    "scaled rows": (lambda p, x: jnp.split((p["W"] * p["b"]).T, 2)[0], {"W": "d 2*k", "b": "2*k"}),
    "running": (lambda p, x: jnp.split(jnp.cumsum(x @ p["W"], 0), 2, -1), {"W": "d 2*k"}),
    "chosen": (lambda p, x: jnp.split(jnp.where(x @ p["W"] > 0, x @ p["W"], 0.1), 2, -1), {"W": "d 2*k"}),
    "dynamic": (lambda p, x: jax.lax.dynamic_slice_in_dim(x @ p["W"], 3, 3, 1), {"W": "d 2*k"}),
    "fused here": (
        lambda p, x: jnp.split(x @ jnp.concatenate([p["q"], p["k"]], 1), [3], -1),
        {"q": "d k", "k": "d h"},
    ),
    "stacked here": (
        lambda p, x: jnp.einsum("td,sdk->stk", x, jnp.stack([p["q"], p["k"]]))[1],
        {"q": "d k", "k": "d k"},
    ),
    "fused in a loop": (
        lambda p, x: jax.lax.scan(
            lambda s, r: (jnp.split(jnp.concatenate([p["q"], p["k"]]) @ (r + s), 2)[0].sum(), r), 0.0, x
        )[0],
        {"q": "k d", "k": "k d"},
    ),
    "fused and padded": (
        lambda p, x: (x @ jnp.concatenate([p["q"], jnp.zeros((5, 2))], 1))[:, :3],
        {"q": "d k"},
    ),
    "convolution": (
        lambda p, x: jnp.split(jax.lax.conv(x[None], p["K"], (1,), "SAME"), 2, 1),
        {"K": "2*k t 3"},
    ),
}  # fmt: skip

MIXING = {
    "softmax": (lambda p, x: jax.nn.softmax(x @ p["W"]), {"W": "d 3*h*k"}),
    "cut elsewhere": (lambda p, x: jnp.split(x @ p["W"], [4, 11], -1), {"W": "d 3*h*k"}),
    "other order": (lambda p, x: (x @ p["W"]).reshape(4, 2, 3, 3)[:, :, 1], {"W": "d 3*h*k"}),
    "flat": (lambda p, x: (x @ p["W"]).ravel()[::5], {"W": "d h*3*k"}),
    "odd columns": (lambda p, x: (x @ p["W"])[:, 1::2], {"W": "d 2*k"}),
    "not to the end": (lambda p, x: (x @ p["W"])[:, 1:5:2], {"W": "d k*2"}),
    "but the last": (lambda p, x: (x @ p["W"])[:, :-1:2], {"W": "d k*2"}),
    "reversed": (lambda p, x: (x @ p["W"])[:, ::-1], {"W": "d 2*k"}),
    "rows of parts": (lambda p, x: p["W"][jnp.array([1, 4, 2])] @ x.T, {"W": "3*h d"}),
    "two indices": (lambda p, x: (x @ p["W"]).reshape(4, 2, 3)[2, 1], {"W": "d 2*k"}),
    "sorted": (lambda p, x: jnp.sort(x @ p["W"], -1), {"W": "d 2*k"}),
    "product of all": (lambda p, x: jnp.prod(p["b"]), {"b": "2*k"}),
    "loop": (lambda p, x: _three_times(lambda z: z * p["b"], p["b"]), {"b": "2*k"}),
    "branch": (lambda p, x: jax.lax.cond(x[0, 0] > 0, lambda b: b, lambda b: b[::-1], p["b"]), {"b": "2*k"}),
    "turned": (lambda p, x: x @ p["W"] @ p["W"].T, {"W": "d h*3*k"}),
    "two layouts": (lambda p, x: jnp.split(x @ p["W"] * (x @ p["V"]), 2, -1), {"W": "d 2*k", "V": "d k*2"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SEPARATE)
def test_parts_stay_apart(name):
    difference, used = compared(*SEPARATE[name])
    assert difference < 1e-12
    made = sum(n == "concatenate" for n in used)
    assert made == (1 if name in ("contracted", "both") else 0)


@pytest.mark.parametrize("name", MIXING)
def test_what_mixes_parts_is_computed_as_it_was(name):
    assert compared(*MIXING[name])[0] < 1e-12


LAYOUTS = ["2*k", "k*2", "h*2*k", "g*(h+1)*k", "h+k", "(k+2*h)*g", "2*h*2", "3*2*h"]
MOVES = {
    "tanh": jnp.tanh,
    "square": lambda z: z * z,
    "self": lambda z: z + z[:1],
    "column": lambda z: z * jnp.arange(z.shape[-1] + 0.0),
    "turn": lambda z: jnp.swapaxes(z, 0, -1),
    "halves": lambda z: z.reshape(2, -1) if z.size % 2 == 0 else z,
    "thirds": lambda z: z.reshape(z.shape[0], -1, 3) if z[0].size % 3 == 0 else z,
    "pairs": lambda z: z.reshape(z.shape[0], 2, -1) if z[0].size % 2 == 0 else z,
    "tail": lambda z: z[..., z.shape[-1] // 2 :],
    "head": lambda z: z[: max(1, z.shape[0] // 2)],
    "even": lambda z: z[..., ::2],
    "first": lambda z: z[0] if z.ndim > 2 else z,
    "sum": lambda z: z.sum(0) if z.ndim > 2 else z,
    "mix": lambda z: z @ jnp.cos(jnp.arange(4.0 * z.shape[-1])).reshape(-1, 4),
    "spread": lambda z: jnp.broadcast_to(z[None], (2, *z.shape)) if z.ndim < 3 else z,
    "ends": lambda z: jnp.concatenate([z[:1], z], 0),
    "flip": lambda z: z[::-1],
    "running": lambda z: jnp.cumsum(z, -1),
}


def test_what_is_made_of_inputs_stays_as_it_was():
    def turned(p, x):
        a, b = jnp.split(x @ p["W"], 2, -1)
        return jnp.concatenate([-b, a], -1) + jnp.concatenate([p["u"], x[0, :3]])

    (specs, closed) = _plainly(turned, {"W": "d f", "u": "k"}, {"d": 5, "f": 6, "k": 3})
    assert program_of_parts(closed, specs, {"d": 5, "f": 6, "k": 3}) is closed


def _plainly(function, params, sizes):
    specs = tuple(spec for array in parse_arrays(params) for spec in array.parts)
    arrays = [jnp.ones(spec.shape(sizes)) for spec in specs]
    names = [spec.name for spec in specs]
    return specs, jax.make_jaxpr(lambda *a: function(dict(zip(names, a[:-1], strict=True)), a[-1]))(
        *arrays, jnp.ones((4, 5))
    )


@settings(max_examples=20)
@given(st.sampled_from(LAYOUTS), st.lists(st.sampled_from(sorted(MOVES)), min_size=1, max_size=5))
def test_programs_at_random(layout, moves):
    def program(p, x):
        z = x @ p["W"] + p["b"]
        for move in moves:
            z = MOVES[move](z)
        return z

    assert compared(program, {"W": f"d {layout}", "b": layout})[0] < 1e-10


@given(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS), st.integers(0, 2))
def test_taking_apart_is_undone_by_putting_together(one, other, batch):
    _there_and_back(one, other, batch, np)


def test_taking_apart_is_undone_in_jax_too():
    _there_and_back("g*(h+1)*k", "2*k", 2, jnp)


def _there_and_back(one, other, batch, xp):
    specs = tuple(s for a in parse_arrays({"m": {"W": f"{one} d {other}"}}) for s in a.parts)
    shape = whole_shape(specs[0], SIZES)
    rng = np.random.default_rng(batch)
    array = xp.asarray(rng.normal(size=shape))
    parts = taken_apart(specs, {"m/W": array}, SIZES)
    assert sum(p.size for p in parts.values()) == array.size
    assert all(p.shape == s.shape(SIZES) for p, s in zip(parts.values(), specs, strict=True))
    many = {name: xp.stack([p] * batch) if batch else p for name, p in parts.items()}
    again = tree(specs, many, SIZES)["m"]["W"]
    assert isinstance(again, np.ndarray) == (xp is np)
    np.testing.assert_array_equal(again, xp.stack([array] * batch) if batch else array)


@pytest.mark.parametrize(
    ("axes", "names"),
    [
        ("3*head*k d", {"W.0": "head*k d", "W.1": "head*k d", "W.2": "head*k d"}),
        ("d head*3*k", {"W.0": "d head*k", "W.1": "d head*k", "W.2": "d head*k"}),
        ("(head+2*kv)*k", {"W.0": "head*k", "W.1": "kv*k", "W.2": "kv*k"}),
        ("kv*(group+2)*k", {"W.0": "kv*group*k", "W.1": "kv*k", "W.2": "kv*k"}),
        ("y x+1", {"W.0": "y x", "W.1": "y 1"}),
        ("x+h 2*f", {"W.0.0": "x f", "W.0.1": "x f", "W.1.0": "h f", "W.1.1": "h f"}),
        ("o c 3 3", {"W": "o c 3 3"}),
        ("32*k", {"W": "32*k"}),
        ("2*3", {"W": "2*3"}),
        ("(h)", {"W": "h"}),
    ],
)
def test_axes_that_are_sums(axes, names):
    (array,) = parse_arrays({"W": axes})
    assert {spec.name: spec.axes_text for spec in array.parts} == names


@pytest.mark.parametrize(
    ("axes", "parts", "message"),
    [
        ("d 3*k", {"W": "q k"}, "parts names 2 parts of 'W', q k, but its axes 'd 3\\*k' have 3"),
        ("d k", {"W": "q k"}, "none of its axes 'd k' is a sum"),
        ("d 2*k", {"V": "q k"}, "parts names 'V', which is no parameter; they are W"),
        ("d 2*k", {"W": "q T"}, "none of them T"),
        ("d 2*k", {"W": "q q"}, "each once"),
        ("d 2*k", "q k", "parts must be a dict"),
        ("d (a+b)*(c+e)", None, "more than one sum"),
        ("d (a+(b+c)*e)", None, "a sum inside a sum"),
        ("d (a+b", None, "is neither an axis name nor a positive size"),
        ("d a++b", None, "is neither an axis name nor a positive size"),
        ("d 0*k", None, "'0' is neither"),
        ("d 2*k)", None, "is neither an axis name nor a positive size"),
        ("d a-b", None, "'a-b' is neither"),
    ],
)
def test_declarations_of_parts_are_refused(axes, parts, message):
    with pytest.raises(ArchitectureError, match=message):
        qx.architecture(params={"W": axes}, inputs={"x": "t d"}, parts=parts)


def test_the_users_function_is_traced_on_whole_arrays():
    seen = []

    def function(p, x):
        seen.append({name: a.shape for name, a in p["m"].items()})
        return x @ p["m"]["W"]

    specs = tuple(s for a in parse_arrays({"m": {"W": "d h*3*k", "b": "k"}}) for s in a.parts)
    (x,) = parse_arrays({"x": "t d"})
    made = trace(function, specs, x.parts, SIZES)
    assert seen == [{"W": (5, 18), "b": (3,)}]
    assert [v.aval.shape for v in made.jaxpr.jaxpr.invars] == [(5, 6)] * 3 + [(3,), (4, 5)]
