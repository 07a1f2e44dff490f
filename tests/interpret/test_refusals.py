"""What cannot be read is refused by name, with the user's own line and what to do."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from quotax.artifacts import ArraySpec
from quotax.errors import ArchitectureError, UnsupportedPrimitiveError
from quotax.interpret import symbolic_outputs, trace
from quotax.interpret.shared.reductions import cumlogsumexp
from quotax.interpret.tracing.provenance import place

SQUARE = ArraySpec("x", (("n",), ("n",)))


def refusal(function: Any, inputs: tuple[ArraySpec, ...] = (SQUARE,)) -> str:
    """The message."""
    with pytest.raises(UnsupportedPrimitiveError) as caught:
        symbolic_outputs(trace(lambda _, *xs: function(*xs), (), inputs, {"n": 2}))
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "name", "advice"),
    [
        (lambda x: jnp.linalg.svd(x)[1], "svd", "matrix factorisations are not read"),
        (lambda x: jnp.linalg.inv(x), "lu", "matrix factorisations are not read"),
        (lambda x: x + jax.random.normal(jax.random.key(x[0, 0].astype(int))), "random_seed", "pass what is drawn"),
        (lambda x: jnp.sort(x), "sort", "use `jnp.max`"),
        (lambda x: lax.top_k(x, 1)[0], "top_k", "use `jnp.max`"),
        (lambda x: jnp.sort(x + 1j).real, "complex", "their real and imaginary parts"),
        (lambda x: jax.scipy.special.gammaln(x), "lgamma", "add a row for `lgamma` to quotax/interpret/primitives.py"),
        (lambda x: lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, x), "while", "its length is not fixed"),
        (lambda x: x / 0.0, "div", "divided by the constant 0"),
        (lambda x: x * jnp.inf, "mul", "whose sign is not known"),
        (lambda x: x.at[jnp.argmax(x[0])].set(0.0), "scatter", "its positions depend on the parameters or inputs"),
        (lambda x: jax.pure_callback(np.sin, x, x), "pure_callback", "a callback's formula is not visible"),
    ],
)
def test_refused_by_name(function: Any, name: str, advice: str) -> None:
    """The message names the primitive, this file and line, and what to do."""
    message = refusal(function)
    assert message.startswith(f"cannot read the JAX primitive `{name}` at interpret/test_refusals.py:")
    assert advice in message
    assert "What to do: " in message


def test_place_is_the_users_line() -> None:
    """The line is the one that called JAX, in the user's function."""

    def model(x: Any) -> Any:
        x = x + 1
        return jnp.linalg.svd(x)[1]

    line = model.__code__.co_firstlineno + 2
    said = refusal(model)
    assert f"interpret/test_refusals.py:{line} (in `test_place_is_the_users_line.<locals>.model`)" in said
    assert str(Path(__file__).parents[1]) not in said  # the machine's folders are nobody's business


def test_bits_of_tokens_are_refused() -> None:
    """Bitwise operations on tokens are refused."""
    assert "works on the bits of integers" in refusal(lambda t: t & 1, (ArraySpec("t", (("n",),), "tokens", 3),))


def test_error_while_tracing_names_the_sizes() -> None:
    """What the user's function raises is told with the sizes used, and chained."""
    weights = (ArraySpec("W", (("h",), ("x",))),)

    def mlp(p: Any, x: Any) -> Any:
        return p["W"].T @ x

    with pytest.raises(ArchitectureError, match=r"`mlp` raised TypeError while it was traced at h=2, x=3") as caught:
        trace(mlp, weights, (ArraySpec("x", (("x",),)),), {"h": 2, "x": 3})
    assert "W: (2, 3), x: (3,)" in str(caught.value)
    assert isinstance(caught.value.__cause__, TypeError)


def test_names_that_collide() -> None:
    """A name cannot be an array and a group of arrays."""
    with pytest.raises(ArchitectureError, match="'a/b' lies inside 'a', which is an array itself"):
        trace(lambda p: p, (ArraySpec("a", ()), ArraySpec("a/b", ())), (), {})
    with pytest.raises(ArchitectureError, match="'a' is declared twice"):
        trace(lambda p: p, (ArraySpec("a/b", ()), ArraySpec("a", ())), (), {})


def test_an_axis_without_a_size_is_named() -> None:
    """An axis without a size is named."""
    with pytest.raises(ArchitectureError, match="no size for axis 'n' of 'x'"):
        trace(lambda p, x: x, (), (SQUARE,), {"m": 2})


def test_trace_keeps_order_types_and_flags() -> None:
    """Parameters come in declared order; real inputs are float64, tokens int32; the x64 flag outside is left alone."""
    params = (ArraySpec("z", ((1,),)), ArraySpec("a/w", ((2,),)), ArraySpec("a/b", ()))
    inputs = (ArraySpec("t", ((4,),), "tokens", 3), ArraySpec("m", ((5,),), "mask"))
    with jax.enable_x64(False):
        traced = trace(lambda p, t, m: {"out": p["a"]["w"] + p["z"] * 0.1}, params, inputs, {})
        assert jnp.zeros(1).dtype == jnp.float32
    shapes = [(v.aval.shape, str(v.aval.dtype)) for v in traced.jaxpr.jaxpr.invars]
    assert shapes == [((1,), "float64"), ((2,), "float64"), ((), "float64"), ((4,), "int32"), ((5,), "float64")]
    assert [spec.name for spec in traced.arrays] == ["z", "a/w", "a/b", "t", "m"]
    assert traced.out_tree == jax.tree.structure({"out": 0})


def test_no_place_is_a_line_of_the_interpreter():
    written_out = jax.make_jaxpr(lambda x: cumlogsumexp({"axis": 0, "reverse": False}, x))(jnp.ones(2))
    assert all("test_refusals.py" in place(equation) for equation in written_out.jaxpr.eqns)
