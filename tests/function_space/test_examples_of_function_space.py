"""The example's predictions hold in its quick version too."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "what_training_sees.py"


@pytest.mark.slow
def test_what_training_sees(tmp_path):
    modes, table = runpy.run_path(str(EXAMPLE))["main"](["--quick", "--figures", str(tmp_path)])
    narrow, wide = (modes[0.5, width] for width in (16, 256))
    assert wide["error"] < narrow["error"] / 4
    assert wide["change"] < narrow["change"] / 4
    assert modes[1.0, 256]["error"] > 0.5 * modes[1.0, 16]["error"]
    assert (table["after"] < table["test loss"]).all()
    assert {path.name for path in tmp_path.iterdir()} == {"error_modes.png", "minima.png"}
