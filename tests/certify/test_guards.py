"""Values that are looked at for being numbers: one function of the entries they come from, and no formula."""

import jax
import jax.numpy as jnp
import pytest

import quotax as qx

PARAMS = {"b": "h", "c": "h"}
PERMUTED = qx.Symmetry("permuted", qx.Permutation("h"), {"b": "g @ b", "c": "g @ c"})
ONE = {name: qx.Symmetry(f"permuted_{name}", qx.Permutation("h"), {name: f"g @ {name}"}) for name in PARAMS}
APART = qx.Symmetry("apart", qx.PositiveDiagonal("h"), {"b": "g @ b", "c": "inv(g) @ c"})
SIGNED = qx.Symmetry("signed", qx.Diagonal("h"), {"b": "g @ b", "c": "inv(g) @ c"})
SCALED = qx.Symmetry("scaled", qx.PositiveDiagonal("h"), {"c": "g @ c"})
NUMBER = qx.Symmetry("number", qx.PositiveScalar(), {"c": "g * c"})
isnan, log, where = jnp.isnan, jnp.log, jnp.where


def each(b, c):
    return where(isnan(log(b)), 1.0, 2.0)


def pairs(b, c):
    return where(isnan(log(b[:, None] * c)), 1.0, 2.0)


def nested(b, c):
    return where(isnan(log(where(isnan(jnp.sqrt(b)), c, b))), 1.0, 2.0)


def over(b):
    return 1 / jax.nn.relu(b)


def turns(values, weights, **options):
    """Weights of the places at which a value is none, gathered by a loop over them."""
    step = lambda total, pair: (total + where(isnan(pair[0]), pair[1], 0.0), isnan(pair[0]) * pair[1])
    total, each = jax.lax.scan(step, 0.0, (values, weights), **options)
    return total + each.sum()


TRUE = {
    "branch": (lambda b, c: jax.lax.cond(isnan(log(b.sum())), lambda: c.sum(), lambda: 0.0), PERMUTED),
    "permuted": (lambda b, c: jnp.sum(each(b, c)), PERMUTED),
    "one permuted": (lambda b, c: jnp.sum(each(b, c)), ONE["b"]),
    "a number in place of none": (lambda b, c: jnp.sum(jnp.nan_to_num(log(b)) * c), PERMUTED),
    "of a product": (lambda b, c: jnp.sum(where(isnan(jnp.sqrt(b * c)), 1.0, 2.0)), APART),
    "largest": (lambda b, c: jnp.max(where(isnan(log(b)), -1.0, b)), PERMUTED),
    "of pairs": (lambda b, c: jnp.sum(pairs(b, c) * jnp.arange(b.shape[0])[:, None]), ONE["c"]),
    "of a sum": (lambda b, c: where(isnan(log(jnp.sum(b))), jnp.sum(c), 0.0), PERMUTED),
    "nested": (lambda b, c: jnp.sum(nested(b, c)), PERMUTED),
    "domain and choice together": (lambda b, c: jnp.sum(where(b > 0, log(c), 1.0)), PERMUTED),
}
FALSE = {
    "other settings": (
        lambda b, c: jnp.sum(c * (jnp.isfinite(over(b) ** 2) * 1.0 - jnp.isfinite(over(b) ** -2))),
        SCALED,
    ),
    "loop with weights": (lambda b, c: turns(log(b), jnp.arange(1.0 * b.shape[0])), PERMUTED),
    "short loop over entries": (lambda b, c: turns(log(b[:1]), jnp.ones(1)), PERMUTED),
    "short loop with weights": (
        lambda b, c: turns(log(jnp.stack([b.sum(), c.sum()])), jnp.arange(2.0)),
        qx.Symmetry("exchanged", qx.Permutation("h"), {"b": "g @ c", "c": "g @ b"}),
    ),
    "reversed": (lambda b, c: jnp.sum(isnan(log(b)[::-1]) * c), PERMUTED),
    "shifted by one": (lambda b, c: jnp.sum(isnan(jnp.roll(log(b), 1)) * c), PERMUTED),
    "branch on one entry": (lambda b, c: jax.lax.cond(isnan(log(b[0])), lambda: c.sum(), lambda: 0.0), PERMUTED),
    # both branches are one to a formula: which of them is a number depends on what is chosen
    "branches that look alike": (
        lambda b, c: (
            isnan(jax.lax.cond(c[0] > 0, lambda: over(c[0]) / over(c[0]), lambda: log(b.sum()) - log(b.sum()) + 1))
            * 1.0
        ),
        SCALED,
    ),
    "branches that look alike, exchanged": (
        lambda b, c: (
            isnan(
                jax.lax.cond(b[0] > 0, lambda: log(c.sum()) - log(c.sum()) + 1, lambda: log(b.sum()) - log(b.sum()) + 1)
            )
            * 1.0
        ),
        qx.Symmetry("shift", qx.Translation("h"), {"c": "c + g"}),
    ),
    "squares, transposed": (lambda b, c: jnp.sum(isnan(log(b[:, None] - c)).T * c), ONE["c"]),
    "one entry": (lambda b, c: each(b, c)[0], PERMUTED),
    "times a ramp": (lambda b, c: jnp.sum(each(b, c) * jnp.arange(b.shape[0])), PERMUTED),
    "beside what moves": (lambda b, c: jnp.sum(each(b, c) * c), ONE["c"]),
    "beside what is reversed": (lambda b, c: jnp.sum(isnan(log(b)) * c[::-1]), PERMUTED),
    "what is finite else": (lambda b, c: jnp.sum(where(jnp.isfinite(log(b)), 0.0 * b, c)), SCALED),
    "nothing else": (lambda b, c: jnp.sum(where(isnan(jnp.sqrt(b)), c, 0 * c)), SCALED),
    "roots apart": (lambda b, c: jnp.sum(where(isnan(jnp.sqrt(b) * jnp.sqrt(c)), 1.0, 2.0)), SIGNED),
    "diagonal of pairs": (lambda b, c: jnp.trace(pairs(b, c)), ONE["c"]),
    "pairs exchanged": (lambda b, c: jnp.sum(pairs(b, c) * pairs(b, c).T), ONE["c"]),
    "of a sum": (lambda b, c: where(isnan(log(jnp.sum(b))), jnp.sum(c), 0.0), NUMBER),
    "nested": (lambda b, c: jnp.sum(nested(b, c)), ONE["b"]),
    "an integer of none": (lambda b, c: jnp.sum(log(b).astype(int) * c), ONE["c"]),
    # at b = (1, -1), c = (1, -1) there is a value, and there is none when only b is exchanged
    "choice without its domain": (lambda b, c: jnp.sum(where(b > 0, log(c) - log(c) + 1.0, 2.0)), ONE["b"]),
}


def gated(difference):
    """Nothing that a sample meets: the proof decides alone."""

    @qx.architecture(params=PARAMS, inputs={"x": ""})
    def model(p, x):
        return x + jax.nn.relu(x - 1000.0) * difference(p["b"], p["c"])

    return model


@pytest.mark.parametrize("name", TRUE)
def test_what_is_looked_at_moves_with_its_entries(name):
    difference, symmetry = TRUE[name]
    certificate = qx.verify(gated(difference), symmetry)
    assert (certificate.status, certificate.scope) == ("proved", "every width"), certificate
    assert certificate.recheck().scope == "every width"


@pytest.mark.parametrize("name", FALSE)
def test_nothing_more_is_proved_of_it(name):
    difference, symmetry = FALSE[name]
    assert qx.verify(gated(difference), symmetry).status != "proved"


def test_where_the_choice_stays_its_domain_is_an_assumption():
    difference = lambda b, c: jnp.sum(where(b > 0, log(c) - log(c) + 1.0, 2.0))
    certificate = qx.verify(gated(difference), ONE["c"])
    assert certificate.status == "proved"
    assert any("what `log` reads is positive" in line for line in certificate.assumptions)


def test_an_exact_proof_lists_the_domains_of_its_formulas():
    @qx.architecture(params={"W": "h h"}, inputs={"x": ""})
    def determinant(p, x):
        (a, b), (c, d) = p["W"]
        return x * log((a * d - b * c) ** 2)

    certificate = qx.verify(determinant, qx.Symmetry("rotation", qx.O("h"), {"W": "g @ W"}), sizes={"h": 2})
    assert certificate.status == "proved"
    assert any("what `log` reads is positive" in line for line in certificate.assumptions)
