"""Models of even widths that exist at width 1 too, where arrays broadcast or Python branches."""

import jax.numpy as jnp
import pytest

import quotax as qx


@qx.architecture(params={"Q": "x k", "K": "x k"}, inputs={"x": "t x"})
def rotary(p, x):
    """Tables of `2 * ceil(k / 2)` angles: an odd k is refused, and one coordinate broadcasts against two angles."""

    def rope(z):
        t, k = z.shape
        angles = jnp.arange(t)[:, None] * 0.5 ** (jnp.arange(0, k, 2) / k)
        angles, half = jnp.concatenate([angles, angles], -1), k // 2
        return z * jnp.cos(angles) + jnp.concatenate([-z[:, half:], z[:, :half]], -1) * jnp.sin(angles)

    return rope(x @ p["Q"]) @ rope(x @ p["K"]).T


def branching(power):
    """Linear at even widths, this power at width 1, refused at other odd ones."""

    @qx.architecture(params={"W": "h x", "V": "h y"}, inputs={"x": "x"})
    def model(p, x):
        z = p["W"] @ x
        if z.shape[0] == 1:
            return jnp.sum(z) ** power * p["V"][0]
        half = z[: z.shape[0] // 2]
        return (z + 0.0 * jnp.concatenate([half, half])) @ p["V"]

    return model


BALANCE = qx.Symmetry("balance", qx.PositiveScalar(), {"Q": "g * Q", "K": "K / g"})
HIDDEN = qx.Symmetry("hidden", qx.PositiveDiagonal("h"), {"W": "g @ W", "V": "inv(g) @ V"})


def test_an_odd_width_that_only_broadcasts_does_not_narrow_a_proof():
    rotary.trace({"x": 3, "k": 1, "t": 4})
    with pytest.raises(qx.QuotaxError):
        rotary.trace({"x": 3, "k": 5, "t": 4})
    certificate = qx.verify(rotary, BALANCE)
    assert certificate.scope == certificate.recheck().scope == "every width"
    assert "every even k" in certificate.assumptions
    assert "k = 1 has a proof of its own" in certificate.steps


@pytest.mark.parametrize("power", [1, 2])
def test_width_one_is_left_out_where_it_has_no_proof(power):
    """Squared, the claim is false at width 1 and true at every even one: the scope must not cover it."""
    certificate = qx.verify(branching(power), HIDDEN)
    assert certificate.scope == certificate.recheck().scope
    assert certificate.scope == ("every width" if power == 1 else "every width with h ≥ 2")
    assert "every even h" in certificate.assumptions
