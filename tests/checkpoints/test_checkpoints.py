"""Generated checkpoints: read, moved, saved in the same layout, and run by forward passes on the layout's arrays."""

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import quotax as qx
from geometry.table import certificates
from quotax.checkpoints import GPT2, LLAMA, Layout, Rule
from quotax.errors import ParameterError

pytest.importorskip("safetensors")
import safetensors.numpy

S, GL = qx.Symmetry, qx.GL
D, F, HEADS, WIDTH, VOCAB, LENGTH = 8, 6, 2, 4, 11, 7
GROUPS, REP = 2, 2


def layer_norm(z, gain, bias):
    z = z - z.mean(-1, keepdims=True)
    return z / np.sqrt((z**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def causal(scores):
    scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def gelu(z):
    return 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))


def gpt2_forward(w, tokens):
    """GPT-2 on its own arrays, in NumPy: Conv1D kernels, `c_attn` fused, the head tied."""
    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    for i in range(2):
        own = {k.removeprefix(f"h.{i}."): a for k, a in w.items() if k.startswith(f"h.{i}.")}
        z = layer_norm(x, own["ln_1.weight"], own["ln_1.bias"])
        q, k, v = np.split(z @ own["attn.c_attn.weight"] + own["attn.c_attn.bias"], 3, -1)
        q, k, v = (a.reshape(len(tokens), HEADS, WIDTH).transpose(1, 0, 2) for a in (q, k, v))
        a = causal(q @ k.transpose(0, 2, 1) / np.sqrt(WIDTH)) @ v
        x = x + a.transpose(1, 0, 2).reshape(len(tokens), -1) @ own["attn.c_proj.weight"] + own["attn.c_proj.bias"]
        z = gelu(layer_norm(x, own["ln_2.weight"], own["ln_2.bias"]) @ own["mlp.c_fc.weight"] + own["mlp.c_fc.bias"])
        x = x + z @ own["mlp.c_proj.weight"] + own["mlp.c_proj.bias"]
    return layer_norm(x, w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].T


def gpt2_arrays(rng, dtype: Any = np.float64):
    shapes = {"wte.weight": (VOCAB, D), "wpe.weight": (LENGTH, D), "ln_f.weight": (D,), "ln_f.bias": (D,)}
    inner = HEADS * WIDTH
    for i in range(2):
        own = {
            "ln_1.weight": (D,), "ln_1.bias": (D,), "ln_2.weight": (D,), "ln_2.bias": (D,),
            "attn.c_attn.weight": (D, 3 * inner), "attn.c_attn.bias": (3 * inner,),
            "attn.c_proj.weight": (inner, D), "attn.c_proj.bias": (D,),
            "mlp.c_fc.weight": (D, F), "mlp.c_fc.bias": (F,), "mlp.c_proj.weight": (F, D), "mlp.c_proj.bias": (D,),
        }  # fmt: skip
        shapes |= {f"h.{i}.{name}": shape for name, shape in own.items()}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


BLOCK = {
    "g1": "d", "b1": "d", "Q": "head k d", "K": "head k d", "V": "head k d", "bQ": "head k", "bK": "head k",
    "bV": "head k", "O": "d head k", "bO": "d", "g2": "d", "b2": "d", "U": "f d", "u": "f", "D": "d f", "e": "d",
}  # fmt: skip


@qx.architecture(
    params={"E": "vocab d", "P": "t d", "h0": BLOCK, "h1": BLOCK, "g": "d", "b": "d"},
    inputs={"tokens": qx.Tokens("t", below="vocab")},
)
def gpt2(p, tokens):
    def norm(z, gain, bias):
        z = z - z.mean(-1, keepdims=True)
        return z * jax.lax.rsqrt((z**2).mean(-1, keepdims=True) + 1e-5) * gain + bias

    x = p["E"][tokens] + p["P"]
    for w in (p["h0"], p["h1"]):
        z = norm(x, w["g1"], w["b1"])
        q, k, v = (jnp.einsum("hkd,td->htk", w[n], z) + w[f"b{n}"][:, None] for n in "QKV")
        scores = jnp.einsum("htk,hsk->hts", q, k) / q.shape[-1] ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:])) > 0, scores, -jnp.inf)
        x = x + jnp.einsum("hts,hsk,dhk->td", jax.nn.softmax(scores, -1), v, w["O"]) + w["bO"]
        x = x + jax.nn.gelu(norm(x, w["g2"], w["b2"]) @ w["U"].T + w["u"]) @ w["D"].T + w["e"]
    return norm(x, p["g"], p["b"]) @ p["E"].T


def gpt2_families(i):
    q, k, v, o = (f"h{i}/{n}" for n in "QKVO")
    pair = {f"{q}[head,k,d]": f"g[head,k,l] {q}[head,l,d]", f"h{i}/bQ[head,k]": f"g[head,k,l] h{i}/bQ[head,l]"}
    pair |= {
        f"{k}[head,k,d]": f"inv(g)[head,l,k] {k}[head,l,d]",
        f"h{i}/bK[head,k]": f"inv(g)[head,l,k] h{i}/bK[head,l]",
    }
    value = {f"{v}[head,k,d]": f"g[head,k,l] {v}[head,l,d]", f"h{i}/bV[head,k]": f"g[head,k,l] h{i}/bV[head,l]"}
    value |= {f"{o}[d,head,k]": f"inv(g)[head,l,k] {o}[d,head,l]"}
    gain = {f"h{i}/g2": f"g @ h{i}/g2", f"h{i}/b2": f"g @ h{i}/b2", f"h{i}/U": f"h{i}/U @ inv(g)"}
    return [
        S(f"linear k (h{i}: Q, K)", GL("k", each="head"), pair),
        S(f"linear k (h{i}: V, O)", GL("k", each="head"), value),
        S(f"scale d (h{i}: g2)", qx.Diagonal("d"), gain),
        S(
            f"permute f (h{i})",
            qx.Permutation("f"),
            {f"h{i}/U": f"g @ h{i}/U", f"h{i}/u": f"g @ h{i}/u", f"h{i}/D": f"h{i}/D @ g.T"},
        ),
    ]


def rope(z, positions):
    """Rotate half, as LLaMA has it, in NumPy or JAX."""
    xp = jnp if isinstance(z, jax.Array) else np
    angle = positions[:, None] / 10000 ** (np.arange(0, WIDTH, 2) / WIDTH)
    angle = xp.concatenate([angle, angle], -1)
    half = WIDTH // 2
    turned = xp.concatenate([-z[..., half:], z[..., :half]], -1)
    return z * xp.cos(angle) + turned * xp.sin(angle)


def rms(z, gain):
    return z / np.sqrt((z**2).mean(-1, keepdims=True) + 1e-6) * gain


def llama_forward(w, tokens):
    """LLaMA on its own arrays, in NumPy: (out, in) kernels, repeated heads of keys and values, rotate half."""
    x = w["model.embed_tokens.weight"][tokens]
    at = np.arange(len(tokens))
    for i in range(2):
        own = {k.removeprefix(f"model.layers.{i}."): a for k, a in w.items() if k.startswith(f"model.layers.{i}.")}
        z = rms(x, own["input_layernorm.weight"])
        heads = lambda name, n, z=z, own=own: (
            (z @ own[f"self_attn.{name}_proj.weight"].T).reshape(len(tokens), n, WIDTH).transpose(1, 0, 2)
        )
        q, k, v = rope(heads("q", GROUPS * REP), at), rope(heads("k", GROUPS), at), heads("v", GROUPS)
        k, v = np.repeat(k, REP, 0), np.repeat(v, REP, 0)
        a = causal(q @ k.transpose(0, 2, 1) / np.sqrt(WIDTH)) @ v
        x = x + a.transpose(1, 0, 2).reshape(len(tokens), -1) @ own["self_attn.o_proj.weight"].T
        z = rms(x, own["post_attention_layernorm.weight"])
        gate = z @ own["mlp.gate_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * (z @ own["mlp.up_proj.weight"].T)) @ own["mlp.down_proj.weight"].T
    return rms(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def llama_arrays(rng, dtype: Any = np.float64):
    shapes = {"model.embed_tokens.weight": (VOCAB, D), "model.norm.weight": (D,), "lm_head.weight": (VOCAB, D)}
    for i in range(2):
        own = {
            "input_layernorm.weight": (D,), "post_attention_layernorm.weight": (D,),
            "self_attn.q_proj.weight": (GROUPS * REP * WIDTH, D), "self_attn.k_proj.weight": (GROUPS * WIDTH, D),
            "self_attn.v_proj.weight": (GROUPS * WIDTH, D), "self_attn.o_proj.weight": (D, GROUPS * REP * WIDTH),
            "mlp.gate_proj.weight": (F, D), "mlp.up_proj.weight": (F, D), "mlp.down_proj.weight": (D, F),
        }  # fmt: skip
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in own.items()}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


LAYER = {
    "n1": "d", "Q": "group rep k d", "K": "group k d", "V": "group k d", "O": "d group rep k", "n2": "d",
    "gate": "f d", "up": "f d", "down": "d f",
}  # fmt: skip


@qx.architecture(
    params={"E": "vocab d", "layer0": LAYER, "layer1": LAYER, "n": "d", "head": "vocab d"},
    inputs={"tokens": qx.Tokens("t", below="vocab")},
)
def llama(p, tokens):
    norm = lambda z, gain: z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-6) * gain
    x, at = p["E"][tokens], jnp.arange(tokens.shape[0])
    for w in (p["layer0"], p["layer1"]):
        z = norm(x, w["n1"])
        q = rope(jnp.einsum("grkd,td->grtk", w["Q"], z), at)
        k, v = rope(jnp.einsum("gkd,td->gtk", w["K"], z), at), jnp.einsum("gkd,td->gtk", w["V"], z)
        scores = jnp.einsum("grtk,gsk->grts", q, k) / q.shape[-1] ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:])) > 0, scores, -jnp.inf)
        x = x + jnp.einsum("grts,gsk,dgrk->td", jax.nn.softmax(scores, -1), v, w["O"])
        z = norm(x, w["n2"])
        x = x + (jax.nn.silu(z @ w["gate"].T) * (z @ w["up"].T)) @ w["down"].T
    return norm(x, p["n"]) @ p["head"].T


def llama_families(i):
    q, k, v, o = (f"layer{i}/{n}" for n in "QKVO")
    pairs = {
        f"{q}[group,rep,k,d]": f"g[group,k,l] {q}[group,rep,l,d]",
        f"{k}[group,k,d]": f"inv(g)[group,l,k] {k}[group,l,d]",
    }
    value = {
        f"{v}[group,k,d]": f"g[group,k,l] {v}[group,l,d]",
        f"{o}[d,group,rep,k]": f"inv(g)[group,l,k] {o}[d,group,rep,l]",
    }
    units = {f"layer{i}/up": f"g @ layer{i}/up", f"layer{i}/down": f"layer{i}/down @ inv(g)"}
    return [
        S(f"complex k ({i})", qx.ComplexScaling("k", each="group", pairs="halves"), pairs),
        S(f"linear k ({i})", GL("k", each="group"), value),
        S(f"scale f ({i})", qx.Diagonal("f"), units),
    ]


SIZES = {"vocab": VOCAB, "d": D, "k": WIDTH, "f": F}
KINDS = {
    "gpt2": (GPT2, gpt2, SIZES | {"t": LENGTH, "head": HEADS}, gpt2_arrays, gpt2_forward, gpt2_families),
    "llama": (LLAMA, llama, SIZES | {"group": GROUPS, "rep": REP}, llama_arrays, llama_forward, llama_families),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_is_written_back_bit_for_bit(kind):
    layout, model, sizes, arrays, *_ = KINDS[kind]
    network, stored = model.at(**sizes), arrays(np.random.default_rng(2))
    params = layout.read(stored, network)
    zeros = {name: np.zeros_like(array) for name, array in stored.items()}
    again = layout.written(params, zeros, network)
    assert list(again) == list(stored)
    assert all((again[name] == stored[name]).all() for name in stored)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_is_read_moved_and_saved_and_its_logits_stay(kind, tmp_path):
    layout, model, sizes, arrays, forward, families = KINDS[kind]
    rng, network = np.random.default_rng(0), model.at(**sizes)
    stored = arrays(rng)
    path, moved_path = tmp_path / "model.safetensors", tmp_path / "moved.safetensors"
    safetensors.numpy.save_file(stored, path, {"format": "pt"})
    params = qx.checkpoints.load(path, layout, network)
    tokens = rng.integers(0, VOCAB, LENGTH)
    logits = forward(stored, tokens)
    np.testing.assert_allclose(network(params, jnp.asarray(tokens)), logits, rtol=1e-9, atol=1e-9)
    claims = [claim for i in range(2) for claim in families(i)]
    space = qx.quotient(network, claims, metric="invariant", verified=certificates(claims))
    moved = space.act(params, space.random_element(jax.random.key(0), scale=0.5))
    qx.checkpoints.save(moved_path, moved, layout, network, like=path)
    again = safetensors.numpy.load_file(moved_path)
    assert {k: (a.shape, a.dtype) for k, a in again.items()} == {k: (a.shape, a.dtype) for k, a in stored.items()}
    changed = [k for k in stored if not np.allclose(again[k], stored[k])]
    assert len(changed) >= 2 * len(families(0))
    np.testing.assert_allclose(forward(again, tokens), logits, rtol=1e-8, atol=1e-8)
    qx.checkpoints.save(moved_path, params, layout, network, like=path)
    back = safetensors.numpy.load_file(moved_path)
    assert all((back[name] == stored[name]).all() for name in stored)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_canonical_representatives_are_saved_through_orbax(kind, tmp_path):
    ocp = pytest.importorskip("orbax.checkpoint")
    layout, model, sizes, arrays, forward, families = KINDS[kind]
    rng, network = np.random.default_rng(1), model.at(**sizes)
    stored = arrays(rng)
    with ocp.StandardCheckpointer() as checkpointer:
        tree = {}
        for name, array in stored.items():
            *above, last = name.split(".")
            branch = tree
            for part in above:
                branch = branch.setdefault(part, {})
            branch[last] = array
        checkpointer.save(tmp_path / "in", tree)
    params = qx.checkpoints.load(tmp_path / "in", layout, network)
    claims = [claim for i in range(2) for claim in families(i)][:3]
    space = qx.quotient(network, claims, metric="invariant", verified=certificates(claims))
    found = space.canonical(params)
    qx.checkpoints.save(tmp_path / "out", found.params, layout, network, like=tmp_path / "in")
    again = layout.written(qx.checkpoints.load(tmp_path / "out", layout, network), stored, network)
    tokens = rng.integers(0, VOCAB, LENGTH)
    np.testing.assert_allclose(forward(again, tokens), forward(stored, tokens), rtol=1e-7, atol=1e-7)
    assert not np.allclose(
        again[next(k for k in stored if "attn" in k)], stored[next(k for k in stored if "attn" in k)]
    )


def test_prefixes_tied_heads_buffers_and_types(tmp_path):
    network = gpt2.at(**KINDS["gpt2"][2])
    plain = gpt2_arrays(np.random.default_rng(0), ml_dtypes.bfloat16)
    stored = {f"transformer.{name}": array for name, array in plain.items()}
    stored["lm_head.weight"] = stored["transformer.wte.weight"]
    stored["transformer.h.0.attn.bias"] = np.tril(np.ones((1, 1, 4, 4), np.uint8))
    path = tmp_path / "a.safetensors"
    safetensors.numpy.save_file(stored, path)
    params = qx.checkpoints.load(path, GPT2, network)
    params["E"] = 2 * params["E"]
    qx.checkpoints.save(tmp_path / "b.safetensors", params, GPT2, network, like=path)
    again = qx.checkpoints.stored._read(tmp_path / "b.safetensors")[0]
    assert again["lm_head.weight"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(again["lm_head.weight"], 2 * stored["transformer.wte.weight"])
    np.testing.assert_array_equal(again["transformer.h.0.attn.bias"], stored["transformer.h.0.attn.bias"])


@pytest.fixture
def sharded(tmp_path):
    """A LLaMA in two files with an index, as large checkpoints are stored; where, and its arrays."""
    stored, folder = llama_arrays(np.random.default_rng(3), ml_dtypes.bfloat16), tmp_path / "sharded"
    names, files = list(stored), ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    where = {name: files[k >= len(names) // 3] for k, name in enumerate(names)}
    folder.mkdir()
    for file in files:
        own = {name: array for name, array in stored.items() if where[name] == file}
        safetensors.numpy.save_file(own, folder / file, {"format": "pt"})
    index = {"metadata": {"total_size": sum(a.nbytes for a in stored.values())}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder, stored, where


def test_shards_are_read_one_array_at_a_time_and_written_as_they_were(sharded, tmp_path, monkeypatch):
    folder, stored, where = sharded
    network, index = llama.at(**KINDS["llama"][2]), "model.safetensors.index.json"
    params = qx.checkpoints.load(folder / index, LLAMA, network)
    jax.tree.map(np.testing.assert_array_equal, params, LLAMA.read(stored, network))
    params["layer1"]["up"] = 2 * params["layer1"]["up"]
    qx.checkpoints.save(tmp_path / "out", params, LLAMA, network, like=folder)
    qx.checkpoints.save(folder / index, params, LLAMA, network, like=folder / index)  # over itself
    for there in (tmp_path / "out", folder):
        assert sorted(f.name for f in there.iterdir()) == sorted({*where.values(), index})
        assert json.loads((there / index).read_text())["weight_map"] == where
        for file in set(where.values()):
            with safetensors.safe_open(there / file, framework="numpy") as shard:
                assert sorted(shard.keys()) == sorted(name for name in where if where[name] == file)
                assert shard.metadata() == {"format": "pt"}
                for name in shard.keys():  # noqa: SIM118
                    factor = 2 if name == "model.layers.1.mlp.up_proj.weight" else 1
                    np.testing.assert_array_equal(shard.get_tensor(name), factor * stored[name])
    qx.checkpoints.save(tmp_path / "one.safetensors", params, LLAMA, network, like=folder)
    assert set(safetensors.numpy.load_file(tmp_path / "one.safetensors")) == set(stored)
    held = qx.checkpoints.stored._read(folder)[0]
    monkeypatch.setattr(safetensors.numpy, "save_file", lambda arrays, *_: sizes.append(len(arrays)))
    sizes = []
    with pytest.raises(FileNotFoundError):  # nothing was written: but one file's arrays were asked for, not all
        qx.checkpoints.shards.opened(folder / index).write(tmp_path / "none", held)
    assert sizes == [len(names) for names in qx.checkpoints.shards.opened(folder / index).names.values()][:1]


def test_shards_that_are_missing_or_are_others_are_refused(sharded):
    folder, stored, where = sharded
    network, index = llama.at(**KINDS["llama"][2]), folder / "model.safetensors.index.json"
    load = lambda: qx.checkpoints.load(folder, LLAMA, network)
    data = json.loads(index.read_text())
    second = folder / sorted(set(where.values()))[1]
    second.rename(folder / "elsewhere")
    with pytest.raises(
        ParameterError, match=r"names 2 shards, and .* has no model-00002-of-00002.safetensors: without it"
    ):
        load()
    (folder / "elsewhere").rename(second)
    for change, said in (
        ({"model.norm.weight": sorted(set(where.values()))[1]}, "says that 'model.norm.weight' is in model-00002"),
        ({"model.norm.weight": "../other.safetensors"}, "names '../other.safetensors', which is no file beside it"),
    ):
        index.write_text(json.dumps({"weight_map": where | change}))
        with pytest.raises(ParameterError, match=said):
            load()
    index.write_text("{}")
    with pytest.raises(ParameterError, match="is no index of shards: it needs a 'weight_map'"):
        load()
    index.unlink()
    with pytest.raises(ParameterError, match=r"holds 2 safetensors files and no index: .*Name the one"):
        load()
    index.write_text(json.dumps(data))
    one = folder / "one.safetensors"
    safetensors.numpy.save_file(stored, one)
    with pytest.raises(ParameterError, match="an index needs like=, a checkpoint of several files"):
        qx.checkpoints.save(index, load(), LLAMA, network, like=one)


def test_what_does_not_fit_is_refused_by_name(tmp_path):
    network, stored = gpt2.at(**KINDS["gpt2"][2]), gpt2_arrays(np.random.default_rng(0))

    def refused(arrays, match, layout=GPT2, net=network):
        with pytest.raises(ParameterError, match=match):
            layout.read(arrays, net)

    without = {name: array for name, array in stored.items() if name != "h.1.attn.c_attn.weight"}
    refused(without, "'h.1.attn.c_attn.weight' is missing, which GPT-2 has for h1/Q, h1/K, h1/V")
    refused(
        stored | {"h.2.ln_1.weight": np.ones(D)}, "the checkpoint holds h.2.ln_1.weight, for which the model has no"
    )
    refused(stored | {"lm_head.weight": np.ones((VOCAB, D))}, "'lm_head.weight' differs from 'wte.weight'")
    refused(stored | {"wpe.weight": np.ones((3, D))}, r"'wpe.weight' has shape \(3, 8\), but GPT-2 stores P as 't d'")
    refused(stored, "'embed_tokens.weight' is missing", LLAMA)
    refused(
        {},
        "has no rule for W1, W2",
        Layout("empty", ()),
        qx.architecture({"W1": "h x", "W2": "h"}, {})(lambda p: 0).at(h=1, x=1),
    )
    with pytest.raises(ParameterError, match="the axes 'd f' cannot become 'f e'"):
        Rule("W", "d f", ("W",), "f e")
    with pytest.raises(ParameterError, match="2 parameters need an axis of 'd f' along which they lie"):
        Rule("W", "d f", ("U", "W"), "f d")
    with pytest.raises(ParameterError, match="there is no"):
        qx.checkpoints.load(tmp_path / "none.safetensors", GPT2, network)


def test_libraries_are_imported_when_they_are_needed(monkeypatch, tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ParameterError, match=r"reads this with safetensors: install quotax\[checkpoints\]"):
        qx.checkpoints.load(tmp_path / "a.safetensors", GPT2, gpt2.at(**KINDS["gpt2"][2]))


@qx.architecture(params={"block": {"W1": "h x", "b1": "h"}, "W2": "y h"}, inputs={"x": "x"})
def nested(p, x):
    return p["W2"] @ (p["block"]["W1"] @ x + p["block"]["b1"])


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_arrays_under_their_own_names_are_written_and_read(tmp_path, suffix):
    network, path = nested.at(x=3, h=4, y=2), tmp_path / f"weights{suffix}"
    params = network.init(jax.random.key(0), jnp.float32)
    qx.checkpoints.save(path, params, qx.checkpoints.BY_NAME, network)
    again = qx.checkpoints.load(path, qx.checkpoints.BY_NAME, network)
    jax.tree.map(np.testing.assert_array_equal, again, params)
    dotted = {"W2": params["W2"].astype(jnp.float16), "block.W1": params["block"]["W1"], "block.b1": np.ones(4)}
    like = tmp_path / "like.safetensors"
    safetensors.numpy.save_file({name: np.asarray(array) for name, array in dotted.items()}, like)
    assert np.asarray(qx.checkpoints.load(like, qx.checkpoints.BY_NAME, network)["block"]["b1"]).tolist() == [1.0] * 4
    qx.checkpoints.save(path, params, qx.checkpoints.BY_NAME, network, like=like)
    assert qx.checkpoints.load(path, qx.checkpoints.BY_NAME, network)["W2"].dtype == np.float16
    with pytest.raises(ParameterError, match="needs like="):
        qx.checkpoints.save(path, params, GPT2, network)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"w2": (2, 4)}, r"is without W2 and has w2 besides \(is 'w2' meant for 'W2'\?\)\. The model has block/W1"),
        ({"W2": (2, 5)}, r"'W2' has shape \(2, 5\), but the axes 'y h' at y=2, h=4 give \(2, 4\)"),
        (None, "is no archive of arrays"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_by_name(tmp_path, arrays, said):
    path = tmp_path / "weights.npz"
    if arrays is None:
        path.write_text("hello")
    else:
        shapes = {"block.W1": (4, 3), "block.b1": (4,)} | arrays
        np.savez(path, **{name: np.zeros(shape) for name, shape in shapes.items()})
    with pytest.raises(ParameterError, match=said):
        qx.checkpoints.load(path, qx.checkpoints.BY_NAME, nested.at(x=3, h=4, y=2))


def test_a_file_of_another_kind_is_refused(tmp_path):
    (tmp_path / "weights.bin").write_text("hello")
    with pytest.raises(ParameterError, match="is no safetensors file"):
        qx.checkpoints.load(tmp_path / "weights.bin", qx.checkpoints.BY_NAME, nested.at(x=3, h=4, y=2))
