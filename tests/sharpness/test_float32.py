"""Every measure in float32, as users have it, beside float64: this suite runs in float64 alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from sharpness import in_precision

ROOT = Path(__file__).resolve().parents[2]
LOOSE = {"full": 0.02, "quotient": 0.02, "geodesic": 0.02, "profile": 0.02, "trace": 0.02}
"""Searches may end at another maximum, which is as high; the trace is a sum of large numbers of both signs."""


@pytest.mark.slow
def test_every_measure_is_in_float32_what_it_is_in_float64():
    more = {
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir or "",
        "JAX_ENABLE_X64": "0",
        "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("src", "tests")),
    }
    command = [sys.executable, in_precision.__file__]
    run = subprocess.run(command, env=os.environ | more, text=True, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr
    short, wide = json.loads(run.stdout), in_precision.found()
    assert (short.pop("dtype"), wide.pop("dtype")) == ("float32", "float64")
    for name, value in wide.items():
        np.testing.assert_allclose(short[name], value, rtol=LOOSE.get(name, 2e-3), err_msg=name)
