"""Averaged losses against sums written out, and what follows from them, where it does and where it does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import quotax as qx

rng = np.random.default_rng(0)
X, Y = jnp.asarray(rng.standard_normal((5, 4))), jnp.asarray(rng.standard_normal((5, 4)))
P = {"U": jnp.asarray(rng.standard_normal((3, 4))), "V": jnp.asarray(rng.standard_normal((4, 3)))}
SHIFTS = qx.Representation.shifts(4)
TURN = qx.Representation(infinitesimal={"turn": [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -3], [0, 0, 3, 0]]}, name="F")


def squares(p, x, y):
    return jnp.mean((jnp.tanh(x @ p["U"].T) @ p["V"].T - y) ** 2)


def test_a_finite_average_is_the_sum_written_out():
    total = qx.augmented(squares, SHIFTS)
    by_hand = np.mean([float(squares(P, jnp.roll(X, k, 1), Y)) for k in range(4)])
    assert float(jax.jit(total)(P, X, Y)) == pytest.approx(by_hand, rel=1e-12)
    found = total.check(P, X, Y, reads={"U": 1})
    assert found.invariance < 1e-14
    assert found.gradient < 1e-14
    assert found.field is None
    assert total.mean_element == pytest.approx(np.full((4, 4), 0.25))
    broken = total.check(P, X, Y, reads={"V": 0})  # V does not read what moves
    assert broken.invariance > 1e-3
    assert broken.gradient > 1e-3


@pytest.mark.slow
def test_targets_move_with_inputs():
    total = qx.augmented(squares, SHIFTS, SHIFTS)
    by_hand = np.mean([float(squares(P, jnp.roll(X, k, 1), jnp.roll(Y, k, 1))) for k in range(4)])
    assert float(total(P, X, Y)) == pytest.approx(by_hand, rel=1e-12)
    found = total.check(P, X, Y, reads={"U": 1}, writes={"V": 0})
    assert max(found.invariance, found.gradient) < 1e-14
    assert total.check(P, X, Y, reads={"U": 1}).invariance > 1e-3


@pytest.mark.slow
def test_turns_over_part_of_an_orbit_and_the_whole():
    fourth = lambda p, x: jnp.mean((x @ p["U"].T) ** 4)
    whole = qx.augmented(fourth, TURN, times=(0, 2 * np.pi), nodes=13, rule="circle")
    found = whole.check(P, X, reads={"U": 1})  # a polynomial has frequencies up to twelve
    assert max(found.invariance, found.gradient, found.field) < 1e-13
    fewer = qx.augmented(fourth, TURN, times=(0, 2 * np.pi), nodes=4, rule="circle").check(P, X, reads={"U": 1})
    assert fewer.field > 1e-3
    part = qx.augmented(fourth, TURN, times=(-0.4, 0.4), nodes=12)
    assert part.check(P, X, reads={"U": 1}).field > 1e-3
    turns = [np.sinc(m * 0.4 / np.pi) for m in (1, 1, 3, 3)]
    assert part.mean_element == pytest.approx(np.diag(turns), abs=1e-12)
    drawn = [
        qx.augmented(fourth, TURN, times=(0, 1), nodes=3, rule="random", key=jax.random.key(k)).mean_element
        for k in (0, 0, 1)
    ]
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.allclose(drawn[0], drawn[2])


AXES = {"params": {"W": "h x", "V": "y h"}, "inputs": {"x": "x"}}


@pytest.mark.parametrize(
    ("model", "rep", "status", "group"),
    [
        (lambda p, x: p["V"] @ jnp.tanh(p["W"] @ x), SHIFTS, "proved", "GL"),
        pytest.param(
            lambda p, x: p["V"] @ (p["W"] @ x / jnp.sqrt(1 + jnp.sum(x**2))),
            TURN,
            "proved",
            "O",
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda p, x: p["V"] @ (p["W"] @ jnp.tanh(x)), SHIFTS, "proved", "S", marks=pytest.mark.slow),
        (lambda p, x: p["V"] @ (p["W"] @ jnp.tanh(x)), TURN, "refuted", "O"),
        pytest.param(lambda p, x: p["V"] @ (p["W"] @ x + x[0]), SHIFTS, "refuted", "S", marks=pytest.mark.slow),
    ],
)
def test_proofs_are_for_the_largest_group_that_holds(model, rep, status, group):
    times = {} if rep is SHIFTS else {"times": (0, 1)}
    found = qx.augmented(squares, rep, **times).proofs(qx.architecture(**AXES)(model))
    assert {each.status for each in found.values()} == {status}
    assert all(f": {group}(x)" in each.claim for each in found.values())
    assert list(found) == ["network", "gradient"]


def test_bad_input_is_refused():
    net = qx.architecture(**AXES)(lambda p, x: p["V"] @ (p["W"] @ x))
    total = qx.augmented(squares, SHIFTS)
    for wrong, said in (
        (lambda: qx.augmented(squares), "what acts on the data"),
        (lambda: qx.augmented(squares, 3), "got 3"),
        (lambda: qx.augmented(squares, TURN), "generators are turn"),
        (lambda: qx.augmented(squares, SHIFTS, times=(0, 1)), "no infinitesimal generators"),
        (lambda: qx.augmented(squares, TURN, times=(0, 1), rule="circle"), "whole period"),
        (lambda: qx.augmented(squares, TURN, times=(1, 0)), "from < to"),
        (lambda: qx.augmented(squares, TURN, times=(0, 1), rule="random"), "key="),
        (lambda: qx.augmented(squares, SHIFTS, TURN), "one group"),
        (lambda: total(P, X[:, :3], Y), r"shape \(5, 3\)"),
        (lambda: total(P), "got 0"),
        (lambda: total.check(P, X, Y, reads={"W": 1}), "there are U, V"),
        (lambda: total.check(P, X, Y, reads={"U": 0}), r"shape is \(3, 4\)"),
        (lambda: total.check(P, X, Y, reads={"U": 1}, writes={"V": 0}), "second argument"),
        (lambda: total.proofs(net, reads=("V",)), "is not one of them"),
        (lambda: total.proofs(squares), "declared or brought"),
    ):
        with pytest.raises(qx.SymmetryError, match=said):
            wrong()
