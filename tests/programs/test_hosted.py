"""Programs run in NumPy: what `jax.jit` computes, primitive by primitive, in type, shape and value."""

import functools
import tracemalloc

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import jaxprs_in_params, primitives

from quotax.elementwise import FUNCTIONS
from quotax.programs.hosted import CONTROL, KERNELS, Hosted, Uncompiled, Unhosted
from quotax.programs.jaxprs import CALLS

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3, 4))
SQUARE = RNG.normal(size=(5, 4, 4))
POSITIVE = SQUARE @ np.swapaxes(SQUARE, -1, -2) + np.eye(4)
UNIT = RNG.uniform(-0.9, 0.9, size=(3, 4))
WHOLE = RNG.integers(-9, 9, size=(3, 4))
SIGNED = np.array([[7, -7, 0], [5, -5, 3]])
BOOL = X > 0


def called(name):
    """A function of its own derivative, or of its own rule under `vmap`."""
    function = {
        "jvp": jax.custom_jvp(jnp.sin),
        "vjp": jax.custom_vjp(jnp.cos),
        "vmap": jax.custom_batching.sequential_vmap(jnp.tanh),
    }[name]
    if name == "jvp":
        function.defjvp(lambda x, v: (jnp.sin(x[0]), v[0]))
    if name == "vjp":
        function.defvjp(lambda x: (jnp.cos(x), x), lambda x, g: (g,))
    return function


def bound(primitive, closed):
    """Sine behind a call primitive, which JAX itself makes only inside its transformations."""

    def run(x):
        body = jax.make_jaxpr(jnp.sin)(jax.ShapeDtypeStruct(x.shape, x.dtype))
        return primitive.bind(x, **primitive.get_bind_params({"call_jaxpr": body if closed else body.jaxpr}))[0]

    return run


def solved(x):
    """A linear solve with a rule of its own."""
    return lax.custom_linear_solve(
        lambda v: x @ v, jnp.ones(4), lambda mv, b: jnp.linalg.solve(x, b), lambda mv, b: jnp.linalg.solve(x.T, b)
    )


def decreasing(x):
    """A loop that ends when numbers are small, row by row."""
    return jax.vmap(lambda row: lax.while_loop(lambda r: jnp.sum(r**2) > 1e-2, lambda r: r / 2, row))(x)


CASES = {
    **{
        name: (getattr(lax, name), *RNG.uniform(*function.between, size=(function.arguments, 3, 4)))
        for name, function in FUNCTIONS.items()
    },
    "add": (jnp.add, X, Y),
    "and": (jnp.bitwise_and, WHOLE, WHOLE.T.reshape(3, 4)),
    "argmax": (functools.partial(jnp.argmax, axis=1), X),
    "argmin": (functools.partial(jnp.argmin, axis=0), X),
    "clamp": (lambda x: lax.clamp(jnp.asarray(-0.5, x.dtype), x, jnp.asarray(0.5, x.dtype)), X),
    "copy": (jnp.array, X),
    "cummax": (lax.cummax, X),
    "cummin": (lambda x: lax.cummin(x, reverse=True), X),
    "cumprod": (lambda x: lax.cumprod(x, 1), X),
    "cumsum": (jnp.cumsum, X),
    "div": (jnp.divide, X, Y),
    "eq": (jnp.equal, WHOLE, WHOLE.T.reshape(3, 4)),
    "ge": (jnp.greater_equal, X, Y),
    "gt": (jnp.greater, X, Y),
    "is_finite": (jnp.isfinite, np.where(BOOL, np.inf, X)),
    "le": (jnp.less_equal, X, Y),
    "lt": (jnp.less, X, Y),
    "max": (jnp.maximum, X, np.where(BOOL, np.nan, Y)),
    "min": (jnp.minimum, X, Y),
    "mul": (jnp.multiply, X, Y),
    "ne": (jnp.not_equal, WHOLE, 3),
    "neg": (jnp.negative, X),
    "not": (jnp.invert, BOOL),
    "optimization_barrier": (lambda x: lax.optimization_barrier(x) * 2, X),
    "or": (jnp.logical_or, BOOL, X > 1),
    "name": (lambda x: checkpoint_name(x, "here"), X),
    "stop_gradient": (lax.stop_gradient, X),
    "sub": (jnp.subtract, X, Y),
    "xor": (jnp.logical_xor, BOOL, X > 1),
    "add_any": (jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.cos(x))), X),
    "broadcast_in_dim": (lambda x: jnp.broadcast_to(x[:, None], (2, 3, 5, 4)), X),
    "concatenate": (lambda x, y: jnp.concatenate([x, y, x], 1), X, Y),
    "convert_element_type": (lambda x: (x * 100).astype("int8"), X),
    "dot_general": (functools.partial(jnp.einsum, "bij,kjb->bki"), SQUARE, RNG.normal(size=(6, 4, 5))),
    "integer_pow": (lambda x: (x**3, x**-2, x**2), X),
    "iota": (lambda x: x + lax.broadcasted_iota("float32", (3, 4), 1), X),
    "pad": (lambda x: lax.pad(x, jnp.asarray(7.0, x.dtype), ((1, -1, 2), (-1, 2, 0))), X),
    "reduce_and": (lambda x: jnp.all(x, 1), BOOL),
    "reduce_max": (lambda x: jnp.max(x, 0), X),
    "reduce_min": (lambda x: jnp.min(x), X),
    "reduce_or": (lambda x: jnp.any(x, 0), BOOL),
    "reduce_prod": (jnp.prod, X),
    "reduce_sum": (lambda x: jnp.sum(x, (0, 2)), SQUARE),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 11, 20), X),
    "round": (lambda x: (jnp.round(x), lax.round(x * 2) / 2), X),
    "reshape": (lambda x: x.reshape(2, 6), X),
    "rev": (lambda x: x[::-1, ::-1], X),
    "select_n": (lambda x: lax.select_n((x > 0).astype("int32") + (x > 1), x, 2 * x, 3 * x), X),
    "slice": (lambda x: x[1:3, ::2], X),
    "squeeze": (lambda x: jnp.squeeze(x[:, 1:2], 1), X),
    "stack": (lambda x, y: jnp.stack([x, y], 1), X, Y),
    "tile": (lambda x: jnp.tile(x, (2, 3)), X),
    "transpose": (lambda x: jnp.transpose(x, (2, 0, 1)), SQUARE),
    "cholesky": (jnp.linalg.cholesky, POSITIVE),
    "triangular_solve": (
        lambda a, b: [
            jax.scipy.linalg.solve_triangular(a[0], b, trans=t, lower=low, unit_diagonal=u)
            for t in (0, 1)
            for low in (True, False)
            for u in (True, False)
        ],
        SQUARE,
        Y.T,
    ),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, i * 9), (2, 3)), X, np.int32(1)),
    "dynamic_update_slice": (lambda x, i: lax.dynamic_update_slice(x, x[:2, :2] * 5, (i, i * -9)), X, np.int32(1)),
    "gather": (
        lambda x, i: (x[i], x[:, i], x[i, i], x.at[i + 2, i].get(mode="fill"), jnp.take(x, i, 1)),
        X,
        np.array([1, 0, 2]),
    ),
    "scatter": (
        lambda x, i: (x.at[i].set(5.0), x.at[i, i].set(x[0, 0]), x.at[:, i + 2].set(1, mode="drop")),
        X,
        np.array([1, 0, 2]),
    ),
    "scatter-add": (lambda x, i: (x.at[i].add(x[:, :]), x.at[:, i].add(2.0)), X, np.array([1, 0, 1])),
    "eigh": (lambda x: [jnp.linalg.eigvalsh(x), (v := jnp.linalg.eigh(x))[1] @ (v[0][..., None] * v[1].mT)], POSITIVE),
    "svd": (
        lambda x: (
            jnp.linalg.svd(x, compute_uv=False),
            (u := jnp.linalg.svd(x, full_matrices=False))[0] * u[1][..., None, :] @ u[2],
        ),
        SQUARE[..., :3],
    ),
    "lu": (lambda x: (jnp.linalg.det(x), *lax.linalg.lu(x)), SQUARE),
    "qr": (lambda x: (q := jnp.linalg.qr(x))[0] @ q[1], SQUARE),
    "sort": (lambda x, y: (*lax.sort((x, y), dimension=0), jnp.argsort(x, axis=1)), X, Y),
    "split": (lambda x: jnp.split(x, [1, 3], 1), X),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x, reverse=True), X),
    "while": (decreasing, X),
    "cond": (lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), X),
    "platform_index": (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), X),
    "custom_jvp_call": (called("jvp"), X),
    "custom_vjp_call": (called("vjp"), X),
    "custom_vmap_call": (called("vmap"), X),
    "custom_linear_solve": (solved, POSITIVE[0]),
    "jit": (jax.jit(jnp.sin), X),
    "call": (bound(primitives.call_p, False), X),
    "closed_call": (bound(primitives.closed_call_p, True), X),
    "composite": (lax.composite(jnp.sin, "quotax.test"), X),
    "remat2": (jax.checkpoint(jnp.sin), X),
}


def both(function, *arrays):
    """What the hosted program computes, and what the compiled one does."""
    ours = Uncompiled(lambda _, *xs: function(*xs))(None, *arrays)
    return jax.tree.leaves(ours), jax.tree.leaves(jax.jit(function)(*arrays))


def agree(ours, theirs, tolerance):
    """In type, shape and value."""
    for a, b in zip(ours, theirs, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, np.asarray(b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_a_primitive_in_numpy_is_the_compiled_one(name):
    function, *arrays = CASES[name]
    agree(*both(function, *arrays), 1e-12)
    if name != "reduce_precision":
        single = [a.astype(np.float32) if np.asarray(a).dtype == np.float64 else a for a in arrays]
        agree(*both(function, *single), 2e-4 if name in ("lu", "triangular_solve", "custom_linear_solve") else 1e-5)


def names_in(jaxpr):
    """The names in a jaxpr and in what it calls."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        for inner in jaxprs_in_params(equation.params):
            yield from names_in(inner)


@pytest.mark.parametrize("name", [*KERNELS, *CONTROL, *CALLS])
def test_every_entry_of_the_tables_has_its_case(name):
    other = {"scatter_add": "scatter-add"}.get(name, name)
    function, *arrays = CASES[other]
    found = set(names_in(jax.make_jaxpr(function)(*arrays).jaxpr))
    assert name in found or name in ("scatter_add", "copy")


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_axis_in_another_order(axis):
    way = jnp.asarray(np.random.default_rng(1).permutation(SQUARE.shape[axis]))
    place = (slice(None),) * axis + (way,)
    kept = {"mode": "promise_in_bounds", "unique_indices": True, "wrap_negative_indices": False}
    permuted = lambda x: x.at[place].get(**kept)
    agree(*both(lambda x: (permuted(x), jax.vjp(permuted, x)[1](x * x)[0], x.at[place].set(x * x, **kept)), SQUARE), 0)
    agree(*both(jax.vmap(lambda x: x.at[way[:4] % 4].get(**kept)), SQUARE), 0)


def test_division_of_integers_is_that_of_the_compiler():
    agree(*both(lambda x: (lax.div(x, jnp.int64(2)), lax.div(x, jnp.int64(-3)), lax.rem(x, jnp.int64(3))), SIGNED), 0)


@given(
    hnp.arrays(np.float64, (6,), elements=st.floats(-1e12, 1e12, allow_subnormal=False)),
    st.sampled_from(["int8", "uint8", "int32", "bool"]),
)
@settings(max_examples=60, deadline=None)
def test_floats_become_integers_as_the_compiler_makes_them(x, kind):
    inside = x if kind == "bool" else np.clip(x, np.iinfo(kind).min, np.iinfo(kind).max)
    agree(*both(lambda x: x.astype(kind), inside), 0)


@pytest.mark.slow
@given(hnp.arrays(np.float64, (8,), elements=st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=False)))
@settings(max_examples=60, deadline=None)
def test_shorter_floats_round_as_the_compiler_rounds(x):
    x = np.where(np.abs(x) < 1e-300, 0, x)
    agree(*both(lambda x: lax.reduce_precision(x, 11, 30), x), 0)


@pytest.mark.parametrize("name", ["cholesky", "eigh", "svd"])
def test_what_has_no_factorisation_is_no_number(name):
    bad = POSITIVE.copy()
    bad[2] = np.nan if name != "cholesky" else -np.eye(4)
    function = {"cholesky": jnp.linalg.cholesky, "eigh": jnp.linalg.eigvalsh, "svd": lambda x: jnp.linalg.svd(x)[1]}[
        name
    ]
    (ours,), (theirs,) = both(function, bad)
    assert np.array_equal(np.isfinite(ours)[[0, 1, 3, 4]], np.isfinite(np.asarray(theirs))[[0, 1, 3, 4]])
    assert np.isnan(ours[2]).any()
    assert np.isnan(np.asarray(theirs)[2]).any()


def test_what_is_in_no_table_is_said_before_anything_runs():
    with pytest.raises(Unhosted, match="random"):
        Uncompiled(lambda _, x: jax.random.normal(jax.random.key(0), x.shape) + x)(None, X)
    with pytest.raises(Unhosted, match="fft"):
        Hosted(jax.make_jaxpr(jnp.fft.fft)(X))


def test_a_program_is_traced_once_for_each_type():
    seen = []

    def counted(static, x):
        seen.append(static)
        return static * x

    run = Uncompiled(counted)
    assert [float(run(2, np.float64(x))) for x in (1, 2)] == [2, 4]
    run(2, np.float32(1)), run(3, np.float64(1))
    assert seen == [2, 2, 3]


def test_what_nobody_reads_any_more_is_let_go():
    chain = lambda x: functools.reduce(lambda y, _: jnp.sin(y) + 1, range(200), x)
    x = np.zeros(2**16)
    run = Uncompiled(lambda _, x: chain(x))
    run(None, x)
    tracemalloc.start()
    run(None, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * x.nbytes


def test_large_arrays_are_left_to_the_compiler():
    with pytest.raises(Unhosted, match="mul of 16000000 numbers"):
        Uncompiled(lambda _, x: jnp.sum(jnp.outer(x, x) @ jnp.eye(4000)))(None, np.zeros(4000))


def test_what_depends_on_the_first_arguments_is_done_once():
    function = lambda _, x, y: (jax.jit(jnp.sin)(x) @ y, jnp.cos(x), y + 1)
    given, brief = Uncompiled(function).given(None, SQUARE, jax.ShapeDtypeStruct(SQUARE.shape, SQUARE.dtype))
    assert brief
    for y in (SQUARE, 2 * SQUARE):
        agree(given(y), jax.jit(function, static_argnums=0)(None, SQUARE, y), 1e-12)


def test_a_loop_over_what_comes_last_is_not_brief():
    like = jax.ShapeDtypeStruct(SQUARE.shape, SQUARE.dtype)
    looping = lambda _, x, y: jax.lax.fori_loop(0, 3, lambda i, z: z @ y, x)
    assert not Uncompiled(looping).given(None, SQUARE, like)[1]
    assert Uncompiled(lambda _, x, y: looping(_, x, x) @ y).given(None, SQUARE, like)[1]
