"""Layers that are stacked for `lax.scan`: groups with a copy for each index of two axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from quotax.errors import SymmetryError

S = qx.Symmetry


@qx.architecture(
    params={
        "Q": "layer head k d", "K": "layer head k d", "V": "layer head v d", "bv": "layer head v",
        "O": "layer d head v", "bo": "layer d",
    },
    inputs={"x": "t d"},
)  # fmt: skip
def decoder(p, x):
    def block(x, w):
        q, k, v = (jnp.einsum("hkd,td->thk", w[name], x) for name in "QKV")
        a = jax.nn.softmax(jnp.einsum("thk,shk->hts", q, k), axis=-1)
        return x + jnp.einsum("hts,shv,dhv->td", a, v + w["bv"], w["O"]) + w["bo"], None

    return jax.lax.scan(block, x, p)[0]


G = qx.GL("k", each="layer head")
KEYS = {
    "Q[layer,head,k,d]": "g[layer,head,k,l] Q[layer,head,l,d]",
    "K[layer,head,k,d]": "inv(g)[layer,head,l,k] K[layer,head,l,d]",
}


def test_one_copy_for_each_index_of_two_axes_is_proved_and_its_broken_twins_are_refuted():
    certificate = qx.verify(decoder, S("keys", G, KEYS))
    assert (certificate.status, certificate.scope) == ("proved", "every width")
    assert certificate.recheck()
    transposed = KEYS | {"K[layer,head,k,d]": "inv(g)[layer,head,k,l] K[layer,head,l,d]"}
    assert qx.verify(decoder, S("transposed", G, transposed)).status == "refuted"
    values = {"V[layer,head,v,d]": "g[layer,head,v,l] V[layer,head,l,d]"}
    assert qx.verify(decoder, S("half", qx.GL("v", each="layer head"), values)).status == "refuted"


@pytest.mark.parametrize("kind", [qx.GL, qx.O, qx.Permutation, qx.ComplexScaling, qx.PairScaling, qx.Diagonal])
def test_elements_have_a_copy_for_each_index_of_both(kind):
    sizes = {"k": 4, "layer": 2, "head": 3}
    group, one = kind("k", each=" layer  head"), kind("k")
    assert str(group) == f"{one}^layer^head"
    assert group.shape(sizes) == (2, 3, *one.shape(sizes))
    assert group.dimension(sizes) == 6 * one.dimension(sizes)
    a, b = (group.random(jax.random.key(i), sizes) for i in range(2))
    np.testing.assert_allclose(group.compose(a, b)[1, 2], one.compose(a[1, 2], b[1, 2]))
    np.testing.assert_allclose(group.inverse(a)[1, 2], one.inverse(a[1, 2]), atol=1e-12)
    assert group.rational(np.random.default_rng(0), sizes).shape == group.shape(sizes)
    small = {"k": 2, "layer": 2, "head": 1}
    g, inverse = next(iter(group.symbolic(small)))
    assert g.shape == inverse.shape == group.shape(small)


@pytest.mark.parametrize("each", ["layer layer", "", "layer k", "a-b", ("layer", "head")])
def test_axes_of_copies_are_names_each_once_and_not_the_axis_itself(each):
    with pytest.raises(SymmetryError, match="each"):
        qx.GL("k", each=each)


def test_an_axis_of_copies_that_no_parameter_has_is_refused():
    with pytest.raises(SymmetryError, match="one copy per index of axis 'heads', which no parameter has"):
        S("keys", qx.GL("k", each="layer heads"), KEYS).bind(decoder.params)


@pytest.mark.slow
def test_derive_finds_them_and_the_quotient_divides_by_them():
    found = qx.derive(decoder)
    groups = {family.name: str(family.group) for family in found}
    assert groups == {
        "linear k": "GL(k)^layer^head", "linear v": "GL(v)^layer^head", "shift layer head v": "R^v^layer^head",
    }  # fmt: skip
    assert {str(one.group) for one in found.discrete} == {"S(head)^layer"}
    for sizes in ({"layer": 2, "head": 2, "k": 3, "v": 2, "d": 5}, {"layer": 3, "head": 2, "k": 2, "v": 3, "d": 4}):
        copies = sizes["layer"] * sizes["head"]
        audit = found.audit(**sizes)
        assert audit.complete
        assert audit.orbit == copies * (sizes["k"] ** 2 + sizes["v"] ** 2 + sizes["v"])
    net = decoder.at(layer=2, head=2, k=2, v=3, d=6)
    space = qx.quotient(net, found, metric="invariant")
    assert (space.fiber_dim, space.left_out) == (2 * 2 * (4 + 9 + 3), {})
    assert space.metric_certificate
    params = net.init(jax.random.key(0))
    moved = space.act(params, space.random_element(jax.random.key(1), scale=0.3))
    x = jax.random.normal(jax.random.key(2), (4, 6))
    np.testing.assert_allclose(net(params, x), net(moved, x), rtol=1e-9, atol=1e-9)
    norms = [[jnp.linalg.norm(a) for a in jax.tree.leaves(space.canonical(p).params)] for p in (params, moved)]
    np.testing.assert_allclose(*norms, rtol=1e-6)
    assert space.dist(params, moved) < 1e-5
    change = jax.tree.map(lambda a: jax.random.normal(jax.random.key(3), a.shape), params)
    vertical = space.vertical(params, change)
    slope = jax.jvp(lambda p: net(p, x), (params,), (vertical,))[1]
    assert jnp.abs(slope).max() < 1e-9
