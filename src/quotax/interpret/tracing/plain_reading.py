"""What a program of floats says of real numbers, in plainer words, each of which is an identity of real functions."""

from __future__ import annotations

from jax.extend.core import ClosedJaxpr

from quotax.interpret.tracing.chosen_twice import chosen_once
from quotax.interpret.tracing.complex_pairs import as_pairs
from quotax.interpret.tracing.exponents import as_quotients
from quotax.interpret.tracing.hypotenuses import as_roots
from quotax.interpret.tracing.sign_bits import comparing


def in_plain_words(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with sign bits, complex numbers, hypotenuses, choices within choices and exponents read; or itself."""
    return as_quotients(chosen_once(as_roots(as_pairs(comparing(closed)))))
