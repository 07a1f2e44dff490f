"""Language models of Hugging Face as they ship, tiny: families, audits, and moves that change nothing."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
transformers = pytest.importorskip("transformers", exc_type=ImportError)
KEY = jax.random.key(0)
LENGTH, WORDS = 6, 11
SIZES = {"vocab_size": WORDS, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 5}


@dataclasses.dataclass(frozen=True)
class Case:
    """A module with the examples of its inputs, and what has to be found."""

    build: Callable[[], tuple[Any, tuple[Any, ...]]]
    families: list[str]
    discrete: list[str]


def tokens():
    return jnp.zeros((1, LENGTH), jnp.int32)


def shown():
    """A mask of zeros and ones, as tokenisers make it, of which any may be hidden."""
    return qx.Mask(jnp.ones((1, LENGTH), jnp.int32))


def places():
    return jnp.arange(LENGTH)[None]


def gpt2():
    from transformers.models.gpt2.modeling_flax_gpt2 import FlaxGPT2Module

    config = transformers.GPT2Config(vocab_size=WORDS, n_positions=LENGTH, n_embd=4, n_layer=1, n_head=2, n_inner=5)
    return FlaxGPT2Module(config), (tokens(), shown(), places())


def bert():
    from transformers.models.bert.modeling_flax_bert import FlaxBertModule

    config = transformers.BertConfig(hidden_size=4, max_position_embeddings=LENGTH, layer_norm_eps=1e-5, **SIZES)
    return FlaxBertModule(config, add_pooling_layer=False), (tokens(), shown(), tokens(), places(), None)


def llama():
    from transformers.models.llama.modeling_flax_llama import FlaxLlamaModule

    config = transformers.LlamaConfig(hidden_size=8, num_key_value_heads=1, max_position_embeddings=8, **SIZES)
    return FlaxLlamaModule(config), (tokens(), shown(), places())


def gemma():
    from transformers.models.gemma.modeling_flax_gemma import FlaxGemmaModule

    config = transformers.GemmaConfig(
        hidden_size=8, num_key_value_heads=1, head_dim=4, max_position_embeddings=8,
        hidden_activation="gelu_pytorch_tanh", **SIZES,
    )  # fmt: skip
    return FlaxGemmaModule(config), (tokens(), shown(), places())


HEADS = ["R^h1^h0"] * 6 + ["GL(h1)^h0"] * 2
NORMS = ["R^1", "R^1", "R^y", "R^y", "R^y", "R^h2", "R^h2", "R^h3", "R^h4", "R*^y", "R*^y"]
AFTER = ["R^y"] * 4 + ["R^1", "R^1", "R^h0", "R^h1", "R^h2", "R^h6", "R^h6"]
ROTARY = ["C*^(h2/2)", "GL(h4)", "R*^h1", "R*^y", "R*^y"]
CASES = {
    "GPT2": Case(gpt2, HEADS + NORMS, ["S(h0)", "S(h2)"]),
    "Bert": Case(
        bert, ["GL(h4)^h3", "GL(h5)^h3"] + ["R^h5^h3"] * 3 + ["R^h4^h3"] * 3 + AFTER, ["S(h3)", "S(h6)"]
    ),
    "Llama": Case(llama, ROTARY, ["Z2^y", "S(h1)", "S(h3)"]),
    "Gemma": Case(gemma, ROTARY, ["Z2^y", "S(h1)", "S(h3)"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_model_as_it_is(name):
    case = CASES[name]
    module, inputs = case.build()
    arrays = [x.axes if isinstance(x, qx.Mask) else x for x in inputs]
    variables = module.init(KEY, *arrays)
    drawn = lambda k, w: w + 0.3 * jax.random.normal(jax.random.fold_in(KEY, k), w.shape, w.dtype)
    leaves, structure = jax.tree.flatten(variables)
    variables = jax.tree.unflatten(structure, [drawn(k, w) for k, w in enumerate(leaves)])
    arch = qx.from_flax(module, variables, *inputs)
    found = qx.derive(arch)
    assert not found.unproved
    assert sorted(str(s.group) for s in found) == sorted(case.families), sorted(str(s.group) for s in found)
    assert [str(s.group) for s in found.discrete] == case.discrete, [str(s.group) for s in found.discrete]
    audit = found.audit()
    assert audit.surplus == 0, audit
    for certificate in found.certificates:
        assert not any("denominator" in a or "leaves something" in a for a in certificate.assumptions), certificate

    space = qx.quotient(arch, found.families)
    params = arch.parameters
    moved = space.act(params, space.random_element(KEY, 0.1))
    words = jax.random.randint(KEY, (1, LENGTH), 0, WORDS)
    mask = jnp.array([[1, 1, 0, 1, 1, 1]])
    given = [words, mask, *arrays[2:]]
    before, after = (jax.tree.leaves(arch(p, *given))[0] for p in (params, moved))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-5 * max(1.0, float(jnp.abs(before).max())))

    def rise(p):
        loss = lambda q: float(jnp.mean(jnp.sin(jax.tree.leaves(arch(q, *given))[0]) ** 2))
        nudges = (jax.random.normal(jax.random.fold_in(KEY, k), w.shape) for k, w in enumerate(jax.tree.leaves(p)))
        nudge = jax.tree.unflatten(jax.tree.structure(p), [1e-2 * u for u in nudges])
        near = [jax.tree.map(lambda w, u, s=s: w + s * u, p, nudge) for s in (1, -1)]
        return loss(near[0]) + loss(near[1]) - 2 * loss(p)

    assert abs(rise(moved) / rise(params) - 1) > 1e-2
