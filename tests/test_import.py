"""`import quotax` changes nothing global and costs little more than JAX and SymPy, which it needs."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"

SNAPSHOT = """
import json, logging, os, sys, warnings
import jax, numpy, sympy

def snapshot():
    loggers = {n: getattr(logger, "level", None) for n, logger in logging.root.manager.loggerDict.items()}
    return {
        "environment": dict(os.environ),
        "jax": dict(jax.config.values),
        "numpy": numpy.get_printoptions() | numpy.geterr(),
        "loggers": {n: level for n, level in loggers.items() if not n.startswith("quotax")},
        "root logger": {"level": logging.root.level, "handlers": len(logging.root.handlers)},
        "process": {"warnings": list(warnings.filters), "recursion": sys.getrecursionlimit()},
    }

before = snapshot()
%s
after = snapshot()
# A module that is imported for the first time may create its own logger; none that was there may change.
after["loggers"] = {n: after["loggers"].get(n) for n in before["loggers"]}
changed = [f"{section}: {name}" for section in before for name in before[section] | after[section]
           if before[section].get(name) != after[section].get(name)]
heavy = [m for m in ("geomstats", "sklearn", "matplotlib", "pandas") if m in sys.modules]
print(json.dumps({"changed": changed, "heavy": heavy}))
"""


def python(code: str) -> str:
    code = f"import sys; sys.path.insert(0, {str(SRC)!r})\n{code}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_import_changes_nothing_global_and_leaves_geomstats_for_later():
    assert json.loads(python(SNAPSHOT % "import quotax")) == {"changed": [], "heavy": []}


def test_the_snapshot_sees_what_it_is_for():
    meddling = "; ".join(
        (
            "os.environ['QUOTAX'] = '1'",
            "jax.config.update('jax_enable_x64', True)",
            "warnings.simplefilter('ignore')",
            "logging.getLogger().setLevel(logging.INFO)",
            "import sklearn",
        )
    )
    seen = json.loads(python(SNAPSHOT % meddling))
    assert {"environment: QUOTAX", "jax: jax_enable_x64", "process: warnings", "root logger: level"} <= set(
        seen["changed"]
    )
    assert "sklearn" in seen["heavy"]


@pytest.mark.slow
def test_import_takes_at_most_half_as_long_again_as_jax_and_sympy():
    def seconds(code: str) -> float:
        start = time.perf_counter()
        python(code)
        return time.perf_counter() - start

    python("import quotax")  # compiles bytecode, warms the file cache
    # Interleaved, and the best of each: what else the machine does only ever adds.
    pairs = [(seconds("import jax, jax.numpy, sympy"), seconds("import quotax")) for _ in range(5)]
    alone, ours = (min(column) for column in zip(*pairs, strict=True))
    assert ours < 1.5 * alone, f"{ours:.2f} s against {alone:.2f} s"


def test_package_says_that_it_is_typed():
    assert (SRC / "quotax" / "py.typed").exists()
