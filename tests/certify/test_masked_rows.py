"""What is said of rows that a mask may leave nothing of: proved, assumed and listed, or not said at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.interpret.laws.rules.truths import truth_valued
from quotax.interpret.shared.mask_levels import read_masks
from quotax.kernel.atoms import Input
from quotax.kernel.polynomials import UNIT, Algebra, Atoms
from quotax.kernel.rewriting import RULES

PARAMS = {"Q": "k d", "K": "k d", "bK": "k", "V": "v d", "O": "d v"}
LEAST = float(jnp.finfo(jnp.float32).min)
LEFT = "its mask leaves something"
INFINITE = "stands for minus infinity: what it is compared with is larger"

VALUES = qx.Symmetry("values", qx.GL("v"), {"V": "g @ V", "O": "O @ inv(g)"})
KEYS = qx.Symmetry("keys", qx.Translation("k"), {"bK": "bK + g"})
QUERIES = qx.Symmetry("not a symmetry", qx.PositiveDiagonal("k"), {"Q": "g @ Q"})


def attention(keep, added, level=LEAST, after=lambda weights, scores, m: weights, mask="t"):
    """Attention after a norm whose variance is a maximum, as that of flax is."""

    @qx.architecture(params=PARAMS, inputs={"x": "t d", "m": qx.Mask(mask)})
    def model(p, x, m):
        variance = jnp.maximum(0.0, (x**2).mean(-1, keepdims=True) - x.mean(-1, keepdims=True) ** 2)
        x = p["Q"][0, 0] * x / jnp.sqrt(variance + 1e-5)
        scores = x @ p["Q"].T @ (x @ p["K"].T + p["bK"]).T
        shown = keep(m, jnp.arange(x.shape[0]))
        if added:
            none, all_of_it = (jnp.full(scores.shape, c, scores.dtype) for c in (level, 0.0))
            masked = scores + jax.lax.select(jnp.broadcast_to(shown, scores.shape) > 0, all_of_it, none)
        else:
            masked = jnp.where(shown, scores, level)
        return after(jax.nn.softmax(masked), scores, m) @ (x @ p["V"].T) @ p["O"].T

    return model


causal = lambda m, n: n[:, None] >= n[None, :]
strict = lambda m, n: n[:, None] > n[None, :]
window = lambda m, n: causal(m, n) & (n[:, None] - n[None, :] < 3)
padded = lambda m, n: jnp.broadcast_to(m[None, :], (*n.shape, *n.shape)) > 0
hiding = lambda m, n: jnp.broadcast_to(m[None, :], (*n.shape, *n.shape)) == 0
itself = lambda m, n: padded(m, n) | (n[:, None] == n[None, :])
combined = lambda m, n: jnp.logical_and(padded(m, n), causal(m, n)).astype(jnp.float32)
never = lambda m, n: jnp.logical_and(padded(m, n), strict(m, n))


def said(certificate):
    """Whether the proof assumes that rows are not empty, and that a constant is an infinity."""
    return tuple(any(a.endswith(end) for a in certificate.assumptions) for end in (LEFT, INFINITE))


@pytest.mark.slow
@pytest.mark.parametrize("keep", [causal, window, itself])
@pytest.mark.parametrize("added", [True, False])
def test_rows_that_see_themselves_need_no_assumption(keep, added):
    certificate = qx.verify(attention(keep, added), KEYS)
    assert (certificate.status, certificate.scope) == ("proved", "every width")
    assert said(certificate) == (False, True)
    assert not any("denominator" in a for a in certificate.assumptions)
    assert certificate.recheck()


@pytest.mark.slow
@pytest.mark.parametrize("keep", [padded, hiding, combined])
def test_rows_that_inputs_may_empty(keep):
    """A mask in place of scores needs its rows; one that is added may be the number that it is."""
    certificate = qx.verify(attention(keep, added=False), KEYS)
    assert (certificate.status, said(certificate)) == ("proved", (True, True))
    certificate = qx.verify(attention(keep, added=True), KEYS)
    assert (certificate.status, said(certificate)) == ("proved", (False, False))


@pytest.mark.slow
@pytest.mark.parametrize("keep", [strict, never])
def test_of_rows_that_are_always_empty_nothing_is_assumed(keep):
    """Every claim is true of what is no number: a mask that leaves nothing of a row stays a number."""
    for added, claim in ((True, KEYS), (True, VALUES), (False, VALUES)):
        certificate = qx.verify(attention(keep, added), claim)
        assert (certificate.status, said(certificate)) == ("proved", (False, False))


def test_what_empty_rows_show_is_refuted():
    """Where nothing is left, this hands out the scores themselves, which the shift moves."""
    shown = lambda weights, scores, m: jnp.where(m.sum() > 0, weights, scores)
    for added in (True, False):
        assert qx.verify(attention(padded, added, after=shown), KEYS).status == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("keep", [causal, combined, padded, strict])
def test_twins_are_refuted(keep):
    for added in (True, False):
        assert qx.verify(attention(keep, added), QUERIES).status == "refuted"


def test_masks_that_real_inputs_decide_are_not_assumed_to_leave_something():
    @qx.architecture(params={"b": "h"}, inputs={"x": "h"})
    def model(p, x):
        return jax.nn.softmax(jnp.where(x > 1e3, p["b"], -jnp.inf)).sum()

    claim = qx.Symmetry("any", qx.Translation("h"), {"b": "b + g"})
    certificate = qx.verify(model, claim)
    assert not any(a.endswith(LEFT) for a in certificate.assumptions)


# --- what this rests on


def test_a_polynomial_is_a_truth_value_where_it_is_one_in_every_case():
    algebra = Algebra(Atoms(), RULES)
    a, b, c = (algebra.entry(algebra.atoms.make(n, Input(), n, (), sign="boolean"), ()) for n in "abc")
    both = algebra.multiply(a, b)
    either = algebra.add(algebra.add(a, b), both, -1)
    odd = algebra.add(algebra.add(a, b), both, -2)
    for poly in (a, both, either, odd, algebra.add(UNIT, c, -1), algebra.multiply(either, algebra.add(UNIT, c, -1))):
        assert truth_valued(algebra, poly)
    for poly in (algebra.add(a, b), algebra.scale(a, 2), algebra.add(a, b, -1), algebra.add(UNIT, c)):
        assert not truth_valued(algebra, poly)


def test_masks_that_are_added_may_be_left_as_they_are():
    with jax.enable_x64(True):
        scores, kept = np.ones((3, 4)), np.ones((3, 4), bool)
        added = jax.make_jaxpr(lambda s, m: jax.nn.softmax(s + jnp.where(m, 0.0, -1e9)))(scores, kept)
        placed = jax.make_jaxpr(lambda s, m: jax.nn.softmax(jnp.where(m, s, -1e9)))(scores, kept)
    assert read_masks(added)[1]
    assert not read_masks(added, added=False)[1]
    assert read_masks(placed, added=False)[1]
