"""The algebra's structure: numbers of known algebras, and constants against brackets taken by SymPy."""

from __future__ import annotations

from fractions import Fraction

import pytest
import sympy as sp

import quotax as qx
from quotax import catalogue
from quotax.derive.found.lie_algebra import structure
from quotax.errors import SymmetryError


def model(name):
    return catalogue.load(name).architecture


@pytest.mark.parametrize(
    ("name", "sizes", "numbers"),
    [
        ("linear", {"x": 4, "h": 2, "y": 3}, (4, 1, 3, 3, 3)),  # gl(2)
        ("linear", {"x": 4, "h": 3, "y": 3}, (9, 1, 8, 8, 8)),  # gl(3)
        ("linear/biases", {"x": 4, "h": 2, "y": 3}, (6, 0, 5, 3, 4)),  # affine maps of the plane: gl(2) and R^2
        ("mlp/relu", {"x": 3, "h": 4, "y": 2}, (4, 4, 0, 0, 0)),  # R+^h
        ("autoencoder/tied", {"x": 4, "h": 2}, (1, 1, 0, 0, 0)),  # so(2)
        ("autoencoder/tied", {"x": 4, "h": 3}, (3, 0, 3, 3, 3)),  # so(3)
        ("rms_norms", {"x": 5, "h": 3, "y": 4}, (4, 1, 3, 3, 3)),  # so(3) and a scaling
        ("softmax_classifier", {"x": 3, "y": 3}, (3, 3, 0, 0, 0)),  # translations
    ],
)
def test_algebras_have_the_numbers_that_theory_says(name, sizes, numbers, derived):
    algebra = derived(model(name)).structure(**sizes)
    assert algebra.closed
    found = (algebra.dimension, algebra.centre, algebra.derived, algebra.semisimple, algebra.killing_rank)
    assert found == numbers
    assert algebra.dimension == derived(model(name)).audit(**sizes).algebra
    assert algebra.abelian == (algebra.centre == algebra.dimension)


def test_constants_are_those_of_brackets_taken_by_sympy(derived):
    algebra = derived(model("linear/biases")).structure(x=2, h=2, y=2)
    for i, x in enumerate(algebra.basis):
        for j, y in enumerate(algebra.basis):
            for entry in {*x, *y} | {e for b in algebra.basis for e in b}:
                bracket = sum(a * sp.diff(y.get(entry, 0), s) for s, a in x.items())
                bracket -= sum(a * sp.diff(x.get(entry, 0), s) for s, a in y.items())
                said = sum(
                    sp.Rational(v.numerator, v.denominator) * algebra.basis[k].get(entry, 0)
                    for (k, a, b), v in algebra.constants.items()
                    if (a, b) == (i, j)
                )
                assert sp.expand(bracket - said) == 0


def test_jacobi_and_the_centre(derived):
    algebra = derived(model("linear")).structure(x=2, h=2, y=2)
    n, c = algebra.dimension, lambda k, i, j: algebra.constants.get((k, i, j), Fraction(0))
    for i in range(n):
        for j in range(n):
            for k in range(n):
                for m in range(n):
                    cyclic = ((i, j, k), (j, k, i), (k, i, j))
                    assert sum(c(s, a, b) * c(m, s, d) for a, b, d in cyclic for s in range(n)) == 0
    (central,) = algebra.centre_basis
    assert all(sum(central[i] * c(k, i, j) for i in range(n)) == 0 for k in range(n) for j in range(n))
    assert "centre 1, derived 3, semisimple part 3" in str(algebra)
    assert algebra.reductive


def test_heads_are_copies(derived):
    @qx.architecture(params={"V": "head k d", "O": "d head k"}, inputs={"x": "t d"})
    def heads(p, x):
        import jax
        import jax.numpy as jnp

        v = jnp.einsum("hkd,td->htk", p["V"], x)
        return jnp.einsum("htk,dhk->htd", jax.nn.softmax(v * 0 + x.sum(), axis=1) * v, p["O"])

    algebra = derived(heads).structure(d=3, head=2, k=2, t=3)
    assert (algebra.dimension, algebra.centre, algebra.derived, algebra.semisimple) == (8, 2, 6, 6)


@pytest.mark.slow
def test_attention_is_two_general_linear_algebras_for_each_head(derived):
    algebra = derived(model("multi_head")).structure(d=4, head=2, k=2, t=5)
    assert (algebra.dimension, algebra.centre, algebra.derived, algebra.semisimple) == (16, 4, 12, 12)


def test_fields_rational_in_a_gain():
    x, y, g, h = sp.symbols("x y g h", real=True)
    turn = {x: g * y / h, y: -h * x / g}
    algebra = structure([turn, {g: g, x: x}, {h: h, y: y}, {x: x, y: y, g: g, h: h}])
    assert (algebra.dimension, algebra.centre, algebra.abelian) == (3, 3, True)


def test_a_span_that_is_not_closed_is_said_to_be_none():
    x, y = sp.symbols("x y", real=True)
    algebra = structure([{x: sp.Integer(1)}, {y: x**2}])
    assert (algebra.closed, algebra.dimension, algebra.leaves, algebra.centre) == (False, 2, (0, 1), None)
    assert "not closed" in str(algebra)


def test_sl2_on_the_line_by_quadratic_fields():
    x = sp.Symbol("x", real=True)
    algebra = structure([{x: sp.Integer(1)}, {x: x}, {x: x**2}, {x: 2 * x + 3}])
    assert (algebra.dimension, algebra.centre, algebra.semisimple, algebra.killing_rank) == (3, 0, 3, 3)


def test_nothing_found_is_the_zero_algebra():
    algebra = structure([])
    assert (algebra.dimension, algebra.closed, algebra.centre, algebra.semisimple) == (0, True, 0, 0)


def test_what_is_no_monomial_is_refused():
    x = sp.Symbol("x", real=True)
    with pytest.raises(SymmetryError, match="no monomial"):
        structure([{x: sp.sin(x)}])
