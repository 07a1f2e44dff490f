"""Run by test_sharded.py in processes of its own: parameters split over devices, beside the same in one place.

`on_shards.py here` has all devices in this process; `on_shards.py PORT PROCESS` takes part in a run of two. It prints
the largest differences, relative to the parameters, and the collectives of each program.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import quotax as qx

jax.config.update("jax_enable_x64", True)

SIZES = {"d": 64, "head": 8, "k": 2, "f": 40, "r": 4, "t": 3}


@qx.architecture(
    params={"Q": "head k d", "K": "head k d", "W1": "f d", "b": "f", "W2": "d f", "T": "r d", "U": "r d"},
    inputs={"x": "t d"},
)
def model(p, x):
    scores = jnp.einsum("hkd,td,hke,se->hts", p["Q"], x, p["K"], x)
    units = jax.nn.relu(x @ p["W1"].T + p["b"]) @ p["W2"].T
    return jnp.einsum("hts,sd->td", jnp.tanh(scores), x) + units + x @ p["T"].T @ p["U"]


FAMILIES = [
    qx.Symmetry(
        "query-key",
        qx.GL("k", each="head"),
        {"Q[head,k,d]": "g[head,k,l] Q[head,l,d]", "K[head,k,d]": "inv(g)[head,l,k] K[head,l,d]"},
    ),
    qx.Symmetry("units", qx.PositiveDiagonal("f"), {"W1": "g @ W1", "b": "g @ b", "W2": "W2 @ inv(g)"}),
    qx.Symmetry("turn", qx.O("r"), {"T": "g @ T", "U": "g @ U"}),
]


def problem():
    net = model.at(**SIZES)
    rng = np.random.default_rng(0)
    draw = lambda: {n: rng.normal(size=s) / s[-1] ** 0.5 for n, s in net.shapes.items()}
    inputs, targets = rng.normal(size=(2, 16, SIZES["t"], SIZES["d"]))

    def loss(p):
        return jnp.mean((jax.vmap(net, (None, 0))(p, inputs) - targets) ** 2)

    return net, loss, draw(), draw()


def gap(found, known, like):
    """The largest difference of two trees, in units of the parameters; of arrays that lie in several processes."""
    apart = lambda a, b, c: jnp.linalg.norm(a - np.asarray(b)) / np.linalg.norm(np.asarray(c))
    return max(float(apart(found[name], known[name], like[name])) for name in found)


def refused(loss, params, space):
    """A search keeps whole vectors in each process."""
    with pytest.raises(qx.SharpnessError, match="is split over devices in several processes"):
        qx.sharpness(loss, params, 0.3, space=space)


def compared(split):
    net, loss, params, v = problem()
    space = qx.quotient(net, FAMILIES, "invariant")
    optimiser, grad_fn = optax.chain(qx.sam(space, 0.1), optax.sgd(0.1)), jax.grad(loss)
    step = lambda p: optimiser.update(grad_fn(p), optimiser.init(p), p, grad_fn=grad_fn)[0]
    project = lambda gradient, p: qx.horizontal(space, gradients=True).update(gradient, None, p)[0]
    there, along = space.shard(params, split), space.shard(v, split)
    g, point = space.random_element(jax.random.key(1), 0.3), space.at(there)
    gaps, sent, together = {}, {}, jax.process_count() == 1
    for name, run, shared, alone in (
        ("act", space.act, (there, g), (params, g)),
        ("horizontal", lambda point, v: point.horizontal(v), (point, along), (space.at(params), v)),
        ("vertical", space.vertical, (there, along), (params, v)),
        ("projected gradient", jax.jit(project), (along, there), (v, params)),
        ("step", jax.jit(step), (there,), (params,)),
    ):
        if not together and name in ("vertical", "step"):
            continue  # they say nothing new, and take long to compile
        found = jax.block_until_ready(run(*shared))
        gaps[name] = gap(found, run(*alone), params)
        if together and name not in ("vertical", "step"):  # a step has those of the loss, whose own they are
            sent[name] = [(c.kind, c.bytes, c.shapes) for c in qx.collectives(run, *shared)]
    if together:
        measured = [qx.sharpness(loss, p, 0.3, space=space, budget=20).value for p in (there, params)]
        gaps["sharpness"] = abs(measured[0] - measured[1]) / measured[1]
        seen = [qx.loss_slice(loss, p, 0.3, space=space, across=h, points=3) for p, h in ((there, along), (params, v))]
        gaps["slice"] = float(np.max(np.abs(seen[0].losses - seen[1].losses)))
        assert all(seen[0].step[name].sharding.spec == array.sharding.spec for name, array in there.items())
    else:
        refused(loss, there, space)
    sizes = {name: array.nbytes for name, array in params.items()}
    kept = {name: array.sharding.spec == space.act(there, g)[name].sharding.spec for name, array in there.items()}
    return {
        "gaps": gaps,
        "sent": sent,
        "devices": split.size,
        "sizes": sizes,
        "kept": kept,
        "coordinates": 8 * space.algebra_dim,
        "programs are read": bool(jax.config.jax_compilation_cache_dir) and jax.config.jax_enable_compilation_cache,
    }


def main(arguments):
    if arguments[0] != "here":
        port, process = arguments
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(process))
    print(
        json.dumps(compared(jax.make_mesh((jax.device_count(),), ("model",), axis_types=(jax.sharding.AxisType.Auto,))))
    )


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    main(sys.argv[1:])
