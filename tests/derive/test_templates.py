"""Solved templates beside dense derivatives: they are all the fields of their form along which nothing changes."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx
from derive import by_hand
from quotax.artifacts import ArraySpec
from quotax.derive.candidates.continuous import sample
from quotax.derive.candidates.templates import (
    Contract,
    Mix,
    Scale,
    Shift,
    Solution,
    Through,
    Turn,
    matrix_terms,
    solve_matrix,
    solve_vector,
    vector_terms,
)
from quotax.symmetry import GL, ComplexScaling, O, Translation


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h", "b2": "y"}, inputs={"x": "x"})
def linear(p, x):
    return p["W2"] @ (p["W1"] @ x + p["b1"]) + p["b2"]


@qx.architecture(params={"W1": "h x", "b1": "h", "W2": "y h"}, inputs={"x": "x"})
def relu(p, x):
    return p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"])


@qx.architecture(params={"Q": "head*k d", "K": "head*k d"}, inputs={"x": "d", "z": "d"})
def heads(p, x, z):
    q, k = ((p[name] @ v).reshape(2, -1) for name, v in (("Q", x), ("K", z)))
    return jnp.tanh(jnp.sum(q * k, axis=1))


@qx.architecture(params={"E": "d x", "s": "d", "t": "k d", "U": "y k d"}, inputs={"x": "x"})
def gained(p, x):
    z = p["E"] @ x
    return jnp.einsum("ykd,kd->yk", p["U"], p["s"] * p["t"] * z / jnp.sqrt(z @ z))


@qx.architecture(params={"u": "x", "v": "x"}, inputs={"x": "x"})
def mixed(p, x):
    return jnp.sum((p["u"] ** 2 - 4 * p["v"] ** 2) * x)


@qx.architecture(params={"a": "x", "b": ""}, inputs={"x": "x"})
def softmax(p, x):
    return jax.nn.softmax(p["a"] + x) * (1 + 0 * p["b"])


@qx.architecture(params={"U": "h x", "V": "h x", "A": "y h", "S": "y x"}, inputs={"x": "x"})
def skipped(p, x):
    return p["A"] @ jnp.maximum(p["U"] @ x, p["V"] @ x) + p["S"] @ x


TWO = {("U", 2): [(("s", 1), ("t", 1))]}

CASES = {
    "linear, GL": (linear, {"h": 3, "x": 4, "y": 5}, GL("h"), None),
    "relu, GL": (relu, {"h": 3, "x": 4, "y": 5}, GL("h"), None),
    "skipped, vectors": (skipped, {"h": 3, "x": 4, "y": 2}, ("h", "x"), None),
    "heads, GL": (heads, {"head": 2, "k": 3, "d": 4}, GL("k", "head"), None),
    "heads, complex": (heads, {"head": 2, "k": 4, "d": 3}, ComplexScaling("k", "head", "adjacent"), None),
    "gained, O": (gained, {"d": 3, "x": 4, "y": 2, "k": 2}, O("d"), None),
    "gained, O through two gains": (gained, {"d": 3, "x": 4, "y": 2, "k": 2}, O("d"), TWO),
    "linear, vectors": (linear, {"h": 3, "x": 4, "y": 5}, ("h",), None),
    "relu, vectors": (relu, {"h": 3, "x": 4, "y": 5}, ("h",), None),
    "heads, vectors": (heads, {"head": 2, "k": 3, "d": 4}, ("head", "k"), None),
    "heads, one number a head": (heads, {"head": 2, "k": 3, "d": 4}, ("head",), None),
    "mixed, vectors": (mixed, {"x": 3}, ("x",), None),
    "softmax, a number": (softmax, {"x": 3}, (), None),
    "gained, a number": (gained, {"d": 3, "x": 4, "y": 2, "k": 2}, (), None),
}


def places(model, template, gains):
    """All terms of a template, and the group whose algebra they take."""
    if isinstance(template, tuple):
        axis, each = (template[-1] if template else None), (template[0] if len(template) == 2 else None)
        return vector_terms(model.params, template, gains), Translation(axis, each)
    return matrix_terms(model.params, template, gains), template


def equations(model, sizes, terms, group):
    """One row for each output, point and basis element of the algebra: the change of the output along each term."""
    rng, rows = np.random.default_rng(0), []
    for _ in range(12):
        params = {spec.name: rng.normal(size=spec.shape(sizes)) for spec in model.params}
        inputs = [rng.normal(size=spec.shape(sizes)) for spec in model.inputs]
        jacobian = jax.jacobian(lambda p, inputs=inputs: model.call(p, *inputs, sizes=sizes))(params)
        apart = {spec.name: params[spec.name].reshape(spec.split_shape(sizes)) for spec in model.params}
        for xi in group.basis(sizes).astype(float):
            columns = []
            for term in terms:
                alone = Solution(None, None, None, ((term, Fraction(1)),))
                field = by_hand.field(alone, model.params, apart, xi)
                change = [
                    np.asarray(jacobian[s.name]).reshape(-1, field[s.name].size) @ field[s.name].ravel()
                    for s in model.params
                ]
                columns.append(sum(change))
            rows.append(np.stack(columns, axis=1))
    return np.concatenate(rows)


@pytest.mark.parametrize("name", CASES)
def test_solutions_are_all_fields_of_the_form_along_which_nothing_changes(name):
    model, sizes, template, gains = CASES[name]
    terms, group = places(model, template, gains)
    data = sample(model, sizes, np.random.default_rng(1)).moments
    if isinstance(template, tuple):
        found = solve_vector(data, model.params, template)
    else:
        found = solve_matrix(data, model.params, template, gains)
    dense = equations(model, sizes, terms, group)
    values = np.linalg.svd(dense, compute_uv=False)
    assert len(found) == len(terms) - np.sum(values > 1e-9 * values[0])
    numbers = np.array([[float(dict(one.terms).get(t, 0)) for t in terms] for one in found]).reshape(
        len(found), len(terms)
    )
    np.testing.assert_allclose(dense @ numbers.T, 0, atol=1e-9 * values[0])
    assert np.linalg.matrix_rank(numbers) == len(found) if found else True


def test_cases_have_terms_of_every_kind_in_their_solutions():
    kinds = set()
    for model, sizes, template, gains in CASES.values():
        data = sample(model, sizes, np.random.default_rng(1)).moments
        solve = solve_vector if isinstance(template, tuple) else solve_matrix
        more = () if isinstance(template, tuple) else (gains,)
        kinds |= {type(t) for one in solve(data, model.params, template, *more) for t, _ in one.terms}
    assert kinds == {Turn, Scale, Mix, Contract, Shift, Through}


def test_a_matrix_may_act_wherever_its_axis_is():
    specs = (ArraySpec("W", (("h",), ("h",))), ArraySpec("b", (("h",),)), ArraySpec("c", (("x",),)))
    assert matrix_terms(specs, O("h"), gains=None) == [Turn("W", 0, ()), Turn("W", 1, ()), Turn("b", 0, ())]
    assert len(matrix_terms(specs, GL("h"), gains=None)) == 6  # and by the transpose
    through = matrix_terms(specs, O("h"), gains={})
    assert Turn("W", 1, (), False, (("b", 1),)) in through
    assert not any(turn.param in dict(turn.gain) for turn in through)


def test_a_copy_for_each_index_acts_where_that_index_stands_once():
    specs = (ArraySpec("Q", (("e", "k"), ("x",))), ArraySpec("R", (("e",), ("e",), ("k",))), ArraySpec("b", (("k",),)))
    assert matrix_terms(specs, O("k", "e"), gains=None) == [Turn("Q", 1, (0,))]


def test_a_vector_scales_shifts_mixes_and_is_carried():
    specs = (ArraySpec("W", (("y",), ("h",))), ArraySpec("b", (("h",),)), ArraySpec("c", (("y",),)))
    assert set(vector_terms(specs, ("h",))) == {
        *(Scale("W", (1,)), Scale("b", (0,)), Shift("W", (1,)), Shift("b", (0,))),
        Contract("c", "W", (1,), (0,)),
    }
    twins = (ArraySpec("u", (("h",),)), ArraySpec("v", (("h",),)))
    mixing = {term for term in vector_terms(twins, ("h",)) if isinstance(term, Mix)}
    assert mixing == {Mix("u", "v", (0,)), Mix("v", "u", (0,))}


def test_no_term_has_no_solution():
    assert solve_matrix([], (ArraySpec("b", (("x",),)),), GL("h")) == []
    assert solve_vector([], (ArraySpec("b", (("x",),)),), ("h",)) == []
