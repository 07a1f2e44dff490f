r"""Flatness of the loss in several units, and the Fisher-Rao norm.

The trace of the Hessian in a metric is $\sum_i v_i^T H v_i$ over an orthonormal basis: of the Euclidean metric, of
$\sum_i a_i b_i / \theta_i^2$ (each parameter in units of itself: adaptive sharpness), of $\sum_l a_l \cdot b_l /
|\theta_l|^2$ (each array in units of its norm). A linear action by isometries of the metric that leaves the loss as
it is moves orthonormal bases to orthonormal bases and keeps second derivatives along lines: the trace and the
eigenvalues are then the same.

*Relative flatness* of a matrix W (Petzka and others, 2021) is
$\kappa = \sum_{s s'} \langle w_s, w_{s'} \rangle \operatorname{tr} H_{s s'}$ with rows $w_s$ and the blocks of second
derivatives between
them: $\kappa = \sum_{k t} H[V^{kt}, V^{kt}]$, where $V^{kt}$ has column k of W in the place of column t.

The *Fisher-Rao norm* (Liang and others, 2019) is $\theta^T F \theta$ with the Fisher matrix of the model: with
$t = J \theta$ it is the mean of $t^T F_{out} t$, of outputs and of t alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from quotax.complexity.measure import Measure
from quotax.complexity.networks.layer_chain import Layer, layer_chain
from quotax.complexity.networks.measured_network import TOGETHER, MeasuredNetwork, by_name, with_leaves
from quotax.complexity.routes import Claim, Estimated, Route
from quotax.declare import Architecture
from quotax.errors import ComplexityError
from quotax.sharpness import spectrum, trace
from quotax.trees import AnyArray, Tree, nest

ISOMETRY = "a linear action by isometries that keeps the loss keeps second derivatives in orthonormal bases"
EXACT = 1024
"""Up to so many products of the Hessian, relative flatness is a sum; beyond, the mean over `PROBES` random matrices."""
PROBES = 200
ROOM = 2**25
"""Numbers in memory at once."""

Units = Callable[[Tree], Tree]
"""What one step of each parameter is."""


def adaptive(params: Tree, a: AnyArray, b: AnyArray) -> Tree:
    """Each parameter in units of itself."""
    leaves = zip(*map(jax.tree.leaves, (params, a, b)), strict=True)
    return sum(jnp.sum(x * y / w**2) for w, x, y in leaves)


def by_array(params: Tree, a: AnyArray, b: AnyArray) -> Tree:
    """Each array in units of its norm."""
    leaves = zip(*map(jax.tree.leaves, (params, a, b)), strict=True)
    return sum(jnp.sum(x * y) / jnp.sum(w**2) for w, x, y in leaves)


def isometric(metric: Any) -> Callable[[Architecture, MeasuredNetwork], list[Route]]:
    """The route of what a metric and the loss determine."""
    return lambda model, small: [Route(ISOMETRY, (Claim("model"), Claim("metric", metric)))]


EUCLIDEAN: Units = lambda params: jax.tree.map(jnp.ones_like, params)
ADAPTIVE: Units = lambda params: params
BY_ARRAY: Units = lambda params: jax.tree.map(lambda w: jnp.full_like(w, jnp.linalg.norm(w)), params)


def _trace(units: Units) -> Callable[[MeasuredNetwork], Estimated]:
    """The trace of the Hessian where every parameter has a unit: exactly, or from random signs (Hutchinson)."""

    def value(subject: MeasuredNetwork) -> Estimated:
        scale = units(subject.params)
        flat, back = ravel_pytree(scale)
        if flat.size <= EXACT:
            return Estimated(float(subject.forms(jax.vmap(back)(jnp.diag(flat))).sum()))
        draw = np.random.default_rng(subject.seed)
        signs = lambda count: jnp.asarray(draw.choice([-1.0, 1.0], (count, flat.size)), flat.dtype)
        return _mean(subject, lambda count: jax.vmap(back)(flat * signs(count)), flat.size)

    return value


def _mean(subject: MeasuredNetwork, drawn: Callable[[int], Any], size: int) -> Estimated:
    """The mean of second derivatives along random vectors, with three standard errors."""
    together = max(1, min(PROBES, ROOM // size))
    found = np.concatenate([subject.forms(drawn(together)) for _ in range(-(-PROBES // together))])
    return Estimated(float(found.mean()), 3 * float(found.std(ddof=1)) / len(found) ** 0.5)


def _largest(subject: MeasuredNetwork) -> Estimated:
    found = spectrum(
        subject.loss, subject.params, k=1, which="top", batch=subject.batch, microbatch=min(TOGETHER, subject.count),
        key=subject.seed,
    )  # fmt: skip
    return Estimated(float(found.values[0]))


TRACE = Measure(
    "Hessian trace", "tr H", "Hochreiter and Schmidhuber 1997", ("inputs", "labels"), _trace(EUCLIDEAN),
    isometric("euclidean"),
)  # fmt: skip
LARGEST = Measure(
    "largest Hessian eigenvalue", "max_{|v| = 1} v^T H v", "Keskar and others 2017", ("inputs", "labels"), _largest,
    isometric("euclidean"),
)  # fmt: skip
ADAPTIVE_TRACE = Measure(
    "adaptive Hessian trace", "sum_i theta_i^2 H_ii", "Kwon and others 2021", ("inputs", "labels"), _trace(ADAPTIVE),
    isometric(adaptive),
)  # fmt: skip
ARRAY_TRACE = Measure(
    "array-normalised Hessian trace", "sum_l |theta_l|^2 tr H_ll", "Rangamani and others 2019", ("inputs", "labels"),
    _trace(BY_ARRAY), isometric(by_array),
)  # fmt: skip
QUOTIENT_TRACE = Measure(
    "quotient Hessian trace", "tr H on the horizontal space, in an invariant metric", "quotax",
    ("inputs", "labels", "space"), lambda subject: _on_quotient(subject),
    lambda model, small: [
        Route(
            "isometries that keep the loss keep its Riemannian Hessian, in the quotient by this family",
            (Claim("model"), Claim("isometry", "invariant")),
        )
    ],
)  # fmt: skip


def _on_quotient(subject: MeasuredNetwork) -> Estimated:
    if subject.space is None:
        raise ComplexityError(f"`{subject.call}`: a trace on the quotient needs space=, a quotient.")
    found = trace(
        subject.loss, subject.params, space=subject.space, batch=subject.batch, key=subject.seed,
        microbatch=min(TOGETHER, subject.count),
    )  # fmt: skip
    return Estimated(found.value, 3 * found.standard_error)


# --- relative flatness


def relative_flatness(array: str, rows: int = 0) -> Measure:
    """The relative flatness of one matrix, whose axis `rows` counts its outputs.

    >>> print(relative_flatness("W1"))
    relative flatness of W1: sum_{s s'} <w_s, w_s'> tr H_{s s'} (Petzka and others 2021)
    """

    def matrix(tree: Tree) -> Tree:
        found = by_name(tree).get(array)
        if found is None or jnp.ndim(found) != 2:
            raise ComplexityError(
                f"the relative flatness of {array!r} needs a matrix of this name, of {', '.join(by_name(tree))}."
            )
        return found if rows == 0 else found.T

    place = lambda tree, v: with_leaves(tree, {array: v if rows == 0 else v.T})

    def value(subject: MeasuredNetwork) -> Estimated:
        W = matrix(subject.params)
        still = jax.tree.map(jnp.zeros_like, subject.params)
        columns = W.shape[1]
        if columns**2 <= EXACT:
            every = jnp.eye(columns**2, dtype=W.dtype).reshape(-1, columns, columns)
            return Estimated(float(subject.forms(jax.vmap(lambda R: place(still, W @ R))(every)).sum()))
        draw = np.random.default_rng(subject.seed)

        def drawn(count: int) -> Tree:
            mixed = jnp.asarray(draw.standard_normal((count, columns, columns)), W.dtype)
            return jax.vmap(lambda R: place(still, W @ R))(mixed)

        return _mean(subject, drawn, sum(leaf.size for leaf in jax.tree.leaves(still)) + columns**2)

    def routes(model: Architecture, small: MeasuredNetwork) -> list[Route]:
        def bends_and_slopes(params: Tree, *inputs: Tree, sizes: Any) -> Tree:
            W = matrix(params)
            net = lambda V: model.call(nest(model.trees.named(place(params, V))), *inputs, sizes=sizes)
            slopes, bends = jax.jacfwd(net)(W), jax.jacfwd(jax.jacfwd(net))(W)
            gram, same = W @ W.T, jnp.eye(W.shape[1], dtype=W.dtype)
            squares = jnp.tensordot(jnp.tensordot(slopes, gram, axes=((-2,), (0,))), slopes, axes=((-2, -1), (-1, -2)))
            return jnp.einsum("...stab,sa,tb->...", bends, gram, same), squares

        lemma = "second derivatives of a loss are those of outputs, and products of their slopes, times its own"
        return [Route(lemma, (Claim("model"), Claim("inputs", bends_and_slopes)))]

    return Measure(
        f"relative flatness of {array}", "sum_{s s'} <w_s, w_s'> tr H_{s s'}", "Petzka and others 2021",
        ("inputs", "labels"), value, routes, functools.partial(relative_flatness, array, rows),
    )  # fmt: skip


def flatness_of_layers(subject: MeasuredNetwork) -> list[Measure]:
    """The relative flatness of every matrix of a chain; of none, where the network is no chain."""
    try:
        layers: tuple[Layer, ...] = layer_chain(subject).layers
    except ComplexityError:
        return []
    return [relative_flatness(layer.name, layer.rows) for layer in dict.fromkeys(layers)]


# --- Fisher and Rao


def _fisher_rao(subject: MeasuredNetwork) -> Estimated:
    t = np.asarray(subject.euler, float).reshape(subject.count, -1)
    f = np.asarray(subject.outputs, float).reshape(subject.count, -1)
    if subject.kind == "values":
        forms = (t**2).sum(1)
    elif subject.kind == "signs":
        p = 1 / (1 + np.exp(-f[:, 0]))
        forms = p * (1 - p) * t[:, 0] ** 2
    else:
        p = np.exp(f - f.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        forms = (p * t**2).sum(1) - (p * t).sum(1) ** 2
    return Estimated(float(forms.mean()) ** 0.5)


def _fisher_rao_routes(model: Architecture, small: MeasuredNetwork) -> list[Route]:
    def along_itself(params: Tree, *inputs: Tree, sizes: Any) -> Tree:
        net = lambda p: model.call(nest(model.trees.named(p)), *inputs, sizes=sizes)
        return jax.jvp(net, (params,), (params,))[1]

    lemma = "it is a function of the outputs and of t = J theta at every example"
    return [Route(lemma, (Claim("model"), Claim("inputs", along_itself)))]


FISHER_RAO = Measure(
    "Fisher-Rao norm", "(theta^T F theta)^{1/2}", "Liang and others 2019", ("inputs", "labels"), _fisher_rao,
    _fisher_rao_routes,
)  # fmt: skip
