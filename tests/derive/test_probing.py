"""Audits of networks too large for a rank: flat by random products, ranks against the exact ones."""

from __future__ import annotations

import pytest

import quotax as qx
from quotax import catalogue
from quotax.derive.points.probing import FLAT, probe
from quotax.derive.points.vector_fields import dimensions
from quotax.errors import SymmetryError


def model(name):
    return catalogue.load(name).architecture


def test_a_large_network_has_algebra_and_orbit_and_says_what_it_has_not(derived):
    audit = derived(model("deep_mlp")).audit(x=40, h=50, k=30, y=4)
    assert (audit.parameters, audit.algebra, audit.orbit, audit.stabiliser) == (3704, 80, 80, 0)
    assert (audit.rank, audit.flat, audit.surplus, audit.complete) == (None, None, None, False)
    assert set(audit.unavailable) == {"rank", "flat", "surplus"}
    assert audit.flatness is not None
    assert audit.flatness < FLAT
    assert "80 of them are independent and no more were to be had" in audit.method
    assert "cannot say: rank, because" in str(audit)
    with pytest.raises(SymmetryError, match="3704 parameters"):
        audit.directions()


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("linear/overcomplete", {"x": 2, "h": 4, "y": 3}),
        ("rms_norms", {"x": 5, "h": 3, "y": 4}),
        ("softmax_classifier/biases", {"x": 3, "y": 3}),
        ("recurrent/tanh", {"x": 3, "h": 3, "y": 2, "t": 5}),
    ],
)
def test_random_fields_have_the_rank_of_the_orbit(name, sizes, derived):
    found = derived(model(name))
    seen = probe(found.model.trace(sizes), found.actions)
    assert seen.exhausted
    assert seen.independent == dimensions(found.actions, found.model.params, sizes)[1]
    assert seen.flatness is not None
    assert seen.flatness < FLAT


def test_a_field_that_is_no_symmetry_is_seen_to_move_the_outputs():
    wrong = qx.Symmetry("wrong", group=qx.PositiveDiagonal("h"), action={"W1[h,x]": "g[h]*W1[h,x]"})
    network = model("mlp/relu")
    sizes = {"x": 30, "h": 20, "y": 10}
    seen = probe(network.trace(sizes), [wrong.bind(network.params)])
    assert seen.flatness is not None
    assert seen.flatness > 1e-2


@pytest.mark.slow
def test_a_few_million_parameters(derived):
    audit = derived(model("deep_mlp")).audit(x=1000, h=2000, k=1000, y=10)
    assert audit.parameters > 4_000_000
    assert (audit.algebra, audit.orbit) == (3000, 3000)
    assert audit.flatness is not None
    assert audit.flatness < FLAT
