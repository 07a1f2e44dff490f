"""Functions of one or two numbers: one record each, which every room reads.

To add a function that JAX has a primitive for, add its record. Of what SymPy knows the derivative and NumPy the values,
that is all: the table of primitives (`interpret/primitives.py`), the residues of `derive`, the laws, exact identities,
programs in NumPy and the tests take from the record what they need. A function of two numbers also has a row in that
table, which says how it is read. Formulas are text, in z (and y, the second number; v, the function's own value),
because SymPy is not imported before somebody asks for one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Elementwise:
    """What is known of one function.

    Attributes:
        primitive: JAX's name of it.
        form: the function in SymPy's words.
        numpy: the function of NumPy arrays.
        parity: -1 of an odd function, 1 of an even one, else 0.
        through: the function made of others, if its identities follow from theirs.
        slope: its derivative, where another form than SymPy's is meant: a function that is drawn at random, such as a
            root, is known up to a constant, and so is its slope if that is a multiple of v.
        where: what a proof has to assume, if the function is not defined everywhere.
        above: the number above which it is, where that says it all: nothing is assumed of what is known to be.
        between: where tests draw arguments.
        arguments: how many numbers it takes.
        without: columns that have a rule of their own, or none, and why.
    """

    primitive: str
    form: str
    numpy: Callable[..., Any]
    parity: int = 0
    through: str = ""
    slope: str = ""
    where: str = ""
    above: int | None = None
    between: tuple[float, float] = (-2.0, 2.0)
    arguments: int = 1
    without: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def sympy(self) -> str | None:
        """The name of the SymPy function that this one is; None if it is made of several."""
        found = re.fullmatch(r"(\w+)\(z\)", self.form)
        return found[1] if found else None


@cache
def formula(text: str) -> Any:
    """A record's text as an expression of real symbols."""
    import sympy as sp

    return sp.sympify(text, locals={name: sp.Symbol(name, real=True) for name in "zyv"})


def _special(name: str) -> Callable[..., Any]:
    def run(x: np.ndarray) -> np.ndarray:
        from scipy import special

        return getattr(special, name)(x)

    return run


def _over_root(x: np.ndarray) -> np.ndarray:
    return np.divide(np.ones((), x.dtype), np.sqrt(x))


_INSIDE = "what `{}` reads lies between -1 and 1"
_UNIT = (-0.9, 0.9)
_POSITIVE = (0.1, 2.0)
_KINK = {"slope": "a kink: interpret/jets/rules.py says by which sign it is read"}
_OPAQUE = {"identities": "equal arguments have equal values, and no more is known there"}
_STAIR = {"slope": "a stair, whose slope is zero and whose value is drawn: interpret/jets/rules.py", **_OPAQUE}

FUNCTIONS: dict[str, Elementwise] = {
    function.primitive: function
    for function in (
        # what compares and rounds
        Elementwise("abs", "Abs(z)", np.abs, 1, without=_KINK),
        Elementwise("sign", "sign(z)", np.sign, -1, without=_KINK),
        Elementwise("floor", "floor(z)", np.floor, without=_STAIR),
        Elementwise("ceil", "ceiling(z)", np.ceil, without=_STAIR),
        # powers and roots
        Elementwise("square", "z**2", np.square, 1),
        Elementwise("sqrt", "sqrt(z)", np.sqrt, slope="v/(2*z)", between=_POSITIVE),
        Elementwise("rsqrt", "1/sqrt(z)", _over_root, slope="-v/(2*z)", between=_POSITIVE),
        Elementwise("cbrt", "cbrt(z)", np.cbrt, -1, slope="v/(3*z)"),
        # exponentials and logarithms
        Elementwise("exp", "exp(z)", np.exp),
        Elementwise("exp2", "2**z", np.exp2),
        Elementwise("expm1", "exp(z) - 1", np.expm1, between=_POSITIVE),
        Elementwise("logistic", "1/(1 + exp(-z))", _special("expit"), slope="v*(1 - v)"),
        Elementwise("log", "log(z)", np.log, where="what `log` reads is positive", above=0, between=_POSITIVE),
        Elementwise(
            "log1p", "log(1 + z)", np.log1p, where="what `log1p` reads is above -1", above=-1, between=(-0.9, 2.0)
        ),
        # circular functions and their inverses
        Elementwise("sin", "sin(z)", np.sin, -1),
        Elementwise("cos", "cos(z)", np.cos, 1),
        Elementwise("tan", "tan(z)", np.tan, -1, "sin(z)/cos(z)", where="what `tan` reads is in its domain"),
        Elementwise("asin", "asin(z)", np.arcsin, -1, where=_INSIDE.format("asin"), between=_UNIT),
        Elementwise("acos", "acos(z)", np.arccos, where=_INSIDE.format("acos"), between=_UNIT, without=_OPAQUE),
        Elementwise("atan", "atan(z)", np.arctan, -1),
        # hyperbolic functions and their inverses
        Elementwise("sinh", "sinh(z)", np.sinh, -1, "(exp(z) - exp(-z))/2"),
        Elementwise("cosh", "cosh(z)", np.cosh, 1, "(exp(z) + exp(-z))/2"),
        Elementwise("tanh", "tanh(z)", np.tanh, -1, "(exp(2*z) - 1)/(exp(2*z) + 1)"),
        Elementwise("asinh", "asinh(z)", np.arcsinh, -1),
        Elementwise(
            "acosh", "acosh(z)", np.arccosh, slope="1/sqrt(z**2 - 1)", where="what `acosh` reads is at least 1",
            between=(1.1, 3.0), without=_OPAQUE,
        ),
        Elementwise("atanh", "atanh(z)", np.arctanh, -1, where=_INSIDE.format("atanh"), between=_UNIT),
        # error functions
        Elementwise("erf", "erf(z)", _special("erf"), -1),
        Elementwise("erfc", "erfc(z)", _special("erfc"), through="1 - erf(z)"),
        Elementwise("erf_inv", "erfinv(z)", _special("erfinv"), -1, where=_INSIDE.format("erf_inv"), between=_UNIT),
        # two numbers
        Elementwise(
            "atan2", "atan2(z, y)", np.arctan2, arguments=2,
            without={"slope": "it has two: interpret/jets/rules.py", **_OPAQUE},
        ),
        Elementwise(
            "pow", "z**y", np.power, arguments=2, where="the base of a power is positive", between=_POSITIVE,
            without={"slope": "constant exponents come first: interpret/jets/rules.py"},
        ),
        Elementwise(
            "rem", "", np.fmod, arguments=2, where="the divisor of a remainder is not zero", between=(-9.0, 9.0),
            without={
                "form": "it has the sign of z, unlike SymPy's: interpret/symbolic/scalars.py",
                "slope": "residues have no order, and so no whole multiples",
            },
        ),
    )
}  # fmt: skip
"""The records, by primitive."""
