"""The example's predictions, measured."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "margins.py"


@pytest.mark.slow
def test_margins(tmp_path):
    tables, rows = runpy.run_path(str(EXAMPLE))["main"](["--quick", "--figures", str(tmp_path)])
    assert [table.on_quotient for table in tables] == [("path norm", "Fisher-Rao norm"), ("Fisher-Rao norm",)]
    measured = {what: value for what, _, value in rows}
    for what, predicted, value in rows:
        if predicted == predicted:
            assert value == pytest.approx(predicted, rel=1e-9 if "at the start" in what else 0.2), what
    assert measured["at the start, over |theta|^2: moved over drawn"] < 0.9
    assert measured["|X| R_A / (gamma n), random labels"] > 2 * measured["|X| R_A / (gamma n), true labels"]
    assert [path.name for path in tmp_path.iterdir()] == ["margins.png"]
