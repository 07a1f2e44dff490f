"""A norm behind a norm: the first one's length is a positive factor, which the second one divides by again."""

import jax
import jax.numpy as jnp
import pytest

import quotax as qx

LINEAR = {"A": "g @ A", "B": "B @ inv(g)"}


def normed(eps=0.0, outer=None, gain=lambda z: z):
    rms = lambda z, e: z * jax.lax.rsqrt(jnp.mean(z * z) + e)

    @qx.architecture(params={"A": "h x", "B": "d h", "C": "y d"}, inputs={"x": "x"})
    def model(p, x):
        inner = gain(rms(p["A"] @ x, eps))
        return p["C"] @ jnp.tanh(rms(p["B"] @ inner, eps) if outer is None else outer(p["B"] @ inner))

    return model


def test_of_the_first_norm_a_direction_is_left():
    certificate = qx.verify(normed(), qx.Symmetry("linear", qx.GL("h"), LINEAR))
    assert (certificate.status, certificate.scope) == ("proved", "every width")
    assert certificate.recheck()


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(normed(eps=1e-2), id="eps"),
        pytest.param(normed(outer=jnp.sin), id="no second norm", marks=pytest.mark.slow),
        pytest.param(normed(gain=jnp.tanh), id="between", marks=pytest.mark.slow),
    ],
)
def test_a_length_that_something_else_sees_stays(model):
    certificate = qx.verify(model, qx.Symmetry("linear", qx.GL("h"), LINEAR))
    assert certificate.status == "refuted"


@pytest.mark.slow
def test_a_factor_below_zero_is_no_length():
    scale = lambda group: qx.Symmetry("scale", group, {"A": "g * A"})
    assert qx.verify(normed(), scale(qx.PositiveScalar())).status == "proved"
    flip = qx.Symmetry("flip", qx.SignFlip("h"), {"A": "g @ A"})
    assert qx.verify(normed(), flip).status == "refuted"
