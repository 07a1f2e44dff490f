"""Every name of geomstats' backend interface, and its meaning compared with numpy and scipy directly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from quotax.geomstats_jax import activate

gs = activate()
rng = np.random.default_rng(0)
V, W = rng.normal(size=4), rng.normal(size=4)
A, B = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
S, T = rng.normal(size=(5, 3, 3)), rng.normal(size=(5, 3, 3))
P = rng.uniform(0.1, 0.9, size=(3, 4))
Z = A + 1j * B
BOOLS = A > 0
NESTED = [[1.0, 2.0], [3.0, 4.0]]


def _assigned(x, values, indices, add=False):
    out = np.array(x)
    out[indices] = out[indices] + values if add else values
    return out


def _sparse(indices, data, shape):
    out = np.zeros(shape)
    for index, value in zip(indices, data, strict=True):
        out[index] = value
    return out


def _diag_set(x, d):
    out = np.array(x)
    out[..., range(3), range(3)] = d
    return out


def _pieces(d, u, low):
    out = np.diag(d)
    out[np.triu_indices(len(d), 1)] = u
    out.T[np.triu_indices(len(d), 1)] = low
    return out


def _scatter(x, dim, index, src):
    out = np.array(x)
    for j, (i, v) in enumerate(zip(index, src, strict=True)):
        if dim == 0:
            out[i] += v
        else:
            for k, w in zip(i, v, strict=True):
                out[j, k] += w
    return out


# name, arguments, keyword arguments, what numpy says (a function of the same arguments; None: numpy's of that name)
TABLE = [
    *((name, (x,), {}, None) for name in ("abs", "ceil", "floor", "sign", "sin", "cos", "exp") for x in (V, A, 0.5)),
    *((name, (P,), {}, None) for name in ("arccos", "arcsin", "arctanh", "log", "sqrt", "tan", "tanh", "sinh", "cosh")),
    ("arccosh", (1 + P,), {}, None),
    *((name, (Z,), {}, None) for name in ("abs", "angle", "conj", "imag", "real", "exp", "transpose")),
    *((name, (NESTED,), {}, None) for name in ("sqrt", "sum", "transpose", "mean", "amax", "shape", "ndim", "flip")),
    *(
        (name, (A,), {"axis": axis}, None)
        for name in ("amax", "amin", "argmax", "argmin", "mean", "prod", "std", "sum", "cumsum", "cumprod", "sort")
        for axis in (0, -1)
    ),
    ("sum", (S,), {"axis": (-2, -1), "keepdims": True}, None),
    ("all", (BOOLS,), {"axis": 1}, None),
    ("any", (S > 1,), {"axis": (-2, -1)}, None),
    ("all", ([True, False],), {}, None),
    ("allclose", (A, A + 1e-10), {}, None),
    ("isclose", (A, A + 1e-7 * B), {"atol": 5e-8}, None),
    ("isclose", (0.0, A), {"atol": 0.5}, None),
    ("isnan", (np.array([1.0, np.nan]),), {}, None),
    ("arctan2", (A, B), {}, None),
    ("mod", (A, 0.7), {}, None),
    ("power", (P, 1.5), {}, None),
    ("power", (2, P), {}, None),
    ("maximum", (A, B), {}, None),
    ("maximum", (A, 0.1), {}, None),
    ("minimum", ([1.0, 2.0], [2.0, 1.0]), {}, None),
    *((name, (A, B), {}, None) for name in ("equal", "greater", "less", "less_equal")),
    ("logical_and", (BOOLS, B > 0), {}, None),
    ("logical_or", (BOOLS, B > 0), {}, None),
    ("clip", (A, -0.3, 0.4), {}, None),
    ("divide", (A, B), {}, None),
    (
        "divide",
        (A, B * BOOLS),
        {"ignore_div_zero": True},
        lambda a, b, ignore_div_zero: np.divide(a, b, out=np.zeros_like(a), where=b != 0),
    ),
    ("where", (BOOLS, A, B), {}, None),
    ("where", (BOOLS, A, 0.0), {}, None),
    ("where", (BOOLS,), {}, None),
    ("arange", (5,), {}, None),
    ("arange", (1, 9, 2), {}, None),
    ("arange", (0.0, 1.0, 0.25), {}, None),
    ("linspace", (0.0, 1.0, 7), {}, None),
    ("linspace", (V, W, 5), {"endpoint": False}, None),
    ("zeros", ((2, 3),), {}, None),
    ("ones", (4,), {"dtype": bool}, None),
    ("eye", (3,), {}, None),
    ("eye", (3, 4), {"k": 1}, None),
    ("empty", ((2, 3),), {}, lambda shape: np.zeros(shape)),
    ("zeros_like", (A,), {}, None),
    ("ones_like", (A,), {}, None),
    ("empty_like", (A,), {}, lambda a: np.zeros_like(a)),
    ("array", (NESTED,), {}, None),
    ("array", ([V, W],), {}, None),
    ("array", ([1, 2],), {"dtype": np.float32}, None),
    ("copy", (A,), {}, None),
    ("from_numpy", (A,), {}, lambda a: a),
    ("to_numpy", (A,), {}, lambda a: a),
    ("concatenate", ([A, B],), {"axis": 1}, None),
    ("concatenate", ([[1.0], V],), {}, None),
    ("stack", ([V, W],), {"axis": -1}, None),
    ("hstack", ([A, B],), {}, None),
    ("vstack", ([V, A],), {}, None),
    ("hsplit", (A, 2), {}, None),
    ("split", (A, 2), {"axis": 1}, None),
    ("split", (V, [1, 3]), {}, None),
    ("broadcast_to", (V, (3, 4)), {}, None),
    ("broadcast_arrays", (V, A), {}, None),
    ("expand_dims", (A, 1), {}, None),
    ("flatten", (A,), {}, np.ravel),
    ("flip", (A, 0), {}, None),
    ("moveaxis", (S, 0, -1), {}, None),
    ("reshape", (A, (2, 6)), {}, None),
    ("repeat", (A, 2), {"axis": 0}, None),
    ("tile", (V, (2, 2)), {}, None),
    ("squeeze", (A[None],), {}, None),
    ("squeeze", (A[None],), {"axis": 0}, None),
    ("squeeze", (A[None],), {"axis": 1}, lambda a, axis: a),
    ("take", (A, [0, 2]), {"axis": 1}, None),
    ("take", (A, 1), {"axis": -2}, None),
    ("pad", (A, [[1, 0], [0, 2]]), {}, None),
    ("transpose", (S, (0, 2, 1)), {}, None),
    ("tril", (S,), {"k": -1}, None),
    ("triu", (S,), {}, None),
    ("diagonal", (S,), {"axis1": 1, "axis2": 2}, None),
    ("diag_indices", (3,), {}, None),
    ("tril_indices", (3, -1), {}, None),
    ("triu_indices", (3, 1), {}, None),
    ("meshgrid", (V, W), {"indexing": "ij"}, None),
    ("quantile", (A, 0.3), {"axis": 0}, None),
    ("searchsorted", (np.sort(V), W), {}, None),
    ("unique", (np.array([3, 1, 3]),), {}, None),
    ("trapz", (A,), {"x": np.sort(V), "axis": -1}, np.trapezoid),
    ("trapz", (A,), {"dx": 0.1}, np.trapezoid),
    ("kron", (A, B), {}, None),
    ("cross", (S, T), {}, None),
    ("einsum", ("...ij,...jk->...ik", S, T), {}, None),
    ("matmul", (S, T), {}, None),
    ("trace", (S,), {}, lambda s: np.einsum("...ii->...", s)),
    ("dot", (V, W), {}, None),
    ("dot", (V, A), {}, lambda v, a: a @ v),
    ("dot", (A, V), {}, None),
    ("dot", (A, B), {}, lambda a, b: np.sum(a * b, axis=-1)),
    ("matvec", (A, V), {}, lambda a, v: a @ v),
    ("matvec", (A, np.stack([V, W])), {}, lambda a, v: v @ a.T),
    ("matvec", (S, V[:3]), {}, lambda s, v: s @ v),
    ("matvec", (S, S[:, 0]), {}, lambda s, v: (s @ v[..., None])[..., 0]),
    ("outer", (V, W), {}, None),
    ("outer", (A, B), {}, lambda a, b: a[..., None] * b[..., None, :]),
    ("outer", (V, A), {}, lambda v, a: v[:, None] * a[:, None, :]),
    ("outer", (A, V), {}, lambda a, v: a[..., None] * v),
    ("erf", (A,), {}, scipy.special.erf),
    ("gamma", (1 + P,), {}, scipy.special.gamma),
    ("polygamma", (0, 1 + P), {}, scipy.special.polygamma),
    ("polygamma", (2, 1 + P), {}, scipy.special.polygamma),
    ("comb", (7, 3), {}, scipy.special.comb),
    ("one_hot", ([0, 2], 3), {}, lambda labels, n: np.eye(n, dtype=np.uint8)[labels]),
    ("get_slice", (A, ((0, 2), (1, 3))), {}, lambda a, i: a[i]),
    ("assignment", (V, 2.0, 1), {}, _assigned),
    ("assignment", (V, [2.0, 3.0], [1, 3]), {}, _assigned),
    ("assignment", (A, 2.0, (1, 2)), {}, _assigned),
    ("assignment", (A, [2.0, 3.0], [(0, 1), (2, 3)]), {}, lambda x, v, i: _assigned(x, v, ([0, 2], [1, 3]))),
    ("assignment", (A, 5.0, (1,)), {}, lambda x, v, i: _assigned(x, v, (slice(None), 1))),
    ("assignment", (A, 5.0, (1,)), {"axis": 1}, lambda x, v, i, axis: _assigned(x, v, 1)),
    ("assignment", (A, 0.0, BOOLS), {}, _assigned),
    ("assignment_by_sum", (V, [2.0, 3.0], [1, 3]), {}, lambda *a: _assigned(*a, add=True)),
    ("assignment_by_sum", (A, 2.0, BOOLS), {}, lambda *a: _assigned(*a, add=True)),
    ("scatter_add", (V, 0, np.array([1, 1, 3]), V[:3]), {}, _scatter),
    ("scatter_add", (A, 1, np.array([[1, 1], [0, 2], [3, 3]]), A[:, :2]), {}, _scatter),
    ("array_from_sparse", ([(0, 1), (2, 2)], [1.0, 2.0], (3, 3)), {}, _sparse),
    ("set_diag", (S, S[:, 0]), {}, _diag_set),
    ("vec_to_diag", (V,), {}, np.diag),
    ("vec_to_diag", (A,), {}, lambda a: np.stack([np.diag(row) for row in a])),
    ("tril_to_vec", (S,), {"k": -1}, lambda s, k: s[(slice(None), *np.tril_indices(3, k))]),
    ("triu_to_vec", (S,), {}, lambda s: s[(slice(None), *np.triu_indices(3))]),
    ("mat_from_diag_triu_tril", (V[:3], W[:3], V[1:]), {}, _pieces),
    (
        "ravel_tril_indices",
        (4,),
        {"k": -1},
        lambda n, k: np.ravel_multi_index(np.tril_indices(n, k), (n, n)),
    ),
    ("to_ndarray", (V, 2), {}, lambda v, n: v[None]),
    ("to_ndarray", (V, 2), {"axis": 1}, lambda v, n, axis: v[:, None]),
    ("vectorize", (S, np.trace), {"signature": "(n,n)->()"}, lambda s, f, signature: np.trace(s, axis1=1, axis2=2)),
    ("cast", (A, np.float32), {}, lambda a, d: a.astype(d)),
    ("cast", (Z, np.float64), {}, lambda a, d: a.real),
    ("convert_to_wider_dtype", ([A.astype(np.float32), B],), {}, lambda pair: pair),
]
CONSTANTS = {
    *("int32", "int64", "float32", "float64", "complex64", "complex128", "uint8", "atol", "rtol", "pi"),
    *("as_dtype", "get_default_dtype", "get_default_cdtype", "set_default_dtype", "has_autodiff"),
    *("is_array", "is_bool", "is_complex", "is_floating"),
}


def test_every_name_of_the_interface_is_there():
    from geomstats._backend import BACKEND_ATTRIBUTES

    assert {key: len(names) for key, names in BACKEND_ATTRIBUTES.items()} == {
        "": 143,
        "autodiff": 9,
        "linalg": 20,
        "random": 7,
    }
    for part, names in BACKEND_ATTRIBUTES.items():
        holder = getattr(gs, part) if part else gs
        assert [name for name in names if not hasattr(holder, name)] == []


def test_the_table_knows_every_top_level_name():
    from geomstats._backend import BACKEND_ATTRIBUTES

    assert set(BACKEND_ATTRIBUTES[""]) - {row[0] for row in TABLE} - CONSTANTS == set()


@pytest.mark.parametrize(("name", "args", "kwargs", "oracle"), TABLE, ids=[f"{i}-{r[0]}" for i, r in enumerate(TABLE)])
def test_functions_agree_with_numpy(name, args, kwargs, oracle):
    expected = (oracle or getattr(np, name))(*args, **kwargs)
    _compare(getattr(gs, name)(*args, **kwargs), expected)


def _compare(actual, expected):
    if isinstance(expected, tuple | list) and not isinstance(actual, tuple):
        assert len(actual) == len(expected)
    if isinstance(expected, tuple | list):
        for a, e in zip(actual, expected, strict=True):
            _compare(a, e)
        return
    assert np.shape(actual) == np.shape(expected)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-13)


ARRAYS = [
    row
    for row in TABLE
    if isinstance(row[1][0], np.ndarray) and row[0] not in {"unique", "to_numpy", "vectorize", "where", "is_array"}
]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "oracle"), ARRAYS, ids=[f"{i}-{r[0]}" for i, r in enumerate(ARRAYS)]
)
def test_jit_takes_every_function_of_an_array(name, args, kwargs, oracle):
    traced = jax.eval_shape(lambda x: getattr(gs, name)(x, *args[1:], **kwargs), args[0])
    expected = getattr(gs, name)(*args, **kwargs)
    assert [t.shape for t in jax.tree.leaves(traced) if hasattr(t, "shape")] == [
        np.shape(e) for e in jax.tree.leaves(expected) if hasattr(traced, "shape") or hasattr(e, "shape")
    ]


def test_vmap_and_grad_of_array_functions():
    stacked = jax.vmap(lambda x: gs.vec_to_diag(gs.flip(x, 0)))(A)
    np.testing.assert_allclose(stacked, [np.diag(row[::-1]) for row in A])
    gradient = jax.grad(lambda x: gs.sum(gs.divide(x, x - x[0], ignore_div_zero=True)))(V)
    assert np.all(np.isfinite(gradient))
    gradient = jax.grad(lambda x: gs.sum(gs.assignment(x, x[0] ** 2, 2)))(jnp.asarray(V))
    np.testing.assert_allclose(gradient, [1 + 2 * V[0], 1, 0, 1])
    masked = jax.jit(lambda x: gs.assignment(x, 0.0, x > 0))(A)
    np.testing.assert_allclose(masked, np.minimum(A, 0))


def test_lists_with_tracers_inside():
    rotation = jax.jit(lambda t: gs.array([[gs.cos(t), -gs.sin(t)], [gs.sin(t), gs.cos(t)]]))(0.3)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(2), atol=1e-15)
    assert rotation.shape == (2, 2)


def test_dtypes_follow_the_flag():
    for flag, real, cplx in ((True, np.float64, np.complex128), (False, np.float32, np.complex64)):
        with jax.enable_x64(flag):
            made = [gs.zeros(2), gs.array([1.0]), gs.eye(2), gs.random.rand(2), gs.linspace(0, 1, 3), gs.exp(1.0)]
            assert {x.dtype for x in made} == {np.dtype(real)}
            assert gs.random.normal(size=2, dtype=gs.get_default_cdtype()).dtype == cplx
            assert gs.cast(gs.ones(2), gs.float64).dtype == gs.as_dtype("float64") == real
            assert gs.linalg.sqrtm(gs.eye(2)).dtype == real


def test_default_dtype_can_be_pinned_and_released():
    try:
        assert gs.set_default_dtype("float32") == np.float32
        assert {x.dtype for x in (gs.zeros(2), gs.array([1.0]), gs.array(2.0), gs.exp(1.0))} == {np.dtype("float32")}
        assert gs.array([1j]).dtype == np.complex64
        assert gs.array(V).dtype == np.float64
    finally:
        assert gs.set_default_dtype("float64") == np.float64
    with pytest.raises(ValueError, match=r"set_default_dtype\('float16'\).*'float32' or 'float64'"):
        gs.set_default_dtype("float16")


def test_float32_stays_float32():
    x = jnp.asarray(A, jnp.float32)
    square = x @ x.T + jnp.eye(3, dtype=jnp.float32)
    assert gs.array(x).dtype == gs.matvec(x, x[0]).dtype == gs.polygamma(1, x).dtype == np.float32
    for function in (gs.linalg.logm, gs.linalg.sqrtm, gs.linalg.expm):
        assert function(square).dtype == jax.eval_shape(function, square).dtype == np.float32


def test_predicates_tell_kinds_of_arrays_apart():
    assert gs.is_array(jnp.ones(2))
    assert gs.is_array(np.ones(2))
    assert not gs.is_array([1.0])
    assert gs.is_complex(jnp.asarray(Z))
    assert gs.is_floating(jnp.ones(2))
    assert not gs.is_floating(jnp.arange(2))
    assert gs.is_bool(jnp.ones(2, bool))
    assert gs.has_autodiff()
    assert gs.pi == np.pi


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gs.matmul(jnp.ones(3), jnp.ones((3, 3))), r"shapes \(3,\) and \(3, 3\)"),
        (lambda: gs.to_ndarray(jnp.ones(3), 3), r"shape \(3,\) cannot be seen with 3 axes"),
        (lambda: gs.assignment(jnp.ones(4), [1.0, 2.0], [0, 1, 2]), "2 values for 3 indices"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_vectorize_of_a_function_that_branches():
    result = gs.vectorize(jnp.asarray(V), lambda x: x if x > 0 else 0.0)
    np.testing.assert_allclose(result, np.maximum(V, 0))
