"""The metrics: their certificates, what they refuse, and their projections against dense algebra in plain NumPy."""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import quotax as qx
from geometry.table import CASES, certificates, sampled
from models import relu, softmax_head
from quotax.errors import GeometryError, InvarianceError, MetricWarning
from quotax.geometry import METRICS, suspects
from quotax.geometry.metrics.measured import defects
from quotax.trees import named, nest

UNSETTLED = ("linear overcomplete",)
SHORT_OF_RANK = ("linear wide-narrow", "linear overcomplete")  # canonical representatives are not attained
SETTLED = [name for name in CASES if name not in UNSETTLED]
BLOCKS = ("linear", "relu", "u*v", "lora", "attention", "rope")
# Numbers, matrices, matrices from the other side, one for each head, pairs of coordinates.
DISTINCT = ("relu", "linear", "lora", "attention", "rope")


def quotient(network, claims, metric):
    """A space whose symmetries are taken as read, built anew, so that its warnings are seen."""
    return qx.quotient(network, claims, metric, verified=certificates(claims))


def combine(a, u, b, v):
    u, v = named(u), named(v)
    return nest({n: a * u[n] + b * v[n] for n in u})


def flat(tree):
    tree = named(tree)
    return np.concatenate([np.ravel(np.asarray(tree[n], float)) for n in sorted(tree)])


# --- certificates


@pytest.mark.parametrize("name", sampled(("softmax bias", "u*v"), names=SETTLED))
def test_the_invariant_metric_is_invariant(name):
    check_certificate(name, "invariant")


# A scaling, its power, a carried shift, a scaling by a number that is no isometry of it, and heads.
PULLED = ("relu", "cube", "linear biases", "exp", "rms norm", "attention biases")


@pytest.mark.parametrize("name", sampled((), PULLED, SETTLED))
def test_the_pullback_metric_is_invariant(name):
    check_certificate(name, "pullback")


def check_certificate(name, metric):
    space = CASES[name].space(metric, discrete=metric == "invariant")
    proof = space.metric_certificate
    assert proof.status == "proved", proof
    assert "lemma (moving frame)" in str(proof)
    measured = defects(space._metric, space.families, space.network.shapes)
    assert max((defect.size for defect in measured), default=0.0) < 1e-7
    assert space.metric_name == metric


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "name", [*DISTINCT, *UNSETTLED, "linear biases", "rms norm", "attention biases", "softmax bias"]
)
def test_a_metric_that_structure_does_not_suspect_is_proved(name, metric):
    # Nothing waits for the certificate there: `_needs_invariance` goes by structure alone.
    try:
        space = CASES[name].space(metric, discrete=True)
    except GeometryError:
        return  # refused at the call
    if not suspects(space._metric, space.families):
        assert space.metric_certificate.status == "proved", space.metric_certificate


@pytest.mark.slow
@pytest.mark.parametrize("name", UNSETTLED)
def test_no_metric_is_invariant_where_the_stabiliser_is_not_compact(name):
    with pytest.warns(MetricWarning, match="the invariant metric is not invariant .*linear h: no canonical") as seen:
        space = quotient(CASES[name].network, CASES[name].families, "invariant")
    assert "its axis is longer than what reads and writes it together can fix" in str(seen[0].message)
    assert space.metric_certificate.status == "refuted"
    with pytest.raises(InvarianceError, match="no canonical representative"):
        space.exp(CASES[name].draw(0), CASES[name].draw(1))


@pytest.mark.parametrize(
    ("name", "families"),
    [("relu", ["scale h"]), ("linear", ["linear h"]), ("leaky", ["scale h", "scale k"])],
)
def test_the_euclidean_metric_is_refuted_for_scalings_and_gl(name, families):
    case = CASES[name]
    with pytest.warns(MetricWarning, match="the euclidean metric is not invariant") as seen:
        space = quotient(case.network, case.families, "euclidean")
    assert all(f"{family}: " in str(seen[0].message) for family in families)
    certificate = space.metric_certificate
    assert certificate.status == "refuted"
    assert certificate.witness is not None
    assert certificate.witness.difference > 0


def test_a_warning_names_only_the_families_that_break_the_metric():
    case = CASES["layer norm"]
    with pytest.warns(MetricWarning, match=r"scale: R\+ does not act by isometries") as seen:
        quotient(case.network, case.families, "euclidean")
    assert "shift" not in str(seen[0].message)


@pytest.mark.parametrize("name", ["tied", "softmax bias", "batch norm eps"])
def test_the_euclidean_metric_is_proved_for_orthogonal_actions_and_shifts(name):
    case = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        space = quotient(case.network, case.families, "euclidean")
    assert space.metric_certificate.status == "proved"
    assert space.metric_certificate.scope == "every width"


def test_the_euclidean_metric_is_proved_for_permutations():
    case = CASES["relu"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        space = quotient(case.network, case.discrete, "euclidean")
    assert space.metric_certificate
    assert (space.fiber_dim, space.dim) == (0, case.network.num_parameters)


def relative(p, a, b):
    """The metric `du^2 / u^2 + dv^2 / v^2`."""
    return jnp.sum(a["u"] * b["u"] / p["u"] ** 2) + jnp.sum(a["v"] * b["v"] / p["v"] ** 2)


def lopsided(p, a, b):
    """Its twin with one exponent wrong."""
    return jnp.sum(a["u"] * b["u"] / p["u"] ** 2) + jnp.sum(a["v"] * b["v"] / jnp.abs(p["v"]))


def test_a_metric_of_ones_own():
    case = CASES["u*v"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        space = quotient(case.network, case.families, relative)
    assert space.metric_certificate.status == "proved"
    assert space.metric_name == "relative"
    params, a, b = (case.draw(i) for i in range(3))
    assert float(space.inner(params, a, b)) == pytest.approx(float(relative(params, a, b)), rel=1e-12)
    # Horizontal is what changes u and v by the same factor.
    horizontal = space.horizontal(params, a)
    np.testing.assert_allclose(horizontal["u"] / params["u"], horizontal["v"] / params["v"], rtol=1e-10)
    with pytest.warns(MetricWarning, match="the lopsided metric is not invariant .*scale x"):
        broken = quotient(case.network, case.families, lopsided)
    assert broken.metric_certificate.status == "refuted"
    with pytest.raises(InvarianceError, match="the lopsided metric has none"):
        broken.dist(params, a)


@pytest.mark.slow
def test_named_metrics_are_proved_or_refuted():
    scale = CASES["relu"].families[0]
    model = CASES["relu"].model
    for metric in ("invariant", "inv", "mix"):
        assert qx.verify_metric(model, scale, metric).status == "proved"
    assert qx.verify_metric(model, scale, "euclidean").status == "refuted"
    assert qx.verify_metric(model, CASES["relu"].discrete[0], "euclidean").status == "proved"
    case = CASES["u*v"]
    assert qx.verify_metric(case.model, case.families[0], relative).status == "proved"
    assert qx.verify_metric(case.model, case.families[0], lopsided).status == "refuted"
    with pytest.raises(qx.GeometryError, match=r"metric must be .* got 'hyperbolic'"):
        qx.verify_metric(model, scale, "hyperbolic")


@pytest.mark.slow
def test_verify_metric_of_a_matrix_group():
    case = CASES["linear"]
    for metric in ("invariant", "pullback", "inv", "mix"):
        proof = qx.verify_metric(case.model, case.families[0], metric)
        assert proof.status == "proved"
        assert any("no longer than" in line for line in proof.assumptions)
    wide = qx.verify_metric(case.model, case.families[0], "invariant", sizes={"h": 4, "x": 2, "y": 3})
    assert wide.status == "refuted"


def test_a_certificate_says_for_which_parameters_and_widths_it_holds():
    proof = CASES["relu"].space("invariant").metric_certificate
    assert any("almost all parameters" in line for line in proof.assumptions)


# --- refusals


@pytest.mark.parametrize("call", ["dist", "exp", "log", "curvature", "sectional_curvature"])
def test_what_belongs_to_the_quotient_is_refused_without_invariance(call):
    case = CASES["relu"]
    space = case.space("euclidean")
    params, vectors = case.draw(0), [case.draw(i) for i in range(1, 4)]
    arguments = vectors[: {"curvature": 3, "sectional_curvature": 2}.get(call, 1)]
    message = rf"`space.{call}\(params, .*the euclidean metric has none: it is not invariant .*metric='invariant'"
    with pytest.raises(InvarianceError, match=message):
        getattr(space, call)(params, *arguments)


def test_metrics_that_cannot_be():
    cases = {
        ("leaky", "inv"): "the blocks of 'scale h' and 'scale k' share 'W2'",
        ("leaky", "mix"): "the blocks of 'scale h' and 'scale k' share 'W2'",
        ("linear wide-narrow", "inv"): "a factor of the block of 'linear h' has lower rank than its axis is long",
        ("linear overcomplete", "mix"): "a factor of the block of 'linear h' has lower rank than its axis is long",
        ("softmax", "inv"): "needs a two-factor block",
        ("square", "mix"): "needs a two-factor block",
        ("relu", "hyperbolic"): "metric must be one of 'euclidean', .*got 'hyperbolic'",
        ("relu", 3): "metric must be one of .* got 3",
    }
    for (name, metric), message in cases.items():
        with pytest.raises(qx.GeometryError, match=message):
            quotient(CASES[name].network, CASES[name].families, metric)


def test_a_function_is_refused_for_a_network_that_is_too_large_for_a_matrix():
    case = CASES["relu"]
    with pytest.raises(qx.GeometryError, match="possible for at most 2000 parameters; this network has 6300"):
        quotient(relu.at(x=60, h=100, y=2), case.families, relative)


# --- two factors: the metrics in plain NumPy


class Pair(NamedTuple):
    """Two factors `(r, n)` and `(r, m)`: rows that `g` and its inverse transpose multiply."""

    left: np.ndarray
    right: np.ndarray
    isotropic: bool = False


def pairs(name, arrays):
    """The two-factor blocks of a case, linear in the arrays."""
    p = {n: np.asarray(a, float) for n, a in arrays.items()}
    if name == "linear":
        return [Pair(p["W1"], p["W2"].T)]
    if name == "relu":
        return [Pair(np.append(p["W1"][h], p["b1"][h])[None], p["W2"][:, h][None]) for h in range(len(p["b1"]))]
    if name == "u*v":
        return [Pair(u[None, None], v[None, None]) for u, v in zip(p["u"], p["v"], strict=True)]
    if name == "lora":
        return [Pair(p["B"].T, p["A"])]
    if name == "attention":
        heads = range(len(p["Q"]))
        return [Pair(p["Q"][h], p["K"][h]) for h in heads] + [Pair(p["V"][h], p["O"][:, h].T) for h in heads]
    assert name == "rope"
    rotary = [Pair(p["Q"][i : i + 2], p["K"][i : i + 2], isotropic=True) for i in range(0, len(p["Q"]), 2)]
    return [*rotary, Pair(p["V"], p["O"].T)]


def covariance(matrix, isotropic):
    """`A A^T`; for a pair of coordinates what commutes with rotations, its mean."""
    full = matrix @ matrix.T
    return np.eye(2) * np.trace(full) / 2 if isotropic else full


def named_metric(kind, name, params, a, b):
    """The metrics of two-factor blocks as they are published, with `G = left^T` and `H = right^T`."""
    # What belongs to no block is measured as it is.
    total = float(np.asarray(a["b2"]) @ np.asarray(b["b2"])) if name == "relu" else 0.0
    for at, u, v in zip(*(pairs(name, x) for x in (params, a, b)), strict=True):
        left, right = (covariance(m, at.isotropic) for m in at[:2])
        first, second = (np.linalg.inv(left), np.linalg.inv(right)) if kind == "inv" else (right, left)
        total += np.trace(first @ u.left @ v.left.T) + np.trace(second @ u.right @ v.right.T)
    return total


def orbit_tangents(space, params, families=None):
    """A basis of the orbit's directions, by differentiating the finite action; columns are flat vectors."""
    sizes = {n: a.size for n, a in named(params).items()}
    columns = [np.zeros((sum(sizes.values()), 0))]
    for family in space.families if families is None else families:
        shape = family.group.coordinate_shape(family.sizes)

        def move(c, family=family, shape=shape):
            g = family.group.exponential(family.group.algebra(c.reshape(shape), family.sizes))
            return space.act(params, {family.name: g})

        moved = named(jax.jit(jax.jacfwd(move))(jnp.zeros(int(np.prod(shape)))))
        columns.append(np.concatenate([np.asarray(moved[n]).reshape(sizes[n], -1) for n in sorted(sizes)]))
    return np.concatenate(columns, 1)


def matrix_of(metric, params):
    """The matrix of an inner product, entry by entry."""
    names = sorted(params)
    sizes = [params[n].size for n in names]
    cuts = np.cumsum(sizes)[:-1]
    basis = [
        {n: part.reshape(params[n].shape) for n, part in zip(names, np.split(e, cuts), strict=True)}
        for e in np.eye(sum(sizes))
    ]
    full = np.zeros((len(basis), len(basis)))
    for i, a in enumerate(basis):
        for j, b in enumerate(basis[: i + 1]):
            full[i, j] = full[j, i] = metric(params, a, b)
    return full


@pytest.mark.parametrize("kind", ["inv", "mix"])
@pytest.mark.parametrize("name", sampled((), DISTINCT, BLOCKS))
def test_inv_and_mix_against_dense_algebra(name, kind):
    case = CASES[name]
    space = case.space(kind)
    params, u, v = (case.draw(i) for i in range(3))
    expected = named_metric(kind, name, params, u, v)
    assert float(space.inner(params, u, v)) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    gram = matrix_of(lambda p, a, b: named_metric(kind, name, p, a, b), params)
    fields = orbit_tangents(space, params)
    vertical = fields @ np.linalg.lstsq(fields.T @ gram @ fields, fields.T @ gram @ flat(v), rcond=None)[0]
    np.testing.assert_allclose(flat(space.vertical(params, v)), vertical, atol=1e-8 * np.abs(vertical).max())
    point = space.at(params)
    np.testing.assert_allclose(flat(point.flat(v)), gram @ flat(v), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(flat(point.sharp(v)), np.linalg.solve(gram, flat(v)), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", ["inv", "mix"])
def test_blocks_that_are_multiplied_by_the_transpose(kind):
    """`W1 -> g^T W1`: fields are their own vertical parts, what is left of a vector is orthogonal to them."""
    case = CASES["linear"]
    turned = qx.Symmetry("turned", qx.GL("h"), {"W1": "g.T @ W1", "W2": "W2 @ inv(g).T"})
    space = quotient(case.network, [turned], kind)
    params, v = case.draw(0), case.draw(1)
    (family,) = space.families
    xi = jnp.asarray(np.random.default_rng(0).normal(size=family.group.shape(family.sizes)))
    field = space.field(params, {family.name: xi})
    np.testing.assert_allclose(flat(space.vertical(params, field)), flat(field), atol=1e-9)
    vertical = space.vertical(params, v)
    rest = {name: v[name] - vertical[name] for name in v}
    size = named_metric(kind, "linear", params, v, field)
    assert abs(named_metric(kind, "linear", params, rest, field)) < 1e-9 * abs(size)
    assert float(space.inner(params, v, field)) == pytest.approx(size, rel=1e-10)


@pytest.mark.parametrize("kind", ["inv", "mix"])
@pytest.mark.parametrize("name", sampled(("relu",), DISTINCT, BLOCKS))
def test_inv_and_mix_are_proved_to_be_invariant(name, kind):
    proof = CASES[name].space(kind).metric_certificate
    assert proof.status == "proved"
    assert "lemma (covariances)" in str(proof)


def factors(tree):
    """`G = W2`, `H = W1^T`, as they are published."""
    return np.asarray(tree["W2"], float), np.asarray(tree["W1"], float).T


def test_the_published_projections():
    case = CASES["linear"]
    params, v = case.draw(0), case.draw(1)
    (g, h), (dg, dh) = factors(params), factors(v)
    gg, hh = g.T @ g, h.T @ h

    # inv: A L^T + L^T A = B
    a = gg @ hh
    b = gg @ h.T @ dh - dg.T @ g @ hh
    turned = scipy.linalg.solve_sylvester(a, a, b)
    ours = factors(case.space("inv").horizontal(params, v))
    np.testing.assert_allclose(ours[0], dg + g @ turned.T, atol=1e-10)
    np.testing.assert_allclose(ours[1], dh - h @ turned, atol=1e-10)

    # As printed in Hide & Seek, A L + L A^T = B: what is left is not horizontal.
    wrong = scipy.linalg.solve_sylvester(a, a.T, b)
    left = {"W2": jnp.asarray(dg + g @ wrong), "W1": jnp.asarray((dh - h @ wrong.T).T)}
    space = case.space("inv")
    assert float(space.norm(params, space.vertical(params, left))) > 0.1 * float(space.norm(params, v))

    # mix: L = (d_H^T H (H^T H)^-1 - (G^T G)^-1 G^T d_G) / 2
    xi = 0.5 * (dh.T @ h @ np.linalg.inv(hh) - np.linalg.inv(gg) @ g.T @ dg)
    ours = factors(case.space("mix").horizontal(params, v))
    np.testing.assert_allclose(ours[0], dg + g @ xi, atol=1e-10)
    np.testing.assert_allclose(ours[1], dh - h @ xi.T, atol=1e-10)


# --- values


def test_metrics_are_values():
    """Of equal families one metric is the other, and what is compiled for one serves both."""
    case = CASES["linear"]
    made = {kind: [quotient(case.network, list(case.families), kind)._metric for _ in range(2)] for kind in METRICS}
    for kind, (one, two) in made.items():
        assert one is not two
        assert (one, hash(one), one.gauge) == (two, hash(two), two.gauge), kind
    assert len({one for pair in made.values() for one in pair}) == len(METRICS)
    other = CASES["linear biases"]
    assert quotient(other.network, list(other.families), "invariant")._metric != made["invariant"][0]


# --- whitening


@pytest.mark.parametrize("metric", ["euclidean", "invariant", "pullback", "inv", "mix"])
@pytest.mark.parametrize("name", ["relu", pytest.param("linear biases", marks=pytest.mark.slow)])
def test_whitening_is_the_metric(name, metric):
    case = CASES[name]
    space = case.space(metric)
    params, u, v = (case.draw(i) for i in range(3))
    point = space.at(params)
    inner = float(point.inner(u, v))
    close: Any = {"rtol": 1e-9, "atol": 1e-9}
    assert flat(point.whiten(u)) @ flat(point.whiten(v)) == pytest.approx(inner, rel=1e-10)
    np.testing.assert_allclose(flat(point.unwhiten(point.whiten(v))), flat(v), **close)
    np.testing.assert_allclose(flat(point.whiten(point.unwhiten(v))), flat(v), **close)
    assert flat(point.flat(u)) @ flat(v) == pytest.approx(inner, rel=1e-10)
    np.testing.assert_allclose(flat(point.sharp(point.flat(v))), flat(v), **close)
    assert float(point.norm(v)) ** 2 == pytest.approx(float(point.inner(v, v)), rel=1e-12)
    assert point.euclidean == (metric == "euclidean")


def test_the_invariant_metric_of_two_factors_in_numpy():
    # P = A^T A takes S1 to P S1 P = S2; the metric is the Euclidean one after (A W1, W2 A^-1).
    case = CASES["linear"]
    params, u, v = (case.draw(i) for i in range(3))
    s1, s2 = np.asarray(params["W1"] @ params["W1"].T), np.asarray(params["W2"].T @ params["W2"])
    root = scipy.linalg.sqrtm(s1).real
    inverse = np.linalg.inv(root)
    p = inverse @ scipy.linalg.sqrtm(root @ s2 @ root).real @ inverse
    expected = np.trace(p @ u["W1"] @ v["W1"].T) + np.trace(np.linalg.inv(p) @ u["W2"].T @ v["W2"])
    assert float(case.space("invariant").inner(params, u, v)) == pytest.approx(expected, rel=1e-10)


def test_the_invariant_metric_of_scalings_in_numpy():
    case = CASES["relu"]
    params, u, v = (case.draw(i) for i in range(3))
    rows = {n: np.asarray(a) for n, a in params.items()}
    incoming = (rows["W1"] ** 2).sum(1) + rows["b1"] ** 2
    factor = np.sqrt((rows["W2"] ** 2).sum(0) / incoming)  # the square of the balancing scale
    expected = np.sum((u["W1"] * v["W1"]).sum(1) * factor + u["b1"] * v["b1"] * factor)
    expected += np.sum((u["W2"] * v["W2"]).sum(0) / factor) + u["b2"] @ v["b2"]
    assert float(case.space("invariant").inner(params, u, v)) == pytest.approx(float(expected), rel=1e-11)


@pytest.mark.parametrize(
    "name", sampled(["relu"], ["linear biases", "leaky", "exp"], [n for n in CASES if n not in SHORT_OF_RANK])
)
def test_the_pullback_metric_measures_how_the_canonical_representative_moves(name):
    case = CASES[name]
    space = case.space("pullback")
    params = case.draw(0)
    v = space.horizontal(params, case.draw(1))
    step = 1e-5
    ahead, behind = (space.canonical(combine(1, params, t, v)).params for t in (step, -step))
    speed = combine(0.5 / step, ahead, -0.5 / step, behind)
    # Representatives are unique up to orthogonal elements, along which they may turn.
    center = space.canonical(params).params
    turns = orbit_tangents(space, center, [f for f in space.families if not any(t.kind == "shift" for t in f.terms)])
    rest = flat(speed) - turns @ np.linalg.lstsq(turns, flat(speed), rcond=None)[0]
    assert np.linalg.norm(rest) == pytest.approx(float(space.norm(params, v)), rel=1e-6)


@pytest.mark.slow
def test_the_pullback_metric_counts_a_shift_by_what_it_shifts_alone():
    case = CASES["exp"]  # b - g, exp(g) W2: the invariant metric counts W2's change as well
    params = case.draw(0)
    xi = {"shift h": jnp.ones(case.sizes["h"])}
    along = case.space("pullback").field(params, xi)
    assert float(case.space("pullback").norm(params, along)) ** 2 == pytest.approx(case.sizes["h"], rel=1e-10)
    assert float(case.space("invariant").norm(params, along)) ** 2 > case.sizes["h"] + 0.1


# --- transformations and precision


@pytest.mark.slow
@pytest.mark.parametrize(("name", "metric"), [("relu", "invariant"), ("linear", "inv"), ("linear", "mix")])
def test_inner_products_under_jit_vmap_and_grad(name, metric):
    case = CASES[name]
    space = case.space(metric)
    params, u, v, d = (case.draw(i) for i in range(4))
    value = float(space.inner(params, u, v))
    assert float(jax.jit(space.inner)(params, u, v)) == pytest.approx(value, rel=1e-12)
    stacked = jax.tree.map(lambda a, b: jnp.stack([a, b]), params, d)
    batch = jax.vmap(space.inner, in_axes=(0, None, None))(stacked, u, v)
    np.testing.assert_allclose(batch, [value, float(space.inner(d, u, v))], rtol=1e-10)
    slope = flat(jax.jit(jax.grad(space.inner))(params, u, v)) @ flat(d)
    step = 1e-5
    ahead, behind = (float(space.inner(combine(1, params, t, d), u, v)) for t in (step, -step))
    assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["relu", "linear biases"])
def test_second_derivatives_through_the_canonical_representative(name):
    case = CASES[name]
    space = case.space("invariant")
    params, u, d = (case.draw(i) for i in range(3))
    slope = jax.jit(jax.grad(lambda s: space.inner(combine(1, params, s, d), u, u)))
    second = float(jax.jit(jax.grad(slope))(0.0))
    step = 1e-4
    assert second == pytest.approx(float((slope(step) - slope(-step)) / (2 * step)), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "metric"),
    [("relu", "invariant"), ("relu", "mix")]
    + [pytest.param("linear", m, marks=pytest.mark.slow) for m in ("invariant", "pullback", "inv")],
)
def test_float32_stays_and_is_accurate(name, metric):
    case = CASES[name]
    space = case.space(metric)
    params, u, v = (case.draw(i) for i in range(3))
    narrow = [{n: a.astype(jnp.float32) for n, a in x.items()} for x in (params, u, v)]
    found = space.inner(*narrow)
    assert found.dtype == jnp.float32
    scale = float(space.norm(params, u) * space.norm(params, v))
    assert abs(float(found) - float(space.inner(params, u, v))) < 1e-4 * scale
    horizontal = space.horizontal(narrow[0], narrow[2])
    assert all(a.dtype == jnp.float32 for a in horizontal.values())
    np.testing.assert_allclose(flat(horizontal), flat(space.horizontal(params, v)), atol=2e-3)


def test_models_without_symmetry_have_every_metric():
    net = softmax_head.at(x=3, y=2)
    space = qx.quotient(net, [], "invariant")
    params = net.init(jax.random.key(0))
    assert space.metric_certificate
    assert float(space.norm(params, params)) == pytest.approx(float(np.linalg.norm(flat(params))))


# What one shift carries on to, another removes.
CHAINED = [
    qx.Symmetry(f"shift {axis}", qx.Translation(axis), {f"b{i}": f"b{i} + g", f"b{i + 1}": f"b{i + 1} - W{i + 1} @ g"})
    for i, axis in enumerate("hkl", 1)
]


@qx.architecture(
    params={"W1": "h x", "b1": "h", "W2": "k h", "b2": "k", "W3": "l k", "b3": "l", "W4": "y l", "b4": "y"},
    inputs={"x": "x"},
)
def chain(p, x):
    for i in range(1, 5):
        x = p[f"W{i}"] @ x + p[f"b{i}"]
    return x


CHAIN = chain.at(x=2, h=2, k=3, l=2, y=2)


@pytest.mark.slow
def test_the_order_of_shifts_that_carry_on_to_one_another_does_not_matter():
    for order in ([2, 1, 0], [1, 2, 0]):
        assert quotient(CHAIN, [CHAINED[i] for i in order], "invariant").metric_certificate
