"""Actions that `derive` makes: what they say is what they are, and they move along the fields of their templates."""

from __future__ import annotations

import numpy as np
import pytest

import quotax as qx
from derive import by_hand
from quotax.artifacts import ArraySpec
from quotax.derive.candidates.templates import Turn
from quotax.derive.candidates.wording import distinct, symmetries
from quotax.symmetry import FLOATS, velocity
from quotax.symmetry.language.phrases import ActionLine


def read_again(symmetry, params):
    """The entries that the words stand for, where nothing else is known of them."""
    return qx.Symmetry(symmetry.name, symmetry.group, symmetry.action).bind(params)


@pytest.mark.parametrize("seed", range(12))
def test_what_a_template_says_is_read_as_the_entries_it_hands_over(seed):
    kinds = set()
    for solution, specs in by_hand.solutions(seed, 60):
        for symmetry in symmetries(solution, specs):
            made = symmetry.bind(specs)
            assert made == read_again(symmetry, specs)
            assert hash(made) == hash(read_again(symmetry, specs))
            assert [entry.text for entry in made.entries] == list(symmetry.action.values())
            kinds |= {type(term) for term, _ in solution.terms}
    assert len(kinds) >= 3


@pytest.mark.parametrize("seed", range(6))
def test_the_action_moves_along_the_field_of_its_template(seed):
    rng, count = np.random.default_rng(seed), 0
    for solution, specs in by_hand.solutions(100 + seed, 25):
        params = {spec.name: rng.normal(size=spec.split_shape(by_hand.SIZES)) for spec in specs}
        for symmetry in symmetries(solution, specs):
            group = symmetry.group
            xi = np.asarray(group.algebra(rng.normal(size=group.coordinate_shape(by_hand.SIZES)), by_hand.SIZES))
            turns = [(term.transposed, a) for term, a in solution.terms if isinstance(term, Turn)]
            there = np.swapaxes(xi, -1, -2) if turns and (turns[0][0], turns[0][1]) in ((True, 1), (False, -1)) else xi
            found = velocity(symmetry.bind(specs), specs, by_hand.SIZES, params, xi, FLOATS)
            meant = by_hand.field(solution, specs, params, there)
            found = np.concatenate([np.ravel(found.get(s.name, np.zeros_like(params[s.name]))) for s in specs])
            meant = np.concatenate([meant[s.name].ravel() for s in specs])
            # up to the number by which the exponents become whole
            assert abs(found @ meant) == pytest.approx(np.linalg.norm(found) * np.linalg.norm(meant), rel=1e-9)
            assert np.linalg.norm(found) > 0
            count += 1
    assert count >= 10


def test_what_is_found_is_not_read_again(monkeypatch):
    @qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h", "b2": "y"}, inputs={"x": "x"})
    def net(p, x):
        z = p["W1"] @ x + p["b1"]
        return p["W2"] @ (z * (z > 0)) + p["b2"]

    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr("quotax.symmetry.symmetry.parse_action", refuse)
    found = qx.derive(net)
    assert [str(s.group) for s in found] == ["R+^h"]
    assert [str(s.group) for s in found.discrete] == ["S(h)"]
    assert found.latex()


@pytest.mark.parametrize(
    ("params", "inputs", "run", "actions"),
    [
        (
            {"w": "h", "c": "h", "b": ""},
            {"x": "h"},
            lambda p, x: p["w"] @ (x + p["c"]) + p["b"],
            [{"b": "b - w[h] * g[h]", "c": "c + g"}],
        ),
        (
            {"u": "k h", "v": "k h"},
            {"x": "k h"},
            lambda p, x: ((p["u"] ** 2 - p["v"] ** 2) * x).sum(),
            [
                {
                    "u[k,h]": "(exp(g[h,k]) + exp(-g[h,k])) / 2 * u[k,h] + "
                    "1 * ((exp(g[h,k]) - exp(-g[h,k])) / 2) * v[k,h]",
                    "v[k,h]": "(exp(g[h,k]) + exp(-g[h,k])) / 2 * v[k,h] + "
                    "1 * ((exp(g[h,k]) - exp(-g[h,k])) / 2) * u[k,h]",
                }
            ],
        ),
    ],
    ids=["a shift carried to a scalar", "a mixing of axes in another order than its group's"],
)
def test_what_the_language_says_in_one_way_only_is_found_too(params, inputs, run, actions):
    model = qx.architecture(params=params, inputs=inputs)(run)
    found = qx.derive(model)
    assert [dict(symmetry.action) for symmetry in found] == actions
    for symmetry in found:
        assert symmetry.bind(model.params) == read_again(symmetry, model.params)


def test_names_are_made_different_by_what_is_moved_and_then_by_number():
    specs = (ArraySpec("W", (("h",),)), ArraySpec("V", (("h",),)))

    def flip(name):
        line = ActionLine(next(s for s in specs if s.name == name), False)
        return qx.Symmetry.of(
            "flip h", qx.SignFlip("h"), specs, dict([line.becomes(line.element(line.indices) * line.old)])
        )

    made = []
    for name in ("W", "V", "V"):
        made.append(distinct(flip(name), [s.name for s in made]))
    assert [s.name for s in made] == ["flip h", "flip h (V)", "flip h #2"]
    assert [s.bind(specs).moved for s in made] == [("W",), ("V",), ("V",)]
