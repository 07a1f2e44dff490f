"""Modules of Equinox and Flax as their libraries ship them: families, scopes, audits, and moves that change nothing."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from declare.there_and_back import there_and_back
from quotax import catalogue

pytestmark = pytest.mark.slow
KEY = jax.random.key(0)


@dataclasses.dataclass(frozen=True)
class Case:
    """A module with its inputs, and what has to be found: groups of families, flat directions left, their scope."""

    build: object
    families: list[str]
    discrete: list[str]
    surplus: int = 0
    scope: str = "every width"
    declared: Callable[[], Any] | None = None
    """The same network with named axes: its sizes, and the families that it has."""


# --- the same networks, declared with named axes


def block(p, x):
    """A residual block that a LayerNorm reads."""
    centred = x - x.mean(axis=-1, keepdims=True)
    normal = centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5) * p["s"] + p["b"]
    return x + jax.nn.gelu(normal @ p["U"].T + p["u"]) @ p["D"].T + p["e"]


def convolved(x, kernel, padding):
    """An image `(channels, height, width)` and a kernel `(out, in, 2, 2)`."""
    return jax.lax.conv_general_dilated(x[None], kernel, (1, 1), padding)[0]


def stack(p, x):
    """Two convolutions and a reader."""
    x = jax.nn.relu(convolved(x, p["K"], "VALID") + p["k"][:, None, None])
    x = jax.nn.relu(convolved(x, p["L"], "VALID") + p["l"][:, None, None])
    return jnp.einsum("yoij,oij->y", p["W"], x) + p["w"]


def normalised(p, x):
    """A convolution whose channels are normalised by statistics that are numbers, and one that reads them."""
    x = convolved(x, p["K"], "SAME") + p["k"][:, None, None]
    x = x / jnp.sqrt(1 + 1e-5) * p["s"][:, None, None] + p["b"][:, None, None]
    return convolved(jax.nn.relu(x), p["L"], "SAME") + p["l"][:, None, None]


NETWORKS = {
    "block": (block, {"s": "d", "b": "d", "U": "f d", "u": "f", "D": "d f", "e": "d"}, {"x": "t d"}),
    "stack": (stack, {"K": "c 1 2 2", "k": "c", "L": "o c 2 2", "l": "o", "W": "y o 2 2", "w": "y"}, {"x": "1 4 4"}),
    "normalised": (
        normalised, {"k": "c", "K": "c 1 2 2", "l": "y", "L": "y c 2 2", "b": "c", "s": "c"}, {"x": "1 3 3"}
    ),
}  # fmt: skip


@functools.cache
def derived(name):
    """The families of a network above."""
    function, params, inputs = NETWORKS[name]
    found = qx.derive(qx.architecture(params=params, inputs=inputs)(function), progress=lambda line: None)
    return *found, *found.discrete


def declared(name, **sizes):
    """A network above, at these sizes."""
    return lambda: (sizes, derived(name))


def catalogued(name, **sizes):
    """The families that an entry of the catalogue must have, at these sizes."""
    entry = catalogue.load(name)
    return lambda: (sizes, (*entry.families, *entry.discrete))


SHALLOW = catalogued("mlp/relu", x=4, h=5, y=2)
DEEP = catalogued("deep_mlp", x=4, h=5, k=5, y=2)
ATTENTION = catalogued("multi_head", head=2, k=2, d=4)
BIASED = catalogued("multi_head/biases", head=2, k=3, d=4)
BLOCK = declared("block", d=4, f=3)
STACK = declared("stack", c=2, o=2, y=2)
NORMALISED = declared("normalised", c=2, y=2)
GRU, LSTM = (catalogued(name, x=2, h=3, y=2) for name in ("gru", "lstm/out_bias"))

# --- Equinox


def equinox_cases():
    eqx = pytest.importorskip("equinox")

    class Convs(eqx.Module):
        layers: list

        def __init__(self, channels, key):
            k1, k2, k3 = jax.random.split(key, 3)
            first, second = eqx.nn.Conv2d(1, channels, 2, key=k1), eqx.nn.Conv2d(channels, 2, 2, key=k2)
            last = eqx.nn.Linear(8, 2, key=k3)
            self.layers = [first, jax.nn.relu, second, jax.nn.relu, jnp.ravel, last]

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    class Block(eqx.Module):
        norm: eqx.nn.LayerNorm
        up: eqx.nn.Linear
        down: eqx.nn.Linear
        dropout: eqx.nn.Dropout

        def __init__(self, width, inner, key):
            k1, k2 = jax.random.split(key)
            self.norm, self.dropout = eqx.nn.LayerNorm(width), eqx.nn.Dropout(0.1)
            self.up, self.down = eqx.nn.Linear(width, inner, key=k1), eqx.nn.Linear(inner, width, key=k2)

        def __call__(self, x, key=None):
            hidden = jax.nn.gelu(jax.vmap(self.up)(jax.vmap(self.norm)(x)))
            return x + self.dropout(jax.vmap(self.down)(hidden), key=key)

    class Recurrent(eqx.Module):
        cell: eqx.Module
        out: eqx.nn.Linear

        def __init__(self, cell, hidden, key):
            k1, k2 = jax.random.split(key)
            self.cell, self.out = cell(2, hidden, key=k1), eqx.nn.Linear(hidden, 2, key=k2)

        def __call__(self, xs):
            zero = jnp.zeros(self.cell.hidden_size)
            start = (zero, zero) if isinstance(self.cell, eqx.nn.LSTMCell) else zero
            end, _ = jax.lax.scan(lambda state, x: (self.cell(x, state), None), start, xs)
            return self.out(jax.tree.leaves(end)[0])

    mlp = lambda width, depth=2: eqx.nn.MLP(4, 2, width, depth, key=KEY)
    attention = lambda n=2, k=2: eqx.nn.MultiheadAttention(n, n * k, use_query_bias=True, dropout_p=0.1, key=KEY)
    themselves = lambda module, x: eqx.nn.inference_mode(module)(x, x, x)
    recurrent = lambda cell: lambda h: Recurrent(cell, h, KEY)
    return {
        "MLP": Case(
            lambda: qx.from_equinox(mlp(5), jnp.ones(4)), ["R+^h0", "R+^h1"], ["S(h0)", "S(h1)"], declared=DEEP
        ),
        "MLP with make": Case(
            lambda: qx.from_equinox(mlp(5), jnp.ones(4), make=mlp), ["R+^width"] * 2, ["S(width)"] * 2, declared=DEEP,
        ),
        "MultiheadAttention": Case(
            lambda: qx.from_function(themselves, attention(), jnp.ones((5, 4)), make=attention),
            ["GL(k)^n", "GL(k)^n"], ["S(n)"], scope="every width with x1 = n*k, h0 = n*k", declared=ATTENTION,
        ),
        "MultiheadAttention without make": Case(
            lambda: qx.from_function(themselves, attention(), jnp.ones((5, 4))),
            ["GL(h1)^h0", "GL(h2)^h0"], ["S(h0)"], scope="at h0=2", declared=ATTENTION,
        ),
        "LayerNorm block": Case(
            lambda: qx.from_equinox(Block(4, 3, KEY), jnp.ones((5, 4))),
            ["R*^x1", "R^x1", "R^h0"], ["S(h0)"], scope="every width of h0, x0 at x1=4", declared=BLOCK,
        ),
        "Conv2d stack": Case(
            lambda: qx.from_equinox(Convs(2, KEY), jnp.ones((1, 4, 4)), make=lambda c: Convs(c, KEY)),
            ["R+^c", "R+^h0"], ["S(c)", "S(h0)"],
            scope="every width of c, h0, y at h1=2, h2=2", declared=STACK,
        ),
        "GRUCell": Case(
            lambda: qx.from_equinox(
                recurrent(eqx.nn.GRUCell)(3), jnp.ones((3, 2)), make=recurrent(eqx.nn.GRUCell)
            ), [], ["S(h)", "Z2^h"], scope="widths (h=3, xs1=2, y=2, xs0=3)", declared=GRU,
        ),
        "LSTMCell": Case(
            lambda: qx.from_equinox(
                recurrent(eqx.nn.LSTMCell)(3), jnp.ones((3, 2)), make=recurrent(eqx.nn.LSTMCell)
            ), [], ["S(h)", "Z2^h"], scope="", declared=LSTM,
        ),
    }  # fmt: skip


EQUINOX = (
    "MLP", "MLP with make", "MultiheadAttention", "MultiheadAttention without make", "LayerNorm block", "Conv2d stack",
    "GRUCell", "LSTMCell",
)  # fmt: skip


# --- Flax


def flax_cases():
    pytest.importorskip("flax")
    import flax.linen as nn
    from flax import nnx

    class MLP(nnx.Module):
        def __init__(self, width, *, dtype=None):
            rngs = nnx.Rngs(0)
            self.first, self.dropout = nnx.Linear(4, width, dtype=dtype, rngs=rngs), nnx.Dropout(0.5, rngs=rngs)
            self.last = nnx.Linear(width, 2, dtype=dtype, rngs=rngs)

        def __call__(self, x):
            return self.last(self.dropout(nnx.relu(self.first(x))))

    class Block(nnx.Module):
        def __init__(self, width, inner):
            rngs = nnx.Rngs(0)
            self.norm = nnx.LayerNorm(width, rngs=rngs)
            self.up, self.down = nnx.Linear(width, inner, rngs=rngs), nnx.Linear(inner, width, rngs=rngs)

        def __call__(self, x):
            return x + self.down(nnx.gelu(self.up(self.norm(x))))

    class Normalised(nnx.Module):
        def __init__(self, channels):
            rngs = nnx.Rngs(0)
            self.first, self.norm = nnx.Conv(1, channels, (2, 2), rngs=rngs), nnx.BatchNorm(channels, rngs=rngs)
            self.last = nnx.Conv(channels, 2, (2, 2), rngs=rngs)

        def __call__(self, x):
            return self.last(nnx.relu(self.norm(self.first(x))))

    class LinenMLP(nn.Module):
        width: int

        @nn.compact
        def __call__(self, x, train: bool):
            x = nn.Dropout(0.5, deterministic=not train)(nn.relu(nn.Dense(self.width)(x)))
            return nn.Dense(2)(x)

    class LinenBlock(nn.Module):
        inner: int

        @nn.compact
        def __call__(self, x):
            return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(self.inner)(nn.LayerNorm()(x))))

    class LinenNormalised(nn.Module):
        channels: int

        @nn.compact
        def __call__(self, x, train: bool):
            x = nn.BatchNorm(use_running_average=not train)(nn.Conv(self.channels, (2, 2))(x))
            return nn.Conv(2, (2, 2))(nn.relu(x))

    def linen(module, x, make=None):
        return qx.from_flax(module, module.init(KEY, x, *([False] if hasattr(module, "train") else [])), x, make=make)

    def trained(module, x, make=None):
        return qx.from_flax(module, module.init(KEY, x, train=False), x, make=make)

    heads = lambda n, k: nnx.MultiHeadAttention(
        num_heads=n, in_features=4, qkv_features=n * k, rngs=nnx.Rngs(0), decode=False
    )
    linen_heads = lambda n, k: nn.MultiHeadDotProductAttention(num_heads=n, qkv_features=n * k)
    row, image = jnp.ones((3, 4)), jnp.ones((3, 3, 1))
    attention = ["GL(k)^n", "GL(k)^n", "R^k^n", "R^n^k"]
    return {
        "nnx MLP": Case(lambda: qx.from_flax(MLP(5), row), ["R+^h0"], ["S(h0)"], declared=SHALLOW),
        "nnx MLP in bfloat16": Case(
            lambda: qx.from_flax(MLP(5, dtype=jnp.bfloat16), row, make=lambda h: MLP(h, dtype=jnp.bfloat16)),
            ["R+^h"], ["S(h)"], declared=SHALLOW,
        ),
        "nnx MultiHeadAttention": Case(
            lambda: qx.from_flax(heads(2, 3), jnp.ones((5, 4)), make=heads), attention, ["S(n)"],
            scope="and widths (n=2, k=3, inputs_q1=4, y=4, inputs_q0=5)", declared=BIASED,
        ),
        "nnx LayerNorm block": Case(
            lambda: qx.from_flax(Block(4, 3), row, make=lambda D, f: Block(D, f)), ["R*^D", "R^D", "R^f"], ["S(f)"],
            scope="", declared=BLOCK,
        ),
        # running statistics are numbers: a shift of the convolution's bias is one of the norm's, by those numbers
        "nnx BatchNorm + Conv": Case(
            lambda: qx.from_flax(Normalised(2), image), ["R+^h0", "R*^h0", "R^h0"], ["S(h0)"],
            scope="every width of y at h0=2", declared=NORMALISED,
        ),
        "linen MLP": Case(
            lambda: trained(LinenMLP(5), row), ["R+^h0"], ["S(h0)"], scope="every width of x1, x0 at h0=5, y=2",
            declared=SHALLOW,
        ),
        "linen MLP with make": Case(
            lambda: trained(LinenMLP(5), row, LinenMLP), ["R+^width"], ["S(width)"], scope="at y=2", declared=SHALLOW,
        ),
        "linen MultiHeadAttention": Case(
            lambda: linen(linen_heads(2, 3), jnp.ones((5, 4)), linen_heads), attention, ["S(n)"], scope="",
            declared=BIASED,
        ),
        "linen LayerNorm block": Case(
            lambda: linen(LinenBlock(3), row, lambda f: LinenBlock(f)), ["R*^x1", "R^x1", "R^f"], ["S(f)"], scope="",
            declared=BLOCK,
        ),
        "linen BatchNorm + Conv": Case(
            lambda: trained(LinenNormalised(2), image, lambda d: LinenNormalised(d)), ["R+^d", "R*^d", "R^d"], ["S(d)"],
            scope="widths (d=2, y=2)", declared=NORMALISED,
        ),
    }  # fmt: skip


FLAX = (
    "nnx MLP", "nnx MLP in bfloat16", "nnx MultiHeadAttention", "nnx LayerNorm block", "nnx BatchNorm + Conv",
    "linen MLP", "linen MLP with make", "linen MultiHeadAttention", "linen LayerNorm block", "linen BatchNorm + Conv",
)  # fmt: skip


def dimensions(sizes, families):
    """Of every family its kind of group and its dimension, or how much it permutes: names of axes are left out."""
    groups = [family.group for family in families]
    return sorted((type(g).__name__, g.dimension(sizes) or g.copies(sizes) * sizes[g.axis]) for g in groups)


def holds(case):
    arch = case.build()
    found = qx.derive(arch)
    assert sorted(str(s.group) for s in found) == sorted(case.families), found
    assert [str(s.group) for s in found.discrete] == case.discrete, found
    assert case.surplus or not found.unproved
    scopes = {c.scope for _, c in (*found.proved, *found.discrete_proved)}
    assert all(scope.endswith(case.scope) for scope in scopes), scopes
    assert found.audit().surplus == case.surplus, found.audit()
    arrays = [jax.random.normal(jax.random.fold_in(KEY, k), e.shape) for k, e in enumerate(arch.origin.examples.arrays)]
    inputs = arch.origin.examples.filled(arrays)
    coarse = jax.tree.leaves(arch(arch.parameters, *inputs))[0].dtype == jnp.bfloat16
    there_and_back(arch, found, inputs, digits=0.05 if coarse else 1e-5, changes=not coarse)
    if case.declared is not None:
        assert dimensions(arch.own, (*found, *found.discrete)) == dimensions(*case.declared())
    return arch, found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EQUINOX)
def test_equinox(name):
    holds(equinox_cases()[name])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FLAX)
def test_flax(name):
    holds(flax_cases()[name])


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_is_moved_is_a_module():
    eqx = pytest.importorskip("equinox")
    module, x = eqx.nn.MLP(3, 2, 4, 1, key=KEY), jnp.ones(3)
    arch = qx.from_equinox(module, x)
    space = qx.quotient(arch, qx.derive(arch), metric="invariant")
    moved = space.act(module, space.random_element(KEY))
    assert isinstance(moved, eqx.nn.MLP)
    np.testing.assert_allclose(moved(x), module(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(space.canonical(module).params(x), module(x), rtol=1e-5, atol=1e-5)
    assert space.align(moved, module)(x).shape == (2,)
    gradient = eqx.filter_grad(lambda m: jnp.sum(m(x) ** 2))(module)
    assert jax.tree.structure(space.horizontal(module, gradient)) == jax.tree.structure(gradient)
    with pytest.raises(qx.ArchitectureError, match="computes something else"):
        qx.from_equinox(module, x, make=lambda h: eqx.nn.MLP(3, 2, h, 1, activation=jnp.tanh, key=KEY))


def test_the_ten_lines_of_a_newcomer():
    """Those of docs/your_model.md, as they stand there."""
    pytest.importorskip("equinox")
    page = (Path(__file__).parents[2] / "docs" / "your_model.md").read_text()
    code, told = page.partition("```py\n")[2].partition("```")[0], {}
    assert len(code.strip().splitlines()) == 10
    exec(code, told)
    found = told["found"]
    assert [found.certificate(s.name).scope for s in (*found, *found.discrete)] == ["every width"] * 4
    assert told["space"].metric_certificate
    assert told["result"].invariant
