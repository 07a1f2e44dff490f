"""Parameters that are split over eight devices, or over two processes, are moved and projected as whole ones are."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import jax
import numpy as np
import pytest

import quotax as qx
from quotax.collectives import read
from quotax.errors import GeometryError
from quotax.geometry.families.component import components
from quotax.geometry.families.renaming import skeleton
from quotax.geometry.families.splitting import places_of, split_axes

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "tests" / "geometry" / "on_shards.py"


def start(*arguments, devices):
    environment = os.environ | {
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir or "",
        "PYTHONPATH": str(ROOT / "src"),
    }
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def finish(process):
    out, _ = process.communicate(timeout=1500)
    assert process.returncode == 0
    return json.loads(next(line for line in reversed(out.splitlines()) if line.startswith("{")))


def agree(found):
    assert max(found["gaps"].values()) < 1e-12
    assert all(found["kept"].values())
    split = [size for name, size in found["sizes"].items() if name != "b"]
    for name, sent in found["sent"].items():
        assert sent, name
        for kind, size, shapes in sent:
            # sums and coordinates, of which there are as many as the algebra has, or at most a device's own share of an
            # array; no array is brought together
            share = kind in ("all-to-all", "collective-permute")
            assert size <= (max(split) / found["devices"] if share else 4 * found["coordinates"]), (name, kind, size)
            assert kind != "all-gather" or size < min(split), (name, size)
            assert shapes.count("f64[4,4]") <= 1, name  # of the two arrays that O(4) turns the sum is sent


@pytest.mark.slow
def test_eight_devices_do_the_same_and_send_no_more_than_gram_matrices():
    found = finish(start("here", devices=8))
    agree(found)
    assert {"sharpness", "slice", "step"} <= set(found["gaps"])
    assert set(found["sent"]) == {"act", "horizontal", "projected gradient"}


@pytest.mark.slow
def test_two_processes_do_the_same():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for found in map(finish, [start(port, process, devices=1) for process in (0, 1)]):
        agree(found)
        assert not found["programs are read"]  # one would read what the other compiles, and both wait for ever


def test_arrays_are_split_where_no_matrix_mixes_them():
    @qx.architecture(
        params={"Q": "head k d", "F": "head*k d", "W1": "f d", "W2": "d f", "c": "3", "A": "d 2*head*k"},
        inputs={"x": "d"},
    )
    def model(p, x):
        return p["W2"] @ (p["W1"] @ x)

    net = model.at(head=8, k=2, d=48, f=16)
    turn = qx.Symmetry("turn", qx.O("d"), {"W1": "W1 @ g.T", "W2": "g @ W2"})
    heads = qx.Symmetry("heads", qx.GL("k", each="head"), {"Q[head,k,d]": "g[head,k,l] Q[head,l,d]"})
    fused = qx.Symmetry("fused", qx.GL("k", each="head"), {"F[head*k,d]": "g[head,k,l] F[head*l,d]"})
    from quotax.lower import lower_action

    families = [lower_action(s.bind(model.params), model.params, net.sizes) for s in (turn, heads, fused)]
    split = lambda devices, own=families: split_axes(own, model.params, net.sizes, devices)
    assert split(8) == {"Q": 2, "F": 1, "W1": 0, "W2": 1, "c": None, "A": 0}
    assert split(7) == dict.fromkeys(split(7))
    assert summed(families) == {"Q": 2, "F": 2, "W1": 0, "W2": 1}  # fused axes apart
    turned = qx.Symmetry(
        "turned", qx.O("d"), {"F[head*k,d]": "g[d,e] F[head*k,e]", "Q[head,k,d]": "g[d,e] Q[head,k,e]"}
    )
    families += [lower_action(turned.bind(model.params), model.params, net.sizes)]
    assert split(8, families) == {"Q": 0, "F": 0, "W1": 0, "W2": 1, "c": None, "A": 0}
    assert summed(families) == {"Q": 0, "F": 0, "W1": 0, "W2": 1}
    assert split(16, families)["F"] is None  # sixteen devices would divide the heads' own columns, which are mixed


def summed(families):
    """Where programs take arrays to be split over eight devices, in the numbered names that programs have."""
    found = {}
    for part in components(families):
        bare = skeleton(part)
        found |= bare.named(places_of(bare.part.families, 8), bare.parameters)
    return found


def test_a_mesh_without_that_axis_is_refused():
    @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    def model(p, x):
        return p["W2"] @ jax.nn.relu(p["W1"] @ x)

    net = model.at(x=2, h=3, y=2)
    scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    space, params = qx.quotient(net, scale), net.init(jax.random.key(0))
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    with pytest.raises(GeometryError, match=r"the mesh has the axes data, not 'model'"):
        space.shard(params, mesh, over="model")
    placed = space.shard(params, mesh)
    assert {a.sharding.mesh.axis_names for a in jax.tree.leaves(placed)} == {("data",)}
    np.testing.assert_array_equal(placed["W1"], params["W1"])


PROGRAM = """
  %all-reduce.3 = f32[4,8]{1,0} all-reduce(%x), channel_id=1, metadata={op_name="jit(f)/while/body/dot"}
  ROOT %g = (bf16[2]{0}, bf16[16]{0}) all-gather-start(%y), metadata={op_name="jit(f)/cond/branch_1_fun/add"}
  %done = bf16[16]{0} all-gather-done(%g)
  %a = (f64[1,3]{1,0}, f64[1,3]{1,0}) all-to-all(%u, %v), dimensions={0}
  %p = (f32[5], f32[5], u32[], u32[]) collective-permute-start(%z)
"""


def test_a_compiled_text_is_read():
    found = read(PROGRAM)
    assert [(c.kind, c.bytes) for c in found] == [
        ("all-reduce", 128), ("all-to-all", 48), ("all-gather", 32), ("collective-permute", 20)
    ]  # fmt: skip
    assert [c.repeated for c in found] == [True, False, False, False]
    assert [c.conditional for c in found] == [False, False, True, False]
    assert (found.total, found.largest("all-gather"), found.largest("reduce-scatter")) == (228, 32, 0)
    assert "4 collectives, 228 bytes on each device" in str(found)
