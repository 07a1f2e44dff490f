"""The demonstration: what it prints where; and where compiled programs are kept."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quotax as qx
from quotax.presenting.tables import table
from quotax.report.demo import ATTENTION_SYMMETRIES, RELU_SYMMETRIES, attention_model, relu_network


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the folder has another name there")
def test_programs_are_kept_in_the_users_cache_folder(tmp_path):
    code = "import jax; from quotax.cli.program_cache import keep_programs as keep; keep(); "
    code += "print(jax.config.jax_compilation_cache_dir)"

    def run(**environment):
        plain = {k: v for k, v in os.environ.items() if k not in ("JAX_COMPILATION_CACHE_DIR", "XDG_CACHE_HOME")}
        plain |= {"PYTHONPATH": str(Path(qx.__file__).parents[1])} | environment
        return subprocess.run(
            [sys.executable, "-c", code], env=plain, capture_output=True, text=True, check=True
        ).stdout

    assert run(XDG_CACHE_HOME=str(tmp_path)).strip() == str(tmp_path / "quotax")
    assert run(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own")).strip() == str(tmp_path / "own")


def test_importing_changes_nothing():
    code = "import jax, quotax; print(jax.config.jax_compilation_cache_dir)"
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    environment |= {"PYTHONPATH": str(Path(qx.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "None"


def test_numbers_stand_to_the_right():
    assert table(["name", "n"], [["a", "1.5"], ["long", "-10"]]).splitlines()[2:] == ["a     1.5", "long  -10"]


@pytest.mark.parametrize(
    ("model", "symmetries"), [(relu_network, RELU_SYMMETRIES), (attention_model, ATTENTION_SYMMETRIES)]
)
def test_the_symmetries_of_the_demonstration_hold(model, symmetries):
    for symmetry in symmetries:
        assert qx.verify(model, symmetry)


@pytest.mark.long
def test_the_demonstration_says_what_is_true():
    source = str(Path(qx.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {source!r}); from quotax.cli import main; main(['demo'])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert "... attention: training" in run.stderr
    rows = re.findall(r"(trained|moved \(loss changes by .*\)) +(\S+) +(\S+) +(\S+) +(\S+)$", run.stdout, re.MULTILINE)
    assert len(rows) == 4
    for _, _, full, flat, _ in rows:
        assert float(flat) <= float(full) * (1 + 1e-3)
    for trained, moved in (rows[:2], rows[2:]):
        assert float(moved[2]) > 1.2 * float(trained[2])  # the Euclidean ball sees the move
        assert float(moved[4]) == pytest.approx(float(trained[4]), rel=1e-3)  # the quotient does not
    along = [float(match) for match in re.findall(r"% +(\S+e-\d+)$", run.stdout, re.MULTILINE)]
    assert len(along) == 2
    assert max(along) < 1e-4
    assert run.stdout.count("proved") >= 7
    assert "refuted" not in run.stdout
