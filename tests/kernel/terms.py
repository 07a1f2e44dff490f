"""Random terms in atoms of every kind, for the laws of the normal form."""

from fractions import Fraction

import numpy as np
import sympy as sp

from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Factor, Function
from quotax.kernel.elements import Element
from quotax.kernel.indices import Bound, Free
from quotax.kernel.polynomials import Algebra, Atoms, slot
from quotax.kernel.rewriting import RULES, _selections_of
from quotax.kernel.sheet import named_sum, node
from quotax.kernel.sizes import Size
from quotax.kernel.transformation import magnitude

H, K = Size.of("h"), Size.of("k")
TWO, THREE = Size.of(2), Size.of(3)
DOUBLE, MORE, LESS, JOINT = H.times(2), H.plus(1), H.minus(1), H.times(K)
EXTENTS = (H, K, TWO, THREE, DOUBLE, MORE, LESS, JOINT)
SIZES = ({"h": 1, "k": 2}, {"h": 2, "k": 1}, {"h": 3, "k": 2}, {"h": 2, "k": 3})


def an_index(choose, extent, depth=2):
    """Any index of this extent; `choose` picks one of a list."""
    number = choose([0, 1])
    simple = [
        Free((0, EXTENTS.index(extent) + 10 * number), extent),
        Bound(EXTENTS.index(extent) + 10 * number, extent),
    ]
    kind = choose(["free", "bound", "bound", "other", "other"])
    if kind == "free" or (kind == "other" and extent in (LESS, K)):
        return simple[0]
    if kind == "bound" or not depth:
        return simple[1]
    part = lambda e: an_index(choose, e, depth - 1)
    if extent == THREE and choose([True, False]):
        return ix.affine(2, -1, part(THREE), THREE)
    if extent.value is not None:
        return ix.fixed(choose(range(extent.value)), extent)
    if extent == H:
        made = [
            lambda: ix.fixed(0, H), lambda: ix.fixed(H.minus(1), H), lambda: ix.affine(H.minus(1), -1, part(H), H),
            lambda: ix.affine(1, 1, part(LESS), H), lambda: ix.affine(0, 1, part(LESS), H),
        ]  # fmt: skip
    elif extent == DOUBLE:
        made = [
            lambda: ix.pair(part(TWO), part(H)), lambda: ix.pair(part(H), part(TWO)),
            lambda: ix.affine(0, 2, part(H), DOUBLE), lambda: ix.affine(1, 2, part(H), DOUBLE),
            lambda: ix.affine(H, 1, part(H), DOUBLE), lambda: ix.affine(0, 1, part(H), DOUBLE),
            lambda: ix.affine(H.minus(1), 1, part(MORE), DOUBLE), lambda: ix.affine(0, 1, part(MORE), DOUBLE),
            lambda: ix.fixed(H, DOUBLE), lambda: ix.fixed(1, DOUBLE), lambda: ix.fixed(DOUBLE.minus(1), DOUBLE),
            lambda: ix.affine(DOUBLE.minus(1), -2, part(H), DOUBLE),
        ]  # fmt: skip
    elif extent == MORE:
        made = [
            lambda: ix.affine(0, 1, part(H), MORE), lambda: ix.affine(1, 1, part(H), MORE),
            lambda: ix.fixed(0, MORE), lambda: ix.fixed(H, MORE), lambda: ix.affine(H, -1, part(MORE), MORE),
            lambda: ix.affine(1, 1, part(LESS), MORE),
        ]  # fmt: skip
    else:
        made = [lambda: ix.pair(part(H), part(K)), lambda: ix.pair(part(K), part(H)), lambda: ix.fixed(0, JOINT)]
    return choose(made)()


class World:
    """An algebra with atoms of every kind, and values for those that are given."""

    def __init__(self, element=None):
        self.atoms = Atoms()
        self.element = element
        self.algebra = Algebra(self.atoms, RULES, element.relations(self.atoms) if element is not None else ())
        make = self.atoms.make
        self.given = []
        for sign in ("real", "positive", "boolean", "sign"):
            for slots in ((H,), (H, H), (DOUBLE,), (MORE,), (H, K), (JOINT,), (LESS,)):
                self.given.append(make((sign, slots), kinds.Parameter(), f"{sign}{len(self.given)}", slots, sign=sign))
        constants = (
            np.eye(3),
            np.eye(3)[::-1],
            np.array([[0, 1, 0], [1, 0, 0]]),
            np.array([1.5, 1.5, 1.5]),
            np.array([2.0, -1.0, 0.5]),
        )
        self.constants = [
            make(("constant", a.shape, tuple(a.ravel().tolist())), kinds.Constant(a), "c", list(map(Size.of, a.shape)),
                 **({"sign": "boolean", "rows": _selections_of(a)} if np.all((a == 0) | (a == 1)) else {}))
            for a in constants
        ]  # fmt: skip
        tokens = make(("tokens", "tok"), kinds.TokenInput(H), "tok", [K], sign="nonnegative")
        rows = {"sign": "boolean", "rows": (((0,), (1,), True),)}
        poly = {(Factor(tokens.number, (slot(0, K),), 1),): 1}
        self.made = [
            *self.constants,
            make("one hot", kinds.Selection(poly), "[tok=]", [K, H], **rows),
            make(("order", H), kinds.Order(), "[<=]", (H, H), sign="boolean"),
            make(("order", THREE), kinds.Order(), "[<=]", (THREE, THREE), sign="boolean"),
            make("window", kinds.Window(2, 1, Size.of(1), 1), "[window]", (H, THREE, DOUBLE), sign="boolean",
                 rows=(((0, 1), (2,), False),)),
            self.atoms[magnitude(self.algebra, self.given[0].number)],
        ]  # fmt: skip
        for extent in EXTENTS:
            self.made.append(self.atoms[self.algebra.delta(Free((0, 0), extent), Free((0, 1), extent))[0]])
        for extent in (H, DOUBLE, JOINT, TWO, MORE):
            self.made.append(self.algebra.ramp(extent))
        one, two = self.given[7 + 0], self.given[7 + 4]  # positive
        summed = self.algebra.normal(3, [Factor(two.number, (slot(0, H), Bound(0, K)), 1)])
        plus = self.algebra.add(self.algebra.entry(one, (slot(0, H),)), {(): 1})
        self.lets = [self._named(summed), self._named(plus)]
        z = sp.Symbol("z0", real=True)
        ((term, _),) = node(self.algebra, Function(sp.tanh(z), (z,), "tanh"), [plus]).items()
        self.made += [*self.lets, self.atoms[term[0].atom]]
        self.number = self.algebra.rational(Fraction(6))
        self.made.append(self.number)

    def _named(self, poly):
        ((term, _),) = named_sum(self.algebra, poly).items()
        return self.atoms[term[0].atom]

    def values(self, sizes, seed=0):
        """Arrays for the atoms that are given, by name."""
        rng = np.random.default_rng(seed)
        out = {"tok": rng.integers(0, sizes["h"], sizes["k"])}
        for atom in self.given:
            shape = tuple(s.at(sizes) for s in atom.slots)
            value = rng.uniform(0.5, 2.0, shape)
            if atom.sign == "real":
                value *= rng.choice([-1.0, 1.0], shape)
            elif atom.sign == "boolean":
                value = rng.integers(0, 2, shape).astype(float)
            elif atom.sign == "sign":
                value = rng.choice([-1.0, 1.0], shape)
            out[atom.name] = value
        return out

    def term(self, choose, most=4):
        """Random factors."""
        pool = [*self.given, *self.made, *self.made]
        if self.element is not None:
            pool += [a for a in self.atoms.made if isinstance(a.what, kinds.Matrix | kinds.Scalar)] * 12
        factors = []
        for _ in range(choose(range(1, most + 1))):
            atom = choose(pool)
            at = tuple(an_index(choose, extent) for extent in atom.slots)
            powers = [1, 1, 1, 2]
            if atom.sign in ("positive", "sign") or atom in self.lets:
                powers = [1, 1, -1, -1, 2]
            if isinstance(atom.what, kinds.Magnitude):
                powers = [1, 2, 3, -1, Fraction(1, 2)]
            if isinstance(atom.what, kinds.Rational):
                powers = [Fraction(1, 2), Fraction(3, 2), Fraction(-5, 2), 2]
            if isinstance(atom.what, kinds.Matrix):
                powers = [1]
            factors.append(Factor(atom.number, at, choose(powers)))
        return factors


ELEMENTS = {
    "general": Element("general", (), H), "general for each": Element("general", (K,), H),
    "orthogonal": Element("orthogonal", (), H), "orthogonal for each": Element("orthogonal", (K,), H),
    "fixing": Element("fixing", (), H), "fixing for each": Element("fixing", (K,), H),
    "permutation": Element("permutation", (), H), "permutation for each": Element("permutation", (K,), H),
    "centred": Element("centred", (), H), "centred for each": Element("centred", (K,), H),
    "complex": Element("complex", (), DOUBLE), "complex halves": Element("complex", (K,), DOUBLE, "halves"),
    "paired": Element("paired", (), DOUBLE), "paired halves": Element("paired", (K,), DOUBLE, "halves"),
    "positive": Element("positive", (), H), "sign": Element("sign", (), H), "nonzero": Element("nonzero", (K,), H),
    "vector": Element("vector", (), H),
}  # fmt: skip
