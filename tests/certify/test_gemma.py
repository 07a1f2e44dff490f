"""Hugging Face's Flax Gemma as it is: norms and softmax in float32, gains of one plus a weight, rotary tables."""

import jax.numpy as jnp
import pytest

import quotax as qx

transformers = pytest.importorskip("transformers", exc_type=ImportError)

PARAMS = {
    "E": "V D", "q": "D n*c", "k": "D c", "v": "D c", "o": "n*c D", "up": "D F", "gate": "D F", "down": "F D",
    "before": "D", "between": "D", "last": "D",
}  # fmt: skip
SIZES = {"V": 5, "D": 4, "n": 2, "c": 4, "F": 3, "t": 3}
PLACES = {
    "q": "self_attn/q_proj/kernel", "k": "self_attn/k_proj/kernel", "v": "self_attn/v_proj/kernel",
    "o": "self_attn/o_proj/kernel", "up": "mlp/up_proj/kernel", "gate": "mlp/gate_proj/kernel",
    "down": "mlp/down_proj/kernel", "before": "input_layernorm/weight", "between": "post_attention_layernorm/weight",
}  # fmt: skip
CLAIMS = {
    "gated units": (qx.Diagonal("F"), {"up": "up @ g", "down": "inv(g) @ down"}, True),
    "gated units without the inverse": (qx.Diagonal("F"), {"up": "up @ g", "down": "g @ down"}, False),
    "gates": (qx.PositiveDiagonal("F"), {"gate": "gate @ g", "down": "inv(g) @ down"}, False),
    "values": (qx.GL("c"), {"v": "v @ g", "o[n,c,D]": "inv(g)[c,e] o[n,e,D]"}, True),
    "values, transposed": (qx.GL("c"), {"v": "v @ g", "o[n,c,D]": "inv(g)[e,c] o[n,e,D]"}, False),
    "queries and keys": (qx.GL("c"), {"q[D,n,c]": "q[D,n,e] g[e,c]", "k": "k @ inv(g).T"}, False),
    "heads": (qx.Permutation("n"), {"q[D,n,c]": "g[n,m] q[D,m,c]", "o[n,c,D]": "g[n,m] o[m,c,D]"}, True),
    "a gain in place of the table": (qx.PositiveDiagonal("D"), {"last": "g @ last", "E": "E @ inv(g)"}, False),
}


def gemma(dtype):
    from transformers import GemmaConfig
    from transformers.models.gemma.modeling_flax_gemma import FlaxGemmaForCausalLMModule

    @qx.architecture(params=PARAMS, inputs={"tokens": qx.Tokens("t", below="V")})
    def model(p, tokens):
        (length,), (vocabulary, width), depth = tokens.shape, p["E"].shape, p["k"].shape[1]
        config = GemmaConfig(
            vocab_size=vocabulary, hidden_size=width, intermediate_size=p["up"].shape[1], num_hidden_layers=1,
            num_attention_heads=p["q"].shape[1] // depth, num_key_value_heads=1, head_dim=depth,
            max_position_embeddings=16, hidden_activation="gelu_pytorch_tanh",
        )  # fmt: skip
        layer = {}
        for name, place in PLACES.items():
            *path, leaf = place.split("/")
            inner = layer
            for part in path:
                inner = inner.setdefault(part, {})
            inner[leaf] = p[name]
        inside = {"embed_tokens": {"embedding": p["E"]}, "layers": {"0": layer}, "norm": {"weight": p["last"]}}
        module = FlaxGemmaForCausalLMModule(config, dtype=dtype)
        ones, places = jnp.ones((1, length), int), jnp.arange(length)[None]
        return module.apply({"params": {"model": inside}}, tokens[None], ones, places).logits[0]

    return model


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", CLAIMS)
def test_claims_about_gemma_are_proved_and_broken_ones_refuted(name, dtype):
    group, action, holds = CLAIMS[name]
    certificate = qx.verify(gemma(dtype), qx.Symmetry(name, group, action), sizes=SIZES)
    assert certificate.status == ("proved" if holds else "refuted"), certificate
    if holds:
        assert certificate.scope == certificate.recheck().scope == "widths (V=5, D=4, n=2, c=4, F=3, t=3)"
