"""The example's predicted constants, measured."""

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "what_sharpness_measures.py"


@pytest.mark.long
def test_what_sharpness_measures():
    rows = runpy.run_path(str(EXAMPLE))["main"]()
    assert len(rows) == 3 * 13 + 4
    euclidean = []
    for statement, what, predicted, measured in rows:
        if "Euclidean" in what:
            euclidean.append(measured)
            continue
        allowed = {"1": 1e-3, "2": 1e-6, "3": 0.15, "4": 0.02, "5": 1e-6, "6": 1e-6}[statement]
        assert abs(measured - predicted) <= allowed * predicted, (statement, what, predicted, measured)
        if statement == "1":
            assert measured <= 1
        if "extrapolated" in what:
            assert abs(measured - 1) < 0.04
    assert min(euclidean) > 5
