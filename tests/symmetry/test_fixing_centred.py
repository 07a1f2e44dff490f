"""Matrices that fix what has no mean: how the bias of a norm hides behind readers that have none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx


def normalised(z, mean=True):
    z = z - jnp.mean(z, -1, keepdims=True) if mean else z
    return z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + 1e-3)


GATED = {"W": "h x", "s": "h", "b": "h", "U": "f h", "G": "f h", "D": "y f"}


def gated(mean=True):
    @qx.architecture(params=GATED, inputs={"x": "x"})
    def model(p, x):
        z = p["s"] * normalised(p["W"] @ x, mean) + p["b"]
        return p["D"] @ (jax.nn.silu(p["G"] @ z) * (p["U"] @ z))

    return model


@qx.architecture(params={"W": "head h x", "b": "head h", "A": "head f h", "D": "y head f"}, inputs={"x": "x"})
def grouped(p, x):
    z = normalised(jnp.einsum("khx,x->kh", p["W"], x)) + p["b"]
    return jnp.einsum("ykf,kf->y", p["D"], jnp.tanh(jnp.einsum("kfh,kh->kf", p["A"], z)))


READERS = {name: f"{name}[f,e] s[e] inv(g)[e,h] / s[h]" for name in ("U", "G")}
SHEAR = {"b[h]": "g[h,e] b[e] s[h] / s[e]"} | {f"{name}[f,h]": action for name, action in READERS.items()}
PER_HEAD = {"b[head,h]": "g[head,h,e] b[head,e]", "A[head,f,h]": "A[head,f,e] inv(g)[head,e,h]"}


@pytest.mark.parametrize(("model", "claim"), [
    (gated(), qx.Symmetry("shear", qx.FixingCentred("h"), SHEAR)),
    (grouped, qx.Symmetry("shear", qx.FixingCentred("h", each="head"), PER_HEAD)),
], ids=["gains", "groups"])  # fmt: skip
def test_readers_take_the_bias_of_a_norm_along(model, claim):
    certificate = qx.verify(model, claim)
    assert (certificate.status, certificate.scope) == ("proved", "every width")
    assert "centred: g = 1 + w 1ᵀ" in str(certificate)
    assert certificate.recheck().status == "proved"


def without(name):
    return {key: line for key, line in SHEAR.items() if not key.startswith(name)}


@pytest.mark.parametrize(("model", "group", "action"), [
    (gated(mean=False), qx.FixingCentred("h"), SHEAR),
    (gated(), qx.GL("h"), SHEAR),
    (gated(), qx.O("h"), SHEAR),
    (gated(), qx.FixingCentred("h"), SHEAR | {"b[h]": "g[h,e] b[e] s[e] / s[h]"}),
    (gated(), qx.FixingCentred("h"), without("b")),
    (gated(), qx.FixingCentred("h"), without("G")),
    (gated(), qx.FixingCentred("h"), SHEAR | {"U[f,h]": "U[f,e] s[e] g[e,h] / s[h]"}),
    (gated(), qx.FixingCentred("h"), SHEAR | {"U[f,h]": "U[f,e] s[e] inv(g)[h,e] / s[h]"}),
], ids=["no mean", "GL", "O", "gain", "bias", "one reader", "inverse", "transposed"])  # fmt: skip
def test_broken_twins_are_refuted(model, group, action):
    certificate = qx.verify(model, qx.Symmetry("broken", group, action))
    assert certificate.status == "refuted"
    witness = certificate.witness
    real = lambda tree: jax.tree.map(lambda a: jnp.asarray(a, float), tree)
    network, x = model.at(**witness.sizes), jnp.asarray(witness.inputs["x"], float)
    here, there = (network(real(params), x) for params in (witness.params, witness.transformed_params))
    assert np.abs(here - there).max() > 1e-6


@pytest.mark.parametrize(("model", "count", "sizes"), [
    (gated(), 1, ({"x": 3, "h": 4, "f": 2, "y": 3}, {"x": 5, "h": 3, "f": 4, "y": 2})),
    (gated(mean=False), 0, ({"x": 5, "h": 3, "f": 4, "y": 2},)),
], ids=["mean", "no mean"])  # fmt: skip
def test_it_is_found_where_it_is_one(model, count, sizes):
    found = qx.derive(model, progress=lambda line: None)
    sheared = [s for s in found.families if s.group == qx.FixingCentred("h")]
    assert len(sheared) == count
    assert all(found.certificate(s.name).scope == "every width" for s in found.families)
    assert (found.unnamed, found.unproved, found.unsearched) == ((), (), ())
    for assignment in sizes:
        assert found.audit(**assignment).surplus == 0
    if sheared:
        net = model.at(**sizes[0])
        space = qx.quotient(net, found, metric="invariant")
        assert set(space.left_out) == {sheared[0].name}
        assert space.metric_certificate.status == "proved"


def test_a_space_divides_by_it_only_where_no_frame_is_needed():
    """Its algebra is not closed under transposes: no metric with a name is invariant, and projections are as ever."""
    model, sizes = gated(), {"x": 3, "h": 4, "f": 2, "y": 3}
    shear = qx.Symmetry("shear", qx.FixingCentred("h"), SHEAR)
    net = model.at(**sizes)
    params = net.init(jax.random.key(0)) | {"b": jnp.arange(4.0)}
    with pytest.warns(qx.MetricWarning):
        space = qx.quotient(net, shear)
    v = jax.tree.map(jnp.cos, params)
    rows = [space.field(params, {"shear": jnp.outer(e, jnp.ones(4))}) for e in np.eye(4)]
    flat = lambda tree: np.concatenate([np.ravel(tree[name]) for name in sorted(tree)])
    fields = np.stack([flat(row) for row in rows])
    expected = flat(v) - np.linalg.pinv(fields) @ (fields @ flat(v))
    np.testing.assert_allclose(flat(space.horizontal(params, v)), expected, atol=1e-9)
    assert space.fiber_dim == 4
    assert not space.conserved(params)
