"""The top level of `geomstats.backend`: geomstats' array vocabulary, spoken by `jax.numpy`.

Where the two agree a name is the `jax.numpy` function, taught to accept lists. The functions written here are those
whose meaning is geomstats' own (batched products, assignment by value, vectors of triangular matrices). Nothing is
changed in place: what numpy would write into its argument is returned.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np

from quotax.geomstats_jax import dtypes
from quotax.geomstats_jax.dtypes import array, arrays, default_of, inexact, lifted, operand


def arange(start_or_stop: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None) -> jax.Array:
    """Evenly spaced numbers; floats take the default dtype."""
    if dtype is None and any(isinstance(value, float) for value in (start_or_stop, stop, step)):
        dtype = dtypes.get_default_dtype()
    dtype = None if dtype is None else dtypes.canonical(dtype)
    bounds = (0, start_or_stop) if stop is None else (start_or_stop, stop)
    return jnp.arange(*bounds, step, dtype=dtype)


def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> jax.Array:
    """`num` evenly spaced points from `start` to `stop`, along a new axis."""
    return jnp.linspace(operand(start), operand(stop), num, endpoint=endpoint, dtype=default_of(dtype), axis=axis)


def zeros(shape: Any, dtype: Any = None) -> jax.Array:
    """An array of zeros."""
    return jnp.zeros(_shape(shape), dtype=default_of(dtype))


def ones(shape: Any, dtype: Any = None) -> jax.Array:
    """An array of ones."""
    return jnp.ones(_shape(shape), dtype=default_of(dtype))


# A list, as well as an integer or a tuple, is a shape to numpy.
def _shape(shape: Any) -> Any:
    return tuple(shape) if isinstance(shape, list) else shape


def eye(n: int, m: int | None = None, k: int = 0, dtype: Any = None) -> jax.Array:
    """The identity matrix."""
    return jnp.eye(n, m, k, dtype=default_of(dtype))


def _like(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    def like(a: Any, dtype: Any = None) -> jax.Array:
        return function(operand(a), dtype=None if dtype is None else dtypes.canonical(dtype))

    return like


def array_from_sparse(indices: Any, data: Any, target_shape: Sequence[int]) -> jax.Array:
    """Zeros, except for `data[i]` at `indices[i]`."""
    data = array(data)
    return jnp.zeros(tuple(target_shape), data.dtype).at[tuple(np.asarray(indices).T)].set(data)


def one_hot(labels: Any, num_classes: int) -> jax.Array:
    """The rows of the identity that `labels` name, as uint8."""
    return jnp.eye(num_classes, dtype=jnp.uint8)[array(labels)]


def copy(x: Any) -> jax.Array:
    """An array equal to `x`."""
    return jnp.array(operand(x), copy=True)


def flatten(x: Any) -> jax.Array:
    """The entries of `x` in one axis."""
    return jnp.ravel(operand(x))


def squeeze(x: Any, axis: Any = None) -> jax.Array:
    """`x` without its axes of length one; an `axis` of another length is left alone."""
    x = array(x)
    if isinstance(axis, int) and x.shape[axis] != 1:
        return x
    return jnp.squeeze(x, axis)


def to_ndarray(x: Any, to_ndim: int, axis: int = 0) -> jax.Array:
    """`x` with `to_ndim` axes, when it lacks one of them."""
    x = array(x)
    if x.ndim == to_ndim - 1:
        x = jnp.expand_dims(x, axis)
    if 0 < x.ndim < to_ndim:
        raise ValueError(f"`gs.to_ndarray`: an array of shape {x.shape} cannot be seen with {to_ndim} axes.")
    return x


def shape(x: Any) -> tuple[int, ...]:
    """The shape of `x`."""
    return jnp.shape(operand(x))


def ndim(x: Any) -> int:
    """The number of axes of `x`."""
    return len(shape(x))


def to_numpy(x: Any) -> np.ndarray:
    """`x` on the host."""
    return np.asarray(x)


def _joined(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    def joined(sequence: Any, *args: Any, **kwargs: Any) -> jax.Array:
        return function(arrays(sequence), *args, **kwargs)

    return joined


def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[jax.Array]:
    """`x` cut along `axis`, into equal sections or at the given indices."""
    if not isinstance(indices_or_sections, int):
        indices_or_sections = np.asarray(indices_or_sections)
    return jnp.split(array(x), indices_or_sections, axis)


def take(a: Any, indices: Any, axis: int | None = None) -> jax.Array:
    """The members of `a` along `axis` that `indices` name."""
    return jnp.take(array(a), array(indices), axis=axis)


def pad(a: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0.0) -> jax.Array:
    """`a` with a margin of `pad_width`."""
    options = {"constant_values": constant_values} if mode == "constant" else {}
    return jnp.pad(array(a), pad_width, mode, **options)


def clip(x: Any, a_min: Any = None, a_max: Any = None) -> jax.Array:
    """`x` limited to [a_min, a_max]."""
    return jnp.clip(operand(x), operand(a_min), operand(a_max))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`x` where the condition holds and `y` elsewhere; the indices where it holds without them (not under jit)."""
    if x is None and y is None:
        return jnp.where(array(condition))
    return jnp.where(array(condition), operand(x), operand(y))


def divide(a: Any, b: Any, ignore_div_zero: bool = False) -> jax.Array:
    """The quotient; zero, with a zero derivative, where `b` is zero if that is to be ignored."""
    if not ignore_div_zero:
        return jnp.divide(operand(a), operand(b))
    a, b = inexact(a), inexact(b)
    # The inner `where` keeps the branch that is not taken finite: its derivative is multiplied by zero, not by inf.
    return jnp.where(b != 0, a / jnp.where(b != 0, b, 1), 0)


# numpy reads lists inside an index as integer arrays, JAX wants them written so.
def _index(indices: Any) -> Any:
    if isinstance(indices, tuple):
        return tuple(np.asarray(i) if isinstance(i, list | tuple) else i for i in indices)
    return np.asarray(indices) if isinstance(indices, list) else indices


def get_slice(x: Any, indices: Any) -> jax.Array:
    """`x[indices]`, with the indices grouped by axis."""
    return array(x)[_index(indices)]


# geomstats' conventions: a list of tuples is one entry each; an index that names fewer axes than `x` has leaves `axis`
# free (the batch), and is applied to every copy along it.
def _target(x: jax.Array, values: Any, indices: Any, axis: int) -> Any:
    sized = np.ndim(indices) > 0 if dtypes.is_array(indices) else hasattr(indices, "__len__")
    entries = sized and np.ndim(indices[0]) > 0
    count = len(indices) if sized else 1
    batched = sized and len(indices) < x.ndim
    if entries:
        indices = tuple(zip(*indices, strict=True))
    if batched:
        return _index((*indices[:axis], slice(None), *indices[axis:]))
    given = values.shape[0] if values.ndim else 1
    if given > 1 and given != count:
        raise ValueError(f"`gs.assignment`: {given} values for {count} indices; give one value, or one for each.")
    return _index(indices)


# A mask is an array of booleans or nested lists of them; it may be traced when one value goes to all its entries.
def _mask(indices: Any) -> Any:
    leaves = jax.tree.leaves(indices)
    is_mask = bool(leaves) and jnp.result_type(leaves[0]) == np.bool_
    return (indices if dtypes.is_array(indices) else np.asarray(indices)) if is_mask else None


def assignment(x: Any, values: Any, indices: Any, axis: int = 0) -> jax.Array:
    """A copy of `x` with `values` at `indices`."""
    x = array(x)
    values, mask = array(values).astype(x.dtype), _mask(indices)
    if mask is not None and values.ndim == 0:
        return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), values, x)
    return x.at[_target(x, values, indices, axis) if mask is None else mask].set(values)


def assignment_by_sum(x: Any, values: Any, indices: Any, axis: int = 0) -> jax.Array:
    """A copy of `x` with `values` added at `indices`; an entry that is named twice receives both."""
    x = array(x)
    values, mask = array(values).astype(x.dtype), _mask(indices)
    if mask is not None and values.ndim == 0:
        return jnp.where(mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim)), x + values, x)
    return x.at[_target(x, values, indices, axis) if mask is None else mask].add(values)


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> jax.Array:  # noqa: A002 (geomstats' name)
    """A copy of `input` with `src` added where `index` says, along the axis `dim` (0 or 1)."""
    x, index, src = array(input), array(index), array(src)
    if dim == 0:
        return x.at[index].add(src)
    if dim == 1:
        return x.at[jnp.arange(index.shape[0])[:, None], index].add(src)
    raise NotImplementedError(f"`gs.scatter_add`: dim is {dim}; 0 and 1 are known.")


def set_diag(x: Any, new_diag: Any) -> jax.Array:
    """A copy of `x` with another diagonal in its last two axes."""
    x = array(x)
    i = np.arange(min(x.shape[-2:]))
    return x.at[..., i, i].set(operand(new_diag))


def vec_to_diag(vec: Any) -> jax.Array:
    """The diagonal matrices of vectors."""
    vec = array(vec)
    return vec[..., None, :] * jnp.eye(vec.shape[-1], dtype=vec.dtype)


def mat_from_diag_triu_tril(diag: Any, tri_upp: Any, tri_low: Any) -> jax.Array:
    """The matrix with a given diagonal and strict upper triangle; the lower one fills the transposed positions."""
    diag, tri_upp, tri_low = dtypes.convert_to_wider_dtype([diag, tri_upp, tri_low])
    i, (j, k) = np.arange(diag.shape[-1]), np.triu_indices(diag.shape[-1], k=1)
    empty = jnp.zeros((*diag.shape, diag.shape[-1]), diag.dtype)
    return empty.at[..., i, i].set(diag).at[..., j, k].set(tri_upp).at[..., k, j].set(tri_low)


def tril_to_vec(x: Any, k: int = 0) -> jax.Array:
    """The entries of the lower triangle of a square matrix, row by row."""
    x = array(x)
    return x[(..., *np.tril_indices(x.shape[-1], k=k))]


def triu_to_vec(x: Any, k: int = 0) -> jax.Array:
    """The entries of the upper triangle of a square matrix, row by row."""
    x = array(x)
    return x[(..., *np.triu_indices(x.shape[-1], k=k))]


# Indices are computed on the host, so that they are constants of a traced function.
def _indices(function: Callable[..., tuple[np.ndarray, ...]]) -> Callable[..., tuple[jax.Array, ...]]:
    def indices(*args: Any, **kwargs: Any) -> tuple[jax.Array, ...]:
        return tuple(map(jnp.asarray, function(*args, **kwargs)))

    return indices


def ravel_tril_indices(n: int, k: int = 0, m: int | None = None) -> jax.Array:
    """The positions of the lower triangle in the flattened matrix."""
    return jnp.asarray(np.ravel_multi_index(np.tril_indices(n, k, m), (n, n if m is None else m)))


def matmul(x: Any, y: Any) -> jax.Array:
    """The matrix product in the last two axes."""
    x, y = array(x), array(y)
    if min(x.ndim, y.ndim) < 2:
        raise ValueError(f"`gs.matmul`: shapes {x.shape} and {y.shape}; both need two axes, see `gs.matvec`.")
    return jnp.matmul(x, y)


def _batched(equation: str) -> Callable[[Any, Any], jax.Array]:
    def product(a: Any, b: Any) -> jax.Array:
        return jnp.einsum(equation, array(a), array(b))

    return product


def einsum(equation: str, *inputs: Any) -> jax.Array:
    """Einstein's summation."""
    return jnp.einsum(equation, *map(array, inputs))


def trace(x: Any) -> jax.Array:
    """The trace in the last two axes."""
    return jnp.trace(array(x), axis1=-2, axis2=-1)


def polygamma(n: Any, x: Any) -> jax.Array:
    """The n-th derivative of the digamma function."""
    return jsp.polygamma(array(n).astype(int), inexact(x))


def vectorize(
    x: Any, pyfunc: Callable[..., Any], multiple_args: bool = False, signature: str | None = None, **_: Any
) -> Any:
    """`pyfunc` mapped over the batch axes of its argument, or of its arguments."""
    args = arrays(x) if multiple_args else [array(x)]
    try:
        return jnp.vectorize(pyfunc, signature=signature)(*args)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        # A function that looks at values can only be mapped value by value, on the host.
        return jax.tree.map(jnp.asarray, np.vectorize(pyfunc, signature=signature)(*map(np.asarray, args)))


def has_autodiff() -> bool:
    """Whether derivatives are available: they are."""
    return True


def tolerances() -> dict[str, float]:
    """`atol` and `rtol`, which geomstats reads once, when it is imported, into the defaults of its functions."""
    double = dtypes.get_default_dtype() == np.float64
    return {"atol": 1e-12, "rtol": 1e-6} if double else {"atol": 1e-6, "rtol": 1e-5}


# fmt: off
_DTYPES = ("int32", "int64", "float32", "float64", "complex64", "complex128", "uint8")
_UNARY = (
    "abs", "all", "amax", "amin", "angle", "any", "arccos", "arccosh", "arcsin", "arctanh", "argmax", "argmin",
    "broadcast_to", "ceil", "conj", "cos", "cosh", "cumprod", "cumsum", "diagonal", "exp", "expand_dims", "flip",
    "floor", "hsplit", "imag", "isnan", "log", "mean", "moveaxis", "prod", "quantile", "real", "repeat", "reshape",
    "sign", "sin", "sinh", "sort", "sqrt", "std", "sum", "tan", "tanh", "tile", "transpose", "tril", "triu", "unique",
)
_BINARY = (
    "allclose", "arctan2", "cross", "equal", "greater", "isclose", "kron", "less", "less_equal", "logical_and",
    "logical_or", "maximum", "minimum", "mod", "power", "searchsorted",
)
# fmt: on

NAMESPACE: dict[str, Any] = {
    **{name: getattr(np, name) for name in _DTYPES},
    **{name: lifted(getattr(jnp, name), 1) for name in _UNARY},
    **{name: lifted(getattr(jnp, name), 2) for name in _BINARY},
    **{name: _joined(getattr(jnp, name)) for name in ("concatenate", "hstack", "stack", "vstack")},
    **{name: _indices(getattr(np, name)) for name in ("diag_indices", "tril_indices", "triu_indices")},
    **{name: _like(getattr(jnp, name)) for name in ("empty_like", "ones_like", "zeros_like")},
    "arange": arange,
    "array": array,
    "array_from_sparse": array_from_sparse,
    "as_dtype": dtypes.as_dtype,
    "assignment": assignment,
    "assignment_by_sum": assignment_by_sum,
    "broadcast_arrays": lambda *args: jnp.broadcast_arrays(*map(array, args)),
    "cast": dtypes.cast,
    "clip": clip,
    "comb": math.comb,
    "convert_to_wider_dtype": dtypes.convert_to_wider_dtype,
    "copy": copy,
    "divide": divide,
    "dot": _batched("...i,...i->..."),
    "einsum": einsum,
    "empty": zeros,
    "erf": lambda x: jsp.erf(inexact(x)),
    "eye": eye,
    "flatten": flatten,
    "from_numpy": jnp.asarray,
    "gamma": lambda x: jsp.gamma(inexact(x)),
    "get_default_cdtype": dtypes.get_default_cdtype,
    "get_default_dtype": dtypes.get_default_dtype,
    "get_slice": get_slice,
    "has_autodiff": has_autodiff,
    "is_array": dtypes.is_array,
    "is_bool": dtypes.is_bool,
    "is_complex": dtypes.is_complex,
    "is_floating": dtypes.is_floating,
    "linspace": linspace,
    "mat_from_diag_triu_tril": mat_from_diag_triu_tril,
    "matmul": matmul,
    "matvec": _batched("...ij,...j->...i"),
    "meshgrid": lambda *args, **kwargs: jnp.meshgrid(*map(array, args), **kwargs),
    "ndim": ndim,
    "one_hot": one_hot,
    "ones": ones,
    "outer": _batched("...i,...j->...ij"),
    "pad": pad,
    "pi": math.pi,
    "polygamma": polygamma,
    "ravel_tril_indices": ravel_tril_indices,
    "scatter_add": scatter_add,
    "set_default_dtype": dtypes.set_default_dtype,
    "set_diag": set_diag,
    "shape": shape,
    "split": split,
    "squeeze": squeeze,
    "take": take,
    "to_ndarray": to_ndarray,
    "to_numpy": to_numpy,
    "trace": trace,
    "trapz": lifted(jnp.trapezoid, 2),
    "tril_to_vec": tril_to_vec,
    "triu_to_vec": triu_to_vec,
    "vec_to_diag": vec_to_diag,
    "vectorize": vectorize,
    "where": where,
    "zeros": zeros,
}
