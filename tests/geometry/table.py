"""The shared table of models: entries of the catalogue, with their families by hand.

In tests/test_catalogue.py `derive` must find these families by itself; here their actions are written down, so that
tests of the geometry neither derive nor verify. `certificates` are taken as read; the slow test of test_table.py
verifies them all.

    case = CASES["relu"]
    space = case.space()                         # the Euclidean quotient by `case.families`
    space = case.space("invariant", discrete=True)
    params = case.draw(seed)                     # normal parameters, in float64
"""

from __future__ import annotations

import functools
import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import quotax as qx
from quotax import catalogue
from quotax.errors import MetricWarning
from quotax.lower import lower_action
from quotax.trees import nest

PD, GL, O, T = qx.PositiveDiagonal, qx.GL, qx.O, qx.Translation
S, D, C, SCALAR = qx.Symmetry, qx.Diagonal, qx.ComplexScaling, qx.PositiveScalar


@dataclass(frozen=True)
class Case:
    """A model at the sizes of its entry, its continuous families, and discrete ones that hold as well.

    `orbit` is the generic dimension of the orbits of `families`; where it differs from the entry's own number (fields
    that belong to no group), `note` says why.
    """

    name: str
    model: Any
    sizes: dict[str, int]
    families: tuple[qx.Symmetry, ...]
    orbit: int
    discrete: tuple[qx.Symmetry, ...] = ()
    note: str = ""

    @functools.cached_property
    def network(self) -> Any:
        """The sized network."""
        return self.model.at(**{axis: self.sizes[axis] for axis in self.model.parameter_axes})

    def symmetries(self, discrete: bool = False) -> tuple[qx.Symmetry, ...]:
        """The families, followed by the discrete ones when asked for."""
        return (*self.families, *(self.discrete if discrete else ()))

    def space(self, metric: Any = "euclidean", discrete: bool = False) -> Any:
        """The quotient space, each one built once."""
        return _space(self.name, metric, discrete)

    @functools.cached_property
    def lowered(self) -> tuple[Any, ...]:
        """The families as JAX functions at these sizes."""
        specs = self.model.params
        return tuple(lower_action(claim.bind(specs), specs, self.network.sizes) for claim in self.families)

    def draw(self, seed: int = 0, dtype: Any = jnp.float64) -> dict[str, jax.Array]:
        """Normal arrays by parameter name: parameters, or a tangent vector."""
        shapes = self.network.shapes
        keys = jax.random.split(jax.random.key(seed), len(shapes))
        return {n: jax.random.normal(k, s, dtype) for k, (n, s) in zip(keys, shapes.items(), strict=True)}

    def tree(self, seed: int = 0, dtype: Any = jnp.float64) -> dict[str, Any]:
        """What `draw` gives, in the network's own tree."""
        return nest(self.draw(seed, dtype))

    def inputs(self, seed: int = 0) -> list[jax.Array]:
        """Inputs at the sizes of the row: normal numbers, or tokens."""
        arrays = []
        for position, spec in enumerate(self.model.inputs):
            key = jax.random.key(zlib.crc32(f"{seed} {position}".encode()))
            shape, below = spec.shape(self.sizes), getattr(spec, "below", None)
            if below is not None:
                arrays.append(jax.random.randint(key, shape, 0, self.sizes[below]))
            else:
                arrays.append(jax.random.normal(key, shape))
        return arrays


@functools.cache
def _space(name: str, metric: Any, discrete: bool) -> Any:
    case = CASES[name]
    claims = case.symmetries(discrete)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetricWarning)  # the Euclidean metric is invariant in few rows
        return qx.quotient(case.network, claims, metric, verified=certificates(claims))


def certificates(claims: Sequence[qx.Symmetry]) -> list[qx.Certificate]:
    """One for each claim, taken as read."""
    return [qx.Certificate("taken as read; see tests/geometry/test_table.py", "proved", "tests")] * len(claims)


def scaling(axis: str, first: dict[str, int], group: Any = PD) -> qx.Symmetry:
    """A scaling of `axis`: parameters to their powers of the factor, matrices on the side that has the axis.

    A negative number stands for a factor on the right: `{"W1": 1, "b1": 1, "W2": -1}`.
    """
    spell = {n: f"g @ {n}" if p > 0 else f"{n} @ inv(g)" if p == -1 else f"{n} @ g**({p})" for n, p in first.items()}
    return S(f"scale {axis}", group(axis), spell)


LINEAR = S("linear h", GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
RELU = scaling("h", {"W1": 1, "b1": 1, "W2": -1})
UNITS = S("permute h", qx.Permutation("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"})
SIGNS = S("signs h", qx.SignFlip("h"), {"W1": "g @ W1", "b1": "g @ b1"})
GATED = S("permute h", qx.Permutation("h"), {"W": "g @ W", "V": "g @ V", "O": "O @ inv(g)"})
LINEAR_GATE = S("scale h", D("h"), {"V": "g @ V", "O": "O @ inv(g)"})
SHIFT_COLUMNS, SHIFT_BIAS = S("shift x", T("x"), {"W": "W + g"}), S("shift all", T(), {"b": "b + g"})

HEADS = [
    S(
        "query key",
        GL("k", each="head"),
        {"Q[head,k,d]": "g[head,k,l] Q[head,l,d]", "K[head,k,d]": "inv(g)[head,l,k] K[head,l,d]"},
    ),
    S(
        "value output",
        GL("k", each="head"),
        {"V[head,k,d]": "g[head,k,l] V[head,l,d]", "O[d,head,k]": "inv(g)[head,l,k] O[d,head,l]"},
    ),
]
BIASED_HEADS = [
    S("query key", GL("k", each="head"), {**HEADS[0].action, "bQ[head,k]": "g[head,k,l] bQ[head,l]"}),
    S("value output", GL("k", each="head"), {**HEADS[1].action, "bV[head,k]": "g[head,k,l] bV[head,l]"}),
    S("key bias", T("k", each="head"), {"bK": "bK + g"}),
    S("value bias", T("k", each="head"), {"bV": "bV + g", "bO[d]": "bO[d] - O[d,head,k] g[head,k]"}),
]
GROUPED_HEADS = [
    S(
        "query key",
        GL("k", each="kv"),
        {"Q[kv,group,k,d]": "g[kv,k,l] Q[kv,group,l,d]", "K[kv,k,d]": "inv(g)[kv,l,k] K[kv,l,d]"},
    ),
    S(
        "value output",
        GL("k", each="kv"),
        {"V[kv,k,d]": "g[kv,k,l] V[kv,l,d]", "O[d,kv,group,k]": "inv(g)[kv,l,k] O[d,kv,group,l]"},
    ),
]
SHARED_HEADS = [
    S("query key", GL("k"), {"Q[head,k,d]": "g[k,l] Q[head,l,d]", "K[k,d]": "inv(g)[l,k] K[l,d]"}),
    S("value output", GL("k"), {"V[k,d]": "g[k,l] V[l,d]", "O[d,head,k]": "inv(g)[l,k] O[d,head,l]"}),
]
ROTARY = [
    S("query key", C("k"), {"Q": "g @ Q", "K": "inv(g).T @ K"}),
    S("value output", GL("v"), {"V": "g @ V", "O": "O @ inv(g)"}),
]


GAINS = [S("gains", qx.PairScaling("k", pairs="halves"), {"gq": "g @ gq", "gk": "inv(g) @ gk"}), ROTARY[1]]


def decoder_families(blocks: int) -> list[qx.Symmetry]:
    """Heads of every block, rotations and the scale of the residual stream, and shifts of the positions."""
    names = [f"block{i}" for i in range(blocks)]
    heads = [
        S(
            f"{family.name} {n}",
            family.group,
            {f"{n}/{key}": text.replace(f" {key[0]}[", f" {n}/{key[0]}[") for key, text in family.action.items()},
        )
        for n in names
        for family in HEADS
    ]
    writers = {"E": "E @ g.T", "P": "P @ g.T"}
    for n in names:
        writers |= {f"{n}/O[d,head,k]": f"g[d,e] {n}/O[e,head,k]", f"{n}/W2": f"g @ {n}/W2"}
    readers = {"U": "U @ g.T"}
    for n in names:
        readers |= {f"{n}/{m}[head,k,d]": f"g[d,e] {n}/{m}[head,k,e]" for m in "QKV"} | {f"{n}/W1": f"{n}/W1 @ g.T"}
    written = {m: f"g * {m}" for m in ("E", "P", *(f"{n}/W2" for n in names))}
    written |= {f"{n}/O[d,head,k]": f"g {n}/O[d,head,k]" for n in names}
    return [
        *heads,
        S("rotate d", O("d"), writers | readers),
        S("scale", SCALAR(), written),
        S("shift d", T("d"), {"E": "E + g", "P": "P - g"}),
    ]


HYPERBOLIC = S(
    "hyperbolic x",
    T("x"),
    {
        "u[x]": "(exp(g[x]) + exp(-g[x])) / 2 * u[x] + (exp(g[x]) - exp(-g[x])) / 2 * v[x]",
        "v[x]": "(exp(g[x]) + exp(-g[x])) / 2 * v[x] + (exp(g[x]) - exp(-g[x])) / 2 * u[x]",
    },
)

# Row by row: the continuous families, and discrete ones. The orbit's dimension is that of the row unless given.
FAMILIES: dict[str, tuple[list[qx.Symmetry], list[qx.Symmetry]]] = {
    "linear": ([LINEAR], []),
    "linear wide-narrow": ([LINEAR], []),
    "linear overcomplete": ([LINEAR], []),
    "linear biases": (
        [
            S("linear h", GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)", "b1": "g @ b1"}),
            S("shift h", T("h"), {"b2": "b2 - W2 @ g", "b1": "b1 + g"}),
        ],
        [],
    ),
    "relu": ([RELU], [UNITS]),
    "leaky": (
        [RELU, scaling("k", {"W2": 1, "b2": 1, "W3": -1})],
        [UNITS, S("permute k", qx.Permutation("k"), {"W2": "g @ W2", "b2": "g @ b2", "W3": "W3 @ inv(g)"})],
    ),
    "abs": ([RELU], [UNITS, SIGNS]),
    "relu squared": ([scaling("h", {"W1": 1, "b1": 1, "W2": -2})], [UNITS]),
    "exp": ([S("shift h", T("h"), {"b1": "b1 - g", "W2": "exp(g) * W2"})], [UNITS]),
    "square": (
        [S("scale h", D("h"), {"W": "g @ W", "a": "g**(-2) @ a"})],
        [S("permute h", qx.Permutation("h"), {"W": "g @ W", "a": "g @ a"})],
    ),
    "cube": (
        [S("scale h", D("h"), {"W": "g @ W", "a": "g**(-3) @ a"})],
        [S("permute h", qx.Permutation("h"), {"W": "g @ W", "a": "g @ a"})],
    ),
    "softmax": ([SHIFT_COLUMNS], []),
    "softmax bias": ([SHIFT_COLUMNS, SHIFT_BIAS], []),
    "u*v": ([S("scale x", D("x"), {"u": "g @ u", "v": "inv(g) @ v"})], []),
    "u^2-v^2": ([HYPERBOLIC], [S("signs x", qx.SignFlip("x"), {"u": "g @ u"})]),
    "tied": ([S("rotate h", O("h"), {"W": "g @ W"})], []),
    "batch norm": ([S("shift h", T("h"), {"b": "b + g"}), S("scale h", PD("h"), {"W": "g @ W"})], []),
    "batch norm eps": ([S("shift h", T("h"), {"b": "b + g"})], []),
    "layer norm": ([SHIFT_COLUMNS, S("scale", SCALAR(), {"W": "g * W", "b": "g * b"}), SHIFT_BIAS], []),
    "layer norm eps": ([SHIFT_COLUMNS, SHIFT_BIAS], []),
    "rms norm": ([S("rotate h", O("h"), {"A": "A @ g.T", "W": "g @ W"}), S("scale", SCALAR(), {"W": "g * W"})], []),
    "swiglu": ([LINEAR_GATE], [GATED]),
    "geglu": ([LINEAR_GATE], [GATED]),
    "reglu": ([LINEAR_GATE, S("scale h (W, O)", PD("h"), {"W": "g @ W", "O": "O @ inv(g)"})], [GATED]),
    "bilinear": ([LINEAR_GATE, S("scale h (W, O)", D("h"), {"W": "g @ W", "O": "O @ inv(g)"})], [GATED]),
    "lora": ([S("linear r", GL("r"), {"B": "B @ g.T", "A": "inv(g).T @ A"})], []),
    "conv relu": (
        [S("scale c", PD("c"), {"K[c,i,j]": "g[c] K[c,i,j]", "L[o,c,i]": "L[o,c,i] / g[c]", "b": "g @ b"})],
        [
            S(
                "permute c",
                qx.Permutation("c"),
                {"K[c,i,j]": "g[c,e] K[e,i,j]", "L[o,c,i]": "g[c,e] L[o,e,i]", "b": "g @ b"},
            )
        ],
    ),
    "conv linear": ([S("linear c", GL("c"), {"K[c,i,j]": "g[c,e] K[e,i,j]", "L[o,c,i]": "inv(g)[e,c] L[o,e,i]"})], []),
    "relu rnn": (
        [S("scale h", PD("h"), {"U": "g @ U", "R": "g @ R @ inv(g)", "C": "C @ inv(g)"})],
        [S("permute h", qx.Permutation("h"), {"U": "g @ U", "R": "g @ R @ inv(g)", "C": "C @ inv(g)"})],
    ),
    "state space": ([S("linear h", GL("h"), {"U": "g @ U", "R": "g @ R @ inv(g)", "C": "C @ inv(g)"})], []),
    "diagonal state space": (
        [S("scale h", D("h"), {"B": "g @ B", "C": "C @ inv(g)"})],
        [S("permute h", qx.Permutation("h"), {"a": "g @ a", "B": "g @ B", "C": "C @ inv(g)"})],
    ),
    "attention": (HEADS, []),
    "attention biases": (BIASED_HEADS, []),
    "grouped query": (GROUPED_HEADS, []),
    "multi query": (SHARED_HEADS, []),
    "rope": (ROTARY, []),
    "qk norm": ([*GAINS, S("scale", SCALAR(), {"Q": "g * Q"}), S("scale (K)", SCALAR(), {"K": "g * K"})], []),
    "qk norm, eps": (GAINS, []),
    "decoder": (decoder_families(1), []),
}
NOTES = {
    "square": (3, "the fields a_j w_j d/dw_i - a_i w_i d/dw_j are quadratic and come from no action on the entries")
}


ENTRIES = {
    "linear": "linear",
    "linear wide-narrow": "linear/narrow",
    "linear overcomplete": "linear/overcomplete",
    "linear biases": "linear/biases",
    "relu": "mlp/relu",
    "leaky": "deep_mlp",
    "abs": "mlp/abs",
    "relu squared": "mlp/relu_squared",
    "exp": "mlp/exp",
    "square": "polynomial/quadratic",
    "cube": "polynomial/cubic",
    "softmax": "softmax_classifier",
    "softmax bias": "softmax_classifier/biases",
    "u*v": "diagonal_linear",
    "u^2-v^2": "diagonal_linear/squares",
    "tied": "autoencoder/tied",
    "batch norm": "batch_norm",
    "batch norm eps": "batch_norm/eps",
    "layer norm": "layer_norms",
    "layer norm eps": "layer_norms/eps",
    "rms norm": "rms_norms",
    "swiglu": "gated_linear_units/swiglu",
    "geglu": "gated_linear_units/geglu",
    "reglu": "gated_linear_units/reglu",
    "bilinear": "gated_linear_units/bilinear",
    "lora": "lora",
    "conv relu": "cnn",
    "conv linear": "cnn/linear",
    "relu rnn": "recurrent/relu",
    "state space": "state_space/linear",
    "diagonal state space": "state_space/diagonal",
    "attention": "multi_head",
    "attention biases": "multi_head/biases",
    "grouped query": "grouped_query",
    "multi query": "multi_query",
    "rope": "rotary/adjacent",
    "qk norm": "qk_norm",
    "qk norm, eps": "qk_norm/eps",
    "decoder": "pre_norm_decoder/rms",
}


def _case(name: str) -> Case:
    entry = catalogue.load(ENTRIES[name])
    families, discrete = FAMILIES[name]
    sizes = dict(entry.flat[0][0])
    orbit, note = NOTES.get(name, (entry.orbit_at(sizes), ""))
    return Case(name, entry.architecture, sizes, tuple(families), orbit, tuple(discrete), note)


CASES = {name: _case(name) for name in FAMILIES}

KINDS = {
    "linear overcomplete": "GL whose stabiliser is not compact",
    "linear biases": "GL, and a shift that a weight carries on",
    "leaky": "scalings of several layers that share a weight",
    "exp": "a shift that scales, exponentially",
    "cube": "scalings of either sign, to a power",
    "u^2-v^2": "a field that mixes two parameters",
    "rms norm": "rotations beside a scaling by a number",
    "reglu": "two scalings of one axis",
    "conv linear": "GL on tensors",
    "relu rnn": "a scaling on both sides of a matrix",
    "state space": "GL on both sides of a matrix",
    "attention biases": "GL and shifts for each head",
    "grouped query": "GL for each group of heads",
    "rope": "complex scalings",
    "qk norm": "scalings of pairs",
    "decoder": "all of these in one model",
}
"""One row for each way in which families act and projections are computed: laws are tested on these by CI."""


def sampled(
    quick: Sequence[str], kinds: Sequence[str] = tuple(KINDS), names: Sequence[str] = tuple(CASES)
) -> list[Any]:
    """Every row for `parametrize`: those in `quick` by default, those in `kinds` by CI, the others by hand."""
    marks = lambda name: () if name in quick else (pytest.mark.slow if name in kinds else pytest.mark.long,)
    return [pytest.param(name, marks=marks(name)) for name in names]
