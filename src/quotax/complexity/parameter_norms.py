r"""Norms of parameters: of all of them, of layers of a chain, of paths, and the spectral complexity.

The spectral complexity of Bartlett, Foster and Telgarsky (2017, equation 1.2) is, for matrices $A_i$ between
$\rho_i$-Lipschitz functions and references $M_i$ (zero here),

$$R_A = \prod_i \rho_i \|A_i\|_\sigma
\Big( \sum_i \big( \|A_i^T - M_i^T\|_{2,1} / \|A_i\|_\sigma \big)^{2/3} \Big)^{3/2},$$

where $\|A^T\|_{2,1}$ is the sum of the lengths of A's rows. Singular values are functions of $A^T A$, and of $A A^T$:
where one of the two does not change, neither do they, which is how they are proved to be invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.complexity.measure import Measure
from quotax.complexity.networks.layer_chain import Chain, layer_chain
from quotax.complexity.networks.measured_network import MeasuredNetwork, by_name
from quotax.complexity.networks.path_norm import check_paths, path_power
from quotax.complexity.routes import Claim, Estimated, Route
from quotax.declare import Architecture
from quotax.errors import ComplexityError
from quotax.trees import Tree, nest

SMALL = 300
"""Matrices of at most so many rows or columns are decomposed themselves."""
ITSELF = "it is this function of the parameters"


def length(params: Tree) -> Tree:
    """The root of the sum of the squares of all parameters."""
    return jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params)))


def absolutes(params: Tree) -> Tree:
    """The sum of their absolute values."""
    return sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(params))


def _itself(function: Callable[[Tree], Tree]) -> Callable[[Architecture, MeasuredNetwork], list[Route]]:
    return lambda model, small: [Route(ITSELF, (Claim("params", function),), exact=True)]


def _host(function: Callable[[Tree], Tree]) -> Callable[[MeasuredNetwork], Estimated]:
    """A sum over all parameters, in float64."""
    return lambda subject: Estimated(function([np.asarray(a, float) for a in jax.tree.leaves(subject.params)]))


def _away(subject: MeasuredNetwork) -> Estimated:
    if subject.start is None:
        raise ComplexityError(f"`{subject.call}`: the distance from the start needs start=, the parameters there.")
    pairs = zip(jax.tree.leaves(subject.params), jax.tree.leaves(subject.start), strict=True)
    return Estimated(sum(float(np.sum((np.asarray(a, float) - np.asarray(b, float)) ** 2)) for a, b in pairs) ** 0.5)


L2 = Measure(
    "l2 norm", "|theta|", "weight decay", (),
    _host(lambda leaves: sum(float(np.sum(a**2)) for a in leaves) ** 0.5), _itself(length),
)  # fmt: skip
L1 = Measure(
    "l1 norm", "sum |theta_i|", "folklore", (),
    _host(lambda leaves: sum(float(np.sum(np.abs(a))) for a in leaves)),
    _itself(absolutes),
)  # fmt: skip
AWAY = Measure("distance from the start", "|theta - theta_0|", "Dziugaite and Roy 2017", ("start",), _away)


# --- chains


def matrices(subject: MeasuredNetwork) -> tuple[Chain, list[np.ndarray]]:
    """The chain of a network, and its matrices in float64, outputs first."""
    chain = layer_chain(subject)
    return chain, [np.asarray(a, float) for a in chain.matrices(subject.params)]


def spectral(matrix: np.ndarray) -> float:
    """The largest singular value; of a large matrix by its Gram matrix, which loses no digit of the largest."""
    if min(matrix.shape) <= SMALL:
        return float(np.linalg.norm(matrix, 2))
    from scipy.linalg import eigh

    gram = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    return float(eigh(gram, eigvals_only=True, subset_by_index=[len(gram) - 1] * 2)[0]) ** 0.5


def rows(matrix: np.ndarray) -> float:
    """The sum of the lengths of the rows: the (2, 1) norm of the transpose."""
    return float(np.linalg.norm(matrix, axis=1).sum())


def complexity_of(sizes: Sequence[float], distances: Sequence[float], lipschitz: float) -> float:
    """The spectral complexity of spectral norms, (2, 1) distances and the product of Lipschitz constants."""
    if not all(sizes):
        return 0.0
    ratios = sum((b / s) ** (2 / 3) for b, s in zip(distances, sizes, strict=True))
    return lipschitz * float(np.prod(sizes)) * ratios**1.5


def _spectral_product(subject: MeasuredNetwork) -> Estimated:
    return Estimated(float(np.prod([spectral(a) for a in matrices(subject)[1]])))


def _frobenius_product(subject: MeasuredNetwork) -> Estimated:
    return Estimated(float(np.prod([np.linalg.norm(a) for a in matrices(subject)[1]])))


def _spectral_complexity(subject: MeasuredNetwork) -> Estimated:
    chain, found = matrices(subject)
    return Estimated(complexity_of([spectral(a) for a in found], [rows(a) for a in found], chain.lipschitz))


def _in_units(W: Any) -> Tree:
    return W / jnp.sqrt(jnp.sum(W**2))


def _gram(name: str, axis: int, of: Callable[[Tree], Tree]) -> Callable[[Tree], Tree]:
    """`W W^T` (0) or `W^T W` (1) of an array by its name, or of what is made of it."""

    def gram(params: Tree) -> Tree:
        W = of(by_name(params)[name])
        return W @ W.T if axis == 0 else W.T @ W

    return gram


def gram_routes(model: Architecture, small: MeasuredNetwork, rows_too: bool) -> list[Route]:
    """Of every matrix one of its Gram matrices is the same, or it is turned; or so in units of Frobenius norms."""
    chain = layer_chain(small)
    names = dict.fromkeys(layer.name for layer in chain.layers)

    def claims(of: Callable[[Tree], Tree]) -> tuple[Claim | tuple[Claim, ...], ...]:
        def row_lengths(params: Tree) -> Tree:
            return [jnp.sum(jnp.sqrt(jnp.sum(of(W) ** 2, axis=1))) for W in chain.matrices(params)]

        grams = lambda name: (Claim("params", _gram(name, 1, of)), Claim("params", _gram(name, 0, of)))
        each = [(*grams(name), Claim("turns", name)) for name in names]
        return (*each, *([Claim("params", row_lengths)] if rows_too else []))

    plain = "singular values of W are functions of W^T W, and of W W^T, and those of A W B for orthogonal A, B"
    return [
        Route(plain, claims(lambda W: W)),
        Route(f"{plain}, and they are |W|_F times those of W / |W|_F", (_product(chain), *claims(_in_units))),
    ]


def _product(chain: Chain) -> Claim:
    def product(params: Tree) -> Tree:
        found = 1.0
        for W in chain.matrices(params):
            found = found * jnp.sqrt(jnp.sum(W**2))
        return found

    return Claim("params", product)


def _frobenius_routes(model: Architecture, small: MeasuredNetwork) -> list[Route]:
    return [Route(ITSELF, (_product(layer_chain(small)),), exact=True)]


FROBENIUS = Measure(
    "product of Frobenius norms", "prod_i |W_i|_F", "Neyshabur, Tomioka and Srebro 2015", ("inputs",),
    _frobenius_product, _frobenius_routes,
)  # fmt: skip
SPECTRAL = Measure(
    "product of spectral norms", "prod_i |W_i|_sigma", "Lipschitz bounds", ("inputs",), _spectral_product,
    lambda model, small: gram_routes(model, small, rows_too=False),
)  # fmt: skip
SPECTRAL_COMPLEXITY = Measure(
    "spectral complexity", "prod_i rho_i |W_i|_sigma (sum_i (|W_i^T|_{2,1} / |W_i|_sigma)^{2/3})^{3/2}",
    "Bartlett, Foster and Telgarsky 2017", ("inputs",), _spectral_complexity,
    lambda model, small: gram_routes(model, small, rows_too=True),
)  # fmt: skip


# --- paths


def _path_norm(power: int) -> Measure:
    def value(subject: MeasuredNetwork) -> Estimated:
        check_paths(subject, power)
        ones = tuple(jnp.ones(one.shape, one.dtype) for one in subject.one)
        return Estimated(float(path_power(subject.net, subject.params, ones, power)) ** (1 / power))

    def routes(model: Architecture, small: MeasuredNetwork) -> list[Route]:
        def paths(params: Tree, *inputs: Tree, sizes: Any) -> Tree:
            ones = tuple(map(jnp.ones_like, inputs))
            net = lambda p, *x: model.call(nest(model.trees.named(p)), *x, sizes=sizes)
            found = path_power(net, params, ones, power)
            return found if power == 1 else jnp.sqrt(found)

        lemma = "the sum over paths is the network's output at positive weights and ones"
        return [Route(lemma, (Claim("inputs", paths),), exact=True)]

    name = "path norm" if power == 1 else "path norm (squares)"
    formula = "sum over paths of prod |w|" if power == 1 else "(sum over paths of prod w^2)^{1/2}"
    return Measure(name, formula, "Neyshabur, Salakhutdinov and Srebro 2015", ("inputs",), value, routes)


PATHS = _path_norm(1)
PATH_SQUARES = _path_norm(2)
