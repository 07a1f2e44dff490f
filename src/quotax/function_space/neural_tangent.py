r"""The neural tangent kernel: how training on some outputs moves all of them.

Gradient flow $\dot\theta = -G^{-1} dL$ of the squared loss $L = \tfrac12 |f(\theta) - y|^2$ moves the errors
$e = f(\theta) - y$ by $\dot e = -K e$ with

$$K(\theta) = J \, G^{-1} J^T ,$$

$J$ the Jacobian of all outputs and $G$ the metric, the identity unless a space says otherwise. While $K$ stays what it
is, the error along its eigenvector of eigenvalue $\lambda$ decays as $e^{-\lambda t}$. It stays in models that are
linear in their parameters, and in the limit of infinite width in the scaling $1/\sqrt{h}$ of outputs; elsewhere this is
what holds at first.

Along orbits the outputs do not change: $J P_V = 0$, so that $K = J P_H G^{-1} J^T$, and gradient flow on the quotient
has the same kernel. In the Euclidean metric $K$ differs from one representative to another, in an invariant one not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from quotax.checks import one_output
from quotax.errors import ConvergenceError, FunctionSpaceError
from quotax.function_space.coordinates import levelled, raised
from quotax.function_space.jacobian import Jacobian
from quotax.function_space.refusals import examples, like_outputs, params_of, point_of, whole
from quotax.function_space.row_space import WRITTEN
from quotax.presenting import Result
from quotax.programs.threads import one_thread
from quotax.trees import AnyPoint, AnySpace, Tree

CALL = "quotax.tangent_kernel"
DENSE = 4096
"""Up to so many outputs everything is taken from the matrix; beyond, from products, unless the matrix is asked for."""
MOST = 30_000
"""A matrix of more outputs is refused."""
STEPS = 400
"""Products that an exponential may take, where there is no matrix."""


@dataclass(frozen=True, repr=False)
class TangentKernel(Result):
    """The kernel `K = J G^-1 J^T` of a network on a batch of examples.

    Attributes:
        jacobian: the linear map J: `push(v)`, `pull(w)`.
        space: the quotient, if there is one.
        point: the quotient's factored point.
        vertical_share: the largest `|P_V G^-1 J^T w| / |G^-1 J^T w|` among random w: zero where orbits do not change
            the outputs. None without a space.
        gap: the largest `|K w - J P_H G^-1 J^T w| / |K w|`, its square in effect: by how much the two kernels differ.
    """

    jacobian: Jacobian = field(repr=False, compare=False)
    space: AnySpace = field(default=None, repr=False, compare=False)
    point: AnyPoint = field(default=None, repr=False, compare=False)
    vertical_share: float | None = None
    gap: float | None = None

    _also = ("shape", "parameters")

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return self.jacobian.columns

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all outputs, examples first: what `product` takes and returns."""
        return self.jacobian.shape

    @property
    def size(self) -> int:
        """The number of outputs of all examples: the rows of `matrix`."""
        return self.jacobian.rows

    def product(self, w: Tree) -> jax.Array:
        """`K w` for an array of the shape of the outputs: two derivatives of every example, at the memory of a few."""
        return self._product(like_outputs("kernel.product(w)", "w", w, self.shape, self.jacobian.output.dtype))

    @functools.cached_property
    def matrix(self) -> np.ndarray:
        """The kernel written out, outputs in the order of their array: made at first use, in blocks."""
        if self.size > MOST:
            raise FunctionSpaceError(
                f"`kernel.matrix` would have {self.size:,} rows ({self.shape[0]:,} examples of "
                f"{self.jacobian.outputs_each} outputs), more than {MOST:,}; `kernel.product(w)`, `kernel.modes(k)` "
                f"and `kernel.decay(errors, times)` need no matrix."
            )
        return self.jacobian.gram(point=self.point)

    def against(self, inputs: Tree) -> np.ndarray:
        """The kernel between other examples and these, `J' G^-1 J^T`: how training on these moves those."""
        call = "kernel.against(inputs)"
        arrays = examples(call, "inputs", inputs)
        output = one_output(FunctionSpaceError, call, "inputs", self.jacobian.net, self.jacobian.params, arrays)
        other = Jacobian(self.jacobian.net, self.jacobian.params, arrays, output)
        if max(other.rows, self.size) > MOST:
            raise FunctionSpaceError(
                f"`{call}` would have {other.rows:,} x {self.size:,} entries: pass fewer examples."
            )
        return other.gram(self.jacobian, self.point)

    def modes(self, k: int | None = None) -> Modes:
        """Eigenvalues, descending, and eigenvectors shaped like the outputs: all of them, or the k largest."""
        count = self.size if k is None else min(whole("kernel.modes(k)", "k", k, 1), self.size)
        if count < self.size and self.size > DENSE and "matrix" not in self.__dict__:
            return self._largest(count)
        values, columns = self._spectrum
        vectors = columns.T.reshape(-1, *self.shape)[:count]
        return Modes(values[:count], vectors)

    @one_thread
    def null_space(self) -> NullSpace:
        """What the outputs of these examples do not see: directions along the orbit, and others.

        Counted by singular values of J, written out where that is small; else by the square roots of the kernel's
        eigenvalues, which keep half of the digits.
        """
        jacobian, most = self.jacobian, min(self.size, self.parameters)
        if self.size * self.parameters <= WRITTEN:
            values = np.linalg.svd(jacobian.coordinates(), compute_uv=False)
            floor = max(self.size, self.parameters) * jacobian.eps
        else:
            values = np.sqrt(np.maximum(self._spectrum[0][:most], 0))
            floor = (8 * self.size * jacobian.eps) ** 0.5
        shares = values / values[0] if values[0] > 0 else np.zeros(most)
        rank = int(np.sum(shares > floor))
        orbit = None if self.point is None else int(self.point.rank)
        kept, dropped = (float(shares[i]) if 0 <= i < most else 0.0 for i in (rank - 1, rank))
        clear = not values[0] > 0 or (rank > 0 and kept > 100 * max(dropped, floor / 100))
        return NullSpace(self.parameters, self.size, rank, orbit, kept, dropped, clear)

    def decay(self, errors: Any, times: Any) -> np.ndarray:
        """`exp(-K t)` applied to errors, for every time: what gradient flow leaves of them while K stays what it is.

        The loss is half of the sum of squares over examples and outputs. Of `c` times that, a time counts `c` times:
        steps of size `eta` on the mean over `n` numbers are `2 eta / n` each.
        """
        call = "kernel.decay(errors, times)"
        start = np.asarray(like_outputs(call, "errors", errors, self.shape, self.jacobian.output.dtype), float)
        at = np.asarray(times, float)
        if not np.isfinite(at).all() or (at < 0).any():
            raise FunctionSpaceError(f"`{call}` needs times that are finite and not negative, got {times!r}.")
        if self.size <= DENSE or "matrix" in self.__dict__:
            values, columns = self._spectrum
            left = np.exp(-np.multiply.outer(at, np.maximum(values, 0))) * (start.ravel() @ columns)
            return (left @ columns.T).reshape(*at.shape, *self.shape)
        flat = _exponentials(lambda w: self._flat(w), start.ravel(), at.ravel(), call)
        return flat.reshape(*at.shape, *self.shape)

    def __str__(self) -> str:
        """One readable line."""
        line = (
            f"tangent kernel of {self.shape[0]:,} examples with {self.jacobian.outputs_each} outputs each, "
            f"{self.parameters:,} parameters"
        )
        if self.gap is None:
            return line
        return f"{line}\nJ G^-1 J^T and J P_H G^-1 J^T differ by {self.gap:.1e} ({self.space.metric_name} metric)"

    # --- inside

    def _product(self, w: jax.Array) -> jax.Array:
        covector = self.jacobian.pull(w)
        return self.jacobian.push(covector if self.point is None else self.point.sharp(covector))

    def _flat(self, w: np.ndarray) -> np.ndarray:
        dtype = self.jacobian.output.dtype
        return np.asarray(self._product(jax.numpy.asarray(w.reshape(self.shape), dtype)), float).ravel()

    @functools.cached_property
    @one_thread
    def _spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        values, columns = np.linalg.eigh(np.asarray(self.matrix, float))
        return values[::-1], columns[:, ::-1]

    def _largest(self, count: int) -> Modes:
        from scipy.sparse.linalg import LinearOperator, eigsh

        operator = LinearOperator((self.size, self.size), matvec=self._flat, dtype=float)
        start = np.random.default_rng(0).standard_normal(self.size)
        values, columns = eigsh(operator, count, v0=start, tol=8 * self.jacobian.eps)
        order = np.argsort(values)[::-1]
        return Modes(values[order], columns[:, order].T.reshape(-1, *self.shape))


@dataclass(frozen=True, repr=False)
class Modes(Result):
    """Eigenvalues of a kernel, descending, and eigenvectors of length 1, each shaped like the outputs."""

    values: np.ndarray
    vectors: np.ndarray

    def of(self, errors: Any) -> np.ndarray:
        """The components of errors along the modes."""
        flat = np.asarray(errors, float).reshape(-1)
        return self.vectors.reshape(len(self.values), -1) @ flat


@dataclass(frozen=True, repr=False)
class NullSpace(Result):
    """The directions of parameter space in which no output of the examples changes, to first order.

    Attributes:
        parameters: the dimension of the whole space.
        outputs: the rows of the Jacobian, so the most that its rank can be.
        rank: its numerical rank.
        orbit: the dimension of the orbit, if there is a space: those of the directions that symmetries explain.
        kept: the smallest singular value that counts, over the largest.
        dropped: the largest that does not.
        clear: whether these lie far apart; where they do not, the rank is a matter of rounding.
    """

    parameters: int
    outputs: int
    rank: int
    orbit: int | None
    kept: float
    dropped: float
    clear: bool

    _also = ("dim", "unexplained", "enough")

    @property
    def dim(self) -> int:
        """Its dimension."""
        return self.parameters - self.rank

    @property
    def unexplained(self) -> int | None:
        """What no symmetry explains: the surplus of `found.audit`, and directions that only these examples miss."""
        return None if self.orbit is None else self.dim - self.orbit

    @property
    def enough(self) -> bool:
        """Whether there were more outputs than the rank, so that more examples of the kind may find no more."""
        return self.outputs > self.rank

    def __str__(self) -> str:
        """One readable line."""
        line = f"{self.dim} of {self.parameters} directions change none of {self.outputs} outputs"
        if self.orbit is not None:
            line += f": {self.orbit} along the orbit, {self.unexplained} others"
        if not self.clear:
            line += f" (no clear gap: {self.kept:.1e} counts, {self.dropped:.1e} does not)"
        return line + ("" if self.enough else " (there are no more outputs than rank: more examples see more)")


def tangent_kernel(
    net: Callable[..., Tree], params: Tree, inputs: Tree, space: AnySpace | None = None, *, probes: int = 3
) -> TangentKernel:
    """The neural tangent kernel of a network on examples, as a matrix and as an operator.

    Args:
        net: a network, or a function `net(params, x)` of one example; it is mapped over the examples.
        params: a pytree of floating-point arrays.
        inputs: an array whose first axis counts examples, or a tuple of one for each input of the network.
        space: a quotient: the kernel is then that of gradient flow in its metric, and is compared with what is left of
            it among horizontal directions.
        probes: random vectors for that comparison.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> net = lambda p, x: p["a"] @ jnp.tanh(p["W"] @ x)
        >>> params = {"a": jnp.ones(3), "W": jnp.ones((3, 2))}
        >>> kernel = tangent_kernel(net, params, jnp.eye(2))
        >>> print(kernel)
        tangent kernel of 2 examples with 1 outputs each, 9 parameters
        >>> kernel.matrix.round(3)
        array([[2.269, 1.74 ],
               [1.74 , 2.269]], dtype=float32)
    """
    params = params_of(CALL, net, params)
    arrays = examples(CALL, "inputs", inputs)
    output = one_output(FunctionSpaceError, CALL, "inputs", net, params, arrays)
    whole(CALL, "probes", probes, 1)
    jacobian = Jacobian(net, params, arrays, output)
    if space is None:
        return TangentKernel(jacobian)
    point = point_of(CALL, space, params)
    share, gap = _compared(jacobian, point, probes)
    return TangentKernel(jacobian, space, point, share, gap)


def _compared(jacobian: Jacobian, point: AnyPoint, probes: int) -> tuple[float, float]:
    """How much of what is pulled back is vertical, and by how much its kernel differs from the horizontal one."""
    share, gap = 0.0, 0.0
    rng = np.random.default_rng(0)
    for _ in range(probes):
        w = jax.numpy.asarray(rng.standard_normal(jacobian.shape), jacobian.output.dtype)
        covectors = jax.tree.map(lambda leaf: leaf[None], jacobian.pull(w))
        first = lambda tree: jax.tree.map(lambda leaf: leaf[0], tree)
        whole_vector, horizontal = first(raised(point, covectors)), first(levelled(point, covectors))
        less = jax.tree.map(jax.numpy.subtract, whole_vector, horizontal)
        length = float(point.norm(whole_vector))
        share = max(share, float(point.norm(less)) / length if length else 0.0)
        moved, kept = np.asarray(jacobian.push(whole_vector)), np.asarray(jacobian.push(horizontal))
        size = float(np.linalg.norm(moved))
        gap = max(gap, float(np.linalg.norm(moved - kept)) / size if size else 0.0)
    return share, gap


def _exponentials(
    product: Callable[[np.ndarray], np.ndarray], start: np.ndarray, times: np.ndarray, call: str
) -> np.ndarray:
    """`exp(-K t) e` in the Krylov space of e: `|e| V exp(-T t) u_1`, until the last entries of that are nothing."""
    size = float(np.linalg.norm(start))
    if not size or not times.size:
        return np.zeros((times.size, start.size)) + start
    basis, alpha, beta, scale = [start / size], [], [], 0.0
    for step in range(1, min(STEPS, start.size) + 1):
        w = product(basis[-1])
        alpha.append(float(w @ basis[-1]))
        for _ in range(2):
            w = w - np.asarray(basis).T @ (np.asarray(basis) @ w)
        rest = float(np.linalg.norm(w))
        values, columns = np.linalg.eigh(np.diag(alpha) + np.diag(beta, 1) + np.diag(beta, -1))
        small = (np.exp(-np.multiply.outer(times, np.maximum(values, 0))) * columns[0]) @ columns.T
        scale = max(abs(values))
        if rest <= 1e-12 * scale or step == start.size or float(np.abs(small[:, -1]).max()) * rest <= 1e-7 * scale:
            return size * small @ np.asarray(basis)
        beta.append(rest)
        basis.append(w / rest)
    raise ConvergenceError(
        f"`{call}` needs more than {STEPS} products of the kernel for times up to {times.max():g}: times below "
        f"{STEPS**2 / 16 / scale:.3g} are within reach, and `kernel.matrix` has all eigenvalues."
    )
