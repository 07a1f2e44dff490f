"""What quantisation takes for granted about transformers: each statement a symmetry of a small model, with its verdict.

A *fusion* (a gain into what reads it) is a symmetry: the gain is multiplied by `g`, its readers are divided by it, and
`g = 1/gain` is the fused model. A *rewriting* (LayerNorm as RMSNorm of what is centred) says that two models are one
function: `A + s (B - A)` with a parameter `s` is invariant under translations of `s` if and only if `A = B`.

`docs/quantisation.md` shows this table; `python -m certify.folklore` prints it, with the seconds that each call takes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp

import quotax as qx

Action = dict[str, str]

# --- what decoders are made of


def rms(x, gain=1.0):
    return gain * x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-5)


def layer_norm(x, gain=1.0, bias=0.0):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return gain * centred * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5) + bias


def rotate_half(x):
    half = x.shape[-1] // 2
    return jnp.concatenate([-x[..., half:], x[..., :half]], -1)


def rope(x):
    """Rotary positions as checkpoints of LLaMA have them: coordinate i is paired with i + k/2."""
    k, t = x.shape[-1], x.shape[-2]
    frequencies = 10000.0 ** (-jnp.arange(0, k, 2) / k)
    angles = jnp.arange(t)[:, None] * frequencies
    angles = jnp.concatenate([angles, angles], -1)
    return x * jnp.cos(angles) + rotate_half(x) * jnp.sin(angles)


def attention(q, k, v):
    """Causal, `r` heads of queries for each head of keys and values."""
    t = q.shape[-2]
    scores = jnp.einsum("grtk,gsk->grts", q, k) / jnp.sqrt(k.shape[-1])
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf), -1)
    return jnp.einsum("grts,gsv->grtv", weights, v)


READERS = {"Q": "kv r d k", "K": "kv d k", "V": "kv d v", "G": "f d", "U": "f d", "H": "voc d"}
WRITERS = {"E": "voc d", "O": "kv r v d", "D": "d f"}


def decoder(*, gains=True, tied=False, activation=jax.nn.silu, output_gate=False, post=None, centred=False):
    """Of LLaMA's kind: RMSNorm, grouped queries, RoPE, gated units, a head.

    `gains=False` has them folded into their readers. `output_gate` multiplies what the heads give by a sigmoid;
    `post` is `"plain"` or `"gains"`: norms after attention and MLP as Gemma 2 has them. `centred` takes the mean out of
    every row of the embedding.
    """
    params = READERS | WRITERS
    params |= {"a": "d", "m": "d", "n": "d"} if gains else {}
    params |= {"S": "kv r d v"} if output_gate else {}
    params |= {"b": "d", "c": "d"} if post == "gains" else {}
    if tied:
        del params["H"]

    def forward(p, tokens):
        gain = lambda name: p[name] if name in params else 1.0
        after = (lambda name, y: rms(y, gain(name))) if post else (lambda name, y: y)
        x = (mean_free(p["E"]) if centred else jnp.asarray(p["E"]))[tokens]
        z = rms(x, gain("a"))
        q, k = rope(jnp.einsum("td,grdk->grtk", z, p["Q"])), rope(jnp.einsum("td,gdk->gtk", z, p["K"]))
        o = attention(q, k, jnp.einsum("td,gdv->gtv", z, p["V"]))
        if output_gate:
            o = o * jax.nn.sigmoid(jnp.einsum("td,grdv->grtv", z, p["S"]))
        x = x + after("b", jnp.einsum("grtv,grvd->td", o, p["O"]))
        z = rms(x, gain("m"))
        x = x + after("c", (activation(z @ p["G"].T) * (z @ p["U"].T)) @ p["D"].T)
        return rms(x, gain("n")) @ p["E" if tied else "H"].T

    return params, forward


def older(norm=layer_norm, *, gains=True):
    """Of OPT's kind: LayerNorm, learned positions, an MLP with biases."""
    params = {
        "E": "voc d", "P": "t d", "Q": "head d k", "K": "head d k", "V": "head d v", "O": "head v d", "o": "d",
        "U": "f d", "u": "f", "D": "d f", "w": "d", "H": "voc d",
    }  # fmt: skip
    params |= {"a": "d", "a0": "d", "m": "d", "m0": "d", "n": "d", "n0": "d"} if gains else {}

    def forward(p, tokens):
        norms = (lambda x, name: norm(x, p[name], p[name + "0"])) if gains else (lambda x, name: norm(x))
        x = jnp.asarray(p["E"])[tokens] + p["P"]
        z = norms(x, "a")
        q, k, v = (jnp.einsum("td,hdk->htk", z, p[name]) for name in "QKV")
        x = x + jnp.einsum("htv,hvd->td", attention(q[:, None], k, v)[:, 0], p["O"]) + p["o"]
        z = norms(x, "m")
        x = x + jax.nn.gelu(z @ p["U"].T + p["u"]) @ p["D"].T + p["w"]
        return norms(x, "n") @ p["H"].T

    return params, forward


def of(made):
    params, forward = made
    return qx.architecture(params=params, inputs={"tokens": qx.Tokens("t", below="voc")})(forward)


def rewritten(first, second):
    """A model that does not depend on `s` if and only if these two are one function."""
    (params, one), (_, other) = first, second

    def forward(p, tokens):
        a, b = one(p, tokens), other(p, tokens)
        return a + p["s"] * (b - a)

    return of((params | {"s": ""}, forward))


def mean_free(x, axis=-1):
    return x - jnp.mean(x, axis, keepdims=True)


def rms_of_centred(x, gain=1.0, bias=0.0):
    return gain * rms(mean_free(x)) + bias


@qx.architecture(params={"W": "y x", "B": "y r", "A": "r x"}, inputs={"x": "x"})
def lora(p, x):
    return p["W"] @ x + 2.0 * (p["B"] @ (p["A"] @ x))


@qx.architecture(params={"W": "y x", "B": "y r", "A": "r x", "m": "y"}, inputs={"x": "x"})
def dora(p, x):
    """The rows of the adapted matrix have the lengths `m`."""
    W = p["W"] + 2.0 * (p["B"] @ p["A"])
    return (p["m"] / jnp.sqrt(jnp.sum(W**2, -1))) * (W @ x)


@qx.architecture(params={"W": "d x", "H": "y d", "s": ""}, inputs={"x": "x"})
def absorbed(p, x):
    """`rewritten` for one writer, one norm and one reader: the mean is taken out of the weights of the writer."""
    a, b = (p["H"] @ y for y in (layer_norm(p["W"] @ x), rms(mean_free(p["W"], 0) @ x)))
    return a + p["s"] * (b - a)


# --- statements


@dataclass(frozen=True)
class Statement:
    """A row: what is said, its formula, who says it, and the symmetry that it is.

    `instead` names the row that holds in the place of a false one.
    """

    name: str
    formula: str
    source: str
    model: qx.Architecture
    symmetry: qx.Symmetry
    verdict: str
    instead: str = ""


STATEMENTS: list[Statement] = []
EVERY, EVEN, FALSE = "proved, every width", "proved, every even k", "refuted"


def say(verdict, name, formula, source, model, group, action, instead=""):
    symmetry = qx.Symmetry(name, group, action)
    STATEMENTS.append(Statement(name, formula, source, model, symmetry, verdict, instead))


def stream(model, element="g[d,e]", left=()) -> Action:
    """`g` on the axis d of every parameter that has it, except those that are `left` alone."""
    action = {}
    for spec in model.params:
        indices = spec.axes_text.split()
        if "d" in indices and spec.name not in left:
            old = [("e" if "e" in element and index == "d" else index) for index in indices]
            action[f"{spec.name}[{','.join(indices)}]"] = f"{element} {spec.name}[{','.join(old)}]"
    return action


def scaled(element, times="", over="") -> Action:
    """These parameters multiplied by an entry of `g`, and those divided by it: `"Q:kv r d k; K:kv d k"`."""
    action = {}
    for sign, names in (("*", times), ("/", over)):
        for named in filter(None, names.split("; ")):
            name, axes = named.split(":")
            entry = f"{name}[{','.join(axes.split())}]"
            action[entry] = f"{entry} {sign} {element}"
    return action


def seen(gain, readers) -> Action:
    """What reads the stream through a gain: `W diag(a)` turns, and `a` stays."""
    action = {}
    for named in readers.split("; "):
        name, axes = named.split(":")
        new, old = (",".join("e" if old and axis == "d" else axis for axis in axes.split()) for old in (False, True))
        action[f"{name}[{new}]"] = f"g[d,e] {gain}[e] {name}[{old}] / {gain}[d]"
    return action


LLAMA, FOLDED = of(decoder()), of(decoder(gains=False))
TIED, TIED_FOLDED = of(decoder(tied=True)), of(decoder(gains=False, tied=True))
GATED, RELU = of(decoder(gains=False, output_gate=True)), of(decoder(gains=False, activation=jax.nn.relu))
POSTED, POSTED_PLAIN = of(decoder(gains=False, post="gains")), of(decoder(gains=False, post="plain"))
OPT, OPT_FOLDED, OPT_RMS = of(older()), of(older(gains=False)), of(older(rms, gains=False))
QKV, HEADS = "Q:kv r d k; K:kv d k; V:kv d v", "Q:head d k; K:head d k; V:head d v"
GAINS = ("a", "m", "n")

# --- gains into what reads them

say(
    EVEN, "RMSNorm's gain into queries, keys and values", "a → a s; Q, K, V → Q/s, K/s, V/s", "AWQ 2024",
    LLAMA, qx.Diagonal("d"), scaled("g[d]", "a:d", QKV),
)  # fmt: skip
say(
    EVEN, "RMSNorm's gain into a gated MLP", "m → m s; G, U → G/s, U/s", "AWQ 2024",
    LLAMA, qx.Diagonal("d"), scaled("g[d]", "m:d", "G:f d; U:f d"),
)  # fmt: skip
say(
    EVEN, "the last RMSNorm's gain into the head", "n → n s; H → H/s", "QuaRot 2024",
    LLAMA, qx.Diagonal("d"), scaled("g[d]", "n:d", "H:voc d"),
)  # fmt: skip
say(
    FALSE, "the last RMSNorm's gain into a head that is the embedding", "n → n s; E → E/s", "—",
    TIED, qx.Diagonal("d"), scaled("g[d]", "n:d", "E:voc d"),
    "the last RMSNorm's gain into the head",
)  # fmt: skip
say(
    EVERY, "LayerNorm's gain and bias into queries, keys and values", "a, a₀ → a s, a₀ s; Q, K, V → Q/s, K/s, V/s",
    "SmoothQuant 2023", OPT, qx.Diagonal("d"), scaled("g[d]", "a:d; a0:d", HEADS),
)  # fmt: skip
say(
    EVERY, "LayerNorm's gain and bias into an MLP", "m, m₀ → m s, m₀ s; U → U/s", "SmoothQuant 2023",
    OPT, qx.Diagonal("d"), scaled("g[d]", "m:d; m0:d", "U:f d"),
)  # fmt: skip
say(
    EVERY, "LayerNorm's bias into its reader's", "m₀ → m₀ + v; u → u − U v", "Outlier Suppression+ 2023",
    OPT, qx.Translation("d"), {"m0": "m0 + g", "u": "u - U @ g"},
)  # fmt: skip

# --- gated units

say(
    EVEN, "up into down", "U → s U; D → D/s", "AWQ 2024",
    FOLDED, qx.Diagonal("f"), {"U": "g @ U", "D": "D @ inv(g)"},
)  # fmt: skip
say(
    FALSE, "gate into down", "G → s G; D → D/s", "—",
    FOLDED, qx.PositiveDiagonal("f"), {"G": "g @ G", "D": "D @ inv(g)"}, "gate into down, of a ReLU",
)  # fmt: skip
say(
    EVEN, "gate into down, of a ReLU", "G → s G; D → D/s, s > 0", "Path-SGD 2015",
    RELU, qx.PositiveDiagonal("f"), {"G": "g @ G", "D": "D @ inv(g)"},
)  # fmt: skip
TURNED_UNITS = {"G": "g @ G", "U": "g @ U", "D": "D @ g.T"}
say(
    FALSE, "rotation of gated units, without one while it runs", "G, U → R G, R U; D → D Rᵀ",
    "R4 of SpinQuant 2025 without its online half",
    FOLDED, qx.O("f"), TURNED_UNITS, "permutation of gated units",
)  # fmt: skip
say(
    EVEN, "permutation of gated units", "G, U → P G, P U; D → D Pᵀ", "Hecht-Nielsen 1990",
    FOLDED, qx.Permutation("f"), TURNED_UNITS,
)  # fmt: skip

# --- inside a head

R2 = {"V[kv,d,v]": "V[kv,d,w] g[kv,w,v]", "O[kv,r,v,d]": "inv(g)[kv,v,w] O[kv,r,w,d]"}
VALUES = scaled("g[kv,v]", "V:kv d v", "O:kv r v d")
say(
    EVEN, "values into output, for each head of keys and values", "V → V s; O → O/s", "AWQ 2024",
    FOLDED, qx.Diagonal("v", each="kv"), VALUES,
)  # fmt: skip
say(
    EVEN, "R2: rotation of values and output", "V → V R; O → Rᵀ O", "QuaRot 2024, SpinQuant 2025",
    FOLDED, qx.O("v", each="kv"), R2,
)  # fmt: skip
say(
    EVEN, "R2 by any invertible matrix", "V → V M; O → M⁻¹ O", "FlatQuant 2025",
    FOLDED, qx.GL("v", each="kv"), R2,
)  # fmt: skip
say(
    FALSE, "R2 behind an output gate", "V → V R; O → Rᵀ O", "R2 taken over",
    GATED, qx.O("v", each="kv"), R2, "values into output behind an output gate",
)  # fmt: skip
say(
    EVEN, "values into output behind an output gate", "V → V s; O → O/s", "—",
    GATED, qx.Diagonal("v", each="kv"), VALUES,
)  # fmt: skip
CARRIED = R2 | {"S[kv,r,d,v]": "S[kv,r,d,w] g[kv,w,v]"}
say(
    EVEN, "permutation of values, output and output gate", "V → V P; S → S P; O → Pᵀ O", "—",
    GATED, qx.Permutation("v", each="kv"), CARRIED,
)  # fmt: skip
QK = {"Q[kv,r,d,k]": "Q[kv,r,d,l] g[kv,l,k]", "K[kv,d,k]": "inv(g)[kv,k,l] K[kv,d,l]"}
say(
    EVEN, "turns and scalings of pairs before RoPE", "Q → Q z; K → K/z̄, one complex z for each pair (i, i + k/2)",
    "QServe 2025, FPTQuant 2025", FOLDED, qx.ComplexScaling("k", each="kv", pairs="halves"), QK,
)  # fmt: skip
say(
    FALSE, "turns and scalings of adjacent pairs, with the tables of rotate_half", "as above, pairs (2i, 2i + 1)",
    "—", FOLDED, qx.ComplexScaling("k", each="kv", pairs="adjacent"), QK,
    "turns and scalings of pairs before RoPE",
)  # fmt: skip
say(
    FALSE, "scaling of queries and keys before RoPE, each channel its own", "Q → Q s; K → K/s", "—",
    FOLDED, qx.PositiveDiagonal("k", each="kv"), scaled("g[kv,k]", "Q:kv r d k", "K:kv d k"),
    "turns and scalings of pairs before RoPE",
)  # fmt: skip
say(
    FALSE, "rotation of queries and keys before RoPE", "Q → Q R; K → K R",
    "R3 of SpinQuant 2025 without its online half",
    FOLDED, qx.O("k", each="kv"), QK, "turns and scalings of pairs before RoPE",
)  # fmt: skip

# --- the stream

say(
    EVEN, "R1, gains folded", "every reader W → W Rᵀ, every writer W → R W", "QuaRot 2024, SpinQuant 2025",
    FOLDED, qx.O("d"), stream(FOLDED),
)  # fmt: skip
say(
    EVEN, "R1, gains folded, the head tied to the embedding", "the same", "QuaRot 2024",
    TIED_FOLDED, qx.O("d"), stream(TIED_FOLDED),
)  # fmt: skip
say(
    FALSE, "R1, gains left in place", "the same; a, m, n stay", "—",
    LLAMA, qx.O("d"), stream(LLAMA, left=GAINS), "R1 seen through the gains",
)  # fmt: skip
THROUGH = stream(LLAMA, left=GAINS) | seen("a", QKV) | seen("m", "G:f d; U:f d") | seen("n", "H:voc d")
say(
    EVEN, "R1 seen through the gains", "readers W → W a Rᵀ a⁻¹, writers W → R W; a, m, n stay", "—",
    LLAMA, qx.O("d"), THROUGH,
)  # fmt: skip
say(
    EVEN, "signs of the stream, gains left in place", "readers and writers times ε = ±1; a, m, n stay", "—",
    LLAMA, qx.SignFlip("d"), stream(LLAMA, "g[d]", left=GAINS),
)  # fmt: skip
say(
    EVEN, "permutation of the stream with its gains", "everything on the axis d, gains too", "—",
    LLAMA, qx.Permutation("d"), stream(LLAMA),
)  # fmt: skip
say(
    FALSE, "R1 with the gains of Gemma 2's post-norms", "readers W → W Rᵀ, writers W → R W", "R1 taken over",
    POSTED, qx.O("d"), stream(POSTED, left=("b", "c")), "permutation of the stream with post-norms",
)  # fmt: skip
say(
    EVEN, "permutation of the stream with post-norms", "everything on the axis d, gains too", "—",
    POSTED, qx.Permutation("d"), stream(POSTED),
)  # fmt: skip
say(
    EVEN, "signs of the stream with post-norms", "readers and writers times ε = ±1; gains stay", "—",
    POSTED, qx.SignFlip("d"), stream(POSTED, "g[d]", left=("b", "c")),
)  # fmt: skip
say(
    EVEN, "R1 with post-norms that have no gains", "readers W → W Rᵀ, writers W → R W", "—",
    POSTED_PLAIN, qx.O("d"), stream(POSTED_PLAIN),
)  # fmt: skip

# --- LayerNorm and RMSNorm

say(
    FALSE, "rotation of a stream with LayerNorms", "readers W → W Rᵀ, writers W → R W", "R1 taken over",
    OPT_FOLDED, qx.O("d"), stream(OPT_FOLDED), "rotation of a stream with LayerNorms that fixes the ones",
)  # fmt: skip
say(
    EVERY, "rotation of a stream with LayerNorms that fixes the ones", "the same, R 1 = 1: O(d − 1)", "SliceGPT 2024",
    OPT_FOLDED, qx.OFixingOnes("d"), stream(OPT_FOLDED),
)  # fmt: skip
SEEN = stream(OPT, left=(*GAINS, "a0", "m0", "n0")) | seen("a", HEADS) | seen("m", "U:f d") | seen("n", "H:voc d")
SEEN |= {f"{gain}0[d]": f"{gain}[d] g[d,e] {gain}0[e] / {gain}[e]" for gain in GAINS}
say(
    EVERY, "the same seen through LayerNorm's gains",
    "readers W → W a Rᵀ a⁻¹, a₀ → a R a⁻¹ a₀, writers W → R W; a stays",
    "—", OPT, qx.OFixingOnes("d"), SEEN,
)  # fmt: skip
say(
    EVERY, "rotation of the same stream with RMSNorms", "readers W → W Rᵀ, writers W → R W", "SliceGPT 2024",
    OPT_RMS, qx.O("d"), stream(OPT_RMS),
)  # fmt: skip
SAME = (qx.Translation(), {"s": "s + g"})
say(
    EVERY, "a decoder with LayerNorms is one with RMSNorms of the centred stream", "LN(x) = RMS(x − mean x)",
    "SliceGPT 2024", rewritten(older(), older(rms_of_centred)), *SAME,
)  # fmt: skip
say(
    EVERY, "centring an embedding before LayerNorm", "E → E + v 1ᵀ, any v; v = −mean E centres", "SliceGPT 2024",
    OPT, qx.Translation("voc"), {"E[voc,d]": "E[voc,d] + g[voc]"},
)  # fmt: skip
say(
    EVERY, "centring an MLP's output before LayerNorm", "D → D + 1 vᵀ, any v; v = −mean D centres", "SliceGPT 2024",
    OPT, qx.Translation("f"), {"D[d,f]": "D[d,f] + g[f]"},
)  # fmt: skip
say(
    EVERY, "centring attention's output before LayerNorm", "O → O + v 1ᵀ, any v; v = −mean O centres", "SliceGPT 2024",
    OPT, qx.Translation("v", each="head"), {"O[head,v,d]": "O[head,v,d] + g[head,v]"},
)  # fmt: skip
say(
    "proved, widths (d=2, x=3, y=4) and (d=3, x=4, y=5)", "LayerNorm is RMSNorm of a centred writer",
    "LN(W x) = RMS((W − mean W) x)", "SliceGPT 2024", absorbed, *SAME,
)  # fmt: skip
say(
    FALSE, "centring an embedding before RMSNorm", "E → E − mean E", "copied through several codebases",
    rewritten(decoder(gains=False), decoder(gains=False, centred=True)), *SAME,
    "centring an embedding before LayerNorm",
)  # fmt: skip
say(
    FALSE, "any multiple of the ones added to a row, before RMSNorm", "E → E + v 1ᵀ", "—",
    FOLDED, qx.Translation("voc"), {"E[voc,d]": "E[voc,d] + g[voc]"}, "centring an embedding before LayerNorm",
)  # fmt: skip

# --- adapters

ADAPTED = {"A": "g @ A", "B": "B @ inv(g)"}
say(EVERY, "LoRA: any invertible matrix between", "A → M A; B → B M⁻¹", "LoRA 2022", lora, qx.GL("r"), ADAPTED)
say(EVERY, "DoRA: any invertible matrix between", "A → M A; B → B M⁻¹", "DoRA 2024", dora, qx.GL("r"), ADAPTED)
say(
    FALSE, "LoRA: the transpose for the inverse", "A → M A; B → B Mᵀ", "—",
    lora, qx.GL("r"), {"A": "g @ A", "B": "B @ g.T"}, "LoRA: any invertible matrix between",
)  # fmt: skip


# --- the table of the page

HEADER = ("statement", "action", "verdict", "seconds", "said in", "what holds instead")


def verdict(certificate) -> str:
    """What a row says of a certificate: where a model exists at even sizes only, that is its scope."""
    if certificate.status != "proved":
        return certificate.status
    narrowed = [each for each in certificate.assumptions if each.startswith("every even")]
    if certificate.scope == "every width" and narrowed:
        return f"proved, {', '.join(narrowed)}"
    return f"proved, {certificate.scope}"


def cells(statement: Statement, seconds: str) -> tuple[str, ...]:
    """The row of the page."""
    return (
        statement.name, statement.formula, statement.verdict, seconds, statement.source, statement.instead or "—",
    )  # fmt: skip


def main() -> None:
    """Ask for every verdict, and print the table with what each took; a verdict that is not the stated one is shown."""
    print("| " + " | ".join(HEADER) + " |")
    print("|---|---|---|---:|---|---|")
    for statement in STATEMENTS:
        start = time.perf_counter()
        said = verdict(qx.verify(statement.model, statement.symmetry))
        seconds = f"{max(time.perf_counter() - start, 0.1):.1f}"
        print("| " + " | ".join(cells(statement, seconds)) + " |", flush=True)
        if said != statement.verdict:
            print(f"NOT SO: {said}", flush=True)


if __name__ == "__main__":
    main()
