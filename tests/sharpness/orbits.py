"""Three networks whose parameters are moved along their orbits by group elements of any condition number."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx
from geometry.table import certificates

S, PD, GL, T = qx.Symmetry, qx.PositiveDiagonal, qx.GL, qx.Translation


@dataclass(frozen=True)
class Orbit:
    """A network with its symmetries, a space for each dtype of the parameters, a loss and float64 parameters."""

    space: Any
    loss: Any
    params: dict[str, np.ndarray]

    def moved(self, condition: float, dtype: Any) -> dict[str, jax.Array]:
        """The parameters moved in float64 by an element of this condition number, then rounded."""
        if condition == 1:
            there = self.params
        else:
            with jax.enable_x64(True):
                there = self.space.act(self.params, conditioned(self.space, condition))
        return {name: jnp.asarray(np.asarray(a, dtype)) for name, a in there.items()}


def conditioned(space, condition, seed=0):
    """An element whose scalings and matrices have this condition number, with random permutations and shifts."""
    rng, element = np.random.default_rng(seed), {}
    for family in space.families:
        shape = family.group.shape(family.sizes)
        spread = condition ** np.linspace(-0.5, 0.5, shape[-1] if shape else 1)
        if isinstance(family.group, GL):
            sides = [np.linalg.qr(rng.normal(size=shape))[0] for _ in range(2)]
            element[family.name] = jnp.asarray(sides[0] * spread @ np.swapaxes(sides[1], -1, -2))
        elif isinstance(family.group, PD):
            element[family.name] = jnp.asarray(rng.permutation(spread))
        elif isinstance(family.group, qx.Diagonal):
            element[family.name] = jnp.asarray(rng.permutation(spread) * rng.choice([-1.0, 1.0], shape))
        elif isinstance(family.group, qx.Permutation):
            element[family.name] = jnp.eye(shape[-1])[rng.permutation(shape[-1])]
        else:
            element[family.name] = jnp.asarray(rng.normal(size=shape))
    return element


def relu_mlp():
    params = {"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "y k", "b3": "y"}

    def model(p, x):
        z = jax.nn.relu(p["W1"] @ x + p["b1"])
        return p["W3"] @ jax.nn.relu(p["W2"] @ z + p["b2"]) + p["b3"]

    claims = [
        S("scale h", PD("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
        S("scale k", PD("k"), {"W2": "g @ W2", "b2": "g @ b2", "W3": "W3 @ inv(g)"}),
    ]
    return params, model, "x", claims, {"x": 6, "h": 8, "k": 7, "y": 4}


HEADS = [
    S("query key", GL("k", each="head"),
      {"Q[head,k,d]": "g[head,k,l] Q[head,l,d]", "K[head,k,d]": "inv(g)[head,l,k] K[head,l,d]"}),
    S("value output", GL("k", each="head"),
      {"V[head,k,d]": "g[head,k,l] V[head,l,d]", "O[d,head,k]": "inv(g)[head,l,k] O[d,head,l]"}),
]  # fmt: skip


def attend(parts, output):
    q, k, v = parts
    scores = jnp.einsum("thk,shk->hts", q, k) / q.shape[-1] ** 0.5
    return jnp.einsum("hts,shk,dhk->td", jax.nn.softmax(scores, -1), v, output)


def rms_attention():
    params = {"Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k", "U": "f d", "W": "d f"}

    def rms(x):
        return x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-3)

    def model(p, x):
        x = x + attend([jnp.einsum("td,hkd->thk", rms(x), p[name]) for name in "QKV"], p["O"])
        return x + jax.nn.relu(rms(x) @ p["U"].T) @ p["W"].T

    claims = [*HEADS, S("scale f", PD("f"), {"U": "g @ U", "W": "W @ inv(g)"})]
    return params, model, "t d", claims, {"d": 12, "head": 2, "k": 4, "f": 16, "t": 5}


def encoder(d=16, head=2, k=4, f=8, t=6):
    """What a library builds: every layer has a bias, every norm a gain and a bias; heads share the stream's gain."""
    params = {
        "Q": "head k d", "K": "head k d", "V": "head k d", "O": "d head k",
        "bQ": "head k", "bK": "head k", "bV": "head k", "bO": "d", "s1": "d", "c1": "d", "s2": "d", "c2": "d",
        "U": "f d", "bU": "f", "W": "d f", "bW": "d", "s3": "d", "c3": "d", "R": "y d",
    }  # fmt: skip

    def norm(x, gain, bias):
        x = x - jnp.mean(x, -1, keepdims=True)
        return gain * x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-3) + bias

    def model(p, x):
        z = norm(x, p["s1"], p["c1"])
        x = x + p["bO"] + attend([jnp.einsum("td,hkd->thk", z, p[n]) + p[f"b{n}"] for n in "QKV"], p["O"])
        z = norm(x, p["s2"], p["c2"])
        x = x + p["bW"] + jax.nn.gelu(z @ p["U"].T + p["bU"]) @ p["W"].T
        return norm(x, p["s3"], p["c3"]) @ p["R"].T

    behind = {f"b{n}[head,k]": f"b{n}[head,k] - {n}[head,k,d] g[d]" for n in "QKV"}
    claims = [
        S("query key", GL("k", each="head"), {
            **HEADS[0].action, "bQ[head,k]": "g[head,k,l] bQ[head,l]", "bK[head,k]": "inv(g)[head,l,k] bK[head,l]"}),
        S("value output", GL("k", each="head"), {**HEADS[1].action, "bV[head,k]": "g[head,k,l] bV[head,l]"}),
        S("key bias", T("k", each="head"), {"bK": "bK + g"}),
        S("value bias", T("k", each="head"), {"bV": "bV + g", "bO[d]": "bO[d] - O[d,head,k] g[head,k]"}),
        # What is added along the vector of ones, no norm sees.
        S("ones O", T("k", each="head"), {"O[d,head,k]": "O[d,head,k] + g[head,k]"}),
        S("ones bO", T(), {"bO": "bO + g"}),
        S("ones W", T("f"), {"W[d,f]": "W[d,f] + g[f]"}),
        S("ones bW", T(), {"bW": "bW + g"}),
        S("gain 1", qx.Diagonal("d"), {"s1": "g @ s1", "c1": "g @ c1",
            **{f"{n}[head,k,d]": f"{n}[head,k,e] inv(g)[e,d]" for n in "QKV"}}),
        S("gain 2", qx.Diagonal("d"), {"s2": "g @ s2", "c2": "g @ c2", "U": "U @ inv(g)"}),
        S("gain 3", qx.Diagonal("d"), {"s3": "g @ s3", "c3": "g @ c3", "R": "R @ inv(g)"}),
        S("bias 1", T("d"), {"c1": "c1 + g", **behind}),
        S("bias 2", T("d"), {"c2": "c2 + g", "bU": "bU - U @ g"}),
    ]  # fmt: skip
    return params, model, "t d", claims, {"d": d, "head": head, "k": k, "f": f, "t": t, "y": 2}


NETWORKS = {"MLP": relu_mlp, "attention": rms_attention, "encoder": encoder, "wide heads": lambda: encoder(k=8, f=24)}


@cache
def orbit(name: str) -> Orbit:
    """One of the networks, its parameters drawn at random."""
    spec, function, inputs, claims, sizes = NETWORKS[name]()
    network = qx.architecture(params=spec, inputs={"x": inputs})(function)
    sized = network.at(**{axis: sizes[axis] for axis in network.parameter_axes})
    space = qx.quotient(sized, claims, "invariant", verified=certificates(claims))
    rng = np.random.default_rng(0)
    params = {}
    for array in network.params:
        shape = sized.shapes[array.name]
        fan = max(int(np.prod(shape[1:])), 1) if len(shape) > 1 else 10
        params[array.name] = rng.normal(size=shape) / np.sqrt(fan)
    data = rng.normal(size=(8, *[sizes[axis] for axis in inputs.split()]))
    outputs = np.asarray(jax.eval_shape(jax.vmap(function, (None, 0)), params, data).shape)
    targets = rng.normal(size=outputs)

    def loss(p):
        dtype = next(iter(p.values())).dtype
        out = jax.vmap(function, (None, 0))(p, jnp.asarray(data, dtype))
        return jnp.mean((out - jnp.asarray(targets, dtype)) ** 2)

    return Orbit(space, loss, params)
