"""Gains that are written as `1 + w`, or `w - r` for any number: scaled about a point, and seen through."""

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


@pytest.mark.parametrize("name", ["1 + w", pytest.param("w / 3 - 1/2", marks=pytest.mark.slow)])
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


@pytest.mark.slow
def test_a_shift_of_another_parameter_scales_about_a_point_too():
    found = qx.derive(exponential, progress=lambda line: None)
    (family,) = found.families
    assert family.action == {"a[h]": "exp(g[h]) * (a[h] - 2) + 2", "b": "b - g"}
    assert found.audit(h=3, x=4).surplus == found.audit(h=4, x=2).surplus == 0


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(gained(lambda w: 1 + w), id="gain", marks=pytest.mark.slow),
        pytest.param(exponential, id="exponential"),
    ],
)
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


def rms(z):
    return z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-6)


@qx.architecture(params={"E": "d x", "w": "d", "U": "y d", "H": "y d"}, inputs={"x": "x"})
def stream(p, x):
    z = p["E"] @ x
    return jnp.sin(p["U"] @ (rms(z) * (1 + p["w"]))) + p["H"] @ rms(z)


SEEN = {"E": "g @ E", "H": "H @ g.T"}


def test_a_stream_is_turned_through_such_a_gain():
    found = qx.derive(stream, progress=lambda line: None)
    turn, _ = found.families
    assert turn.group == qx.O("d")
    assert turn.action == SEEN | {"U[y,d]": "g[d,d_] * U[y,d_] * (w[d_] + 1) / (w[d] + 1)"}
    assert all(found.certificate(s.name).scope == "every width" for s in found.families)
    assert turn.bind(stream.params) == qx.Symmetry(turn.name, turn.group, turn.action).bind(stream.params)
    assert found.audit(d=4, x=5, y=3).surplus == 0
    for seen in ("w[d_] / w[d]", "(w[d_] + 2) / (w[d] + 2)", "(w[d] + 1) / (w[d_] + 1)"):
        twin = qx.Symmetry("twin", turn.group, SEEN | {"U[y,d]": f"g[d,d_] * U[y,d_] * {seen}"})
        assert qx.verify(stream, twin).status == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("norm", [rms, lambda z: rms(z - jnp.mean(z, -1, keepdims=True))], ids=["RMSNorm", "LayerNorm"])
def test_stacked_layers_are_turned_through_two_gains_each(norm):
    blocks = {"g": "layer d", "b": "layer d", "s": "layer d", "U": "layer f d", "u": "layer f", "O": "layer d f"}

    @qx.architecture(params={"E": "d x", "L": blocks, "w": "d", "H": "y d"}, inputs={"x": "x"})
    def stacked(p, x):
        def body(z, own):
            read = (norm(z) * (1 + own["g"]) + own["b"]) * own["s"]
            return z + own["O"] @ jnp.tanh(own["U"] @ read + own["u"]), None

        z, _ = jax.lax.scan(body, p["E"] @ x, p["L"])
        return p["H"] @ (norm(z) * (0.5 + p["w"]))

    found = qx.derive(stacked, progress=lambda line: None)
    assert not found.unproved
    for sizes in ({"layer": 2, "d": 4, "x": 6, "f": 5, "y": 3}, {"layer": 3, "d": 3, "x": 5, "f": 4, "y": 6}):
        assert found.audit(**sizes).surplus == 0
