"""Shooting on manifolds whose logarithm is known, and what it says when there is none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from quotax.geometry.matching.logarithm import chord, shoot

ROUTES = {"dense": {}, "differences": {"dense": 0}}


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def unit(v):
    return v / jnp.linalg.norm(v)


def length(v):
    square = jnp.sum(v * v)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)


# --- the sphere: no group, curved geodesics


def sphere_log(base, target, start, **settings):
    end = lambda w: jnp.cos(length(w)) * base + jnp.sinc(length(w) / jnp.pi) * w
    tangent = lambda p, v: v - p * jnp.vdot(p, v) / jnp.vdot(p, p)
    return shoot(end, lambda e: target, tangent, base, start, **settings)


def exact_sphere_log(base, target):
    cosine = jnp.vdot(base, target)
    return jnp.arccos(cosine) * unit(target - cosine * base)


@pytest.mark.slow
@pytest.mark.parametrize("route", list(ROUTES))
def test_shooting_finds_the_logarithm_of_a_sphere(route):
    base, target = unit(normal(0, 7)), unit(normal(1, 7))
    found = sphere_log(base, target, target - base, **ROUTES[route])
    assert bool(found.ok)
    assert float(found.residual) < 1e-10
    np.testing.assert_allclose(found.vector, exact_sphere_log(base, target), atol=1e-10)
    compiled = jax.jit(lambda b, t: sphere_log(b, t, t - b, **ROUTES[route]))(base, target)
    np.testing.assert_allclose(compiled.vector, found.vector, atol=1e-12)


@pytest.mark.slow
def test_derivatives_by_the_implicit_function_theorem():
    base, target = unit(normal(0, 7)), unit(normal(1, 7))
    shot = lambda b, t: jnp.sum(jnp.sin(sphere_log(unit(b), unit(t), target - base).vector))
    exact = lambda b, t: jnp.sum(jnp.sin(exact_sphere_log(unit(b), unit(t))))
    for argument in (0, 1):
        np.testing.assert_allclose(
            jax.grad(shot, argument)(base, target), jax.grad(exact, argument)(base, target), atol=1e-12
        )


# --- R^{n x r}/O(r), the Bures-Wasserstein manifold: straight horizontal lines, and an orbit to be met


def polar(m):
    left, _, right = jnp.linalg.svd(m)
    return left @ right


def horizontal(y, v):
    """`v - y K` with `K` skew and `S K + K S = y^T v - v^T y`, `S = y^T y`."""
    values, q = jnp.linalg.eigh(y.T @ y)
    k = q @ ((q.T @ (y.T @ v - v.T @ y) @ q) / (values[:, None] + values)) @ q.T
    return v - y @ k


@pytest.mark.slow
@pytest.mark.parametrize("route", list(ROUTES))
def test_shooting_finds_the_logarithm_of_bures_and_wasserstein(route):
    a, b, noise = normal(2, 3, 5, 3)
    align = lambda e: {"Y": b @ polar(b.T @ e["Y"])}
    closest = align({"Y": a})["Y"]
    tree = lambda m: {"Y": m}  # any pytree will do
    project = lambda p, v: tree(horizontal(p["Y"], v["Y"]))
    start = tree(0.5 * (closest - a) + 0.2 * noise)
    found = shoot(lambda w: tree(a + w["Y"]), align, project, tree(a), start, **ROUTES[route])
    assert bool(found.ok)
    np.testing.assert_allclose(found.vector["Y"], closest - a, atol=1e-10)
    straight = chord(tree(a), tree(closest), project)
    assert bool(straight.ok)
    np.testing.assert_allclose(straight.vector["Y"], closest - a, atol=1e-15)
    assert not bool(chord(tree(a), tree(b), project).ok)  # not aligned: the chord is not horizontal


# --- the two metrics of two-factor blocks on one scalar: u exp(w/u), and u sqrt(1 + 2 w/u), which ends


@pytest.mark.slow
@pytest.mark.parametrize("route", list(ROUTES))
def test_a_large_log_and_a_start_outside_the_domain(route):
    u, t = jnp.array([1.0, 2.0, 0.5]), jnp.array([3.0, 0.1, 0.7])
    straight = lambda p, v: v
    found = shoot(lambda w: u * jnp.exp(w / u), lambda e: t, straight, u, t - u, **ROUTES[route])
    assert bool(found.ok)
    np.testing.assert_allclose(found.vector, u * jnp.log(t / u), rtol=1e-9)
    end = lambda w: u * jnp.sqrt(1 + 2 * w / u)
    far = shoot(end, lambda e: t, straight, u, 5 * (t - u), **ROUTES[route])  # NaN at the start
    assert bool(far.ok)
    np.testing.assert_allclose(far.vector, u * ((t / u) ** 2 - 1) / 2, rtol=1e-9)
    several = jax.vmap(lambda t: shoot(lambda w: u * jnp.exp(w / u), lambda e: t, straight, u, t - u, **ROUTES[route]))(
        jnp.stack([t, 2 * t])
    )
    np.testing.assert_array_equal(several.ok, True)


@pytest.mark.parametrize("route", list(ROUTES))
def test_no_logarithm_is_a_named_result(route):
    u = jnp.array([1.0, 2.0])
    end = lambda w: u * jnp.sqrt(1 + 2 * w / u)
    found = shoot(end, lambda e: -u, lambda p, v: v, u, u, **ROUTES[route])  # the end is never negative
    assert not bool(found.ok)
    assert float(found.residual) > 0.5
    assert np.all(np.isfinite(found.vector))
    nowhere = shoot(lambda w: w * jnp.nan, lambda e: u, lambda p, v: v, u, u, **ROUTES[route])
    assert not bool(nowhere.ok)
    assert float(nowhere.residual) == np.inf
    assert np.all(np.isfinite(nowhere.vector))


@pytest.mark.slow
def test_float32_stays_and_is_accurate():
    base, target = (unit(normal(s, 7)).astype(jnp.float32) for s in (0, 1))
    found = sphere_log(base, target, target - base)
    assert found.vector.dtype == found.residual.dtype == jnp.float32
    assert bool(found.ok)
    np.testing.assert_allclose(found.vector, exact_sphere_log(base, target), atol=1e-5)
