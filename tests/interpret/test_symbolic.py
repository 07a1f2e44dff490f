"""The form of symbolic results: symbols, constants, infinities, and what is decided without being evaluated."""

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from quotax.artifacts import ArraySpec
from quotax.errors import ArchitectureError
from quotax.interpret import SYMBOLIC, evaluate, symbolic_outputs, symbols_for, trace
from quotax.interpret.constants import simplest_rational

VECTOR = ArraySpec("x", ((2,),))
SCALAR = ArraySpec("a", ())
x0, x1 = sp.symbols("x[0] x[1]", real=True)
a = sp.Symbol("a", real=True)


def read(function: Any, *inputs: ArraySpec) -> Any:
    """The only output of a function of inputs."""
    return symbolic_outputs(trace(lambda _, *xs: function(*xs), (), inputs, {}))[0][0]


def test_symbols_are_named_by_entry() -> None:
    """Entries of arrays carry their index, scalars do not; tokens are integers."""
    spec = ArraySpec("W1", (("h",), ("head", "k")))
    symbols = symbols_for(spec, {"h": 1, "head": 2, "k": 1})
    assert symbols.shape == (1, 2)
    assert symbols[0, 1] == sp.Symbol("W1[0,1]", real=True)
    assert symbols_for(SCALAR, {})[()] == a
    assert symbols_for(ArraySpec("t", ((1,),), "tokens", 3), {})[0] == sp.Symbol("t[0]", integer=True, nonnegative=True)
    assert symbols_for(ArraySpec("m", ((1,),), "mask"), {})[0] == sp.Symbol("m[0]", real=True)


def test_symbols_come_back_by_array() -> None:
    """`symbolic_outputs` returns the symbols it used, by array name, nested names included."""
    spec = ArraySpec("layer/W", ((1,),))
    outputs, symbols = symbolic_outputs(trace(lambda p: 2 * p["layer"]["W"], (spec,), (), {}))
    assert list(symbols) == ["layer/W"]
    assert outputs[0][0] == 2 * symbols["layer/W"][0]


def test_formulas_have_their_simplest_form() -> None:
    """ReLU is Max(0, z), leaky ReLU has slope 1/100, floats are the simplest rationals, integer powers stay powers."""
    assert read(jax.nn.relu, SCALAR)[()] == sp.Max(0, a)
    leaky = read(jax.nn.leaky_relu, SCALAR)[()]
    assert leaky.args[0] == (a, a >= 0)
    assert leaky.args[1][0] == a / 100
    assert read(lambda z: 0.1 * z + 1 / 3, SCALAR)[()] == a / 10 + sp.Rational(1, 3)
    assert read(lambda z: z**3, SCALAR)[()] == a**3
    assert read(jnp.abs, SCALAR)[()] == sp.Abs(a)
    assert read(jax.nn.sigmoid, SCALAR)[()] == 1 / (1 + sp.exp(-a))


def test_guards_fold_away() -> None:
    """Guards against NaN and infinity are decided: logsumexp keeps its shift, softplus has no branch."""
    out = read(jax.nn.logsumexp, VECTOR)[()]
    top = sp.Max(x0, x1)
    assert out == sp.log(sp.exp(x0 - top) + sp.exp(x1 - top), evaluate=False) + top
    assert not read(jax.nn.softplus, SCALAR)[()].has(sp.Piecewise)


def test_masked_entries_vanish() -> None:
    """-inf masks give exact zeros, and no infinity survives."""
    out = read(lambda x: jax.nn.softmax(jnp.where(jnp.array([True, False]), x, -jnp.inf)), VECTOR)
    assert list(out) == [1, 0]
    out = read(lambda x: jnp.exp(jnp.concatenate([x, jnp.array([-jnp.inf])])), VECTOR)
    assert list(out) == [sp.exp(x0), sp.exp(x1), 0]


def test_constants_that_meet_no_parameter_are_computed() -> None:
    """What follows from constants alone is a number, computed in float64."""
    out = read(lambda x: x * jnp.sqrt(jnp.arange(1.0, 3.0) ** 2 / jnp.array([1.0, 16.0])), VECTOR)
    assert list(out) == [x0, x1 / 2]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_simplest_rational_rounds_back(value: float) -> None:
    """The rational that stands for a float rounds to that float, and is no more complicated than the float itself."""
    fraction = simplest_rational(value)
    assert float(fraction) == value
    assert fraction.denominator <= Fraction(value).denominator


@given(st.integers(-200, 200), st.integers(1, 200))
def test_simple_fractions_are_recovered(p: int, q: int) -> None:
    """A float computed from a simple fraction is that fraction, in float32 too."""
    assert simplest_rational(p / q) == Fraction(p, q)
    assert simplest_rational(np.float32(p) / np.float32(q)) == Fraction(p, q)


def test_precision_of_a_constant_counts() -> None:
    """The float32 nearest 0.1 is 1/10; the float64 that equals it is another number."""
    assert simplest_rational(np.float32(0.1)) == Fraction(1, 10)
    assert simplest_rational(float(np.float32(0.1))) != Fraction(1, 10)


def test_real_functions_leave_no_complex_numbers() -> None:
    """Where JAX has nan, so have we: never an imaginary unit."""
    for function in (jnp.sqrt, jnp.log, lambda z: z**0.5, jnp.arcsin, jnp.arctanh):
        with pytest.raises(ArchitectureError, match="is nan"):
            read(lambda z, f=function: f(0 * z - 4), SCALAR)


@given(st.integers(1, 60), st.integers(1, 60))
def test_no_simpler_fraction_rounds_there(p: int, q: int) -> None:
    """By exhaustion: no smaller denominator gives the same float."""
    value = np.float32(p / q) * np.float32(1.37)
    best = simplest_rational(value)
    for denominator in range(1, min(best.denominator, 300)):
        assert np.float32(round(float(value) * denominator) / denominator) != value


def test_undefined_output_is_refused() -> None:
    """A softmax over nothing but masked entries is not a number, and is not returned."""
    with pytest.raises(ArchitectureError, match=r"output 0 at \[0\] is nan for all parameters and inputs"):
        read(lambda x: jax.nn.softmax(jnp.where(False, x, -jnp.inf)), VECTOR)
    with pytest.raises(ArchitectureError, match="is -oo"):
        read(lambda x: x - jnp.inf, VECTOR)


def test_evaluate_takes_any_expressions() -> None:
    """The domain reads a trace at any values: here at numbers, which are exact."""
    traced = trace(lambda p, x: p["W"] @ x, (ArraySpec("W", ((1,), (2,))),), (VECTOR,), {})
    third = np.array([[sp.Rational(1, 3), sp.Integer(2)]], dtype=object)
    (out,) = evaluate(traced, SYMBOLIC, [third, symbols_for(VECTOR, {})])
    assert out[0] == x0 / 3 + 2 * x1
    with pytest.raises(ArchitectureError, match="`evaluate` got 1 arguments for a jaxpr of 2 inputs"):
        evaluate(traced, SYMBOLIC, [third])


def test_evaluate_under_jit() -> None:
    """Constants are computed also while JAX is tracing something else, and in float64 whatever the flag says."""
    traced = trace(lambda p, x: x * jnp.sin(jnp.array([0.1, 0.2])), (), (VECTOR,), {})
    expected = evaluate(traced, SYMBOLIC, [symbols_for(VECTOR, {})])[0]

    @jax.jit
    def outer(y: Any) -> Any:
        with jax.enable_x64(False):
            assert (evaluate(traced, SYMBOLIC, [symbols_for(VECTOR, {})])[0] == expected).all()
        return y

    outer(1.0)
    assert float(expected[0].as_coeff_Mul()[0]) == np.sin(0.1)
