"""Every entry of the catalogue: what is derived of it is what is known, each family proved; and it can be measured.

A file that is added to the catalogue is tested here without being named. `QUICK` entries run by default and the
others with the slow tests; `LONG` ones take more than some seconds, and their kind is seen by others.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import jax.numpy as jnp
import pytest
import sympy as sp

import quotax as qx
from catalogue_facts import flat_by_jacobian
from quotax import catalogue
from quotax.derive.found.dimensions import OVERLAP, STABILISER, axis_symbol
from quotax.report.realistic import realistic

NAMES = catalogue.names()
LONG = ("gemma2", "gpt2", "mixer", "resnet", "vit")
SLOW = (
    "cnn/linear", "compartments", "deep_linear", "depthwise_separable", "grouped_query", "gru", "linear_biases",
    "llama", "lstm", "matrix_factorisation", "multi_head", "multi_query", "output_gate", "polynomial/quadratic",
    "pre_norm_decoder", "qk_norm", "qwen3", "residual_stream", "rotary", "selective", *LONG,
)  # fmt: skip
"""Entries, or all of a file, that take more than a second."""


def marked(quick):
    marks = lambda name: () if quick(name) else (pytest.mark.long if within(name, LONG) else pytest.mark.slow,)
    return [pytest.param(name, marks=marks(name)) for name in NAMES]


def within(name, listed):
    return name in listed or name.partition("/")[0] in listed


# --- facts


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_has_its_facts(name):
    entry = catalogue.load(name)
    model = entry.architecture
    for fact in (*entry.families, *entry.discrete):
        moved = set(fact.moves.split())
        axes = {axis for spec in model.params if spec.name in moved for axis in spec.axis_names}
        assert moved <= {spec.name for spec in model.params}
        assert {fact.group.axis, fact.group.each} - {None} <= axes
    assert all(fact.group.continuous for fact in entry.families)
    assert not any(fact.group.continuous for fact in entry.discrete)
    assert len(entry.flat) >= 2
    assert entry.reference
    assert set(entry.realistic) == set(entry.modest) <= set(model.axis_names)
    assert model.at(**entry.modest).num_parameters <= model.at(**entry.realistic).num_parameters
    beyond = [flat - entry.orbit_at(sizes) for sizes, flat in entry.flat]
    assert min(beyond) >= 0
    assert bool(entry.surplus) == any(beyond)


def test_names_are_found_by_file():
    assert len(set(NAMES)) == len(NAMES)
    with pytest.raises(qx.ArchitectureError, match="the nearest are 'llama'"):
        catalogue.load("lama")


def test_every_entry_has_its_section_and_a_link_to_it():
    written = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "catalogue_pages.py"))
    pages = {file: text for room in written["pages"]().values() for file, text in room.items()}
    sections = [
        (f, *m) for f, text in pages.items() for m in re.findall(r"^## (\S+) \{ #(\S+) \}$", text, re.MULTILINE)
    ]
    links = re.findall(r"^\| \[(\S+)\]\(catalogue/(\w+)\.md#(\S+)\)", written["overview"](), re.MULTILINE)
    assert sections == [(file, name, anchor) for name, file, anchor in dict.fromkeys(links)]  # measured ones twice
    assert tuple(name for _, name, _ in sections) == NAMES
    for name, row in written["recorded"]().items():
        entry = catalogue.load(name)
        assert row["parameters"] == entry.architecture.at(**entry.realistic).num_parameters, "walk it again"
        assert "| parameters | left | changed |" in pages[name.partition("/")[0]]
    for name in ("llama", "maxout"):
        entry = catalogue.load(name)
        for word in ("def " + name, entry.orbit, entry.reference, entry.surplus, *(f.group for f in entry.families)):
            assert str(word) in pages[name]


@pytest.mark.parametrize("name", marked(lambda name: not within(name, SLOW)))
def test_what_is_derived_is_what_is_known(name, derived):
    entry = catalogue.load(name)
    model = entry.architecture
    found = derived(model, ansatz=entry.ansatz, budget_seconds=200)
    for stated, symmetries in ((entry.families, found.families), (entry.discrete, found.discrete)):
        keys = [(s.group, frozenset(s.bind(model.params).moved)) for s in symmetries]
        assert sorted(map(_text, keys)) == sorted(_text(fact.key) for fact in stated)
    for symmetry in (*found, *found.discrete):
        assert found.certificate(symmetry.name).scope == entry.scope
        assert symmetry.bind(model.params) == qx.Symmetry(symmetry.name, symmetry.group, symmetry.action).bind(
            model.params
        )
    assert bool(found.unproved) <= bool(entry.surplus)
    assert all(what.endswith("at most)") for what in found.unsearched)  # too large, and not for want of time
    assert bool(found.unnamed) == bool(entry.fields)
    for sizes, flat in entry.flat:
        audit = found.audit(**sizes)
        assert (audit.flat, audit.orbit) == (flat, entry.orbit_at(audit.sizes)), str(audit)
        if not entry.fields and not found.orbit_dim.free_symbols & {OVERLAP, STABILISER}:
            at = {axis_symbol(axis): size for axis, size in audit.sizes.items()}
            assert sp.simplify(found.orbit_dim.subs(at)) == audit.orbit


def _text(key):
    group, moves = key
    return f"{group!r}: {' '.join(sorted(moves))}"


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in NAMES if name != "rms_norms/casts"])  # bfloat16 has no rank
def test_what_is_flat_is_what_a_dense_jacobian_says(name):
    entry = catalogue.load(name)
    for sizes, flat in entry.flat:
        free = {axis: 6 for axis in entry.architecture.axis_names if axis not in sizes}
        seen, gap = flat_by_jacobian(entry.architecture, {**free, **sizes})
        assert seen == flat
        assert gap > 1e3


# --- twins

TWINS = (
    "linear/biases",
    "mlp/abs",
    "layer_norms/read",
    "batch_norm/in_use",
    "rms_norms/casts",
    "layer_norms/deviation",
)
SLOW_TWINS = ("rotary/halves", "rotary/heads")
LONG_TWINS = ("residual_stream", "llama", "pre_norm_decoder/layer")


@pytest.mark.parametrize(
    "name",
    [
        *TWINS,
        *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW_TWINS),
        *(pytest.param(n, marks=pytest.mark.long) for n in LONG_TWINS),
    ],
)
def test_a_family_with_one_line_less_is_refuted(name, derived):
    """Lines of an action are needed, the first and the last: without one of them the function changes."""
    model = catalogue.load(name).architecture
    for family in derived(model, ansatz=catalogue.load(name).ansatz, budget_seconds=200):
        names = list(family.action)
        if len(names) > 1:
            for left_out in (names[0], names[-1]):
                lines = {key: text for key, text in family.action.items() if key != left_out}
                twin = qx.Symmetry(family.name, family.group, lines)
                assert qx.verify(model, twin).status == "refuted", (twin, left_out)


# --- measuring

MEASURED = ("softmax_classifier/biases",)
MEASURED_SLOWLY = ("cnn",)


@pytest.mark.parametrize(
    "name",
    [
        *MEASURED,
        *(pytest.param(n, marks=pytest.mark.slow) for n in MEASURED_SLOWLY),
        *(pytest.param(n, marks=pytest.mark.long) for n in NAMES if n not in (*MEASURED, *MEASURED_SLOWLY)),
    ],
)
def test_a_network_of_realistic_size_is_divided_and_measured(name, derived):
    """In float32, but for those where a search of many dimensions goes another way with every rounding."""
    entry, single = catalogue.load(name), name in (*MEASURED, *MEASURED_SLOWLY)
    found = derived(entry.architecture, ansatz=entry.ansatz, budget_seconds=200)
    seen = realistic(entry, found, jnp.float32 if single else jnp.float64)
    assert seen.left < 1e-5
    assert seen.changed < (1e-4 if single else 1e-7)
    (here, there), (euclidean, moved) = seen.quotient, seen.full
    assert here > 0
    if seen.invariant or single:
        assert here == pytest.approx(there, rel=1e-3 if single else 1e-5)
    if any(not isinstance(s.group, qx.Translation | qx.O) for s in found):
        assert moved != pytest.approx(euclidean, rel=1e-3)
