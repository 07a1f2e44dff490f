"""What is said of positions and sizes holds at every position, for every small size."""

import operator

import numpy as np
import pytest

from kernel.evaluation import Numbers
from quotax.interpret.laws.rules.choices import _order_of
from quotax.interpret.laws.rules.positions import as_index, as_size, bounds, decided
from quotax.kernel import indices as ix
from quotax.kernel.atoms import TokenInput
from quotax.kernel.indices import Free
from quotax.kernel.polynomials import Algebra, Atoms
from quotax.kernel.rewriting import RULES, position
from quotax.kernel.sizes import Size

H, K = Size.of("h"), Size.of("k")
SIZES = [{"h": h, "k": k} for h in (1, 2, 3, 4) for k in (1, 2, 3)]
I, J, S = Free((0, 0), H), Free((0, 1), H), Free((0, 2), Size.of(3))


def polys(algebra):
    """Ramps, tokens and sizes, their multiples, sums and products."""
    tokens = algebra.atoms.make("tok", TokenInput(H), "tok", (H,), sign="nonnegative")
    size = lambda value: algebra.substituted(algebra.size(Size.of(value)))
    ramp = lambda index: algebra.substituted(position(algebra, index))
    i, j, s, t = ramp(I), ramp(J), ramp(S), algebra.entry(tokens, (I,))
    made = [i, j, s, t, size(H), size(0), size(1), size(2), size(3), size(H.minus(1)), size(H.minus(2)), size(K),
            size(H.times(K)), algebra.add(i, size(1)), algebra.add(i, size(H)), algebra.add(i, size(H), -1),
            algebra.scale(i, 2), algebra.scale(i, -1), algebra.add(size(H.minus(1)), i, -1), algebra.add(i, j),
            algebra.multiply(i, size(K)), algebra.multiply(i, j), algebra.multiply(i, i),
            ramp(ix.pair(S, I)), ramp(ix.affine(1, 2, I, H.times(2)))]  # fmt: skip
    return tokens, made


NAMES = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
         "ge": operator.ge}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_comparison_that_is_decided_is_so_everywhere(name):
    algebra = Algebra(Atoms(), RULES)
    _, made = polys(algebra)
    known = 0
    for left in made:
        for right in made:
            found = decided(algebra, name, left, right)
            order = _order_of(algebra, left, right) if name == "le" else None
            known += found is not None
            if found is None and order is None:
                continue
            for difference in values(algebra, algebra.add(left, right, -1)):
                assert found is None or bool(np.all(NAMES[name](difference, 0))) is found
                assert found is None or bool(np.any(NAMES[name](difference, 0))) is found
                assert order is None or np.all(difference <= 0 if order <= 0 else difference > 0)
    assert known >= 20


def values(algebra, poly):
    """The values at all positions, of tokens that are least, largest and mixed, for each choice of sizes."""
    for sizes in SIZES:
        for tokens in (np.zeros(sizes["h"]), np.full(sizes["h"], sizes["h"] - 1), np.arange(sizes["h"])[::-1]):
            yield Numbers(algebra.atoms, sizes, {"tok": tokens}).poly(poly)


def test_bounds_are_never_passed():
    """And are met by the ramps themselves; a size and a place in a dimension are what they are said to be."""
    algebra = Algebra(Atoms(), RULES)
    _, made = polys(algebra)
    for poly in made:
        found, size, index = bounds(algebra, poly), as_size(algebra, poly), as_index(algebra, poly, H)
        assert size is None or found == (size, size)
        if found is None:
            continue
        for sizes in SIZES:
            for tokens in (np.zeros(sizes["h"]), np.full(sizes["h"], sizes["h"] - 1)):
                numbers = Numbers(algebra.atoms, sizes, {"tok": tokens})
                value = numbers.poly(poly)
                assert np.min(value) >= found[0].at(sizes)
                assert np.max(value) <= found[1].at(sizes)
                if index is not None:
                    labels = [i for i in ix.parts(index) if isinstance(i, Free)]
                    grid = {label: np.arange(numbers.size(label.extent)) for label in labels}
                    np.testing.assert_array_equal(value, numbers.position(index, grid))
    assert sum(bounds(algebra, p) is not None for p in made) >= 15
