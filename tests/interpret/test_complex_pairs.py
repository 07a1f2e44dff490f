"""Complex numbers as pairs of reals: the same numbers as JAX's own, and the symmetries that they let through."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import quotax as qx
from quotax.interpret.tracing.complex_pairs import as_pairs
from quotax.programs.hosted import Hosted
from quotax.programs.jaxprs import equations

rng = np.random.default_rng(0)
A, B, C = rng.normal(size=(3, 4, 6))
"""Of what programs are evaluated: `z = A + iB`, `w = C + i`."""

PROGRAMS = {
    "arithmetic": lambda np, z, w: z * w + 2j * z - w / (z + 3) - (-z) / 2,
    "reals among them": lambda np, z, w: z.real * w + 1.5 * np.asarray(z.imag, complex) / w.real,
    "powers": lambda np, z, w: (z**3, z**-2, np.square(w), z**0, w ** (0.3 + 1j), z**1.5),
    "functions": lambda np, z, w: (np.exp(z), np.log(w), np.sin(z), np.cos(w), np.sign(z), np.abs(w), np.sqrt(-w)),
    "conjugates": lambda np, z, w: np.vdot(z, w) + np.conj(z).T @ w,
    "angles": lambda np, z, w: np.angle(z) + np.real(w),
    "shapes": lambda np, z, w: np.concatenate([z[::-1].T.reshape(4, 6), np.pad(w, 1)[1:-1, 2:]])[1:, None].repeat(2, 1),
    "choices": lambda np, z, w: np.where(z.real > 0, z, w) + np.where(z == w, 1, z) + np.isfinite(z) + (z != w),
    "places": lambda np, z, w: z[np.array([2, 0]), 1] + np.stack([w, z])[1, :2, 2],
    "sums": lambda np, z, w: (z.sum(0), np.cumsum(w, 1), np.mean(z)),
    "contractions": lambda np, z, w: np.einsum("ij,kj,kl->il", z, w, z) + z @ w.real.T @ w,
    "fft": lambda np, z, w: (np.fft.fft(z), np.fft.ifft(z, axis=0), np.fft.fft(z.real, 8), np.fft.fft(w, 3)),
    "fft of two axes": lambda np, z, w: (np.fft.fft2(z), np.fft.ifft2(w, norm="ortho"), np.fft.rfft2(w.real)),
    "real fft": lambda np, z, w: (np.fft.rfft(z.real), np.fft.rfft(z.real, 5), np.fft.fftshift(z, 1)),
    "back from it": lambda np, z, w: (np.fft.irfft(z), np.fft.irfft(z, 7), np.fft.irfft2(w), np.fft.hfft(z)),
}


def numbers(program, *arrays):
    """What a program read as pairs computes, without a compiler."""
    read = as_pairs(jax.make_jaxpr(program)(*arrays))
    assert not any(jnp.iscomplexobj(v.aval) for e in equations(read) for v in (*e.invars, *e.outvars))
    return Hosted(read)(*arrays)


def close(found, wanted):
    for a, b in zip(found, jax.tree.leaves(wanted), strict=True):
        b = np.stack([b.real, b.imag], -1) if np.iscomplexobj(b) else b
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_pairs_say_what_numpy_says(name):
    found = numbers(lambda a, b, c: PROGRAMS[name](jnp, a + 1j * b, c + 1j), A, B, C)
    close(found, PROGRAMS[name](np, A + 1j * B, C + 1j))


def test_loops_and_branches_carry_pairs():
    def loops(z):
        _, made = lax.scan(lambda s, u: ((0.5 + 0.2j) * s + u, s * u), jnp.zeros(6, complex), z)
        small = lax.while_loop(lambda s: jnp.sum(jnp.abs(s)) > 1, lambda s: s * (0.5 + 0.1j), z)
        half = lax.cond(jnp.sum(z.real) > 0, lambda u: u / (2 + 1j), lambda u: u.conj(), z)
        return made, small, half, z.at[1].set(z[0]).at[2, :3].add(1j)

    z, s, made = A + 1j * B, 0, []
    for u in z:
        made.append(s * u)
        s = (0.5 + 0.2j) * s + u
    small = z
    while np.sum(np.abs(small)) > 1:
        small = small * (0.5 + 0.1j)
    placed = z.copy()
    placed[1], placed[2, :3] = z[0], z[2, :3] + 1j
    half = z / (2 + 1j) if np.sum(z.real) > 0 else z.conj()
    close(numbers(lambda a, b: loops(a + 1j * b), A, B), (np.array(made), small, half, placed))


def test_without_complex_numbers_a_program_stays_as_it_is():
    closed = jax.make_jaxpr(lambda x: jnp.sin(x @ x.T))(A)
    assert as_pairs(closed) is closed


def test_what_has_no_rule_is_named_with_its_line():
    model = qx.architecture(params={"w": "h"}, inputs={"x": ""})(lambda p, x: jnp.sort(p["w"] + 1j * x).imag)
    with pytest.raises(qx.UnsupportedPrimitiveError, match=r"test_complex_pairs.py:.* real and imaginary parts"):
        qx.derive(model)


# --- models


def rotary(stretch):
    """Attention with positions as complex numbers; `stretch` is what the keys' imaginary parts are multiplied with."""

    @qx.architecture(params={"Q": "d k", "K": "d k"}, inputs={"x": "t d"}, where="k even")
    def attention(p, x):
        t, k = jnp.arange(x.shape[0])[:, None], p["Q"].shape[1]
        waves = jnp.exp(1j * t * 10000.0 ** (-jnp.arange(0, k, 2) / k))

        def turned(z, times):
            z = lax.complex(z[:, 0::2], times * z[:, 1::2]) * waves
            return jnp.stack([z.real, z.imag], -1).reshape(x.shape[0], k)

        return turned(x @ p["Q"], 1) @ turned(x @ p["K"], stretch).T

    return attention


TURN = qx.Symmetry("turn", qx.ComplexScaling("k"), {"Q": "Q @ g.T", "K": "K @ inv(g)"})


def test_rotary_positions_as_complex_numbers_let_complex_factors_through_at_every_width():
    found = qx.derive(rotary(1))
    assert [s.group for s in found] == [qx.ComplexScaling("k")]
    assert found.certificates[0].scope == "every width"
    assert qx.verify(rotary(2), TURN).status == "refuted"


def spectral(through):
    """A Fourier layer; `through` is what is done to the frequencies besides."""

    @qx.architecture(params={"W": "h c", "R": "y h", "I": "y h"}, inputs={"x": "n c"})
    def layer(p, x):
        z = jnp.fft.fft(x @ p["W"].T, axis=0)
        return jnp.fft.ifft(through(z) @ (p["R"] + 1j * p["I"]).T, axis=0).real

    return layer


MIX = qx.Symmetry("mix", qx.GL("h"), {"W": "g @ W", "R": "R @ inv(g)", "I": "I @ inv(g)"})


def test_a_layer_in_the_frequency_domain_may_mix_its_channels():
    certificate = qx.verify(spectral(lambda z: z), MIX)
    assert (certificate.status, certificate.scope) == ("proved", "every width")
    assert qx.verify(spectral(lambda z: jnp.tanh(z.real) + 1j * z.imag), MIX).status == "refuted"


def test_a_recurrence_with_complex_eigenvalues_scales_its_states_at_every_length():
    @qx.architecture(
        params={"a": "h", "w": "h", "Br": "h c", "Bi": "h c", "Cr": "y h", "Ci": "y h"}, inputs={"x": "n c"}
    )
    def states(p, x):
        turn = jnp.exp(-jnp.exp(p["a"]) + 1j * p["w"])
        fed = x @ (p["Br"] + 1j * p["Bi"]).T
        _, s = lax.scan(lambda s, u: (turn * s + u,) * 2, jnp.zeros(turn.shape, complex), fed)
        return (s @ (p["Cr"] + 1j * p["Ci"]).T).real

    back = {"Cr": "Cr @ inv(g)", "Ci": "Ci @ inv(g)"}
    scale = qx.Symmetry("scale", qx.Diagonal("h"), {"Br": "g @ Br", "Bi": "g @ Bi", **back})
    certificate = qx.verify(states, scale)
    assert (certificate.status, certificate.scope) == ("proved", "every width")
    half = qx.Symmetry("half", qx.Diagonal("h"), {"Br": "g @ Br", **back})
    assert qx.verify(states, half).status == "refuted"


def test_an_imaginary_part_that_float32_has_otherwise_is_seen():
    @qx.architecture(params={"w": "h"}, inputs={"x": ""})
    def looks(p, x):
        turn = 1 + 2j if p["w"].dtype == jnp.float32 else 1 + 3j
        return (x * turn * jnp.sum(p["w"] ** 2)).imag

    with jax.enable_x64(False), pytest.raises(qx.QuotaxError, match="another function in float32"):
        qx.verify(looks, qx.Symmetry("turn", qx.O("h"), {"w": "g @ w"}))


def test_outputs_may_be_complex():
    @qx.architecture(params={"A": "k x", "w": "k"}, inputs={"x": "x"})
    def waves(p, x):
        z = jnp.exp(1j * p["A"] @ x)
        return z, jnp.sum(p["w"] ** 2) * 1j

    found = qx.derive(waves)
    assert [s.group for s in found] == [qx.O("k")]
    audit = found.audit(k=2, x=3)
    assert (audit.flat, audit.surplus) == (1, 0)
