"""The example's table says what its page says: one number for the quotient, any number for Euclidean balls."""

import runpy
import sys
from pathlib import Path

import jax
import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "along_an_orbit.py"


@pytest.mark.slow
def test_the_quotient_has_one_number_along_an_orbit(tmp_path, capsys, monkeypatch):
    picture = tmp_path / "orbit.png"
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--quick", "--to", str(picture)])
    with jax.enable_x64(False):
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    rows = [list(map(float, line.split())) for line in capsys.readouterr().out.splitlines()[1:-1]]
    scales, full, quotient = zip(*rows, strict=True)
    assert scales == (1, 2, 4)
    assert max(quotient) - min(quotient) < 2e-3 * min(quotient)
    assert full[2] > 4 * full[0]
    assert picture.read_bytes().startswith(b"\x89PNG")
