"""What a law does to a polynomial, to powers, logarithms and exponentials, against numbers."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from kernel.evaluation import Numbers, element_values
from quotax.kernel.atoms import Factor, Parameter, Scalar
from quotax.kernel.elements import Element
from quotax.kernel.indices import Bound
from quotax.kernel.polynomials import Algebra, Atoms, slot
from quotax.kernel.rewriting import RULES
from quotax.kernel.sizes import Size
from quotax.kernel.transformation import (
    ALPHA,
    SHIFT,
    Effect,
    Law,
    applied,
    exponential,
    identities,
    kind_of,
    logarithm,
    magnitude,
    permutes,
    powered,
    scaled,
    touches,
)

H, K = Size.of("h"), Size.of("k")
I, J = slot(0, H), slot(1, K)
SYMBOLS = ({"h": 1, "k": 2}, {"h": 3, "k": 2})
SIGNS = ("positive", "nonzero", "sign", "real", "nonnegative")
EXPONENTS = (0, 1, 2, 3, -1, -2, Fraction(1, 2), Fraction(-3, 2))


class World:
    """A group element, a tensor T, and one factor of each sign."""

    def __init__(self, kind="permutation"):
        self.atoms, self.element = Atoms(), Element(kind, (), H)
        self.algebra = Algebra(self.atoms, RULES, self.element.relations(self.atoms))
        self.element.entry(self.algebra, (I, I) if self.element.is_matrix else (I,))
        make = self.atoms.make
        self.T = make("T", Parameter(), "T", (H, K))
        self.U = make("U", Parameter(), "U", (H,))
        self.s = {sign: make(sign, Scalar(), sign, (H,), sign=sign, moved=True) for sign in SIGNS}

    def numbers(self, sizes):
        rng = np.random.default_rng(0)
        shape = (sizes["h"], sizes["k"])
        given = element_values(self.element, self.atoms, sizes, rng)
        for sign, atom in self.s.items():
            value = rng.uniform(0.5, 2.0, shape[0])
            turn = rng.choice([-1.0, 1.0], shape[0])
            turn[0] = -1.0
            given[atom.number] = {"positive": value, "nonnegative": value, "sign": turn}.get(sign, value * turn)
        values = {"T": rng.uniform(0.5, 2.0, shape), "U": rng.normal(size=shape[0])}
        return Numbers(self.atoms, sizes, values, given=given)


def entry(atom, *at, power=1):
    return (Factor(atom.number, at, power),)


@pytest.mark.parametrize("kind", ["permutation", "orthogonal", "fixing", "centred", "general"])
def test_a_law_applied(kind):
    """`c s_i sum_k g_ik P_kj + sigma` for polynomials with sums of their own, which the words must not capture."""
    world = World(kind)
    algebra, g = world.algebra, world.atoms._known["g"].number
    low = Bound(0, H)
    polys = [
        algebra.entry(world.T, (I, J)),
        algebra.normal(2, [*entry(world.T, I, J), *entry(world.T, low, J), *entry(world.U, low)]),
        algebra.add(algebra.normal(3, [*entry(world.T, I, Bound(0, K)), *entry(world.T, Bound(0, H), Bound(0, K))]),
                    algebra.entry(world.U, (I,))),
    ]  # fmt: skip
    words = [(Factor(g, (I, low), 1),), (Factor(g, (I, Bound(1, H)), 1), Factor(g, (Bound(1, H), low), 1))]
    shift = algebra.entry(world.U, (I,))
    for poly, word, sizes in itertools.product(polys, words, SYMBOLS):
        law = Law(Fraction(-2, 3), entry(world.s["positive"], I), ((I, word, low),), shift)
        numbers = world.numbers(sizes)
        labels = [I, J]
        matrix = np.linalg.matrix_power(numbers.atom(g), len(word))
        scale, sigma = numbers.atom(world.s["positive"].number), numbers.atom(world.U.number)
        expected = -2 / 3 * scale[:, None] * (matrix @ numbers.poly(poly, labels))
        np.testing.assert_allclose(numbers.poly(applied(algebra, law, poly), labels), expected, rtol=1e-10)
        found = numbers.poly(applied(algebra, law, poly, shifted=True), labels)
        np.testing.assert_allclose(found, expected + sigma[:, None], rtol=1e-10)


@pytest.mark.parametrize("coefficient", [Fraction(1), Fraction(-1), Fraction(2, 3), Fraction(-2)])
def test_the_kind_of_a_factor(coefficient):
    """Positive, of one of two values, or not zero: never said of a factor that is not."""
    world = World()
    numbers = world.numbers(SYMBOLS[1])
    for signs in itertools.chain.from_iterable(itertools.combinations(SIGNS, n) for n in (0, 1, 2)):
        for power in (1, 2, -1, Fraction(1, 2)):
            scale = tuple(f for sign in signs for f in entry(world.s[sign], I, power=power))
            kind = kind_of(world.algebra, coefficient, scale)
            if any(s in ("real", "nonnegative") for s in signs):
                assert kind is None
                continue
            if "sign" in signs and power == Fraction(1, 2):
                continue  # see below
            with np.errstate(all="ignore"):
                value = float(coefficient) * numbers.term(scale, [I])
            if kind == "positive":
                assert np.all(value > 0)
            elif kind == "sign":
                assert set(np.round(value, 12)) <= {1.0, -1.0}
            elif kind is None:
                assert power == Fraction(1, 2)


def test_the_root_of_a_sign_is_no_factor():
    world = World()
    assert kind_of(world.algebra, Fraction(1), entry(world.s["sign"], I, power=Fraction(1, 2))) is None


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("power", EXPONENTS)
def test_a_factor_to_a_power(power, absolute):
    world = World()
    effect = Effect(power=sp.Rational(str(power)), absolute=absolute)
    for coefficient, signs in itertools.product((1, 2, -1, Fraction(-4, 9)), [(), ("positive",), ("sign",),
                                                ("nonzero",),
                                                ("positive", "nonzero"), ("sign", "nonzero")]):  # fmt: skip
        scale = tuple(f for sign in signs for f in entry(world.s[sign], I))
        found = powered(world.algebra, Fraction(coefficient), scale, effect)
        if found is None:
            assert power != int(power)
            continue
        for sizes in SYMBOLS:
            numbers = world.numbers(sizes)
            with np.errstate(all="ignore"):
                factor = float(coefficient) * numbers.term(scale, [I])
                expected = (np.abs(factor) if absolute else factor) ** float(power)
                np.testing.assert_allclose(numbers.poly(found, [I])[factor > 0], expected[factor > 0], rtol=1e-10)
                if absolute or power == int(power):
                    np.testing.assert_allclose(numbers.poly(found, [I]), expected, rtol=1e-10)


FUNCTIONS = {
    "absolute value": (sp.Abs, Effect(power=sp.S.One, absolute=True)),
    "cube": (lambda z: z**3, Effect(power=sp.Integer(3))),
    "square": (lambda z: z**2, Effect(power=sp.Integer(2))),
    "logarithm": (lambda z: sp.log(sp.Abs(z)), Effect(logs=sp.S.One)),
    "square and a constant": (lambda z: z**2 + 5, Effect(power=sp.Integer(2), centre=sp.Integer(5))),
    "reciprocal": (lambda z: 1 / z, Effect(power=sp.Integer(-1))),
    "half a flip": (lambda z: sp.sign(z) / 2 + sp.Rational(1, 2), Effect(power=sp.S.Zero)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_value_under_an_effect_is_the_function_of_the_scaled_argument(name):
    """If the identities hold, `scaled` writes what the function is of `c s T`."""
    function, effect = FUNCTIONS[name]
    world, z = World(), sp.Symbol("z", real=True)
    algebra = world.algebra
    compute = sp.lambdify(z, function(z), "numpy")
    value = world.atoms.make("F", Parameter(), "F", (H, K))
    for coefficient, signs in itertools.product((1, 3, -1, -2), [(), ("positive",), ("sign",), ("nonzero",)]):
        scale = tuple(f for sign in signs for f in entry(world.s[sign], I))
        kind = kind_of(algebra, Fraction(coefficient), scale)
        told = identities(function(z), [z], kind, effect)
        holds = True
        for left, right in told:
            for x, a in ((0.7, 1.3), (-1.1, 0.4)):
                at = {z: x, ALPHA["positive"]: a, sp.Symbol("z", real=True): x}
                holds &= abs(complex(left.subs(at).evalf()) - complex(right.subs(at).evalf())) < 1e-9
        image = scaled(algebra, algebra.entry(value, (I, J)), effect, Fraction(coefficient), scale)
        if image is None or not holds:
            continue
        for sizes in SYMBOLS:
            numbers = world.numbers(sizes)
            T = numbers.atom(world.T.number)
            numbers.values["F"] = compute(T)
            factor = (coefficient * numbers.term(scale, [I]))[:, None]
            np.testing.assert_allclose(numbers.poly(image, [I, J]), compute(factor * T), rtol=1e-9)


def test_an_odd_effect_is_not_claimed_of_an_even_function():
    z = sp.Symbol("z", real=True)
    ((left, right),) = identities(z**2, [z], "sign", Effect(power=sp.S.One))
    assert sp.simplify(left - right) != 0
    ((left, right),) = identities(z**2, [z], "sign", Effect(power=sp.S.One, absolute=True))
    assert sp.simplify(left - right) == 0
    assert len(identities(z, [z], "nonzero", Effect(power=sp.S.One))) == 2
    ((left, right),) = identities(sp.exp(z), [z], "shift", Effect(rate=sp.S.One))
    assert sp.simplify(left - right) == 0
    assert SHIFT in left.free_symbols


@pytest.mark.parametrize("rate", [1, -1, 2, Fraction(-1, 2)])
def test_an_exponential_is_a_product_over_terms(rate):
    world = World()
    algebra = world.algebra
    poly = algebra.add(
        algebra.normal(Fraction(1, 3), [*entry(world.U, I), *entry(world.T, I, J)]), {(): Fraction(1, 2)}
    )
    poly = algebra.add(poly, algebra.normal(-1, [*entry(world.U, Bound(0, H)), *entry(world.T, Bound(0, H), J)]))
    found = exponential(algebra, poly, rate)
    assert len(found) == 1
    for sizes in SYMBOLS:
        numbers = world.numbers(sizes)
        expected = np.exp(float(rate) * numbers.poly(poly, [I, J]))
        np.testing.assert_allclose(numbers.poly(found, [I, J]), expected, rtol=1e-10)
    assert exponential(algebra, {}) == {(): 1}


@pytest.mark.parametrize("coefficient", [1, -1, 2, Fraction(-2, 3)])
def test_a_logarithm_is_a_sum_over_factors(coefficient):
    world = World()
    s = world.s
    for scale in ((), entry(s["positive"], I), (*entry(s["nonzero"], I, power=2), *entry(s["sign"], I)),
                  (*entry(s["positive"], I, power=-1), *entry(s["nonzero"], I))):  # fmt: skip
        found = logarithm(world.algebra, Fraction(coefficient), scale)
        for sizes in SYMBOLS:
            numbers = world.numbers(sizes)
            expected = np.log(np.abs(float(coefficient) * numbers.term(scale, [I])))
            np.testing.assert_allclose(numbers.poly(found, [I]), np.broadcast_to(expected, sizes["h"]), atol=1e-12)
    made = magnitude(world.algebra, s["nonzero"].number)
    assert logarithm(world.algebra, Fraction(1), (Factor(made, (I,), 1),)) == logarithm(
        world.algebra, Fraction(1), entry(s["nonzero"], I)
    )


def test_what_permutes_and_what_a_law_touches():
    world, other = World(), World("orthogonal")
    g = Factor(world.atoms._known["g"].number, (I, Bound(0, H)), 1)
    assert permutes(world.algebra, [g])
    assert not permutes(world.algebra, [g._replace(power=2)])
    assert not permutes(other.algebra, [Factor(other.atoms._known["g"].number, (I, Bound(0, H)), 1)])
    assert not permutes(world.algebra, entry(world.s["sign"], I))
    law = Law(scale=entry(world.s["sign"], I), shift=world.algebra.entry(world.U, (I,)))
    assert touches(world.algebra, law, [I])
    assert not touches(world.algebra, law, [J])
    assert touches(world.algebra, Law(shift=world.algebra.entry(world.T, (I, J))), [J])
