"""Models and symmetries that several rooms test with: each true symmetry beside twins that are broken in one place."""

import jax
import jax.numpy as jnp

import quotax as qx


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
def relu(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])


@qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
def linear(p, x):
    return p["W2"] @ (p["W1"] @ x)


@qx.architecture(
    params={"Wq": "head k x", "Wk": "head k x", "Wv": "head v x", "Wo": "x head v"},
    inputs={"x": "t x"},
)
def attention(p, x):
    q, k, v = (jnp.einsum("tx,hkx->htk", x, p[name]) for name in ("Wq", "Wk", "Wv"))
    scores = jnp.einsum("htk,hsk->hts", q, k) / q.shape[-1] ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("hts,hsv,xhv->tx", jax.nn.softmax(scores, -1), v, p["Wo"])


@qx.architecture(params={"Wg": "h x", "Wu": "h x", "Wd": "y h"}, inputs={"x": "x"})
def swiglu(p, x):
    return p["Wd"] @ (jax.nn.silu(p["Wg"] @ x) * (p["Wu"] @ x))


@qx.architecture(params={"W": "y x", "b": "y"}, inputs={"x": "x"})
def softmax_head(p, x):
    return jax.nn.log_softmax(p["W"] @ x + p["b"])


def _batch_norm(eps):
    def model(p, x):
        z = x @ p["W"].T + p["b"]
        return p["gain"] * (z - z.mean(0)) / jnp.sqrt(z.var(0) + eps) + p["shift"]

    return qx.architecture(params={"W": "h x", "b": "h", "gain": "h", "shift": "h"}, inputs={"x": "n x"})(model)


batch_norm = _batch_norm(0.0)
batch_norm_eps = _batch_norm(1e-3)

@qx.architecture(params={"W": "h x"}, inputs={"x": "x"})
def tied(p, x):
    return p["W"].T @ (p["W"] @ x)


@qx.architecture(params={"Wq": "k x", "Wk": "k x"}, inputs={"x": "t x"})
def rotary(p, x):
    half = p["Wq"].shape[0] // 2
    angle = jnp.arange(x.shape[0])[:, None] * 0.3 ** jnp.arange(half)

    def rotate(z):
        a, b = z[:, :half], z[:, half:]
        return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], 1)

    return jax.nn.softmax(rotate(x @ p["Wq"].T) @ rotate(x @ p["Wk"].T).T)


PAIRS = {"Wq": "g @ Wq", "Wk": "inv(g).T @ Wk"}
PD, GL, T = qx.PositiveDiagonal, qx.GL, qx.Translation
QK = {"Wq[head,k,x]": "g[head,k,l] Wq[head,l,x]", "Wk[head,k,x]": "inv(g)[head,l,k] Wk[head,l,x]"}
VO = {"Wv[head,v,x]": "g[head,v,l] Wv[head,l,x]", "Wo[x,head,v]": "inv(g)[head,l,v] Wo[x,head,l]"}

TRUE = {
    "relu scaling": (relu, PD("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    "linear GL": (linear, GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"}),
    "attention query-key": (attention, GL("k", each="head"), QK),
    "attention value-output": (attention, GL("v", each="head"), VO),
    "swiglu": (swiglu, qx.Diagonal("h"), {"Wu": "g @ Wu", "Wd": "Wd @ inv(g)"}),
    "softmax head": (softmax_head, T("x"), {"W": "W + g"}),
    "softmax head bias": (softmax_head, T(), {"b": "b + g"}),
    "batch norm scale": (batch_norm, PD("h"), {"W": "g @ W", "b": "g @ b"}),
    "batch norm shift": (batch_norm, T("h"), {"b": "b + g"}),
    "batch norm shift, eps": (batch_norm_eps, T("h"), {"b": "b + g"}),
    "tied rotation": (tied, qx.O("h"), {"W": "g @ W"}),
    "rotary pairs": (rotary, qx.ComplexScaling("k", pairs="halves"), PAIRS),
    "relu permutation": (relu, qx.Permutation("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
}

BROKEN = {
    "relu: sign": (relu, PD("h"), {"W1": "-g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    "relu: inverse": (relu, PD("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g"}),
    "relu: bias": (relu, PD("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"}),
    "relu: missing parameter": (relu, PD("h"), {"W1": "g @ W1", "b1": "g @ b1"}),
    "relu: negative factors": (relu, qx.Diagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    "relu: all of GL": (relu, GL("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    "linear: sign": (linear, GL("h"), {"W1": "g @ W1", "W2": "-W2 @ inv(g)"}),
    "linear: inverse": (linear, GL("h"), {"W1": "g @ W1", "W2": "W2 @ g"}),
    "linear: transpose": (linear, GL("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"}),
    "linear: missing parameter": (linear, GL("h"), {"W1": "g @ W1"}),
    "query-key: sign": (attention, GL("k", each="head"), QK | {"Wk[head,k,x]": "-inv(g)[head,l,k] Wk[head,l,x]"}),
    "query-key: inverse": (attention, GL("k", each="head"), QK | {"Wk[head,k,x]": "g[head,l,k] Wk[head,l,x]"}),
    "query-key: transpose": (attention, GL("k", each="head"), QK | {"Wk[head,k,x]": "inv(g)[head,k,l] Wk[head,l,x]"}),
    "query-key: missing": (attention, GL("k", each="head"), {"Wq[head,k,x]": QK["Wq[head,k,x]"]}),
    "value-output: sign": (attention, GL("v", each="head"), VO | {"Wv[head,v,x]": "-g[head,v,l] Wv[head,l,x]"}),
    "value-output: inverse": (attention, GL("v", each="head"), VO | {"Wo[x,head,v]": "g[head,l,v] Wo[x,head,l]"}),
    "value-output: missing": (attention, GL("v", each="head"), {"Wv[head,v,x]": VO["Wv[head,v,x]"]}),
    "swiglu: gate branch": (swiglu, qx.Diagonal("h"), {"Wg": "g @ Wg", "Wd": "Wd @ inv(g)"}),
    "swiglu: sign": (swiglu, qx.Diagonal("h"), {"Wu": "g @ Wu", "Wd": "-Wd @ inv(g)"}),
    "swiglu: inverse": (swiglu, qx.Diagonal("h"), {"Wu": "g @ Wu", "Wd": "Wd @ g"}),
    "swiglu: missing": (swiglu, qx.Diagonal("h"), {"Wu": "g @ Wu"}),
    "softmax head: per class": (softmax_head, T("y"), {"b": "b + g"}),
    "softmax head: scaled": (softmax_head, PD("x"), {"W": "W @ g"}),
    "softmax head: sign": (softmax_head, T("x"), {"W": "-W + g"}),
    "batch norm: eps": (batch_norm_eps, PD("h"), {"W": "g @ W", "b": "g @ b"}),
    "batch norm: sign": (batch_norm, PD("h"), {"W": "-g @ W", "b": "-g @ b"}),
    "batch norm: inverse": (batch_norm, PD("h"), {"W": "g @ W", "gain": "g @ gain"}),
    "batch norm: shift after": (batch_norm, T("h"), {"shift": "shift + g"}),
    "tied: all of GL": (tied, GL("h"), {"W": "g @ W"}),
    "rotary: other pairs": (rotary, qx.ComplexScaling("k", pairs="adjacent"), PAIRS),
    "rotary: all of GL": (rotary, GL("k"), PAIRS),
    "permutation: inverse": (relu, qx.Permutation("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g"}),
}


def symmetry(name, table=None):
    model, group, action = (table or TRUE)[name]
    return model, qx.Symmetry(name, group, action)
