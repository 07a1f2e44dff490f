"""GPT-2 as Hugging Face stores it: kernels are (in, out), queries, keys and values are fused in one array."""

from __future__ import annotations

from quotax.checkpoints.layout import Layout, Rule

_LAYER = (
    Rule("h.{i}.ln_1.weight", "d", ("h{i}/g1",), "d"),
    Rule("h.{i}.ln_1.bias", "d", ("h{i}/b1",), "d"),
    Rule("h.{i}.attn.c_attn.weight", "d part*head*k", ("h{i}/Q", "h{i}/K", "h{i}/V"), "head k d"),
    Rule("h.{i}.attn.c_attn.bias", "part*head*k", ("h{i}/bQ", "h{i}/bK", "h{i}/bV"), "head k"),
    Rule("h.{i}.attn.c_proj.weight", "head*k d", ("h{i}/O",), "d head k"),
    Rule("h.{i}.attn.c_proj.bias", "d", ("h{i}/bO",), "d"),
    Rule("h.{i}.ln_2.weight", "d", ("h{i}/g2",), "d"),
    Rule("h.{i}.ln_2.bias", "d", ("h{i}/b2",), "d"),
    Rule("h.{i}.mlp.c_fc.weight", "d f", ("h{i}/U",), "f d"),
    Rule("h.{i}.mlp.c_fc.bias", "f", ("h{i}/u",), "f"),
    Rule("h.{i}.mlp.c_proj.weight", "f d", ("h{i}/D",), "d f"),
    Rule("h.{i}.mlp.c_proj.bias", "d", ("h{i}/e",), "d"),
)

GPT2 = Layout(
    "GPT-2",
    (
        Rule("wte.weight", "vocab d", ("E",), "vocab d"),
        Rule("wpe.weight", "t d", ("P",), "t d"),
        *_LAYER,
        Rule("ln_f.weight", "d", ("g",), "d"),
        Rule("ln_f.bias", "d", ("b",), "d"),
    ),
    ("transformer.",),
    (("lm_head.weight", "wte.weight"),),
    (r"\.attn\.(masked_)?bias$",),
)
"""Token embedding `E`, which is the head too, positions `P`, layers `h0, h1, ...`, the last norm `g`, `b`.

A layer has the norms `g1, b1` and `g2, b2`, heads `Q, K, V: head k d` with biases `bQ, bK, bV: head k`, the output
`O: d head k` with `bO`, and the MLP `U: f d` with `u`, `D: d f` with `e`.
"""
