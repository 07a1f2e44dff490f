"""Lemmas about scalar functions: what is found is true of numbers, is what a table says, and is proved or not found."""

import itertools

import numpy as np
import pytest
import sympy as sp

from quotax.certify.every_width.lemmas import Lemmas
from quotax.certify.every_width.scalar_identities import prove

x, y = sp.symbols("x y", real=True)
half = sp.Rational(1, 2)

SCALED = {
    "relu": (sp.Max(x, 0), {"positive": (1, False)}),
    "abs": (sp.Abs(x), {"positive": (1, False), "sign": (0, False), "nonzero": (1, True)}),
    "cube": (x**3, {"positive": (3, False), "sign": (1, False), "nonzero": (3, False)}),
    "square": (x**2, {"positive": (2, False), "sign": (0, False), "nonzero": (2, False)}),
    "reciprocal": (1 / x, {"positive": (-1, False), "sign": (1, False), "nonzero": (-1, False)}),
    "root of the size": (sp.sqrt(sp.Abs(x)), {"positive": (half, False), "sign": (0, False), "nonzero": (half, True)}),
    "sign": (sp.sign(x), {"positive": (0, False), "sign": (1, False)}),
    "tanh": (sp.tanh(x), {"sign": (1, False)}),
    "cosine": (sp.cos(x), {"sign": (0, False)}),
    "exponential": (sp.exp(x), {}),
    "line": (x + 1, {"sign": (1, False)}),
    "parabola": (x**2 + x, {}),
    "whether zero": (
        sp.Piecewise((1, sp.Eq(x, 0)), (0, True)),
        dict.fromkeys(("positive", "sign", "nonzero"), (0, False)),
    ),
    "whether one": (sp.Piecewise((1, sp.Eq(x, 1)), (0, True)), {}),
}
"""The power of the factor, and whether its size alone counts, for every kind of factor that leaves one."""

MOVED = {
    "exponential": (sp.exp(x), "rate", 1),
    "inverse exponential": (sp.exp(-2 * x), "rate", -2),
    "line": (3 * x + 5, "shift", 3),
    "constant": (sp.Integer(4) + 0 * x, "shift", 0),
    "difference": (x - y, "shift", 0),
    "larger": (sp.Max(x, y), "shift", 1),
}


def values(function, point):
    return complex(function.subs(point).evalf())


@pytest.mark.parametrize("name", SCALED)
def test_scalings_that_are_found(name):
    function, expected = SCALED[name]
    found = {kind: Lemmas(prove).scaling(function, [x], kind) for kind in ("positive", "sign", "nonzero")}
    assert {kind: (e.power, e.absolute) for kind, e in found.items() if e is not None} == expected
    for (kind, effect), at in itertools.product(found.items(), (0.7, -1.3)):
        if effect is not None:
            for factor in {"positive": (0.4, 2.5), "sign": (-1.0,), "nonzero": (-2.5, 0.4)}[kind]:
                base = abs(factor) if effect.absolute else factor
                before = values(function, {x: at}) - float(effect.centre)
                moved = float(effect.centre) + complex(base) ** float(effect.power) * before
                np.testing.assert_allclose(values(function, {x: factor * at}), moved, atol=1e-12)


@pytest.mark.parametrize("name", MOVED)
def test_shifts_that_are_found(name):
    function, field, expected = MOVED[name]
    effect = Lemmas(prove).shifting(function, [x, y])
    assert {"rate": effect.rate, "shift": effect.shift} == {"rate": 0, "shift": 0, field: expected}
    before, after = ({x: a, y: -2 * a + b} for a, b in ((0.7, 0.0), (1.0, 0.9)))  # both are larger by 0.3
    moved = np.exp(float(effect.rate) * 0.3) * values(function, before) + float(effect.shift) * 0.3
    np.testing.assert_allclose(values(function, after), moved, rtol=1e-12)


@pytest.mark.parametrize(("function", "centre"), [(1 / (1 + sp.exp(-x)), half), (x + 1, 1)])
def test_a_flip_about_a_value_that_is_not_zero(function, centre):
    effect = Lemmas(prove).scaling(function, [x], "sign")
    assert (effect.power, effect.centre) == (1, centre)


def test_a_logarithm_adds_that_of_the_factor():
    logarithm = sp.log(sp.Abs(x))
    assert [Lemmas(prove).scaling(logarithm, [x], kind).logs for kind in ("positive", "nonzero")] == [1, 1]
    assert Lemmas(prove).scaling(logarithm, [x], "nonzero").absolute


def test_arguments_that_do_not_move_keep_their_value():
    assert Lemmas(prove).scaling(x * y, [x], "positive").power == 1
    assert Lemmas(prove).scaling(x * y, [x, y], "positive").power == 2
    assert Lemmas(prove).scaling(sp.Max(x, y), [x], "positive") is None


def test_what_holds_at_every_point_that_is_tried_and_nowhere_else_is_not_found():
    """Linear up to 100, where no guess looks: the prover is what refuses it."""
    bent = x + sp.Max(x - 100, 0)
    asked = []

    def believing(left, right):
        asked.append((left, right))
        return True

    assert Lemmas(believing).scaling(bent, [x], "positive").power == 1
    assert asked
    assert Lemmas(prove).scaling(bent, [x], "positive") is None


@pytest.mark.parametrize("function", [sp.exp(sp.exp(x * 700)), sp.exp(2000 * x**2)], ids=str)
def test_values_beyond_floats_say_nothing(function):
    assert Lemmas(prove).shifting(function, [x]) is None
    assert Lemmas(prove).scaling(function, [x], "positive") is None


def test_nothing_is_found_that_is_not_proved():
    def silent(left, right):
        raise RuntimeError("gave up")

    for prover in (silent, lambda left, right: False):
        lemmas = Lemmas(prover)
        assert not any(
            lemmas.scaling(f, [x], kind) for f, _ in SCALED.values() for kind in ("positive", "sign", "nonzero")
        )
        assert not any(lemmas.shifting(f, [x, y]) for f, *_ in MOVED.values())


def test_a_lemma_does_not_depend_on_what_was_asked_before():
    questions = [(f, kind) for f, _ in SCALED.values() for kind in ("nonzero", "positive", "sign")]
    forth, back = Lemmas(prove), Lemmas(prove)
    one = {question: forth.scaling(question[0], [x], question[1]) for question in questions}
    two = {question: back.scaling(question[0], [x], question[1]) for question in reversed(questions)}
    assert one == two
