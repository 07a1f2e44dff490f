"""Exact identities: what must be proved, broken twins that must not be, and laws on random expressions."""

import math
import time

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from quotax.certify.identities.equality import prove_equal

x, y, z, w, s = sp.symbols("x y z w s", real=True)
c, d, e = sp.symbols("c d e", positive=True)
t = sp.Symbol("t", integer=True)
half = sp.Rational(1, 2)
cbrt, f, g = sp.Function("cbrt"), sp.Function("f"), sp.Function("g")


def largest(*values):
    return sp.Max(*values, evaluate=False)


def relu(v):
    return largest(v, sp.Integer(0))


def leaky(v):
    return sp.Piecewise((v, v >= 0), (sp.Float(0.01) * v, True))


def where(test, yes, no):
    return sp.Piecewise((yes, test), (no, True))


def entries(name, rows, columns):
    return sp.Matrix(rows, columns, lambda i, j: sp.Symbol(f"{name}[{i},{j}]", real=True))


def positive_diagonal(name, n):
    return sp.diag(*[sp.Symbol(f"{name}{i}", positive=True) for i in range(n)])


def inverse(m):
    """The adjugate over the determinant, as the action language writes it."""
    return sp.Matrix([[m[1, 1], -m[0, 1]], [-m[1, 0], m[0, 0]]]) / (m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0])


def softmax(logits):
    top = largest(*logits)
    powers = [sp.exp(v - top) for v in logits]
    return [p / sum(powers) for p in powers]


IDENTITIES = {
    "relu scaling": (relu(c * z) / c, relu(z)),
    "leaky relu scaling": (leaky(c * z) / c, leaky(z)),
    "relu of a difference": (relu(z) - relu(-z), z),
    "abs of a product": (sp.Abs(x * y), sp.Abs(x) * sp.Abs(y)),
    "abs by max": (largest(z, -z), sp.Abs(z)),
    "min by max": (sp.Min(x, y, evaluate=False), -largest(-x, -y)),
    "max nests": (largest(largest(x, y), z), largest(y, largest(z, x))),
    "max shifts": (largest(x + s, y + s, z + s), largest(x, y, z) + s),
    "max scales": (largest(c * x, c * y, c * z), c * largest(x, y, z)),
    "relu by where": (where(z > 0, z, 0), relu(z)),
    "relu by where, tie": (where(z >= 0, z, 0), relu(z)),
    "leaky by max": (where(z > 0, z, z / 4), sp.Rational(3, 4) * relu(z) + z / 4),
    "min with a sign by cases": (sp.Min(-half, relu(x), evaluate=False), -half),
    "log with a sign by cases": (sp.log(c + c * sp.Abs(x * y)), sp.log(c) + sp.log(1 + sp.Abs(-x * y))),
    "max of unequal cases scales": (largest(c * y, c * where(x > c, x, c + 1)) / c, largest(y, where(x > c, x, c + 1))),
    "sign scales": (sp.sign(c * z), sp.sign(z)),
    "sign is odd": (sp.sign(-z), -sp.sign(z)),
    "sign times z": (z * sp.sign(z), sp.Abs(z)),
    "or of tests": (where(sp.Or(x > 0, y > 0), z, 0), where(sp.And(x <= 0, y <= 0), 0, z)),
    "one-hot": (
        sp.Piecewise((x, sp.Eq(t, 0)), (y, sp.Eq(t, 1)), (0, True)),
        where(sp.Eq(t, 0), x, 0) + where(sp.Eq(t, 1), y, 0),
    ),
    "kronecker": (sp.KroneckerDelta(t, 1) * x, where(sp.Eq(t, 1), x, 0)),
    "exp of a sum": (sp.exp(x * (y + z)), sp.exp(x * y) * sp.exp(x * z)),
    "exp hidden bias": (d * sp.exp(-s) * sp.exp(w * x + y + s), d * sp.exp(w * x + y)),
    "exponents with no small ratio": (
        (1 + sp.exp(sp.Float(0.01) * x)) * (1 + sp.exp(x)) - sp.exp(x),
        1 + sp.exp(sp.Float(0.01) * x) * (1 + sp.exp(x)),
    ),
    "half exponents": (sp.exp(x / 2, evaluate=False) ** 2, sp.exp(x)),
    "exp of fractions": (sp.exp(x / (1 + y**2) - 1 / (2 + y)), sp.exp(x / (1 + y**2)) * sp.exp(-1 / (2 + y))),
    "exp of log": (sp.exp(c * sp.log(d)), d**c),
    "log of exp": (sp.log(c**2 * sp.exp(3 * x)), 2 * sp.log(c) + 3 * x),
    "log of a root": (sp.log(sp.sqrt(x**2 + 1)), sp.log(x**2 + 1) / 2),
    "softplus": (sp.log(1 + sp.exp(x)) - sp.log(1 + sp.exp(-x)), x),
    "stable softplus": (
        largest(x, 0) + sp.log(1 + sp.exp(-sp.Abs(x))),
        x + largest(-x, 0) + sp.log(1 + sp.exp(-sp.Abs(-x))),
    ),
    "sqrt scales": (sp.sqrt(c**2 * x**2 + c**2 * y) / c, sp.sqrt(x**2 + y)),
    "sqrt of abs": (sp.sqrt(w**2 * (x**2 + y)), sp.Abs(w) * sp.sqrt(x**2 + y)),
    "rsqrt": ((c**2 * (x**2 + 1)) ** -half * c, 1 / sp.sqrt(x**2 + 1)),
    "conjugate": (1 / (sp.sqrt(x**2 + 1) - x), sp.sqrt(x**2 + 1) + x),
    "numbers": (sp.sqrt(6) / sp.sqrt(2), sp.sqrt(3)),
    "nested roots": (sp.sqrt(sp.sqrt(x**2 + 1)), (x**2 + 1) ** sp.Rational(1, 4)),
    "mixed powers": ((c * d) ** sp.Rational(3, 4), c ** sp.Rational(3, 4) * d ** sp.Rational(3, 4)),
    "cbrt of any sign": (cbrt(w**3 * x), w * cbrt(x)),
    "cbrt is odd": (cbrt(-x), -cbrt(x)),
    "tanh is odd": (sp.tanh(x - y), -sp.tanh(y - x)),
    "tanh by exp": (sp.tanh(x), 2 / (1 + sp.exp(-2 * x)) - 1),
    "tan by sin and cos": (sp.tan(x) * sp.cos(x), sp.sin(x)),
    "sinh by exp": (sp.sinh(x), (sp.exp(x) - sp.exp(-x)) / 2),
    "erfc by erf": (sp.erfc(-x), 1 + sp.erf(x)),
    "erfinv is odd": (sp.erfinv(x - y), -sp.erfinv(y - x)),
    "erf is odd": (sp.erf(x * (y - z)), -sp.erf(x * z - x * y)),
    "sin and cos": (sp.sin(c * x - c * y) ** 2 + sp.cos(c * (y - x)) ** 2, sp.Integer(1)),
    "angles add": (sp.cos(x + y), sp.cos(x) * sp.cos(y) - sp.sin(x) * sp.sin(y)),
    "sigmoid flips": (1 / (1 + sp.exp(-x)), 1 - 1 / (1 + sp.exp(x))),
    "hyperbolic": (sp.sinh(x) ** 2 + 1, sp.cosh(x) ** 2),
    "any function": (f(x * (y + 1)), f(x * y + x)),
    "any function of two": (g(x + y, x - x * y), g(y + x, x * (1 - y))),
    "mask": (sp.exp(sp.Add(-sp.oo, -largest(x, y), evaluate=False)), sp.Integer(0)),
    "max with a mask": (largest(-sp.oo, x, y), largest(y, x)),
    "guarded division": (where(sp.Eq(x, 0), 1, y / x), where(sp.Eq(x, 0), 1, c * y / (c * x))),
    "floats are exact": (sp.Float(0.1) * x + sp.Float(0.1) * x, sp.Float(0.2) * x),
}

TWINS = {
    "relu, scaling without a sign": (relu(w * z) / w, relu(z)),
    "relu, negative scaling": (relu(-c * z) / -c, relu(z)),
    "relu, inverse missing": (relu(c * z), relu(z)),
    "relu, inverse twice": (relu(c * z) / c**2, relu(z)),
    "leaky relu, scaling without a sign": (leaky(w * z) / w, leaky(z)),
    "leaky relu, another slope": (leaky(z), relu(z)),
    "tanh scaling": (sp.tanh(c * z) / c, sp.tanh(z)),
    "max shifts, one missing": (largest(x + s, y + s, z), largest(x, y, z) + s),
    "max scales without a sign": (largest(w * x, w * y, w * z), w * largest(x, y, z)),
    "min is not max": (sp.Min(x, y, evaluate=False), largest(x, y)),
    "sign at zero": (sp.sign(z), where(z >= 0, 1, -1)),
    "strict and weak tests": (where(z > 0, x, y), where(z >= 0, x, y)),
    "sign without positivity": (sp.sign(w * z), sp.sign(z)),
    "one-hot, another value": (where(sp.Eq(t, 0), x, 0), where(sp.Eq(t, 1), x, 0)),
    "one-hot, range not known": (where(sp.Eq(t, 0), 1, 0) + where(sp.Eq(t, 1), 1, 0), sp.Integer(1)),
    "exp of a product": (sp.exp(x * y), sp.exp(x) * sp.exp(y)),
    "exp hidden bias, wrong sign": (d * sp.exp(s) * sp.exp(w * x + y + s), d * sp.exp(w * x + y)),
    "exp of log, any sign": ((-x) ** c * (-y) ** c, x**c * y**c),
    "log of a negative": (sp.log(-x) - sp.log(-y), sp.log(x) - sp.log(y)),
    "log of a square": (sp.log(x**2), 2 * sp.log(x)),
    "log of a sum": (sp.log(c + d), sp.log(c) + sp.log(d)),
    "softplus scaling": (sp.log(1 + sp.exp(c * x)) / c, sp.log(1 + sp.exp(x))),
    "sqrt without a sign": (sp.sqrt(w**2 * (x**2 + y)), w * sp.sqrt(x**2 + y)),
    "sqrt with epsilon": (sp.sqrt(c**2 * x**2 + sp.Rational(1, 1000)) / c, sp.sqrt(x**2 + sp.Rational(1, 1000))),
    "sqrt of another set": (
        (sp.sqrt(x + y) + 1) * (sp.sqrt(x + y) - 1) + 1,
        -(sp.sqrt(-x - y) + 1) * (sp.sqrt(-x - y) - 1) - 1,
    ),
    "dead denominators": ((relu(x) * y + relu(x)) / relu(x), (relu(-x) * y + relu(-x)) / relu(-x)),
    "cbrt scaling": (cbrt(c * x), c * cbrt(x)),
    "tan is not even": (sp.tan(x - y), sp.tan(y - x)),
    "erfc is not odd": (sp.erfc(x), -sp.erfc(-x)),
    "tanh is not even": (sp.tanh(x - y), sp.tanh(y - x)),
    "cos of a scaling": (sp.cos(c * x), sp.cos(x)),
    "any function shifted": (f(x + c), f(x)),
    "arguments exchanged": (g(x, y), g(y, x)),
    "guarded division": (where(sp.Eq(x, 0), 1, y / x), where(sp.Eq(x, 0), 5, y / x)),
    "guarded division, dropped": (where(sp.Eq(x, 0), 1, sp.sin(x) / x), sp.sin(x) / x),
    "floats are not decimals": (sp.Float(0.1) + sp.Float(0.2) + x, sp.Float(0.3) + x),
    "masked differently": (
        sp.exp(x) / (sp.exp(x) + sp.exp(sp.Add(-sp.oo, y, evaluate=False))),
        sp.exp(x) / (sp.exp(x) + sp.exp(y)),
    ),
    "gap in the cases": (sp.Piecewise((x, x > 0)), x),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identity_is_proved_in_both_directions(name):
    left, right = IDENTITIES[name]
    assert prove_equal([left], [right])
    assert prove_equal([right], [left])


@pytest.mark.parametrize("name", TWINS)
def test_broken_twin_is_not_proved(name):
    left, right = TWINS[name]
    verdict = prove_equal([left], [right])
    assert not verdict
    assert verdict.index == 0
    assert verdict.residual is not None


# Networks ----------------------------------------------------------------------------------------------------------


def network(activation, layers):
    value = entries("x", 2, 1)
    for weight, bias in layers[:-1]:
        value = (weight * value + bias).applyfunc(activation)
    return list(layers[-1][0] * value + layers[-1][1])


def scaled_network(h, degree=1):
    """Layers, the same moved by positive scalings (activations of this degree), and a twin with a bias forgotten."""
    one, two = positive_diagonal("c", h), positive_diagonal("d", h)
    w0, w1, w2 = entries("W0", h, 2), entries("W1", h, h), entries("W2", 2, h)
    b0, b1, b2 = entries("b0", h, 1), entries("b1", h, 1), entries("b2", 2, 1)
    rest = [(two * w1 * one.inv() ** degree, two * b1), (w2 * two.inv() ** degree, b2)]
    return [(w0, b0), (w1, b1), (w2, b2)], [(one * w0, one * b0), *rest], [(one * w0, b0), *rest]


@pytest.mark.parametrize("h", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("activation", "degree"), [(relu, 1), (leaky, 1), (sp.Abs, 1), (lambda v: relu(v) ** 2, 2)])
def test_three_layers_with_positive_scalings(h, activation, degree):
    layers, moved, broken = scaled_network(h, degree)
    reference = network(activation, layers)
    assert prove_equal(network(activation, moved), reference)
    assert not prove_equal(network(activation, broken), reference)


def test_scalings_do_not_pass_through_smooth_activations():
    layers, moved, _ = scaled_network(2)
    for activation in (sp.tanh, sp.erf, lambda v: v / (1 + sp.exp(-v)), lambda v: sp.log(1 + sp.exp(v))):
        assert not prove_equal(network(activation, moved[1:]), network(activation, layers[1:]))


def test_linear_network_under_gl():
    first, second, m, v = entries("A", 2, 3), entries("B", 3, 2), entries("g", 2, 2), entries("x", 3, 1)
    assert prove_equal(list(second * inverse(m) * m * first * v), list(second * first * v))
    assert prove_equal(list((second * inverse(m)) * ((m * first) * v)), list(second * (first * v)))
    assert not prove_equal(list((second * inverse(m.T)) * ((m * first) * v)), list(second * (first * v)))
    assert not prove_equal(list(second * ((m * first) * v)), list(second * (first * v)))


def attention(tokens, query, key, value, output, causal=True):
    stream = entries("x", tokens, 2)
    q, k, v = stream * query, stream * key, stream * value
    rows = []
    for i in range(tokens):
        seen = range(i + 1 if causal else tokens)
        weights = softmax([sum(q[i, a] * k[j, a] for a in range(2)) / sp.sqrt(2) for j in seen])
        rows.append(sum((weights[j] * v[j, :] for j in seen), sp.zeros(1, 2)) * output)
    return [entry for row in rows for entry in row]


@pytest.mark.parametrize(("tokens", "causal"), [(2, True), pytest.param(3, True, marks=pytest.mark.slow), (3, False)])
def test_attention_is_invariant_under_changes_of_basis(tokens, causal):
    query, key, value, output = (entries(n, 2, 2) for n in "QKVO")
    m, n = entries("g", 2, 2), entries("h", 2, 2)
    reference = attention(tokens, query, key, value, output, causal)
    start = time.process_time()
    assert prove_equal(
        attention(tokens, query * m, key * inverse(m).T, value * n, inverse(n) * output, causal), reference
    )
    assert time.process_time() - start < 5
    for broken in [
        (query * m, key * inverse(m), value, output),
        (query * m, key, value, output),
        (query, key, value * n, inverse(n).T * output),
        (query, key, value * n, output),
        (query * c, key, value, output),
    ]:
        assert not prove_equal(attention(tokens, *broken, causal), reference)


def log_softmax_head(weight, bias):
    logits = list(weight * entries("x", 2, 1) + bias)
    top = largest(*logits)
    return [v - top - sp.log(sum(sp.exp(u - top) for u in logits)) for v in logits]


def test_softmax_head_shift():
    weight, bias, row = entries("W", 3, 2), entries("b", 3, 1), entries("v", 1, 2)
    ones = sp.ones(3, 1)
    reference = log_softmax_head(weight, bias)
    verdict = prove_equal(log_softmax_head(weight + ones * row, bias + ones * s), reference)
    assert verdict
    assert any(lemma.startswith("max(a + s, b + s") for lemma in verdict.lemmas)
    assert not prove_equal(log_softmax_head(weight + sp.Matrix([1, 1, 0]) * row, bias), reference)
    assert not prove_equal(log_softmax_head(c * weight, bias), reference)


def batch_norm(weight, bias, epsilon, gain, shift, output, batch=3):
    values = entries("x", batch, 2) * weight.T
    columns = []
    for j in range(2):
        column = [values[i, j] + bias[j] for i in range(batch)]
        mean = sum(column) / batch
        variance = sum((v - mean) ** 2 for v in column) / batch
        columns.append([relu(gain[j] * (v - mean) / sp.sqrt(variance + epsilon) + shift[j]) for v in column])
    return [sum(output[j] * columns[j][i] for j in range(2)) for i in range(batch)]


def test_batch_norm_is_invariant_under_scales_without_smoothing():
    weight, rest = entries("W", 2, 2), (entries("a", 2, 1), entries("h", 2, 1), entries("V", 2, 1))
    bias, shift, scale = entries("b", 2, 1), entries("s", 2, 1), positive_diagonal("c", 2)
    small = sp.Rational(1, 1000)
    exact, smoothed = batch_norm(weight, bias, 0, *rest), batch_norm(weight, bias, small, *rest)
    assert prove_equal(batch_norm(scale * weight, scale * bias + shift, 0, *rest), exact)
    assert prove_equal(batch_norm(weight, bias + shift, small, *rest), smoothed)
    assert not prove_equal(batch_norm(scale * weight, scale * bias, small, *rest), smoothed)
    assert not prove_equal(batch_norm(w * weight, bias, 0, *rest), exact)


def rms_norm(weight, readout):
    hidden = weight * entries("x", 2, 1)
    return list(readout * (hidden / sp.sqrt(sum(v**2 for v in hidden) / len(hidden))))


@pytest.mark.parametrize("h", [2, 3])
def test_rms_norm_under_rotations(h):
    weight, readout = entries("W", h, 2), entries("A", 2, h)
    skew = sp.Matrix(
        h, h, lambda i, j: 0 if i == j else sp.Symbol(f"k{min(i, j)}{max(i, j)}", real=True) * (1 if i < j else -1)
    )
    cayley = ((sp.eye(h) - skew) * (sp.eye(h) + skew).inv()).applyfunc(sp.cancel)
    reference = rms_norm(weight, readout)
    assert prove_equal(rms_norm(c * cayley * weight, readout * cayley.T), reference)
    assert not prove_equal(rms_norm(cayley * weight, readout * cayley), reference)
    assert not prove_equal(rms_norm(w * weight, readout), reference)


def test_rms_norm_under_an_angle():
    weight, readout = entries("W", 2, 2), entries("A", 2, 2)
    turn = sp.Matrix([[sp.cos(s), -sp.sin(s)], [sp.sin(s), sp.cos(s)]])
    assert prove_equal(rms_norm(turn * weight, readout * turn.T), rms_norm(weight, readout))


def gated(activation, gate, linear, readout):
    v = entries("x", 2, 1)
    a, b = gate * v, linear * v
    return list(readout * sp.Matrix([activation(a[i]) * b[i] for i in range(2)]))


def test_gated_units_scale_by_their_linear_half_alone():
    gate, linear, readout = (entries(n, 2, 2) for n in "GLR")
    real = sp.diag(*sp.symbols("r0:2", real=True))

    def silu(v):
        return v / (1 + sp.exp(-v))

    def gelu(v):
        return v * (1 + sp.erf(v / sp.sqrt(2))) / 2

    for activation in (silu, gelu):
        reference = gated(activation, gate, linear, readout)
        assert prove_equal(gated(activation, gate, real * linear, readout * real.inv()), reference)
        assert not prove_equal(gated(activation, positive_diagonal("c", 2) * gate, linear, readout), reference)
        assert not prove_equal(gated(activation, real * gate, linear, readout * real.inv()), reference)


def test_quadratic_units_under_an_indefinite_rotation():
    """SO(1, 1) in its rational parametrisation moves the rows of x -> (w0 x)^2 - (w1 x)^2."""
    weight, v = entries("W", 2, 2), entries("x", 2, 1)
    boost = sp.Matrix([[1 + s**2, 2 * s], [2 * s, 1 + s**2]]) / (1 - s**2)

    def value(m):
        return [(m * v)[0] ** 2 - (m * v)[1] ** 2]

    assert prove_equal(value(boost * weight), value(weight))
    turn = sp.Matrix([[1 - s**2, -2 * s], [2 * s, 1 - s**2]]) / (1 + s**2)
    assert not prove_equal(value(turn * weight), value(weight))


def test_recurrences_are_invariant_where_their_activation_allows():
    data, inner, outer, readout = entries("x", 3, 2), entries("H", 2, 2), entries("U", 2, 2), entries("R", 1, 2)
    scale = positive_diagonal("c", 2)

    def run(activation, u, h, r):
        state = sp.zeros(2, 1)
        for i in range(3):
            state = (u * data[i, :].T + h * state).applyfunc(activation)
        return list(r * state)

    moved = (scale * outer, scale * inner * scale.inv(), readout * scale.inv())
    assert prove_equal(run(relu, *moved), run(relu, outer, inner, readout))
    assert not prove_equal(run(sp.tanh, *moved), run(sp.tanh, outer, inner, readout))
    m = entries("g", 2, 2)
    moved = (m * outer, m * inner * inverse(m), readout * inverse(m))
    assert prove_equal(run(lambda v: v, *moved), run(lambda v: v, outer, inner, readout))
    assert not prove_equal(run(relu, *moved), run(relu, outer, inner, readout))


@pytest.mark.slow
def test_normalised_decoder_block_needs_common_parts():
    def norm(m):
        return sp.Matrix(2, 2, lambda i, j: m[i, j] / sp.sqrt(sum(v**2 for v in m[i, :]) / 2))

    def block(query, key, value, output, gate, linear, readout):
        stream = entries("x", 2, 2)
        seen = norm(stream)
        q, k, v = seen * query, seen * key, seen * value
        rows = []
        for i in range(2):
            weights = softmax([sum(q[i, a] * k[j, a] for a in range(2)) for j in range(i + 1)]) if i else [1]
            rows.append(sum((weights[j] * v[j, :] for j in range(i + 1)), sp.zeros(1, 2)))
        stream = stream + sp.Matrix.vstack(*rows) * output
        seen = norm(stream)
        a, b = seen * gate, seen * linear
        return list(stream + sp.Matrix(2, 2, lambda i, j: a[i, j] / (1 + sp.exp(-a[i, j])) * b[i, j]) * readout)

    query, key, value, output, gate, linear, readout = (entries(n, 2, 2) for n in "QKVOGLR")
    m, n, real = entries("g", 2, 2), entries("h", 2, 2), sp.diag(*sp.symbols("r0:2", real=True))
    reference = block(query, key, value, output, gate, linear, readout)
    moved = (query * m, key * inverse(m).T, value * n, inverse(n) * output, gate, linear * real, real.inv() * readout)
    verdict = prove_equal(block(*moved), reference)
    assert verdict
    assert "a part that both sides have in common is named once" in verdict.lemmas
    broken = (query * m, key * inverse(m).T, value * n, inverse(n) * output, gate * real, linear, real.inv() * readout)
    assert not prove_equal(block(*broken), reference, budget_seconds=10)


# The verdict -------------------------------------------------------------------------------------------------------


def test_verdict_says_what_was_used_and_what_is_left():
    verdict = prove_equal([x + 1, relu(c * z)], [1 + x, c * relu(z)])
    assert verdict.equal
    assert verdict.index is None
    assert verdict.residual is None
    assert verdict.lemmas == ("max(c z, 0) = c max(z, 0) for c > 0",)
    verdict = prove_equal([x, x * y], [x, x * y + z])
    assert (verdict.equal, verdict.index, verdict.residual) == (False, 1, -z)
    assert "2 expressions against 1" in str(prove_equal([x, y], [x]).residual)
    assert prove_equal([x / y * z], [z / y * x + 0 * s])
    assert prove_equal([(x * y + y) / y], [x + 1]).assumptions == ("denominators are not zero",)


def test_definedness_is_part_of_equality():
    assert "not defined on the same set" in str(
        prove_equal([sp.log(x * y) - sp.log(y)], [sp.log(x * s) - sp.log(s)]).residual
    )
    assert not prove_equal([sp.zoo * x], [x])
    assert not prove_equal([1 / (sp.sin(x) ** 2 + sp.cos(x) ** 2 - 1)], [x])


def test_budget_stops_a_large_product():
    many = sp.symbols("v0:60", real=True)
    start = time.process_time()
    verdict = prove_equal([sum(many) ** 7 * sum(v**2 for v in many)], [sum(many) ** 9], budget_seconds=2)
    assert not verdict
    assert "budget" in str(verdict.residual)
    assert time.process_time() - start < 15


def test_no_symbol_is_taken_for_another():
    assert not prove_equal([sp.Symbol("a", positive=True)], [sp.Symbol("a", real=True)])


# Laws on random expressions ----------------------------------------------------------------------------------------

SYMBOLS = (x, y, t, c, d)


def evaluate(node, point):
    """The oracle: floats only, by the definition of each function; raises where the expression is undefined."""
    if isinstance(node, sp.Symbol):
        return point[node]
    if node in (sp.true, sp.false):
        return node == sp.true
    if node.is_number and not node.args:
        return float(node)
    if isinstance(node, sp.Piecewise):
        return next(evaluate(branch, point) for branch, test in node.args if evaluate(test, point))
    values = [evaluate(a, point) for a in node.args]
    name = node.func.__name__
    if name == "Pow":
        base, exponent = values
        if base < 0 and exponent != round(exponent):
            raise ValueError("negative base")
        return base**exponent
    rules = {
        "Add": sum, "Mul": math.prod, "Max": max, "Min": min,
        "exp": lambda v: math.exp(*v), "log": lambda v: math.log(*v),
        "Abs": lambda v: abs(*v), "sign": lambda v: (v[0] > 0) - (v[0] < 0), "tanh": lambda v: math.tanh(*v),
        "erf": lambda v: math.erf(*v), "sin": lambda v: math.sin(*v), "cos": lambda v: math.cos(*v),
        "StrictGreaterThan": lambda v: v[0] > v[1], "GreaterThan": lambda v: v[0] >= v[1],
        "StrictLessThan": lambda v: v[0] < v[1], "LessThan": lambda v: v[0] <= v[1],
        "Equality": lambda v: v[0] == v[1], "Unequality": lambda v: v[0] != v[1],
        "And": all, "Or": any, "Not": lambda v: not v[0], "exp_polar": None,
        "ITE": lambda v: v[1] if v[0] else v[2],
    }  # fmt: skip
    return rules[name](values)


def combine(children):
    pairs = st.tuples(children, children)
    one = [
        relu, leaky, sp.Abs, sp.sign, sp.tanh, sp.erf, sp.sin, sp.cos,
        lambda v: sp.exp(v / 2), lambda v: sp.sqrt(v**2 + 1), lambda v: sp.sqrt(c * v), lambda v: sp.log(1 + sp.exp(v)),
        lambda v: sp.log(c * v), lambda v: -v, lambda v: c * v, lambda v: v**2,
        lambda v: v / (1 + v**2), lambda v: v / d,
    ]  # fmt: skip
    two = [
        lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, largest,
        lambda a, b: sp.Min(a, b, evaluate=False), lambda a, b: where(a > b, a, b + 1),
        lambda a, b: where(a >= 0, b, a),
        lambda a, b: where(sp.Eq(t, 1), a, b), lambda a, b: largest(a, b, x),
    ]  # fmt: skip
    return st.builds(lambda k, v: k(v), st.sampled_from(one), children) | st.builds(
        lambda k, ab: k(*ab), st.sampled_from(two), pairs
    )


leaves = st.sampled_from([*SYMBOLS, sp.Integer(1), sp.Rational(-1, 2), sp.Integer(2)])
expressions = st.recursive(leaves, combine, max_leaves=6)
points = st.fixed_dictionaries({
    **{v: st.sampled_from([-1.7, -1.0, -0.6, 0.3, 1.0, 1.9]) for v in (x, y)},
    t: st.sampled_from([-1.0, 0.0, 1.0, 2.0]),
    **{v: st.sampled_from([0.4, 1.0, 2.3]) for v in (c, d)},
})  # fmt: skip
CHANGES = [
    lambda e: e.xreplace({x: -x}), lambda e: e.xreplace({x: y}), lambda e: e.xreplace({c: d}),
    lambda e: e.xreplace({x: c * x}),
    lambda e: e.xreplace({x: c * x}) / c, lambda e: e.xreplace({x: x + y}), lambda e: e.xreplace({y: y + 1}) - 1,
    lambda e: -e.xreplace({x: -x, y: -y}), lambda e: e.xreplace({sp.Integer(1): sp.Integer(2)}),
    lambda e: e.xreplace({t: t + 1}), lambda e: sp.Abs(e), lambda e: relu(e), lambda e: e.xreplace({x: y, y: x}),
]  # fmt: skip


def defined_value(expression, point):
    try:
        value = evaluate(expression, point)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    return value if isinstance(value, (int, float)) and math.isfinite(value) else None


@pytest.mark.slow
@settings(max_examples=400)
@given(expressions, st.sampled_from(CHANGES), st.lists(points, min_size=12, max_size=12))
def test_a_proved_pair_agrees_at_every_point(expression, change, where_to_look):
    other = change(expression)
    if sp.sympify(expression).has(sp.zoo, sp.nan, sp.I, sp.oo) or sp.sympify(other).has(sp.zoo, sp.nan, sp.I, sp.oo):
        return
    if not prove_equal([expression], [other], budget_seconds=5):
        return
    for point in where_to_look:
        left, right = defined_value(expression, point), defined_value(other, point)
        assert (left is None) == (right is None), (expression, other, point)
        if left is not None and right is not None:
            assert math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9), (expression, other, point)


def rewrite(node, depth=0):
    """The same function written otherwise: expanded products, shuffled maxima, scaled and flipped arguments."""
    if not node.args or isinstance(node, (sp.Piecewise, sp.core.relational.Relational)):
        return node
    inner = [rewrite(a, depth + 1) for a in node.args]
    if isinstance(node, sp.Max):
        return largest(*((c * a) for a in reversed(inner))) / c
    if isinstance(node, (sp.tanh, sp.erf, sp.sin)):
        return -node.func(sp.expand(-inner[0]))
    if isinstance(node, sp.exp):
        return sp.exp(inner[0] - y, evaluate=False) * sp.exp(y)
    if isinstance(node, sp.Abs):
        return sp.Abs(sp.expand(-inner[0] * d)) / d
    return sp.expand(node.func(*inner), deep=False)


@settings(max_examples=200)
@given(expressions)
def test_a_rewritten_expression_is_proved_equal(expression):
    expression = sp.sympify(expression)
    if expression.has(sp.zoo, sp.nan, sp.I, sp.oo):
        return
    other = rewrite(expression)
    if other.has(sp.zoo, sp.nan, sp.I, sp.oo):
        return
    verdict = prove_equal([expression], [other])
    assert verdict, (expression, other, verdict.residual)


def test_time_that_ends_after_a_comparison_is_no_error(monkeypatch):
    from quotax.certify.identities import equality
    from quotax.certify.identities.tower_field import Undecided

    def late(field):
        raise Undecided("budget of time exceeded")

    monkeypatch.setattr(equality, "_touches", late)
    z = sp.Symbol("z", real=True)
    chosen = sp.Piecewise((z, sp.Eq(z, 0)), (z / sp.Abs(z), True))
    verdict = equality.prove_equal([chosen + z], [chosen + 2 * z])
    assert not verdict
    assert verdict.residual == "budget of time exceeded"
