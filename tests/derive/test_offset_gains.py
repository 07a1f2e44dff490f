"""Gains that are written as `1 + w`, or `w - r` for any number: scaled about a point that is not zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx


def gained(write):
    @qx.architecture(params={"W": "h x", "w": "h", "U": "y h", "V": "y h"}, inputs={"x": "x"})
    def model(p, x):
        z = write(p["w"]) * jnp.tanh(p["W"] @ x)
        return jnp.sin(p["U"] @ z) * jnp.cos(p["V"] @ z)

    return model


@qx.architecture(params={"a": "h", "W": "h x", "b": "h"}, inputs={"x": "x"})
def exponential(p, x):
    return jnp.sum((p["a"] - 2) * jnp.exp(p["W"] @ x + p["b"]))


WAYS = {
    "1 + w": (lambda w: 1 + w, "g[h] * (w[h] + 1) - 1"),
    "w / 3 - 1/2": (lambda w: w / 3 - 0.5, "g[h] * (w[h] - (3/2)) + (3/2)"),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_gain_is_scaled_about_its_zero(name):
    write, words = WAYS[name]
    model = gained(write)
    found = qx.derive(model, progress=lambda line: None)
    (scale,) = found.families
    assert scale.group == qx.Diagonal("h")
    assert scale.action == {"w[h]": words, "U": "U @ inv(g)", "V": "V @ inv(g)"}
    assert found.certificate(scale.name).scope == "every width"
    assert scale.bind(model.params) == qx.Symmetry(scale.name, scale.group, scale.action).bind(model.params)
    for sizes in ({"x": 3, "h": 4, "y": 2}, {"x": 5, "h": 2, "y": 3}):
        assert found.audit(**sizes).surplus == 0
    for twin in ({"w": "g @ w"}, {"w[h]": "g[h] * (w[h] + 2) - 2"}):
        action = twin | {"U": "U @ inv(g)", "V": "V @ inv(g)"}
        assert qx.verify(model, qx.Symmetry("twin", scale.group, action)).status == "refuted"


def test_a_shift_of_another_parameter_scales_about_a_point_too():
    found = qx.derive(exponential, progress=lambda line: None)
    (family,) = found.families
    assert family.action == {"a[h]": "exp(g[h]) * (a[h] - 2) + 2", "b": "b - g"}
    assert found.audit(h=3, x=4).surplus == found.audit(h=4, x=2).surplus == 0


@pytest.mark.parametrize("model", [gained(lambda w: 1 + w), exponential], ids=["gain", "exponential"])
def test_no_named_metric_claims_to_be_invariant_under_it(model):
    found = qx.derive(model, progress=lambda line: None)
    net = model.at(**dict(zip(model.axis_names, (3, 4, 2), strict=False)))
    (family,) = found.families
    assert set(qx.quotient(net, found, metric="invariant").left_out) == {family.name}
    with pytest.warns(qx.MetricWarning):
        space = qx.quotient(net, family, metric="invariant")
    assert space.metric_certificate.status == "refuted"
    with pytest.warns(qx.MetricWarning):
        space = qx.quotient(net, found)
    params = jax.tree.map(lambda a: a + 0.1, net.init(jax.random.key(0)))
    moved = space.act(params, space.random_element(jax.random.key(1), scale=0.3))
    np.testing.assert_allclose(net(moved, jnp.ones(net.sizes["x"])), net(params, jnp.ones(net.sizes["x"])), rtol=1e-6)
    assert space.fiber_dim == net.sizes["h"]
