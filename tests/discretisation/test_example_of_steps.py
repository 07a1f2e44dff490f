"""The example's predictions, measured."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "finite_steps.py"


@pytest.mark.long
def test_finite_steps(tmp_path):
    rows = runpy.run_path(str(EXAMPLE))["main"](["--quick", "--figures", str(tmp_path)])
    for what, predicted, measured in rows:
        if "largest charge" in what:
            assert measured < 2e-3, what
        elif "nuclear" in what:
            assert 0.8 * predicted < measured < 1.6 * predicted
        elif predicted == 0:
            assert measured < (1e-3 if "at a minimum" in what else 1e-8), what
        elif predicted == predicted:
            assert measured == pytest.approx(predicted, rel=0.15 if "1 - b" in what or "power" in what else 0.02), what
    found = {what: measured for what, _, measured in rows}
    assert found["depth 3: effective rank"] < found["depth 2: effective rank"] < found["depth 1: effective rank"]
    assert [path.name for path in tmp_path.iterdir()] == ["finite_steps.png"]
