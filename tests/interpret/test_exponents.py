"""A softmax that is written by its logarithms is read as one, where nothing else is said by that."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import quotax as qx
from quotax.interpret.tracing.exponents import as_quotients

SHAPES = {"W": "h x", "b": "h", "U": "k h", "c": "k", "V": "y k"}
WAYS = {
    "logsumexp": lambda z: jnp.exp(z - jax.nn.logsumexp(z, -1, keepdims=True)),
    "log_softmax": lambda z: jnp.exp(jax.nn.log_softmax(z)),
    "by hand": lambda z: jnp.exp(z - jnp.log(jnp.sum(jnp.exp(z), -1, keepdims=True))),
}


@pytest.mark.parametrize("write", WAYS.values(), ids=WAYS)
def test_exponentials_of_differences_are_quotients_of_the_same_value(write):
    z = np.random.default_rng(0).normal(size=(3, 5))
    traced = jax.make_jaxpr(write)(z)
    read = as_quotients(traced)
    assert read is not traced
    np.testing.assert_allclose(jaxpr_as_fun(read)(z)[0], jax.nn.softmax(z), rtol=1e-6)


@pytest.mark.parametrize(
    "write",
    [
        lambda z: jnp.exp(z - jnp.log(z)),  # no value where z is negative
        lambda z: jnp.exp(z - jnp.log(jnp.sum(jnp.exp(z)) - 1)),
        lambda z: jnp.exp(jnp.log(jnp.sum(jnp.exp(z))) - z),
        lambda z: jnp.exp(z - jnp.sum(jnp.exp(z))),
    ],
)
def test_other_exponentials_stay(write):
    traced = jax.make_jaxpr(write)(np.ones((3, 5)))
    assert as_quotients(traced) is traced


@pytest.mark.slow
@pytest.mark.parametrize("write", WAYS.values(), ids=WAYS)
def test_what_reads_a_softmax_gains_a_constant_that_its_bias_takes_back(write):
    @qx.architecture(params=SHAPES, inputs={"x": "x"})
    def model(p, x):
        return p["V"] @ jnp.tanh(p["U"] @ write(p["W"] @ x + p["b"]) + p["c"])

    found = qx.derive(model, progress=lambda line: None)
    assert {"U": "U + g", "c": "c - g"} in [dict(s.action) for s in found]
    assert {found.certificate(s.name).scope for s in found} == {"every width"}
    assert found.audit(h=4, x=3, k=5, y=2).complete


def test_a_root_of_negative_numbers_is_not_made_a_number():
    """`exp(x - log w)^2` has no value at `-w`: a flip of `w` leaves nothing alone there."""

    @qx.architecture(params={"w": "", "v": ""}, inputs={"x": ""})
    def model(p, x):
        return p["v"] * jnp.exp(x - jnp.log(p["w"])) ** 2

    certificate = qx.verify(model, qx.Symmetry("scale", qx.PositiveScalar(), {"w": "g * w", "v": "g**2 * v"}))
    assert "positive" in " ".join(certificate.assumptions)
