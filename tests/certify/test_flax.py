"""Modules of Flax as they are: softmax and norms in float32, casts to bfloat16, masks, normalised queries."""

import jax.numpy as jnp
import pytest

import quotax as qx

nnx = pytest.importorskip("flax.nnx")

NAMES = {
    "Wq": ("query", "kernel"), "bq": ("query", "bias"),
    "Wk": ("key", "kernel"), "bk": ("key", "bias"),
    "Wv": ("value", "kernel"), "bv": ("value", "bias"),
    "Wo": ("out", "kernel"), "bo": ("out", "bias"),
    "gq": ("query_ln", "scale"), "gk": ("key_ln", "scale"),
}  # fmt: skip
AXES = (
    dict.fromkeys(("Wq", "Wk", "Wv"), "D n d") | dict.fromkeys(("bq", "bk", "bv"), "n d") | {"Wo": "n d D", "bo": "D"}
)

BASIS = {"Wv[D,n,d]": "Wv[D,n,e] g[n,e,d]", "bv[n,d]": "bv[n,e] g[n,e,d]"}
SCORES = {
    "Wq[D,n,d]": "Wq[D,n,e] g[n,e,d]", "bq[n,d]": "bq[n,e] g[n,e,d]",
    "Wk[D,n,d]": "Wk[D,n,e] inv(g)[n,d,e]", "bk[n,d]": "bk[n,e] inv(g)[n,d,e]",
}  # fmt: skip
ORDER = {f"W{k}[D,n,d]": f"g[n,m] W{k}[D,m,d]" for k in "qkv"} | {f"b{k}[n,d]": f"g[n,m] b{k}[m,d]" for k in "qkv"}
OF_EACH = qx.GL("d", each="n")
CLAIMS = {
    "values": (OF_EACH, BASIS | {"Wo[n,d,D]": "inv(g)[n,d,e] Wo[n,e,D]"}, True),
    "values, transposed": (OF_EACH, BASIS | {"Wo[n,d,D]": "inv(g)[n,e,d] Wo[n,e,D]"}, False),
    "scores": (OF_EACH, SCORES, True),
    "scores of normalised queries": (OF_EACH, SCORES, False),
    "heads": (qx.Permutation("n"), ORDER | {"Wo[n,d,D]": "g[n,m] Wo[m,d,D]"}, True),
}
MODULES = {"float32": (None, False), "causal": (None, True), "bfloat16": (jnp.bfloat16, False)}


def attention(dtype, causal, normalised):
    axes = AXES | ({"gq": "d", "gk": "d"} if normalised else {})

    @qx.architecture(params=axes, inputs={"x": "t D"})
    def module(p, x):
        width, heads, depth = p["Wq"].shape
        built = nnx.eval_shape(
            lambda: nnx.MultiHeadAttention(
                num_heads=heads, in_features=width, qkv_features=heads * depth, decode=False, dtype=dtype,
                normalize_qk=normalised, rngs=nnx.Rngs(0),
            )
        )  # fmt: skip
        graph, state = nnx.split(built)
        for name, array in p.items():
            layer, leaf = NAMES[name]
            state[layer][leaf].set_value(array)
        mask = nnx.make_causal_mask(jnp.ones(x.shape[:1])) if causal else None
        return nnx.merge(graph, state)(x, mask=mask)

    return module


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("name", CLAIMS)
def test_multi_head_attention(name, module):
    group, action, holds = CLAIMS[name]
    model = attention(*MODULES[module], "normalised" in name)
    certificate = qx.verify(model, qx.Symmetry(name, group, action))
    assert certificate.status == ("proved" if holds else "refuted"), certificate
    if holds:
        assert certificate.recheck().scope == certificate.scope
