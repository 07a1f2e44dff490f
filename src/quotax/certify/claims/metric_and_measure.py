"""Claims about other functions of the parameters: metrics and measures.

Each becomes a model of its own, whose invariance is the claim: a metric is a function of the parameters and of two
tangent vectors, which the derivative of the action moves.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import sympy as sp

from quotax.artifacts import ArraySpec, Certificate, Model
from quotax.certify.claims.function_model import FunctionModel
from quotax.certify.ladder import certify
from quotax.errors import GeometryError
from quotax.symmetry import ELEMENT, INVERSE, Action, Entry, variable
from quotax.symmetry.new_entries.sums import contract_deltas
from quotax.trees import Keyword, Tree

FIRST, SECOND = "first tangent", "second tangent"
"""Groups of parameters that hold tangent vectors."""


def certify_measure(
    model: Model,
    action: Action,
    measure: Callable[..., Tree],
    inputs: tuple[ArraySpec, ...] = (),
    settled: bool = False,
    **settings: Keyword,
) -> Certificate:
    """Prove or refute `m(g . theta) = m(theta)`, or `m(g . theta, x) = m(theta, x)` for every x if there are inputs.

    `settled`: the measure runs the model, whose axes may have sizes that they keep.
    """
    name = getattr(measure, "__name__", "measure")
    fixed = model.fixed if settled else {}
    made = certify(FunctionModel(name, measure, model.params, inputs, fixed), action, **settings)
    rest = "".join(f", {spec.name}" for spec in inputs)
    claim = f"{name}(g . theta{rest}) = {name}(theta{rest}) under {action.name}: {action.group}"
    return dataclasses.replace(made, claim=claim)


def certify_metric(
    model: Model, action: Action, metric: str | Callable[[Tree, Tree, Tree], jax.Array], **settings: Keyword
) -> Certificate:
    """Prove or refute that the action is by isometries: `m(g . theta; dg . a, dg . b) = m(theta; a, b)`."""
    if metric == "euclidean":
        function: Callable[[Tree, Tree, Tree], jax.Array] = _euclidean
    elif callable(metric):
        function = metric
    else:
        raise GeometryError(
            f"`verify_metric(architecture, symmetry, metric)`: metric must be 'euclidean', 'invariant', "
            f"'pullback', 'inv', 'mix' or a function of (params, tangent, tangent), got {metric!r}."
        )
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    claim = f"{name} is invariant under {action.name}: {action.group}"
    if action.projectors:
        why = "how a projector onto a kernel moves with its matrix is not written out"
        return Certificate(claim, "undecided", "no width", residual=why)
    tangents = tuple(
        dataclasses.replace(spec, name=f"{group}/{spec.name}") for group in (FIRST, SECOND) for spec in model.params
    )
    paired = functools.partial(_on_tangents, function)
    extended = FunctionModel(f"the metric {name}", paired, (*model.params, *tangents), users=function is not _euclidean)
    entries = (*action.entries, *(pushed(e, model.params, group) for group in (FIRST, SECOND) for e in action.entries))
    made = certify(extended, Action(action.symmetry, entries), **settings)
    return dataclasses.replace(made, claim=claim)


def _on_tangents(metric: Callable[[Tree, Tree, Tree], jax.Array], p: Tree) -> Tree:
    params = {key: value for key, value in p.items() if key not in (FIRST, SECOND)}
    return metric(params, p[FIRST], p[SECOND])


def _euclidean(params: Tree, a: Tree, b: Tree) -> Tree:
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    return sum(jax.tree.leaves(products))


def pushed(entry: Entry, specs: tuple[ArraySpec, ...], group: str) -> Entry:
    """What the derivative of the action makes of a tangent vector: SymPy differentiates the entry along it."""
    names = {variable(spec.name): spec.name for spec in specs}
    along: dict[sp.Expr, sp.Expr] = {}
    for atom in entry.expression.atoms(sp.Indexed, sp.Symbol):
        name = atom.base.name if isinstance(atom, sp.Indexed) else atom.name
        if name in names and name not in (ELEMENT, INVERSE):
            tangent = variable(f"{group}/{names[name]}")
            if isinstance(atom, sp.Indexed):
                along[atom] = sp.Indexed(sp.IndexedBase(tangent), *atom.indices)
            elif not next(s for s in specs if s.name == names[name]).axes:
                along[atom] = sp.Symbol(tangent)
    derivative = contract_deltas(_directional(entry.expression, along))
    return Entry(f"{group}/{entry.name}", entry.indices, entry.factors, derivative, f"D({entry.text})")


def _directional(expression: sp.Expr, along: dict[sp.Expr, sp.Expr]) -> sp.Expr:
    """The derivative by some atoms in a direction."""
    summand = expression.function if isinstance(expression, sp.Sum) else expression
    factors = sp.Mul.make_args(summand)
    if len(along) == 1 and (atom := next(iter(along))) in factors:
        others = [factor for factor in factors if factor != atom]
        if len(others) == len(factors) - 1 and not any(factor.has(atom) for factor in others):
            return expression.xreplace(along)  # linear: SymPy takes its time for sums
    time = sp.Symbol("t", real=True)
    curve = {atom: atom + time * tangent for atom, tangent in along.items()}
    return sp.diff(expression.xreplace(curve), time).subs(time, 0)
