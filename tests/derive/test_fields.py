"""Laws: what is derived is tangent and invariant on random architectures; fields and tables are what they say."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx
from quotax import catalogue
from quotax.derive.candidates import polynomial_fields
from quotax.derive.points.float_model import FloatModel
from quotax.derive.points.vector_fields import dimensions, fields_at

ACTIVATIONS = {
    "identity": lambda z: z,
    "relu": jax.nn.relu,
    "leaky": jax.nn.leaky_relu,
    "tanh": jnp.tanh,
    "square": lambda z: z**2,
    "exp": jnp.exp,
    "own": lambda z: jnp.where(z > 0, 2 * z, -0.5 * z),
    "clipped": lambda z: jnp.clip(z, -1, 2),
    "gate": lambda z: z * jax.nn.sigmoid(2 * z),
}


@st.composite
def architectures(draw):
    """One to three layers, each with an activation, perhaps a bias, a skip, a gate."""
    depth = draw(st.integers(1, 2))
    layers = [
        (draw(st.sampled_from(sorted(ACTIVATIONS))), draw(st.booleans()), draw(st.booleans()), draw(st.booleans()))
        for _ in range(depth)
    ]
    axes = ["x", *(f"h{i}" for i in range(depth))]
    params = {"out": f"y {axes[-1]}"}
    for i, (_, bias, skip, gate) in enumerate(layers):
        params[f"W{i}"] = f"{axes[i + 1]} {axes[i]}"
        params |= {f"b{i}": axes[i + 1]} if bias else {}
        params |= {f"S{i}": f"{axes[i + 1]} {axes[i]}"} if skip else {}
        params |= {f"G{i}": f"{axes[i + 1]} {axes[i]}"} if gate else {}

    @qx.architecture(params=params, inputs={"x": "x"})
    def random_net(p, x):
        z = x
        for i, (name, bias, skip, gate) in enumerate(layers):
            a = ACTIVATIONS[name](p[f"W{i}"] @ z + (p[f"b{i}"] if bias else 0))
            a = a * (p[f"G{i}"] @ z) if gate else a
            z = a + p[f"S{i}"] @ z if skip else a
        return p["out"] @ z

    return random_net


@pytest.mark.slow
@settings(max_examples=6)
@given(architectures())
def test_whatever_is_returned_is_tangent_and_invariant(model):
    found = qx.derive(model, progress=lambda line: None)
    sizes = dict.fromkeys(model.axis_names, 3)
    trace = model.trace(sizes)
    running = FloatModel(trace)
    rng = np.random.default_rng(0)
    theta = 0.5 * running.point(rng)
    inputs = running.inputs(rng)
    with jax.enable_x64(True):
        jacobian = np.asarray(jax.jacrev(running.outputs)(theta, *inputs))
    scale = np.abs(jacobian).max() * max(1.0, np.abs(theta).max())
    for symmetry, certificate in found.proved:
        assert certificate
        action = symmetry.bind(model.params)
        fields = fields_at(action, trace.params, sizes, theta)
        assert np.abs(jacobian @ fields.T).max(initial=0.0) <= 1e-10 * scale
    space = [s for s in found if s.group.continuous]
    if space:
        net = model.at(**sizes)
        params = net.init(jax.random.key(1))
        quotient = qx.quotient(net, found)
        moved = quotient.act(params, quotient.random_element(jax.random.key(2), scale=0.3))
        x = jax.random.normal(jax.random.key(3), (3,))
        assert np.allclose(net(moved, x), net(params, x), rtol=1e-8, atol=1e-8)
    audit = found.audit(**sizes)
    assert audit.orbit <= audit.flat
    assert dimensions(found.actions, model.params, sizes)[1] <= audit.flat


def row(name):
    return catalogue.load(name).architecture


def test_generators_annihilate_the_outputs(derived):
    for name in ("linear/biases", "softmax_classifier", "diagonal_linear/squares"):
        model = row(name)
        sizes = dict.fromkeys(model.axis_names, 2)
        outputs = model.expression(**sizes)
        flat = list(outputs) if hasattr(outputs, "shape") else [outputs]
        fields = derived(model).generators(**sizes)
        assert fields
        for field in fields:
            for out in flat:
                along = sp.Add(*(sp.diff(out, s) * e for s, e in field.items()))
                assert sp.simplify(along) == 0


def test_the_quotient_takes_what_was_derived(derived):
    model = row("linear")
    net = model.at(x=4, h=2, y=3)
    found = derived(model)
    space = qx.quotient(net, found)
    assert space.fiber_dim == found.audit(x=4, h=2, y=3).orbit


def test_the_surplus_has_directions(derived):
    audit = derived(row("linear")).audit(x=1, h=2, y=3)
    theta, directions = audit.directions()
    assert (audit.surplus, audit.complete, directions.shape) == (1, False, (1, len(theta)))


def test_the_table_is_readable(derived):
    found = derived(row("mlp/relu"))
    text = str(found)
    assert text.splitlines()[0].endswith("algebra h, orbit h")
    assert "R+^h" in text
    assert "proved" in text
    assert found.latex().startswith(r"\begin{tabular}")
    assert "<table>" in found._repr_html_()
    assert found["scale h"].group == qx.PositiveDiagonal("h")
    assert [s.name for s in found.discrete] == ["permute h"]


def test_signs_of_odd_activations_and_the_offset_of_the_sigmoid():
    def net(activation):
        @qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h", "b2": "y"}, inputs={"x": "x"})
        def model(p, x):
            return p["W2"] @ activation(p["W1"] @ x + p["b1"]) + p["b2"]

        return {s.name: s for s in qx.derive(model, progress=lambda line: None).discrete}

    assert set(net(jnp.tanh)) == {"permute h", "flip h"}
    assert "W2[y,h_] * (1 - g[h_])" in net(jax.nn.sigmoid)["flip h"].action["b2[y]"]
    assert set(net(jax.nn.softplus)) == {"permute h"}


@pytest.mark.parametrize("ansatz", ["full", "quadratic"])
def test_the_general_ansatz_finds_what_templates_do_not(ansatz):
    @qx.architecture(params={"a": "", "b": "", "c": ""}, inputs={"x": ""})
    def model(p, x):
        return (p["a"] ** 2 + p["b"] ** 2) * x + p["c"]

    found = qx.derive(model, ansatz, progress=lambda line: None)
    assert not list(found)
    (family,) = found.unnamed
    assert len(family.fields) == 1
    assert found.audit().complete


def test_rotations_seen_through_gains_are_found():
    @qx.architecture(params={"W": "h x", "gain": "h", "A": "y h"}, inputs={"x": "x"})
    def model(p, x):
        z = p["W"] @ x
        return p["A"] @ (p["gain"] * z * jax.lax.rsqrt(jnp.mean(z**2)))

    found = qx.derive(model, progress=lambda line: None)
    assert sorted(str(s.group) for s in found) == ["O(h)", "R*^h", "R+"]
    assert found.audit(x=4, h=3, y=3).complete


def test_sizes_that_are_numbers_may_occur_twice():
    """Biases `(1, 1)` beside kernels `(1, h, 1)`, as convolutions to one channel have them."""
    model = qx.architecture(params={"K": "1 h 1", "b": "1 1"}, inputs={"x": "h"})(
        lambda p, x: p["K"][:, :, 0] @ x + p["b"][0]
    )
    added = polynomial_fields.bases(model.trace({"h": 2}), "affine")["axes"]
    assert any(getattr(piece, "order", None) == (0, 2) for _, piece in added.pieces)
