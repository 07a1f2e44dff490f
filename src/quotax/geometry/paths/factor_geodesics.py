"""Geodesics of the inv and mix metrics on the two factors of `G H^T`.

A factor is a matrix `(..., n, r)`: parameters that share the axis of the group are stacked along `n`, batch axes
(heads, the units of a diagonal family with n = r = 1) come first.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from quotax.errors import GeometryError
from quotax.geometry.linalg.named import Named
from quotax.geometry.linalg.one_by_one import each
from quotax.geometry.paths.equation import State, System, resolution, trajectory
from quotax.geometry.paths.path import Path, Time, path_type

_product = functools.partial(jnp.matmul, precision="highest")


def _t(matrix: jax.Array) -> jax.Array:
    return jnp.swapaxes(matrix, -1, -2)


def _check(call: str, arrays: Mapping[str, jax.Array], velocity: Mapping[str, jax.Array]) -> None:
    for name, factor in arrays.items():
        if factor.ndim < 2 or velocity[name].shape != factor.shape:
            raise GeometryError(
                f"`{call}`: a factor and its velocity must be matrices (..., n, r) of one shape; "
                f"{name!r} has {factor.shape} and {velocity[name].shape}."
            )


# --- inv: tr((G^T G)^-1 a^T b), each factor by itself


def inv_pair(arrays: Mapping[str, jax.Array], velocity: Mapping[str, jax.Array]) -> InvariantPath:
    """The geodesic of `tr((G^T G)^-1 a^T b)`, for any number of factors of full column rank; it never ends.

    `G(t) = exp(t (w - w^T)) exp(t w^T) G0` with `w = G' G0^+`. With `G0 = Q R`, `Q^T Q = 1`, and `D = G' R^-1` this is
    `w = D Q^T`, of rank r, and `w - w^T = A B^T` with `A = [D, -Q]`, `B = [Q, D]`. For such a product
    `exp(t A B^T) Q = Q + A phi(t B^T A) t B^T Q`, `phi(z) = (exp z - 1) / z`: matrices of order 2r, smooth in the
    velocity whatever its rank.
    """
    _check("inv_pair", arrays, velocity)
    start, direction = dict(arrays), dict(velocity)
    dtype = jnp.result_type(*start.values())
    path = InvariantPath(start, direction, jnp.asarray(jnp.inf, dtype), jnp.zeros((), dtype))
    before, after = (_speed(path, jnp.asarray(t, dtype)) for t in (0.0, 1.0))
    drift = jax.lax.stop_gradient(jnp.abs(after - before) / jnp.where(before > 0, before, 1))
    return dataclasses.replace(path, error=drift.astype(dtype))


@path_type()
class InvariantPath(Path):
    """The closed form of the inv metric."""

    @property
    def smooth_exit(self) -> bool:
        """It never leaves."""
        return True

    def at(self, t: Time) -> Named:
        """The parameters at time `t`."""
        return {name: _inv(g, self.direction[name], t)[0] for name, g in self.start.items()}

    def velocity(self, t: Time) -> Named:
        """The derivative at time `t`."""
        return {name: _inv(g, self.direction[name], t)[1] for name, g in self.start.items()}

    @property
    def acceleration(self) -> Named:
        """`G'(G^T G)^-1 (G'^T G + G^T G') - G (G^T G)^-1 G'^T G'` at t = 0."""
        return {name: inv_acceleration(g, self.direction[name]) for name, g in self.start.items()}


def inv_acceleration(g: jax.Array, v: jax.Array) -> jax.Array:
    """The geodesic equation of the inv metric."""
    gram, cross = _product(_t(g), g), _product(_t(g), v)
    first, second = (jnp.linalg.solve(gram, x) for x in (cross + _t(cross), _product(_t(v), v)))
    return _product(v, first) - _product(g, second)


def _inv(g: jax.Array, v: jax.Array, t: Time) -> tuple[jax.Array, jax.Array]:
    """The factor and its velocity at time `t`."""
    r = g.shape[-1]
    q, upper = jnp.linalg.qr(g)
    d = _t(jax.scipy.linalg.solve_triangular(_t(upper), _t(v), lower=True))
    left, right = jnp.concatenate([d, -q], -1), jnp.concatenate([q, d], -1)
    inner, applied = _product(_t(right), left), _product(_t(right), q)
    # exp of [[M, C], [0, 0]] has phi(M) C in its corner.
    corner = jnp.zeros((*g.shape[:-2], 3 * r, 3 * r), g.dtype)
    corner = corner.at[..., : 2 * r, : 2 * r].set(t * inner).at[..., : 2 * r, 2 * r :].set(t * applied)
    turned = q + _product(left, jax.scipy.linalg.expm(corner)[..., : 2 * r, 2 * r :])
    along = _product(_t(d), q)
    stretched = _product(jax.scipy.linalg.expm(t * along), upper)
    place = _product(turned, stretched)
    speed = _product(left, _product(_t(right), place)) + _product(turned, _product(along, stretched))
    return place, speed


def _speed(path: InvariantPath, t: jax.Array) -> jax.Array:
    """`tr((G^T G)^-1 G'^T G')`."""
    total = jnp.zeros_like(t)
    for name, g in path.start.items():
        place, v = _inv(g, path.direction[name], t)
        ratio = jnp.linalg.solve(_product(_t(place), place), _product(_t(v), v))
        total += jnp.sum(jnp.trace(ratio, axis1=-2, axis2=-1))
    return total


# --- mix: tr(H^T H a_G^T b_G) + tr(G^T G a_H^T b_H)


def mix_pair(arrays: Mapping[str, jax.Array], velocity: Mapping[str, jax.Array]) -> Path:
    """The geodesic of `tr(H^T H a_G^T b_G) + tr(G^T G a_H^T b_H)` for two factors G, H of full column rank.

    It ends where a factor loses rank. Pairs of numbers have a closed form, others solve
    `G'' = -[G' (H'^T H + H^T H') - G H'^T H'] (H^T H)^-1` and the same with G and H exchanged, which is the
    Euler-Lagrange equation of the metric.
    """
    _check("mix_pair", arrays, velocity)
    if len(arrays) != 2 or len({(a.shape[:-2], a.shape[-1]) for a in arrays.values()}) != 1:
        raise GeometryError(
            "`mix_pair`: takes two factors (..., n, r) and (..., m, r), "
            f"got {', '.join(f'{name!r} {a.shape}' for name, a in arrays.items())}."
        )
    start, direction = dict(arrays), dict(velocity)
    if all(a.shape[-2:] == (1, 1) for a in start.values()):
        return _scalars(start, direction)
    values = tuple(_least(g) for g in jax.lax.stop_gradient(start).values())
    return trajectory(MixedMetric(tuple(start), values), start, direction, direction)


@path_type(static=("names",))
class MixedMetric(System):
    """The geodesic equation of the mix metric."""

    names: tuple[str, ...]
    reference: tuple[jax.Array, ...] | None

    def unwatched(self) -> MixedMetric:
        """Without the reference."""
        return MixedMetric(self.names, None)

    def rate(self, state: State) -> State:
        """The derivative of the state."""
        return state[1], self.acceleration(state)

    def velocity(self, state: State) -> Named:
        """The factors' derivative."""
        return state[1]

    def acceleration(self, state: State) -> Named:
        """The geodesic equation."""
        (g, h), (a, b) = ([part[name] for name in self.names] for part in state)
        return dict(zip(self.names, (mix_acceleration(g, h, a, b), mix_acceleration(h, g, b, a)), strict=True))

    def regularity(self, state: State) -> jax.Array | None:
        """The least singular value of a factor, relative to the start."""
        if self.reference is None:
            return None
        least = [_least(state[0][name]) / first for name, first in zip(self.names, self.reference, strict=True)]
        return jnp.minimum(*(jnp.min(x) for x in least))

    def drift(self, start: State, end: State) -> jax.Array:
        """The change of the squared speed."""
        before, after = (self._speed(state) for state in (start, end))
        return jnp.abs(after - before) / jnp.where(before > 0, before, 1)

    def _speed(self, state: State) -> jax.Array:
        (g, h), (a, b) = ([part[name] for name in self.names] for part in state)
        return jnp.sum(_product(a, _t(h)) ** 2) + jnp.sum(_product(b, _t(g)) ** 2)


def mix_acceleration(g: jax.Array, h: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    """The acceleration of `g` where the factors `g`, `h` move with `a`, `b`."""
    cross = _product(_t(b), h)
    right = _product(g, _product(_t(b), b)) - _product(a, cross + _t(cross))
    return _t(jnp.linalg.solve(_product(_t(h), h), _t(right)))


def _least(g: jax.Array) -> jax.Array:
    return each(lambda a: jnp.linalg.svd(a, compute_uv=False), g)[..., -1]


# --- mix of two numbers


@path_type(static=("names",))
class NumberPath(Path):
    """The closed form of the mix metric `v^2 du^2 + u^2 dv^2`, entry by entry.

    With `exp(z) = u v exp(i log(v / u))` the metric is `|d exp(z)|^2 / 2`: flat, with the straight lines
    `exp(z) = exp(z0) (1 + zeta t)`, `zeta = (u'/u + v'/v) + i (v'/v - u'/u)`. Only those through zero leave the domain:
    the horizontal ones, `u'/u = v'/v = b`, where `u = u0 sqrt(1 + 2 b t)`.
    """

    names: tuple[str, str]

    @property
    def smooth_exit(self) -> bool:
        """Among horizontal vectors."""
        return True

    def at(self, t: Time) -> Named:
        """The parameters at time `t`, or not-a-number where they are not reached."""
        real, imaginary = self._zeta()
        x, y = 1 + t * real, t * imaginary
        square = x**2 + y**2
        size = jnp.log(jnp.where(square > 0, square, 1)) / 2
        angle = jnp.arctan2(y, jnp.where(square > 0, x, 1))
        inside = (x > 0) | ~_through_zero(real, imaginary)
        factors = (jnp.exp((size - angle) / 2), jnp.exp((size + angle) / 2))
        return {
            name: jnp.where(inside, self.start[name] * factor, jnp.nan)
            for name, factor in zip(self.names, factors, strict=True)
        }

    def velocity(self, t: Time) -> Named:
        """The derivative at time `t`."""
        time = jnp.asarray(t, self.exit_time.dtype)
        return jax.jvp(self.at, (time,), (jnp.ones_like(time),))[1]

    @property
    def acceleration(self) -> Named:
        """The geodesic equation."""
        (g, h), (a, b) = ([part[name] for name in self.names] for part in (self.start, self.direction))
        return dict(zip(self.names, (mix_acceleration(g, h, a, b), mix_acceleration(h, g, b, a)), strict=True))

    def _zeta(self) -> tuple[jax.Array, jax.Array]:
        u, v = (self.direction[name] / self.start[name] for name in self.names)
        return u + v, v - u


def _scalars(start: Named, direction: Named) -> NumberPath:
    dtype = jnp.result_type(*start.values())
    path = NumberPath(start, direction, jnp.asarray(jnp.inf, dtype), jnp.zeros((), dtype), tuple(start))  # pyright: ignore
    real, imaginary = path._zeta()
    ends = _through_zero(real, imaginary) & (real < 0)
    exit_time = jnp.min(jnp.where(ends, -1 / jnp.where(ends, real, 1), jnp.inf), initial=jnp.inf)
    return dataclasses.replace(path, exit_time=exit_time.astype(dtype))


def _through_zero(real: jax.Array, imaginary: jax.Array) -> jax.Array:
    """Whether the line `1 + zeta t` passes through zero, or by it closer than is resolved."""
    return jnp.abs(imaginary) <= resolution(real.dtype) * jnp.abs(real)
