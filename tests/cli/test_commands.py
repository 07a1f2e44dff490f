"""Every command: its exit code, its text, and JSON that is exactly the result's own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import quotax as qx
from cli.archives import arrays_of
from quotax.cli import main, terminal
from quotax.cli.commands import app
from quotax.cli.stated import groups
from quotax.sharpness.measures.compare import COLUMNS, Comparison
from quotax.symmetry.plain import KINDS

SOURCE = str(Path(qx.__file__).parents[1])


def plain(result):
    return json.loads(json.dumps(result.to_dict()))


def test_help_costs_no_import_of_what_is_large():
    code = (
        "import sys; from quotax.cli import main; code = main(['--help'])\n"
        "print(code, [m for m in ('jax', 'numpy', 'sympy', 'scipy', 'geomstats', 'tqdm') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {SOURCE!r}); {code}"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[-1] == "0 []"
    for command in ("demo", "list", "derive", "verify", "audit", "sharpness", "compare", "align", "report"):
        assert f"│ {command} " in run.stdout


def test_the_version_is_that_of_the_package(quotax):
    assert quotax("--version") == (0, f"quotax {qx.__version__}\n", "")


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "quotax", "--version"]
    run = subprocess.run(command, env=os.environ | {"PYTHONPATH": SOURCE}, capture_output=True, text=True, check=True)
    assert run.stdout == f"quotax {qx.__version__}\n"


def test_a_command_has_help(quotax):
    code, out, _ = quotax("sharpness --help")
    assert code == 0
    assert "Usage: quotax sharpness [OPTIONS] MODEL" in out


def test_the_catalogue_is_listed(quotax, quotax_json):
    code, out, _ = quotax("list softmax_classifier")
    assert [line.split()[0] for line in out.splitlines()] == [
        "architecture", "softmax_classifier", "softmax_classifier/biases",
    ]  # fmt: skip
    assert code == 0
    code, out, _ = quotax("list --facts softmax_classifier/biases --no-cache")
    _, row, *families = out.splitlines()
    assert row.split()[:5] == ["softmax_classifier/biases", "12/10", "x", "+", "1"]
    assert "0/0" in row
    assert row.endswith("every width")
    assert [family.split() for family in families] == [["R^x", "W"], ["R^1", "b"]]
    entry = qx.catalogue.load("linear/biases")
    assert quotax_json("list linear/biases") == (0, {"linear/biases": plain(entry)})


def test_derive_prints_and_saves_what_it_found(quotax, quotax_json, folder, derived):
    place = folder / "again.json"
    code, out, err = quotax(f"derive net.py:mlp --save {place}")
    found = qx.load_symmetries(place, qx.load("net.py:mlp").architecture).recheck()
    assert (code, out) == (0, f"{found}\n")
    assert "... deriving the symmetries of net.py:mlp (at most 60 s)" in err
    assert quotax_json("derive net.py:mlp") == (0, plain(found))
    assert quotax_json("derive net.py:mlp", "h=3", "--size", "x=2", "--size", "y=2")[1]["families"]


def test_derive_says_that_there_was_no_time(quotax):
    code, out, err = quotax("derive mlp/relu --budget 1e-9")
    assert code == 1
    assert "not searched, for want of time" in out
    assert "note: not everything was searched in 1e-09 s; --budget gives more" in err


def test_verify_proves_and_refutes(quotax, quotax_json):
    code, data = quotax_json("verify net.py:mlp")
    file = qx.load("net.py:mlp")
    assert code == 1
    assert {name: one["status"] for name, one in data.items()} == {"scale": "proved", "wrong": "refuted"}
    assert data["wrong"] == plain(qx.verify(file.architecture, file.symmetries[1]))
    code, out, _ = quotax("verify net.py:mlp scale h=2 x=1 y=1")
    assert code == 0
    assert "widths (h=2, x=1, y=1)" in out
    stated = ["--group", "PositiveDiagonal(h)", "--action", "W1 = g @ W1", "--action", "b1 -> g @ b1"]
    assert quotax("verify net.py:mlp", *stated, "--action", "W2=W2 @ inv(g)")[0] == 0
    assert quotax("verify net.py:mlp", *stated)[0] == 1
    assert set(quotax_json("verify net.py:mlp --found found.json")[1]) == {"scale h", "permute h"}
    code, changed = quotax_json("verify net.py:smooth --found found.json")
    assert (code, changed["scale h"]["status"], changed["permute h"]["status"]) == (1, "refuted", "proved")
    assert "derive its symmetries again" in quotax("audit net.py:smooth h=2 x=2 y=2 --found found.json")[2].lower()
    assert set(groups()) == set(KINDS)


def test_audit_counts_at_the_sizes_that_are_given_and_at_those_of_the_catalogue(quotax_json):
    code, data = quotax_json("audit net.py:mlp h=3 x=2 y=2 --found found.json")
    assert (code, data["flat"], data["complete"], data["sizes"]) == (0, 3, True, {"h": 3, "x": 2, "y": 2})
    entry = qx.catalogue.load("mlp/relu")
    code, data = quotax_json("audit mlp/relu")
    assert (code, data["flat"]) == (0, entry.flat[0][1])


@pytest.mark.slow
def test_sharpness_is_that_of_the_library(quotax, quotax_json, folder):
    file = qx.load(f"{folder}/net.py:small")
    network = file.architecture.at(**file.sizes)
    params = qx.checkpoints.load(folder / "a.npz", qx.checkpoints.BY_NAME, network)
    data = arrays_of(folder / "data.npz")
    loss = lambda p, b: ((jax.vmap(network, (None, 0))(p, b["x"]) - b["targets"]) ** 2).mean()
    space = qx.quotient(network, qx.load_symmetries(folder / "found.json", network), "invariant")
    code, found = quotax_json("sharpness net.py:small --params a.npz --data data.npz --found found.json --radius 0.1")
    want = qx.sharpness(loss, params, 0.1, space=space, batch=data)
    assert (code, set(found)) == (0, set(want.to_dict()))
    assert found["value"] == pytest.approx(want.value)
    assert found["invariant"] is True
    code, out, err = quotax("sharpness net.py:small --params a.npz --data data.npz --full --measure trace")
    assert out == f"{qx.trace(loss, params, batch=data)}\n"
    assert "note: the loss is mse, as 'targets' holds numbers" in err


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["average", "spectrum", "profile"])
def test_other_measures(quotax_json, folder, measure):
    radii = "--radius 0.1 --radius 0.2 --steps 5 --plot profile.png" if measure == "profile" else ""
    code, found = quotax_json(f"sharpness net.py:small --data data.npz --full --measure {measure} {radii}")
    assert code == 0
    assert {"average": "standard_error", "spectrum": "density", "profile": "radii"}[measure] in found
    assert (folder / "profile.png").exists() == (measure == "profile")


@pytest.mark.slow
@pytest.mark.parametrize(("measure", "key"), [("drift", "rows"), ("slice", "losses")])
def test_what_is_along_the_orbit_is_drawn(quotax_json, folder, measure, key):
    given = "--params a.npz --data data.npz --found found.json --steps 5 --stretch 0.3"
    code, found = quotax_json(f"sharpness net.py:small {given} --measure {measure} --plot {measure}.png")
    assert (code, found["status"]) == (0, "ok")
    assert key in found
    assert (folder / f"{measure}.png").read_bytes().startswith(b"\x89PNG")


def test_compare_hands_over_networks_side_by_side(quotax_json, quotax, monkeypatch):
    """What is measured of them is `qx.compare`'s, and tested with it; here the loss is enough."""
    spaces = []

    def losses(entries, radius, *, key):
        spaces.extend(space for _, _, space in entries.values())
        rows = [{"name": name, "loss": float(loss(params))} for name, (loss, params, _) in entries.items()]
        return Comparison(tuple({"reason": "", **dict.fromkeys(dict(COLUMNS), np.nan), **row} for row in rows), radius)

    monkeypatch.setattr(qx, "compare", losses)
    weights = "--params a.npz --params b.npz --data data.npz --found found.json"
    code, data = quotax_json(f"compare net.py:small {weights} --radius 0.2")
    assert (code, data["radius"], [row["name"] for row in data["rows"]]) == (0, 0.2, ["a", "b"])
    assert data["rows"][0]["loss"] != data["rows"][1]["loss"]
    line = "compare net.py:mlp net.py:small h=3 x=2 y=2 --data data.npz --found found.json --metric euclidean"
    code, out, _ = quotax(line)
    assert (code, out.split()[1:3]) == (0, ["net.py:mlp", "net.py:small"])
    assert [space.metric_name for space in spaces] == ["invariant", "invariant", "euclidean", "euclidean"]


@pytest.mark.slow
def test_align_moves_one_network_to_another(quotax_json, quotax, folder):
    pytest.importorskip("safetensors")
    weights = "--params a.npz --to b.safetensors --found found.json"
    code, data = quotax_json(f"align net.py:small {weights} --data data.npz --out moved.npz")
    assert (code, set(data)) == (0, {"alignment", "distance", "barrier"})
    assert data["distance"]["lower"] <= data["distance"]["value"] <= data["distance"]["upper"]
    moved = arrays_of(folder / "moved.npz")
    np.testing.assert_allclose(moved["W1"], data["alignment"]["params"]["W1"], rtol=1e-6)
    code, out, _ = quotax("align net.py:small --params moved.npz --to a.npz --found found.json")
    assert code == 0
    assert "aligned to a distance of" in out
    assert float(out.split("distance of ")[1].split(",")[0]) < 1e-6


def test_report_writes_a_page_and_shows_its_numbers(quotax, quotax_json, folder, monkeypatch):
    """What is measured is `qx.report`'s, and tested with it; here what it is asked for is enough."""
    asked, real = [], qx.report

    def known(found, loss, params, **settings):
        asked.append((float(loss(params, settings["batch"])), settings))
        return real(found, title=settings["title"], notes=settings["notes"])

    monkeypatch.setattr(qx, "report", known)
    weights = "--params a.npz --params b.npz --data data.npz --found found.json"
    code, data = quotax_json(f"report net.py:small {weights} --radius 0.2 --radius 0.1 --output pair.html")
    (loss, settings) = asked.pop()
    assert (code, data["title"], data["notes"]) == (0, "net.py:small", [])
    assert (settings["names"], settings["radii"]) == (("a", "b"), (0.2, 0.1))
    assert loss == pytest.approx(
        float(np.mean((_outputs(folder, "a.npz") - arrays_of(folder / "data.npz")["targets"]) ** 2))
    )
    np.testing.assert_array_equal(settings["other"]["W1"], arrays_of(folder / "b.npz")["W1"])
    page = (folder / "pair.html").read_text()
    assert json.loads(page.split('id="report">')[1].split("</script>")[0]) == data
    code, out, err = quotax("report net.py:small net.py:same n=3 m=2 k=2 --output two.html --found found.json")
    assert (code, len(asked)) == (0, 1)  # one function with other names: two networks of the first
    assert "report of net.py:small and net.py:same" in out
    assert "note: no --data: random inputs and targets, to try things out" in err
    settings = asked[0][1]
    assert settings["notes"][0] == "Inputs and targets are random: its losses say nothing of a task."
    assert settings["counterparts"].names == {"W1": "into", "b1": "a", "W2": "out"}
    assert (settings["names"], set(settings["other"])) == (("net.py:small", "net.py:same"), {"W1", "b1", "W2"})


def _outputs(folder, weights):
    file = qx.load(f"{folder}/net.py:small")
    network = file.architecture.at(**file.sizes)
    params = qx.checkpoints.load(folder / weights, qx.checkpoints.BY_NAME, network)
    return jax.vmap(network, (None, 0))(params, arrays_of(folder / "data.npz")["x"])


@pytest.mark.slow
def test_random_data_is_of_the_kinds_that_are_declared(quotax_json):
    code, found = quotax_json("sharpness net.py:reader vocab=5 d=2 y=2 t=3 --data random:8 --full --steps 3")
    assert code == 0
    assert found["value"] > 0


BROUGHT = """
import jax, numpy as np, quotax as qx

params = [{"w": np.arange(6.0).reshape(3, 2) / 9}, {"w": np.arange(6.0).reshape(2, 3) / 7}]

def forward(p, x):
    return p[1]["w"] @ jax.nn.relu(p[0]["w"] @ x)

net = qx.from_function(forward, params, (np.zeros(2),))
"""


@pytest.mark.slow
def test_a_model_that_was_brought_has_parameters_and_sizes_of_its_own(quotax_json, quotax, folder):
    (folder / "brought.py").write_text(BROUGHT)
    code, data = quotax_json("audit brought.py:net")
    assert (code, data["parameters"], data["flat"]) == (0, 12, 3)
    code, out, err = quotax("sharpness brought.py:net --data random:8 --full --measure trace")
    assert (code, "no --params" in err) == (0, False)
    model = qx.load(f"{folder}/brought.py:net").architecture
    np.savez(folder / "own.npz", **{"a0.w": model.parameters[0]["w"], "a1/w": model.parameters[1]["w"]})
    assert quotax("sharpness brought.py:net --data random:8 --full --measure trace --params own.npz")[1] == out


def test_a_loss_of_ones_own(quotax_json, folder):
    line = "sharpness net.py:small --params a.npz --data data.npz --loss net.py:total --full --measure trace"
    code, found = quotax_json(line)
    assert code == 0
    x = arrays_of(folder / "data.npz")["x"].mean()
    assert found["value"] == pytest.approx(2 * 6 * x)


def test_a_terminal_gets_tables_and_bars(quotax, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr(terminal, "_REDRAWN", 0.0)
    monkeypatch.setenv("COLUMNS", "100")
    code, out, err = quotax("sharpness net.py:small --data data.npz --full --steps 3")
    assert code == 0
    assert "gap kind" in out
    assert "Baldi and Hornik" in quotax("list linear")[1]
    assert "gradients" in err
    assert quotax("sharpness net.py:small --data data.npz --full --steps 3 --plain")[1].startswith("sharpness 0.")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_taught_to_complete(shell):
    script = app.generate_completion(shell=shell)
    assert all(word in script for word in ("sharpness", "--microbatch", "worst-case"))


def test_the_cache_of_programs_is_on_unless_it_is_not_wanted(quotax, monkeypatch):
    asked = []
    monkeypatch.setattr("quotax.cli.program_cache.keep_programs", lambda: asked.append(True))
    quotax("verify net.py:mlp scale")
    assert asked == []
    assert main(["verify", "net.py:mlp", "scale", "--quiet"]) == 0
    assert asked == [True]
