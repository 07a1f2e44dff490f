"""The networks that the benchmarks time: a ReLU MLP, a small convolutional network, decoders, a pre-RMSNorm block."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import quotax as qx
from quotax.catalogue.pieces.heads import attend_causally
from quotax.catalogue.pieces.normalisation import layer_norm, rms_norm
from quotax.catalogue.transformers import pre_norm_decoder


def relu_mlp(layers):
    """`layers` weight matrices with biases and ReLU between them; one positive scaling per hidden unit."""
    axes = ["x", *(f"h{i}" for i in range(1, layers)), "y"]
    params = {}
    for i in range(1, layers + 1):
        params |= {f"W{i}": f"{axes[i]} {axes[i - 1]}", f"b{i}": axes[i]}

    @qx.architecture(params=params, inputs={"x": "x"})
    def mlp(p, x):
        for i in range(1, layers):
            x = jax.nn.relu(p[f"W{i}"] @ x + p[f"b{i}"])
        return p[f"W{layers}"] @ x + p[f"b{layers}"]

    def scaling(i):
        action = {f"W{i}": f"g @ W{i}", f"b{i}": f"g @ b{i}", f"W{i + 1}": f"W{i + 1} @ inv(g)"}
        return qx.Symmetry(f"scale{i}", qx.PositiveDiagonal(f"h{i}"), action)

    return mlp, [scaling(i) for i in range(1, layers)]


def small_cnn():
    """Two convolutions with pooling and a linear layer, on one image; one positive scaling per channel."""
    params = {"C1": "c in 3 3", "c1": "c", "C2": "e c 3 3", "c2": "e", "W": "y e 2 2", "b": "y"}

    @qx.architecture(params=params, inputs={"x": "in 8 8"})
    def cnn(p, x):
        z = x[None]
        for kernel, bias in (("C1", "c1"), ("C2", "c2")):
            z = jax.lax.conv_general_dilated(z, p[kernel], (1, 1), "SAME")
            z = jax.nn.relu(z + p[bias][:, None, None])
            z = jax.lax.reduce_window(z, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jnp.einsum("yeij,eij->y", p["W"], z[0]) + p["b"]

    return cnn


def rms_block():
    """One attention block over the rows of an image: RMS norms without gain, GELU, and the mean over rows decides."""
    params = {
        "E": "d pixel",
        "P": "row d",
        **dict.fromkeys("QKVO", "head k d"),
        "W1": "f d",
        "W2": "d f",
        "U": "y d",
    }

    @qx.architecture(params=params, inputs={"x": "row pixel"})
    def block(p, x):
        norm = lambda z: rms_norm(z, eps=1e-6)
        h = x @ p["E"].T + p["P"]
        z = norm(h)
        q, k, v = (jnp.einsum("hkd,td->htk", p[m], z) for m in "QKV")
        weights = jax.nn.softmax(jnp.einsum("htk,hsk->hts", q, k) / q.shape[-1] ** 0.5, -1)
        h = h + jnp.einsum("hts,hsk,hkd->td", weights, v, p["O"])
        h = h + jax.nn.gelu(norm(h) @ p["W1"].T) @ p["W2"].T
        return norm(h).mean(0) @ p["U"].T

    return block


def gpt2(blocks):
    """The decoder of GPT-2: learned positions, layer norms with gain and shift, biases everywhere, a tied embedding."""
    block = {
        **dict.fromkeys("QKVO", "head k d"),
        **{f"b{n}": "head k" for n in "QKV"},
        **dict.fromkeys(("bO", "gain1", "shift1", "gain2", "shift2", "b2"), "d"),
        "W1": "f d",
        "b1": "f",
        "W2": "d f",
    }
    names = [f"block{i}" for i in range(blocks)]
    params = {"E": "vocab d", "P": "t d", **dict.fromkeys(names, block), "gain": "d", "shift": "d"}

    @qx.architecture(params=params, inputs={"tokens": qx.Tokens("t", below="vocab")})
    def decoder(p, tokens):
        x = p["E"][tokens] + p["P"]
        for n in names:
            w = p[n]
            z = layer_norm(x, w["gain1"], w["shift1"], 1e-5)
            q, k, v = (jnp.einsum("hkd,td->htk", w[m], z) + w[f"b{m}"][:, None] for m in "QKV")
            x = x + jnp.einsum("htk,hkd->td", attend_causally(q, k, v), w["O"]) + w["bO"]
            z = layer_norm(x, w["gain2"], w["shift2"], 1e-5)
            x = x + jax.nn.gelu(z @ w["W1"].T + w["b1"]) @ w["W2"].T + w["b2"]
        return layer_norm(x, p["gain"], p["shift"], 1e-5) @ p["E"].T

    return decoder, [symmetry for n in names for symmetry in gpt2_heads(n)], [s for n in names for s in gpt2_gains(n)]


def gpt2_heads(n):
    """The symmetries of the heads of one block: GL on queries and keys, on values and outputs, and shifts of biases."""
    gl = qx.GL("k", each="head")
    weight = lambda m: (f"{n}/{m}[head,k,d]", f"{n}/{m}")
    bias = lambda m: (f"{n}/b{m}[head,k]", f"{n}/b{m}")

    def moved(m, inverse):
        (w, w_name), (b, b_name) = weight(m), bias(m)
        g = "inv(g)[head,l,k]" if inverse else "g[head,k,l]"
        return {w: f"{g} {w_name}[head,l,d]", b: f"{g} {b_name}[head,l]"}

    output = {f"{n}/O[head,k,d]": f"inv(g)[head,l,k] {n}/O[head,l,d]"}
    shift = qx.Translation("k", each="head")
    carried = {
        f"{n}/bV[head,k]": f"{n}/bV[head,k] + g[head,k]",
        f"{n}/bO[d]": f"{n}/bO[d] - g[head,k] {n}/O[head,k,d]",
    }
    return [
        qx.Symmetry(f"{n} query-key", gl, moved("Q", False) | moved("K", True)),
        qx.Symmetry(f"{n} key bias", shift, {f"{n}/bK[head,k]": f"{n}/bK[head,k] + g[head,k]"}),
        qx.Symmetry(f"{n} value-output", gl, moved("V", False) | output),
        qx.Symmetry(f"{n} value bias", shift, carried),
    ]


def gpt2_gains(n):
    """The scalings of what the two norms of one block write, undone by everything that reads it."""
    gain = lambda i: {f"{n}/{m}{i}": f"g @ {n}/{m}{i}" for m in ("gain", "shift")}
    read = {f"{n}/{m}[head,k,d]": f"{n}/{m}[head,k,d] inv(g)[d]" for m in "QKV"}
    first = {f"{n}/{m}1[d]": f"g[d] {n}/{m}1[d]" for m in ("gain", "shift")} | read
    return [
        qx.Symmetry(f"{n} first gain", qx.Diagonal("d"), first),
        qx.Symmetry(f"{n} second gain", qx.Diagonal("d"), gain(2) | {f"{n}/W1": f"{n}/W1 @ inv(g)"}),
    ]


def rms_decoder(blocks):
    """The catalogue's decoder with RMS norms that have no gain: the residual stream turns as a whole, under O(d)."""
    names = [f"block{i}" for i in range(blocks)]
    heads = []
    turned = {"E": "E @ g.T", "P": "P @ g.T", "U": "U @ g.T"}
    for n in names:
        for name, a, b, inverse in (
            ("query-key", "Q", f"{n}/K[head,k,d]", f"{n}/K[head,l,d]"),
            ("value-output", "V", f"{n}/O[d,head,k]", f"{n}/O[d,head,l]"),
        ):
            action = {f"{n}/{a}[head,k,d]": f"g[head,k,l] {n}/{a}[head,l,d]", b: f"inv(g)[head,l,k] {inverse}"}
            heads.append(qx.Symmetry(f"{n} {name}", qx.GL("k", each="head"), action))
        turned |= {f"{n}/{m}[head,k,d]": f"g[d,e] {n}/{m}[head,k,e]" for m in "QKV"}
        turned |= {f"{n}/O[d,head,k]": f"g[d,e] {n}/O[e,head,k]"}
        turned |= {f"{n}/W1": f"{n}/W1 @ g.T", f"{n}/W2": f"g @ {n}/W2"}
    return pre_norm_decoder.decoder(blocks), heads, [qx.Symmetry("residual", qx.O("d"), turned)]
