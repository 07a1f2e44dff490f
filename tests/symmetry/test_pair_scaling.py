"""Scalings of pairs: the symmetry of two gains before a rotary position embedding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import quotax as qx
from quotax.geometry.families.component import components
from quotax.geometry.families.conserved import charges, formulas
from quotax.geometry.projection import one_family
from quotax.lower import lower_action
from quotax.symmetry import gain_of

LAYOUTS = ("adjacent", "halves")


def adjacent(z):
    """Pairs `(0, 1), (2, 3), ...` turned by angles of their own."""
    angle = jnp.arange(z.shape[-2])[:, None] * 0.3 ** jnp.arange(z.shape[-1] // 2)
    cos, sin, a, b = jnp.cos(angle), jnp.sin(angle), z[..., ::2], z[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(z.shape)


def halves(z):
    """Index `i` with `i + k/2`, as checkpoints of LLaMA have it."""
    k = z.shape[-1]
    angle = jnp.arange(z.shape[-2])[:, None] / 10000 ** (jnp.arange(0, k, 2) / k)
    both = jnp.concatenate([angle, angle], -1)
    a, b = jnp.split(z, 2, -1)
    return z * jnp.cos(both) + jnp.concatenate([-b, a], -1) * jnp.sin(both)


ROTATE = {"adjacent": adjacent, "halves": halves}


def rms_norm(z, eps, gain):
    return z * jax.lax.rsqrt(jnp.mean(z**2, -1, keepdims=True) + eps) * gain


def attended(q, k, v):
    return jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2), -1) @ v


def one_head(pairs, eps):
    shapes = {"Q": "k d", "K": "k d", "V": "v d", "O": "d v", "gq": "k", "gk": "k"}

    @qx.architecture(params=shapes, inputs={"x": "t d"})
    def block(p, x):
        q, k, v = (x @ p[name].T for name in "QKV")
        q, k = (ROTATE[pairs](rms_norm(z, eps, p[gain])) for z, gain in ((q, "gq"), (k, "gk")))
        return attended(q, k, v) @ p["O"].T

    return block


def heads(pairs, eps, gains="k"):
    shapes = {"Q": "head k d", "K": "head k d", "V": "head v d", "O": "d head v", "gq": gains, "gk": gains}

    @qx.architecture(params=shapes, inputs={"x": "t d"})
    def block(p, x):
        q, k, v = (jnp.einsum("hkd,td->htk", p[name], x) for name in "QKV")
        gq, gk = (p[name].reshape(-1, 1, p[name].shape[-1]) for name in ("gq", "gk"))
        q, k = ROTATE[pairs](rms_norm(q, eps, gq)), ROTATE[pairs](rms_norm(k, eps, gk))
        return jnp.einsum("htv,dhv->td", attended(q, k, v), p["O"])

    return block


SHARED = {"gq": "g @ gq", "gk": "inv(g) @ gk"}
OWN = {"gq[head,k]": "g[head,k] gq[head,k]", "gk[head,k]": "gk[head,k] / g[head,k]"}


def scaling(pairs, each=None, action=None):
    return qx.Symmetry("pairs", qx.PairScaling("k", each, pairs), action or (OWN if each else SHARED))


# --- claims


@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("pairs", LAYOUTS)
@pytest.mark.parametrize("which", ["one head", "shared by heads", "for each head"])
def test_two_gains_hand_factors_to_one_another(which, pairs, eps):
    model, each = {
        "one head": (one_head(pairs, eps), None),
        "shared by heads": (heads(pairs, eps), None),
        "for each head": (heads(pairs, eps, "head k"), "head"),
    }[which]
    certificate = qx.verify(model, scaling(pairs, each))
    assert (certificate.status, certificate.scope) == ("proved", "every width")
    assert "by pairs: both indices are multiplied by one factor" in str(certificate)
    assert "every even k" in str(certificate)
    assert certificate.recheck().status == "proved"


@pytest.mark.parametrize("pairs", LAYOUTS)
@pytest.mark.parametrize("twin", ["other pairs", "single indices", "one gain", "the same way", "a projection"])
def test_broken_twins_are_refuted(pairs, twin):
    other = LAYOUTS[1 - LAYOUTS.index(pairs)]
    claim = {
        "other pairs": scaling(other),
        "single indices": qx.Symmetry("all", qx.PositiveDiagonal("k"), SHARED),
        "one gain": scaling(pairs, action={"gq": "g @ gq"}),
        "the same way": scaling(pairs, action={"gq": "g @ gq", "gk": "g @ gk"}),
        "a projection": scaling(pairs, action={"Q": "g @ Q", "gq": "inv(g) @ gq"}),
    }[twin]
    certificate = qx.verify(one_head(pairs, 0.0), claim)
    assert certificate.status == "refuted"
    if twin != "other pairs":
        return
    witness = certificate.witness
    g, network = np.asarray(witness.element, float), one_head(pairs, 0.0).at(**witness.sizes)
    here, x = ({n: np.asarray(a, float) for n, a in witness.params.items()}, np.asarray(witness.inputs["x"], float))
    there = here | {"gq": g * here["gq"], "gk": here["gk"] / g}
    assert np.abs(network(here, x) - network(there, x)).max() > 1e-6


# --- what is found


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("pairs", LAYOUTS)
def test_every_flat_direction_of_one_head_is_explained(pairs, eps):
    found = qx.derive(one_head(pairs, eps))
    assert not found.unproved
    assert not found.unnamed
    assert all(certificate.scope == "every width" for certificate in found.certificates)
    (family,) = (family for family in found.families if isinstance(family.group, qx.PairScaling))
    assert (family.group, family.name) == (qx.PairScaling("k", pairs=pairs), "scale pairs k")
    assert dict(family.action) == SHARED
    for k, v in ((4, 2), (6, 3)):
        audit = found.audit(t=5, d=7, k=k, v=v)
        # a factor a pair, GL on values, and the sizes of what a norm without eps reads
        assert audit.flat == k // 2 + v**2 + (2 if eps == 0 else 0)
        assert (audit.algebra, audit.orbit, audit.surplus, audit.complete) == (audit.flat, audit.flat, 0, True)


@pytest.mark.slow
@pytest.mark.parametrize("eps", [0.0, 1e-6])
@pytest.mark.parametrize("pairs", LAYOUTS)
@pytest.mark.parametrize("each", [None, "head"])
def test_every_flat_direction_of_several_heads_is_explained(pairs, eps, each):
    found = qx.derive(heads(pairs, eps, "head k" if each else "k"))
    assert not found.unproved
    assert not found.unnamed
    assert all(certificate.scope == "every width" for certificate in found.certificates)
    assert [f.group for f in found.families if isinstance(f.group, qx.PairScaling)] == [
        qx.PairScaling("k", each, pairs)
    ]
    for head, k, v in ((2, 4, 3), (3, 6, 2)):
        audit = found.audit(t=5, d=7, head=head, k=k, v=v)
        gains = k // 2 * (head if each else 1)
        assert audit.flat == gains + head * v**2 + (2 * head if eps == 0 else 0)
        assert (audit.algebra, audit.orbit, audit.surplus, audit.complete) == (audit.flat, audit.flat, 0, True)


def test_a_scaling_of_single_indices_leaves_nothing_to_pairs():
    @qx.architecture(params={"a": "k", "b": "k"}, inputs={"x": "k"})
    def product(p, x):
        return p["a"] * x * p["b"]

    found = qx.derive(product, sizes=[{"k": 6}, {"k": 4}])
    assert [family.group for family in found.families] == [qx.Diagonal("k")]


# --- the quotient

SIZES = {"d": 3, "k": 4, "v": 2}
GAINS = [(pairs, metric) for pairs in LAYOUTS for metric in ("euclidean", "invariant", "inv", "mix")]


def arrays(seed, network):
    keys = jax.random.split(jax.random.key(seed), len(network.shapes))
    return {n: jax.random.normal(k, s) for k, (n, s) in zip(keys, network.shapes.items(), strict=True)}


def places(pairs, k):
    return [(2 * i, 2 * i + 1) if pairs == "adjacent" else (i, i + k // 2) for i in range(k // 2)]


@pytest.fixture(scope="module", params=GAINS, ids=lambda p: " ".join(p))
def example(request):
    pairs, metric = request.param
    network = one_head(pairs, 1e-6).at(**SIZES)
    return pairs, metric, network, qx.quotient(network, [scaling(pairs)], metric)


def fields(pairs, params):
    """The field of every pair, by hand, on both gains."""
    rows = []
    for place in map(list, places(pairs, len(params["gq"]))):
        own = np.zeros(len(params["gq"]))
        own[place] = 1
        rows.append(np.concatenate([own * params["gq"], -own * params["gk"]]))
    return np.array(rows)


@pytest.mark.filterwarnings("ignore::quotax.errors.MetricWarning")
@given(seed=st.integers(0, 1000))
def test_projections_are_those_onto_the_fields_of_pairs(example, seed):
    pairs, metric, network, space = example
    params, v = arrays(seed, network), arrays(seed + 1, network)
    assert (space.fiber_dim, space.dim) == (2, network.num_parameters - 2)
    horizontal, vertical = space.horizontal(params, v), space.vertical(params, v)
    flat = lambda tree: np.concatenate([tree["gq"], tree["gk"]])
    for name in params:
        np.testing.assert_allclose(horizontal[name] + vertical[name], v[name], atol=1e-12)
        np.testing.assert_allclose(space.horizontal(params, horizontal)[name], horizontal[name], atol=1e-11)
        if name not in ("gq", "gk"):
            np.testing.assert_allclose(vertical[name], 0, atol=1e-12)
    assert abs(float(space.inner(params, horizontal, vertical))) < 1e-10
    basis = fields(pairs, params)
    fitted, *_ = np.linalg.lstsq(basis.T, flat(vertical), rcond=None)
    np.testing.assert_allclose(basis.T @ fitted, flat(vertical), atol=1e-10)
    if metric == "euclidean":
        fitted, *_ = np.linalg.lstsq(basis.T, flat(v), rcond=None)
        np.testing.assert_allclose(basis.T @ fitted, flat(vertical), atol=1e-10)


@given(seed=st.integers(0, 1000))
def test_lengths_of_horizontal_vectors_are_the_same_along_an_orbit(example, seed):
    pairs, metric, network, space = example
    if metric == "euclidean":
        return
    params, v, rng = arrays(seed, network), arrays(seed + 1, network), np.random.default_rng(seed)
    g = np.empty(4)
    for place in map(list, places(pairs, 4)):
        g[place] = rng.uniform(0.3, 3)
    act = lambda tree: tree | {"gq": g * tree["gq"], "gk": tree["gk"] / g}
    there, w = act(params), act(v)
    np.testing.assert_allclose(space.norm(there, w), space.norm(params, v), rtol=1e-9)
    np.testing.assert_allclose(
        space.norm(there, space.horizontal(there, w)), space.norm(params, space.horizontal(params, v)), rtol=1e-8
    )


@given(seed=st.integers(0, 1000))
def test_finite_elements_leave_the_function_alone_and_are_found_again(example, seed):
    _, metric, network, space = example
    if metric in ("inv", "mix"):
        return
    params, x = arrays(seed, network), jax.random.normal(jax.random.key(seed + 7), (5, 3))
    moved = space.act(params, space.random_element(jax.random.key(seed + 9)))
    assert np.abs(moved["gq"] - params["gq"]).max() > 1e-3
    np.testing.assert_allclose(network(moved, x), network(params, x), atol=1e-9)
    aligned = space.align(moved, params)
    for name in params:
        np.testing.assert_allclose(aligned[name], params[name], atol=1e-7)


@pytest.mark.parametrize("pairs", LAYOUTS)
def test_the_canonical_representative_balances_every_pair(pairs):
    network = one_head(pairs, 1e-6).at(**SIZES)
    space = qx.quotient(network, [scaling(pairs)], "invariant")
    assert space.metric_certificate.status == "proved"
    params = arrays(3, network)
    found = space.canonical(params)
    assert found.attained
    sums = lambda a: np.array([np.sum(np.asarray(a)[list(place)] ** 2) for place in places(pairs, 4)])
    np.testing.assert_allclose(sums(found.params["gq"]), sums(found.params["gk"]), rtol=1e-12)
    # that is the least norm: s^2 a + b / s^2 is least where s^4 = b / a
    expected = sum(2 * np.sqrt(a * b) for a, b in zip(sums(params["gq"]), sums(params["gk"]), strict=True))
    reached = float(jnp.sum(found.params["gq"] ** 2) + jnp.sum(found.params["gk"] ** 2))
    np.testing.assert_allclose(reached, expected, rtol=1e-12)
    # the law of its gradient flow: one number for each pair
    (charge,) = space.conserved(params).values()
    np.testing.assert_allclose(charge, sums(params["gq"]) - sums(params["gk"]), rtol=1e-12)


@pytest.mark.parametrize("each", [None, "head"])
@pytest.mark.parametrize("pairs", LAYOUTS)
def test_formulas_of_charges_are_of_pairs(pairs, each):
    model = heads(pairs, 1e-6, "head k" if each else "k")
    sizes = SIZES | {"head": 2}
    family = lower_action(scaling(pairs, each).bind(model.params), model.params, sizes)
    point = arrays(2, model.at(**sizes))
    (formula,), (value,) = formulas([family]).values(), charges([family], point).values()
    lead = [sp.Symbol("head", integer=True)] if each else []
    for index in np.ndindex(value.shape):
        where = (*index[:-1], *places(pairs, 4)[index[-1]])
        symbols = (*lead, sp.Symbol("k", integer=True), sp.Symbol("k1", integer=True))
        expression = formula.subs(dict(zip(symbols, where, strict=True)))
        entries = {a: point[a.base.name][tuple(map(int, a.indices))] for a in expression.atoms(sp.Indexed)}
        assert len(entries) == 4
        assert float(expression.subs(entries)) == pytest.approx(float(value[index]), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("pairs", LAYOUTS)
@pytest.mark.parametrize("metric", ["inv", "mix"])
def test_geodesics_of_two_factors_stay_horizontal(pairs, metric):
    network = one_head(pairs, 1e-6).at(**SIZES)
    space = qx.quotient(network, [scaling(pairs)], metric)
    params = arrays(5, network)
    v = jax.tree.map(lambda a: 0.05 * a, space.horizontal(params, arrays(6, network)))
    path = space.geodesic(params, v)
    assert bool(path.ok)
    length = float(space.norm(params, v))
    there = path.at(1.0)
    at = lambda t: path.at(t)
    ahead, behind = at(1.0), at(1.0 - 1e-5)
    speed = {name: (ahead[name] - behind[name]) / 1e-5 for name in ahead}
    np.testing.assert_allclose(float(space.norm(there, speed)), length, rtol=1e-3)
    vertical = space.vertical(there, speed)
    assert float(space.norm(there, vertical)) < 1e-3 * length


@pytest.mark.parametrize("pairs", LAYOUTS)
def test_a_gram_block_of_pairs_is_numbers(pairs):
    model = one_head(pairs, 1e-6)
    family = lower_action(scaling(pairs).bind(model.params), model.params, SIZES)
    (part,) = components([family])
    assert one_family.block(part, 0) == one_family.ClosedForm(0, "numbers", True)


def test_a_gain_with_fewer_factors_than_entries_is_not_absorbed():
    model = one_head("halves", 1e-6)
    single = qx.Symmetry("all", qx.PositiveDiagonal("k"), SHARED).bind(model.params)
    assert gain_of(single, "gq") is not None
    assert gain_of(scaling("halves").bind(model.params), "gq") is None


@pytest.mark.parametrize("metric", ["euclidean", "invariant"])
@pytest.mark.filterwarnings("ignore::quotax.errors.MetricWarning")
@pytest.mark.slow
def test_a_whole_block_is_divided_by_what_was_found(metric):
    model = one_head("halves", 1e-6)
    network = model.at(d=5, k=4, v=2)
    found = qx.derive(model)
    space = qx.quotient(network, found, metric)
    assert space.fiber_dim == 2 + 4
    params, v = arrays(1, network), arrays(2, network)
    horizontal, vertical = space.horizontal(params, v), space.vertical(params, v)
    again = space.horizontal(params, horizontal)
    for name in params:
        np.testing.assert_allclose(horizontal[name] + vertical[name], v[name], atol=1e-11)
        np.testing.assert_allclose(again[name], horizontal[name], atol=1e-9)
    assert abs(float(space.inner(params, horizontal, vertical))) < 1e-9
    x = jax.random.normal(jax.random.key(3), (4, 5))
    moved = space.act(params, space.random_element(jax.random.key(4)))
    np.testing.assert_allclose(network(moved, x), network(params, x), atol=1e-9)
    if metric == "invariant":
        assert float(space.dist(params, moved)) < 1e-6
