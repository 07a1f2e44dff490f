"""Laws of the projections, for every certified symmetry of the shared table, and for several at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx
from models import QK, TRUE, VO, attention, relu, softmax_head, symmetry

SIZES = {"h": 4, "x": 3, "y": 2, "head": 2, "k": 2, "v": 2}
EXPECTED = {  # parameters, orbit dimension: by hand
    "relu scaling": (24, 4),
    "linear GL": (20, 14),  # h > x, y: the stabiliser has dimension (h - x)(h - y)
    "attention query-key": (48, 8),
    "attention value-output": (48, 8),
    "swiglu": (32, 4),
    "softmax head": (8, 3),
    "softmax head bias": (8, 1),
    "batch norm scale": (24, 4),
    "batch norm shift": (24, 4),
    "batch norm shift, eps": (24, 4),
    "tied rotation": (12, 6),
    "rotary pairs": (12, 2),
    "relu permutation": (24, 0),
}
QUICK = ("relu scaling", "linear GL", "attention query-key")
CONTINUOUS = [name for name in TRUE if name != "relu permutation"]
QUICK = ("relu scaling", "linear GL", "softmax head bias")
# Numbers, matrices, a shift; copies, rotations, pairs of coordinates. The laws are tested on every symmetry.
SAMPLED = (*QUICK, "attention query-key", "tied rotation", "rotary pairs")
TOLERANCE = {jnp.float32: 1e-5, jnp.float64: 1e-12}


def make_space(name):
    model, claim = symmetry(name)
    sizes = {axis: SIZES[axis] for axis in model.parameter_axes}
    net = model.at(**sizes)
    proved = qx.Certificate("taken as read here; see tests/certify", "proved", "tests")
    return net, qx.quotient(net, claim, verified=[proved])


SPACES = {name: make_space(name) for name in TRUE}


def mixed():
    """Two families of one attention layer that share no parameter, and a head whose families do."""
    proved = qx.Certificate("taken as read here", "proved", "tests")
    net = attention.at(head=2, k=2, v=3, x=4)
    claims = [qx.Symmetry("qk", qx.GL("k", each="head"), QK), qx.Symmetry("vo", qx.GL("v", each="head"), VO)]
    return net, qx.quotient(net, claims, verified=[proved] * 2)


def draw(net, seed, dtype=jnp.float64):
    keys = jax.random.split(jax.random.key(seed), len(net.shapes))
    return {n: jax.random.normal(k, s, dtype) for k, (n, s) in zip(keys, net.shapes.items(), strict=True)}


def size(tree):
    return float(jnp.sqrt(sum(jnp.sum(a.astype(jnp.float64) ** 2) for a in jax.tree.leaves(tree))))


def gap(a, b):
    return size(jax.tree.map(jnp.subtract, a, b))


@pytest.mark.parametrize("name", TRUE)
def test_dimensions_are_those_of_theory(name):
    net, space = SPACES[name]
    parameters, orbit = EXPECTED[name]
    assert (net.num_parameters, space.fiber_dim, space.dim) == (parameters, orbit, parameters - orbit)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(n, d, marks=[pytest.mark.slow] if n not in (QUICK if d == jnp.float32 else SAMPLED) else [])
        for n in CONTINUOUS
        for d in TOLERANCE
    ],
)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**30))
def test_projections_are_idempotent_and_add_up(name, dtype, seed):
    net, space = SPACES[name]
    tolerance = TOLERANCE[dtype]
    params, u, v = (draw(net, seed + i, dtype) for i in range(3))
    horizontal, vertical = space.horizontal(params, v), space.vertical(params, v)
    assert all(a.dtype == dtype for a in jax.tree.leaves(horizontal))
    scale = size(v)
    assert gap(space.horizontal(params, horizontal), horizontal) <= tolerance * scale  # idempotent
    assert gap(space.vertical(params, vertical), vertical) <= tolerance * scale
    assert gap(jax.tree.map(jnp.add, horizontal, vertical), v) <= tolerance * scale  # complementary
    assert size(space.vertical(params, horizontal)) <= tolerance * scale
    left, right = space.inner(params, horizontal, u), space.inner(params, v, space.horizontal(params, u))
    assert abs(float(left - right)) <= tolerance * scale * size(u)  # self-adjoint
    (family,) = space.families
    xi = family.group.algebra(
        jax.random.normal(jax.random.key(seed), family.group.coordinate_shape(family.sizes), dtype), family.sizes
    )
    field = space.field(params, {family.name: xi})
    assert size(space.horizontal(params, field)) <= tolerance * size(field)  # vertical fields are killed


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_against_dense_linear_algebra(name):
    # The oracle differentiates the finite action, and projects with NumPy's SVD.
    net, space = SPACES[name]
    (family,) = space.families
    params, v = draw(net, 1), draw(net, 2)
    shape = family.group.coordinate_shape(family.sizes)

    def orbit(c):
        g = family.group.exponential(family.group.algebra(c.reshape(shape), family.sizes))
        return space.ravel(space.act(params, {family.name: g}))

    columns = np.asarray(jax.jit(jax.jacfwd(orbit))(jnp.zeros(int(np.prod(shape)))))
    left, values, _ = np.linalg.svd(columns, full_matrices=False)
    basis = left[:, values > 1e-9 * values[0]]
    flat = np.asarray(space.ravel(v))
    np.testing.assert_allclose(space.ravel(space.vertical(params, v)), basis @ (basis.T @ flat), atol=1e-10)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SAMPLED]
)
def test_gradients_of_an_invariant_loss_are_horizontal(name):
    net, space = SPACES[name]
    params = draw(net, 3)
    free = {"t": 3, "n": 5}
    shapes = [
        spec.shape(net.sizes | {a: free.get(a, 0) for a in spec.axis_names if a not in net.sizes})
        for spec in net.architecture.inputs
    ]
    inputs = [jax.random.normal(jax.random.key(7), shape) for shape in shapes]
    gradient = jax.jit(jax.grad(lambda p: jnp.sum(jnp.sin(net(p, *inputs)))))(params)
    assert size(space.vertical(params, gradient)) <= 1e-11 * size(gradient)


@pytest.mark.slow
def test_jit_vmap_and_grad():
    net, space = mixed()
    params, v = draw(net, 0), draw(net, 1)
    eager = space.horizontal(params, v)
    assert gap(jax.jit(space.horizontal)(params, v), eager) < 1e-12
    many = jax.tree.map(lambda a, b: jnp.stack([a, b]), draw(net, 5), draw(net, 6))
    batched = jax.jit(jax.vmap(space.horizontal, (None, 0)))(params, many)
    for i in range(2):
        one = space.horizontal(params, jax.tree.map(lambda a, i=i: a[i], many))
        assert gap(jax.tree.map(lambda a, i=i: a[i], batched), one) < 1e-12
    over_points = jax.jit(jax.vmap(space.horizontal, (0, None)))(many, v)
    assert (
        gap(jax.tree.map(lambda a: a[1], over_points), space.horizontal(jax.tree.map(lambda a: a[1], many), v)) < 1e-12
    )

    def length(p):
        return space.inner(p, space.horizontal(p, v), draw(net, 2))

    slope, gradient = jax.jit(lambda p, d: (jax.jvp(length, (p,), (d,))[1], jax.grad(length)(p)))(params, draw(net, 3))
    step = 1e-5
    ahead = length(jax.tree.map(lambda a, d: a + step * d, params, draw(net, 3)))
    behind = length(jax.tree.map(lambda a, d: a - step * d, params, draw(net, 3)))
    assert float(slope) == pytest.approx(float((ahead - behind) / (2 * step)), rel=1e-6)
    assert float(space.inner(params, gradient, draw(net, 3))) == pytest.approx(float(slope), rel=1e-9)


def test_a_gradient_through_a_singular_gram_is_finite_and_right():
    net, space = SPACES["linear GL"]  # a stabiliser of dimension 2
    params, v, d = draw(net, 0), draw(net, 1), draw(net, 2)
    length = lambda p: space.inner(p, space.horizontal(p, v), v)
    slope = float(space.inner(params, jax.grad(length)(params), d))
    step = 1e-5
    shift = lambda t: length(jax.tree.map(lambda a, b: a + t * b, params, d))
    assert slope == pytest.approx(float((shift(step) - shift(-step)) / (2 * step)), rel=1e-5)


@pytest.mark.slow
def test_a_point_is_factored_once_and_projects_the_same():
    net, space = mixed()
    params, u, v = draw(net, 0), draw(net, 1), draw(net, 2)
    point = space.at(params)
    assert gap(point.horizontal(v), space.horizontal(params, v)) == 0
    assert gap(jax.jit(lambda q, w: q.vertical(w))(point, v), space.vertical(params, v)) < 1e-12
    assert float(point.inner(u, v)) == pytest.approx(float(space.inner(params, u, v)))
    assert float(point.norm(v)) == pytest.approx(size(v))


def test_dead_units_are_no_trouble():
    net, space = SPACES["relu scaling"]
    params = draw(net, 0)
    params = params | {
        "W1": params["W1"].at[0].set(0),
        "b1": params["b1"].at[0].set(0),
        "W2": params["W2"].at[:, 0].set(0),
    }
    v = draw(net, 1)
    horizontal = space.horizontal(params, v)
    assert np.isfinite(size(horizontal))
    np.testing.assert_allclose(horizontal["W1"][0], v["W1"][0])


@pytest.mark.slow
def test_more_coordinates_than_are_factored():
    net = relu.at(h=1500, x=3, y=2)
    proved = qx.Certificate("taken as read here", "proved", "tests")
    _, claim = symmetry("relu scaling")
    space = qx.quotient(net, claim, verified=[proved])
    params, v = draw(net, 0), draw(net, 1)
    once = space.horizontal(params, v)
    assert gap(space.horizontal(params, once), once) < 1e-10 * size(v)
    xi = jax.random.normal(jax.random.key(2), (1500,))
    field = space.field(params, {"relu scaling": xi})
    assert size(space.horizontal(params, field)) < 1e-10 * size(field)


@pytest.mark.slow
def test_acting_keeps_the_function_and_a_mixture_acts_in_order():
    net, space = mixed()
    params = draw(net, 0)
    g = space.random_element(jax.random.key(1))
    x = jax.random.normal(jax.random.key(2), (5, 4))
    np.testing.assert_allclose(net(space.act(params, g), x), net(params, x), rtol=1e-9)
    assert gap(space.act(params, g), params) > 0.1


def test_norm_and_inner_are_those_of_the_metric():
    net, space = SPACES["softmax head"]
    params, v = draw(net, 0), draw(net, 1)
    assert float(space.norm(params, v)) == pytest.approx(size(v))
    zero = jax.tree.map(jnp.zeros_like, v)
    assert float(space.norm(params, zero)) == 0
    assert all(np.all(np.isfinite(a)) for a in jax.tree.leaves(jax.grad(lambda w: space.norm(params, w))(zero)))
    huge = jax.tree.map(lambda a: a.astype(jnp.float32) * 1e30, v)
    assert np.isfinite(float(space.norm(jax.tree.map(lambda a: a.astype(jnp.float32), params), huge)))


def test_bad_input_is_refused_in_the_words_of_the_call():
    net, space = SPACES["relu scaling"]
    params, v = draw(net, 0), draw(net, 1)
    _, claim = symmetry("relu scaling")
    with pytest.raises(qx.GeometryError, match=r"metric must be one of 'euclidean', .*got 'hyperbolic'"):
        qx.quotient(net, claim, metric="hyperbolic")
    with pytest.raises(qx.GeometryError, match=r"give it sizes first, as in relu.at\(...\)"):
        qx.quotient(relu, claim)
    with pytest.raises(qx.GeometryError, match=r"symmetries must be `qx.Symmetry` objects, got 'scale'"):
        qx.quotient(net, ["scale"])
    with pytest.raises(qx.GeometryError, match=r"two symmetries are called 'relu scaling'"):
        qx.quotient(net, [claim, claim])
    with pytest.raises(qx.SymmetryError, match="'relu scaling' is refuted"):
        qx.quotient(net, qx.Symmetry("relu scaling", qx.PositiveDiagonal("h"), {"W1": "g @ W1"}))
    with pytest.raises(qx.ParameterError, match=r"params\['b1'\] holds 1 value\(s\) that are NaN or infinite"):
        space.horizontal(params | {"b1": params["b1"].at[0].set(jnp.nan)}, v)
    with pytest.raises(
        qx.ParameterError, match=r"v\['W1'\] has shape \(3, 4\), but its axes 'h x' at h=4, x=3 give \(4, 3\)"
    ):
        space.horizontal(params, v | {"W1": v["W1"].T})
    half = params | {"W1": params["W1"].astype(jnp.bfloat16)}
    with pytest.raises(qx.ParameterError, match=r"params\['W1'\] is bfloat16, in which .* a.astype\('float32'\)"):
        space.horizontal(half, v)
    assert space.act(half, {"relu scaling": jnp.ones(4)})["W1"].dtype == params["W1"].dtype
    with pytest.raises(qx.ParameterError, match=r"missing b1"):
        space.horizontal({k: a for k, a in params.items() if k != "b1"}, v)
    with pytest.raises(qx.GeometryError, match="xi names 'other'; the families are relu scaling"):
        space.field(params, {"other": jnp.ones(4)})
    with pytest.raises(qx.GeometryError, match=r"has shape \(3,\), but elements of R\+\^h have \(4,\)"):
        space.act(params, {"relu scaling": jnp.ones(3)})
    with pytest.raises(
        qx.GeometryError, match=r"no element of R\+\^h: elements are positive numbers, and entry \[2\] is -1;"
    ):
        space.act(params, {"relu scaling": jnp.ones(4).at[2].set(-1)})
    jax.jit(space.act)(params, {"relu scaling": -jnp.ones(4)})  # nobody can look at what is traced


def test_softmax_head_families_share_a_component_when_they_share_a_parameter():
    proved = qx.Certificate("taken as read here", "proved", "tests")
    net = softmax_head.at(x=3, y=2)
    claims = [
        qx.Symmetry("rows", qx.Translation("x"), {"W": "W + g"}),
        qx.Symmetry("all", qx.Translation(), {"W": "W + g"}),
    ]
    space = qx.quotient(net, claims, verified=[proved] * 2)
    assert (space.algebra_dim, space.fiber_dim) == (4, 3)  # the second is contained in the first
