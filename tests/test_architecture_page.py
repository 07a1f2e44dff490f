"""The page on the architecture names files that exist, and follows calls as they go."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TABLE = PAGE.split("| to add | open |")[1].split("\n## ")[0]
PATHS = sorted(
    {
        word
        for word in re.findall(r"`([\w/.]+)`", TABLE)
        if re.search(r"/|\.py$", word) and not re.search("NAME|^docs", word)
    }
)


@pytest.mark.parametrize("path", PATHS)
def test_files_to_open_exist(path):
    assert (ROOT if path.startswith("tests/") else ROOT / "src" / "quotax").joinpath(path).exists()


def test_the_table_names_files():
    assert len(PATHS) > 15


DOORS = PAGE.split("## From door to door")[1].split("\n## ")[0]
CALLS = {part.split("`")[0].split("(")[0]: part for part in DOORS.split("\n`qx.")[1:]}
FOLLOWED = """
import sys, jax, jax.numpy as jnp, quotax as qx

def model(scale):
    @qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
    def net(p, x):
        return scale * (p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"]))
    return net

def follow(call):
    entered = {}
    def note(frame, event, _):
        if event == "call" and "/quotax/" in frame.f_code.co_filename:
            entered.setdefault(frame.f_code.co_filename.split("/quotax/")[-1])
    sys.setprofile(note)
    try:
        return call(), list(entered)
    finally:
        sys.setprofile(None)

def walk(net):
    found, first = follow(lambda: qx.derive(net))
    sized = net.at(x=4, h=8, y=3)
    params = sized.init(jax.random.key(0))
    space, second = follow(lambda: qx.quotient(sized, found, metric="invariant"))
    _, third = follow(lambda: space.horizontal(params, params))
    xs = jax.random.normal(jax.random.key(1), (8, 4))
    loss = lambda p: jnp.mean(jax.vmap(sized, (None, 0))(p, xs) ** 2)
    _, fourth = follow(lambda: qx.sharpness(loss, params, 0.1, space=space))
    return {"derive": first, "quotient": list(dict.fromkeys([*second, *third])), "sharpness": fourth}

walk(model(1.0))  # what is imported at a first call is entered out of turn
for name, files in walk(model(2.0)).items():
    print(name, *files)
"""


@pytest.mark.slow
def test_calls_go_from_door_to_door_as_the_page_says():
    ran = subprocess.run([sys.executable, "-c", FOLLOWED], capture_output=True, text=True, check=True, cwd=ROOT)
    lines = dict(line.split(" ", 1) for line in ran.stdout.splitlines())
    assert set(lines) == set(CALLS) == {"derive", "quotient", "sharpness"}
    for name, part in CALLS.items():
        entered = lines[name].split()
        steps = [re.findall(r"`([\w/]+\.py)`", line) for line in part.splitlines() if re.match(r"\d+\. ", line)]
        assert len(steps) <= 12
        firsts = [entered.index(files[0]) for files in steps]
        assert firsts == sorted(firsts), [files[0] for files in steps]
        if name != "derive":  # where nothing is left over, nobody looks at it
            assert {file for files in steps for file in files} <= set(entered)
