"""A quotient written by hand for tests: products `beta_i = u_i v_i`, under `(g_i u_i, v_i / g_i)`, in two metrics.

`inv`: `(u'/u)^2 + (v'/v)^2`, with horizontal geodesics `u exp(bt)`, complete. `mix`: `(v u')^2 + (u v')^2`, with
`u sqrt(1 + 2bt)`, which ends where beta reaches zero. Both are invariant; horizontal is `u'/u = v'/v = b`.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Path:
    u: jax.Array
    v: jax.Array
    a: jax.Array
    b: jax.Array
    mix: jax.Array

    def at(self, t):
        grow = lambda x, rate: jnp.where(
            self.mix > 0, x * jnp.sqrt(1 + 2 * rate * t), x * jnp.exp(jnp.where(self.mix > 0, 0.0, rate) * t)
        )
        return {"u": grow(self.u, self.a), "v": grow(self.v, self.b)}

    @property
    def end(self):
        return self.at(1.0)

    @property
    def exit_time(self):
        lowest = jnp.minimum(jnp.min(self.a), jnp.min(self.b))
        return jnp.where((self.mix > 0) & (lowest < 0), -0.5 / lowest, jnp.inf)

    @property
    def ok(self):
        return self.exit_time > 1


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Point:
    u: jax.Array
    v: jax.Array
    mix: jax.Array

    euclidean = False

    def _scales(self):
        """Lengths of the coordinate vectors along log u and log v."""
        beta = jnp.abs(self.u * self.v)
        return jnp.where(self.mix > 0, beta, 1.0)

    def horizontal(self, w):
        b = 0.5 * (w["u"] / self.u + w["v"] / self.v)
        return {"u": b * self.u, "v": b * self.v}

    def whiten(self, w):
        return {"u": self._scales() * w["u"] / self.u, "v": self._scales() * w["v"] / self.v}

    def unwhiten(self, e):
        return {"u": e["u"] * self.u / self._scales(), "v": e["v"] * self.v / self._scales()}

    def inner(self, a, b):
        one, two = self.whiten(a), self.whiten(b)
        return jnp.sum(one["u"] * two["u"]) + jnp.sum(one["v"] * two["v"])

    def norm(self, a):
        return jnp.sqrt(self.inner(a, a))

    def sharp(self, c):
        s2 = self._scales() ** 2
        return {"u": c["u"] * self.u**2 / s2, "v": c["v"] * self.v**2 / s2}

    def geodesic(self, w):
        return Path(self.u, self.v, w["u"] / self.u, w["v"] / self.v, self.mix)


class Proved:
    status, steps = "proved", ()

    def __bool__(self):
        return True


class Pairs:
    """The space; `metric` is "inv" or "mix"."""

    def __init__(self, metric: str, d: int, **changes: Any):
        self.metric_name, self.fiber_dim, self.metric_certificate = metric, d, Proved()
        self.__dict__.update(changes)

    def at(self, p):
        return Point(p["u"], p["v"], jnp.asarray(1.0 if self.metric_name == "mix" else 0.0))

    def act(self, p, g):
        return {"u": g["g"] * p["u"], "v": p["v"] / g["g"]}

    def random_element(self, key, scale=1.0):
        return {"g": jnp.exp(scale * jax.random.normal(key, (self.fiber_dim,)))}


def straight(space: Pairs) -> SimpleNamespace:
    """The same space, whose points know no geodesics."""
    names = ("horizontal", "whiten", "unwhiten", "inner", "norm", "sharp")

    def at(p):
        point = space.at(p)
        return SimpleNamespace(euclidean=False, **{name: getattr(point, name) for name in names})

    return SimpleNamespace(at=at, fiber_dim=space.fiber_dim)


def product_loss(p, data):
    """`|X (u v) - y|^2` for data of one example."""
    X, y = data
    return jnp.sum((X[0] @ (p["u"] * p["v"]) - y[0]) ** 2)
