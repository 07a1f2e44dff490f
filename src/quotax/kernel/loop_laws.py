r"""The laws of a loop's carries, by induction over time: assumed, and kept if start and turn obey them."""

from __future__ import annotations

from collections.abc import Sequence

from quotax.kernel import indices as ix
from quotax.kernel.images import Images, Refused
from quotax.kernel.indices import Free
from quotax.kernel.polynomials import UNIT, Poly, renamed, slot
from quotax.kernel.sheet import Loop


def assume(known: Images, loop: Loop, images: Sequence[Poly]) -> None:
    """Every carry has the image that is said, if that is a law that does not depend on time."""
    if len(images) != len(loop.carries):
        raise Refused("not every carry has an image")
    for number, init, following in zip(loop.carries, loop.inits, loop.nexts, strict=True):
        slots = {slot(k, e) for k, e in enumerate(known.algebra.atoms[number].slots) if k}
        time = slot(0, loop.length)
        if not (set(known.algebra.free_in(init)) <= slots and set(known.algebra.free_in(following)) <= slots | {time}):
            raise Refused("a carry depends on an index that it has not")
    for number, image in zip(loop.carries, images, strict=True):
        if number in known.images:
            raise Refused("a carry has an image already")
        timeless(known, number, image)
        known.becomes(known.algebra.atoms[number], image)


def timeless(known: Images, number: int, image: Poly) -> None:
    """The law of a carry may not depend on time: it reads the carry at slot 0, and nothing else there."""
    time = slot(0, known.algebra.atoms[number].slots[0])
    for term in image:
        for atom, at, _ in term:
            here = [k for k, i in enumerate(at) if time in tuple(ix.inside(i))]
            if (here or atom == number) and (atom != number or here != [0] or at[0] != time):
                raise Refused("the law of a carry depends on time")


def discharge(known: Images, loop: Loop, images: Sequence[Poly]) -> None:
    """Base and step: with a law L, `C'[0] = L C[0]`, and `C'[t] = L C[t]` gives `C'[t + 1] = L C[t + 1]`."""
    for number, image, init, following in zip(loop.carries, images, loop.inits, loop.nexts, strict=True):
        for body in (init, following):
            if not known.same(_carried(known, number, image, known.plain(body)), known.moved(body)):
                raise Refused(f"the law of a carry of the loop at {loop.place} is not kept")


def _carried(known: Images, number: int, image: Poly, body: Poly) -> Poly:
    """The law of a carry, applied to a polynomial in its slots other than time."""
    algebra = known.algebra
    out: Poly = {}
    for term, coefficient in image.items():
        bound = algebra.bound_in(term)
        summed = [Free((ix.OPENED, k), i.extent) for k, i in enumerate(bound)]
        factors = renamed(term, dict(zip(bound, summed, strict=True)))
        product = algebra.normal(coefficient, [f for f in factors if f.atom != number])
        for _, at, power in (f for f in factors if f.atom == number):
            if power != int(power) or power < 1:
                raise Refused("the law of a carry has a power of it")
            here = algebra.substitute(body, {slot(k, i.extent): i for k, i in enumerate(at) if k})
            for _ in range(int(power)):
                product = algebra.multiply(product, here)
        out = algebra.add(out, algebra.multiply(UNIT, product, summed))
    return out
