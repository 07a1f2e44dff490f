"""The measures that are known: one place that lists them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from quotax.complexity import classifier_margins, flatness, gaussian_noise, parameter_norms
from quotax.complexity.measure import Measure
from quotax.complexity.networks.measured_network import MeasuredNetwork
from quotax.errors import ComplexityError


def registered(name: str) -> Measure:
    """The measure of this name."""
    return MEASURES[name]


MEASURES: Mapping[str, Measure] = {
    measure.name: dataclasses.replace(measure, made=functools.partial(registered, measure.name))
    for measure in (
        parameter_norms.L2,
        parameter_norms.L1,
        parameter_norms.AWAY,
        parameter_norms.FROBENIUS,
        parameter_norms.SPECTRAL,
        parameter_norms.SPECTRAL_COMPLEXITY,
        parameter_norms.PATHS,
        parameter_norms.PATH_SQUARES,
        classifier_margins.LEAST_NORM,
        classifier_margins.MARGIN,
        classifier_margins.MARGIN_L2,
        classifier_margins.MARGIN_SPECTRAL,
        classifier_margins.MARGIN_COMPLEXITY,
        classifier_margins.MARGIN_PATHS,
        flatness.FISHER_RAO,
        flatness.TRACE,
        flatness.LARGEST,
        flatness.ADAPTIVE_TRACE,
        flatness.ARRAY_TRACE,
        flatness.QUOTIENT_TRACE,
        gaussian_noise.PAC_BAYES,
    )
}


def complexity_measures() -> dict[str, Measure]:
    """All measures by name, each with its formula, its source and what it asks for.

    `qx.relative_flatness(array)` makes one more for each matrix; tables have it for every matrix of a chain.

    >>> print(complexity_measures()["path norm"])
    path norm: sum over paths of prod |w| (Neyshabur, Salakhutdinov and Srebro 2015)
    """
    return dict(MEASURES)


def asked(call: str, measures: Any, subject: MeasuredNetwork) -> list[Measure]:
    """The measures that are meant: names or measures, or all, with the relative flatness of every matrix of a chain."""
    if measures is None:
        return [*MEASURES.values(), *(flatness.flatness_of_layers(subject) if subject.labels is not None else ())]
    found = []
    for each in [measures] if isinstance(measures, str | Measure) else measures:
        if not isinstance(each, Measure) and each not in MEASURES:
            raise ComplexityError(f"`{call}`: no measure is called {each!r}; there are {', '.join(MEASURES)}.")
        found.append(each if isinstance(each, Measure) else MEASURES[each])
    return found
