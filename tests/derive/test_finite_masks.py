"""Attention with a mask of -1e10 has the symmetries that it has with one of minus infinity."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import quotax as qx

WEIGHTS = {"Q": "head k d", "K": "head k d", "V": "head v d", "O": "d head v"}
PARAMS = WEIGHTS | {"bQ": "head k", "bK": "head k", "bV": "head v", "bO": "d"}
ASSUMED = "stands for minus infinity: what it is compared with is larger"


def attention(level, after=lambda s: s):
    @qx.architecture(params=PARAMS, inputs={"x": "t d"})
    def masked(p, x):
        q, k, v = (jnp.einsum("hkd,td->htk", p[n], x) + p["b" + n][:, None] for n in "QKV")
        causal = jnp.tril(jnp.ones((x.shape[0], x.shape[0]))) > 0
        scores = after(jnp.where(causal, q @ jnp.swapaxes(k, -1, -2), level))
        return jnp.einsum("htv,dhv->td", jax.nn.softmax(scores, -1) @ v, p["O"]) + p["bO"]

    return masked


LEVELS = {"-1e10": -1e10, "the least float": float(jnp.finfo(jnp.float32).min)}
NAMES = {"linear k", "linear v", "shift head k", "shift head v", "permute head"}


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_everything_is_found_that_is_found_with_an_infinity(level, derived):
    model = attention(LEVELS[level])
    found = derived(model)
    assert {s.name for s in (*found, *found.discrete)} == NAMES
    assert not found.unproved
    certificates = [found.certificate(s.name) for s in (*found, *found.discrete)]
    assert all(c.scope == "every width" for c in certificates)
    assert all(c.recheck() for c in certificates)
    assert all(any(a.endswith(ASSUMED) for a in c.assumptions) for c in certificates)
    for sizes in ({"d": 4, "head": 2, "k": 3, "v": 5, "t": 6}, {"d": 5, "head": 3, "k": 2, "v": 4, "t": 6}):
        assert found.audit(**sizes).surplus == 0


def test_an_infinity_needs_no_such_assumption(derived):
    found = derived(attention(-jnp.inf))
    assert {s.name for s in (*found, *found.discrete)} == NAMES
    assert not any(a.endswith(ASSUMED) for c in found.certificates for a in c.assumptions)


KEY_SHIFT = qx.Symmetry("shift head k", qx.Translation("k", each="head"), {"bK": "bK + g"})


def test_a_shift_that_the_mask_sees_is_refuted():
    seen = attention(-1e10, lambda s: jnp.where(s > -1e9, s, jnp.abs(s) * 1e-10))
    assert qx.verify(seen, KEY_SHIFT).status == "refuted"
    broken = qx.Symmetry("shift head k", qx.Translation("k", each="head"), {"bQ": "bQ + g"})
    assert qx.verify(attention(-1e10), broken).status == "refuted"


@pytest.mark.parametrize("after", [lambda s: (s + 1e10) * 1e-9, lambda s: s * 1e-10, lambda s: jnp.abs(s) * 1e-10])
def test_a_constant_that_is_a_number_is_not_given_the_assumption(after):
    certificate = qx.verify(attention(-1e10, after), KEY_SHIFT)
    assert certificate.status != "proved"
    assert not any(a.endswith(ASSUMED) for a in certificate.assumptions)
