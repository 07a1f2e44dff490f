"""Proofs that cover the sizes of the parameters that a model was brought with."""

from __future__ import annotations

import dataclasses
import functools

from quotax.artifacts import Certificate
from quotax.certify import certify
from quotax.declare import Architecture
from quotax.symmetry import Action
from quotax.trees import Keyword


def at_home(architecture: Architecture, action: Action, made: Certificate, **settings: Keyword) -> Certificate:
    """A proof that covers the sizes of the parameters that a model was brought with, or what is known there.

    A trace whose sizes are symbols may leave out the very sizes that the user has: `h ≠ 64`.
    """
    if not architecture.own:
        return made
    sizes = {a: architecture.own[a] for a in architecture.axis_names}
    settled = {axis for axis in sizes if isinstance(architecture.fixed.get(axis), int)}
    # other axes at numbers, beside symbols: there the model is looked at with all of its sizes as numbers too
    inside = (one.surely(sizes) and set(one.held) in (settled, set(sizes)) for one in made.covers)
    if not made or any(inside):
        return made
    home = certify(architecture, action, sizes=[sizes], **settings)
    if not home:
        return home
    return dataclasses.replace(_both(made, home), recipe=functools.partial(_rechecked, made, home))


def _rechecked(first: Certificate, second: Certificate) -> Certificate:
    again = first.recheck(), second.recheck()
    return next((each for each in again if not each), None) or _both(*again)


def _both(first: Certificate, second: Certificate) -> Certificate:
    """Two proofs of one claim as one."""
    return dataclasses.replace(
        first,
        scope=f"{first.scope} and {second.scope}",
        steps=(*first.steps, *second.steps),
        assumptions=tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
        derivation=(*first.derivation, *second.derivation),
        covers=(*first.covers, *second.covers),
    )
