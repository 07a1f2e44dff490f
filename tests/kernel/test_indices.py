"""Indices in their simplest form are at the same position, for every small size and every value of their parts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.evaluation import Numbers
from kernel.terms import DOUBLE, EXTENTS, JOINT, LESS, MORE, SIZES, H, K, an_index
from quotax.kernel import indices as ix
from quotax.kernel.indices import Affine, Bound, Fixed, Free, Pair
from quotax.kernel.polynomials import Atoms
from quotax.kernel.sizes import Size

TWO = Size.of(2)
PLACE, OTHER = Free((0, 0), H), Free((0, 1), K)


def at_values(index, labels, values, sizes):
    return int(Numbers(Atoms(), sizes).position(index, dict(zip(labels, map(np.asarray, values), strict=True))))


AFFINE = [
    (0, 1, PLACE, H), (0, 1, PLACE, MORE), (1, 1, PLACE, MORE), (0, 1, PLACE, DOUBLE), (H, 1, PLACE, DOUBLE),
    (0, 2, PLACE, DOUBLE), (1, 2, PLACE, DOUBLE), (H.minus(1), -1, PLACE, H), (DOUBLE.minus(1), -2, PLACE, DOUBLE),
    (0, 1, PLACE, JOINT), (H.times(K).minus(H), 1, PLACE, JOINT), (K.minus(1), 1, PLACE, H.plus(K)),
    (3, 1, Fixed(Size.of(0), H), H.plus(3)), (H.minus(1), -1, Affine(H.minus(1), -1, PLACE, H), H),
    (1, 2, Affine(Size.of(0), 1, Free((0, 0), LESS), H), DOUBLE), (2, 3, PLACE, H.times(3)),
    (5, 3, PLACE, H.times(3).plus(3)),
    (0, 1, Free((0, 0), K), JOINT), (K, 1, Free((0, 0), K), JOINT.plus(K)), (0, 1, Pair(OTHER, PLACE), JOINT.plus(1)),
]  # fmt: skip


@pytest.mark.parametrize("made", AFFINE, ids=str)
def test_an_affine_index_keeps_its_position(made):
    start, stride, of, extent = made
    simple, raw = ix.affine(start, stride, of, extent), Affine(Size.of(start), stride, of, extent)
    labels = sorted({i for i in ix.parts(raw) if not isinstance(i, Fixed)}, key=ix.order)
    assert simple.extent == extent
    for sizes in SIZES:
        for values in itertools.product(*(range(i.extent.at(sizes)) for i in labels)):
            assert at_values(simple, labels, values, sizes) == at_values(raw, labels, values, sizes)


PARTS = [
    PLACE, OTHER, Bound(0, TWO), Fixed(Size.of(1), TWO), Fixed(Size.of(0), Size.of(1)), Fixed(H.minus(1), H),
    Free((0, 2), Size.of(1)), Pair(OTHER, PLACE), Fixed(K, JOINT.plus(K)), Affine(H.minus(1), -1, PLACE, H),
]  # fmt: skip


@pytest.mark.parametrize("outer", PARTS, ids=str)
@pytest.mark.parametrize("inner", PARTS, ids=str)
def test_a_pair_keeps_its_position(outer, inner):
    simple, raw = ix.pair(outer, inner), Pair(outer, inner)
    labels = sorted({i for i in ix.parts(raw) if not isinstance(i, Fixed)}, key=ix.order)
    assert simple.extent == raw.extent
    for sizes in SIZES:
        for values in itertools.product(*(range(i.extent.at(sizes)) for i in labels)):
            assert at_values(simple, labels, values, sizes) == at_values(raw, labels, values, sizes)


@settings(max_examples=100)
@given(st.randoms(use_true_random=False), st.sampled_from(EXTENTS))
def test_random_indices_are_within_their_extent_and_replacing_keeps_positions(random, extent):
    index = an_index(random.choice, extent, 3)
    assert index.extent == extent
    leaves = [i for i in dict.fromkeys(ix.parts(index)) if not isinstance(i, Fixed)]
    mapping = {i: random.choice([ix.fixed(0, i.extent), Free((7, k), i.extent), i])
               for k, i in enumerate(leaves) if i.extent != LESS}  # fmt: skip
    swapped = ix.replaced(index, mapping)
    for sizes in SIZES:
        numbers = Numbers(Atoms(), sizes)
        for values in itertools.product(*(range(i.extent.at(sizes)) for i in leaves)):
            grid = {i: np.asarray(v) for i, v in zip(leaves, values, strict=True)}
            assert 0 <= int(numbers.position(index, grid)) < extent.at(sizes)
            new = dict(grid)
            for i, v in grid.items():
                j = mapping.get(i, i)
                if isinstance(j, Fixed):
                    grid[i] = np.asarray(0)
                else:
                    new[j] = v
            assert int(numbers.position(swapped, new)) == int(numbers.position(index, grid))
