"""How results present themselves: short where people read, whole as data, and never in the way of a trace."""

import dataclasses
import inspect
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import models
import quotax as qx
from quotax.artifacts import Certificate, Witness
from quotax.derive.found.audit import Audit
from quotax.geometry.geodesic import Geodesic
from quotax.geometry.matching.distance import Distance
from quotax.geometry.matching.logarithm import Log
from quotax.geometry.matching.two_points import Alignment
from quotax.presenting import Result, plain, shown
from quotax.sharpness.measures.compare import COLUMNS, Comparison
from quotax.sharpness.measures.profile import Profile
from quotax.sharpness.verdicts.result import Sharpness

WEIGHTS = {"W1": jnp.ones((30, 4)), "block": {"W2": jnp.full((2, 3), jnp.nan)}}
WITNESS = Witness({"h": 2}, {"W": np.array([1.0, np.inf])}, np.ones(2), {"x": np.ones(3)}, np.ones(1), np.zeros(1))
SHARPNESS = Sharpness(0.25, WEIGHTS, 40, np.arange(500.0), "stationary", 0.1, 1.0, np.array([0.2, 0.25]))
RESULTS = {
    "certificate": Certificate("W is fixed", "refuted", "a point", ("tried",), witness=WITNESS, residual="x < 1"),
    "audit": Audit({"h": 2}, 12, 10, 2, 2, "by hand", models.linear, ()),
    "sharpness": SHARPNESS,
    "profile": Profile(np.array([0.1]), np.array([0.25]), (SHARPNESS,), 40, True, "said <here>"),
    "comparison": Comparison(
        ({"name": "a", "reason": "", "invariant": None} | {key: float("nan") for key, _ in COLUMNS},), 0.1
    ),
    "alignment": Alignment(
        WEIGHTS, {"turn": jnp.eye(20)}, jnp.float32(1), jnp.float32(0.5), jnp.ones(8), jnp.array(True)
    ),
    "distance": Distance(*map(jnp.float32, (0, jnp.inf, 1, 1)), jnp.array(False), jnp.array(True), "a path"),
    "log": Log(WEIGHTS, jnp.float32(0), jnp.array(True), jnp.array(3)),
    "entry": qx.catalogue.load("linear"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_short_as_text_and_whole_as_data(name):
    result = RESULTS[name]
    line = repr(result)
    assert line.startswith(f"{type(result).__name__}(")
    assert "\n" not in line
    assert len(line) < 220
    assert not {"Array(", "array("} & set(line.split())
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    names = [f.name for f in dataclasses.fields(result)] if dataclasses.is_dataclass(result) else list(result._fields)
    assert set(data) <= {*names, *result._also}
    assert "<table>" in result._repr_html_()
    console = Console(width=100, no_color=True)
    with console.capture() as written:
        console.print(result)
    assert max(map(len, written.get().splitlines())) <= 100


def test_arrays_are_lists_when_small_and_told_of_when_large():
    data = SHARPNESS.to_dict()
    assert data["restart_values"] == [0.2, 0.25]
    assert data["history"] == {
        "shape": [500], "dtype": "float64", "min": 0.0, "max": 499.0, "norm": pytest.approx(6445.3, abs=0.1)
    }  # fmt: skip
    assert data["perturbation"]["W1"]["shape"] == [30, 4]
    assert data["perturbation"]["block"] == {"W2": [["nan"] * 3] * 2}
    assert data["gap"] == "nan"
    assert np.isnan(float(data["gap"]))
    assert len(SHARPNESS.to_dict(largest=None)["history"]) == 500
    assert "state" not in data
    assert repr(SHARPNESS).startswith("Sharpness(value=0.25, evaluations=40, status='stationary', radius=0.1")


def test_a_witness_with_infinite_numbers_is_read_back():
    again = Witness.from_dict(json.loads(json.dumps(WITNESS.to_dict(), allow_nan=False)))
    np.testing.assert_array_equal(again.params["W"], WITNESS.params["W"])
    assert again.lines() == WITNESS.lines()


def test_results_present_themselves_while_they_are_traced():
    seen = []

    def function(x):
        result = dataclasses.replace(RESULTS["alignment"], distance=x)
        seen.extend([repr(result), json.dumps(result.to_dict(), allow_nan=False)])
        return x

    jax.eval_shape(function, jnp.float32(1))
    assert "distance=traced float32[]" in seen[0]


def test_text_is_escaped_and_narrow_types_are_read():
    assert "said &lt;here&gt;" in RESULTS["profile"]._repr_html_()
    assert plain(jnp.ones(2, jnp.bfloat16)) == [1.0, 1.0]
    assert plain(jax.random.key(0))["shape"] == []
    assert shown(jax.random.key(0)) == "key<fry>[]"
    assert shown({"h": 2, "x": 3}) == "{h: 2, x: 3}"
    assert shown(range(3)) == "range(0, 3)"
    assert shown({}) == "{}"


def test_what_public_functions_return_are_results():
    """Read off their annotations, so that a new measure is asked too."""
    own = {"Result", "Architecture", "Brought", "ModelFile", "optax.GradientTransformation", "None"}
    rooms = (qx.derive, qx.verify, qx.quotient, qx.sharpness, qx.average_sharpness, qx.spectrum, qx.trace)
    functions = [getattr(qx, name) for name in qx.__all__ if inspect.isfunction(getattr(qx, name))]
    assert set(rooms) <= set(functions)
    for function in functions:
        told = inspect.signature(function).return_annotation
        kind = function.__globals__.get(told)
        if isinstance(kind, type) and kind.__module__.startswith("quotax") and told not in own:
            assert issubclass(kind, Result), (function, told)
    assert issubclass(Geodesic, Result)
