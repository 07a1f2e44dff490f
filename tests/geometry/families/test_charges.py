"""Charges: which generators give one, against dense Jacobians; constant along gradient flow; exact drift of a step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import sympy as sp

from geometry.table import CASES, KINDS, sampled
from quotax.geometry.families.conserved import charges, count, drift, formulas, gradient_part
from quotax.symmetry import Term

SAMPLED = sampled((), ("linear", "tied", "layer norm", *KINDS))


def flat(arrays):
    return jnp.concatenate([jnp.ravel(array) for array in arrays.values()])


def like(vector, arrays):
    out, start = {}, 0
    for name, array in arrays.items():
        out[name] = vector[start : start + array.size].reshape(array.shape)
        start += array.size
    return out


def generators(family, arrays):
    """The Jacobian of the field of every coordinate, differentiated by JAX: (coordinates, d, d)."""
    shape = family.group.coordinate_shape(family.sizes)

    def field(coordinates, vector):
        xi = family.group.algebra(coordinates.reshape(shape), family.sizes)
        velocity = family.field(like(vector, arrays), xi)
        return flat({n: velocity.get(n, jnp.zeros_like(a)) for n, a in arrays.items()})

    basis, point = jnp.eye(int(np.prod(shape))), flat(arrays)
    return np.asarray(jax.jit(jax.vmap(lambda c: jax.jacfwd(field, 1)(c, point)))(basis))


# A field is a gradient iff its Jacobian is symmetric. The Jacobian does not depend on the point (fields here are
# affine), or is generic at a random one: it shows the dimension of the algebra elements with that property.
@pytest.mark.parametrize("name", SAMPLED)
def test_the_number_of_laws_is_that_of_symmetric_jacobians(name):
    case = CASES[name]
    for family in case.lowered:
        jacobians = generators(family, case.draw(1))
        skew = (jacobians - np.swapaxes(jacobians, 1, 2)).reshape(len(jacobians), -1)
        values = np.linalg.svd(skew, compute_uv=False)
        assert count(family) == len(jacobians) - int(np.sum(values > 1e-9))


# J is what its generator integrates to: the gradient of <xi, A> is twice the field of xi (once, for shifts only).
@pytest.mark.parametrize("name", SAMPLED)
def test_the_gradient_of_a_charge_is_its_generator(name):
    case = CASES[name]
    arrays = case.draw(2)
    found = charges(case.lowered, arrays)
    assert set(found) == {family.name for family in case.lowered if count(family)} == set(formulas(case.lowered))
    for family in case.lowered:
        if family.name not in found:
            continue
        shape = found[family.name].shape
        weights = jax.random.normal(jax.random.key(0), shape)
        part = gradient_part(family.terms)
        if part == "symmetric" and shape == family.group.shape(family.sizes):
            weights = weights + jnp.swapaxes(weights, -1, -2)
            xi = weights
        elif part == "symmetric":  # the scaling half of complex scalings
            xi = family.group.algebra(jnp.stack([weights, 0 * weights], -1), family.sizes)
        else:  # of pairs that share a factor, one each
            xi = weights if family.group.free else family.group.algebra(weights, family.sizes)
        gradient = jax.jit(jax.grad(lambda a, f=family, w=weights: jnp.sum(w * charges([f], a)[f.name])))(arrays)
        field = family.field(arrays, xi)
        factor = 1 if all(term.source is None for term in family.terms) else 2
        for key, array in gradient.items():
            np.testing.assert_allclose(array, factor * field.get(key, jnp.zeros_like(array)), atol=1e-12)


@pytest.mark.slow
def test_charges_are_their_closed_forms():
    p = CASES["linear biases"].draw(0)
    expected = p["W1"] @ p["W1"].T + jnp.outer(p["b1"], p["b1"]) - p["W2"].T @ p["W2"]
    found = charges(CASES["linear biases"].lowered, p)
    assert set(found) == {"linear h"}  # the shift is carried by a weight, and no gradient
    np.testing.assert_allclose(found["linear h"], expected, atol=1e-12)
    p = CASES["relu"].draw(0)
    expected = jnp.sum(p["W1"] ** 2, 1) + p["b1"] ** 2 - jnp.sum(p["W2"] ** 2, 0)
    np.testing.assert_allclose(charges(CASES["relu"].lowered, p)["scale h"], expected, atol=1e-12)
    p = CASES["attention"].draw(0)
    expected = jnp.einsum("hkd,hld->hkl", p["Q"], p["Q"]) - jnp.einsum("hkd,hld->hkl", p["K"], p["K"])
    np.testing.assert_allclose(charges(CASES["attention"].lowered, p)["query key"], expected, atol=1e-12)
    p = CASES["softmax"].draw(0)
    np.testing.assert_allclose(charges(CASES["softmax"].lowered, p)["shift x"], p["W"].sum(0), atol=1e-12)
    p = CASES["rope"].draw(0)
    rows = jnp.sum(p["Q"] ** 2, 1) - jnp.sum(p["K"] ** 2, 1)
    np.testing.assert_allclose(charges(CASES["rope"].lowered, p)["query key"], rows[0::2] + rows[1::2], atol=1e-12)


def test_rotations_have_no_charge():
    assert charges(CASES["tied"].lowered, CASES["tied"].draw(0)) == {}
    assert gradient_part(CASES["tied"].lowered[0].terms) == "symmetric"
    assert count(CASES["tied"].lowered[0]) == 0


def carried(target, source, subscripts, coefficient):
    element_and_source, target_labels = subscripts.split("->")
    source_labels, element = element_and_source.split(",")
    return Term(target, source, element, source_labels, target_labels, coefficient, "carried")


@pytest.mark.parametrize(
    ("back", "part"),
    [
        (carried("v", "u", "b,ba->a", 1.0), "all"),  # u += xi v, v += xi^T u
        (carried("v", "u", "b,ab->a", 1.0), "symmetric"),  # v += xi u
        (carried("v", "u", "b,ab->a", -1.0), "skew"),  # v -= xi u
        (carried("v", "u", "b,ba->a", -1.0), "none"),  # v -= xi^T u: a rotation
    ],
)
def test_fields_carried_between_two_parameters(back, part):
    forth = carried("u", "v", "b,ab->a", 1.0)
    assert gradient_part((forth, back)) == part
    assert gradient_part((forth,)) == "none"
    assert gradient_part(None) == "none"


@pytest.mark.parametrize("name", ["linear", "relu", "attention", "rope", "u^2-v^2", "conv linear", "exp"])
def test_formulas_are_the_charges(name):
    case = CASES[name]
    arrays = {n: np.round(np.asarray(a) * 8) / 8 for n, a in case.draw(0).items()}
    found = charges(case.lowered, {n: jnp.asarray(a) for n, a in arrays.items()})
    for family in case.lowered:
        formula, value = formulas([family])[family.name], np.asarray(found[family.name])
        axes = [symbol for symbol in sorted(formula.free_symbols, key=str) if symbol.is_positive]
        formula = formula.subs({symbol: case.network.sizes[str(symbol)] for symbol in axes}).doit()
        names = family.group.element_axes
        entry = [sp.Symbol(f"{a}{names[:i].count(a) or ''}", integer=True) for i, a in enumerate(names)]
        for index in np.ndindex(value.shape):
            where = (*index[:-1], 2 * index[-1], 2 * index[-1] + 1) if len(index) < len(entry) else index
            expression = formula.subs(dict(zip(entry, where, strict=True)))
            numbers = {a: arrays[a.base.name][tuple(int(i) for i in a.indices)] for a in expression.atoms(sp.Indexed)}
            assert float(expression.subs(numbers)) == pytest.approx(value[index], abs=1e-9)


# --- gradient flow


def flow(case, loss, params, horizon):
    """Gradient flow by an eighth-order Runge-Kutta method with a tight tolerance: parameters at eleven times."""
    slope = jax.jit(jax.grad(lambda vector: loss(like(vector, params))))
    solution = scipy.integrate.solve_ivp(
        lambda t, y: -np.asarray(slope(y)),
        (0, horizon),
        np.asarray(flat(params)),
        method="DOP853",
        rtol=1e-12,
        atol=1e-13,
        t_eval=np.linspace(0, horizon, 11),
    )
    assert solution.success
    return [like(jnp.asarray(y), params) for y in solution.y.T]


def problem(name, batch=4):
    """A case, parameters, and a loss: squares of the outputs' distance to targets, or cross-entropy after a softmax."""
    case = CASES[name]
    params = {n: (3 if n == "b1" else 0.7) * a for n, a in case.draw(5).items()}
    keys = jax.random.split(jax.random.key(1), batch)
    (spec,) = case.model.inputs
    shape = spec.shape(case.sizes)
    inputs = jax.vmap(lambda k: jax.random.normal(k, shape))(keys)
    outputs = jax.vmap(lambda x: case.network(case.draw(6), x))(inputs)

    def loss(p):
        predicted = jax.vmap(lambda x: case.network(p, x))(inputs)
        if name.startswith("softmax"):
            return -jnp.mean(jnp.sum(outputs * jnp.log(predicted), -1))
        return jnp.mean(jnp.sum((predicted - outputs).reshape(batch, -1) ** 2, -1))

    return case, params, inputs, jax.jit(loss)


FLOWS = {"linear": 1.0, "relu": 0.05, "attention": 0.5, "softmax bias": 2.0, "swiglu": 0.5}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOWS)
def test_charges_are_constant_along_gradient_flow(name):
    case, params, inputs, loss = problem(name)
    path = flow(case, loss, params, FLOWS[name])
    assert float(loss(path[-1])) < 0.97 * float(loss(path[0]))  # it went somewhere
    if name == "relu":
        # Where a unit switches, the field jumps and no solver keeps its order, although the charge is constant on
        # either side: the horizon is such that no unit switches on any datum.
        pattern = [np.asarray(inputs @ p["W1"].T + p["b1"] > 0) for p in path]
        assert all(np.array_equal(pattern[0], now) for now in pattern)
        assert pattern[0].any()
    start = charges(case.lowered, params)
    assert start
    for p in path[1:]:
        for family, value in charges(case.lowered, p).items():
            np.testing.assert_allclose(value, start[family], atol=1e-8)


# The broken twins: what would be the charges of a wrong action.
@pytest.mark.slow
def test_what_is_no_charge_drifts():
    case, params, _, loss = problem("linear")
    end = flow(case, loss, params, FLOWS["linear"])[-1]
    twin = lambda p: p["W1"] @ p["W1"].T + p["W2"].T @ p["W2"]
    assert float(jnp.max(jnp.abs(twin(end) - twin(params)))) > 1e-2
    case, params, _, loss = problem("swiglu")
    end = flow(case, loss, params, FLOWS["swiglu"])[-1]
    twin = lambda p: jnp.sum(p["W"] ** 2, 1) - jnp.sum(p["O"] ** 2, 0)  # the gate's branch has no scaling
    assert float(jnp.max(jnp.abs(twin(end) - twin(params)))) > 1e-2


# --- finite steps


@pytest.mark.parametrize("name", ["linear", "attention", "softmax bias", "exp", "rope"])
def test_drift_is_exact_and_its_orders_are_orders(name):
    case = CASES[name]
    params, step = case.draw(0), case.draw(1)
    moved = {n: params[n] + step[n] for n in params}
    before, after = charges(case.lowered, params), charges(case.lowered, moved)
    for family, change in drift(case.lowered, params, step).items():
        np.testing.assert_allclose(change.total, after[family] - before[family], atol=1e-11)
        half = drift(case.lowered, params, {n: a / 2 for n, a in step.items()})[family]
        np.testing.assert_allclose(half.first, change.first / 2, atol=1e-12)
        np.testing.assert_allclose(half.second, change.second / 4, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOWS)
def test_a_gradient_step_drifts_at_second_order_only(name):
    case, params, _, loss = problem(name)
    gradient = jax.grad(loss)(params)
    for change in drift(case.lowered, params, {n: -0.1 * g for n, g in gradient.items()}).values():
        np.testing.assert_allclose(change.first, 0, atol=1e-12)
    across = drift(case.lowered, params, case.draw(9))
    assert all(float(jnp.max(jnp.abs(change.first))) > 1e-2 for change in across.values())


def test_charges_under_jit_and_for_batches():
    case = CASES["attention"]
    arrays = case.draw(0)
    eager = charges(case.lowered, arrays)
    jitted = jax.jit(lambda a: charges(case.lowered, a))(arrays)
    stacked = {n: jnp.stack([a, 2 * a]) for n, a in arrays.items()}
    batched = jax.vmap(lambda a: charges(case.lowered, a))(stacked)
    for family, value in eager.items():
        np.testing.assert_allclose(jitted[family], value, atol=1e-12)
        np.testing.assert_allclose(batched[family][1], 4 * value, atol=1e-12)
