"""Examples that draw what pages say: in the invariant metric alone numbers are one, along orbits nothing changes."""

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
DOCS = EXAMPLES.parent / "docs"


@pytest.mark.slow
def test_pictures_of_concepts(tmp_path):
    for values in runpy.run_path(str(EXAMPLES / "pictures_of_concepts.py"))["main"](
        ["--quick", "--figures", str(tmp_path)]
    ):
        np.testing.assert_allclose(values["invariant"], values["invariant"][0], rtol=1e-4)
        assert np.ptp(values["euclidean"]) > 0.1
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {"orbits.png", "horizontal.png", "balls.png", "widths.png", "laws.png"}
    page = (DOCS / "concepts.md").read_text()
    assert all(f"assets/{name}" in page for name in drawn)


@pytest.mark.slow
def test_pictures_of_results(tmp_path):
    found = runpy.run_path(str(EXAMPLES / "pictures_of_results.py"))["main"](["--quick", "--figures", str(tmp_path)])
    history, drift = found["charges"], found["drift"]
    for name, told in history.predicted_changes.items():
        np.testing.assert_allclose(told, history.changes[name], atol=1e-9)
    for row in drift.rows:
        assert row.invariant == (row.ball == "quotient" or row.name == "loss")
        assert (row.change < 1e-4) == row.invariant
    assert max(found["fixed"].change_along, found["moved"].change_along) < 1e-9 < 0.01 < found["linear"].change_along
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {"charges.png", "orbit_drift.png", "loss_slices.png"}
    pages = (DOCS / "sharpness.md").read_text() + (DOCS / "discretisation.md").read_text()
    assert all(f"assets/{name}" in pages for name in drawn)
