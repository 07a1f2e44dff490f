"""Flows that schemes follow: known formulas, orders against an independent integrator, and the charges that break."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import quotax as qx

x, y = sp.symbols("x y", real=True)
LOSS = (x * y - 1) ** 2 / 2 + sp.Rational(1, 10) * x**4
beta = sp.Symbol("beta")
START = jnp.array([0.6, 0.3])


def in_jax(p):
    return (p[0] * p[1] - 1) ** 2 / 2 + 0.1 * p[0] ** 4


def test_constants_are_those_of_the_literature():
    c = qx.gradient_descent().coefficients
    assert list(c.values()) == [1, sp.Rational(-1, 2), sp.Rational(1, 12), sp.Rational(1, 3)]
    heavy = qx.heavy_ball(beta).coefficients
    assert sp.simplify(heavy["f"] - 1 / (1 - beta)) == 0
    assert sp.simplify(heavy["f'f"] + (1 + beta) / (2 * (1 - beta) ** 3)) == 0
    assert qx.implicit().coefficients["f'f"] == sp.Rational(1, 2)
    assert qx.implicit(sp.Rational(1, 2)).coefficients["f'f"] == 0
    slope = [sp.diff(LOSS, v) for v in (x, y)]
    found = qx.modified_flow().loss(LOSS, [x, y], eta=sp.Symbol("h"))
    assert sp.expand(found - LOSS - sp.Symbol("h") / 4 * sum(s**2 for s in slope)) == 0


def test_the_second_order_is_the_gradient_of_nothing():
    flow = qx.modified_flow(order=2)
    assert not flow.has_loss
    u, v = flow.field(LOSS, [x, y])
    assert sp.expand(sp.diff(u, y) - sp.diff(v, x)) != 0
    with pytest.raises(qx.DiscretisationError, match="no gradient flow"):
        flow.loss(LOSS, [x, y])
    u, v = qx.modified_flow(order=1).field(LOSS, [x, y])
    assert sp.expand(sp.diff(u, y) - sp.diff(v, x)) == 0


def test_expressions_and_jax_are_one_field():
    for scheme in (qx.nesterov(0.3), qx.implicit()):
        flow = qx.modified_flow(scheme, 2)
        exact = [float(e.subs({x: 0.7, y: -0.4})) for e in flow.field(LOSS, [x, y], eta=0.1)]
        assert np.asarray(flow.velocity(in_jax, 0.1)(jnp.array([0.7, -0.4]))) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("scheme", [qx.gradient_descent(), qx.heavy_ball(0.5), qx.nesterov(0.5)], ids=str)
def test_the_scheme_stays_near_its_flow_to_the_order_that_is_said(scheme):
    """Steps are halved; the flow is integrated by SciPy from where the scheme has forgotten how it began."""
    for order in range(3):
        flow, errors = qx.modified_flow(scheme, order), []
        for eta in (0.02, 0.01):
            field = sp.lambdify([x, y], flow.field(LOSS, [x, y], eta=eta))
            settled, later = (np.asarray(scheme.run(in_jax, START, eta, round(t / eta))) for t in (1, 2))
            exact = solve_ivp(lambda t, p, field=field: field(*p), (0, 1), settled, "DOP853", rtol=1e-12, atol=1e-13)
            errors.append(np.linalg.norm(exact.y[:, -1] - later))
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order + 1, abs=0.35), order


def test_the_flow_in_jax_is_scipys():
    flow, start = qx.modified_flow(order=2), jnp.array([0.6, 0.3])
    field = sp.lambdify([x, y], flow.field(LOSS, [x, y], eta=0.1))
    exact = solve_ivp(lambda t, p: field(*p), (0, 1), np.asarray(start), "DOP853", rtol=1e-12, atol=1e-13).y[:, -1]
    assert np.asarray(flow.run(in_jax, start, 0.1, 1.0)) == pytest.approx(exact, rel=1e-9)


NET = qx.architecture(params={"A": "h x", "B": "y h", "c": "y"}, inputs={"x": "x"})(lambda p, x: p["B"] @ (p["A"] @ x))
MIX = qx.Symmetry("mix", qx.GL("h"), {"A": "g @ A", "B": "B @ inv(g)"})


@pytest.mark.slow
def test_charges_break_at_the_rate_that_is_predicted():
    net = NET.at(x=3, h=2, y=2)
    space = qx.quotient(net, MIX, metric="invariant")
    params = net.init(jax.random.key(0))
    inputs, targets = (jax.random.normal(jax.random.key(k), (8, n)) for k, n in ((1, 3), (2, 2)))
    loss = lambda p: jnp.mean((inputs @ p["A"].T @ p["B"].T - targets) ** 2)
    charge = lambda p: np.asarray(p["A"] @ p["A"].T - p["B"].T @ p["B"])
    for scheme in (qx.gradient_descent(), qx.heavy_ball(0.6), qx.nesterov(0.6)):
        gaps = []
        for eta in (0.004, 0.002):
            steps = round(0.4 / eta)
            here = scheme.run(loss, params, eta, steps)
            found = qx.charge_rates(space, loss, here, eta, scheme)
            assert np.abs(found.flow["mix"]).max() < 1e-10
            q = [charge(scheme.run(loss, params, eta, steps + k)) for k in (-2, -1, 1, 2)]
            change = (q[0] - 8 * q[1] + 8 * q[2] - q[3]) / (12 * eta)
            off = lambda rate, change=change: np.linalg.norm(change - rate) / np.linalg.norm(change)
            gaps.append([off(found.rates["mix"]), off(found.next_order["mix"])])
        assert np.log2(np.divide(*gaps)) == pytest.approx([1, 2], abs=0.4)
        assert max(gaps[1]) < 0.1
    exact = qx.charge_rates(space, loss, params, 0.1).rates["mix"] * 0.1
    step = qx.gradient_descent().run(loss, params, 0.1, 1)
    assert charge(step) - charge(params) == pytest.approx(exact, rel=1e-9, abs=1e-12)


def test_bad_input_is_refused():
    with pytest.raises(qx.DiscretisationError, match="sum to zero"):
        _ = qx.Scheme("none", (1, 1), (1, 0)).coefficients
    with pytest.raises(qx.DiscretisationError, match="implicit"):
        qx.implicit().run(in_jax, jnp.ones(2), 0.1, 1)
    with pytest.raises(qx.DiscretisationError, match="beta has no value"):
        _ = qx.heavy_ball(beta).numbers
    with pytest.raises(qx.DiscretisationError, match="orders 0, 1 and 2"):
        qx.modified_flow(order=3)
    with pytest.raises(qx.DiscretisationError, match="needs space= a quotient"):
        qx.charge_rates(None, in_jax, jnp.ones(2), 0.1)
