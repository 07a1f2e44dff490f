"""Projectors onto kernels: their laws in every arithmetic, their words, and what is proved and refuted with them."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx
from quotax.derive.points.vector_fields import RESIDUES
from quotax.errors import SymmetryError
from quotax.interpret.jets.residues import PRIME
from quotax.lower.actions import JAX
from quotax.symmetry import FLOATS, OBJECTS

T = qx.Translation


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "h x", "b2": "h", "V": "y h", "c": "y"}, inputs={"x": "x"})
def maxout(p, x):
    return jnp.tanh(p["V"] @ jnp.maximum(p["W1"] @ x + p["b1"], p["W2"] @ x + p["b2"]) + p["c"])


@qx.architecture(params={"W": "layer p h x", "V": "layer h y"}, inputs={"x": "x"})
def layers(p, x):
    z = jnp.max(jnp.einsum("lphx,x->lph", p["W"], x), axis=1)
    return jnp.sum(jnp.sin(jnp.einsum("lhy,lh->ly", p["V"], z)), axis=0)


def added(text):
    return {"W1[h,x]": f"W1[h,x] + {text}", "W2[h,x]": f"W2[h,x] + {text}"}


INTO = added("null(V)[h,l] g[l,x]")


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(2, 4), st.integers(0, 3))
@settings(max_examples=20)
def test_a_projector_is_one_onto_the_kernel_whatever_the_rank(seed, rows, n, rank):
    rng = np.random.default_rng(seed)
    low = min(rank, rows, n)
    matrix = rng.integers(-3, 4, (rows, low)) @ rng.integers(-3, 4, (low, n))
    found = np.asarray(OBJECTS.projector([matrix.astype(object)]), float)
    assert np.allclose(matrix @ found, 0)
    assert np.allclose(found @ found, found)
    assert np.allclose(found, found.T)
    assert np.isclose(np.trace(found), n - np.linalg.matrix_rank(matrix))
    assert np.allclose(FLOATS.projector([1.0 * matrix]), found)
    residues = RESIDUES.projector([matrix % PRIME])
    assert not (matrix @ residues % PRIME).any()
    assert not ((residues @ residues - residues) % PRIME).any()


def test_the_derivative_is_that_at_a_constant_rank():
    keys = jax.random.split(jax.random.key(0))
    matrix, change = (jax.random.normal(key, (2, 2, 4)) for key in keys)
    onto = lambda t: JAX.projector([matrix + t * change])
    np.testing.assert_allclose(onto(0.0), FLOATS.projector([np.asarray(matrix)]), atol=1e-12)
    slope = jax.jvp(onto, (0.0,), (1.0,))[1]
    assert np.allclose(slope, (onto(1e-5) - onto(-1e-5)) / 2e-5, atol=1e-8)


def test_shifts_into_the_kernel_behind_a_maximum_are_proved():
    certificate = qx.verify(maxout, qx.Symmetry("kernel", T("x", each="h"), INTO))
    assert (certificate.status, certificate.scope) == ("proved", "every width")
    assert "of any rank of V: the action is smooth where that is constant" in certificate.assumptions
    assert certificate.recheck()
    biases = qx.Symmetry("biases", T("h"), {"b1": "b1 + null(V) @ g", "b2": "b2 + null(V) @ null(V) @ g"})
    assert qx.verify(maxout, biases).status == "proved"
    for text, status in (
        ("null(V)[layer,h,l]", "proved"),
        ("null(V)[h,l]", "proved"),
        ("null(V)[layer,l,h]", "proved"),
    ):
        one = qx.Symmetry("one", T("x", each="layer h"), {"W[layer,p,h,x]": f"W[layer,p,h,x] + {text} g[layer,l,x]"})
        assert qx.verify(layers, one).status == status


@pytest.mark.parametrize(
    ("group", "action"),
    [
        (T("x", each="h"), {"W1[h,x]": "W1[h,x] + null(V)[h,l] g[l,x]"}),  # one piece alone
        (T("x", each="h"), INTO | {"W2[h,x]": "W2[h,x] - null(V)[h,l] g[l,x]"}),
        (T("x", each="h"), added("null(W1)[h,l] g[l,x]")),  # of another array
        (T("x", each="h"), added("(g[h,x] - null(V)[h,l] g[l,x])")),  # its complement
        (T("x", each="h"), INTO | {"V[y,h]": "V[y,h] + null(V)[h,l] W1[l,x] g[h,x]"}),  # and the map moves too
        (T("h"), {"b1": "b1 + null(V) @ g", "c": "c + V @ null(V) @ g + V @ g"}),
        (qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "null(V) @ W2"}),
    ],
)
def test_broken_twins_are_refuted(group, action):
    assert qx.verify(maxout, qx.Symmetry("broken", group, action)).status == "refuted"


def test_a_kernel_of_another_layer_is_refuted():
    """The sum over layers of all kernels is not the kernel of each."""
    wrong = {"W[layer,p,h,x]": "W[layer,p,h,x] + null(V)[m,h,l] g[m,l,x]"}
    with pytest.raises(SymmetryError, match="index 'm' must be one of the left side"):
        qx.verify(layers, qx.Symmetry("wrong", T("x", each="layer h"), wrong))
    every = {"W[layer,p,h,x]": "W[layer,p,h,x] + null(V)[layer,h,l] g[p,l,x]"}
    assert qx.verify(layers, qx.Symmetry("by piece", T("x", each="p h"), every)).status == "refuted"


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ({"b1": "b1 + null(g) @ g"}, "null takes parameters, got 'g'"),
        ({"b1": "b1 + null(V.T) @ g"}, "its sides have axes 'y y' and 'h'"),
        ({"b1": "b1 + null(V, c) @ g"}, "is of maps from different axes, h and y"),
        ({"b1[h]": "b1[h] + null(c)[h,l] g[l]"}, "c ('y') has not one axis 'h'"),
    ],
)
def test_what_is_no_kernel_is_refused(action, said):
    with pytest.raises(SymmetryError, match=re.escape(said)):
        qx.Symmetry("wrong", T("h"), action).bind(maxout.params)


@pytest.mark.slow
def test_no_metric_is_said_to_be_invariant_under_shifts_into_kernels():
    """The kernel turns with the map: how the shift pushes tangents forward depends on them."""
    into = qx.Symmetry("kernel", T("h"), {"b1": "b1 + null(V) @ g", "b2": "b2 + null(V) @ g"})
    assert qx.verify_metric(maxout, into, "euclidean").status == "undecided"
    net = maxout.at(h=4, x=2, y=2)
    with pytest.warns(qx.errors.MetricWarning, match="not invariant"):
        space = qx.quotient(net, [into], metric="euclidean")
    assert (space.fiber_dim, space.metric_certificate.status) == (2, "refuted")
    with pytest.warns(qx.errors.MetricWarning):
        assert qx.quotient(maxout.at(h=2, x=2, y=3), [into], metric="euclidean").fiber_dim == 0
    params = net.init(jax.random.key(0))
    x = jnp.ones(2)
    moved = space.act(params, space.random_element(jax.random.key(1)))
    assert jnp.allclose(net(params, x), net(moved, x))
    assert not jnp.allclose(params["b1"], moved["b1"])


def test_derive_finds_them():
    found = qx.derive(maxout)
    assert found["kernel x h"].action["W1[h,x]"] == "W1[h,x] + null(V)[h,h_] * g[x,h_]"
    for h, x, y in ((4, 3, 2), (3, 2, 1), (2, 3, 4)):
        audit = found.audit(h=h, x=x, y=y)
        assert audit.complete
        assert audit.orbit == 2 * h + max(h - y, 0) * x
