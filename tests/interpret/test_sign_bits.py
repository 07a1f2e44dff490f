"""Sign bits are comparisons; other bits of numbers stay what they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import quotax as qx
from quotax.interpret.tracing.sign_bits import comparing

X = np.array([-2.0, -0.5, 0.0, 0.25, 3.0])


def traced(function):
    with jax.enable_x64(True):
        return jax.make_jaxpr(function)(X)


def ran(closed):
    with jax.enable_x64(True):
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, X)[0]


@pytest.mark.parametrize("function", [jnp.signbit, lambda x: jnp.copysign(2.0, x), jax.jit(lambda x: ~jnp.signbit(-x))])
def test_sign_bits_are_read(function):
    closed = traced(function)
    read = comparing(closed)
    assert "bitcast" in str(closed)
    assert "bitcast" not in str(read)
    away = np.asarray(X) != 0
    np.testing.assert_array_equal(np.asarray(ran(read))[away], np.asarray(ran(closed))[away])


BITS = {
    "another bit": lambda x: (lax.bitcast_convert_type(x, jnp.int64) >> 62).astype(bool),
    "as a number": lambda x: lax.bitcast_convert_type(x, jnp.int64) >> 63,
    "of halves": lambda x: (lax.bitcast_convert_type(x, jnp.int32) >> 31).astype(bool),
    "shifted by a number": lambda x: (lax.bitcast_convert_type(x, jnp.int64) >> x.astype(int)).astype(bool),
}


@pytest.mark.parametrize("name", BITS)
def test_other_bits_are_not(name):
    closed = traced(BITS[name])
    assert comparing(closed) is closed


def test_an_even_function_by_its_sign_bit():
    @qx.architecture(params={"w": "h x"}, inputs={"x": "x"})
    def model(p, x):
        z = p["w"] @ x
        return jnp.sum(jnp.cosh(z * (1 - 2 * jnp.signbit(z))))

    flip = {"w": "g @ w"}
    assert qx.verify(model, qx.Symmetry("even", qx.SignFlip("h"), flip)).scope == "every width"
    assert qx.verify(model, qx.Symmetry("not free", qx.PositiveDiagonal("h"), flip)).status == "refuted"
