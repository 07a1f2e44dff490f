"""Records of functions: they are complete, they are true, and a new one is read by every room."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp
from jax import lax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import quotax as qx
from quotax import elementwise
from quotax.artifacts import ArraySpec
from quotax.certify.identities import equality
from quotax.certify.identities.equality import prove_equal
from quotax.elementwise import FUNCTIONS, Elementwise, formula
from quotax.interpret import evaluate, symbolic_outputs, trace
from quotax.interpret.jets import formulas
from quotax.interpret.jets.domain import JetDomain
from quotax.interpret.jets.random_functions import RandomFunctions
from quotax.interpret.jets.residues import PRIME
from quotax.interpret.primitives import TABLE, recorded
from quotax.programs import hosted

SRC = Path(elementwise.__file__).parent
RECORDS = [pytest.param(function, id=name) for name, function in FUNCTIONS.items()]
OF_ONE = [p for p in RECORDS if p.values[0].arguments == 1]
Z, V = formula("z"), formula("v")


def points(function: Elementwise, count: int = 40) -> np.ndarray:
    return np.random.default_rng(0).uniform(*function.between, count)


def said(function: Elementwise) -> set[str]:
    """The columns that follow from the record alone."""
    columns = {"form"} if function.form else set()
    if function.form and function.arguments == 1:
        slope = formula(function.slope) if function.slope else sp.diff(formula(function.form), Z)
        if not slope.has(sp.Derivative, sp.DiracDelta, sp.sign):
            columns.add("slope")
    form = formula(function.form or "0")
    unread = form.is_Function and all(part.is_Symbol for part in form.args) and not isinstance(form, sp.exp)
    return columns if unread and function.sympy not in equality.UNARY else {*columns, "identities"}


@pytest.mark.parametrize("function", RECORDS)
def test_a_record_fills_every_column_or_says_why_not(function):
    assert {"form", "slope", "identities"} - said(function) <= set(function.without)
    assert set(function.without) <= {"form", "slope", "identities"}
    row = TABLE[function.primitive]
    assert row.laws is not None
    assert row.symbolic or row.every
    for column, why in function.without.items():
        assert len(why) > 20
        for path in re.findall(r"\w+(?:/\w+)+\.py", why):
            assert (SRC / path).exists()
        if column == "slope":
            assert (row.jets is not None) == ("jets/rules.py" in why)


@pytest.mark.parametrize("function", RECORDS)
def test_where_nothing_is_assumed_a_function_has_values_everywhere(function):
    roots = {"sqrt", "rsqrt"}  # their law says what stands under the root
    if not function.where and function.primitive not in roots:
        x = np.linspace(-5, 5, 97) + 1e-3
        with np.errstate(all="raise"):
            assert np.isfinite(function.numpy(*[x[::step] for step in (1, -1)[: function.arguments]])).all()
    assert np.isfinite(function.numpy(*[points(function)] * function.arguments)).all()


@pytest.mark.parametrize("function", OF_ONE)
def test_forms_are_jax(function):
    """What SymPy computes, at positive numbers where a parity says the rest."""
    for form in filter(None, (function.form, function.through)):
        for x in points(function, 5):
            x = abs(x) if function.parity else x
            found = formula(form).subs(Z, sp.Float(x, 30)).evalf(20)
            np.testing.assert_allclose(float(found), getattr(lax, function.primitive)(x), rtol=1e-13)


@pytest.mark.parametrize("function", OF_ONE)
def test_parities_are_numpys(function):
    x = points(function)
    x = x[(-x >= function.between[0]) & (-x <= function.between[1])]
    there, back = function.numpy(x), function.numpy(-x)
    if function.parity:
        np.testing.assert_allclose(back, function.parity * there, rtol=1e-15)
    elif x.size:
        assert not np.allclose(back, there)
        assert not np.allclose(back, -there)


@pytest.mark.parametrize("function", [p for p in OF_ONE if "slope" not in p.values[0].without])
def test_slopes_are_jaxs_derivatives(function):
    x = points(function, 10)
    slope = sp.lambdify((Z, V), formulas._slope(function), "mpmath")
    slopes = [float(slope(z, v)) for z, v in zip(x, function.numpy(x), strict=True)]
    np.testing.assert_allclose(slopes, jax.vmap(jax.grad(getattr(lax, function.primitive)))(x), rtol=1e-10)


@pytest.mark.parametrize("function", [p for p in OF_ONE if "slope" not in p.values[0].without])
def test_residues_have_the_parity_and_the_known_values(function):
    z = np.array([[1, 5, 77, 123456]])
    domain = JetDomain(RandomFunctions(np.arange(1)), 1)
    (value, slope), (back, turned) = (formulas.value_and_slope(function, domain, x % PRIME) for x in (z, -z))
    if function.parity:
        np.testing.assert_array_equal(back, function.parity * value % PRIME)
        np.testing.assert_array_equal(turned, -function.parity * slope % PRIME)
    known = formula(function.form).subs(Z, 1)
    if known.is_Rational:
        assert value[0, 0] * known.q % PRIME == known.p


def made_up(name, function, slope):
    """A primitive of JAX's that nobody has heard of, with all that JAX itself asks of one."""
    primitive = Primitive(name)
    primitive.def_impl(jax.jit(function))
    primitive.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=False))
    ad.defjvp(primitive, lambda g, x: g * slope(x))
    batching.defvectorized(primitive)
    return primitive


GAUSS = made_up("made_up_gauss", lambda x: jnp.exp(-x * x), lambda x: -2 * x * jnp.exp(-x * x))
WAVE = made_up("made_up_wave", lambda x: jnp.sin(x) - x * jnp.cos(x), lambda x: x * jnp.sin(x))
NEW = {
    "a formula": (GAUSS, Elementwise("made_up_gauss", "exp(-z**2)", lambda x: np.exp(-x * x), 1, slope="-2*z*v")),
    "several functions": (
        WAVE,
        Elementwise("made_up_wave", "sin(z) - z*cos(z)", lambda x: np.sin(x) - x * np.cos(x), -1),
    ),
}


@pytest.fixture(params=NEW)
def new(request, monkeypatch):
    """A record that is in the tables while a test runs; each table makes its own entry of the record."""
    primitive, function = NEW[request.param]
    monkeypatch.setitem(FUNCTIONS, function.primitive, function)
    monkeypatch.setitem(TABLE, function.primitive, recorded(function))
    monkeypatch.setitem(hosted.KERNELS, function.primitive, hosted.recorded(function))
    return primitive, function


def test_a_new_record_runs_in_numpy(new):
    primitive, function = new
    x = points(function)
    (ours,) = hosted.Hosted(jax.make_jaxpr(primitive.bind)(x))(x)
    np.testing.assert_allclose(ours, primitive.bind(x), rtol=1e-12)


def test_a_new_record_is_read_as_an_expression(new):
    primitive, function = new
    spec = ArraySpec("x", ())
    (out,), symbols = symbolic_outputs(trace(lambda _, x: 2 * primitive.bind(x), (), (spec,), {}))
    for x in points(function, 5):
        value = float(out[()].subs(symbols["x"][()], x))
        np.testing.assert_allclose(value, 2 * primitive.bind(x), rtol=1e-12)
    x = symbols["x"][()]
    assert prove_equal([out[()]], [function.parity * out[()].subs(x, -x)])


def test_a_new_record_has_residues_and_slopes(new):
    """Whose relation is the function's own: f'(z) as a formula of f, and parity."""
    primitive, function = new
    domain = JetDomain(RandomFunctions(np.arange(3)), 3)
    z = domain.variable(np.array([[5], [77], [1234]]))
    closed = jax.make_jaxpr(lambda z: (primitive.bind(z), primitive.bind(-z)))(jnp.ones(1))
    value, opposite = evaluate(closed, domain, [z])
    np.testing.assert_array_equal(opposite.values % PRIME, function.parity * value.values % PRIME)
    (slopes,) = domain.jacobian([value], [z])
    expected = formulas._residues(domain, sp.diff(formula(function.form), Z), {Z: z.values})
    np.testing.assert_array_equal(slopes[..., 0].ravel() % PRIME, expected.ravel())


def test_a_new_record_has_a_law(new):
    """Its parity proves a flip of signs for every width, and refutes the flip that does not fit."""
    primitive, function = new

    @qx.architecture(params={"w": "h", "b": "h"}, inputs={"x": ""})
    def model(params, x):
        return params["b"] @ primitive.bind(params["w"] * x)

    flip = qx.SignFlip("h")
    fits, other = ({"w": "g @ w"}, {"w": "g @ w", "b": "g @ b"})[:: function.parity]
    found = qx.verify(model, qx.Symmetry("fits", flip, fits))
    assert (found.status, found.scope) == ("proved", "every width")
    assert qx.verify(model, qx.Symmetry("does not", flip, other)).status == "refuted"
