"""geomstats' own shipped test cases, run on any bundle or metric, without geomstats' pytest machinery.

    for check in checks("fiber_bundle", "FiberBundleTestCase"):
        check.run(total_space=total_space, base=base, data_generator=..., base_data_generator=...)

A case is a class of `geomstats.test_cases.geometry`. Its methods that draw their own data (`n_points`, `n_reps`,
`n_times`) become checks; its methods that take points and vectors become checks of vectorisation, which compare a
batch with its members; methods that need an expected value from outside are left out. Every check runs once (geomstats
repeats random tests three times and keeps the best), seeded, and a method that is not implemented is a failure.
"""

import importlib
import inspect
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest

from quotax.geomstats_jax import activate

_COUNTS = {"n_points": (1, 3), "n_reps": (2,), "n_times": (1, 3), "n_vec_reps": (2,)}


@dataclass(frozen=True)
class Check:
    """One call of one method of a case."""

    case: type
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    vectorised: Callable[..., None] | None = None

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{value}" for key, value in self.arguments.items() if key in _COUNTS)])

    def run(self, **attributes: Any) -> None:
        """Call the method on an instance that has `attributes` (`space`, `total_space`, `data_generator`...)."""
        activate().random.seed(zlib.crc32(str(self).encode()))
        instance = self.case()
        for key, value in attributes.items():
            setattr(instance, key, value)
        if hasattr(instance, "setup_method"):
            instance.setup_method()
        if self.vectorised is None:
            getattr(instance, self.name)(**self.arguments)
        else:
            test_vectorization(instance, self.vectorised, **self.arguments)


def checks(
    module: str, case_name: str, *, atol: float = 1e-6, skip: Iterable[str] = (), only: Iterable[str] = ()
) -> list[Check]:
    """The checks of `geomstats.test_cases.geometry.<module>.<case_name>`.

    Without the names in `skip`, and, if `only` is given, with no names but those.
    """
    case = getattr(load(f"geomstats.test_cases.geometry.{module}"), case_name)
    known = set(load("geomstats.test.vectorization").KNOWN_ARGS)
    out = []
    for name in sorted(name for name in dir(case) if name.startswith("test_")):
        method = getattr(case, name)
        parameters = list(inspect.signature(method).parameters.values())[1:]
        required = {p.name for p in parameters if p.default is p.empty}
        tolerance = {"atol": atol} if any(p.name == "atol" for p in parameters) else {}
        if required <= {*_COUNTS, "atol"}:
            counts = [key for key in _COUNTS if key in required]
            out += [Check(case, name, {**choice, **tolerance}) for choice in _choices(counts)]
        elif "expected" in required and required - {"expected", "atol"} <= known and not hasattr(case, f"{name}_vec"):
            out.append(Check(case, f"{name}_vec", {"n_reps": 2, "atol": atol}, vectorised=method))
    skip, only = set(skip), set(only)
    unknown = (skip | only) - {check.name for check in out}
    if unknown:
        raise ValueError(f"`checks`: {case_name} has no checks named {sorted(unknown)}.")
    return [check for check in out if check.name not in skip and (not only or check.name in only)]


def load(name: str) -> Any:
    """A module of geomstats' tests, imported under the JAX backend."""
    activate()
    with mock.patch.object(pytest, "mark", _AnyMark()):
        module = importlib.import_module(name)
        # Any backend but numpy's and autograd's is taken for torch, which then is imported to compare arrays.
        comparison = importlib.import_module("geomstats.test.test_case")
    comparison.np_backend = lambda: True
    return module


def test_vectorization(instance: Any, method: Any, n_reps: int, atol: float) -> None:
    """geomstats' comparison of a batch with its members, for the method that a test calls."""
    load("geomstats.test.vectorization").test_vectorization(instance, method, n_reps, atol)


test_vectorization.__test__ = False  # a helper, not a test of ours


# geomstats marks its tests with names that are not registered here, which strict markers refuse.
class _AnyMark:
    def __getattr__(self, name: str) -> Callable[..., Any]:
        def mark(*args: Any, **kwargs: Any) -> Any:
            return args[0] if len(args) == 1 and inspect.isfunction(args[0]) else lambda function: function

        return mark


def _choices(keys: list[str]) -> list[dict[str, int]]:
    choices: list[dict[str, int]] = [{}]
    for key in keys:
        choices = [{**choice, key: value} for choice in choices for value in _COUNTS[key]]
    return choices
