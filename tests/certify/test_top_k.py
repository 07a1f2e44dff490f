"""Experts that are chosen by their scores: what stands among the largest moves with what it is the place of."""

import jax
import jax.numpy as jnp
import pytest

import quotax as qx

pytestmark = pytest.mark.slow
SHAPES = {"G": "e x", "W1": "e h x", "W2": "e y h"}
EXPERTS = {"G": "g @ G", "W1[e,h,x]": "g[e,e_] W1[e_,h,x]", "W2[e,y,h]": "g[e,e_] W2[e_,y,h]"}


def mixture(choose):
    return qx.architecture(params=SHAPES, inputs={"x": "x"})(choose)


@mixture
def gathered(p, x):
    scores, places = jax.lax.top_k(p["G"] @ x, 2)
    return jnp.einsum("k,kyh,kh->y", jax.nn.softmax(scores), p["W2"][places], jax.nn.relu(p["W1"][places] @ x))


@mixture
def one_hot(p, x):
    weights, places = jax.lax.top_k(jax.nn.softmax(p["G"] @ x), 2)
    gate = weights / weights.sum() @ jax.nn.one_hot(places, len(p["G"]))
    return gate @ jnp.einsum("eyh,eh->ey", p["W2"], jax.nn.relu(p["W1"] @ x))


@mixture
def often_equal(p, x):
    """Of equal scores the first is taken: many are zero."""
    scores, places = jax.lax.top_k(jax.nn.relu(p["G"] @ x), 2)
    return jnp.einsum("k,kyh,kh->y", jax.nn.softmax(scores), p["W2"][places], jax.nn.relu(p["W1"][places] @ x))


@pytest.mark.parametrize("model", [gathered, one_hot], ids=lambda m: m.name)
def test_experts_are_permuted_with_their_scores(model):
    experts = qx.verify(model, qx.Symmetry("experts", qx.Permutation("e"), EXPERTS))
    assert experts, experts
    assert "differ" in " ".join(experts.assumptions)
    without = {key: text for key, text in EXPERTS.items() if "W2" not in key}
    assert qx.verify(model, qx.Symmetry("twin", qx.Permutation("e"), without)).status == "refuted"


def test_experts_of_equal_scores_are_not():
    assert not qx.verify(often_equal, qx.Symmetry("experts", qx.Permutation("e"), EXPERTS))


def test_what_the_experts_share_is_derived():
    found = qx.derive(one_hot)
    assert {str(s.group) for s in found} == {"R^x", "R+^h^e"}
    assert {str(s.group) for s in found.discrete} == {"S(h)^e", "S(e)"}
    assert found.audit(e=3, h=2, x=3, y=2).complete


@pytest.mark.parametrize(
    ("scores", "statuses"),
    [
        (jax.nn.sigmoid, ("proved",)),
        (lambda z: jax.lax.erf(z), ("proved",)),
        (jnp.tanh, ("proved", "undecided")),
        (lambda z: jnp.tanh(jax.nn.relu(z)), ("refuted",)),  # many are zero
    ],
    ids=["sigmoid", "erf", "tanh", "tanh of relu"],
)
def test_what_is_level_far_out_is_equal_in_floats_alone(scores, statuses):
    """Of a random point some scores are 1 in float64, and the first is taken: that is rounding, and refutes nothing."""
    model = mixture(lambda p, x: p["W2"][jnp.argmax(scores(p["G"] @ x))] @ p["W1"].sum((0, 2)))
    action = {"G": "g @ G", "W2[e,y,h]": "g[e,e_] W2[e_,y,h]"}
    assert qx.verify(model, qx.Symmetry("experts", qx.Permutation("e"), action)).status in statuses


def routed(scores, level=-jnp.inf, shown=lambda n: jnp.arange(n)[:, None] >= jnp.arange(n)):
    """Experts behind an attention with a mask of infinities: `scores` are what its exponentials are of."""

    @qx.architecture(params={"Q": "d d", "V": "v d", "O": "d v", "G": "e d", "W": "e d"}, inputs={"x": "t d"})
    def model(p, x):
        z = jnp.where(shown(x.shape[0]), x @ p["Q"] @ x.T, level)
        weights = jnp.exp(scores(z))
        x = x + (weights / weights.sum(-1, keepdims=True)) @ (x @ p["V"].T) @ p["O"].T
        best, places = jax.lax.top_k(x @ p["G"].T, 2)
        gates = jnp.sum(jax.nn.one_hot(places, p["G"].shape[0]) * jax.nn.softmax(best)[..., None], -2)
        return gates @ (p["W"] / p["G"][:1])

    return model


VALUES = qx.Symmetry("values", qx.GL("v"), {"V": "g @ V", "O": "O @ inv(g)"})


def test_places_behind_a_mask_of_infinities():
    """The exponentials are numbers wherever a row sees itself, and so are the scores of experts."""
    stable = lambda z: z - jax.lax.stop_gradient(z.max(-1, keepdims=True))
    certificate = qx.verify(routed(stable), VALUES)
    assert certificate.status == "proved"
    assert certificate.scope.startswith("every width with e ≥ 2")
    assert not any("infin" in line for line in certificate.assumptions)
    twin = qx.Symmetry("twin", qx.GL("v"), {"V": "g @ V", "O": "O @ g"})
    assert qx.verify(routed(stable), twin).status == "refuted"


@pytest.mark.parametrize(
    "scores",
    [lambda z: z - z, lambda z: 0 * z, lambda z: z + (-z).max(-1, keepdims=True), lambda z: -z],
    ids=["cancelled", "times zero", "other sign", "infinite"],
)
def test_infinities_that_meet_others_leave_a_place_unsaid(scores):
    assert qx.verify(routed(scores), VALUES).status == "undecided"


def test_rows_that_see_nothing_leave_a_place_unsaid():
    stable = lambda z: z - z.max(-1, keepdims=True)
    assert (
        qx.verify(routed(stable, shown=lambda n: jnp.arange(n)[:, None] > jnp.arange(n)), VALUES).status == "undecided"
    )
