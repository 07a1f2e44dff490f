"""What a model computes with its casts read away, against the same model written in float64 without them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.ad_checkpoint import checkpoint_name
from jax.export import symbolic_shape

from quotax.interpret import trace
from quotax.interpret.reals import casts_removed, real_function

HALF, SINGLE, DOUBLE = jnp.bfloat16, jnp.float32, jnp.float64
KEY = jax.random.key(0)


def array(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def real(function, *arrays):
    """The cleaned function of a traced one."""
    return real_function(jax.make_jaxpr(function)(*arrays))


def softmax(x, w, dtype):
    z = (w @ x).astype(dtype)
    return jax.nn.softmax(z).astype(x.dtype) @ w


def normed(x, w, dtype):
    z = (w @ x).astype(dtype)
    z = (z - z.mean()) * jax.lax.rsqrt(z.var() + 2.0**-16)
    return (z * jnp.linalg.norm(z)).astype(x.dtype)


def attended(x, w, dtype):
    q, k = (w @ x).astype(dtype).reshape(1, 2, 1, 2), x.astype(dtype).reshape(1, 2, 1, 2)
    if dtype != DOUBLE:
        return jax.nn.dot_product_attention(q, k, k, is_causal=True)
    q, k = q[0, :, 0], k[0, :, 0]  # by hand: JAX's own takes logits in float32, whatever it is given
    weights = jnp.exp(q @ k.T * dtype(SINGLE(np.sqrt(0.5)))) * np.tril(np.ones((2, 2)))
    return (weights / weights.sum(1, keepdims=True) @ k).reshape(1, 2, 1, 2)


def product(x, w, dtype):
    z = jax.lax.dot(w.astype(dtype), x.astype(dtype), preferred_element_type=jnp.promote_types(dtype, SINGLE))
    return jnp.einsum("i,j->ij", z, x.astype(dtype)) * dtype(0.5)


def convolved(x, w, dtype):
    z = jax.lax.conv_general_dilated(
        x.astype(dtype).reshape(1, 1, 4), w[:1, :3].astype(dtype).reshape(1, 1, 3), (1,), "SAME",
        preferred_element_type=jnp.promote_types(dtype, SINGLE),
    )  # fmt: skip
    return jax.lax.reduce_window(z, z.dtype.type(0), jax.lax.add, (1, 1, 2), (1, 1, 1), "VALID")


def looped(x, w, dtype):
    def inner(carry, row):
        return jnp.tanh(carry * row.astype(dtype)), carry.sum()

    def outer(carry, time):
        carry, sums = jax.lax.scan(inner, carry, w, reverse=True)
        return carry + time * dtype(0.25), sums

    return jax.lax.scan(outer, x.astype(dtype), jnp.arange(3, dtype=dtype))


def counted(x, w, dtype):
    def turn(state):
        return state[0] * dtype(2), state[1] + jnp.int32(1)

    grown, turns = jax.lax.while_loop(lambda s: jnp.sum(jnp.abs(s[0])) < 100, turn, (x.astype(dtype), jnp.int32(0)))
    chosen = jax.lax.cond(turns > 3, lambda v: jnp.sin(v), lambda v: v, grown)
    return jax.lax.switch(turns % 3, [lambda v: v, lambda v: v * 2, jnp.cos], chosen)


def scattered(x, w, dtype):
    z = (
        jnp.zeros(4, dtype)
        .at[jnp.array([0, 0, 2])]
        .add(w[0, :3].astype(dtype))
        .at[1]
        .multiply(3)
        .at[3]
        .max(x[0].astype(dtype))
    )
    return jax.lax.reduce(z, dtype(0), lambda a, b: a * b + a + b, (0,)), jnp.cumsum(z), z[jnp.array([7])]


def remembered(x, w, dtype):
    layer = jax.checkpoint(lambda v: jnp.sin(jax.lax.optimization_barrier(w.astype(dtype)) @ v))
    return checkpoint_name(layer(layer(x.astype(dtype))), "layer")


def solved(x, w, dtype):
    return jnp.linalg.solve((w @ w.T + jnp.eye(4)).astype(dtype), x.astype(dtype))


def ordered(x, w, dtype):
    values, places = jax.lax.top_k((w @ x).astype(dtype), 2)
    return values, places, jnp.sort(x.astype(dtype)), jnp.argmax(w.astype(dtype), 0), jnp.median(x.astype(dtype))


def spectral(x, w, dtype):
    return jnp.fft.fft(x.astype(jnp.promote_types(dtype, SINGLE))).real


def precise(x, w, dtype):
    z = jnp.matmul(w.astype(dtype), x.astype(dtype), precision="highest")
    return jax.lax.exp(z, accuracy=jax.lax.AccuracyMode.HIGHEST) + jax.lax.iota(dtype, 4)


MODELS = [softmax, normed, attended, product, convolved, looped, counted, scattered, remembered, solved, ordered]
MODELS += [spectral, precise]
# A product of bfloat16 matrices has no factorisation, and `top_k` in it none either.
HALVES = [m for m in MODELS if m not in (solved, spectral)]
CASES = [(m, SINGLE) for m in MODELS] + [(m, HALF) for m in HALVES]


@pytest.mark.parametrize(("model", "dtype"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))
def test_a_model_with_casts_is_the_model_in_float64(model, dtype):
    x, w = array(4), array(4, 4, seed=1)
    wanted = jax.tree.leaves(model(x, w, DOUBLE))
    found = jax.jit(real(lambda x, w: model(x, w, dtype), x, w))(x, w)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("model", [m for m in MODELS if m not in (counted, ordered, spectral)])
@given(seed=st.integers(0, 10**6))
def test_derivatives_are_those_of_finite_differences(model, seed):
    x, w, v = (array(*shape, seed=seed + k) for k, shape in enumerate(((4,), (4, 4), (4,))))
    run = _single(model)
    _, slope = jax.jvp(lambda x: run(x, w), (x,), (v,))
    step = 1e-6
    for a, b, d in zip(run(x + step * v, w), run(x - step * v, w), slope, strict=True):
        quotient = np.atleast_1d((a - b) / (2 * step))
        clear = np.isfinite(quotient)
        np.testing.assert_allclose(
            np.atleast_1d(d)[clear], quotient[clear], rtol=1e-5, atol=1e-5 * (1 + np.abs(a).max(initial=0))
        )


COMPILED = {}


def _single(model):
    if model not in COMPILED:
        COMPILED[model] = jax.jit(real(lambda x, w: model(x, w, SINGLE), array(4), array(4, 4)))
    return COMPILED[model]


@pytest.mark.parametrize("model", [softmax, normed, attended, product, remembered, solved, looped])
def test_it_can_be_batched_and_reversed(model):
    x, w = array(3, 4), array(4, 4, seed=1)
    run = real(lambda x, w: model(x, w, SINGLE), x[0], w)
    rows = jax.jit(jax.vmap(jax.jacrev(lambda x: run(x, w)[0])))(x)
    wanted = np.stack([jax.jacfwd(lambda v: jax.tree.leaves(model(v, w, DOUBLE))[0])(row) for row in x])
    np.testing.assert_allclose(rows, wanted, rtol=1e-9, atol=1e-12)


def test_stopped_gradients_flow():
    x = array(4)
    run = real(lambda x: x * jax.lax.stop_gradient(jnp.sin(x)), x)
    (slope,) = jax.jvp(run, (x,), (np.ones(4),))[1]
    np.testing.assert_allclose(slope, np.sin(x) + x * np.cos(x), rtol=1e-13)
    # In a loop and below a jit, where the gradient is stopped in a body.
    body = jax.jit(lambda c, _: (c * jax.lax.stop_gradient(c), None))
    run = real(lambda x: jax.lax.scan(body, x, None, length=2)[0], x)
    (slope,) = jax.jvp(run, (x,), (np.ones(4),))[1]
    np.testing.assert_allclose(slope, 4 * x**3, rtol=1e-13)


@jax.custom_jvp
def straight(x):
    return jnp.round(2 * x) + x**2


straight.defjvp(lambda point, change: (straight(*point), 10 * change[0]))


@jax.custom_vjp
def backwards(x):
    return jnp.sign(x) * x**2


backwards.defvjp(lambda x: (backwards(x), None), lambda kept, g: (7 * g,))


@pytest.mark.parametrize(("function", "slope"), [(straight, lambda x: 2 * x), (backwards, lambda x: 2 * np.abs(x))])
def test_a_rule_for_derivatives_is_not_believed(function, slope):
    x = array(4)
    run = real(function, x)
    np.testing.assert_allclose(run(x)[0], function(x), rtol=1e-13)
    np.testing.assert_allclose(jax.jvp(run, (x,), (np.ones(4),))[1][0], slope(x), rtol=1e-13)
    np.testing.assert_allclose(jax.grad(lambda x: run(x)[0].sum())(x), slope(x), rtol=1e-13)


def test_integers_keep_their_meaning():
    def wrapped(x):
        whole = jnp.int32(300) + (100 * x).astype(jnp.int32)
        small = whole.astype(jnp.int8)
        return (small + small).astype(SINGLE), (x > 0).astype(HALF), x.astype(bool), small, whole.astype(HALF)

    x = np.array([0.017, -1.25, 3.999])
    whole = 300 + np.trunc(100 * x).astype(np.int32)
    small = whole.astype(np.int8)
    found = real(wrapped, x)(x)
    with np.errstate(over="ignore"):
        wanted = [(small + small).astype(float), (x > 0).astype(float), x.astype(bool), small, whole.astype(float)]
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE])
def test_random_numbers_are_those_of_the_code(dtype):
    x = array(4)
    for draw in (
        lambda: jax.random.normal(KEY, (4,), dtype),
        lambda: jax.random.normal(jax.random.fold_in(jax.random.PRNGKey(3), 1), (4,), dtype),
        lambda: jax.random.bernoulli(KEY, 0.5, (4,)).astype(dtype),
        lambda: jax.random.uniform(jax.random.split(KEY)[1], (4,), dtype),
    ):
        run = real(lambda x, draw=draw: x * draw(), x)
        np.testing.assert_allclose(jax.jit(run)(x)[0], x * np.asarray(draw(), float), rtol=2e-6)
        assert jax.vmap(run)(np.stack([x, x]))[0].shape == (2, 4)


def test_keys_may_go_through_loops():
    def noisy(x):
        def turn(carry, key):
            return carry + jax.random.normal(key, carry.shape, SINGLE), key

        return jax.lax.scan(turn, x, jax.random.split(KEY, 3))[0]

    x = array(4)
    np.testing.assert_allclose(jax.jit(real(noisy, x))(x)[0], noisy(x), atol=1e-5)


def test_what_outputs_do_not_depend_on_is_not_run():
    def wasteful(x):
        jax.debug.print("{}", x)
        jax.pure_callback(lambda v: 1 / 0, jax.ShapeDtypeStruct((), SINGLE), x)
        return x.astype(SINGLE) + 1

    x = np.float64(1 / 3)
    assert jax.jit(real(wasteful, x))(x)[0] == x + 1


def test_callbacks_see_the_types_they_were_written_for():
    def checked(v):
        assert v.dtype == np.float32
        return 2 * v

    run = real(lambda x: jax.pure_callback(checked, jax.ShapeDtypeStruct((3,), SINGLE), x.astype(SINGLE)), array(3))
    assert run(array(3))[0].dtype == np.float64


def test_fewer_digits_change_what_is_rounded_and_nothing_else():
    def coarse(function, x, bits=43):
        return jax.jit(real_function(jax.make_jaxpr(function)(x), bits))(x)[0]

    fractions = np.arange(1, 9) / 4
    for exact in (lambda x: x @ x - x[0], lambda x: jnp.floor(4 * x), lambda x: jnp.arange(8.0) * x // 1):
        np.testing.assert_array_equal(coarse(exact, fractions), exact(fractions))
    x = array(8)
    for rounded in (lambda x: x * x, jnp.exp, lambda x: jax.lax.scan(lambda c, r: (c * r, None), x, x)[0]):
        found, wanted = coarse(rounded, x), rounded(x)
        np.testing.assert_allclose(found, wanted, rtol=2.0**-40)
        assert np.max(np.abs(found - wanted)) > 0
    lost = coarse(lambda x: (x + 1e10) - 1e10, x) - x
    assert 1e-5 < np.max(np.abs(lost)) < 1e-2
    halved = lambda x: jax.lax.while_loop(lambda c: jnp.any(jnp.abs(c - 1) > 1e-15), lambda c: 1 + (c - 1) / 3, x)
    assert np.isfinite(coarse(halved, x)).all()  # it ends


def test_fewer_digits_show_overflow():
    def coarse(function, x):
        return jax.jit(real_function(jax.make_jaxpr(function)(x), 43))(x)[0]

    large = np.array([1.0, 800.0, 801.0])
    assert np.isnan(coarse(lambda x: 1 / jnp.log(1 + jnp.exp(x)), large)[1:]).all()
    assert np.isnan(coarse(lambda x: jnp.exp(x) / jnp.exp(x).sum(), large)).all()
    assert np.isnan(coarse(lambda x: jnp.exp(-x) / jnp.exp(-x - 700), large[:1] + 43)).all()
    # Infinities that the code writes itself are meant.
    masked = lambda x: jax.nn.softmax(jnp.where(x > 800, -jnp.inf, x - 799))
    np.testing.assert_allclose(coarse(masked, large), masked(large), rtol=1e-10)
    masked = lambda x: jax.nn.softmax(jnp.where(x > 800, jnp.finfo(x.dtype).min, x - 799))
    np.testing.assert_allclose(coarse(masked, large), masked(large), rtol=1e-10)


def test_casts_are_counted():
    def count(function):
        return casts_removed(jax.make_jaxpr(function)(array(4)))

    assert count(jnp.sin) == 0
    assert count(lambda x: x.astype(SINGLE).astype(HALF).astype(DOUBLE)) == 2
    assert count(lambda x: jax.lax.reduce_precision(x, 5, 10)) == 1
    assert count(lambda x: x.astype(jnp.int32).astype(SINGLE)) == 0
    assert count(lambda x: jax.lax.scan(lambda c, _: (c.astype(HALF).astype(DOUBLE), None), x, None, length=3)[0]) == 1
    assert count(lambda x: (x.astype(SINGLE), x)[1]) == 0


def test_at_sizes_that_are_symbols():
    n, m = symbolic_shape("n, m")

    def model(w, x):
        z = jax.nn.softmax((w @ x).astype(SINGLE))
        ramp = jnp.arange(w.shape[0], dtype=SINGLE)
        total, _ = jax.lax.scan(
            lambda c, row: (c + jax.lax.stop_gradient(row.astype(SINGLE)).sum(), None), jnp.float32(0), w
        )
        return z * ramp / w.shape[0] + total

    shapes = jax.ShapeDtypeStruct((n, m), DOUBLE), jax.ShapeDtypeStruct((m,), DOUBLE)
    program = jax.make_jaxpr(model)(*shapes)
    cleaned = jax.make_jaxpr(real_function(program))(*shapes)
    assert "f32" not in str(cleaned)
    assert "stop_gradient" not in str(cleaned)
    assert cleaned.jaxpr.outvars[0].aval.shape == (n,)
    again = jax.make_jaxpr(lambda w, x: jax.jvp(lambda w: real_function(program)(w, x), (w,), (w,)))(*shapes)
    assert "f32" not in str(again)


def test_the_lines_of_the_code_are_kept():
    from quotax.interpret.tracing.provenance import place

    real = real_function(jax.make_jaxpr(lambda x: jnp.sin(x))(1.0))
    with jax.enable_x64(True):
        (equation,) = jax.make_jaxpr(real)(jax.ShapeDtypeStruct((), DOUBLE)).jaxpr.eqns
    assert "test_reals.py" in place(equation)


def test_a_trace_will_do_and_float64_is_asked_for(strict_promotion):
    traced = trace(lambda p, x: p["w"].astype(HALF) * x.astype(HALF), (_spec("w"),), (_spec("x"),), {})
    assert real_function(traced)(1 / 3, 1 / 7)[0] == pytest.approx(1 / 21, rel=1e-15)
    assert casts_removed(traced) == 2
    with jax.enable_x64(False), pytest.raises(ValueError, match=r"call it under `jax.enable_x64\(True\)`"):
        real_function(traced)(1.0, 1.0)


def _spec(name):
    from quotax.artifacts import ArraySpec

    return ArraySpec(name, ())
