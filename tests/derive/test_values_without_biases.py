"""Attention whose queries, keys and values have no biases, behind a norm that has one, as in GPT-Neo."""

import jax
import jax.numpy as jnp
import pytest

import quotax as qx

READERS = {"Q": "head k d", "K": "head k d", "V": "head v d", "O": "d head v", "c": "d"}
NORMS = {"s": "d", "b": "d", "s2": "d", "b2": "d", "U": "y d"}


def norm(z, gain, bias):
    z = z - z.mean(-1, keepdims=True)
    return z / jnp.sqrt((z * z).mean(-1, keepdims=True) + 1e-5) * gain + bias


@qx.architecture(params={**READERS, **NORMS}, inputs={"x": "t d"})
def attention(p, x):
    n = norm(x, p["s"], p["b"])
    q, k, v = (jnp.einsum("td,hkd->htk", n, p[name]) for name in "QKV")
    weights = jax.nn.softmax(jnp.einsum("htk,hsk->hts", q, k) / jnp.sqrt(p["Q"].shape[1]), -1)
    return norm(x + jnp.einsum("hts,hsv,dhv->td", weights, v, p["O"]) + p["c"], p["s2"], p["b2"]) @ p["U"].T


@pytest.mark.slow
def test_what_values_do_not_see_of_a_norm_is_taken_up_behind_the_next_map():
    found = qx.derive(attention, progress=lambda line: None)
    for sizes in (
        {"d": 5, "head": 2, "k": 3, "v": 4, "y": 9, "t": 6},
        {"d": 7, "head": 2, "k": 2, "v": 2, "y": 5, "t": 6},
    ):
        assert found.audit(**sizes).surplus == 0
    (family,) = (s for s in found if {key.partition("[")[0] for key in s.action} == {"V", "c"})
    assert found.certificate(family.name).scope == "every width"
    assert family.action["c[d]"] == "c[d] - O[d,head,v] * g[head,v] * b[d1] / s[d1]"
    for twin in (
        {"c[d]": "c[d] + O[d,head,v] * g[head,v] * b[d1] / s[d1]"},
        {"c[d]": "c[d] - O[d,head,v] * g[head,v]"},
    ):
        action = {**family.action, **twin}
        assert qx.verify(attention, qx.Symmetry("twin", family.group, action)).status == "refuted"
