"""Models of libraries that are no extras of ours, as they ship: run where they are installed."""

import jax
import jax.numpy as jnp
import pytest

import quotax as qx
from declare.there_and_back import there_and_back

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
KEY = jax.random.key(0)


def holds(arch, families, discrete, surplus, given):
    found = qx.derive(arch)
    assert sorted(str(s.group) for s in found) == sorted(families), found
    assert [str(s.group) for s in found.discrete] == discrete, found
    assert found.audit().surplus == surplus, found.audit()
    there_and_back(arch, found, [given])
    return found


def test_a_restricted_boltzmann_machine_of_netket():
    """Its log cosh reads sign bits; each hidden unit may change its sign."""
    models = pytest.importorskip("netket", exc_type=ImportError).models
    x = jnp.ones((2, 3))
    module = models.RBM(alpha=1, use_visible_bias=True)
    arch = qx.from_flax(module, module.init(KEY, x), x)
    holds(arch, [], ["S(h0)", "Z2^h0"], 0, jnp.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]]))


def test_layers_of_penzai_with_their_own_names():
    pz = pytest.importorskip("penzai.pz", exc_type=ImportError)
    affine = lambda name, k, **axes: pz.nn.Affine.from_config(name, jax.random.fold_in(KEY, k), **axes)
    layers = [
        affine("up", 0, input_axes={"features": 3}, output_axes={"hidden": 4}),
        pz.nn.Elementwise(jax.nn.relu),
        affine("down", 1, input_axes={"hidden": 4}, output_axes={"classes": 2}),
    ]
    rest, params = pz.unbind_params(pz.nn.Sequential(layers), freeze=True)
    x = pz.nx.wrap(jax.random.normal(KEY, (5, 3)), "batch", "features")
    arch = qx.from_function(lambda p, x: pz.bind_variables(rest, p)(x), params, [x])
    assert {"features", "hidden", "classes"} <= set(arch.axis_names)
    holds(arch, ["R+^hidden"], ["S(hidden)"], 0, x)


def test_a_vision_transformer_of_equimo():
    """What no template has: the kernel's taps each by a mean, the class token against its row of the positions."""
    models = pytest.importorskip("equimo.models", exc_type=ImportError)
    module = models.VisionTransformer(
        img_size=4, in_channels=1, dim=4, patch_size=2, num_heads=2, depths=[1], num_classes=2, mlp_ratio=1.0, key=KEY
    )
    arch = qx.from_equinox(module, jnp.ones((1, 4, 4)))
    found = qx.derive(arch)
    groups = [str(s.group) for s in (*found, *found.discrete)]
    assert {"GL(h4)^h3", "R^h4^h3", "O_1(h0)", "R*^h0", "S(h0)", "S(h3)", "S(h5)"} <= set(groups), found
    assert groups.count("GL(h4)^h3") == 2
    assert found.audit().surplus <= 6, found.audit()
    there_and_back(arch, found, [jax.random.normal(KEY, (1, 4, 4))], scale=0.1)
