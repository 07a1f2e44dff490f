"""The example that draws what the page on concepts says: in the invariant metric alone the numbers are one."""

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "pictures_of_concepts.py"


@pytest.mark.slow
def test_pictures_of_concepts(tmp_path):
    for values in runpy.run_path(str(EXAMPLE))["main"](["--quick", "--figures", str(tmp_path)]):
        np.testing.assert_allclose(values["invariant"], values["invariant"][0], rtol=1e-4)
        assert np.ptp(values["euclidean"]) > 0.1
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {"orbits.png", "horizontal.png", "balls.png", "widths.png", "laws.png"}
    page = (EXAMPLE.parents[1] / "docs" / "concepts.md").read_text()
    assert all(f"assets/{name}" in page for name in drawn)
