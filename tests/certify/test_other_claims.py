"""Fields are judged by the derivative of what the model means; equivariance is that of the array it returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.export import symbolic_shape

import quotax as qx
from quotax.artifacts import ArraySpec
from quotax.certify.claims.equivariance import check_output
from quotax.certify.claims.vector_field import velocity_model

# --- fields: what is differentiated


def net(function, **params):
    return qx.architecture(params=params or {"W": "h x", "U": "y h"}, inputs={"x": "x"})(function)


def opposite(p):
    return {"W": p["W"], "U": -p["U"]}


def alike(p):
    return {"W": p["W"], "U": p["U"]}


def stopped(p, x):
    return jax.lax.stop_gradient(p["U"]) @ (p["W"] @ x)


def stopped_below(p, x):
    return p["U"] @ jax.jit(lambda w: jax.lax.stop_gradient(w) @ x)(p["W"])


@jax.custom_jvp
def estimated(z):
    return 2.0 * z


estimated.defjvp(lambda point, change: (estimated(*point), 0.0 * change[0]))


@jax.custom_vjp
def backwards(z):
    return 3.0 * z


backwards.defvjp(lambda z: (backwards(z), None), lambda kept, g: (0.0 * g,))


def straight(p, x):
    return p["U"] @ estimated(p["W"] @ x)


def reversed_(p, x):
    return p["U"] @ backwards(p["W"] @ x)


def remembered(p, x):
    return p["U"] @ jax.checkpoint(lambda w: w @ jax.lax.optimization_barrier(x))(p["W"])


def narrow(p, x):
    return (p["U"].astype("float32") @ (p["W"].astype("bfloat16") @ x.astype("bfloat16")).astype("float32")) * 1.5


@pytest.mark.parametrize("function", [stopped, stopped_below, straight, reversed_, remembered, narrow])
def test_the_true_field_is_proved_and_the_false_one_refuted(function):
    model = net(function)
    assert qx.verify_field(model, opposite).scope == "every width"
    certificate = qx.verify_field(model, alike)
    assert certificate.status == "refuted"
    # The derivative along (W, U) of a product of both is twice the product.
    witness = certificate.witness
    output = np.asarray(model.call(witness.params, witness.inputs["x"], sizes={}), float)
    np.testing.assert_allclose(witness.transformed_output, 2 * output, rtol=5e-2)


@pytest.mark.parametrize("stop", ["U", "W"])
def test_a_field_along_what_is_stopped_alone_is_refuted(stop):
    model = net(lambda p, x: (p | {stop: jax.lax.stop_gradient(p[stop])})["U"] @ (p["W"] @ x))
    only = net(lambda p, x: p["U"] @ jax.lax.stop_gradient(p["W"]) @ x)
    moved = lambda p: {name: p[name] if name == stop else jnp.zeros_like(p[name]) for name in p}
    assert qx.verify_field(model, moved).status == "refuted"
    assert qx.verify_field(only, moved).status == "refuted"


def test_casts_are_named():
    (note,) = [s for s in qx.verify_field(net(narrow), alike).steps if "casts" in s]
    assert note == "the outputs are those of the model in float64, 3 casts to narrower floats in it removed"
    assert any("casts" in a for a in qx.verify_field(net(narrow), opposite).assumptions)


def test_a_field_may_be_cast_too():
    third = lambda p: {"W": (p["W"] / 3).astype("bfloat16"), "U": -(p["U"].astype("float32") / 3)}
    assert qx.verify_field(net(lambda p, x: p["U"] @ (p["W"] @ x)), third).status == "proved"


def test_a_straight_through_estimator_has_the_derivative_of_its_values():
    @jax.custom_jvp
    def rounded(z):
        return jnp.round(z)

    rounded.defjvp(lambda point, change: (rounded(*point), change[0]))
    model = net(lambda p, x: p["b"] + rounded(p["w"]) * x, w="x", b="x")
    still = lambda p: {"w": jnp.ones_like(p["w"]), "b": jnp.zeros_like(p["b"])}
    assert qx.verify_field(model, still).status != "refuted"
    assert qx.verify_field(model, lambda p: {"w": jnp.zeros_like(p["w"]), "b": p["b"]}).status == "refuted"


# --- fields: how large is not zero


@pytest.mark.parametrize("size", [1e-30, 1e-9, 1.0, 1e9, 1e30])
def test_a_derivative_is_judged_against_its_terms(size):
    model = net(lambda p, x: size * (p["U"] @ jnp.tanh(p["W"] @ x)) + 0 * x.sum())
    assert qx.verify_field(model, opposite).status == "refuted"
    model = net(lambda p, x: jnp.tanh(size * (p["U"] @ (p["W"] @ x)) * 1.1) * 0.3)
    assert qx.verify_field(model, opposite).status != "refuted"


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_what_a_large_constant_costs_is_no_derivative(offset):
    # The variance of numbers near `offset` keeps few digits; its derivative along (1, .., 1) is 0.
    def spread(p, x):
        z = p["W"] @ x + offset
        return jnp.log(1e-3 + jnp.mean(z**2) - jnp.mean(z) ** 2 + jnp.abs(offset) ** 2 * 1e-3)

    def steady(p):
        return {"W": jnp.zeros_like(p["W"]), "U": p["U"]}

    assert qx.verify_field(net(spread), steady).status != "refuted"

    def turned(p):
        return {"W": jnp.ones_like(p["W"]) @ jnp.ones((p["W"].shape[1],) * 2), "U": p["U"]}

    def centred(p, x):
        z = p["W"] @ x + offset
        return z - z.mean()

    assert qx.verify_field(net(centred), turned).status != "refuted"
    assert qx.verify_field(net(centred), alike).status == "refuted"


@pytest.mark.parametrize("function", [jnp.sqrt, jnp.log, lambda z: jnp.sqrt(z - 1e6)])
def test_where_the_domain_is_left_nothing_is_refuted(function):
    model = net(lambda p, x: function(-(p["W"] ** 2)).sum() * x)
    assert qx.verify_field(model, alike).status != "refuted"


def test_what_has_no_law_is_undecided_or_refuted():
    def ordered(p, x):
        return jnp.sort(p["U"] @ (p["W"] @ x))

    def looped(p, x):
        return jax.lax.while_loop(lambda z: jnp.sum(z**2) > 1, lambda z: z / 2, p["U"] @ (p["W"] @ x))

    for function in (ordered, looped):
        assert qx.verify_field(net(function), opposite).status == "undecided"
        assert qx.verify_field(net(function), alike).status == "refuted"


def test_outputs_without_derivatives_do_not_change():
    model = net(lambda p, x: (jnp.argmax(p["U"] @ (p["W"] @ x)), p["W"] @ x > 0))
    assert qx.verify_field(model, alike).status != "refuted"
    model = net(lambda p, x: (jnp.argmax(p["W"] @ x), p["U"] @ (p["W"] @ x)))
    assert qx.verify_field(model, alike).status == "refuted"
    assert qx.verify_field(model, opposite).status != "refuted"


def test_keys_may_be_closed_over():
    key = jax.random.key(1)
    model = net(lambda p, x: p["U"] @ (p["W"] @ (x * jax.random.normal(key, (2,), "float32")[0])))
    assert qx.verify_field(model, alike).status == "refuted"


def test_a_field_that_is_no_tangent_vector_is_refused():
    model = net(lambda p, x: p["U"] @ (p["W"] @ x))
    with pytest.raises(qx.SymmetryError, match="must return a tree like the parameters"):
        qx.verify_field(model, lambda p: {"W": p["W"]})
    with pytest.raises(qx.SymmetryError, match=r"at \['W'\] the field has shape \(\) and the parameter \(2, 3\)"):
        qx.verify_field(model, lambda p: {"W": 0.0, "U": p["U"]})


def test_the_derivative_can_be_traced_at_sizes_that_are_symbols():
    h, x, y = symbolic_shape("h, x, y")
    for function in (stopped, straight, narrow):
        model = net(function)
        velocity = velocity_model(model, lambda p, *xs, m=model: m.call(p, *xs, sizes={}), opposite)
        shapes = {"W": jax.ShapeDtypeStruct((h, x), "float64"), "U": jax.ShapeDtypeStruct((y, h), "float64")}
        program = jax.make_jaxpr(velocity.function)(shapes, jax.ShapeDtypeStruct((x,), "float64"))
        assert program.out_avals[0].shape == (y,)
        for word in ("stop_gradient", "f32", "bf16", "custom"):
            assert word not in str(program)


# --- equivariance: the array that is returned


@qx.architecture(params={"W": "h d"}, inputs={"x": "n d"})
def rows(p, x):
    return x @ p["W"].T


ORDER = qx.Symmetry("order", qx.Permutation("n"), {"x": "g @ x", "probe": "g @ probe"})


def test_a_vector_is_not_a_number():
    shape = r"shape \(7, 3\) at h=3, d=5, n=7, and these axes are"
    swap = qx.Symmetry("order", qx.Permutation("n"), {"x": "g @ x"})
    for output, text in (("", r"\(\)"), ("n", r"\(7,\)"), ("h n", r"\(3, 7\)"), ("n h 1", r"\(7, 3, 1\)")):
        with pytest.raises(qx.ArchitectureError, match=f"output='{output}'.*{shape} {text}. Name one axis"):
            qx.verify_equivariance(rows, swap, output=output)
    assert qx.verify_equivariance(rows, ORDER, output="n h").status == "proved"


def test_an_output_of_an_axis_of_length_one_is_not_a_number():
    @qx.architecture(params={"w": "d"}, inputs={"x": "n d"})
    def column(p, x):
        return (x @ p["w"])[:, None]

    with pytest.raises(qx.ArchitectureError, match=r"has shape \(5, 1\) at d=3, n=5, and these axes are \(5,\)"):
        qx.verify_equivariance(
            column, qx.Symmetry("o", qx.Permutation("n"), {"x": "g @ x", "probe": "g @ probe"}), output="n"
        )
    assert qx.verify_equivariance(column, ORDER, output="n 1").status == "proved"


def test_an_unknown_axis_is_named():
    with pytest.raises(qx.ArchitectureError, match="unknown axis 'z'; the axes of rows are h, d, n"):
        qx.verify_equivariance(rows, ORDER, output="n z")


@pytest.mark.parametrize(
    ("pack", "word"), [(tuple, "tuple"), (list, "list"), (lambda a: dict(zip("ab", a, strict=True)), "dict")]
)
def test_several_arrays_are_refused(pack, word):
    @qx.architecture(params={"W": "h d"}, inputs={"x": "n d"})
    def two(p, x):
        return pack([x @ p["W"].T, x])

    with pytest.raises(
        qx.ArchitectureError, match=f"two returns 2 arrays in a {word}, and one array is needed. Verify an"
    ):
        qx.verify_equivariance(two, ORDER, output="n h")


def test_sizes_that_must_be_related_are_found():
    @qx.architecture(params={"W": "k k"}, inputs={"x": "n k", "t": qx.Tokens("n", below="k")})
    def halves(p, x, t):
        a, b = jnp.split(x @ p["W"], 2, -1)
        return jnp.concatenate([-b, a], -1)[:, t]

    forward = lambda p, *xs: halves.call(p, *xs, sizes={})
    check_output(halves, forward, ArraySpec("probe", (("n",), ("n",))))
    with pytest.raises(qx.ArchitectureError, match=r"has shape \(10, 10\) at k=6, n=10"):
        check_output(halves, forward, ArraySpec("probe", (("n",), ("k",))))


def test_a_model_that_does_not_trace_says_why():
    @qx.architecture(params={"W": "k k"}, inputs={"x": "n k"})
    def never(p, x):
        raise ValueError("no shapes will do")

    with pytest.raises(qx.ArchitectureError, match="no shapes will do"):
        qx.verify_equivariance(never, ORDER, output="n k")
