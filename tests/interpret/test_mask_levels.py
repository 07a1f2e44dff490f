"""Large negative constants are read as minus infinity where they are a mask, and nowhere else."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.interpret.shared.mask_levels import read_masks

LEAST = float(jnp.finfo(jnp.float64).min)


def traced(function):
    with jax.enable_x64(True):
        scores, kept = jax.random.normal(jax.random.key(0), (3, 4)), jnp.tril(jnp.ones((3, 4))) > 0
        return jax.make_jaxpr(function)(scores, kept), (scores, kept)


def outputs(closed, arguments):
    with jax.enable_x64(True):
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *arguments)


@jax.jit
def nested(s, m):
    return jax.nn.softmax(jnp.where(m, s, -1e10), -1)


MASKS = {
    "softmax": lambda s, m: jax.nn.softmax(jnp.where(m, s, -1e10), -1),
    "least float": lambda s, m: jax.nn.softmax(jnp.where(m, s, jnp.finfo(s.dtype).min), -1),
    "shifted and scaled": lambda s, m: jax.nn.softmax((jnp.where(m, s, -1e9) + s) / 8.0, -1),
    "added": lambda s, m: jax.nn.softmax(s + jnp.where(m, 0.0, -1e9), -1),
    "by hand": lambda s, m: jnp.exp(jnp.where(m, s, -1e30)) / jnp.exp(jnp.where(m, s, -1e30)).sum(-1, keepdims=True),
    "full": lambda s, m: jax.nn.softmax(jnp.where(m, s, jnp.full_like(s, -1e10)), -1),
    "in a loop": lambda s, m: jax.lax.scan(lambda c, _: (nested(c, m), None), s, None, length=2)[0],
    "logsumexp": lambda s, m: jax.nn.logsumexp(jnp.where(m, s, -1e10), -1),
    "a call": nested,
    "clipped first": lambda s, m: nested(jnp.clip(s, -1e9, 3.0), m),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_are_read(name):
    closed, arguments = traced(MASKS[name])
    read, notes = read_masks(closed)
    assert notes
    assert all(note.endswith("stands for minus infinity: what it is compared with is larger") for note in notes)
    assert "-inf" in str(read)
    for before, after in zip(outputs(closed, arguments), outputs(read, arguments), strict=True):
        np.testing.assert_array_equal(before, after)


NUMBERS = {
    "added back": lambda s, m: jax.nn.softmax(jnp.where(m, s, -1e10) + 1e10, -1),
    "added back in two steps": lambda s, m: jax.nn.softmax(jnp.where(m, s, -1e10) + 1e10 * s**0, -1),
    "scaled back": lambda s, m: jax.nn.softmax(jnp.where(m, s, -1e10) * 1e-10, -1),
    "scaled back in two steps": lambda s, m: jax.nn.softmax(jnp.where(m, s, -1e10) * 1e-5 / 1e5, -1),
    "divided": lambda s, m: s / jnp.where(m, s, -1e10),
    "multiplied": lambda s, m: jax.nn.softmax(s * jnp.where(m, s, -1e10), -1),
    "negated": lambda s, m: jax.nn.softmax(-jnp.where(m, s, -1e10), -1),
    "handed out": lambda s, m: jnp.where(m, s, -1e10),
    "also summed": lambda s, m: (lambda z: jax.nn.softmax(z, -1) * z.sum())(jnp.where(m, s, -1e10)),
    "a difference": lambda s, m: (lambda z: jnp.exp(z - z[:1]))(jnp.where(m, s, -1e10)),
    "a sine": lambda s, m: jnp.sin(jnp.where(m, s, -1e10)),
    "the least": lambda s, m: jnp.exp(jnp.where(m, s, -1e10).min(-1)),
    "positive": lambda s, m: jax.nn.softmax(jnp.where(m, s, 1e10), -1),
    "a size that scores have": lambda s, m: jax.nn.softmax(jnp.where(m, s, -1e4), -1),
    "carried": lambda s, m: jnp.exp(jax.lax.scan(lambda c, _: (c + 1, None), jnp.where(m, s, -1e10), None, 2)[0]),
    "added back inside a loop": lambda s, m: jax.lax.scan(
        lambda c, b: (jnp.exp(jnp.where(m, c, -1e10) + b), None), s, jnp.full((2,), 1e10)
    )[0],
    "an array added back": lambda s, m: jnp.exp(jnp.where(m, s, -1e10) + np.full(4, 1e10)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_not(name):
    closed, _ = traced(NUMBERS[name])
    read, notes = read_masks(closed)
    assert not notes
    assert read is closed
