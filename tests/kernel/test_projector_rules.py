"""What is known of a projector onto a kernel: the sums that vanish, those that do not, each beside numbers."""

import numpy as np
import pytest

from quotax.kernel.atoms import Atoms, Factor, Parameter
from quotax.kernel.indices import Bound, Free
from quotax.kernel.polynomials import Algebra
from quotax.kernel.projectors import Projector
from quotax.kernel.rewriting import RULES
from quotax.kernel.sizes import Size

Y, H, L = Size.of("y"), Size.of("h"), Size.of("l")
EXTENTS = {"y": (Y, 2), "h": (H, 4), "l": (L, 3)}
RNG = np.random.default_rng(0)
V = RNG.normal(size=(3, 2, 4))
P = np.stack([np.eye(4) - np.linalg.pinv(v) @ v for v in V])
X = RNG.normal(size=(4, 4))

TERMS = [  # factors as `einsum` has them: an array, its labels, a power; the letters that stay
    ([("V", "lyh", 1), ("P", "lhk", 1)], "lyk"),
    ([("V", "lyh", 1), ("P", "lkh", 1)], "lyk"),
    ([("P", "lhj", 1), ("P", "ljk", 1)], "lhk"),
    ([("P", "ljh", 1), ("P", "ljk", 1)], "lhk"),
    ([("V", "lyh", 1), ("P", "mhk", 1)], "lmyk"),  # of another copy
    ([("V", "lyh", 2), ("P", "lhk", 1)], "lyk"),
    ([("V", "lyh", 1), ("P", "lhk", 2)], "lyk"),
    ([("V", "lyh", 1), ("P", "lhh", 1)], "ly"),
    ([("V", "lyh", 1), ("P", "lhk", 1), ("X", "hj", 1)], "lykj"),
    ([("V", "lyh", 1), ("P", "lhk", 1)], "lyhk"),  # not summed
    ([("V", "lyh", 1), ("P", "lhj", 1), ("X", "jk", 1)], "lyk"),
    ([("P", "lhj", 1), ("P", "mjk", 1)], "lmhk"),
    ([("P", "lhj", 1), ("P", "ljk", 1), ("X", "kj", 1)], "lh"),
    ([("V", "lyj", 1), ("P", "lhj", 1), ("P", "lhk", 1), ("X", "ki", 1)], "lyi"),
]  # fmt: skip


def index(letter, kept, number):
    extent = EXTENTS.get(letter, (H, 4) if letter in "hijk" else (L, 3))[0]
    return Free((0, number), extent) if letter in kept else Bound(number, extent)


@pytest.mark.parametrize(("factors", "kept"), TERMS)
def test_the_normal_form_keeps_the_value(factors, kept):
    atoms = Atoms()
    arrays = {"V": (atoms.make("V", Parameter(), "V", (L, Y, H)).number, V)}
    arrays["X"] = (atoms.make("X", Parameter(), "X", (H, H)).number, X)
    own = Projector("null", ((arrays["V"][0], 2, (0,)),), (L, H, H))
    arrays["P"] = (own.atom(atoms).number, P)
    algebra = Algebra(atoms, RULES, own.relations(atoms))
    letters = dict.fromkeys("".join(labels for _, labels, _ in factors))
    names = {letter: index(letter, kept, number) for number, letter in enumerate(letters)}
    made = [Factor(arrays[a][0], tuple(names[x] for x in labels), power) for a, labels, power in factors]
    spelled = ",".join(labels for _, labels, _ in factors)
    before = np.einsum(f"{spelled}->{kept}", *(arrays[a][1] ** p for a, _, p in factors))
    after = np.zeros(before.shape)
    values = dict(arrays.values())
    free = {names[letter]: letter for letter in kept}
    for term, coefficient in algebra.normal(1, made).items():
        others = dict.fromkeys(i for _, at, _ in term for i in at if i not in free)
        spelled = free | dict(zip(others, "abcdefg", strict=False))
        own_labels = ["".join(spelled[i] for i in at) for _, at, _ in term]
        own_values = [values[number] ** power for number, _, power in term]
        after = after + float(coefficient) * np.einsum(f"{','.join(own_labels)}->{kept}", *own_values)
    np.testing.assert_allclose(after, before, atol=1e-12)


def test_where_the_axis_has_one_index_nothing_is_known():
    atoms = Atoms()
    number = atoms.make("V", Parameter(), "V", (Y,)).number
    own = Projector("null", ((number, None, ()),), ())
    algebra = Algebra(atoms, RULES, own.relations(atoms))
    term = [Factor(number, (Free((0, 0), Y),), 1), Factor(own.atom(atoms).number, (), 1)]
    assert algebra.normal(1, term)
