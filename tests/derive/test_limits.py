"""Large models, budgets that are spent, and models that accept their own sizes alone."""

from __future__ import annotations

import time

import jax.numpy as jnp
import pytest

import quotax as qx
from models import rotary
from quotax import catalogue
from quotax.catalogue.transformers.llama import llama

LLAMA_2_7B = {"vocab": 32_000, "d": 4096, "head": 32, "k": 128, "f": 11_008}


@pytest.mark.slow
def test_the_dimension_of_a_large_model_is_a_sum_of_whole_numbers(derived):
    """By hand: GL(k) on values, C* on pairs of queries and keys, O(d), a gain for every norm, up against down."""
    layers = 2
    model = llama(layers)
    terms = derived(model).dimension(**LLAMA_2_7B)
    of = lambda word: sum(n for name, n in terms.items() if name.startswith(word))
    assert of("linear k") == layers * 32 * 128**2
    assert of("complex k") == layers * 32 * 128
    assert of("rotate d") == 4096 * 4095 // 2
    assert of("scale d") == (2 * layers + 1) * 4096
    assert of("scale f") == layers * 11_008
    assert len(terms) == 3 + 5 * layers - 1
    with pytest.raises(qx.SymmetryError, match="missing size of axis 'd'"):
        derived(model).dimension(vocab=5)


def test_what_the_budget_left_no_time_for_is_said():
    model = catalogue.load("layer_norms/read").architecture
    found = qx.derive(model, budget_seconds=1e-3)
    assert found.unsearched
    assert "not searched, for want of time" in str(found)
    with pytest.raises(qx.SymmetryError, match="budget_seconds must be a positive number of seconds, got 0"):
        qx.derive(model, budget_seconds=0)


def test_a_proof_ends_with_the_budget(monkeypatch):
    """The clock jumps while the first symmetry is proved."""
    model = catalogue.load("layer_norms/read").architecture
    now, late = time.monotonic, []
    monkeypatch.setattr(time, "monotonic", lambda: now() + 10_000 * bool(late))
    found = qx.derive(model, progress=lambda line: late.append(line) if line.startswith("proving") else None)
    ((family, certificate),) = found.unproved
    assert not found.families
    assert late == [f"proving {family}"]
    assert (certificate.status, certificate.residual) == ("undecided", "the budget of 60 s was spent")
    assert "fields of the affine ansatz" in found.unsearched


def test_what_the_model_is_too_large_for_is_said():
    @qx.architecture(params={"w": "25", "v": "25"}, inputs={"x": "25"})
    def hyperbolic(p, x):
        return jnp.sum((p["w"] ** 2 - p["v"]) * x)

    ansatz = qx.derive(hyperbolic, "quadratic").unsearched
    assert ansatz == ("fields of the quadratic ansatz (too many at fixed sizes: 2,600 unknown coefficients at most)",)

    @qx.architecture(params={"w": "51*51"}, inputs={"x": "51*51"})
    def large(p, x):
        return p["w"] @ x

    found = qx.derive(large)
    assert found.unsearched == ("fields of the affine ansatz (2601 parameters at fixed sizes, and 2,500 at most)",)
    assert "and 2,500 at most" in str(found).replace("\n  ", " ")


def test_pairs_are_found_although_an_odd_size_happens_to_run():
    """At k = 3 the halves have one index and two, and broadcasting makes another model of it without a word."""
    found = qx.derive(rotary, progress=lambda line: None)
    (pairs,) = found.families
    assert pairs.group == qx.ComplexScaling("k", pairs="halves")
    assert found.certificate(pairs.name).scope == "every width"
    assert all(sizes["k"] % 2 == 0 for sizes in found.sizes)
    for sizes in ({"k": 4, "x": 3}, {"k": 2, "x": 5}):
        assert found.audit(**sizes).surplus == 0


def test_a_network_that_accepts_its_own_sizes_alone():
    @qx.architecture(params={"A": "y x", "B": "y x"}, inputs={"x": "x"})
    def model(p, x):
        return (p["A"] * p["B"]).reshape(6, 2) @ x.reshape(2, 2)

    found = qx.derive(model.at(x=4, y=3))
    (family,) = found.families
    assert found.certificate(family.name).scope == "widths (y=3, x=4)"
    assert found.audit(x=4, y=3).surplus == 0
    normed = catalogue.load("layer_norms/read").architecture
    assert qx.derive(normed.at(x=40, h=30, y=20)).sizes == qx.derive(normed).sizes
