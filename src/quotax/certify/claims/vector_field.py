"""Infinitesimal claims: the output does not change to first order along a vector field.

The claim is about the real function that the model means (`interpret.reals`), so that is what is differentiated: a
stopped gradient flows, a function with a rule of its own for derivatives has the derivative of what it computes, and
casts do not round. `D f . xi = sum_i (df/dtheta_i) xi_i` is a number that has to vanish by cancellation, and what is
left of a sum of terms that cancel is judged against the terms: `sum_i +-(df/dtheta_i) xi_i` with random signs is of the
size of the terms, and is the derivative along `+-xi`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
import sympy as sp

from quotax.artifacts import Certificate, Model, Trace, Witness, sizes_text
from quotax.certify.claims.function_model import FunctionModel
from quotax.certify.counterexample import MARGIN, TOLERANCE, numbers_at, precision_notes, random_point, uncertainty
from quotax.certify.every_width.proving import read_plain, zero_as_written
from quotax.certify.identities.equality import prove_equal
from quotax.certify.trial_sizes import traceable
from quotax.errors import QuotaxError, SymmetryError
from quotax.interpret import SYMBOLIC, evaluate, symbolic_outputs, symbols_for
from quotax.interpret.reals import real_function
from quotax.parts import tree
from quotax.presenting.telling import OutOfTime, until
from quotax.programs.jaxprs import needed
from quotax.trees import AnyArray, Tree

POINTS = 6
"""Points at which the derivative is looked at, at each of two sizes."""


def certify_field(
    model: Model, forward: Callable[..., Tree], field: Callable[[Tree], Tree], seed: int = 0
) -> Certificate:
    """Prove or refute `D_theta f(theta, x) . xi(theta) = 0` for all theta and x.

    `forward(params, *inputs)` is the model's function; `field(params)` a tangent vector for each point.
    """
    name = getattr(field, "__name__", "xi")
    claim = f"{model.name} does not change to first order along {name}"
    velocity = velocity_model(model, forward, field)
    small, signed = _small(velocity), _signed(forward, field)
    rng = np.random.default_rng(seed)
    for trace in small:
        witness = _witness(trace, signed, rng)
        if witness is not None:
            step = f"at {sizes_text(trace.sizes)} the derivative of the output is {witness.difference:.6g}"
            notes = precision_notes(model.trace(trace.sizes))
            scope = f"a point at {sizes_text(trace.sizes)}"
            return Certificate(claim, "refuted", scope, (step, *notes), witness=witness)
    zero, steps, assumptions, why = read_plain(velocity)
    assumptions += precision_notes(model.trace(small[0].sizes))
    if zero:
        return Certificate(claim, "proved", "every width", steps, assumptions)
    proved = []
    for trace in small:
        if any(spec.discrete for spec in trace.inputs):
            break
        reason = _not_zero(trace)
        if reason is not None:
            why = f"{why}; at {sizes_text(trace.sizes)}: {reason}"
            break
        proved.append(f"({sizes_text(trace.sizes)})")
    if proved:
        scope = "widths " + " and ".join(proved)
        note = f"not established for every width: {why}"
        return Certificate(
            claim, "proved", scope, ("the derivative along the field is 0 identically",), (*assumptions, note)
        )
    return Certificate(claim, "undecided", "no width", residual=why)


def prove_flat(
    trace: Trace, field: Callable[[Mapping[str, AnyArray]], Mapping[str, AnyArray]], seconds: float
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Steps and assumptions of a proof that outputs do not change along a field of arrays by name; None for no proof.

    First the derivative is written out as polynomials of tensors; where that is not zero term by term, entry by entry
    in exact arithmetic, wherever it is defined. Nothing is differentiated but the program, so that the number of the
    field's components hardly matters.
    """
    deadline = time.monotonic() + seconds
    try:
        with until(deadline):
            along = velocity_trace(trace, field)
            zero, steps, assumptions, _ = zero_as_written(along)
            if zero:
                return steps, assumptions
            outputs, _ = symbolic_outputs(along)
    except (QuotaxError, OutOfTime):
        return None
    entries = [e for out in outputs for e in out.reshape(-1)]
    # zero where the expression is defined, which is all that can be asked of one with roots or logarithms in it
    nothing = [sp.Mul(sp.S.Zero, e, evaluate=False) for e in entries]
    verdict = prove_equal(entries, nothing, max(deadline - time.monotonic(), 0.0))
    return (("the derivative along the field is 0 identically",), verdict.assumptions) if verdict else None


def velocity_trace(trace: Trace, field: Callable[[Mapping[str, AnyArray]], Mapping[str, AnyArray]]) -> Trace:
    """`D f . xi` at the sizes of a trace: of the same arrays, with as many outputs.

    What the field does not name has no derivative taken, and what is computed of that alone stays as it is.
    """
    function = real_function(trace.jaxpr)
    names = [spec.name for spec in trace.params]

    def along(*arrays: AnyArray) -> list[AnyArray]:
        moved = dict(field(dict(zip(names, arrays, strict=False))))
        places = [k for k, name in enumerate(names) if name in moved]

        def outputs(some: list[AnyArray]) -> list[AnyArray]:
            return function(*(some[places.index(k)] if k in places else a for k, a in enumerate(arrays)))

        return _derivative(outputs, [arrays[k] for k in places], [moved[names[k]] for k in places])[1]

    with jax.enable_x64(True):
        closed = jax.make_jaxpr(along)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in trace.jaxpr.in_avals))
    return Trace(needed(closed), trace.params, trace.inputs, trace.sizes, trace.out_tree)


def velocity_model(model: Model, forward: Callable[..., Tree], field: Callable[[Tree], Tree]) -> FunctionModel:
    """`D f . xi` as a function of parameters and inputs, at any sizes that `forward` and `field` can be traced at.

    Both are traced, at the shapes of the arguments, before anything is differentiated; shapes may be symbols.
    """
    f, xi = _real(forward), _real(field)

    def change(params: Tree, *inputs: Tree) -> Tree:
        return _derivative(lambda p: f(p, *inputs), params, _tangent(xi(params), params, field))[1]

    name = getattr(field, "__name__", "xi")
    return FunctionModel(f"D {model.name} . {name}", change, model.params, model.inputs)


def _real(function: Callable[..., Tree]) -> Callable[..., Tree]:
    """The real function that a function of trees means."""

    def cleaned(*arguments: Tree) -> Tree:
        program, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
        return jax.tree.unflatten(jax.tree.structure(shapes), real_function(program)(*jax.tree.leaves(arguments)))

    return cleaned


def _derivative(function: Callable[[Tree], Tree], params: Tree, tangent: Tree) -> tuple[Tree, Tree]:
    """Outputs and their derivatives; 0 for integers and truth values, to which JAX gives no derivative."""
    values, changes = jax.jvp(function, (params,), (tangent,))
    return values, jax.tree.map(
        lambda v, c: c if jnp.issubdtype(v.dtype, jnp.inexact) else jnp.zeros(v.shape, float), values, changes
    )


def _tangent(found: Tree, params: Tree, field: Callable[[Tree], Tree]) -> Tree:
    """The field's value as a tangent vector, or a refusal that says where it is none."""
    name = getattr(field, "__name__", "xi")
    given, wanted = (jax.tree_util.tree_flatten_with_path(tree) for tree in (found, params))
    if given[1] != wanted[1]:
        raise SymmetryError(
            f"`verify_field(architecture, {name})`: the field must return a tree like the parameters, "
            f"{wanted[1]}, got {given[1]}. Give zeros for what it does not move."
        )
    for (path, a), (_, b) in zip(given[0], wanted[0], strict=True):
        if jnp.shape(a) != jnp.shape(b):
            raise SymmetryError(
                f"`verify_field(architecture, {name})`: at {jax.tree_util.keystr(path)} the field has shape "
                f"{jnp.shape(a)} and the parameter {jnp.shape(b)}."
            )
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), found, params)


# --- looking for a counterexample


def _small(velocity: FunctionModel) -> list[Trace]:
    """Traces at two assignments of small unequal sizes."""
    found = traceable(velocity, None, f"verify_field({velocity.name})")
    return found[:2] if velocity.axis_names else found[:1]


def _witness(trace: Trace, along: Callable[..., Tree], rng: np.random.Generator) -> Witness | None:
    """A point at which the derivative is not zero by far more than rounding."""
    for _ in range(POINTS):
        sample = random_point(trace, rng)
        found = numbers_at(trace, sample, "params")
        if not any(np.any(o[np.isfinite(o)]) for o in found):
            continue
        doubts = uncertainty(trace, sample, "params", found)
        for value, size, doubt in zip(found, _sizes_of_terms(trace, sample, along, rng), doubts, strict=True):
            clear = np.isfinite(value) & np.isfinite(size) & np.isfinite(doubt)
            if np.any(np.abs(value[clear]) > np.maximum(TOLERANCE * size[clear], MARGIN * doubt[clear])):
                params = tree(trace.params, sample["params"], trace.sizes)
                zeros = [np.zeros_like(o) for o in found]
                before, after = (jax.tree.unflatten(trace.out_tree, o) for o in (zeros, found))
                return Witness(dict(trace.sizes), params, 0.0, sample["inputs"], before, after, params)
    return None


def _sizes_of_terms(
    trace: Trace, sample: dict[str, AnyArray], along: Callable[..., Tree], rng: np.random.Generator
) -> list[np.ndarray]:
    """The largest derivative along the field with random signs; infinite where the output itself is no number.

    The derivative of a logarithm is 1/x for negative x too, and means nothing there.
    """
    names = [spec.name for spec in trace.params]
    leaves = [np.asarray(sample["params"][name]) for name in names]
    inputs = [sample["inputs"][spec.name] for spec in trace.inputs]
    found = []
    for _ in range(POINTS):
        signs = [rng.choice([-1.0, 1.0], a.shape) for a in leaves]
        with jax.enable_x64(True):
            as_given = lambda arrays: tree(trace.params, dict(zip(names, arrays, strict=True)), trace.sizes)
            values, changes = along(as_given(leaves), as_given(signs), *inputs)
        found.append([np.where(np.isfinite(v), np.abs(c), np.inf) for v, c in zip(values, changes, strict=True)])
    return [np.max(rows, axis=0) for rows in zip(*found, strict=True)]


def _signed(forward: Callable[..., Tree], field: Callable[[Tree], Tree]) -> Callable[..., Tree]:
    """Outputs, and their derivatives along the field with flipped signs: of parameters, signs and inputs."""
    f, xi = _real(forward), _real(field)

    def along(params: Tree, flips: AnyArray, *inputs: Tree) -> tuple[list[AnyArray], list[AnyArray]]:
        tangent = jax.tree.map(jnp.multiply, _tangent(xi(params), params, field), flips)
        values, changes = _derivative(lambda p: f(p, *inputs), params, tangent)
        return jax.tree.leaves(values), jax.tree.leaves(changes)

    return jax.jit(along)


# --- proving at a width


def _not_zero(trace: Trace) -> str | None:
    """Why the derivative is not shown to be zero at this width, or None."""
    try:
        outputs = evaluate(trace, SYMBOLIC, [symbols_for(spec, trace.sizes) for spec in trace.arrays])
    except QuotaxError as error:
        return str(error)
    entries = [e for o in outputs for e in np.asarray(o, dtype=object).ravel()]
    verdict = prove_equal(entries, [0] * len(entries), 20.0)
    return None if verdict else verdict.residual or "not shown"
