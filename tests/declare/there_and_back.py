"""A brought model moved by a random group element and put back, in float32, and how sharp it is at both ends."""

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx

KEY = jax.random.key(0)


def narrow(tree):
    """Floating leaves in float32, as users have them, however wide the tests compute."""
    wide = lambda x: isinstance(x, jax.Array) and x.dtype == jnp.float64
    return jax.tree.map(lambda x: x.astype(jnp.float32) if wide(x) else x, tree)


def there_and_back(arch, found, inputs, *, scale=0.3, digits=1e-5, changes=True):
    """Outputs stay as they are to `digits` of the largest, and the sum of second differences of a loss does not."""
    space = qx.quotient(arch, found.families or found.discrete)
    params, inputs = narrow(arch.parameters), narrow(inputs)
    element = narrow(space.random_element(KEY, scale))
    moved = narrow(space.act(params, element))
    back = moved
    for family in reversed(space.families):
        back = narrow(space.act(back, {family.name: family.group.inverse(element[family.name])}))
    outputs = lambda p: np.asarray(jax.tree.leaves(arch(p, *inputs))[0], float)
    before = outputs(params)
    for there in (moved, back):
        np.testing.assert_allclose(outputs(there), before, rtol=0, atol=digits * max(1.0, np.abs(before).max()))
    for one, other in zip(jax.tree.leaves(back), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * max(1.0, float(jnp.max(jnp.abs(other)))))
    if changes and found.families:
        assert abs(rise(arch, moved, inputs) / rise(arch, params, inputs) - 1) > 1e-3


def rise(arch, params, inputs):
    """The second difference of a loss along one random direction, the same in every entry: no function on orbits."""
    loss = lambda q: float(jnp.mean(jnp.sin(jax.tree.leaves(arch(q, *inputs))[0].astype(float)) ** 2))
    wide = lambda x: x.astype(float) if jnp.issubdtype(jnp.asarray(x).dtype, jnp.floating) else x
    inputs = jax.tree.map(wide, inputs)
    leaves, structure = jax.tree.flatten(params)
    leaves = [w.astype(float) for w in leaves]
    nudge = [1e-2 * jax.random.normal(jax.random.fold_in(KEY, k), w.shape, float) for k, w in enumerate(leaves)]
    near = [jax.tree.unflatten(structure, [w + s * u for w, u in zip(leaves, nudge, strict=True)]) for s in (1, 0, -1)]
    up, here, down = map(loss, near)
    return up + down - 2 * here
