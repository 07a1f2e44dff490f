"""The general ansatz on parameters that occur together in what is left, and proofs of its fields by laws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.certify.claims.vector_field import prove_flat
from quotax.derive.candidates import unnamed
from quotax.derive.candidates.unexplained import FlatClasses, unexplained
from quotax.derive.points.exact_jacobian import ExactJacobian, exact_jacobian

BY_LAWS = "every output is the zero polynomial  [normal form]"


def quiet(model, **settings):
    return qx.derive(model, progress=lambda line: None, **settings)


@qx.architecture(
    params={"S": "s x", "V": "w s", "W": "h w", "b": "h", "A": "y h"},
    inputs={"x": "x"},
)
def read_by_softmax(p, x):
    """What a softmax hides, `A + q 1^T` with `b`, behind layers that have nothing to do with it."""
    return p["A"] @ (jax.nn.softmax(p["W"] @ jnp.tanh(p["V"] @ jnp.sin(p["S"] @ x))) + p["b"])


def test_a_model_that_is_too_large_for_the_ansatz_is_looked_at_where_something_is_left(monkeypatch):
    monkeypatch.setattr(unnamed, "SMALL", 30)
    found = quiet(read_by_softmax)
    (family,) = found.unnamed
    assert family.among == ("A", "b")
    assert BY_LAWS in family.certificate.steps
    assert (found.unproved, found.unsearched) == ((), ())
    assert found.audit(**family.sizes).surplus == 0
    assert {str(s).partition("[")[0] for f in family.fields for s in f} == {"A", "b"}
    again = type(family).from_dict(family.to_dict(), read_by_softmax, "affine")
    assert np.array_equal(again.coefficients, family.coefficients)


def test_a_field_of_hundreds_of_components_is_proved_by_laws():
    sizes = {"s": 3, "x": 4, "w": 2, "h": 11, "y": 12}
    found = quiet(read_by_softmax, sizes=sizes)
    (family,) = found.unnamed
    assert len(family.fields) == sizes["h"]
    assert max(map(len, family.fields)) > 100
    assert BY_LAWS in family.certificate.steps


def test_what_a_proof_by_laws_assumes_is_said():
    @qx.architecture(params={"W": "t x", "b": "t", "A": "y t"}, inputs={"x": "x", "m": qx.Mask("t")})
    def masked(p, x, m):
        return p["A"] @ (jax.nn.softmax(jnp.where(m > 0, p["W"] @ x, -1e10)) + p["b"])

    (family,) = quiet(masked).unnamed
    assert BY_LAWS in family.certificate.steps
    assert any("stands for minus infinity" in a for a in family.certificate.assumptions)


def test_what_was_not_looked_at_in_a_large_model_is_said(monkeypatch):
    @qx.architecture(params={"W": "h x", "V": "h x"}, inputs={"x": "x"})
    def turned_entry_by_entry(p, x):
        return (p["W"] ** 2 + p["V"] ** 2) @ x

    monkeypatch.setattr(unnamed, "SMALL", 10)
    found = quiet(turned_entry_by_entry)
    assert not found.unnamed
    assert found.unsearched
    assert all(what.endswith("and 10 at most)") for what in found.unsearched)


def test_a_field_that_changes_the_outputs_has_no_proof():
    trace = read_by_softmax.trace({"s": 2, "x": 3, "w": 4, "h": 5, "y": 2})
    unit = jnp.eye(5)[0]

    def hidden(sign, weight=1.0):
        return lambda p: {
            "A": jnp.outer(p["A"] @ unit, jnp.ones(5)),
            "b": sign * unit * (weight + jnp.sum(p["b"])),
        }

    assert prove_flat(trace, hidden(-1.0), 20) is not None
    assert prove_flat(trace, hidden(1.0), 5) is None
    assert prove_flat(trace, hidden(-1.0, 2.0), 5) is None


def test_minimal_sets_and_connected_ones():
    """Flat: (1, 1, 0, 0), (0, 0, 1, 0) and (0, 0, 0, 1), of which the last is known."""
    flat = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    rows = np.array([[1, -1, 0, 0]])
    here = ExactJacobian(np.ones(4, np.int64), rows, np.array([0]), False)
    assert np.array_equal(here.flat, flat)
    specs = read_by_softmax.params[:4]
    names = [s.name for s in specs]
    rest = unexplained(specs, [(1,)] * 4, here, flat[2:])
    assert (rest.count, set(rest.sets)) == (2, {tuple(names[:2]), (names[2],)})
    assert set(rest.connected) == {tuple(sorted(names[:2])), (names[2],)}
    assert FlatClasses(flat, flat).left == 0


@pytest.mark.parametrize("given", [{"s": 2, "x": 3, "w": 4, "h": 3, "y": 2}])
def test_the_exact_jacobian_sends_its_flat_directions_to_zero(given):
    here = exact_jacobian(read_by_softmax.trace(given), np.random.default_rng(0))
    assert here is not None
    assert here.rank + len(here.flat) == len(here.theta)
    assert not ((here.rows @ here.flat.T) % 8388593).any()
