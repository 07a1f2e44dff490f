"""The example's predictions, measured."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "symmetric_data.py"


@pytest.mark.slow
def test_symmetric_data(tmp_path):
    proofs, rows = runpy.run_path(str(EXAMPLE))["main"](["--quick", "--figures", str(tmp_path)])
    assert proofs == ["proved"] * 8 + ["refuted"]
    for what, predicted, measured in rows:
        if predicted == predicted:
            assert abs(measured - predicted) < (1e-3 if "64 points" in what else 1e-12), what
        else:
            assert measured > 1e-3, what
    assert [path.name for path in tmp_path.iterdir()] == ["symmetric_data.png"]
