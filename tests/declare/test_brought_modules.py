"""Modules of Equinox and Flax as their libraries ship them: families, scopes, audits, and moves that change nothing."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx

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
        "MLP": Case(lambda: qx.from_equinox(mlp(5), jnp.ones(4)), ["R+^h0", "R+^h1"], ["S(h0)", "S(h1)"]),
        "MLP with make": Case(
            lambda: qx.from_equinox(mlp(5), jnp.ones(4), make=mlp), ["R+^width"] * 2, ["S(width)"] * 2
        ),
        "MultiheadAttention": Case(
            lambda: qx.from_function(themselves, attention(), jnp.ones((5, 4)), make=attention),
            ["GL(k)^n", "GL(k)^n"], ["S(n)"], scope="every width with x1 = n*k, h0 = n*k",
        ),
        "MultiheadAttention without make": Case(
            lambda: qx.from_function(themselves, attention(), jnp.ones((5, 4))),
            ["GL(h1)^h0", "GL(h2)^h0"], ["S(h0)"], scope="at h0=2",
        ),
        "LayerNorm block": Case(
            lambda: qx.from_equinox(Block(4, 3, KEY), jnp.ones((5, 4))),
            ["R*^x1", "R^x1", "R^h0"], ["S(h0)"], scope="every width of h0, x0 at x1=4",
        ),
        "Conv2d stack": Case(
            lambda: qx.from_equinox(Convs(2, KEY), jnp.ones((1, 4, 4)), make=lambda c: Convs(c, KEY)),
            ["R+^c", "R+^h0"], ["S(c)", "S(h0)"],
            scope="every width of c, h0, y at h1=2, h2=2",
        ),
        "GRUCell": Case(
            lambda: qx.from_equinox(
                recurrent(eqx.nn.GRUCell)(3), jnp.ones((3, 2)), make=recurrent(eqx.nn.GRUCell)
            ), [], ["S(h)", "Z2^h"], scope="widths (h=3, xs1=2, y=2, xs0=3)",
        ),
        "LSTMCell": Case(
            lambda: qx.from_equinox(
                recurrent(eqx.nn.LSTMCell)(3), jnp.ones((3, 2)), make=recurrent(eqx.nn.LSTMCell)
            ), [], ["S(h)", "Z2^h"], scope="widths (h=3, xs1=2, y=2, xs0=3)",
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
    row, image = jnp.ones((3, 4)), jnp.ones((3, 3, 1))
    attention = ["GL(k)^n", "GL(k)^n", "R^k^n", "R^n^k"]
    return {
        "nnx MLP": Case(lambda: qx.from_flax(MLP(5), row), ["R+^h0"], ["S(h0)"]),
        "nnx MLP in bfloat16": Case(
            lambda: qx.from_flax(MLP(5, dtype=jnp.bfloat16), row, make=lambda h: MLP(h, dtype=jnp.bfloat16)),
            ["R+^h"], ["S(h)"],
        ),
        "nnx MultiHeadAttention": Case(
            lambda: qx.from_flax(heads(2, 3), jnp.ones((5, 4)), make=heads), attention, ["S(n)"],
            scope="and widths (n=2, k=3, inputs_q1=4, y=4, inputs_q0=5)",
        ),
        "nnx LayerNorm block": Case(
            lambda: qx.from_flax(Block(4, 3), row, make=lambda D, f: Block(D, f)), ["R*^D", "R^D", "R^f"], ["S(f)"],
            scope="",
        ),
        # running statistics are numbers: a shift of the convolution's bias is one of the norm's, by those numbers
        "nnx BatchNorm + Conv": Case(
            lambda: qx.from_flax(Normalised(2), image), ["R+^h0", "R*^h0"], ["S(h0)"], surplus=2,
            scope="every width of y at h0=2",
        ),
        "linen MLP": Case(
            lambda: trained(LinenMLP(5), row), ["R+^h0"], ["S(h0)"], scope="every width of x1, x0 at h0=5, y=2"
        ),
        "linen MLP with make": Case(
            lambda: trained(LinenMLP(5), row, LinenMLP), ["R+^width"], ["S(width)"], scope="at y=2"
        ),
        "linen LayerNorm block": Case(
            lambda: linen(LinenBlock(3), row, lambda f: LinenBlock(f)), ["R*^x1", "R^x1", "R^f"], ["S(f)"], scope=""
        ),
        "linen BatchNorm + Conv": Case(
            lambda: trained(LinenNormalised(2), image, lambda d: LinenNormalised(d)), ["R+^d", "R*^d"], ["S(d)"],
            surplus=2, scope="widths (d=2, y=2)",
        ),
    }  # fmt: skip


FLAX = (
    "nnx MLP", "nnx MLP in bfloat16", "nnx MultiHeadAttention", "nnx LayerNorm block", "nnx BatchNorm + Conv",
    "linen MLP", "linen MLP with make", "linen LayerNorm block", "linen BatchNorm + Conv",
)  # fmt: skip


def holds(case):
    arch = case.build()
    found = qx.derive(arch)
    assert sorted(str(s.group) for s in found) == sorted(case.families), found
    assert [str(s.group) for s in found.discrete] == case.discrete, found
    assert case.surplus or not found.unproved
    scopes = {c.scope for _, c in (*found.proved, *found.discrete_proved)}
    assert all(scope.endswith(case.scope) for scope in scopes), scopes
    assert found.audit().surplus == case.surplus, found.audit()
    space = qx.quotient(arch, found.families or found.discrete)
    params = arch.parameters
    moved = space.act(params, space.random_element(KEY, 0.3))
    arrays = [jax.random.normal(jax.random.fold_in(KEY, k), e.shape) for k, e in enumerate(arch.origin.examples.arrays)]
    before, after = (jax.tree.leaves(arch(p, *arch.origin.examples.filled(arrays)))[0] for p in (params, moved))
    size = float(np.max(np.abs(np.asarray(before, float))))
    coarse = before.dtype == jnp.bfloat16
    np.testing.assert_allclose(
        np.asarray(after, float), np.asarray(before, float), rtol=0, atol=(0.05 if coarse else 1e-5) * max(size, 1)
    )
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
