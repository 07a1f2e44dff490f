r"""Losses averaged over a group that acts on data, and what that makes of them.

A network whose first weights are linear in the data takes back what is done to them, $f(W g^{-1}, g x) = f(W, x)$: an
ordinary action on parameters that moves inputs too, which is proved. Averaged over a whole group, the loss
$\bar L(W) = \sum_g w_g L(W, g x)$ therefore keeps its value under $W \to W h^{-1}$: the sum changes its order. From
that follow, for the gradient by these weights,

$$\nabla \bar L(W h^{-1}) = \nabla \bar L(W)\, h^T, \qquad \langle \nabla \bar L(W), -W A \rangle = 0$$

for an element A of the Lie algebra. On part of an orbit neither holds: averaged over turns from -a to a, what is left
of a component of frequency m is $\sin(m a) / (m a)$, an eigenvalue of $\sum_g w_g\, \rho(g)$.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.artifacts import Certificate
from quotax.checks import finite_params, whole_number
from quotax.data_symmetry.induced_action import proofs_of
from quotax.data_symmetry.representation import Representation, one_group
from quotax.errors import SymmetryError
from quotax.presenting import Result
from quotax.trees import AnyArray, Tree

CALL = "quotax.augmented"
RULES = ("gauss", "circle", "random")


@dataclass(frozen=True, repr=False)
class AugmentationCheck(Result):
    """What was measured of an averaged loss, where proofs say zero for whole groups.

    Attributes:
        invariance: the largest change of the loss under the induced action, over the loss.
        gradient: the largest difference of the gradient at moved weights from the gradient moved, over the gradient.
        field: the cosine of the gradient and the induced field of a continuous group; None for a finite one.
        elements: by how many elements weights were moved.
    """

    invariance: float
    gradient: float
    field: float | None
    elements: int

    def __str__(self) -> str:
        """One readable line."""
        turned = "" if self.field is None else f", cosine with the induced field {self.field:.3g}"
        return f"change of the loss {self.invariance:.3g}, of the gradient {self.gradient:.3g}{turned}"


@dataclass(frozen=True, eq=False, repr=False)
class Augmented(Result):
    """A loss averaged over elements of a group that acts on data: `augmented(params, *data)`.

    jit, grad and vmap apply; elements are taken one after the other, and nothing of one is kept for the gradient of
    the next.

    Attributes:
        reps: what acts on each argument; None leaves it alone.
        generator: the infinitesimal generator whose turns are taken; None for a finite group.
        elements: by argument, the matrices that data are moved by.
        weights: of the elements; their sum is one.
        over: what is averaged over, in words.
        whole: whether that is the whole group, so that the average is invariant.
    """

    loss: Callable[..., Tree] = field(repr=False)
    reps: tuple[Representation | None, ...]
    generator: str | None
    elements: tuple[np.ndarray | None, ...] = field(repr=False)
    weights: np.ndarray = field(repr=False)
    over: str
    whole: bool

    def __call__(self, params: Tree, *data: Tree) -> jax.Array:
        """The averaged loss."""
        arrays = self._given(data)
        moving = [place for place, rep in enumerate(self.reps) if rep is not None]

        @jax.checkpoint
        def one(at: Any) -> jax.Array:
            moved = list(arrays)
            for place, matrix in zip(moving, at[1:], strict=True):
                moved[place] = moved[place] @ matrix.T
            value = self.loss(params, *moved)
            return jnp.asarray(at[0], value.dtype) * value

        stacks = (jnp.asarray(self.elements[place], arrays[place].dtype) for place in moving)
        return jax.lax.map(one, (jnp.asarray(self.weights), *stacks)).sum(0)

    @property
    def mean_element(self) -> np.ndarray:
        r"""$\sum_g w_g \rho(g)$ on the first argument that moves: onto what is invariant, where the group is whole."""
        stack = next(stack for stack in self.elements if stack is not None)
        return np.tensordot(self.weights, stack, 1)

    # --- what is proved, and what is measured

    def proofs(self, architecture: Any, *, reads: Sequence[str] | None = None) -> dict[str, Certificate]:
        """Certificates that a network takes back what the group does to its first input, and that its gradient does.

        `"network"`: f(W g^-1, g x) = f(W, x); `"gradient"`: the same of the derivative of f along a velocity of the
        parameters that is moved as they are, so that gradients of every loss of f's outputs move as covectors do. For
        all invertible matrices where that is so, else for all orthogonal ones or all permutations, if the group's are.

        Args:
            architecture: the network.
            reads: the parameters that are moved, along the axis that they share with the input's last; all that have
                that axis if none are named.
        """
        rep = next(rep for rep in self.reps if rep is not None)
        return proofs_of(architecture, rep, None if reads is None else tuple(reads))

    def check(
        self,
        params: Tree,
        *data: Tree,
        reads: Mapping[str, int],
        writes: Mapping[str, int] | None = None,
        seed: int = 0,
    ) -> AugmentationCheck:
        """How far the averaged loss is from what proofs say of whole groups.

        Args:
            params: where.
            data: the loss's other arguments.
            reads: by the name of a parameter, the axis along which it meets the first argument that moves.
            writes: by the name of a parameter, the axis along which it makes what is compared with the second argument
                that moves, as targets may.
            seed: of the turns by which weights of a continuous group are moved.
        """
        params = finite_params(f"{CALL}(...).check", params)
        named, tree = _by_name(params)
        moving = [rep for rep in self.reps if rep is not None]
        if writes and len(moving) < 2:
            raise SymmetryError(f"`{CALL}(...).check`: writes= {dict(writes)} needs a second argument that moves.")
        roles = [(name, axis, moving[0], True) for name, axis in reads.items()]
        roles += [(name, axis, moving[1], False) for name, axis in (writes or {}).items()]
        for name, axis, rep, _ in roles:
            shape = np.shape(named[name]) if name in named else None
            if shape is None or not -len(shape) <= axis < len(shape) or shape[axis] != rep.dim:
                raise SymmetryError(
                    f"`{CALL}(...).check`: {name!r} needs an axis {axis} of length {rep.dim}, as {rep} has; "
                    + (f"its shape is {shape}." if shape is not None else f"there are {', '.join(named)}.")
                )
        value = jax.jit(jax.value_and_grad(lambda p: self(p, *data)))
        here, slope = value(params)
        slopes = _by_name(slope)[0]
        size = lambda arrays: float(np.sqrt(sum(float(np.sum(np.square(np.asarray(a)))) for a in arrays)))
        scale = size(slopes[name] for name, *_ in roles)
        draw = np.random.default_rng(seed)
        names = [self.generator] if self.generator else list(moving[0].names[0])
        times = draw.uniform(-np.pi, np.pi, 3) if self.generator else [1.0]
        change, off = 0.0, 0.0
        for element, time in itertools.product(names, times):
            moved, covector = dict(named), {}
            for name, axis, rep, back in roles:
                matrix = rep.element(element, time)
                inverse = rep.element(element, -time) if self.generator else np.linalg.inv(matrix)
                there, contra = (inverse, matrix.T) if back else (matrix.T, inverse)
                moved[name] = _along(named[name], there, axis)
                covector[name] = _along(slopes[name], contra, axis)
            other, turned = value(jax.tree.unflatten(tree, list(moved.values())))
            change = max(change, abs(float(other - here)))
            turned = _by_name(turned)[0]
            off = max(off, size(np.asarray(turned[name]) - np.asarray(covector[name]) for name in covector))
        cosine = None
        if self.generator:
            velocities = {}
            for name, axis, rep, back in roles:
                A = np.array(rep.matrix(self.generator).tolist(), float)
                velocities[name] = np.asarray(_along(named[name], -A if back else A.T, axis))
            along = sum(float(np.sum(np.asarray(slopes[name]) * v)) for name, v in velocities.items())
            cosine = abs(along) / max(scale * size(velocities.values()), np.finfo(float).tiny)
        tiny = np.finfo(float).tiny
        return AugmentationCheck(
            change / max(abs(float(here)), tiny), off / max(scale, tiny), cosine, len(names) * len(times)
        )

    def __str__(self) -> str:
        """One readable line."""
        return f"a loss averaged over {self.over}: {'invariant' if self.whole else 'part of the group'}"

    def _given(self, data: tuple[Tree, ...]) -> list[Tree]:
        if len(data) < len(self.reps):
            raise SymmetryError(
                f"`{CALL}`: the loss is averaged over {len(self.reps)} arguments after the parameters, got {len(data)}."
            )
        arrays = [jnp.asarray(x) if place < len(self.reps) else x for place, x in enumerate(data)]
        for place, rep in enumerate(self.reps):
            if rep is not None and (arrays[place].ndim == 0 or arrays[place].shape[-1] != rep.dim):
                raise SymmetryError(
                    f"`{CALL}`: {rep} acts on vectors of length {rep.dim} along the last axis, and argument "
                    f"{place + 1} after the parameters has the shape {arrays[place].shape}."
                )
            if rep is not None and not jnp.issubdtype(arrays[place].dtype, jnp.floating):
                arrays[place] = arrays[place].astype(float)
        return arrays


def _by_name(params: Tree) -> tuple[dict[str, Tree], Any]:
    leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}, tree


def _along(array: AnyArray, matrix: np.ndarray, axis: int) -> jax.Array:
    """An array times a matrix from the right, along an axis."""
    array = jnp.asarray(array)
    return jnp.moveaxis(jnp.moveaxis(array, axis, -1) @ jnp.asarray(matrix, array.dtype), -1, axis)


def augmented(
    loss: Callable[..., Tree],
    *reps: Representation | None,
    generator: str | None = None,
    times: tuple[float, float] | None = None,
    nodes: int = 32,
    rule: str = "gauss",
    key: Any = None,
    most: int = 6000,
) -> Augmented:
    """A loss averaged over a group that acts on its data.

    Args:
        loss: `loss(params, *data)`.
        reps: for each of the data in order, what acts on vectors along its last axis, or None for what does not move;
            of one group, if there are several.
        generator: the infinitesimal generator of the turns that are taken, where there is more than one.
        times: turns of a continuous group from one time to another; a finite group is averaged over all its elements.
        nodes: how many turns.
        rule: `"gauss"`: Gauss and Legendre's nodes and weights; `"circle"`: equal ones of a whole period, that ends
            where it began; `"random"`: turns drawn from the interval.
        key: a JAX key that draws them.
        most: a finite group of more elements is refused.

    Example:
        >>> import jax.numpy as jnp, quotax as qx
        >>> loss = lambda w, x: jnp.mean((x @ w) ** 3)
        >>> total = augmented(loss, qx.Representation.shifts(3))
        >>> w, x = jnp.array([1.0, 0.0, 2.0]), jnp.array([[1.0, 2.0, 0.0]])
        >>> float(total(w, x)), float(total(jnp.roll(w, 1), x)), float(loss(w, x))
        (43.0, 43.0, 1.0)
    """
    moving = [rep for rep in reps if rep is not None]
    for rep in moving:
        if not isinstance(rep, Representation):
            raise SymmetryError(f"`{CALL}` takes a `quotax.Representation` for each of the data, or None; got {rep!r}.")
    if not callable(loss) or not moving:
        raise SymmetryError(
            f"`{CALL}(loss, rep)` needs a loss of (params, *data) and what acts on the data, got {loss!r} and {reps!r}."
        )
    for other in moving[1:]:
        one_group(CALL, moving[0], other)
    lie = moving[0].names[1]
    if times is None and generator is None and moving[0].finite:
        together = functools.reduce(lambda a, b: a + b, moving).elements(most)
        ends = np.cumsum([0, *(rep.dim for rep in moving)])
        found = iter([together[:, a:b, a:b] for a, b in itertools.pairwise(ends)])
        stacks = tuple(None if rep is None else next(found) for rep in reps)
        share = np.full(len(together), 1 / len(together))
        over = f"all {len(together)} elements of {moving[0]}"
        return Augmented(loss, reps, None, stacks, share, over, True)
    if times is None or (generator is None and len(lie) != 1) or (generator is not None and generator not in lie):
        known = f"its infinitesimal generators are {', '.join(lie)}" if lie else "it has no infinitesimal generators"
        raise SymmetryError(
            f"`{CALL}`: {moving[0]} is averaged over turns of one generator, with times=(from, to); {known}, and "
            f"generator={generator!r}, times={times!r}."
        )
    name = generator or lie[0]
    count = whole_number(SymmetryError, CALL, "nodes", nodes, 1)
    turns, share = _turns(times, count, rule, key)
    stack = lambda rep: np.stack([rep.element(name, turn) for turn in turns])
    stacks = tuple(None if rep is None else stack(rep) for rep in reps)
    whole = rule == "circle"
    if whole:
        off = max(np.abs(rep.element(name, times[1] - times[0]) - np.eye(rep.dim)).max() for rep in moving)
        if off > 1e-9:
            raise SymmetryError(
                f"`{CALL}`: rule='circle' needs a whole period, and {name!r} is {off:.3g} away from where it began "
                f"after times={times!r}; rule='gauss' averages over part of an orbit."
            )
    over = f"{count} turns ({rule}) of {name!r} from {times[0]:g} to {times[1]:g}"
    return Augmented(loss, reps, name, stacks, share, over, whole)


def _turns(times: tuple[float, float], count: int, rule: str, key: Any) -> tuple[np.ndarray, np.ndarray]:
    low, high = (float(t) for t in times)
    if rule not in RULES or not np.isfinite([low, high]).all() or not low < high:
        raise SymmetryError(
            f"`{CALL}` needs times=(from, to) with from < to and rule= one of {', '.join(RULES)}; got {times!r} and "
            f"{rule!r}."
        )
    if rule == "random":
        if key is None:
            raise SymmetryError(f"`{CALL}`: rule='random' draws turns by key=, as in key=jax.random.key(0).")
        return np.asarray(jax.random.uniform(key, (count,), minval=low, maxval=high), float), np.full(count, 1 / count)
    if rule == "circle":
        return low + (high - low) * np.arange(count) / count, np.full(count, 1 / count)
    points, weights = np.polynomial.legendre.leggauss(count)
    return low + (high - low) * (points + 1) / 2, weights / 2
