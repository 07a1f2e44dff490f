"""A counterexample is one of the function that the model means: never rounding, overflow or an odd type."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.certify.counterexample import check_numerically, find_float_witness, find_witness, precision_notes

KEY = jax.random.key(5)
SEEDS = range(4)


def searched(model, symmetry, sizes, seed=0, draws=24):
    """What the search over exact points and the one over floats find."""
    traced, action = model.trace(sizes), symmetry.bind(model.params)
    rng = np.random.default_rng(seed)
    return [find_witness(traced, action, rng, draws), find_float_witness(traced, action, rng, 4)]


def holds(model, symmetry, sizes, seeds=SEEDS):
    return not any(w for seed in seeds for w in searched(model, symmetry, sizes, seed))


def breaks(model, symmetry, sizes, seeds=(0, 1)):
    """Both searches refute, by a difference that the model itself shows in float64."""
    for seed in seeds:
        for witness in searched(model, symmetry, sizes, seed):
            if witness is None:
                return False
            assert np.isfinite(witness.difference)
            assert witness.difference > 0
    return True


# --- types


def block(p, x, dtype, key=None):
    """Attention and a norm in a narrower type, the rest in float64."""
    q, k = (x @ p["Q"]).astype(dtype), (x @ p["K"]).astype(dtype)
    weights = jax.nn.softmax(q @ k.T * 0.7).astype(x.dtype)
    z = weights @ x @ p["V"]
    z = z if key is None else z + 0.1 * jax.random.normal(key, z.shape, dtype).astype(x.dtype)
    z32 = z.astype(jnp.float32)
    return (z32 / jnp.sqrt(jnp.mean(z32**2, -1, keepdims=True) + 1e-6)).astype(x.dtype)


def modelled(function, **params):
    return qx.architecture(params=params, inputs={"x": "t x"})(function)


ATTENTION = {"Q": "x k", "K": "x k", "V": "x y"}
TURN = qx.Symmetry("turn", qx.GL("k"), {"Q": "Q @ g", "K": "K @ inv(g).T"})
WRONG = qx.Symmetry("wrong", qx.GL("k"), {"Q": "Q @ g", "K": "K @ inv(g)"})
SIZES = {"t": 3, "x": 2, "k": 2, "y": 3}
INNER = {"t": 3, "x": 2, "k": 2}


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_casts_are_no_counterexample(dtype, key):
    model = modelled(lambda p, x: block(p, x, dtype, key), **ATTENTION)
    assert holds(model, TURN, SIZES)
    assert breaks(model, WRONG, SIZES)


def test_jax_attention_is_no_counterexample():
    def fused(p, x):
        return jax.nn.dot_product_attention(*((x @ p[name])[None, :, None] for name in "QKV"))[0, :, 0]

    model = modelled(fused, Q="x k", K="x k", V="x k")
    assert holds(model, TURN, INNER)
    assert breaks(model, WRONG, INNER)


def test_casts_are_named():
    assert precision_notes(modelled(lambda p, x: x @ p["Q"], Q="x k").trace({"t": 1, "x": 1, "k": 1})) == ()
    trace = modelled(lambda p, x: block(p, x, jnp.bfloat16), **ATTENTION).trace(SIZES)
    (note,) = precision_notes(trace)
    assert note == "the outputs are those of the model in float64, 4 casts to narrower floats in it removed"
    once = modelled(lambda p, x: (x @ p["Q"]).astype("float32"), Q="x k").trace(INNER)
    assert "one cast to a narrower float in it" in precision_notes(once)[0]


@pytest.mark.parametrize("wrap", [jax.random.key, jax.random.PRNGKey])
def test_closed_over_keys_are_bound_as_they_are(wrap):
    key = wrap(3)
    model = modelled(
        lambda p, x: jnp.tanh(x @ p["W"]) * jax.random.bernoulli(key, 0.7, (2,)) @ p["U"], W="x k", U="k y"
    )
    assert holds(model, qx.Symmetry("flip", qx.SignFlip("k"), {"W": "W @ g", "U": "g @ U"}), SIZES)
    assert breaks(model, qx.Symmetry("flip", qx.Diagonal("k"), {"W": "W @ g", "U": "inv(g) @ U"}), SIZES)


def test_outputs_may_be_integers_and_truths():
    def routed(p, x):
        z = x @ p["W"]
        return jnp.argmax(z, -1), z > 0, jax.lax.top_k(z, 2)[1]

    model = modelled(routed, W="x k")
    sizes = {"t": 3, "x": 2, "k": 4}
    assert holds(model, qx.Symmetry("scale", qx.PositiveScalar(), {"W": "g * W"}), sizes)
    assert breaks(model, qx.Symmetry("flip", qx.SignFlip(), {"W": "g * W"}), sizes)


# --- operations that the laws do not read


def ordered(p, x):
    z = jnp.sort(x @ p["W"], -1)
    return z.sum(-1) + jax.lax.top_k(z, 2)[0][..., 0] + jnp.median(z)


def halved(p, x):
    return jax.lax.while_loop(lambda z: jnp.max(jnp.abs(z)) > 0.01, lambda z: jnp.sin(z / 2), jnp.sort(x @ p["W"], -1))


def called(p, x):
    z = x @ p["W"]
    return jax.pure_callback(lambda v: np.sort(v, -1), jax.ShapeDtypeStruct(z.shape, z.dtype), z)


def solved(p, x):
    gram = p["W"] @ p["W"].T + jnp.eye(2)
    return jnp.linalg.solve(gram, x.T), jnp.linalg.eigvalsh(gram), jnp.linalg.svd(p["W"], compute_uv=False)


@pytest.mark.parametrize("function", [ordered, halved, called, solved])
def test_what_has_no_law_runs(function):
    model = modelled(function, W="x k")
    sizes = {"t": 2, "x": 2, "k": 4}
    assert holds(model, qx.Symmetry("order", qx.Permutation("k"), {"W": "W @ g.T"}), sizes, seeds=(0, 1))
    assert breaks(model, qx.Symmetry("scale", qx.PositiveDiagonal("k"), {"W": "W @ g"}), sizes)


# --- rounding and range


def soft(p, x):
    z = jnp.exp(x @ p["W"])
    return z / z.sum(-1, keepdims=True)


def plus(p, x):
    return 1 / jnp.log(1 + jnp.exp(jnp.diff(x @ p["W"], axis=-1)))


SHIFT = qx.Symmetry("shift", qx.Translation("x"), {"W[x,k]": "W[x,k] + g[x]"})
STRETCH = qx.Symmetry("stretch", qx.Translation("x"), {"W[x,k]": "W[x,k] + 300 * g[x]"})


@pytest.mark.parametrize("symmetry", [SHIFT, STRETCH], ids=lambda s: s.name)
@pytest.mark.parametrize("function", [soft, plus])
def test_overflow_is_no_counterexample(function, symmetry):
    model = modelled(function, W="x k")
    assert holds(model, symmetry, {"t": 2, "x": 2, "k": 3}, seeds=range(8))
    assert breaks(model, qx.Symmetry("scale", qx.PositiveScalar(), {"W": "g * W"}), {"t": 2, "x": 2, "k": 3})


def hidden(p, x, m):
    """Where everything is masked, logits lose eleven digits to the mask."""
    return jax.nn.softmax(jnp.sin(x) @ p["W"] - 1e11 * (1 - m)) @ x


def far(p, x, m):
    """Numbers lose ten digits on their way through one that is far from them; the scale of W is divided out."""
    z = (jnp.sin(x) @ p["W"] + 1e10) - 1e10
    return z / jnp.abs(p["W"]).sum() + m


UNIT = qx.Symmetry("scale", qx.PositiveScalar(), {"W": "g * W"})


@pytest.mark.parametrize(("function", "true"), [(hidden, SHIFT), (far, UNIT)])
def test_what_a_large_constant_costs_is_no_counterexample(function, true):
    model = qx.architecture(params={"W": "x k"}, inputs={"x": "k x", "m": qx.Mask("k")})(function)
    assert holds(model, true, {"k": 2, "x": 3}, seeds=range(8))
    assert breaks(model, qx.Symmetry("flip", qx.SignFlip("k"), {"W": "W @ g"}), {"k": 2, "x": 3})


@pytest.mark.parametrize("size", [1e-200, 1e-12, 1.0, 1e12, 1e200])
def test_a_difference_is_judged_against_the_outputs(size):
    model = modelled(lambda p, x: size * jax.nn.relu(x @ p["W"]) @ p["U"], W="x k", U="k y")
    sizes = {"t": 2, "x": 3, "k": 2, "y": 1}
    scale = {"W": "W @ g", "U": "inv(g) @ U"}
    assert holds(model, qx.Symmetry("scale", qx.PositiveDiagonal("k"), scale), sizes)
    assert breaks(model, qx.Symmetry("scale", qx.Diagonal("k"), scale), sizes)


def test_a_small_output_beside_a_large_one_counts():
    model = modelled(lambda p, x: jnp.stack([1e9 * x.sum(), 1e-9 * jnp.sum(x @ p["W"])]), W="x k")
    assert breaks(model, qx.Symmetry("scale", qx.PositiveScalar(), {"W": "g * W"}), {"t": 1, "x": 2, "k": 2})


def test_what_leaves_the_domain_is_no_counterexample():
    for function in (jnp.sqrt, jnp.log, lambda w: 1 / (w - jax.lax.stop_gradient(w))):
        model = modelled(lambda p, x, function=function: x.sum() + function(p["W"]), W="x k")
        flip = qx.Symmetry("flip", qx.SignFlip(), {"W": "g * W"})
        assert holds(model, flip, {"t": 1, "x": 1, "k": 1})
        rng, traced = np.random.default_rng(0), model.trace({"t": 1, "x": 1, "k": 1})
        assert not check_numerically(traced, flip.bind(model.params), rng) > 0


def test_nan_beside_a_difference_is_not_reported():
    model = modelled(lambda p, x: jnp.stack([p["W"][0, 0], jnp.log(-(p["W"][0, 0] ** 2))]), W="x k")
    witness, _ = searched(model, qx.Symmetry("scale", qx.PositiveScalar(), {"W": "g * W"}), {"t": 1, "x": 1, "k": 1})
    assert np.isnan(witness.output[1])
    assert witness.difference == abs(witness.output[0] - witness.transformed_output[0]) > 0


# --- elements


def neighbours(p, x):
    w = p["w"]
    return x.sum() + jnp.sum(w * jnp.roll(w, 1))


def test_permutations_are_not_only_cyclic():
    model = modelled(neighbours, w="k")
    order = qx.Symmetry("order", qx.Permutation("k"), {"w": "g @ w"})
    assert breaks(model, order, {"t": 1, "x": 1, "k": 5})
    each = qx.architecture(params={"w": "n k"}, inputs={"x": "x"})(
        lambda p, x: sum(neighbours({"w": w}, x) for w in p["w"])
    )
    order = qx.Symmetry("order", qx.Permutation("k", each="n"), {"w[n,k]": "g[n,k,l] w[n,l]"})
    assert breaks(each, order, {"x": 1, "n": 2, "k": 5})


def test_elements_are_not_only_near_the_identity():
    def gated(p, x):
        return x.sum() + jax.nn.relu(jnp.sum(p["W"] ** 2) - 1e4)

    model = modelled(gated, W="x k")
    for group, text in ((qx.PositiveDiagonal("k"), "W @ g"), (qx.PositiveScalar(), "g * W")):
        assert searched(model, qx.Symmetry("scale", group, {"W": text}), {"t": 1, "x": 1, "k": 2})[0] is not None
    shift = qx.Symmetry("shift", qx.Translation("k"), {"w": "w + g"})
    model = modelled(lambda p, x: x.sum() + jax.nn.relu(p["w"].sum() - 12), w="k")
    assert searched(model, shift, {"t": 1, "x": 1, "k": 2})[0] is not None


@pytest.mark.parametrize("depth", [2, 6])
def test_badly_conditioned_elements_do_not_refute_what_is_true(depth):
    def deep(p, x):
        for layer in range(depth):
            x = x + jnp.tanh((x @ p[f"A{layer}"]) @ p[f"B{layer}"])
        return x / jnp.linalg.norm(x)

    params = {f"{name}{n}": axes for n in range(depth) for name, axes in (("A", "x k"), ("B", "k x"))}
    action = {f"A{n}": f"A{n} @ g" for n in range(depth)} | {f"B{n}": f"inv(g) @ B{n}" for n in range(depth)}
    model = modelled(deep, **params)
    assert holds(model, qx.Symmetry("gl", qx.GL("k"), action), {"t": 2, "x": 3, "k": 3}, seeds=range(3))
    assert breaks(model, qx.Symmetry("gl", qx.GL("k"), action | {"B0": "inv(g).T @ B0"}), {"t": 2, "x": 3, "k": 3})


def test_a_witness_is_what_the_model_computes():
    model = modelled(lambda p, x: jax.nn.gelu(x @ p["W"]) @ p["U"], W="x k", U="k y")
    wrong = qx.Symmetry("scale", qx.PositiveDiagonal("k"), {"W": "W @ g", "U": "inv(g) @ U"})
    for witness in searched(model, wrong, {"t": 2, "x": 3, "k": 4, "y": 2}):
        x = witness.inputs["x"]
        left, right = (model.call(p, x, sizes={}) for p in (witness.params, witness.transformed_params))
        assert np.max(np.abs(left - right)) == pytest.approx(witness.difference, rel=1e-6)


def test_verify_uses_it():
    model = modelled(lambda p, x: block(p, x, jnp.float32), **ATTENTION)
    certificate = qx.verify(model, WRONG)
    assert certificate.status == "refuted"
    assert qx.verify(model, TURN).status != "refuted"
