r"""Curvature of the quotient: above a flat space by the formulas of O'Neill and Gauss, or for any metric.

**Flat.** Let `X, Y, ...` be horizontal at a point where the metric is the Euclidean one, and $V$ the projection to the
orbit. $\beta(X, Y) = D_X (V Y)$ is vertical, and its parts are

- $A_X Y = -\tfrac12(\beta(X, Y) - \beta(Y, X))$, O'Neill's tensor: generators that are skew (rotations) make it;
- $II(X, Y) = -\tfrac12(\beta(X, Y) + \beta(Y, X))$: generators that are symmetric (scalings, half of GL) make it. They
  act by no isometries of the Euclidean metric; what is divided by rotations is then not the whole space but the set $C$
  of balanced representatives, whose normal vectors are the fields of symmetric generators, and $II$ is its second
  fundamental form. This is the quotient in the moving-frame metric, seen at a balanced representative.

Gauss's equation for $C$ and O'Neill's for $C/K$ give together, with $R(X,Y)Z = \nabla_X\nabla_Y Z - \ldots$,
$$\langle R(X,Y)Z, W\rangle = \langle II(Y,Z), II(X,W)\rangle - \langle II(X,Z), II(Y,W)\rangle
  - 2\langle A_X Y, A_Z W\rangle + \langle A_Y Z, A_X W\rangle - \langle A_X Z, A_Y W\rangle,$$
so that $K(X,Y)\,|X\wedge Y|^2 = \langle II(X,X), II(Y,Y)\rangle - |II(X,Y)|^2 + 3|A_X Y|^2$.

**Any metric.** On the affine slice through a point along its horizontal space, the quotient's metric is
$q_\theta(u, v) = \langle h_\theta u, h_\theta v\rangle$, and its curvature that of the slice,
$$\langle R(X,Y)Z, W\rangle = \tfrac12\bigl(D_X D_Z\,q(Y,W) - D_X D_W\,q(Y,Z) - D_Y D_Z\,q(X,W)
  + D_Y D_W\,q(X,Z)\bigr) - \langle\Gamma_{YZ}, \Gamma_{XW}\rangle + \langle\Gamma_{XZ}, \Gamma_{YW}\rangle,$$
with forward derivatives of numbers only. O'Neill's formula
$R(X,Y)Z = \mathrm{hor}\,R^{above}(X,Y)Z + 2 A_Z A_X Y - A_X A_Y Z + A_Y A_X Z$ is another way to the same, and a test.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from quotax.geometry.families.component import Component
from quotax.geometry.linalg.named import Named, add, dot, ravel, unravel
from quotax.geometry.projection import gram, solver
from quotax.geometry.projection.vertical import factors_at, vertical

Parts = tuple[Component, ...]

_REFINEMENTS = 2
"""How often a solution in floating point is repeated on what it left."""


# --- above a flat space


@functools.partial(jax.jit, static_argnums=0)
def flat_tensor(parts: Parts, arrays: Named, x: Named, y: Named, z: Named) -> Named:
    """`R(x, y) z` of the quotient where the metric is Euclidean; only the horizontal parts of the vectors count.

    The families act by isometries, or `arrays` are a balanced representative of self-adjoint families.
    """
    x, y, z = _unstack(jax.vmap(functools.partial(_horizontal, parts, arrays))(_stack(x, y, z)), 3)
    form, skew = _forms(parts, arrays, _stack(y, x, x), _stack(z, z, y))  # of (y, z), (x, z), (x, y)
    (ii_yz, ii_xz, _), (a_yz, a_xz, a_xy) = _unstack(form, 3), _unstack(skew, 3)

    def pairing(w: Named) -> jax.Array:
        w = _horizontal(parts, arrays, w)
        form, skew = _forms(parts, arrays, _stack(x, y, z), _stack(w, w, w))
        (ii_x, ii_y, _), (a_x, a_y, a_z) = _unstack(form, 3), _unstack(skew, 3)
        gauss = dot(ii_yz, ii_x) - dot(ii_xz, ii_y)
        return gauss - 2 * dot(a_xy, a_z) + dot(a_yz, a_x) - dot(a_xz, a_y)

    return jax.grad(pairing)({name: jnp.zeros_like(array) for name, array in z.items()})


@functools.partial(jax.jit, static_argnums=0)
def flat_sectional(parts: Parts, arrays: Named, x: Named, y: Named) -> jax.Array:
    """The sectional curvature of the plane of `x` and `y`, as `flat_tensor`; zero where they span no plane."""
    x, y = _unstack(jax.vmap(functools.partial(_horizontal, parts, arrays))(_stack(x, y)), 2)
    form, skew = _forms(parts, arrays, _stack(x, x, y), _stack(x, y, y))
    (xx, xy, yy), (_, turning, _) = _unstack(form, 3), _unstack(skew, 3)
    value = dot(xx, yy) - dot(xy, xy) + 3 * dot(turning, turning)
    return _over(value, dot(x, x), dot(y, y), dot(x, y))


@functools.partial(jax.jit, static_argnums=0)
def flat_integrability(parts: Parts, arrays: Named, x: Named, e: Named) -> Named:
    r"""O'Neill's tensor above a flat space, $A_x e = \mathrm{ver}\,D_{hx}(he) + \mathrm{hor}\,D_{hx}(ve)$."""
    x = _horizontal(parts, arrays, x)
    # The derivative of the vertical part; that of the horizontal part is its negative.
    change = jax.jvp(lambda a: _vertical(parts, a, e), (arrays,), (x,))[1]
    along = _vertical(parts, arrays, change)
    return {name: change[name] - 2 * along[name] for name in e}


def _vertical(parts: Parts, arrays: Named, v: Named) -> Named:
    return vertical(parts, factors_at(parts, arrays), arrays, v)


def _horizontal(parts: Parts, arrays: Named, v: Named) -> Named:
    along = _vertical(parts, arrays, v)
    return {name: v[name] - along[name] for name in v}


def flat_change(parts: Parts, arrays: Named, x: Named, y: Named) -> Named:
    """`D_x (V y)` for a constant vector `y` that is horizontal at `arrays`.

    From `V = F Gram^-1 F^T` with the fields `F`, affine in the point, and `F^T y = 0`: it is `F Gram^-1 (D_x F)^T y`.
    """
    change = {name: jnp.zeros_like(array) for name, array in arrays.items()}
    nothing = {name: jnp.zeros_like(array) for name, array in x.items()}
    for part in parts:
        factor = solver.factor(part, arrays)
        right = add(part.covelocity(x, y), -1, part.covelocity(nothing, y))
        found = solver.solve(part, factor, arrays, right)
        for _ in range(_REFINEMENTS):
            rest = add(right, -1, gram.apply(part, solver.tensors(part, factor, arrays), arrays, found))
            found = add(found, 1, solver.solve(part, factor, arrays, rest))
        change |= part.velocity(arrays, found)
    return change


def _forms(parts: Parts, arrays: Named, x: Named, y: Named) -> tuple[Named, Named]:
    """`II` and `A` of stacks of pairs: the symmetric and the skew part of the change, negated."""
    both = [{n: jnp.concatenate([u[n], v[n]]) for n in u} for u, v in ((x, y), (y, x))]
    change = jax.vmap(functools.partial(flat_change, parts, arrays))(*both)
    half = {name: jnp.split(array, 2) for name, array in change.items()}
    there, back = ({name: parts[i] for name, parts in half.items()} for i in range(2))
    return _scale(add(there, 1, back), -0.5), _scale(add(there, -1, back), -0.5)


# --- any metric


@dataclass(frozen=True, eq=False)
class Riemannian:
    """A metric on named arrays as functions of the point; compared by identity.

    `flat(arrays, v)` is the covector of a vector, `sharp` its inverse, `horizontal` the projection, orthogonal in the
    metric. All three are linear in their second argument; `flat` and `horizontal` are differentiated twice, forward,
    in the first.
    """

    flat: Callable[[Named, Named], Named]
    sharp: Callable[[Named, Named], Named]
    horizontal: Callable[[Named, Named], Named]


def from_inner(inner: Callable[[Named, Named, Named], jax.Array], parts: Parts) -> Riemannian:
    """The metric of an inner product `inner(arrays, a, b)`, by its matrix: for few parameters."""

    def flat(arrays: Named, v: Named) -> Named:
        return jax.grad(lambda b: inner(arrays, v, b))({name: jnp.zeros_like(array) for name, array in v.items()})

    def matrix(arrays: Named) -> jax.Array:
        basis = jnp.eye(sum(a.size for a in arrays.values()), dtype=jnp.result_type(*arrays.values()))
        rows = jax.vmap(lambda e: ravel(flat(arrays, unravel(arrays, e))))(basis)
        return (rows + rows.T) / 2

    def sharp(arrays: Named, covector: Named) -> Named:
        return unravel(arrays, jnp.linalg.solve(matrix(arrays), ravel(covector)))

    def horizontal(arrays: Named, v: Named) -> Named:
        fields = jnp.concatenate([_fields(part, arrays) for part in parts]) if parts else None
        if fields is None:
            return v
        metric = matrix(arrays)
        # Normal equations of the whitened fields by the pseudo-inverse: stabilisers leave the Gram matrix singular.
        lowered = fields @ metric
        along = jnp.linalg.pinv(lowered @ fields.T, rtol=1e-11, hermitian=True) @ (lowered @ ravel(v))
        return unravel(arrays, ravel(v) - along @ fields)

    return Riemannian(flat, sharp, horizontal)


@functools.partial(jax.jit, static_argnums=0)
def christoffel(metric: Riemannian, arrays: Named, u: Named, v: Named) -> Named:
    r"""$\Gamma(u, v)$: the covariant derivative along `u` of the constant field `v`, in the metric above.

    $2\langle\Gamma(u,v), w\rangle = D_u\langle v,w\rangle + D_v\langle u,w\rangle - D_w\langle u,v\rangle$.
    """
    return metric.sharp(arrays, _on_basis(functools.partial(_first_kind, above(metric), arrays, u, v), arrays))


@functools.partial(jax.jit, static_argnums=0)
def integrability(metric: Riemannian, arrays: Named, x: Named, e: Named) -> Named:
    r"""O'Neill's tensor $A_x e = \mathrm{ver}\,\nabla_{hx}(he) + \mathrm{hor}\,\nabla_{hx}(ve)$."""
    x = metric.horizontal(arrays, x)
    level, change = jax.jvp(lambda a: metric.horizontal(a, e), (arrays,), (x,))
    across = add(change, 1, christoffel(metric, arrays, x, level))
    along = add(christoffel(metric, arrays, x, add(e, -1, level)), -1, change)
    return add(add(across, -1, metric.horizontal(arrays, across)), 1, metric.horizontal(arrays, along))


@functools.partial(jax.jit, static_argnums=0)
def tensor(metric: Riemannian, arrays: Named, x: Named, y: Named, z: Named) -> Named:
    """`R(x, y) z` of the quotient; only the horizontal parts of the vectors count."""
    x, y, z = (metric.horizontal(arrays, v) for v in (x, y, z))
    covector = _on_basis(lambda w: _riemann(metric, arrays, x, y, z, metric.horizontal(arrays, w)), arrays)
    return metric.horizontal(arrays, metric.sharp(arrays, covector))


@functools.partial(jax.jit, static_argnums=0)
def sectional(metric: Riemannian, arrays: Named, x: Named, y: Named) -> jax.Array:
    """The sectional curvature of the quotient, as `tensor`; zero where `x` and `y` span no plane."""
    x, y = metric.horizontal(arrays, x), metric.horizontal(arrays, y)
    flat_x, flat_y = metric.flat(arrays, x), metric.flat(arrays, y)
    value = _riemann(metric, arrays, x, y, y, x)
    return _over(value, dot(flat_x, x), dot(flat_y, y), dot(flat_x, y))


def above(metric: Riemannian) -> Riemannian:
    """The metric itself, with every vector horizontal: `tensor` and `sectional` of it are those of the total space."""
    return Riemannian(metric.flat, metric.sharp, lambda arrays, v: v)


def _riemann(metric: Riemannian, arrays: Named, x: Named, y: Named, z: Named, w: Named) -> jax.Array:
    """`<R(x, y) z, w>` for horizontal vectors at `arrays`."""
    # Batches over the vectors rather than repeated calls: each derivative of the metric is compiled once.
    second = jax.vmap(functools.partial(_second, metric, arrays))
    first = jax.vmap(functools.partial(_first_kind, metric, arrays))
    covectors = _on_basis(lambda v: first(_stack(y, x), _stack(z, z), _stack(v, v)), arrays)
    raised = jax.vmap(lambda g: metric.horizontal(arrays, metric.sharp(arrays, g)))(covectors)
    products = first(_stack(x, y), _stack(w, w), raised)
    terms = second(_stack(x, x, y, y), _stack(z, w, z, w), _stack(y, y, x, x), _stack(w, z, w, z))
    return (terms[0] - terms[1] - terms[2] + terms[3]) / 2 - products[0] + products[1]


def _first_kind(metric: Riemannian, arrays: Named, u: Named, v: Named, w: Named) -> jax.Array:
    """The Christoffel symbol of the first kind of the quotient's inner product, a number."""
    slope = lambda a, b, along: jax.jvp(lambda p: _inner(metric, p, a, b), (arrays,), (along,))[1]
    slopes = jax.vmap(slope)(_stack(v, u, u), _stack(w, w, v), _stack(u, v, w))
    return (slopes[0] + slopes[1] - slopes[2]) / 2


def _second(metric: Riemannian, arrays: Named, a: Named, b: Named, u: Named, v: Named) -> jax.Array:
    """`D_a D_b q(u, v)` of the quotient's inner product."""
    slope = lambda p: jax.jvp(lambda at: _inner(metric, at, u, v), (p,), (b,))[1]
    return jax.jvp(slope, (arrays,), (a,))[1]


def _inner(metric: Riemannian, arrays: Named, u: Named, v: Named) -> jax.Array:
    """The quotient's inner product `q(u, v)`."""
    return dot(metric.flat(arrays, metric.horizontal(arrays, u)), v)


# --- named vectors


def _on_basis(covector: Callable[[Named], jax.Array], arrays: Named) -> Named:
    """The entries of a covector (or of several, in a leading axis), one basis vector after the other."""
    basis = jnp.eye(sum(a.size for a in arrays.values()), dtype=jnp.result_type(*arrays.values()))
    entries = jax.lax.map(lambda e: covector(unravel(arrays, e)), basis, batch_size=64)
    rebuild = functools.partial(unravel, arrays)
    return jax.vmap(rebuild)(entries.T) if entries.ndim == 2 else rebuild(entries)


def _stack(*vectors: Named) -> Named:
    return {name: jnp.stack([v[name] for v in vectors]) for name in vectors[0]}


def _unstack(stack: Named, count: int) -> list[Named]:
    return [{name: array[i] for name, array in stack.items()} for i in range(count)]


def _scale(v: Named, factor: float) -> Named:
    return {name: factor * array for name, array in v.items()}


def _fields(part: Component, arrays: Named) -> jax.Array:
    """The fields of a component's coordinates, one in each row."""
    zeros = {name: jnp.zeros_like(array) for name, array in arrays.items()}
    basis = jnp.eye(part.dimension, dtype=jnp.result_type(*arrays.values()))
    return jax.vmap(lambda c: ravel(zeros | part.field(arrays, c)))(basis)


def _over(value: jax.Array, xx: jax.Array, yy: jax.Array, xy: jax.Array) -> jax.Array:
    area = xx * yy - xy**2
    plane = area > 4 * jnp.finfo(area.dtype).eps * xx * yy
    return jnp.where(plane, value / jnp.where(plane, area, 1), 0)
