"""Run by test_devices.py in processes of its own: the same measurements on one device, on a mesh, in two processes.

`on_devices.py KIND ...` prints what each of these kinds of `KINDS` finds; `on_devices.py PORT PROCESS` takes part in a
run of two.
"""

import functools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

import quotax as qx

jax.config.update("jax_enable_x64", True)

SIZES = (6, 5, 3)
SCALE = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"})


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
def model(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])


@functools.cache
def problem():
    x, h, y = SIZES
    net = model.at(x=x, h=h, y=y)
    rng = np.random.default_rng(0)
    params = {name: rng.normal(size=shape) for name, shape in net.shapes.items()}
    batch = rng.normal(size=(48, x)), rng.normal(size=(48, y))

    def loss(p, batch):
        inputs, targets = batch
        return jnp.mean((jax.vmap(net, (None, 0))(p, inputs) - targets) ** 2)

    return net, loss, params, batch


def mesh(shape, names):
    return jax.make_mesh(shape, names, axis_types=(jax.sharding.AxisType.Auto,) * len(names))


def values(**settings):
    """Worst cases in the full ball, in the horizontal one, and cut into chunks."""
    net, loss, params, batch = problem()
    space = qx.quotient(net, [SCALE], metric="euclidean")
    found = []
    for more in ({}, {"space": space}, {"microbatch": 16}):
        found.append(qx.sharpness(loss, params, 0.5, batch=batch, budget=60, **settings, **more))
    places = {device.id for leaf in jax.tree.leaves(found[0].perturbation) for device in leaf.devices()}
    return [one.value for one in found], sorted(places)


def others(**settings):
    """The other measures, on the quotient."""
    net, loss, params, batch = problem()
    settings |= {"space": qx.quotient(net, [SCALE], metric="euclidean"), "batch": batch}
    average = qx.average_sharpness(loss, params, 0.5, samples=32, probes=6, **settings)
    trace = qx.trace(loss, params, microbatch=16, **settings)
    top = qx.spectrum(loss, params, 2, **settings).values
    slope = qx.gradient_norm(loss, params, **settings)
    several = qx.profile(loss, params, [0.1, 0.5], budget=60, **settings).values
    return [float(value) for value in (average.value, average.prediction, trace.value, *top, slope, *several)], None


def last():
    """Where everything lies on the last device."""
    _, loss, params, batch = problem()
    params, batch = jax.device_put((params, batch), jax.devices()[-1])
    found = qx.sharpness(loss, params, 0.5, batch=batch, budget=60)
    return [found.value], [device.id for device in found.perturbation["W1"].devices()]


KINDS = {
    "one": values,
    "others": others,
    "mesh": lambda: values(mesh=mesh((8,), ("data",))),
    "restarts": lambda: values(mesh=mesh((2, 4), ("restarts", "data"))),
    "others on a mesh": lambda: others(mesh=mesh((8,), ("data",))),
    "last": last,
}


def main(arguments):
    if arguments[0] in KINDS:
        out = [KINDS[kind]() for kind in arguments]
    else:
        port, process = arguments
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=int(process))
        out = [values(mesh=mesh((jax.device_count(),), ("data",)))]
    print(json.dumps(out))


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")
    main(sys.argv[1:])
