"""Whether a measure is a function on the quotient: what is proved, what is refuted, and what random steps show."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from quotax.sharpness.problem.setting import Setting
from quotax.sharpness.problem.vectors import Tree, layout

# Lengths that differ by more than this many square roots of the rounding unit differ.
LOOSE = 30

PROBES = 3
"""Random group elements that the numerical checks try."""


class Verdict(NamedTuple):
    """True: proved; False: refuted; None: not known. And why."""

    invariant: bool | None
    reason: str


def verdict(setting: Setting) -> Verdict:
    """Whether the ball at `g . theta` is the image of the ball at `theta`, for every group element."""
    if setting.known is not None:
        return setting.known
    space, length = setting.space, setting.length
    if space is None:
        return Verdict(None, "no space was given")
    certificate = getattr(space, "metric_certificate", None)
    name = getattr(space, "metric_name", "its metric")
    if setting.kind == "full":
        if length is None and name == "euclidean" and certificate:
            return Verdict(True, "the full Euclidean ball, and every action is a Euclidean isometry (proved)")
        return _lengths_kept(setting, length or (lambda params, v: float(np.linalg.norm(layout(v).gathered(v)))))
    if certificate is None:
        return Verdict(None, f"{type(space).__name__} has no metric_certificate")
    if not certificate:
        said = getattr(certificate, "status", "not proved")
        known = False if said == "refuted" else None
        why = "; ".join(getattr(certificate, "steps", ()))
        return Verdict(
            known, f"that the {name} metric is invariant under the group is {said}" + (f" ({why})" if why else "")
        )
    proved = f"the {name} metric is invariant under the group (proved)"
    if setting.kind == "geodesic":
        return Verdict(True, proved + ", and so are its geodesics")
    if getattr(space, "affine", False):
        return Verdict(True, proved + ", and the actions map straight lines to straight lines, by their formulas")
    bend = bend_once(setting)
    if bend is None:
        return Verdict(None, proved + ", but the space has no group elements to check that it maps lines to lines")
    if bend > _tolerance(setting):
        return Verdict(
            False,
            f"the {name} metric is invariant, but an action is not affine (a straight step bends by {bend:.1e} "
            f"relative), so linear balls are not mapped to linear balls; use ball='geodesic'",
        )
    return Verdict(True, proved + ", and the actions map straight lines to straight lines (checked at random elements)")


def sampled(setting: Setting) -> Verdict:
    """The verdict on an estimate from random vectors: whether the estimate too is the same at every representative.

    It is where the key's vectors at `g . theta` are those at `theta` moved by `g`.
    """
    known = verdict(setting)
    if known.invariant is not True or setting.point is None:
        return known
    if setting.steady:
        return Verdict(True, known.reason + "; the samples of a key are the same at every representative")
    why = f"estimates at other representatives agree to sampling error ({setting.unsteady})"
    return Verdict(True, f"{known.reason}; {why}")


def searched(setting: Setting) -> Verdict:
    """The verdict on a largest rise, which was searched for: whether a search starts alike at every representative."""
    known = verdict(setting)
    if known.invariant is not True or setting.point is None or setting.steady:
        return known
    return Verdict(True, f"{known.reason}; a search there may end at another local maximum ({setting.unsteady})")


def _tolerance(setting: Setting) -> float:
    return LOOSE * setting.layout.eps**0.5


def _random_steps(setting: Setting) -> list[tuple[Callable[[Tree], Tree], Tree]] | None:
    """Some group actions `params -> g . params`, each with a direction to try it on."""
    space = setting.space
    if not (callable(getattr(space, "act", None)) and callable(getattr(space, "random_element", None))):
        return None
    steps = []
    for number, key in enumerate(jax.random.split(jax.random.key(20), PROBES)):
        element = space.random_element(key, scale=0.5)
        v = setting.layout.placed(setting.problem.normal((20, number)), setting.params)
        steps.append((lambda params, element=element: space.act(params, element), v))
    return steps


def bend_once(setting: Setting) -> float | None:
    """`_bend`, asked once of a space and the same arrays: measures at one point ask one after the other."""
    leaves = jax.tree.leaves(setting.params)
    try:
        refs = tuple(weakref.ref(leaf) for leaf in leaves if isinstance(leaf, jax.Array))
        known = _BENDS.get(setting.space)
    except TypeError:  # a space that cannot be referred to weakly
        return _bend(setting)
    if len(refs) < len(leaves):
        return _bend(setting)  # arrays of NumPy may change
    if known is not None and all(a() is b for a, b in zip(known[0], leaves, strict=True)):
        return known[1]
    found = _bend(setting)
    _BENDS[setting.space] = refs, found
    return found


_BENDS: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], float | None]] = weakref.WeakKeyDictionary()


def _bend(setting: Setting) -> float | None:
    """How far `g . (theta + v) - g . theta` is from the derivative of the action along horizontal v, relative."""
    steps = _random_steps(setting)
    if steps is None:
        return None
    worst = 0.0
    for act, v in steps:
        v = setting.point.horizontal(v)  # no other steps are in the ball
        start, push = jax.jvp(act, (setting.params,), (v,))
        end = act(jax.tree.map(jnp.add, setting.params, v))
        ahead, behind, along = (layout(push).gathered(tree) for tree in (end, start, push))
        error = np.linalg.norm(ahead - behind - along)
        worst = max(worst, float(error / (np.linalg.norm(ahead) + np.linalg.norm(along))))
    return worst


def _lengths_kept(setting: Setting, length: Callable[[Tree, Tree], float]) -> Verdict:
    steps = _random_steps(setting)
    if steps is None:
        return Verdict(None, "the space has no group elements to compare lengths with")
    worst = 0.0
    for act, v in steps:
        moved, push = jax.jvp(act, (setting.params,), (v,))
        before, after = float(length(setting.params, v)), float(length(moved, push))
        worst = max(worst, abs(after - before) / max(before, after))
    if worst > _tolerance(setting):
        reason = f"the group does not keep this ball: a random element changes a length in it by {100 * worst:.0f} %"
        return Verdict(False, reason)
    return Verdict(None, f"{PROBES} random group elements keep the lengths of this ball; that is not a proof")
