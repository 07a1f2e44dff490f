"""Proofs of the table of claims as data, and the numbers that every image of a proof has to have."""

from typing import NamedTuple

import numpy as np

from kernel.evaluation import Numbers, Opaque, OutOfBounds, TooMany, element_values
from quotax.certify.every_width.finding import find
from quotax.certify.every_width.opening import Opening, opened
from quotax.certify.every_width.opening_sizes import openings
from quotax.certify.every_width.scalar_identities import LEMMAS, prove
from quotax.certify.every_width.statement import claimed, element_of
from quotax.kernel.atoms import Input, Parameter, TokenInput
from quotax.kernel.data import _Decoder, encode
from quotax.kernel.polynomials import slot
from quotax.kernel.proof import Proof
from quotax.kernel.sizes import Size


class Stated(NamedTuple):
    """A claim about a sheet, as the kernel hears it."""

    opening: Opening
    element: object
    claim: object


def stated(row):
    """The claim of a row at the first sizes at which its model is written out."""
    _, model, symmetry = row
    action = symmetry.bind(model.params)
    for axes in openings(model, action.group):
        opening = opened(model, axes)
        if isinstance(opening, Opening):
            break
    sizes = {a: Size.of(n) for a, n in opening.trace.sizes.items()}
    element = element_of(action, opening.sheet, model, sizes)
    return Stated(opening, element, lambda algebra: claimed(opening.sheet, algebra, action, element, model, sizes))


def derived(row):
    """The claim and the steps that are found for it, as data."""
    what = stated(row)
    found, _ = find(what.opening.sheet, what.element, what.claim, LEMMAS, prove)
    return what, encode(found.proof, found.steps), found


class Recorded(Proof):
    """The last proof that a replay made is kept, whatever became of it."""

    last = None

    def __init__(self, *args):
        super().__init__(*args)
        Recorded.last = self


def replayed(what, steps, prover=prove):
    """As `data.replay` does it; the proof is kept in `Recorded.last`."""
    proof = Recorded(what.opening.sheet, what.element, prover)
    proof.claim(what.claim(proof.algebra))
    reader = _Decoder(proof)
    for step in steps:
        proof.do(reader.step(step))
    return proof.settled()


def wrong_images(proof, what, symbols, seed=0):
    """The atoms whose image is not their value at the moved parameters: none, if every step that was taken is sound."""
    if proof._open:
        return []  # what follows from an assumption is not yet known
    rng = np.random.default_rng(seed)
    atoms, sheet = proof.algebra.atoms, proof.sheet
    given = element_values(what.element, atoms, symbols, rng)
    values = {}
    for atom in atoms.made[: proof.common]:
        shape = tuple(s.at(symbols) for s in atom.slots)
        if isinstance(atom.what, Parameter | Input):
            values[atom.name] = rng.integers(0, 2, shape) if atom.sign == "boolean" else rng.normal(size=shape)
        elif isinstance(atom.what, TokenInput):
            values[atom.name] = rng.integers(0, atom.what.below.at(symbols), shape)
    numbers = Numbers(atoms, symbols, values, sheet.loops, given)
    moved = dict(values)
    for name, number in sheet.parameters.items():
        labels = [slot(k, s) for k, s in enumerate(atoms[number].slots)]
        moved[name] = numbers.poly(proof.images[number], labels)
    after = Numbers(atoms, symbols, moved, sheet.loops, given)
    wrong = []
    for number, image in proof.images.items():
        labels = [slot(k, s) for k, s in enumerate(atoms[number].slots)]
        try:
            with np.errstate(all="ignore"):
                expected, found = after.atom(number), numbers.poly(image, labels)
        except (Opaque, OutOfBounds, TooMany):
            continue
        both = np.isfinite(expected) & np.isfinite(found)
        if not np.allclose(expected[both], found[both], rtol=1e-6, atol=1e-7):
            wrong.append((atoms[number].name, number, image))
    return wrong


def small(opening, base=(2, 3, 2, 1, 3, 2, 2, 3)):
    """Small values of the symbols of a trace."""
    symbols = sorted({s for size in opening.trace.sizes.values() for s in Size.of(size).symbols})
    return {s: base[k % len(base)] for k, s in enumerate(symbols)}
