"""Every rule of rewriting, and every relation of a group, keeps the value of a term: at random, at small sizes."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.evaluation import Numbers, contradicted, element_values
from kernel.terms import DOUBLE, ELEMENTS, JOINT, LESS, MORE, SIZES, H, K, World
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Constant, Factor, Parameter
from quotax.kernel.elements import Element
from quotax.kernel.indices import Bound, Fixed, Free
from quotax.kernel.polynomials import Algebra, Atoms, TooLarge, renamed, slot
from quotax.kernel.rewriting import RULES, before, normalisations, position
from quotax.kernel.sheet import named_sum
from quotax.kernel.sizes import Size

PLAIN = World()
GROUPS = {name: World(element) for name, element in ELEMENTS.items()}


def numbers_of(world, sizes, seed=0):
    given = {}
    if world.element is not None:
        given = element_values(world.element, world.atoms, sizes, np.random.default_rng(seed))
    return Numbers(world.atoms, sizes, world.values(sizes, seed), given=given)


def labels_of(factors):
    return sorted({i for _, at, _ in factors for j in at for i in ix.parts(j) if isinstance(i, Free)}, key=ix.order)


def lost(algebra, factors, result):
    """The indices whose sums a rule says nothing of: each is the size of its extent."""
    _, current, consumed = result
    return set(algebra.bound_in(factors)) - set(algebra.bound_in(current)) - set(consumed)


def one_step(numbers, algebra, factors, results, labels):
    """The sum that a rule returns."""
    total = np.zeros(tuple(numbers.size(i.extent) for i in labels))
    with np.errstate(all="ignore"):
        for coefficient, current, consumed in results:
            value = numbers.term(current, labels) * float(coefficient)
            for index in lost(algebra, factors, (coefficient, current, consumed)):
                value = value * numbers.size(index.extent)
            total = total + value
    return total


def check_rule(world, rule, factors, seed=0):
    results = rule(world.algebra, factors)
    if results is None:
        return False
    labels = labels_of(factors)
    for sizes in SIZES:
        numbers = numbers_of(world, sizes, seed)
        with np.errstate(all="ignore"):
            expected = numbers.term(factors, labels)
        found = one_step(numbers, world.algebra, factors, results, labels)
        if np.all(np.isfinite(expected)):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9, err_msg=f"{sizes}: {factors}\n{results}")
    return True


@pytest.mark.parametrize(
    "rule",
    [pytest.param(r, id=r.__name__) for r in RULES],
)
def test_a_rule_keeps_the_value_of_a_term(rule):
    """Random terms until the rule has been used often enough."""
    fired, choose = 0, random.Random(1).choice
    for trial in range(4000):
        fired += check_rule(PLAIN, rule, aimed(PLAIN, rule.__name__, choose) or PLAIN.term(choose, 3), trial % 3)
        if fired >= 60:
            break
    assert fired >= 60, f"used {fired} times"


def aimed(world, name, choose):
    """Terms of rules that random ones seldom meet."""
    free = [Free((0, 0), H), Free((0, 10), H), Bound(0, H), Bound(10, H)]
    if name == "normalisations":
        # e[i,j] / d[i] with d the sum, next to other factors and with indices that are used elsewhere
        (summed, _) = world.lets
        ((term, _),) = summed.what.poly.items()
        e = term[0].atom
        i, j = choose(free), choose([Bound(1, K), Bound(1, K), Free((0, 1), K)])
        row = choose([i, i, choose(free)])
        more = [Factor(world.given[0].number, (choose([choose(free), i]),), 1)] * choose([0, 1, 1])
        extra = choose([[], [], [Factor(world.atoms._known["tokens", "tok"].number, (j,), 1)]])
        return [Factor(summed.number, (i,), choose([-1, -2])), Factor(e, (row, j), choose([1, 1, 2])), *more, *extra]
    if name == "selections":
        hot = world.atoms._known["one hot"].number
        rows = [Free((0, 1), K), Bound(1, K)]
        first = Factor(hot, (choose(rows), choose(free)), 1)
        second = Factor(hot, (choose(rows), choose(free)), 1)
        third = Factor(world.given[0].number, (choose(free),), 1)
        return choose([[first, second, third], [first, third], [first], [first, second]])
    if name == "rationals":
        from fractions import Fraction

        power = choose([Fraction(1, 2), Fraction(3, 2), Fraction(-5, 2), 2, -1, Fraction(-1, 3)])
        return [Factor(world.number.number, (), power), *world.term(choose, 1)]
    if name == "magnitudes":
        return [
            Factor(
                world.atoms._known["abs", world.given[0].number].number, (choose(free),), choose([1, 2, 3, -1, -2, 5])
            )
        ]
    if name == "parts_of_one":
        extent, part, start = choose(
            [(MORE, H, 0), (MORE, H, 1), (MORE, LESS, 2), (DOUBLE, MORE, LESS), (DOUBLE, LESS, MORE)]
        )
        inner = choose([Bound(0, part), Bound(0, part), Free((0, 5), part)])
        sides = [choose([Free((0, 4), extent), Bound(4, extent)]), ix.affine(start, 1, inner, extent)]
        delta = world.algebra.delta(*choose([sides, sides[::-1]]))
        return [delta, *choose([[], world.term(choose, 1)])]
    if name == "repacked":
        pair = choose([ix.pair(Bound(0, H), Bound(1, K)), ix.pair(Bound(1, K), Bound(0, H))])
        made = world.given[5].number
        joint = Factor(made, (pair,), 1)
        return choose(
            [
                [joint],
                [joint, joint._replace(power=2), *world.term(choose, 1)],
                [joint, Factor(world.given[0].number, (Bound(0, H),), 1)],
            ]
        )
    return None


@pytest.mark.parametrize("name", [n for n, w in GROUPS.items() if w.algebra.relations])
def test_a_relation_of_a_group_keeps_the_value_of_a_term(name):
    world = GROUPS[name]
    for number, relation in enumerate(world.algebra.relations):
        fired, choose = 0, random.Random(2).choice
        for trial in range(4000):
            fired += check_rule(world, relation, entries(world, choose), trial % 3)
            if fired >= 40:
                break
        assert fired >= 20, f"relation {number} was used {fired} times"


def entries(world, choose):
    """Products of two or three entries of the element, whose sums often meet, and something that it acts on."""
    element, atoms = world.element, world.atoms
    size = element.axis
    each = [(), ()] if not element.each else [(Free((0, 1), *element.each),), (Bound(0, *element.each),)]
    ends = [Free((0, 0), size), Free((0, 10), size), *[Bound(n, size) for n in (1, 2, 3)]]
    if element.kind in ("complex", "paired"):
        half = Size.of(2), H
        inner = [Free((0, 3), H), Bound(5, H)]
        for k in (ix.fixed(0, half[0]), ix.fixed(1, half[0]), Bound(7, half[0])):
            for i in inner:
                parts = (i, k)
                ends.append(ix.pair(*(parts if element.pairs == "adjacent" else parts[::-1])))
    copies = choose(each)
    pool = [a for a in atoms.made if a.number in {atoms._known[k].number for k in ("g", "inv(g)") if k in atoms._known}]
    factors = []
    for _ in range(choose([2, 2, 3])):
        at = (*choose([copies, copies, choose(each)]), *(choose(ends) for _ in range(2 if element.is_matrix else 1)))
        factors.append(Factor(choose(pool).number, at, 1 if element.is_matrix else choose([1, -1, 2])))
    if element.kind == "complex" and choose([True, False]):
        place = (*copies, choose([Free((0, 3), H), Bound(5, H)]))
        real, imaginary, norm = (atoms._known[k].number for k in ("re g", "im g", "1/|g|^2"))
        powers = [(imaginary, choose([2, 3, 4])), (norm, choose([1, 2])), (real, choose([1, 2]))]
        factors = [Factor(atom, place, power) for atom, power in powers]
    if element.kind == "centred" and choose([True, True, False]):
        w, v = (atoms._known[k].number for k in ("w of g", "w of inv(g)"))
        places = ((*copies, choose(ends)), (*copies, choose(ends)))
        factors = [Factor(w, places[0], choose([1, 2])), Factor(v, places[1], 1)]
    target = [a for a in world.given if a.slots == (size,) and a.sign == "real"]
    if target:
        factors.append(Factor(target[0].number, (choose(ends),), 1))
    return factors


@settings(max_examples=150)
@given(st.randoms(use_true_random=False), st.sampled_from(["plain", *GROUPS]))
def test_the_normal_form_keeps_the_value_of_a_term(source, name):
    world = PLAIN if name == "plain" else GROUPS[name]
    relational = world.element is not None and world.algebra.relations and source.random() < 0.7
    factors = entries(world, source.choice) if relational else world.term(source.choice)
    check_normal(world, factors)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", *GROUPS])
def test_the_normal_form_keeps_the_value_of_many_terms(name):
    world, choose = (PLAIN if name == "plain" else GROUPS[name]), random.Random(3).choice
    for trial in range(600):
        relational = world.element is not None and world.algebra.relations and trial % 3
        check_normal(world, entries(world, choose) if relational else world.term(choose), trial % 3)


def check_normal(world, factors, seed=0, at=SIZES):
    labels = labels_of(factors)
    try:
        poly = world.algebra.normal(2, factors)
    except TooLarge:
        return
    for sizes in at:
        numbers = numbers_of(world, sizes, seed)
        with np.errstate(all="ignore"):
            expected = 2 * numbers.term(factors, labels)
        if np.all(np.isfinite(expected)):
            np.testing.assert_allclose(numbers.poly(poly, labels), expected, rtol=1e-9, atol=1e-9, err_msg=f"{factors}")


@settings(max_examples=150)
@given(st.randoms(use_true_random=False))
def test_the_normal_form_depends_on_no_order_and_on_no_name(source):
    world = PLAIN
    factors = world.term(source.choice)
    bound = world.algebra.bound_in(factors)
    numbers = source.sample(range(40, 60), len(bound))
    naming = {i: Bound(n, i.extent) for i, n in zip(bound, numbers, strict=True)}
    other = renamed(factors, naming)
    source.shuffle(other)
    try:
        one, two = world.algebra.normal(1, factors), world.algebra.normal(1, other)
    except TooLarge:
        return
    if one != two:  # several rules may act: which acts first may leave another form of the same value
        labels = labels_of(factors)
        for sizes in SIZES:
            values = numbers_of(world, sizes)
            np.testing.assert_allclose(values.poly(one, labels), values.poly(two, labels), rtol=1e-9, atol=1e-9)
    assert world.algebra._canonical(list(factors)) == world.algebra._canonical(other)


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_normal_forms_are_normal(source):
    try:
        poly = PLAIN.algebra.normal(1, PLAIN.term(source.choice))
    except TooLarge:
        return
    for term in poly:
        assert PLAIN.algebra.normal(1, list(term)) == {term: 1}


@settings(max_examples=40)
@given(st.randoms(use_true_random=False))
def test_products_sums_and_substitutions_keep_values(source):
    world, algebra, choose = PLAIN, PLAIN.algebra, source.choice
    try:
        left, right = (
            algebra.add(algebra.normal(2, world.term(choose, 2)), algebra.normal(-3, world.term(choose, 2)))
            for _ in range(2)
        )
        labels = labels_of([f for p in (left, right) for t in p for f in t])
        summed = [i for i in labels if choose([True, False])]
        kept = [i for i in labels if i not in summed]
        product, total = algebra.multiply(left, right, summed), algebra.total(left, summed)
    except TooLarge:
        return
    for sizes in SIZES:
        numbers = numbers_of(world, sizes)
        a, b = numbers.poly(left, labels), numbers.poly(right, labels)
        axes = tuple(k for k, i in enumerate(labels) if i in summed)
        if np.all(np.isfinite(a)) and np.all(np.isfinite(b)):
            np.testing.assert_allclose(
                numbers.poly(algebra.add(left, right, -2), labels), a - 2 * b, rtol=1e-9, atol=1e-9
            )
            np.testing.assert_allclose(numbers.poly(product, kept), (a * b).sum(axis=axes), rtol=1e-9, atol=1e-8)
            np.testing.assert_allclose(numbers.poly(total, kept), a.sum(axis=axes), rtol=1e-9, atol=1e-9)


def test_a_position_and_an_order_are_numbers():
    algebra = PLAIN.algebra
    i, j = Free((0, 0), H), Free((0, 1), DOUBLE)
    for index in (ix.affine(H.minus(1), -1, i, H), ix.pair(Fixed(Size.of(1), Size.of(2)), i), j, Fixed(H, DOUBLE)):
        for sizes in SIZES:
            numbers, labels = numbers_of(PLAIN, sizes), labels_of([Factor(0, (index,), 1)])
            grid = {label: np.arange(numbers.size(label.extent)) for label in labels}
            found = numbers.poly(position(algebra, index), labels)
            np.testing.assert_array_equal(found, numbers.position(index, grid))
    for low in (i, Fixed(Size.of(0), H), Fixed(H.minus(1), H)):
        for high in (i, Free((0, 1), H), Fixed(Size.of(0), H), Fixed(H.minus(1), H)):
            for sizes in SIZES:
                numbers = numbers_of(PLAIN, sizes)
                labels = labels_of([Factor(0, (low, high), 1)])
                grid = {x: np.arange(sizes["h"]).reshape([-1 if x == y else 1 for y in labels]) for x in labels}
                expected = numbers.position(low, grid) <= numbers.position(high, grid)
                found = numbers.poly(before(algebra, low, high), labels)
                np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))


def test_a_sum_over_an_index_that_does_not_occur_is_its_size():
    algebra = PLAIN.algebra
    total = algebra.total({(): 1}, [Free((0, 0), H), Free((0, 1), DOUBLE)])
    for sizes in SIZES:
        assert numbers_of(PLAIN, sizes).poly(total) == 2 * sizes["h"] ** 2


def test_a_row_of_a_power_is_a_slot():
    """`in_slots` and `at` are inverse on the labels that they are given."""
    algebra, atom = PLAIN.algebra, PLAIN.given[1]
    at = (Free((3, 0), H), Free((2, 5), H))
    poly = algebra.entry(atom, at)
    back = algebra.in_slots(poly, at)
    assert back == algebra.entry(atom, (slot(0, H), slot(1, H)))
    assert algebra.at(back, at) == poly


def test_a_ramp_at_a_pair_keeps_the_name_of_a_bound_index():
    """`sum_i n[2 i] a[i] (sum_j b[j])`, whose ramp is summed with what its own index stands in."""
    ramp = PLAIN.atoms._known["iota", DOUBLE].number
    pair = ix.pair(Bound(10, H), Fixed(Size.of(0), Size.of(2)))
    check_normal(PLAIN, [Factor(ramp, (pair,), 1)])
    check_normal(PLAIN, [Factor(ramp, (pair,), 1), Factor(0, (Bound(10, H),), 1), Factor(0, (Bound(0, H),), 2)])


def test_a_reversed_unit_matrix_keeps_its_bound_indices():
    three = Size.of(3)
    flipped, weights = PLAIN.constants[1].number, PLAIN.constants[-1].number
    at = (ix.affine(2, -1, Bound(0, three), three), Bound(1, three))
    weighted = [Factor(weights, (Bound(number, three),), 1) for number in (0, 1)]
    check_normal(PLAIN, [Factor(flipped, at, 1), *weighted])


def test_a_truth_value_is_not_divided_out():
    """`where(p, x / [p], 0)` is zero where p is false: the assumption is one that the choice makes."""
    boolean = next(a for a in PLAIN.given if a.sign == "boolean" and a.slots == (H,))
    i = Free((0, 0), H)
    assert PLAIN.algebra.normal(1, [Factor(boolean.number, (i,), 1), Factor(boolean.number, (i,), -1)]) != {(): 1}


# --- indices of every form, each with each

ODD, SIX = DOUBLE.plus(1), Size.of(6)
I, J, L = Free((0, 0), H), Free((0, 1), H), Free((0, 2), LESS)
N, S = Free((0, 3), MORE), Free((0, 4), Size.of(2))
PLACES = {
    "h": [I, J, Bound(0, H), ix.fixed(0, H), ix.fixed(H.minus(1), H), ix.affine(H.minus(1), -1, I, H),
          ix.affine(1, 1, L, H), ix.affine(0, 1, L, H)],
    "h + 1": [N, ix.fixed(0, MORE), ix.fixed(1, MORE), ix.fixed(H, MORE), ix.affine(0, 1, I, MORE),
              ix.affine(1, 1, I, MORE), ix.affine(1, 1, J, MORE), ix.affine(H, -1, N, MORE),
              ix.affine(0, 1, L, MORE), ix.affine(H, -1, I, MORE)],
    "2 h": [ix.pair(S, I), ix.pair(I, S), ix.pair(S, J), ix.pair(ix.fixed(1, Size.of(2)), J),
            ix.pair(J, ix.fixed(1, Size.of(2))), ix.pair(S, ix.fixed(0, H)), ix.pair(ix.affine(1, -1, S, S.extent), I),
            *[ix.fixed(p, DOUBLE) for p in (0, 1, H, DOUBLE.minus(1), H.minus(1), DOUBLE.minus(2))],
            ix.affine(H.minus(1), 1, N, DOUBLE), ix.affine(0, 1, N, DOUBLE), ix.affine(DOUBLE.minus(1), -2, I, DOUBLE),
            ix.affine(H, 1, L, DOUBLE), ix.affine(0, 1, L, DOUBLE)],
    "2 h + 1": [Free((0, 5), ODD), ix.affine(0, 1, I, ODD), ix.affine(H, 1, I, ODD), ix.affine(H.plus(1), 1, J, ODD),
                ix.affine(H, 1, N, ODD), ix.affine(DOUBLE, -1, N, ODD), ix.affine(DOUBLE, -1, Free((0, 5), ODD), ODD),
                ix.affine(0, 2, N, ODD), ix.affine(1, 2, J, ODD), ix.affine(H.minus(1), -1, I, ODD),
                ix.affine(0, 1, ix.pair(S, I), ODD), *[ix.fixed(p, ODD) for p in (0, 1, 2, H, H.plus(1), DOUBLE)]],
    "6": [Free((0, 6), SIX), ix.pair(Free((0, 7), Size.of(3)), S), ix.pair(S, Free((0, 7), Size.of(3))),
          *[ix.fixed(p, SIX) for p in range(6)], ix.affine(5, -1, Free((0, 6), SIX), SIX),
          ix.affine(1, 2, S, SIX), ix.affine(2, 3, S, SIX), ix.affine(5, -2, Free((0, 7), Size.of(3)), SIX),
          ix.affine(4, -3, S, SIX), ix.affine(3, 1, S, SIX)],
}  # fmt: skip


@pytest.mark.parametrize("extent", PLACES)
def test_a_delta_is_whether_two_indices_are_equal(extent):
    """Alone, and next to a vector at one of them: what a delta equates may be renamed there."""
    places, algebra = PLACES[extent], PLAIN.algebra
    vector = PLAIN.atoms.make(("vector", extent), Parameter(), f"v {extent}", [places[0].extent])
    if vector not in PLAIN.given:
        PLAIN.given.append(vector)
    for left in places:
        for right in places:
            check_normal(PLAIN, [algebra.delta(left, right)])
            check_normal(PLAIN, [algebra.delta(left, right), Factor(vector.number, (right,), 1)])


@pytest.mark.parametrize("extent", PLACES)
def test_an_order_compares_any_two_places(extent):
    places = [p for p in PLACES[extent] if isinstance(p, Free | Bound | Fixed)]
    for left in places:
        for right in places:
            number = next(f[0] for term in before(PLAIN.algebra, Free((7, 0), left.extent), Free((7, 1), left.extent))
                          for f in term)  # fmt: skip
            check_normal(PLAIN, [Factor(number, (left, right), 1)])
            check_normal(PLAIN, [Factor(number, (left, right), 1), Factor(number, (right, left), 2)])


def test_an_array_of_numbers_at_any_index():
    """Blocks, strides, reversals and single places of arrays with different dimensions."""
    rng, other = np.random.default_rng(0), Free((1, 0), Size.of(4))
    whole = [rng.integers(-3, 4, (6, 4)), np.repeat([[1], [0], [0], [1], [2], [3]], 4, 1), np.eye(6)[:, :4],
             np.tile(rng.integers(-3, 4, (6, 1)), 4), np.eye(6), np.eye(6)[::-1],
             rng.integers(0, 3, (6, 4)), rng.integers(1, 3, (6, 4)), np.eye(6)[[0, 1, 2, 0, 5, 5], :4]]  # fmt: skip
    for array in whole:
        second = [
            other,
            Bound(3, Size.of(4)),
            ix.affine(3, -1, other, other.extent),
            ix.pair(Free((1, 1), S.extent), S),
        ]
        second = second if array.shape[1] == 4 else [Free((1, 2), SIX), *PLACES["6"]]
        slots = tuple(Size.of(n) for n in array.shape)
        made = PLAIN.atoms.make(("test", array.tobytes()), Constant(array.astype(float)), "c", slots)
        for left in PLACES["6"]:
            for right in second:
                check_normal(PLAIN, [Factor(made.number, (left, right), 1)], at=SIZES[:1])
    numbers = Numbers(PLAIN.atoms, SIZES[0])
    for atom in PLAIN.atoms.made:
        if isinstance(atom.what, Constant):
            numbers.atom(atom.number)
    assert not contradicted(numbers)


def test_only_the_sum_that_was_named_is_divided_out():
    """`sum_jk W[i,j] V[j,k] / d[i]`, and sums along a block and along a slice: with right and wrong indices."""
    algebra, make = PLAIN.algebra, PLAIN.atoms.make
    two = make(("V", "norm"), Parameter(), "V norm", (H, K), sign="positive")
    wide = make(("X", "norm"), Parameter(), "X norm", (H, JOINT), sign="positive")
    long = make(("Y", "norm"), Parameter(), "Y norm", (H, MORE), sign="positive")
    PLAIN.given += [a for a in (two, wide, long) if a not in PLAIN.given]
    square = next(a for a in PLAIN.given if a.sign == "positive" and a.slots == (H, H))
    j, k = Bound(0, H), Bound(1, K)
    bodies = [
        lambda i, j, k: [Factor(square.number, (i, j), 1), Factor(two.number, (j, k), 1)],
        lambda i, j, k: [Factor(wide.number, (i, ix.pair(j, k)), 1), Factor(square.number, (i, j), 1)],
        lambda i, j, k: [Factor(long.number, (i, ix.affine(1, 1, j, MORE)), 1), Factor(two.number, (i, k), 1)],
        lambda i, j, k: [Factor(wide.number, (j, ix.pair(i, k)), 1), Factor(square.number, (j, j), 1)],
    ]
    free = [Free((0, 0), H), Free((0, 1), H)]
    fired = 0
    for body in bodies:
        ((term, _),) = named_sum(algebra, algebra.normal(2, body(slot(0, H), j, k))).items()
        for i, row, a, b in itertools.product(free, free, [Bound(4, H), free[1]], [Bound(5, K), Free((0, 2), K)]):
            others = (two, (a, b)), (square, (i, a)), (square, (a, a)), (two, (Bound(6, H), b))
            for more in ([], *([Factor(atom.number, at, 1)] for atom, at in others)):
                for power in (-1, -2):
                    factors = [Factor(term[0].atom, (i,), power), *body(row, a, b), *more]
                    fired += check_rule(PLAIN, normalisations, factors)
    assert fired >= 8


@pytest.mark.parametrize(("pairs", "shared"), [("adjacent", 0), ("halves", 1)])
def test_a_factor_is_shared_by_pairs_and_by_nothing_else(pairs, shared):
    """On an axis of four, which of the two indices of two says the place depends on the pairs."""
    atoms, two = Atoms(), Size.of(2)
    element = Element("paired", (), Size.of(4), pairs)
    algebra = Algebra(atoms, RULES, element.relations(atoms))
    ends = Free((0, 0), two), Free((0, 1), two)
    entry = algebra.substituted(element.entry(algebra, (ix.pair(*ends),)))
    assert entry == {(Factor(atoms._known["g of pairs"].number, (ends[shared],), 1),): 1}
    for other in (Free((0, 0), Size.of(4)), ix.fixed(3, Size.of(4))):
        entry = element.entry(algebra, (other,))
        assert algebra.substituted(entry) == entry == {(Factor(atoms._known["g"].number, (other,), 1),): 1}


@pytest.mark.parametrize("name", [n for n, w in GROUPS.items() if w.element.is_matrix])
def test_a_relation_is_not_one_of_powers(name):
    """`sum_j g_ij²` and its relatives: what holds of entries does not of their powers."""
    world = GROUPS[name]
    g = world.atoms._known["g"].number
    other = world.atoms._known.get("inv(g)", world.atoms._known["g"]).number
    size = world.element.axis
    each = tuple(Free((0, 9), extent) for extent in world.element.each)
    i, k, j = Free((0, 0), size), Free((0, 1), size), Bound(0, size)
    for one, two in itertools.product((1, 2, 3), repeat=2):
        check_normal(world, [Factor(g, (*each, i, j), one)])
        check_normal(world, [Factor(g, (*each, j, i), one), Factor(other, (*each, j, k), two)])
        check_normal(world, [Factor(g, (*each, i, j), one), Factor(other, (*each, j, k), two)])
        check_normal(world, [Factor(g, (*each, i, j), one), Factor(other, (*each, j, j), two)])
