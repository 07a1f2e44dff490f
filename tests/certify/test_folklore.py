"""Quantisation's folk theorems have the verdicts that `docs/quantisation.md` says they have."""

from pathlib import Path

import jax
import numpy as np
import pytest

import quotax as qx
from certify.folklore import EVEN, EVERY, FALSE, HEADER, STATEMENTS, cells, rms, verdict

PAGE = (Path(__file__).parents[2] / "docs" / "quantisation.md").read_text(encoding="utf-8")
TRUE = [s for s in STATEMENTS if s.verdict != FALSE]
BROKEN = [s for s in STATEMENTS if s.verdict == FALSE]
QUICK = ("LoRA", "gate into down", "centring an embedding", "scaling of queries")
"""A refutation of a decoder takes seconds, and so do laws that fail; these are kept among the fast tests."""


def marked(statements):
    return [
        pytest.param(s, id=s.name.replace(" ", "-"), marks=[] if s.name.startswith(QUICK) else [pytest.mark.slow])
        for s in statements
    ]


@pytest.mark.parametrize("statement", TRUE, ids=lambda s: s.name.replace(" ", "-"))
def test_proved_as_far_as_stated(statement):
    certificate = qx.verify(statement.model, statement.symmetry)
    assert verdict(certificate) == statement.verdict, str(certificate)


@pytest.mark.slow
@pytest.mark.parametrize("statement", marked(BROKEN))
def test_refuted_with_a_witness_that_reproduces(statement):
    certificate = qx.verify(statement.model, statement.symmetry)
    assert verdict(certificate) == FALSE, str(certificate)
    witness = certificate.witness
    inputs = [witness.inputs[spec.name] for spec in statement.model.inputs]
    before, after = (
        np.asarray(statement.model.call(jax.tree.map(np.asarray, params), *inputs, sizes=witness.sizes))
        for params in (witness.params, witness.transformed_params)
    )
    found = float(np.max(np.abs(before - after)))
    assert found == pytest.approx(witness.difference, rel=1e-6)
    assert found > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("statement", marked(BROKEN))
def test_laws_alone_prove_nothing_false(statement):
    from quotax.certify.every_width.proving import prove_for_every_width

    assert not prove_for_every_width(statement.model, statement.symmetry.bind(statement.model.params)).proved


def test_the_page_shows_every_statement_with_its_verdict():
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
    header, _, *body = rows
    assert tuple(header) == HEADER
    place = HEADER.index("seconds")
    shown = [(*row[:place], "", *row[place + 1 :]) for row in body]
    assert shown == [cells(statement, "") for statement in STATEMENTS]
    assert all(0 < float(row[place]) < 20 for row in body)


def test_what_holds_instead_is_a_row_that_is_proved():
    proved = {s.name for s in STATEMENTS if s.verdict in (EVERY, EVEN)}
    assert len({s.name for s in STATEMENTS}) == len(STATEMENTS)
    assert all(s.instead in proved for s in BROKEN)


def test_the_norms_are_what_numpy_says():
    x, gain = np.random.default_rng(0).normal(size=(2, 3, 5)), np.arange(5.0)
    assert np.allclose(rms(x, gain), gain * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5))
