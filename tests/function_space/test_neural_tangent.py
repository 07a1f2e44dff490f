"""The tangent kernel: against written-out Jacobians, finite differences, matrix exponentials and the infinite width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

import models
import quotax as qx

NET = models.relu.at(x=3, h=4, y=2)
SCALING = models.symmetry("relu scaling")[1]
INPUTS = jax.random.normal(jax.random.key(1), (20, 3))


@pytest.fixture(scope="module", params=["euclidean", "invariant"])
def space(request):
    return qx.quotient(NET, [SCALING], metric=request.param)


def written_out(net, params, *inputs):
    """The Jacobian by central differences of every parameter."""
    flat, back = ravel_pytree(params)
    outputs = jax.jit(lambda v: jax.vmap(net, (None, *(0 for _ in inputs)))(back(v), *inputs).ravel())
    h = 1e-6
    return np.stack([(outputs(flat + h * e) - outputs(flat - h * e)) / (2 * h) for e in np.eye(flat.size)], axis=1)


@settings(max_examples=5)
@given(seed=st.integers(0, 1000))
def test_kernel_is_that_of_finite_differences_and_its_product(seed):
    params = NET.init(jax.random.key(seed))
    kernel = qx.tangent_kernel(NET, params, INPUTS)
    J = written_out(NET, params, INPUTS)
    np.testing.assert_allclose(kernel.matrix, J @ J.T, atol=1e-6)
    w = np.random.default_rng(seed).standard_normal(kernel.shape)
    np.testing.assert_allclose(np.ravel(kernel.product(w)), kernel.matrix @ w.ravel(), atol=1e-12)
    assert (kernel.matrix == kernel.matrix.T).all()
    np.testing.assert_allclose(kernel.against(INPUTS[3:5]), kernel.matrix[6:10], atol=1e-12)


def test_kernel_of_several_inputs_and_blocks(monkeypatch):
    net = lambda p, x, mask: jnp.tanh(p["a"] * mask) @ x
    inputs = (INPUTS, (INPUTS[:, ::-1] > 0).astype(float))
    params = {"a": jnp.arange(6.0).reshape(2, 3), "not seen": jnp.ones(2)}
    J = written_out(net, params, *inputs)
    monkeypatch.setattr("quotax.function_space.jacobian.ROOM", 60)  # stacks of seven rows, a few examples at a time
    kernel = qx.tangent_kernel(net, params, inputs)
    assert kernel.jacobian.stack == 7
    np.testing.assert_allclose(kernel.matrix, J @ J.T, atol=1e-6)
    np.testing.assert_allclose(np.ravel(kernel.product(np.ones(kernel.shape))), (J @ J.T).sum(1), atol=1e-5)


def test_vertical_directions_do_not_count(space):
    params = NET.init(jax.random.key(0))
    kernel = qx.tangent_kernel(NET, params, INPUTS, space)
    assert kernel.vertical_share < 1e-14
    assert kernel.gap < 1e-14
    assert "differ by" in str(kernel)
    assert repr(kernel).endswith("shape=[20, 2], parameters=24)")
    assert kernel.null_space().to_dict()["unexplained"] == 0
    assert str(kernel.null_space()) == "4 of 24 directions change none of 40 outputs: 4 along the orbit, 0 others"
    few = qx.tangent_kernel(NET, params, INPUTS[:3], space).null_space()
    assert few.unexplained > 0
    assert not few.enough
    w = np.ones(kernel.shape)
    np.testing.assert_allclose(np.ravel(kernel.product(w)), kernel.matrix @ w.ravel(), atol=1e-12)


@pytest.mark.parametrize("name", ["linear", "multi_head", "softmax_classifier", "rms_norms"])
def test_null_spaces_are_the_flat_directions_that_the_catalogue_knows(name):
    entry = qx.catalogue.load(name)
    sizes, flat = entry.flat[0]
    net = entry.architecture.at(**{axis: sizes[axis] for axis in entry.architecture.parameter_axes})
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape)), net.init(jax.random.key(0)))
    inputs = tuple(rng.standard_normal((40, *spec.shape(sizes))) for spec in entry.architecture.inputs)
    found = qx.tangent_kernel(net, params, inputs).null_space()
    assert (found.dim, found.enough, found.clear) == (flat, True, True)


def test_a_rank_that_rounding_decides_is_not_clear():
    """Computed in bfloat16, parameters in float64: no digits are left to count by."""
    narrow = lambda p, x: NET(p, x).astype(jnp.bfloat16).astype(float)
    found = qx.tangent_kernel(narrow, NET.init(jax.random.key(0)), INPUTS).null_space()
    assert not found.clear
    assert "no clear gap" in str(found)


def test_only_an_invariant_metric_has_one_kernel_for_an_orbit(space):
    params = NET.init(jax.random.key(0))
    other = space.act(params, space.random_element(jax.random.key(2)))
    here, there = (qx.tangent_kernel(NET, p, INPUTS, space).matrix for p in (params, other))
    change = np.abs(here - there).max() / np.abs(here).max()
    assert (change < 1e-12) == (space.metric_name == "invariant")


def test_a_function_that_changes_along_orbits_is_seen():
    space = qx.quotient(NET, [SCALING], metric="invariant")
    wrong = lambda p, x: NET(p, x) + jnp.sum(p["W1"]) * jnp.ones(2)
    kernel = qx.tangent_kernel(wrong, NET.init(jax.random.key(0)), INPUTS, space)
    assert kernel.vertical_share > 1e-2
    assert kernel.gap > 1e-4


@settings(max_examples=5)
@given(seed=st.integers(0, 1000), time=st.floats(0, 10))
def test_decay_is_the_matrix_exponential(seed, time):
    net = lambda p, x: jnp.tanh(p @ x)
    kernel = qx.tangent_kernel(net, jax.random.normal(jax.random.key(seed), (2, 3)), INPUTS[:6])
    errors = np.random.default_rng(seed).standard_normal(kernel.shape)
    exact = scipy.linalg.expm(-time * kernel.matrix) @ errors.ravel()
    np.testing.assert_allclose(kernel.decay(errors, time).ravel(), exact, atol=1e-10)
    assert kernel.decay(errors, [0.0, time]).shape == (2, *kernel.shape)


def test_without_a_matrix_the_same(monkeypatch):
    params = NET.init(jax.random.key(0))
    errors = np.random.default_rng(0).standard_normal((20, 2))
    times = [0.0, 0.1, 5.0]
    dense = qx.tangent_kernel(NET, params, INPUTS)
    monkeypatch.setattr("quotax.function_space.neural_tangent.DENSE", 10)
    free = qx.tangent_kernel(NET, params, INPUTS)
    np.testing.assert_allclose(free.decay(errors, times), dense.decay(errors, times), atol=1e-6)
    np.testing.assert_allclose(free.modes(3).values, dense.modes(3).values, rtol=1e-10)
    assert "matrix" not in free.__dict__
    monkeypatch.setattr("quotax.function_space.neural_tangent.STEPS", 3)
    with pytest.raises(qx.ConvergenceError, match="more than 3 products of the kernel for times up to 5"):
        free.decay(errors, times)
    monkeypatch.setattr("quotax.function_space.neural_tangent.MOST", 10)
    with pytest.raises(qx.FunctionSpaceError, match=r"40 rows \(20 examples of 2 outputs\)"):
        free.matrix  # noqa: B018


def test_a_linear_model_decays_as_predicted():
    """The kernel of a linear model is constant: gradient descent is (1 - eta lambda)^t along every mode."""
    net = lambda p, x: p @ x
    params = jax.random.normal(jax.random.key(3), (2, 3))
    targets = jax.random.normal(jax.random.key(4), (20, 2))
    errors = lambda p: jax.vmap(net, (None, 0))(p, INPUTS) - targets
    kernel = qx.tangent_kernel(net, params, INPUTS)
    eta, steps = 1e-4, 200
    p = params
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(errors(p) ** 2) / 2))
    for _ in range(steps):
        p = p - eta * gradient(p)
    modes = kernel.modes()
    predicted = (1 - eta * modes.values) ** steps * modes.of(errors(params))
    np.testing.assert_allclose(modes.of(errors(p)), predicted, atol=1e-12)
    np.testing.assert_allclose(kernel.decay(errors(params), eta * steps), errors(p), rtol=0.02, atol=1e-2)


@pytest.mark.slow
def test_wide_relu_networks_have_the_kernel_of_infinite_width():
    """f = a . relu(W x) / sqrt(h), all weights standard normal: the arc-cosine kernels of degree 0 and 1.

    With u = cos(angle): E relu(w x) relu(w x') = |x| |x'| (sin + (pi - angle) u) / 2 pi, from the derivatives by a, and
    x . x' E 1 1 a^2 = x . x' (pi - angle) / 2 pi, from those by W.
    """
    width, draws = 4000, 12
    net = lambda p, x: p["a"] @ jax.nn.relu(p["W"] @ x) / width**0.5
    x = INPUTS[:6]
    found = []
    for key in jax.random.split(jax.random.key(0), draws):
        first, second = jax.random.split(key)
        params = {"W": jax.random.normal(first, (width, 3)), "a": jax.random.normal(second, (width,))}
        found.append(qx.tangent_kernel(net, params, x).matrix)
    norms = jnp.linalg.norm(x, axis=1)
    inner = x @ x.T
    u = jnp.clip(inner / jnp.outer(norms, norms), -1, 1)
    angle = jnp.arccos(u)
    limit = jnp.outer(norms, norms) * (jnp.sin(angle) + (jnp.pi - angle) * u) / (2 * jnp.pi)
    limit = limit + inner * (jnp.pi - angle) / (2 * jnp.pi)
    error = np.std(found, axis=0, ddof=1) / draws**0.5
    assert np.abs((np.mean(found, axis=0) - limit) / error).max() < 4.5  # 21 numbers, Student's t of 11 degrees
    assert (error / np.abs(limit).max()).max() < 0.02


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"net": 3}, "needs a network or a function `net\\(params, x\\)`, got 3"),
        ({"params": {"W1": jnp.ones((4, 3))}}, "missing b1, W2"),
        ({"inputs": jnp.ones(3)}, "the network refuses one: .*rank 0"),
        ({"inputs": jnp.ones((0, 3))}, "at least one example in inputs, got the shape \\(0, 3\\)"),
        ({"inputs": jnp.full((2, 3), jnp.nan)}, "inputs holds NaN or infinity"),
        ({"inputs": (jnp.ones((2, 3)), jnp.ones((3, 3)))}, "as many examples in every array of inputs, got \\[2, 3\\]"),
        ({"inputs": ()}, "inputs is an empty tuple"),
        ({"space": 7}, "needs space= a quotient, got int"),
        ({"probes": 0}, "needs probes= a whole number, at least 1, got 0"),
    ],
)
def test_bad_input_is_refused_by_name(change, message):
    given = {"net": NET, "params": NET.init(jax.random.key(0)), "inputs": INPUTS} | change
    with pytest.raises(ValueError, match=f"(?s)quotax.tangent_kernel.*{message}"):
        qx.tangent_kernel(**given)


def test_arguments_of_a_kernel_are_refused_by_name():
    kernel = qx.tangent_kernel(NET, NET.init(jax.random.key(0)), INPUTS)
    with pytest.raises(qx.FunctionSpaceError, match=r"needs w of the shape of the outputs, \(20, 2\)"):
        kernel.product(np.ones(40))
    with pytest.raises(qx.FunctionSpaceError, match="times that are finite and not negative, got -1"):
        kernel.decay(np.ones((20, 2)), -1)
    with pytest.raises(qx.FunctionSpaceError, match="k= a whole number, at least 1, got 0"):
        kernel.modes(0)
