"""What every measure says of one model; run by test_float32.py in a process of its own as well, which prints it.

The process has JAX as its environment says: users have float32, this suite has float64.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx
from benchmarks.networks import rms_block

SIZES = {"row": 3, "pixel": 4, "d": 4, "head": 2, "k": 2, "f": 5, "y": 3}


def found():
    model = rms_block()
    net = model.at(**SIZES)
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape))
    params, direction = ({name: draw(*shape) for name, shape in net.shapes.items()} for _ in range(2))
    batch = draw(16, 3, 4), draw(16, 3)
    loss = lambda p, batch: jnp.mean((jax.vmap(net, (None, 0))(p, batch[0]) - batch[1]) ** 2)
    space = qx.quotient(net, qx.derive(model, progress=lambda line: None), "invariant")
    there, quiet = {"batch": batch, "space": space}, {"progress": lambda line: None}
    size = lambda tree: float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree))))
    other = jax.tree.map(lambda a, b: a + 0.05 * b, params, direction)
    return {
        "horizontal": size(space.horizontal(params, direction)),
        "gradient": size(space.gradient(lambda p: loss(p, batch), params)),
        "full": qx.sharpness(loss, params, 0.1, batch=batch, **quiet).value,
        "quotient": qx.sharpness(loss, params, 0.1, **there, **quiet).value,
        "geodesic": qx.sharpness(loss, params, 0.1, **there, **quiet, ball="geodesic", budget=60).value,
        "spectrum": qx.spectrum(loss, params, 2, **there).values.tolist(),
        "trace": qx.trace(loss, params, **there).value,
        "average": qx.average_sharpness(loss, params, 0.1, **there).value,
        "profile": [float(v) for v in qx.profile(loss, params, (0.05, 0.1), **there).values],
        "dist": float(space.distance(params, other).value),
        "alignment": size(space.alignment(other, params).params),
        "kernel": np.linalg.eigvalsh(np.asarray(qx.tangent_kernel(net, params, batch[0]).matrix)).tolist()[-3:],
        "dtype": str(params["E"].dtype),
    }


if __name__ == "__main__":
    print(json.dumps(found()))
