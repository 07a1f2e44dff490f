"""What floats are computed for, hypotenuses without overflow and choices within choices, is read as what it means."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import quotax as qx
from quotax.interpret.tracing.plain_reading import in_plain_words

X, Y = np.array([-2.0, -0.5, 0.0, 0.25, 3.0]), np.array([1.5, 0.0, 0.0, -2.0, 4.0])


def traced(function):
    with jax.enable_x64(True):
        return jax.make_jaxpr(function)(X, Y)


def ran(closed):
    with jax.enable_x64(True):
        return jax.core.eval_jaxpr(closed.jaxpr, closed.consts, X, Y)[0]


def twice(inner, outer=None):
    """`where(x > 0, F(where(...)), 0)`; where x is above zero the inner choice is x."""
    return lambda x, y: jnp.where(
        x > 0, jnp.log(1 + jnp.sqrt(inner(x, y))) / inner(x, y), y if outer is None else outer
    )


READ = {
    "hypotenuse": lambda x, y: jnp.hypot(x, y),
    "with a number": lambda x, y: jnp.hypot(x, 0.5) * y,
    "of hypotenuses": lambda x, y: jnp.hypot(jnp.hypot(x, y), jnp.hypot(y, 3.0)),
    "in a loop": lambda x, y: lax.scan(lambda c, r: (jnp.hypot(c, r), c), x, y * jnp.ones((4, 1)))[0],
    "the same comparison": twice(lambda x, y: jnp.where(x > 0, x, 1.0)),
    "turned around": twice(lambda x, y: jnp.where(x > 0, x, 1.0)),
    "not": twice(lambda x, y: jnp.where(~(x > 0), 7.0, x)),
    "computed twice": lambda x, y: jnp.where(jnp.abs(x) > 0, y / jnp.where(jnp.abs(x) > 0, x, 1.0), 0.0),
    "in a call": jax.jit(twice(jax.jit(lambda x, y: jnp.where(x > 0, x, 1.0)))),
    "three times": twice(lambda x, y: jnp.where(x > 0, jnp.where(x > 0, x, y), 1.0)),
    "the other case": lambda x, y: jnp.where(y == 0, x, 1 / jnp.where(y == 0, 1.0, y)),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_has_the_values_of_the_program(name):
    closed = traced(READ[name])
    read = in_plain_words(closed)
    np.testing.assert_allclose(np.asarray(ran(read)), np.asarray(ran(closed)), rtol=1e-14)
    count = lambda word: str(read).count(word)
    hypotenuses = "hypot" in str(closed)
    assert count("div" if hypotenuses else "select_n") == (0 if hypotenuses else 1)


UNREAD = {
    "another comparison": twice(lambda x, y: jnp.where(x > 0.1, x, 1.0)),
    "of another number": twice(lambda x, y: jnp.where(y > 0, x, 1.0)),
    "shifted": lambda x, y: jnp.where(x > 0, jnp.roll(jnp.where(x > 0, x, 1.0), 1), 0.0),
    "summed": lambda x, y: jnp.where(x > 0, x / jnp.sum(jnp.where(x > 0, x, 1.0)), 0.0),
    "a mask": lambda x, y: jnp.where(x > 0, jnp.exp(jnp.where(x > 0, y, -jnp.inf)), 0.0),
    "a large number": lambda x, y: jnp.where(x > 0, jnp.exp(jnp.where(x > 0, y, -1e10)), 0.0),
    "the opposite of real numbers alone": twice(lambda x, y: jnp.where(x <= 0, 7.0, x)),
    "another root": lambda x, y: jnp.sqrt(x * x + y * y),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_means_something_else_stays_as_it_is(name):
    closed = traced(UNREAD[name])
    assert in_plain_words(closed) is closed


def model(unit):
    @qx.architecture(params={"U": "h x", "V": "h x", "A": "y h"}, inputs={"x": "x"})
    def net(p, x):
        return p["A"] @ unit(p["U"] @ x, p["V"] @ x)

    return net


SCALE = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"U": "g @ U", "V": "g @ V", "A": "A @ inv(g)"})
HALF = qx.Symmetry("half", qx.PositiveDiagonal("h"), {"U": "g @ U", "V": "g @ V", "A": "A @ inv(g)**(1/2)"})
UNITS = {
    "hypotenuse": (jnp.hypot, SCALE, lambda u, v: jnp.hypot(u, v + 1e-3)),
    "of three": (lambda u, v: jnp.hypot(jnp.hypot(u, v), u), SCALE, lambda u, v: jnp.hypot(jnp.hypot(u, v), 1e-2)),
    "quotient": (
        lambda u, v: jnp.where(v == 0, u, u * u / jnp.where(v == 0, 1.0, v)),
        SCALE,
        lambda u, v: jnp.where(v > 1, u, u * u / jnp.where(v > 1, 1.0, v)),
    ),
    "root": (
        lambda u, v: jnp.where(u > 0, jnp.sqrt(jnp.where(u > 0, u, 1.0)), 0.0),
        HALF,
        lambda u, v: jnp.where(u > 0, jnp.sqrt(jnp.where(u > 0.1, u, 1.0)), 0.0),
    ),
}


@pytest.mark.parametrize("name", UNITS)
def test_units_scale_at_every_width_and_their_twins_do_not(name):
    unit, scale, twin = UNITS[name]
    assert qx.verify(model(unit), scale).scope == "every width"
    assert qx.verify(model(twin), scale).status == "refuted"
