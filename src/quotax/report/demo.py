"""`quotax demo`: two networks trained on scikit-learn's digits, their symmetries, and sharpness on the quotient."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.artifacts import Certificate
from quotax.declare import Architecture, Network, architecture
from quotax.derive import SymmetryGroup
from quotax.errors import MetricWarning
from quotax.geometry import QuotientSpace
from quotax.pipeline import derive, quotient, verify
from quotax.presenting.tables import table
from quotax.sharpness import sharpness
from quotax.symmetry import GL, PositiveDiagonal, Symmetry, Translation
from quotax.trees import Tree

RADIUS = 0.5
"""Of the balls, in the parameters' own units: a few per cent of the trained parameters' norm."""

STRETCH = 0.5
"""Of the random group element that moves along the orbit: standard deviation of its logarithm's coordinates."""


@architecture(params={"W1": "h x", "b1": "h", "W2": "y h", "b2": "y"}, inputs={"x": "x"})
def relu_network(p: Tree, x: jax.Array) -> jax.Array:
    """One hidden layer, pixels in, logits out."""
    return jax.nn.log_softmax(p["W2"] @ jax.nn.relu(p["W1"] @ x + p["b1"]) + p["b2"])


@architecture(
    params={
        "E": "d pixel",
        "P": "row d",
        "Wq": "head k d",
        "Wk": "head k d",
        "Wv": "head v d",
        "Wo": "d head v",
        "W": "y d",
        "b": "y",
    },
    inputs={"x": "row pixel"},
)
def attention_model(p: Tree, x: jax.Array) -> jax.Array:
    """One attention layer over the rows of an image, a residual connection, and a softmax head over their mean."""
    h = x @ p["E"].T + p["P"]
    q, k, v = (jnp.einsum("td,hkd->htk", h, p[name]) for name in ("Wq", "Wk", "Wv"))
    weights = jax.nn.softmax(jnp.einsum("htk,hsk->hts", q, k) / q.shape[-1] ** 0.5)
    h = h + jnp.einsum("hts,hsv,dhv->td", weights, v, p["Wo"])
    return jax.nn.log_softmax(p["W"] @ jnp.mean(h, 0) + p["b"])


HEAD_SHIFTS = (
    Symmetry("head weights", Translation("d"), {"W": "W + g"}),
    Symmetry("head bias", Translation(), {"b": "b + g"}),
)

RELU_SYMMETRIES = (
    Symmetry("scale", PositiveDiagonal("h"), {"W1": "g @ W1", "b1": "g @ b1", "W2": "W2 @ inv(g)"}),
    Symmetry("head weights", Translation("h"), {"W2": "W2 + g"}),
    Symmetry("head bias", Translation(), {"b2": "b2 + g"}),
)

ATTENTION_SYMMETRIES = (
    Symmetry(
        "query-key",
        GL("k", each="head"),
        {"Wq[head,k,d]": "g[head,k,l] Wq[head,l,d]", "Wk[head,k,d]": "inv(g)[head,l,k] Wk[head,l,d]"},
    ),
    Symmetry(
        "value-output",
        GL("v", each="head"),
        {"Wv[head,v,d]": "g[head,v,l] Wv[head,l,d]", "Wo[d,head,v]": "inv(g)[head,l,v] Wo[d,head,l]"},
    ),
    *HEAD_SHIFTS,
)


@dataclass(frozen=True)
class Study:
    """A trained network and what was found out about it."""

    title: str
    found: SymmetryGroup
    space: QuotientSpace
    certificates: tuple[Certificate, ...]
    accuracy: float
    loss: float
    along: float
    here: tuple[float, float, float]
    there: tuple[float, float, float]
    drift: float


def demonstrate(write: Callable[[str], None] = print, progress: Callable[[str], None] = lambda line: None) -> None:
    """Run the demonstration: tables go to `write`, a line for each long step to `progress`."""
    start = time.perf_counter()
    train, test = _digits()
    pixels = train[0].reshape(-1, 64), train[1]
    wide = relu_network.at(x=64, h=32, y=10)
    deep = attention_model.at(pixel=8, row=8, d=16, head=2, k=8, v=8, y=10)
    # Training waits for XLA and deriving for Python: side by side they take the time of the longer.
    with ThreadPoolExecutor(max_workers=1) as trainer:
        runs = [
            trainer.submit(_trained, title, net, data, progress)
            for title, net, data in (("ReLU network", wide, pixels), ("attention", deep, train))
        ]
        groups = [_proved("ReLU network", relu_network, RELU_SYMMETRIES, progress)]
        groups.append(_proved("attention", attention_model, ATTENTION_SYMMETRIES, progress))
        studies = [_study(run.result(), group, test, progress) for run, group in zip(runs, groups, strict=True)]
    write("What `derive` finds in the models without being told, each family proved:\n")
    write(_found_table(studies))
    write("\nThe symmetries that the quotient divides by, each proved for all parameters, inputs and group elements:\n")
    write(_symmetry_table(studies))
    write("\nThe quotient: gradients are orthogonal to the orbits\n")
    write(_quotient_table(studies))
    write(f"\nSharpness at radius {RADIUS}: the largest rise of the loss in the ball, before and after the move\n")
    write(_sharpness_table(studies))
    write(
        "\nS_flat <= S_full: the horizontal Euclidean ball is contained in the full one. The move leaves the function"
        "\nalone, and the loss with it, yet changes both: the Euclidean metric is not invariant under scalings and GL,"
        "\nso neither number is a property of the function. S_quot is, the ball of the invariant metric: it is the same"
        "\nat both places."
    )
    write(f"\n{time.perf_counter() - start:.0f} s")


def _digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    images, labels = (bunch.images / 16.0).astype(np.float32), bunch.target.astype(np.int32)
    return (images[:1347], labels[:1347]), (images[1347:], labels[1347:])


@dataclass(frozen=True)
class Trained:
    """A network, its parameters after training, and the loss that was trained, with its gradient."""

    title: str
    net: Network
    data: tuple[jax.Array, jax.Array]
    loss: Callable[[Tree, Tree], jax.Array]
    rising: Callable[[Any, Any], Any]
    params: Tree


@dataclass(frozen=True)
class Proved:
    """What `derive` finds in a model, and the symmetries that the quotient divides by, with their certificates."""

    found: SymmetryGroup
    symmetries: tuple[Symmetry, ...]
    certificates: tuple[Certificate, ...]


def _trained(
    title: str, net: Network, digits: tuple[np.ndarray, np.ndarray], progress: Callable[[str], None]
) -> Trained:
    train = jnp.asarray(digits[0]), jnp.asarray(digits[1])
    loss = _cross_entropy(net)
    rising = jax.jit(jax.value_and_grad(loss))
    progress(f"{title}: training {net.num_parameters:,} parameters on {len(train[1])} images")
    params = jax.block_until_ready(_train(loss, net.init(jax.random.key(0)), train))
    return Trained(title, net, train, loss, rising, params)


def _proved(
    title: str, model: Architecture, symmetries: tuple[Symmetry, ...], progress: Callable[[str], None]
) -> Proved:
    progress(f"{title}: deriving the symmetries")
    found = derive(model, progress=lambda line: None)
    certificates = []
    for symmetry in symmetries:
        progress(f"{title}: proving {symmetry.name} ({symmetry.group})")
        certificates.append(verify(model, symmetry))
    return Proved(found, symmetries, tuple(certificates))


def _study(run: Trained, group: Proved, test: tuple[np.ndarray, np.ndarray], progress: Callable[[str], None]) -> Study:
    net, params, loss = run.net, run.params, run.loss
    images = test[0].reshape(-1, *run.data[0].shape[1:])
    outputs = np.asarray(jax.jit(jax.vmap(net, (None, 0)))(params, images))
    accuracy = np.mean(outputs.argmax(-1) == test[1])
    space = quotient(net, group.symmetries, "invariant", verified=group.certificates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MetricWarning)  # the table shows what it warns of
        flat = quotient(net, group.symmetries, "euclidean", verified=group.certificates)
    moved = space.act(params, space.random_element(jax.random.key(1), scale=STRETCH))
    point = space.at(params)
    before, slope = run.rising(params, run.data)
    gradient = point.sharp(slope)
    along = point.norm(point.vertical(gradient)) / point.norm(gradient)
    values = []
    for place, at in (("the trained parameters", params), ("moved along the orbit", moved)):
        progress(f"{run.title}: sharpness at {place}")
        quot = sharpness(loss, at, RADIUS, batch=run.data, space=space)
        horizontal = sharpness(loss, at, RADIUS, batch=run.data, space=flat)
        # What the smaller ball holds, the larger one holds too: its search may start there.
        full = sharpness(loss, at, RADIUS, batch=run.data, start=horizontal.perturbation)
        values.append((full.value, horizontal.value, quot.value))
    before, after = float(before), float(run.rising(moved, run.data)[0])
    return Study(
        run.title,
        group.found,
        space,
        group.certificates,
        float(accuracy),
        before,
        float(along),
        values[0],
        values[1],
        abs(after - before) / before,
    )


def _cross_entropy(net: Network) -> Callable[[Tree, Tree], jax.Array]:
    def loss(params: Tree, batch: Tree) -> jax.Array:
        images, labels = batch
        log_probabilities = jax.vmap(net, (None, 0))(params, images)
        return -jnp.mean(jnp.take_along_axis(log_probabilities, labels[:, None], axis=-1))

    return loss


def _train(
    loss: Callable[[Tree, Tree], jax.Array], params: Tree, data: Any, steps: int = 400, rate: float = 3e-3
) -> Tree:
    """Full-batch Adam as one program, which needs no Python between its steps."""

    def step(data: Any, state: Tree, i: jax.Array) -> tuple[Tree, None]:
        params, first, second = state
        slope = jax.grad(loss)(params, data)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, second, slope)
        scale = rate * (1 - 0.999**i) ** 0.5 / (1 - 0.9**i)
        params = jax.tree.map(lambda p, m, v: p - scale * m / (v**0.5 + 1e-8), params, first, second)
        return (params, first, second), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    run = jax.jit(lambda start, data: jax.lax.scan(partial(step, data), start, jnp.arange(1.0, steps + 1))[0][0])
    return run((params, zeros, zeros), data)


def _found_table(studies: list[Study]) -> str:
    rows = [
        [study.title, symmetry.name, str(symmetry.group), certificate.status, certificate.scope]
        for study in studies
        for symmetry, certificate in (*study.found.proved, *study.found.discrete_proved)
    ]
    return table(["network", "symmetry", "group", "status", "where"], rows)


def _symmetry_table(studies: list[Study]) -> str:
    rows = [
        [study.title, family.name, str(family.group), str(family.dimension), certificate.status, certificate.scope]
        for study in studies
        for family, certificate in zip(study.space.families, study.certificates, strict=True)
    ]
    return table(["network", "symmetry", "group", "dim", "status", "where"], rows)


def _quotient_table(studies: list[Study]) -> str:
    rows = [
        [
            study.title,
            f"{study.space.network.num_parameters:,}",
            f"{study.space.fiber_dim}",
            f"{study.space.dim:,}",
            f"{study.loss:.4f}",
            f"{100 * study.accuracy:.1f} %",
            f"{study.along:.1e}",
        ]
        for study in studies
    ]
    return table(
        ["network", "parameters", "orbit", "quotient", "loss", "test accuracy", "|vertical gradient|/|gradient|"], rows
    )


def _sharpness_table(studies: list[Study]) -> str:
    rows = []
    for study in studies:
        rows.append([study.title, "trained", f"{study.loss:.4f}", *(f"{value:.4f}" for value in study.here)])
        rows.append(
            ["", f"moved (loss changes by {study.drift:.0e})", "same", *(f"{value:.4f}" for value in study.there)]
        )
    return table(["network", "where on the orbit", "loss", "S_full", "S_flat", "S_quot"], rows)
