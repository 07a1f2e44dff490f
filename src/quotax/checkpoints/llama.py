"""LLaMA as Hugging Face stores it: kernels are (out, in), heads of queries share the keys and values of their group.

Query head `group * rep + r` reads group `group`, so that queries are `group rep k d`; rotary embeddings pair `i` with
`i + k/2` ("rotate half").
"""

from __future__ import annotations

from quotax.checkpoints.layout import Layout, Rule

_LAYER = (
    Rule("layers.{i}.input_layernorm.weight", "d", ("layer{i}/n1",), "d"),
    Rule("layers.{i}.self_attn.q_proj.weight", "group*rep*k d", ("layer{i}/Q",), "group rep k d"),
    Rule("layers.{i}.self_attn.k_proj.weight", "group*k d", ("layer{i}/K",), "group k d"),
    Rule("layers.{i}.self_attn.v_proj.weight", "group*k d", ("layer{i}/V",), "group k d"),
    Rule("layers.{i}.self_attn.o_proj.weight", "d group*rep*k", ("layer{i}/O",), "d group rep k"),
    Rule("layers.{i}.post_attention_layernorm.weight", "d", ("layer{i}/n2",), "d"),
    Rule("layers.{i}.mlp.gate_proj.weight", "f d", ("layer{i}/gate",), "f d"),
    Rule("layers.{i}.mlp.up_proj.weight", "f d", ("layer{i}/up",), "f d"),
    Rule("layers.{i}.mlp.down_proj.weight", "d f", ("layer{i}/down",), "d f"),
)

LLAMA = Layout(
    "LLaMA",
    (
        Rule("embed_tokens.weight", "vocab d", ("E",), "vocab d"),
        *_LAYER,
        Rule("norm.weight", "d", ("n",), "d"),
        Rule("lm_head.weight", "vocab d", ("head",), "vocab d"),
    ),
    ("model.",),
    buffers=(r"rotary_emb\.inv_freq$",),
)
"""Token embedding `E`, layers `layer0, layer1, ...`, the last norm `n`, the head `head: vocab d` where it is not tied.

A layer has the norms `n1` and `n2`, `Q: group rep k d`, `K, V: group k d`, `O: d group rep k`, and the gated MLP
`gate, up: f d`, `down: d f`.
"""
