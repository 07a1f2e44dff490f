"""Every row of the table is proved for every width; every broken twin is refuted by a point that reproduces."""

import jax
import numpy as np
import pytest

import quotax as qx
from certify import claims


def label(row):
    return row[0].replace(" ", "-")


SLOW = ("decoder", "token decoder", "RoPE adjacent", "tanh RNN permutation", "grouped queries by")
KEPT = ("decoder pairs", "token decoder stream", "token decoder positions with a wrong sign", "RoPE adjacent")


def marked(rows):
    """Decoders and their like take a second or more each; one of each kind is kept among the fast tests."""
    slow = [row for row in rows if row[0].startswith(SLOW) and row[0] not in KEPT]
    return [pytest.param(row, id=label(row), marks=[pytest.mark.slow] if row in slow else []) for row in rows]


@pytest.mark.parametrize("row", marked(claims.TRUE))
def test_proved_for_every_width(row):
    _, model, symmetry = row
    certificate = qx.verify(model, symmetry)
    assert certificate.status == "proved", str(certificate)
    assert certificate.scope == "every width", str(certificate)


@pytest.mark.parametrize("row", marked(claims.FALSE))
def test_refuted_with_a_witness_that_reproduces(row):
    _, model, symmetry = row
    certificate = qx.verify(model, symmetry)
    assert certificate.status == "refuted", str(certificate)
    witness = certificate.witness
    inputs = [witness.inputs[spec.name] for spec in model.inputs]
    before = model.call(witness.params, *inputs, sizes=witness.sizes)
    after = model.call(witness.transformed_params, *inputs, sizes=witness.sizes)
    found = max(
        float(np.max(np.abs(np.asarray(a) - np.asarray(b))))
        for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    )
    assert found == pytest.approx(witness.difference, rel=1e-6)
    assert found > 1e-9


@pytest.mark.parametrize("row", marked(claims.FALSE))
def test_laws_alone_prove_nothing_false(row):
    """The laws must be sound without the search for a counterexample that runs before them."""
    from quotax.certify.every_width.proving import prove_for_every_width

    _, model, symmetry = row
    assert not prove_for_every_width(model, symmetry.bind(model.params)).proved


@pytest.mark.parametrize("row", claims.TRUE_FIELDS, ids=label)
def test_fields_proved_for_every_width(row):
    _, model, field = row
    certificate = qx.verify_field(model, field)
    assert certificate.scope == "every width", str(certificate)


@pytest.mark.parametrize("row", claims.FALSE_FIELDS, ids=label)
def test_broken_fields_are_refuted(row):
    _, model, field = row
    assert qx.verify_field(model, field).status == "refuted"


def test_there_are_enough_broken_twins():
    assert len(claims.FALSE) >= 40
