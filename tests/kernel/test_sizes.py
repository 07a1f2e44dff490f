"""Sizes are polynomials: their arithmetic is that of their values, and nothing is said of a sign that is not so."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotax.kernel.sizes import ONE, ZERO, Size, read

VALUES = [dict(zip("hk", pair, strict=True)) for pair in itertools.product(range(1, 7), repeat=2)]
"""What nothing may contradict: all small sizes of two axes."""
OPAQUE = ("floordiv(h + 1, 2)", "mod(k, h)", "mod(-1, h)", "max(h, 3)", "min(h, k)", "floordiv(k - 3, 2)")
MONOMIALS = [(), (("h", 1),), (("k", 1),), (("h", 2),), (("h", 1), ("k", 1)), (("h", 1), ("k", 2))]

plain = st.dictionaries(st.sampled_from(MONOMIALS), st.integers(-3, 3), max_size=4).map(Size)
odd = st.sampled_from(OPAQUE).map(read)
sizes = st.one_of(plain, st.builds(lambda a, b, n: a.plus(b, n), plain, odd, st.integers(-2, 2)))


@given(sizes, sizes, st.integers(-3, 3))
def test_arithmetic_is_that_of_the_values(a, b, n):
    for values in VALUES:
        x, y = a.at(values), b.at(values)
        assert a.plus(b, n).at(values) == x + n * y
        assert a.minus(b).at(values) == x - y
        assert a.times(b).at(values) == x * y


@given(sizes, sizes)
def test_equal_sizes_are_one_value_and_hash_alike(a, b):
    assert a.plus(b) == b.plus(a)
    assert hash(a.times(b)) == hash(b.times(a))
    assert a.minus(a) == ZERO
    assert a.times(ONE) == a


@given(plain, plain)
def test_exact_division_undoes_a_product(a, b):
    assert a.times(b).over(b) == (a if b else None)


@given(sizes, sizes)
def test_a_quotient_times_the_divisor_is_the_dividend(a, b):
    quotient = a.over(b)
    if quotient is not None:
        assert quotient.times(b) == a


def test_division_with_a_remainder_is_none():
    h = Size.of("h")
    assert h.over(2) is None
    assert h.plus(1).over(h) is None
    assert Size.of(6).over(4) is None
    assert Size.of(6).over(3) == Size.of(2)
    assert h.over(0) is None


@settings(max_examples=200)
@given(sizes)
def test_a_sign_is_never_claimed_that_a_value_contradicts(a):
    found = [a.at(values) for values in VALUES]
    assert not a.nonnegative or min(found) >= 0
    assert not a.positive or min(found) >= 1


@pytest.mark.parametrize(("text", "nonnegative", "positive"), [
    ("h", True, True), ("h - 1", True, False), ("h - 2", False, False), ("2*h - 1", True, True), ("0", True, False),
    ("h*k - h", True, False), ("h*k - h - k + 1", True, False), ("mod(k, h)", True, False),
    ("floordiv(k, 2)", False, False), ("-1", False, False), ("h^2 - h + 1", True, True),
])  # fmt: skip
def test_signs_that_are_known(text, nonnegative, positive):
    size = read(text)
    assert (size.nonnegative, size.positive) == (nonnegative, positive)


@given(sizes)
def test_the_text_of_a_size_reads_as_the_size(a):
    assert read(str(a)) == a


def test_expressions_that_are_no_polynomial_are_computed_from_their_text():
    for text in OPAQUE:
        for values in VALUES:
            expected = eval(text.replace("floordiv", "floor_"), {"floor_": lambda a, b: a // b,
                            "mod": lambda a, b: a % b, "max": max, "min": min, **values})  # fmt: skip
            assert read(text).at(values) == expected
    assert read("floordiv(7, 2)") == Size.of(3)
