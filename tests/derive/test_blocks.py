"""Of blocks as people write them nothing that is flat is left over, and every family is proved for every width."""

from __future__ import annotations

import pytest

import quotax as qx
from derive.blocks import BLOCKS, llama
from derive.fused import FUSED

blocks = [
    pytest.param(block, id=block.name, marks=[pytest.mark.slow] if block.slow else []) for block in (*BLOCKS, *FUSED)
]


@pytest.mark.parametrize("block", blocks)
def test_everything_that_is_flat_is_found_and_proved(block, derived):
    found = derived(block.model)
    assert not found.unnamed
    assert not found.unsearched
    assert {found.certificate(s.name).scope for s in (*found, *found.discrete)} == {"every width"}
    for sizes, flat in block.flat:
        audit = found.audit(**sizes)
        assert (audit.flat, audit.surplus) == (flat, 0), str(audit)


@pytest.mark.parametrize("block", [block for block in blocks if block.id != "decoder, fused"])  # in test_fused.py
def test_a_family_with_one_line_less_is_refuted(block, derived):
    """Lines of an action are needed, the first and the last: without one of them the function changes."""
    for family in derived(block.model):
        names = list(family.action)
        if len(names) > 1:
            for left_out in (names[0], names[-1]):
                lines = {key: text for key, text in family.action.items() if key != left_out}
                twin = qx.Symmetry(family.name, family.group, lines)
                assert qx.verify(block.model, twin).status == "refuted", (twin, left_out)


LLAMA_2_7B = {"vocab": 32_000, "d": 4096, "head": 32, "k": 128, "f": 11_008}


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
def test_the_dimension_of_a_large_model_is_a_sum_of_whole_numbers(layers, derived):
    """By hand: GL(k) on values, C* on pairs of queries and keys, O(d), a gain for every norm, up against down."""
    model = next(b.model for b in BLOCKS if b.name == "llama") if layers == 1 else llama(layers)
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
    (block,) = [b for b in BLOCKS if b.name == "norm"]
    found = qx.derive(block.model, budget_seconds=1e-3)
    assert found.unsearched
    assert "not searched, for want of time" in str(found)
    with pytest.raises(qx.SymmetryError, match="budget_seconds must be a positive number of seconds, got 0"):
        qx.derive(block.model, budget_seconds=0)


def test_a_network_that_accepts_its_own_sizes_alone():
    @qx.architecture(params={"A": "y x", "B": "y x"}, inputs={"x": "x"})
    def model(p, x):
        return (p["A"] * p["B"]).reshape(6, 2) @ x.reshape(2, 2)

    found = qx.derive(model.at(x=4, y=3))
    (family,) = found.families
    assert found.certificate(family.name).scope == "widths (y=3, x=4)"
    assert found.audit(x=4, y=3).surplus == 0
    assert qx.derive(BLOCKS[0].model.at(x=40, h=30, y=20)).sizes == qx.derive(BLOCKS[0].model).sizes
