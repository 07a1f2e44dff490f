"""Recurrent cells, odd networks and residual streams with norms, declared as people write them."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx


def _over_time(step, starts, x):
    return jax.lax.scan(step, starts, x)[1]


def lstm(gate=jax.nn.sigmoid, cell=jnp.tanh, out_bias=False):
    """An LSTM with one array for each gate."""
    params = {f"{kind}{n}": axes for n in "ifog" for kind, axes in (("W", "h x"), ("U", "h h"), ("b", "h"))}

    @qx.architecture(params=params | {"C": "y h"} | ({"c": "y"} if out_bias else {}), inputs={"x": "t x"})
    def model(p, x):
        def step(state, now):
            h, c = state
            i, f, o = (gate(p["W" + n] @ now + p["U" + n] @ h + p["b" + n]) for n in "ifo")
            c = f * c + i * cell(p["Wg"] @ now + p["Ug"] @ h + p["bg"])
            h = o * cell(c)
            return (h, c), p["C"] @ h + (p["c"] if out_bias else 0)

        zero = jnp.zeros(p["bi"].shape)
        return _over_time(step, (zero, zero), x)

    return model


@qx.architecture(params={"W": "4*h x", "U": "4*h h", "b": "4*h", "C": "y h"}, inputs={"x": "t x"})
def fused_lstm(p, x):
    """The gates in one array."""

    def step(state, now):
        h, c = state
        i, f, o, g = jnp.split(p["W"] @ now + p["U"] @ h + p["b"], 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), p["C"] @ h

    zero = jnp.zeros(p["U"].shape[1])
    return _over_time(step, (zero, zero), x)


def gru(candidate=jnp.tanh):
    """A GRU with one array for each gate."""
    params = {f"{kind}{n}": axes for n in "zrn" for kind, axes in (("W", "h x"), ("U", "h h"), ("b", "h"))}

    @qx.architecture(params=params | {"C": "y h", "c": "y"}, inputs={"x": "t x"})
    def model(p, x):
        def step(h, now):
            z, r = (jax.nn.sigmoid(p["W" + n] @ now + p["U" + n] @ h + p["b" + n]) for n in "zr")
            new = candidate(p["Wn"] @ now + p["Un"] @ (r * h) + p["bn"])
            h = (1 - z) * new + z * h
            return h, p["C"] @ h + p["c"]

        return _over_time(step, jnp.zeros(p["bz"].shape), x)

    return model


def odd_skip(inner=jnp.tanh):
    """Two odd layers on a stream, `z + D tanh(U z)`."""

    @qx.architecture(params={"R": "d x", "U": "f d", "D": "d f", "H": "y d"}, inputs={"x": "x"})
    def model(p, x):
        z = jnp.tanh(p["R"] @ x)
        return p["H"] @ jnp.tanh(z + p["D"] @ inner(p["U"] @ z))

    return model


def rms_norm(z, gain):
    return z * jax.lax.rsqrt((z**2).mean(-1, keepdims=True) + 1e-5) * gain


def layer_norm(z, gain, shift):
    z = z - z.mean(-1, keepdims=True)
    return z * jax.lax.rsqrt((z**2).mean(-1, keepdims=True) + 1e-5) * gain + shift


@qx.architecture(
    params={
        "R": "d x",
        "g1": "d",
        "U1": "f d",
        "D1": "d f",
        "g2": "d",
        "U2": "f d",
        "D2": "d f",
        "g3": "d",
        "H": "y d",
    },
    inputs={"x": "t x"},
)
def rms_stream(p, x):
    """A residual stream of two blocks, each behind a root mean square norm with gains."""
    z = x @ p["R"].T
    z = z + jax.nn.gelu(rms_norm(z, p["g1"]) @ p["U1"].T) @ p["D1"].T
    z = z + jax.nn.gelu(rms_norm(z, p["g2"]) @ p["U2"].T) @ p["D2"].T
    return rms_norm(z, p["g3"]) @ p["H"].T


@qx.architecture(
    params={
        "R": "d x",
        "H": "y d",
        **{f"U{k}": "f d" for k in (1, 2)},
        **{f"D{k}": "d f" for k in (1, 2)},
        **{f"{kind}{k}": "d" for k in (1, 2, 3) for kind in "gb"},
    },
    inputs={"x": "t x"},
)
def layer_stream(p, x):
    """The same with layer norms, gains and shifts."""
    z = x @ p["R"].T
    z = z + jax.nn.gelu(layer_norm(z, p["g1"], p["b1"]) @ p["U1"].T) @ p["D1"].T
    z = z + jax.nn.gelu(layer_norm(z, p["g2"], p["b2"]) @ p["U2"].T) @ p["D2"].T
    return layer_norm(z, p["g3"], p["b3"]) @ p["H"].T
