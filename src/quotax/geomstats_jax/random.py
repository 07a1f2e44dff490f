"""`gs.random`: a host generator with a seed of its own.

It draws with numpy and hands out JAX arrays: the same seed gives the same numbers as geomstats' numpy backend, and
numpy's global generator is neither read nor moved. It is state on the host, so under `jax.jit` a draw happens once,
while tracing, and is a constant afterwards: draw outside and pass the numbers in, or use `jax.random`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from quotax.geomstats_jax.dtypes import canonical, default_of

Shape = int | tuple[int, ...] | None

_generator = np.random.RandomState()


def seed(seed: int | None = None) -> None:
    """Restart the generator at `seed`."""
    _generator.seed(seed)


def rand(*size: int, dtype: Any = None) -> jax.Array:
    """Uniform numbers in [0, 1)."""
    return _drawn(lambda: _generator.rand(*size), dtype)


def uniform(low: Any = 0.0, high: Any = 1.0, size: Shape = None, dtype: Any = None) -> jax.Array:
    """Uniform numbers in [low, high)."""
    return _drawn(lambda: _generator.uniform(np.asarray(low), np.asarray(high), size), dtype)


def normal(loc: Any = 0.0, scale: Any = 1.0, size: Shape = None, dtype: Any = None) -> jax.Array:
    """Normal numbers with mean `loc` and standard deviation `scale`."""
    return _drawn(lambda: _generator.normal(np.asarray(loc), np.asarray(scale), size), dtype)


def multivariate_normal(mean: Any, cov: Any, size: Shape = None, dtype: Any = None) -> jax.Array:
    """Normal vectors with mean `mean` and covariance `cov`."""
    return _drawn(lambda: _generator.multivariate_normal(np.asarray(mean), np.asarray(cov), size), dtype)


def randint(low: int, high: int | None = None, size: Shape = None, dtype: Any = int) -> jax.Array:
    """Integers in [low, high), or in [0, low) without `high`."""
    return jnp.asarray(_generator.randint(low, high, size), dtype=canonical(dtype))


def choice(a: Any, size: Shape = None, replace: bool = True, p: Any = None, axis: int = 0) -> jax.Array:
    """Members of `a` along `axis` (of `arange(a)` for an integer), with probabilities `p`."""
    members = np.arange(a) if isinstance(a, int) else np.asarray(a)
    index = _generator.choice(members.shape[axis], size, replace, None if p is None else np.asarray(p))
    return jnp.asarray(np.take(members, index, axis=axis))


def _drawn(draw: Any, dtype: Any) -> jax.Array:
    dtype = default_of(dtype)
    sample = draw()
    if jnp.issubdtype(dtype, jnp.complexfloating):
        sample = sample + 1j * draw()
    return jnp.asarray(sample, dtype=dtype)


NAMESPACE = {
    "choice": choice,
    "multivariate_normal": multivariate_normal,
    "normal": normal,
    "rand": rand,
    "randint": randint,
    "seed": seed,
    "uniform": uniform,
}
