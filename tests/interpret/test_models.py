"""Whole blocks that the symbolic domain must read: each against JAX's own numbers."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from quotax.artifacts import ArraySpec
from quotax.interpret import symbolic_outputs, trace

Check = Callable[..., Any]


def arrays(**axes: str) -> tuple[ArraySpec, ...]:
    """Real arrays by name: `W="h x"`, fixed sizes as numbers."""
    return tuple(
        ArraySpec(name, tuple(tuple(int(f) if f.isdigit() else f for f in a.split("*")) for a in text.split()))
        for name, text in axes.items()
    )


def tokens(name: str, axes: str, below: str) -> ArraySpec:
    """Tokens in 0..below-1."""
    return ArraySpec(name, tuple((a,) for a in axes.split()), "tokens", below)


def softmax_attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Attention of arrays (token, channel)."""
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape, dtype=bool)), scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def attention(p: Any, x: Any, causal: bool = True, turn: Callable[[Any], Any] = lambda a: a) -> Any:
    """One head."""
    return softmax_attention(turn(x @ p["Wq"].T), turn(x @ p["Wk"].T), x @ p["Wv"].T, causal) @ p["Wo"].T


HEAD = arrays(Wq="k x", Wk="k x", Wv="k x", Wo="x k")


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_read_as_jax_runs_it(agrees: Check, causal: bool) -> None:
    """Attention with and without a causal mask of -inf."""
    agrees(lambda p, x: attention(p, x, causal), HEAD, arrays(x="t x"), {"k": 2, "x": 2, "t": 3}, draws=2)


def angles(tokens: int, half: int) -> Any:
    """RoPE's table of angles."""
    return jnp.arange(tokens)[:, None] * 10000.0 ** (-jnp.arange(half) / half)


def rope_interleaved(a: Any) -> Any:
    """Pairs (0,1), (2,3), ... turn."""
    turn = angles(a.shape[0], a.shape[1] // 2)
    even, odd = a[:, ::2], a[:, 1::2]
    pairs = [even * jnp.cos(turn) - odd * jnp.sin(turn), even * jnp.sin(turn) + odd * jnp.cos(turn)]
    return jnp.stack(pairs, axis=-1).reshape(a.shape)


def rope_split(a: Any) -> Any:
    """Pairs (0, n/2), (1, n/2+1), ... turn."""
    turn = jnp.tile(angles(a.shape[0], a.shape[1] // 2), (1, 2))
    first, second = jnp.split(a, 2, axis=-1)
    return a * jnp.cos(turn) + jnp.concatenate([-second, first], axis=-1) * jnp.sin(turn)


@pytest.mark.parametrize("turn", [rope_interleaved, rope_split])
def test_rotary_positions_are_read_as_jax_runs_them(agrees: Check, turn: Callable[[Any], Any]) -> None:
    """Rotary positions in both layouts."""
    agrees(lambda p, x: attention(p, x, True, turn), HEAD, arrays(x="t x"), {"k": 4, "x": 2, "t": 3}, draws=1)


def test_grouped_heads_are_read_as_jax_runs_them(agrees: Check) -> None:
    """Grouped-query attention: heads share keys and values, by einsum over an axis that fuses head and channel."""

    def model(p: Any, x: Any) -> Any:
        groups, t = 2, x.shape[0]
        q = (x @ p["Wq"].T).reshape(t, groups, 2, 1)
        k, v = (jnp.einsum("gkx,tx->tgk", p[name], x) for name in ("Wk", "Wv"))
        scores = jnp.einsum("tghk,sgk->ghts", q, k)
        scores = jnp.where(jnp.tri(t, dtype=bool), scores, jnp.finfo(scores.dtype).min)
        return jnp.einsum("ghts,sgk->tghk", jax.nn.softmax(scores), v).reshape(t, -1) @ p["Wo"].T

    params = arrays(Wq="group*head*k x", Wk="group k x", Wv="group k x", Wo="x group*head*k")
    agrees(model, params, arrays(x="t x"), {"group": 2, "head": 2, "k": 1, "x": 2, "t": 2})


def test_jax_nn_attention(agrees: Check) -> None:
    """jax.nn.dot_product_attention, whose softmax JAX computes in float32: hence the tolerance."""
    agrees(
        lambda _, q, k: jax.nn.dot_product_attention(q, k, k, is_causal=True),
        (),
        arrays(q="1 2 1 2", k="1 2 1 2"),
        low=-1,
        high=1,
        rtol=1e-6,
    )


def normalised(z: Any, axis: int, centre: bool, eps: float) -> Any:
    """Batch norm (axis 0), layer norm (-1), or RMS norm (-1, no centring)."""
    z = z - z.mean(axis, keepdims=True) if centre else z
    return z / jnp.sqrt(jnp.mean(z**2, axis=axis, keepdims=True) + eps)


@pytest.mark.parametrize(
    ("axis", "centre", "eps"), [(0, True, 0.0), (0, True, 1e-5), (-1, True, 1e-5), (-1, False, 1e-6)]
)
def test_norms_are_read_as_jax_runs_them(agrees: Check, axis: int, centre: bool, eps: float) -> None:
    """Batch, layer and RMS norm of a linear map with gain and bias."""
    agrees(
        lambda p, x: p["g"] * normalised(x @ p["W"].T + p["b"], axis, centre, eps) + p["c"],
        arrays(W="h x", b="h", g="h", c="h"),
        arrays(x="n x"),
        {"h": 3, "x": 2, "n": 3},
    )


def test_a_relu_recurrence_is_read_as_jax_runs_it(agrees: Check) -> None:
    """A ReLU recurrence, unrolled at the traced length."""

    def model(p: Any, x: Any) -> Any:
        def turn(h: Any, now: Any) -> Any:
            h = jax.nn.relu(p["U"] @ h + p["W"] @ now + p["b"])
            return h, p["O"] @ h

        return lax.scan(turn, jnp.zeros(p["b"].shape), x)[1]

    agrees(model, arrays(U="h h", W="h x", b="h", O="y h"), arrays(x="t x"), {"h": 2, "x": 2, "y": 1, "t": 3})


def test_an_lstm_is_read_as_jax_runs_it(agrees: Check) -> None:
    """An LSTM whose four gates share one matrix."""

    def model(p: Any, x: Any) -> Any:
        def turn(state: Any, now: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(p["cell"]["W"] @ jnp.concatenate([h, now]) + p["cell"]["b"], 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zero = jnp.zeros(2)
        return lax.scan(turn, (zero, zero), x)[0][0]

    agrees(model, arrays(**{"cell/W": "8 z", "cell/b": "8"}), arrays(x="t x"), {"z": 3, "x": 1, "t": 3}, draws=1)


def test_a_state_space_model_is_read_as_jax_runs_it(agrees: Check) -> None:
    """A linear state-space model."""

    def model(p: Any, x: Any) -> Any:
        return lax.scan(lambda s, u: (p["A"] @ s + p["B"] @ u, p["C"] @ s), jnp.zeros(p["A"].shape[0]), x)

    agrees(model, arrays(A="n n", B="n u", C="y n"), arrays(x="t u"), {"n": 2, "u": 1, "y": 1, "t": 4})


@pytest.mark.parametrize("one_hot", [True, False])
def test_embedding_and_loss(agrees: Check, one_hot: bool) -> None:
    """Embeddings by one-hot product and by integer index, into a cross-entropy against integer labels."""

    def model(p: Any, t: Any, labels: Any) -> Any:
        e = jax.nn.one_hot(t, p["E"].shape[0]) @ p["E"] if one_hot else p["E"][t]
        logits = jax.nn.log_softmax(jnp.tanh(e + p["P"]) @ p["W"].T)
        return -jnp.take_along_axis(logits, labels[:, None], axis=1).mean()

    agrees(
        model,
        arrays(E="v d", P="t d", W="y d"),
        (tokens("t", "t", "v"), tokens("labels", "t", "y")),
        {"v": 3, "d": 2, "t": 2, "y": 2},
    )


def test_conv_relu_pool(agrees: Check) -> None:
    """A convolution, ReLU, pooling and a head."""

    def model(p: Any, x: Any) -> Any:
        z = lax.conv_general_dilated(x[None], p["K"], (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        return p["W"] @ jax.nn.relu(z + p["b"][:, None, None]).mean(axis=(0, 2, 3))

    agrees(model, arrays(K="c x 2 2", b="c", W="y c"), arrays(x="x 3 3"), {"c": 2, "x": 2, "y": 2})


def test_swiglu_pytree_outputs(agrees: Check) -> None:
    """A gated unit that returns a dict: outputs come in the order of the trace's out_tree."""

    def model(p: Any, x: Any) -> Any:
        gate = jax.nn.silu(p["V"] @ x)
        return {"out": p["W2"] @ (gate * (p["W1"] @ x)), "gate": gate, "constant": jnp.ones(2)}

    agrees(model, arrays(V="h x", W1="h x", W2="y h"), arrays(x="x"), {"h": 2, "x": 3, "y": 2})


def test_attention_is_read_quickly() -> None:
    """One head, 3 tokens, width 2: under 2 s of processor time, tracing and compiling included."""
    start = time.process_time()
    symbolic_outputs(trace(attention, HEAD, arrays(x="t x"), {"k": 2, "x": 2, "t": 3}))
    assert time.process_time() - start < 2
