"""The example's predictions, measured."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "paths_between_minima.py"


@pytest.mark.slow
def test_paths_between_minima(tmp_path):
    rows = runpy.run_path(str(EXAMPLE))["main"](["--quick", "--figures", str(tmp_path)])
    for what, predicted, measured in rows:
        if "curve" in what and predicted == predicted:
            assert measured > predicted * 0.999, what
            assert measured < predicted * 1.1 + 2e-3, what
        elif predicted == 0:
            assert measured < 1e-7, what
        elif predicted == predicted:
            assert measured == pytest.approx(predicted, rel=1e-6), what
    assert [path.name for path in tmp_path.iterdir()] == ["paths_between_minima.png"]
