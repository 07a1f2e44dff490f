"""A report with made-up numbers, in which every number that is shown stands once: pages are tested with it."""

import numpy as np


def numbers(start, count):
    return [float(f"{value:.7g}") for value in np.geomspace(start, 9 * start, count)]


def measure(start, **more):
    return {**more, "status": "ok", "invariant": True, "reason": "of <metric> & group " * (1 + 20 * (start > 3))}


def point(name, start):
    """The measures of one network."""
    radii = [0.01, 0.1, 0.2]
    balls = {"full": start, "quotient": 2 * start}
    profile = lambda s: {
        "radii": radii, "values": numbers(s, 3), "statuses": ["stationary"] * 3, "kinks": [False] * 3,
        "evaluations": 60, "invariant": s == start, "reason": "why", "second order": numbers(1.1 * s, 3),
    }  # fmt: skip
    curved = lambda s: profile(s) | {"radii": radii[1:], "values": numbers(s, 2), "second order": []}
    spectrum = lambda s: measure(
        s, values=[3 * s, s], bottom=[-s, s / 9], dimension=12, hessian="Riemannian", products=40, width=0.1,
        curve={"x": [-1.0, 0.0, 1.0], "y": [0.1, 4.0, 0.2]},
    )  # fmt: skip
    return {
        "name": name,
        "loss": 0.7654321 * start,
        "norm": 3.3333333 * start,
        "gradient": {ball: 0.1234567 * s for ball, s in balls.items()},
        "worst case": {ball: profile(s) for ball, s in balls.items()} | {"geodesic": curved(2.03 * start)},
        "average": {ball: profile(0.3 * s) for ball, s in balls.items()} | {"geodesic": curved(0.61 * start)},
        "spectrum": {ball: spectrum(1.7 * s) for ball, s in balls.items()},
        "slice": {
            "steps": [-1.0, 0.0, 1.0], "losses": [[3.0, 1.0, 2.0], [3.1, 1.1, 2.1], [3.0, 1.2, 2.2]], "along": 0.2,
            "across": 2.0,
        },
        "trace": {
            ball: measure(s, value=5.4321 * s, error=0.012 * s, method="Hutch++", dimension=12)
            for ball, s in balls.items()
        },
    }  # fmt: skip


def measures():
    """What a report has of two networks of one model, beside what is known without parameters."""
    rows = [
        {"name": "loss", "ball": "", "invariant": True, "values": [1.25, 1.25], "change": 0.0},
        {"name": "worst case", "ball": "full", "invariant": False, "values": [1.5, 4.5], "change": 2.0},
        {"name": "trace", "ball": "quotient", "invariant": None, "values": ["nan", 1.0], "change": "nan"},
    ]
    return {
        "points": [point("a", 1.0), point("b", 0.01)],
        "along": {"radius": 0.1, "stretches": [0.0, 0.5], "rows": rows, "the loss moves": False, "of": "a"},
        "between": {
            "barrier": {"height": 1.875, "aligned_height": 0.0625, "status": "ok"},
            "times": [0.0, 0.5, 1.0],
            "losses": [1.0, 3.0, 1.25],
            "aligned losses": [1.0, 1.2, 1.25],
            "apart": 7.0710678,
            "alignment": {"distance": 2.2360679, "lower bound": 2.1, "attained": True},
            "distance": {"value": 2.4494897, "lower": 2.3, "upper": 2.5, "reason": "a path"},
            "of": ["a", "b"],
        },
    }
