"""`import quotax` changes nothing global and costs next to nothing; rooms are imported when they are first used."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import quotax

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
heavy = [m for m in %s if m in sys.modules]
print(json.dumps({"changed": changed, "heavy": heavy}))
"""

EVERYTHING = "import quotax; [getattr(quotax, name) for name in quotax.__all__]"

HEAVY = (
    "geomstats",
    "sklearn",
    "scipy.linalg",
    "scipy.optimize",
    "matplotlib",
    "pandas",
    "optax",
    "diffrax",
    "equinox",
)
"""What some call needs, and the import of no public name does."""


def python(code: str) -> str:
    code = f"import sys; sys.path.insert(0, {str(SRC)!r})\n{code}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("code", ["import quotax", EVERYTHING])
def test_import_changes_nothing_global_and_leaves_what_is_large_for_later(code):
    assert json.loads(python(SNAPSHOT % (code, HEAVY))) == {"changed": [], "heavy": []}


@pytest.mark.slow
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
    seen = json.loads(python(SNAPSHOT % (meddling, HEAVY)))
    assert {"environment: QUOTAX", "jax: jax_enable_x64", "process: warnings", "root logger: level"} <= set(
        seen["changed"]
    )
    assert "sklearn" in seen["heavy"]


LOADED = "; import sys; print([m for m in sys.modules if m.partition('.')[0] in ('quotax', 'jax', 'sympy', 'flint')])"


def test_a_room_is_imported_when_one_of_its_names_is_first_used():
    assert python(f"import quotax{LOADED}").strip() == "['quotax']"
    errors = python(f"from quotax import SymmetryError{LOADED}")
    assert "quotax.errors" in errors
    assert "sympy" not in errors
    assert "quotax.derive" not in python(f"import quotax; quotax.sharpness{LOADED}")


def test_the_public_names_are_written_down_the_same_three_times():
    tree = ast.parse(Path(quotax.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    checked = {alias.name: node.module for node in block.body for alias in node.names}
    assert checked == {name: f"quotax.{room}" for name, room in quotax._ROOM.items()}
    assert sorted(quotax.__all__) == sorted(checked)
    assert set(quotax.__all__) <= set(dir(quotax))


@pytest.mark.slow
@pytest.mark.parametrize("first", ["import quotax.derive.found, quotax.sharpness.search", "from quotax import derive"])
def test_the_functions_that_are_called_like_rooms_stay_functions(first):
    rooms = "quotax, quotax.derive, quotax.report, quotax.sharpness"
    code = f"{first}; import {rooms}; from quotax.derive.found.audit import Audit"
    functions = "quotax.derive, quotax.report, quotax.sharpness"
    shown = python(f"{code}; print(*(f.__module__ for f in ({functions})), quotax.geometry.__name__)")
    assert shown.split() == [
        "quotax.pipeline.deriving",
        "quotax.report.page.reporting",
        "quotax.sharpness.measures.worst_case",
        "quotax.geometry",
    ]


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="module 'quotax' has no attribute 'nothing'"):
        quotax.nothing  # noqa: B018


@pytest.mark.slow
def test_nothing_is_imported_but_ourselves_and_jax_and_sympy():
    """What an import costs, without a clock: `first_number.py` has the seconds."""
    show = "; import sys; print(sorted({m.partition('.')[0] for m in sys.modules}))"
    alone, ours = (set(ast.literal_eval(python(code + show))) for code in ("import jax, jax.numpy, sympy", EVERYTHING))
    assert ours - alone - set(sys.stdlib_module_names) == {"quotax"}


def test_package_says_that_it_is_typed():
    assert (SRC / "quotax" / "py.typed").exists()
