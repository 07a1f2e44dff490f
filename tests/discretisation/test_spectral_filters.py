"""Filters against linear models that are trained step by step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx


def trained(X, y, start, eta, steps, beta=0.0, ahead=False):
    now = before = start
    for _ in range(steps):
        at = now + beta * (now - before) if ahead else now
        now, before = now + beta * (now - before) - eta * X.T @ (X @ at - y) / len(X), now
    return now


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.integers(0, 300))
@settings(max_examples=25, deadline=None)
def test_filters_are_what_training_leaves(seed, n, d, steps):
    draw = np.random.default_rng(seed)
    X, y, start = draw.standard_normal((n, d)), draw.standard_normal((n, 2)), draw.standard_normal((d, 2))
    eta = 1.0 / (np.linalg.norm(X, 2) ** 2 / n)
    for scheme, beta, ahead in ((None, 0.0, False), (qx.heavy_ball(0.7), 0.7, False), (qx.nesterov(0.7), 0.7, True)):
        found = qx.filtered(X, y, qx.early_stopping(eta, steps, scheme), start)
        assert found == pytest.approx(trained(X, y, start, eta, steps, beta, ahead), abs=1e-8)
    alpha = draw.uniform(0.01, 2)
    ridge = start + np.linalg.solve(X.T @ X / n + alpha * np.eye(d), X.T @ (y - X @ start) / n)
    assert qx.filtered(X, y, qx.weight_decay(alpha), start) == pytest.approx(ridge, abs=1e-8)


def test_what_the_examples_do_not_see_is_kept_and_from_zero_the_norm_is_least():
    draw = np.random.default_rng(0)
    X, y, start = draw.standard_normal((4, 9)), draw.standard_normal(4), draw.standard_normal(9)
    eta = 1.5 / (np.linalg.norm(X, 2) ** 2 / 4)
    off = np.eye(9) - np.linalg.pinv(X) @ X
    for begin in (start, 0 * start):
        found = qx.filtered(X, y, qx.early_stopping(eta, 4000), begin)
        assert found == pytest.approx(np.linalg.pinv(X) @ y + off @ begin, abs=1e-8)


def test_flow_is_the_limit_of_small_steps():
    values = np.linspace(0, 3, 7)
    assert qx.early_stopping(1e-5, 200_000)(values) == pytest.approx(qx.flow_until(2.0)(values), abs=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: qx.weight_decay(0.0),
        lambda: qx.early_stopping(-1.0, 3),
        lambda: qx.flow_until(-1.0),
        lambda: qx.filtered(np.ones(3), np.ones(3), qx.flow_until(1.0)),
        lambda: qx.filtered(np.ones((3, 2)), np.ones(3), qx.flow_until(1.0), np.ones(3)),
    ],
)
def test_bad_input_is_refused(wrong):
    with pytest.raises(qx.DiscretisationError):
        wrong()
