"""Models with symmetries that they have (`TRUE`) and do not have (`FALSE`): one table for tests and benchmarks.

Each row: (name, architecture, symmetry). The rows follow the table of blocks in the project's mathematics; a false row
differs from a true one in one thing.
"""

import jax
import jax.numpy as jnp

import quotax as qx

S = qx.Symmetry
POS, GL, DIAG, PERM, FLIP, SHIFT = qx.PositiveDiagonal, qx.GL, qx.Diagonal, qx.Permutation, qx.SignFlip, qx.Translation

TRUE = []
FALSE = []


def true(name, model, group, action):
    TRUE.append((name, model, S(name.replace(" ", "_"), group, action)))


def false(name, model, group, action):
    FALSE.append((name, model, S(name.replace(" ", "_"), group, action)))


def mlp(activation, bias=True):
    params = {"W1": "h x", "W2": "y h"} | ({"b1": "h", "b2": "y"} if bias else {})

    @qx.architecture(params=params, inputs={"x": "x"})
    def net(p, x):
        z = p["W1"] @ x + (p["b1"] if bias else 0.0)
        return p["W2"] @ activation(z) + (p["b2"] if bias else 0.0)

    return net


SCALE = {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}
PERMUTE = {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g.T"}

# --- linear, ReLU and its relatives

linear = mlp(lambda z: z, bias=False)
affine = mlp(lambda z: z)
true("linear GL", linear, GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
false("linear GL without the inverse", linear, GL("h"), {"W1": "g @ W1", "W2": "W2 @ g"})
false("linear GL transposed", linear, GL("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
true("linear O", linear, qx.O("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
true("affine GL", affine, GL("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"})
false("affine GL without the bias", affine, GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
true("affine shift", affine, SHIFT("h"), {"b1": "b1 + g", "b2": "b2 - W2 @ g"})
false("affine shift with a wrong sign", affine, SHIFT("h"), {"b1": "b1 + g", "b2": "b2 + W2 @ g"})

ACTIVATIONS = {
    "ReLU": jax.nn.relu,
    "leaky ReLU": jax.nn.leaky_relu,
    "abs": jnp.abs,
    "where": lambda z: jnp.where(z > 0, z, 0.0),
    "root of square": lambda z: jnp.sqrt(z * z),
}
for label, activation in ACTIVATIONS.items():
    true(f"{label} scaling", mlp(activation), POS("h"), SCALE)
    true(f"{label} permutation", mlp(activation), PERM("h"), PERMUTE)
true("ReLU squared scaling", mlp(lambda z: jax.nn.relu(z) ** 2), POS("h"), SCALE | {"W2": "W2 @ inv(g)**2"})


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
def normalised(p, x):
    rows = p["W1"] / jnp.linalg.norm(p["W1"], axis=1, keepdims=True)
    return p["W2"] @ jax.nn.leaky_relu(rows @ x + p["b1"])


true("leaky ReLU of normalised rows permutation", normalised, PERM("h"), PERMUTE)
false("leaky ReLU of normalised rows scaling", normalised, POS("h"), SCALE)
relu = mlp(jax.nn.relu)
false("ReLU scaling without the bias", relu, POS("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
false("ReLU scaling without the inverse", relu, POS("h"), SCALE | {"W2": "W2 @ g"})
false("ReLU scaling of either sign", relu, DIAG("h"), SCALE)
false("ReLU GL", relu, GL("h"), SCALE)
false("ReLU O", relu, qx.O("h"), PERMUTE)
false("ReLU permutation of one side", relu, PERM("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g"})
false("ReLU flips", relu, FLIP("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g"})
false("ReLU squared with the first power", mlp(lambda z: jax.nn.relu(z) ** 2), POS("h"), SCALE)
false("tanh scaling", mlp(jnp.tanh), POS("h"), SCALE)
false("GELU scaling", mlp(jax.nn.gelu), POS("h"), SCALE)
false("softplus scaling", mlp(jax.nn.softplus), POS("h"), SCALE)
false("shifted ReLU scaling", mlp(lambda z: jax.nn.relu(z - 1)), POS("h"), SCALE)

# --- flips

FLIPPED = {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ g"}
for label, activation in {"tanh": jnp.tanh, "sin": jnp.sin, "erf": jax.scipy.special.erf}.items():
    true(f"{label} flips", mlp(activation), FLIP("h"), FLIPPED)
    true(f"{label} permutation", mlp(activation), PERM("h"), PERMUTE)
true("abs flips", mlp(jnp.abs), FLIP("h"), {"W1": "g @ W1", "b1": "g @ b1"})
true("square flips", mlp(jnp.square), FLIP("h"), {"W1": "g @ W1", "b1": "g @ b1"})
true("sigmoid flips", mlp(jax.nn.sigmoid), FLIP("h"), FLIPPED | {"b2": "b2 + 0.5 * W2 @ (1 - g)"})
false("sigmoid flips without the output bias", mlp(jax.nn.sigmoid), FLIP("h"), FLIPPED)
false("cosine flips both sides", mlp(jnp.cos), FLIP("h"), FLIPPED)
false("GELU flips", mlp(jax.nn.gelu), FLIP("h"), FLIPPED)

# --- exponential, powers, logarithm

true("exp with a bias", mlp(jnp.exp), SHIFT("h"), {"b1": "b1 + g", "W2[y,h]": "W2[y,h] exp(-g[h])"})
false("exp with a wrong sign", mlp(jnp.exp), SHIFT("h"), {"b1": "b1 + g", "W2[y,h]": "W2[y,h] exp(g[h])"})
square, cube = mlp(jnp.square, bias=False), mlp(lambda z: z**3, bias=False)
true("square scaling", square, DIAG("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)**2"})
true("cube scaling", cube, DIAG("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)**3"})
false("cube scaling with a square", cube, DIAG("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)**2"})

# --- softmax head, products, tied weights


@qx.architecture(params={"W": "y x", "b": "y"}, inputs={"x": "x"})
def head(p, x):
    return jax.nn.softmax(p["W"] @ x + p["b"])


@qx.architecture(params={"W": "y x", "b": "y"}, inputs={"x": "x"})
def log_head(p, x):
    return jax.nn.log_softmax(p["W"] @ x + p["b"])


@qx.architecture(params={"W": "y x", "b": "y"}, inputs={"x": "x"})
def bare_head(p, x):
    e = jnp.exp(p["W"] @ x + p["b"])
    return e / jnp.sum(e)


for label, model in {"softmax": head, "log softmax": log_head, "hand-written softmax": bare_head}.items():
    true(f"{label} rows", model, SHIFT("x"), {"W[y,x]": "W[y,x] + g[x]"})
    true(f"{label} bias", model, SHIFT(), {"b": "b + g"})
false("softmax columns", head, SHIFT("y"), {"W[y,x]": "W[y,x] + g[y]"})
false("softmax bias by entry", head, SHIFT("y"), {"b": "b + g"})
false("sigmoid rows", mlp(jax.nn.sigmoid), SHIFT("x"), {"W1[h,x]": "W1[h,x] + g[x]"})


@qx.architecture(params={"u": "d", "v": "d"}, inputs={"x": "d"})
def diagonal(p, x):
    return jnp.sum(p["u"] * p["v"] * x)


true("u times v", diagonal, DIAG("d"), {"u": "g * u", "v": "v / g"})
false("u times v without the inverse", diagonal, DIAG("d"), {"u": "g * u", "v": "g * v"})


@qx.architecture(params={"u": "d", "v": "d"}, inputs={"x": "d"})
def difference_of_squares(p, x):
    return jnp.sum((p["u"] ** 2 - p["v"] ** 2) * x)


COSH, SINH = "(exp(g[d]) + exp(-g[d])) / 2", "(exp(g[d]) - exp(-g[d])) / 2"
BOOST = {"u[d]": f"{COSH} * u[d] + {SINH} * v[d]", "v[d]": f"{COSH} * v[d] + {SINH} * u[d]"}
true("hyperbolic rotation", difference_of_squares, SHIFT("d"), BOOST)
false(
    "hyperbolic rotation with a wrong sign", difference_of_squares, SHIFT("d"),
    BOOST | {"v[d]": f"{COSH} * v[d] - {SINH} * u[d]"},
)  # fmt: skip
false("hyperbolic rotation of one side", difference_of_squares, SHIFT("d"), {"u[d]": BOOST["u[d]"]})


@qx.architecture(params={"W1": "h 1", "W2": "1 h"}, inputs={"x": "1"})
def scalar_linear(p, x):
    return p["W2"] @ (p["W1"] @ x)


# O(h,h) keeps the pairing of the two vectors: GL(h) is inside it, and the rest is a field, among `TRUE_FIELDS`.
true("scalar linear GL", scalar_linear, GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
false("scalar linear GL without the inverse", scalar_linear, GL("h"), {"W1": "g @ W1", "W2": "W2 @ g"})


@qx.architecture(params={"W": "h x"}, inputs={"x": "x"})
def tied(p, x):
    return p["W"].T @ (p["W"] @ x)


true("tied O", tied, qx.O("h"), {"W": "g @ W"})
false("tied GL", tied, GL("h"), {"W": "g @ W"})
false("tied scaling", tied, POS("h"), {"W": "g @ W"})

# --- normalisation


def batch_norm(eps):
    @qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "n x"})
    def net(p, x):
        z = x @ p["W"].T + p["b"]
        return (z - z.mean(0)) / jnp.sqrt(z.var(0) + eps)

    return net


true("batch norm scale", batch_norm(0.0), POS("h"), {"W": "g @ W", "b": "g @ b"})
true("batch norm shift", batch_norm(1e-5), SHIFT("h"), {"b": "b + g"})
false("batch norm scale with epsilon", batch_norm(1e-2), POS("h"), {"W": "g @ W", "b": "g @ b"})


def layer_norm(eps):
    @qx.architecture(params={"W": "h x", "b": "h"}, inputs={"x": "x"})
    def net(p, x):
        z = p["W"] @ x + p["b"]
        return (z - z.mean()) * jax.lax.rsqrt(jnp.mean(z**2) - jnp.mean(z) ** 2 + eps)

    return net


true("layer norm rows", layer_norm(1e-5), SHIFT("x"), {"W[h,x]": "W[h,x] + g[x]"})
true("layer norm bias", layer_norm(1e-5), SHIFT(), {"b": "b + g"})
true("layer norm scale", layer_norm(0.0), qx.PositiveScalar(), {"W": "g * W", "b": "g * b"})
false("layer norm scale with epsilon", layer_norm(1e-2), qx.PositiveScalar(), {"W": "g * W", "b": "g * b"})
false("layer norm columns", layer_norm(0.0), SHIFT("h"), {"b": "b + g"})


def rms_norm(eps):
    @qx.architecture(params={"W": "h x", "A": "y h"}, inputs={"x": "x"})
    def net(p, x):
        z = p["W"] @ x
        return p["A"] @ (z / jnp.sqrt(jnp.mean(z**2) + eps))

    return net


true("RMS norm O", rms_norm(1e-5), qx.O("h"), {"W": "g @ W", "A": "A @ g.T"})
true("RMS norm scale", rms_norm(0.0), qx.PositiveScalar(), {"W": "g * W"})
false("RMS norm GL", rms_norm(0.0), GL("h"), {"W": "g @ W", "A": "A @ inv(g)"})
false("RMS norm scale with epsilon", rms_norm(1e-2), qx.PositiveScalar(), {"W": "g * W"})

# --- gates


def glu(gate):
    @qx.architecture(params={"G": "h x", "U": "h x", "D": "y h"}, inputs={"x": "x"})
    def net(p, x):
        return p["D"] @ (gate(p["G"] @ x) * (p["U"] @ x))

    return net


for label, gate in {"SwiGLU": jax.nn.silu, "GEGLU": jax.nn.gelu}.items():
    true(f"{label} linear branch", glu(gate), DIAG("h"), {"U": "g @ U", "D": "D @ inv(g)"})
    false(f"{label} gate", glu(gate), POS("h"), {"G": "g @ G", "D": "D @ inv(g)"})
true("ReGLU gate", glu(jax.nn.relu), POS("h"), {"G": "g @ G", "D": "D @ inv(g)"})
false("ReGLU gate of either sign", glu(jax.nn.relu), DIAG("h"), {"G": "g @ G", "D": "D @ inv(g)"})
true("bilinear gate", glu(lambda z: z), DIAG("h"), {"G": "g @ G", "U": "U", "D": "D @ inv(g)"})
false("SwiGLU GL", glu(jax.nn.silu), GL("h"), {"U": "g @ U", "D": "D @ inv(g)"})

# --- low rank, convolutions


@qx.architecture(params={"W0": "y x", "B": "y r", "A": "r x"}, inputs={"x": "x"})
def lora(p, x):
    return p["W0"] @ x + p["B"] @ (p["A"] @ x)


true("LoRA GL", lora, GL("r"), {"A": "g @ A", "B": "B @ inv(g)"})
false("LoRA GL transposed", lora, GL("r"), {"A": "g @ A", "B": "B @ inv(g).T"})


def conv(x, k, padding="SAME"):
    return jax.lax.conv_general_dilated(x, k, (1, 1), padding, dimension_numbers=("NCHW", "OIHW", "NCHW"))


@qx.architecture(params={"K1": "c a 3 3", "K2": "b c 3 3"}, inputs={"x": "n a 5 5"})
def conv_relu(p, x):
    return conv(jax.nn.relu(conv(x, p["K1"])), p["K2"], "VALID")


@qx.architecture(params={"K1": "c a 3 3", "K2": "b c 3 3"}, inputs={"x": "n a 5 5"})
def conv_linear(p, x):
    return conv(conv(x, p["K1"]), p["K2"])


@qx.architecture(params={"K1": "c a 3 3", "s": "c", "K2": "b c 3 3"}, inputs={"x": "n a 5 5"})
def conv_norm(p, x):
    z = conv(x, p["K1"])
    z = (z - z.mean((0, 2, 3), keepdims=True)) / z.std((0, 2, 3), keepdims=True)
    return conv(jax.nn.relu(p["s"][:, None, None] * z), p["K2"])


KERNELS = {"K1[c,a,i,j]": "g[c] K1[c,a,i,j]", "K2[b,c,i,j]": "K2[b,c,i,j] / g[c]"}
true("conv ReLU scaling", conv_relu, POS("c"), KERNELS)
false("conv ReLU scaling of either sign", conv_relu, DIAG("c"), KERNELS)
true("conv GL", conv_linear, GL("c"), {"K1[c,a,i,j]": "g[c,d] K1[d,a,i,j]", "K2[b,c,i,j]": "K2[b,d,i,j] inv(g)[d,c]"})
false(
    "conv ReLU GL", conv_relu, GL("c"), {"K1[c,a,i,j]": "g[c,d] K1[d,a,i,j]", "K2[b,c,i,j]": "K2[b,d,i,j] inv(g)[d,c]"}
)
true("conv batch norm before", conv_norm, POS("c"), {"K1[c,a,i,j]": "g[c] K1[c,a,i,j]"})
true("conv batch norm after", conv_norm, POS("c"), {"s": "g * s", "K2[b,c,i,j]": "K2[b,c,i,j] / g[c]"})
false("conv batch norm after, either sign", conv_norm, DIAG("c"), {"s": "g * s", "K2[b,c,i,j]": "K2[b,c,i,j] / g[c]"})

# --- recurrent


def rnn(activation):
    @qx.architecture(params={"U": "h x", "W": "h h", "b": "h", "V": "y h"}, inputs={"x": "t x"})
    def net(p, x):
        def step(h, now):
            h = activation(p["W"] @ h + p["U"] @ now + p["b"])
            return h, h

        last, _ = jax.lax.scan(step, jnp.zeros(p["b"].shape), x)
        return p["V"] @ last

    return net


RECURRENT = {"U": "g @ U", "W": "g @ W @ inv(g)", "b": "g @ b", "V": "V @ inv(g)"}
true("ReLU RNN", rnn(jax.nn.relu), POS("h"), RECURRENT)
false("tanh RNN", rnn(jnp.tanh), POS("h"), RECURRENT)
true("tanh RNN flips", rnn(jnp.tanh), FLIP("h"), {"U": "g @ U", "W": "g @ W @ g", "b": "g @ b", "V": "V @ g"})
true("tanh RNN permutation", rnn(jnp.tanh), PERM("h"), {"U": "g @ U", "W": "g @ W @ g.T", "b": "g @ b", "V": "V @ g.T"})
false("ReLU RNN one-sided", rnn(jax.nn.relu), POS("h"), RECURRENT | {"W": "g @ W"})


@qx.architecture(params={"A": "n n", "B": "n x", "C": "y n"}, inputs={"u": "t x"})
def state_space(p, u):
    def step(s, now):
        s = p["A"] @ s + p["B"] @ now
        return s, p["C"] @ s

    return jax.lax.scan(step, jnp.zeros(p["A"].shape[0]), u)[1]


@qx.architecture(params={"a": "n", "B": "n x", "C": "y n"}, inputs={"u": "t x"})
def diagonal_state(p, u):
    def step(s, now):
        s = p["a"] * s + p["B"] @ now
        return s, p["C"] @ s

    return jax.lax.scan(step, jnp.zeros(p["a"].shape), u)[1]


true("state space GL", state_space, GL("n"), {"A": "g @ A @ inv(g)", "B": "g @ B", "C": "C @ inv(g)"})
false("state space without C", state_space, GL("n"), {"A": "g @ A @ inv(g)", "B": "g @ B"})
false("state space one-sided", state_space, GL("n"), {"A": "g @ A", "B": "g @ B", "C": "C @ inv(g)"})
true("diagonal state space", diagonal_state, DIAG("n"), {"B": "g @ B", "C": "C @ inv(g)"})
false("diagonal state space GL", diagonal_state, GL("n"), {"B": "g @ B", "C": "C @ inv(g)"})

# --- attention

ATTENTION = {
    "Wq": "head x k", "Wk": "head x k", "Wv": "head x v", "Wo": "head v y",
    "bq": "head k", "bk": "head k", "bv": "head v", "bo": "y",
}  # fmt: skip


@qx.architecture(params=ATTENTION, inputs={"x": "t x"})
def attention(p, x):
    q = jnp.einsum("tx,hxk->htk", x, p["Wq"]) + p["bq"][:, None]
    k = jnp.einsum("tx,hxk->htk", x, p["Wk"]) + p["bk"][:, None]
    v = jnp.einsum("tx,hxk->htk", x, p["Wv"]) + p["bv"][:, None]
    scores = jnp.einsum("htk,hsk->hts", q, k) / jnp.sqrt(q.shape[-1])
    causal = jnp.tril(jnp.ones((x.shape[0], x.shape[0]), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
    return jnp.einsum("hts,hsv,hvy->ty", weights, v, p["Wo"]) + p["bo"]


QK = {
    "Wq[head,x,k]": "Wq[head,x,l] g[head,l,k]", "bq[head,k]": "bq[head,l] g[head,l,k]",
    "Wk[head,x,k]": "inv(g)[head,k,l] Wk[head,x,l]", "bk[head,k]": "inv(g)[head,k,l] bk[head,l]",
}  # fmt: skip
VO = {
    "Wv[head,x,v]": "Wv[head,x,l] g[head,l,v]", "bv[head,v]": "bv[head,l] g[head,l,v]",
    "Wo[head,v,y]": "inv(g)[head,v,l] Wo[head,l,y]",
}  # fmt: skip
true("attention queries and keys", attention, GL("k", each="head"), QK)
true("attention values and output", attention, GL("v", each="head"), VO)
true("attention key bias", attention, SHIFT("k", each="head"), {"bk[head,k]": "bk[head,k] + g[head,k]"})
true(
    "attention value bias", attention, SHIFT("v", each="head"),
    {"bv[head,v]": "bv[head,v] + g[head,v]", "bo[y]": "bo[y] - Wo[head,v,y] g[head,v]"},
)  # fmt: skip
ORDER = {
    "Wq[head,x,k]": "g[head,a] Wq[a,x,k]", "Wk[head,x,k]": "g[head,a] Wk[a,x,k]",
    "Wv[head,x,v]": "g[head,a] Wv[a,x,v]",
    "Wo[head,v,y]": "g[head,a] Wo[a,v,y]", "bq[head,k]": "g[head,a] bq[a,k]", "bk[head,k]": "g[head,a] bk[a,k]",
    "bv[head,v]": "g[head,a] bv[a,v]",
}  # fmt: skip
true("attention heads", attention, PERM("head"), ORDER)
# the keys' bias adds the same to all scores of a query, and may stay where it is
for label, group, action in (("queries and keys", GL("k", each="head"), QK), ("heads", PERM("head"), ORDER)):
    true(
        f"attention {label} but for the keys' bias",
        attention,
        group,
        {k: v for k, v in action.items() if "bk" not in k},
    )
false(
    "attention heads but for the queries' bias",
    attention,
    PERM("head"),
    {k: v for k, v in ORDER.items() if "bq" not in k},
)
false(
    "attention without the query bias", attention, GL("k", each="head"), {k: v for k, v in QK.items() if "bq" not in k}
)
false(
    "attention transposed keys", attention, GL("k", each="head"), QK | {"Wk[head,x,k]": "inv(g)[head,l,k] Wk[head,x,l]"}
)
false("attention query bias", attention, SHIFT("k", each="head"), {"bq[head,k]": "bq[head,k] + g[head,k]"})
false("attention value bias alone", attention, SHIFT("v", each="head"), {"bv[head,v]": "bv[head,v] + g[head,v]"})
false(
    "attention values without the bias", attention, GL("v", each="head"), {k: v for k, v in VO.items() if "bv" not in k}
)


@qx.architecture(params={"Wq": "kv r x k", "Wk": "kv x k", "Wv": "kv x v", "Wo": "kv r v y"}, inputs={"x": "t x"})
def grouped(p, x):
    q = jnp.einsum("tx,grxk->tgrk", x, p["Wq"])
    k, v = jnp.einsum("tx,gxk->tgk", x, p["Wk"]), jnp.einsum("tx,gxk->tgk", x, p["Wv"])
    weights = jax.nn.softmax(jnp.einsum("tgrk,sgk->grts", q, k), -1)
    o = jnp.einsum("grts,sgv->tgrv", weights, v)
    return jnp.einsum("tgrv,grvy->ty", o, p["Wo"])


true(
    "grouped queries", grouped, GL("k", each="kv"),
    {"Wq[kv,r,x,k]": "Wq[kv,r,x,l] g[kv,l,k]", "Wk[kv,x,k]": "inv(g)[kv,k,l] Wk[kv,x,l]"},
)  # fmt: skip
true(
    "grouped values", grouped, GL("v", each="kv"),
    {"Wv[kv,x,v]": "Wv[kv,x,l] g[kv,l,v]", "Wo[kv,r,v,y]": "inv(g)[kv,v,l] Wo[kv,r,l,y]"},
)  # fmt: skip
false(
    "grouped queries by query head", grouped, GL("k", each="r"),
    {"Wq[kv,r,x,k]": "Wq[kv,r,x,l] g[r,l,k]"},
)  # fmt: skip


def rotated(z, layout):
    t, k = z.shape[-2:]
    angles = jnp.arange(t)[:, None] * (0.7 ** jnp.arange(k // 2))[None]
    c, s = jnp.cos(angles), jnp.sin(angles)
    if layout == "adjacent":
        a, b = z[..., ::2], z[..., 1::2]
        return jnp.stack([a * c - b * s, a * s + b * c], -1).reshape(z.shape)
    a, b = jnp.split(z, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def over_rows(z, layout):
    """`z cos + swapped(z) sin` with angles for whole rows, as LLaMA's code has it; a wrong sign with `conjugate`."""
    t, k = z.shape[-2:]
    angle = jnp.arange(t)[:, None] / 100 ** (jnp.arange(0, k, 2) / k)
    if layout == "adjacent":
        angle = jnp.repeat(angle, 2, -1)
        swapped = jnp.stack([-z[..., 1::2], z[..., ::2]], -1).reshape(z.shape)
    else:
        angle = jnp.concatenate([angle, angle], -1)
        a, b = jnp.split(z, 2, -1)
        swapped = jnp.concatenate([b if layout == "conjugate" else -b, a], -1)
    return z * jnp.cos(angle) + swapped * jnp.sin(angle)


def rope(layout, rotated=rotated):
    @qx.architecture(params={"Wq": "head x k", "Wk": "head x k", "Wv": "head x v", "bk": "head k"}, inputs={"x": "t x"})
    def net(p, x):
        q = rotated(jnp.einsum("tx,hxk->htk", x, p["Wq"]), layout)
        k = rotated(jnp.einsum("tx,hxk->htk", x, p["Wk"]) + p["bk"][:, None], layout)
        weights = jax.nn.softmax(jnp.einsum("htk,hsk->hts", q, k), -1)
        return jnp.einsum("hts,sx,hxv->htv", weights, x, p["Wv"])

    return net


ROPE = {
    "Wq[head,x,k]": "g[head,k,l] Wq[head,x,l]", "Wk[head,x,k]": "inv(g)[head,l,k] Wk[head,x,l]",
    "bk[head,k]": "inv(g)[head,l,k] bk[head,l]",
}  # fmt: skip
for layout in ("adjacent", "halves"):
    model = rope(layout)
    true(f"RoPE {layout}", model, qx.ComplexScaling("k", each="head", pairs=layout), ROPE)
    other = "halves" if layout == "adjacent" else "adjacent"
    false(f"RoPE {layout} paired as {other}", model, qx.ComplexScaling("k", each="head", pairs=other), ROPE)
    false(f"RoPE {layout} GL", model, GL("k", each="head"), ROPE)
    false(f"RoPE {layout} key bias", model, SHIFT("k", each="head"), {"bk[head,k]": "bk[head,k] + g[head,k]"})
    model = rope(layout, over_rows)
    true(f"RoPE {layout} over rows", model, qx.ComplexScaling("k", each="head", pairs=layout), ROPE)
    false(f"RoPE {layout} over rows paired as {other}", model, qx.ComplexScaling("k", each="head", pairs=other), ROPE)
false(
    "RoPE over rows with a wrong sign", rope("conjugate", over_rows),
    qx.ComplexScaling("k", each="head", pairs="halves"), ROPE,
)  # fmt: skip

# --- compositions


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "y k", "b3": "y"}, inputs={"x": "x"})
def three(p, x):
    a = jax.nn.relu(p["W1"] @ x + p["b1"])
    return p["W3"] @ jax.nn.relu(p["W2"] @ a + p["b2"]) + p["b3"]


true("three layers, first", three, POS("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"})
true("three layers, second", three, POS("k"), {"W2": "g @ W2", "b2": "g @ b2", "W3": "W3 @ inv(g)"})
true("three layers, permuted", three, PERM("k"), {"W2": "g @ W2", "b2": "g @ b2", "W3": "W3 @ g.T"})
false("three layers, wrong layer", three, POS("k"), {"W2": "g @ W2", "W3": "W3 @ inv(g)"})


@qx.architecture(params={"E": "v d", "P": "t d", "W": "v d"}, inputs={"tokens": qx.Tokens("t", below="v")})
def embedding(p, tokens):
    return (p["E"][tokens] + p["P"]) @ p["W"].T


@qx.architecture(params={"E": "v d", "P": "t d"}, inputs={"tokens": qx.Tokens("t", below="v")})
def tied_embedding(p, tokens):
    return (p["E"][tokens] + p["P"]) @ p["E"].T


@qx.architecture(params={"E": "v d", "P": "t d", "W": "v d"}, inputs={"tokens": qx.Tokens("t", below="v")})
def one_hot(p, tokens):
    return (jax.nn.one_hot(tokens, p["E"].shape[0]) @ p["E"] + p["P"]) @ p["W"].T


TOKENS = {"E[v,d]": "E[v,d] + g[d]", "P[t,d]": "P[t,d] - g[d]"}
true("embedding shift", embedding, SHIFT("d"), TOKENS)
true("embedding GL", embedding, GL("d"), {"E": "E @ g", "P": "P @ g", "W": "W @ inv(g).T"})
true("one-hot shift", one_hot, SHIFT("d"), TOKENS)
false("tied embedding shift", tied_embedding, SHIFT("d"), TOKENS)
false("embedding shift with a wrong sign", embedding, SHIFT("d"), TOKENS | {"P[t,d]": "P[t,d] + g[d]"})
false("embedding shift of the words alone", embedding, SHIFT("d"), {"E[v,d]": "E[v,d] + g[d]"})


# --- parts taken out and put in


@qx.architecture(params={"W": "2 h x", "V": "y h"}, inputs={"x": "x"})
def unstacked(p, x):
    gate, value = jnp.unstack(jnp.einsum("khx,x->kh", p["W"], x))
    return p["V"] @ (jax.nn.relu(gate) * value)


@qx.architecture(params={"W1": "h x", "b": "h", "W2": "y h"}, inputs={"x": "x"})
def first_off(p, x):
    z = jnp.asarray(p["W1"] @ x + p["b"]).at[0].set(0.0)
    return p["W2"] @ jax.nn.relu(z)


@qx.architecture(params={"E": "v d", "c": "d", "W": "v d"}, inputs={"tokens": qx.Tokens("t", below="v")})
def first_token(p, tokens):
    return jnp.asarray(p["E"])[tokens].at[1].add(p["c"]) @ p["W"].T


OFF = {"W1": "g @ W1", "b": "g @ b", "W2": "W2 @ inv(g)"}
true("unstacked gate", unstacked, POS("h"), {"W[i,h,x]": "g[h] W[i,h,x]", "V": "V @ inv(g)**2"})
true("unit set to zero", first_off, POS("h"), OFF)
true("added to one token", first_token, GL("d"), {"E": "E @ g", "c": "g.T @ c", "W": "W @ inv(g).T"})
false("unstacked gate of either sign", unstacked, DIAG("h"), {"W[i,h,x]": "g[h] W[i,h,x]", "V": "V @ inv(g)**2"})
false("unit set to zero, permuted", first_off, PERM("h"), OFF)
false("added to one token, not moved", first_token, GL("d"), {"E": "E @ g", "W": "W @ inv(g).T"})


def decoder(blocks):
    """Pre-RMSNorm decoder: RoPE, grouped heads, SwiGLU, learned embedding, logits."""
    params = {"E": "voc d", "U": "voc d"}
    for b in range(blocks):
        params |= {
            f"Wq{b}": "kv r d k", f"Wk{b}": "kv d k", f"Wv{b}": "kv d v", f"Wo{b}": "kv r v d",
            f"G{b}": "f d", f"V{b}": "f d", f"D{b}": "d f",
        }  # fmt: skip

    def norm(x):
        return x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True))

    @qx.architecture(params=params, inputs={"tokens": qx.Tokens("t", below="voc")})
    def net(p, tokens):
        x = p["E"][tokens]
        causal = jnp.tril(jnp.ones((tokens.shape[0], tokens.shape[0]), bool))
        for b in range(blocks):
            n = norm(x)
            q = rotated(jnp.einsum("td,grdk->grtk", n, p[f"Wq{b}"]), "halves")
            k = rotated(jnp.einsum("td,gdk->gtk", n, p[f"Wk{b}"]), "halves")
            v = jnp.einsum("td,gdv->gtv", n, p[f"Wv{b}"])
            scores = jnp.einsum("grtk,gsk->grts", q, k) / jnp.sqrt(k.shape[-1])
            weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
            o = jnp.einsum("grts,gsv->grtv", weights, v)
            x = x + jnp.einsum("grtv,grvd->td", o, p[f"Wo{b}"])
            n = norm(x)
            x = x + (jax.nn.silu(n @ p[f"G{b}"].T) * (n @ p[f"V{b}"].T)) @ p[f"D{b}"].T
        return norm(x) @ p["U"].T

    return net


def decoder_claims(blocks):
    """Symmetries of `decoder(blocks)`, in its last block where they have one."""
    b = blocks - 1
    stream = {"E": "E @ g.T", "U": "U @ g.T"}
    for k in range(blocks):
        stream |= {
            f"Wq{k}[kv,r,d,k]": f"g[d,e] Wq{k}[kv,r,e,k]", f"Wk{k}[kv,d,k]": f"g[d,e] Wk{k}[kv,e,k]",
            f"Wv{k}[kv,d,v]": f"g[d,e] Wv{k}[kv,e,v]", f"Wo{k}[kv,r,v,d]": f"g[d,e] Wo{k}[kv,r,v,e]",
            f"G{k}": f"G{k} @ g.T", f"V{k}": f"V{k} @ g.T", f"D{k}": f"g @ D{k}",
        }  # fmt: skip
    writers = {"E": "g * E"} | {f"Wo{k}[kv,r,v,d]": f"g Wo{k}[kv,r,v,d]" for k in range(blocks)}
    writers |= {f"D{k}": f"g * D{k}" for k in range(blocks)}
    return {
        "values": (
            GL("v", each="kv"),
            {f"Wv{b}[kv,d,v]": f"Wv{b}[kv,d,l] g[kv,l,v]", f"Wo{b}[kv,r,v,d]": f"inv(g)[kv,v,l] Wo{b}[kv,r,l,d]"},
        ),
        "pairs": (
            qx.ComplexScaling("k", each="kv", pairs="halves"),
            {f"Wq{b}[kv,r,d,k]": f"g[kv,k,l] Wq{b}[kv,r,d,l]", f"Wk{b}[kv,d,k]": f"inv(g)[kv,l,k] Wk{b}[kv,d,l]"},
        ),
        "gate": (DIAG("f"), {f"V{b}": f"g @ V{b}", f"D{b}": f"D{b} @ inv(g)"}),
        "stream": (qx.O("d"), stream),
        "stream scale": (qx.PositiveScalar(), writers),
        "permuted gate": (PERM("f"), {f"G{b}": f"g @ G{b}", f"V{b}": f"g @ V{b}", f"D{b}": f"D{b} @ g.T"}),
    }


_DECODER = decoder(2)
for label, (group, action) in decoder_claims(2).items():
    true(f"decoder {label}", _DECODER, group, action)
_ONE_BLOCK = decoder(1)
false(
    "decoder stream GL",
    _ONE_BLOCK,
    GL("d"),
    {k: v.replace("g.T", "inv(g)") for k, v in decoder_claims(1)["stream"][1].items()},
)
false("decoder GL of queries", _ONE_BLOCK, GL("k", each="kv"), decoder_claims(1)["pairs"][1])

# --- the decoder of the table: learned positions, GELU, no gains, epsilon 0, logits out


def token_decoder(blocks, epsilon=0.0):
    params = {"E": "voc d", "P": "t d", "U": "voc d"}
    for b in range(blocks):
        params |= {f"Wq{b}": "head d k", f"Wk{b}": "head d k", f"Wv{b}": "head d v", f"Wo{b}": "head v d"}
        params |= {f"A{b}": "f d", f"B{b}": "d f"}

    def norm(x):
        return x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + epsilon)

    @qx.architecture(params=params, inputs={"tokens": qx.Tokens("t", below="voc")})
    def net(p, tokens):
        x = p["E"][tokens] + p["P"]
        causal = jnp.tril(jnp.ones((tokens.shape[0], tokens.shape[0]), bool))
        for b in range(blocks):
            n = norm(x)
            q, k = jnp.einsum("td,hdk->htk", n, p[f"Wq{b}"]), jnp.einsum("td,hdk->htk", n, p[f"Wk{b}"])
            v = jnp.einsum("td,hdv->htv", n, p[f"Wv{b}"])
            scores = jnp.einsum("htk,hsk->hts", q, k) / jnp.sqrt(k.shape[-1])
            weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), -1)
            x = x + jnp.einsum("hts,hsv,hvd->td", weights, v, p[f"Wo{b}"])
            x = x + jax.nn.gelu(norm(x) @ p[f"A{b}"].T) @ p[f"B{b}"].T
        return norm(x) @ p["U"].T

    return net


def token_decoder_claims(blocks):
    """Symmetries of `token_decoder(blocks)`, in its last block where they have one."""
    b = blocks - 1
    stream, scale = {"E": "E @ g.T", "P": "P @ g.T", "U": "U @ g.T"}, {"E": "g * E", "P": "g * P"}
    for k in range(blocks):
        stream |= {
            f"{w}{k}[head,d,{a}]": f"g[d,e] {w}{k}[head,e,{a}]" for w, a in (("Wq", "k"), ("Wk", "k"), ("Wv", "v"))
        }
        stream |= {f"Wo{k}[head,v,d]": f"g[d,e] Wo{k}[head,v,e]", f"A{k}": f"A{k} @ g.T", f"B{k}": f"g @ B{k}"}
        scale |= {f"Wo{k}[head,v,d]": f"g Wo{k}[head,v,d]", f"B{k}": f"g * B{k}"}
    return {
        "queries and keys": (
            GL("k", each="head"),
            {
                f"Wq{b}[head,d,k]": f"Wq{b}[head,d,l] g[head,l,k]",
                f"Wk{b}[head,d,k]": f"inv(g)[head,k,l] Wk{b}[head,d,l]",
            },
        ),
        "values and output": (
            GL("v", each="head"),
            {
                f"Wv{b}[head,d,v]": f"Wv{b}[head,d,l] g[head,l,v]",
                f"Wo{b}[head,v,d]": f"inv(g)[head,v,l] Wo{b}[head,l,d]",
            },
        ),
        "stream": (qx.O("d"), stream),
        "stream scale": (qx.PositiveScalar(), scale),
        "positions": (SHIFT("d"), TOKENS),
    }


_TOKEN_DECODER = token_decoder(1)
for label, (group, action) in token_decoder_claims(1).items():
    true(f"token decoder {label}", _TOKEN_DECODER, group, action)
false("token decoder scale with epsilon", token_decoder(1, 1e-2), *token_decoder_claims(1)["stream scale"])
false(
    "token decoder scale without the positions", _TOKEN_DECODER, qx.PositiveScalar(),
    {k: v for k, v in token_decoder_claims(1)["stream scale"][1].items() if k != "P"},
)  # fmt: skip
false("token decoder positions with a wrong sign", _TOKEN_DECODER, SHIFT("d"), TOKENS | {"P[t,d]": "P[t,d] + g[d]"})

# --- fields that are no linear action: (name, architecture, field). `K` is any matrix, which the model does not read.

TRUE_FIELDS = []
FALSE_FIELDS = []


@qx.architecture(params={"a": "h", "W": "h x", "K": "h h"}, inputs={"x": "x"})
def one_square(p, x):
    return jnp.sum(p["a"] * (p["W"] @ x) ** 2)


@qx.architecture(params={"a": "h", "b": "h", "K": "h h"}, inputs={"x": ""})
def pairing(p, x):
    return jnp.sum(p["a"] * p["b"]) * x


def mixing(part):
    """W -> W + t S diag(a) W keeps W^T diag(a) W to first order if and only if S is skew: O(p,q), quadratic."""

    def field(p):
        turned = part(p["K"]) @ (p["a"][:, None] * p["W"])
        return {"a": jnp.zeros_like(p["a"]), "W": turned, "K": jnp.zeros_like(p["K"])}

    return field


def shearing(part):
    """a -> a + t S b keeps a . b if and only if S is skew: the part of O(h,h) outside GL(h)."""

    def field(p):
        return {"a": part(p["K"]) @ p["b"], "b": jnp.zeros_like(p["b"]), "K": jnp.zeros_like(p["K"])}

    return field


for label, model, made in (("square O(p,q)", one_square, mixing), ("scalar linear O(h,h)", pairing, shearing)):
    TRUE_FIELDS.append((label, model, made(lambda k: k - k.T)))
    FALSE_FIELDS.append((f"{label} symmetric", model, made(lambda k: k + k.T)))
    FALSE_FIELDS.append((f"{label} of any matrix", model, made(lambda k: k)))
TRUE_FIELDS.append(("hyperbolic rotation", difference_of_squares, lambda p: {"u": p["v"], "v": p["u"]}))
FALSE_FIELDS.append(("rotation", difference_of_squares, lambda p: {"u": p["v"], "v": -p["u"]}))
