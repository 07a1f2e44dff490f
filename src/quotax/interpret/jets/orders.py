"""What puts numbers in order, of residues: the order is drawn, and signs of differences that are asked later agree."""

from __future__ import annotations

import numpy as np

from quotax.interpret.domain import Eqn, Rule, Unreadable
from quotax.interpret.jets.domain import Jet, JetDomain, Value


def extreme_place(largest: bool) -> Rule[JetDomain]:
    """`argmax` and `argmin` along one axis."""

    def rule(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
        (axis,) = eqn.params["axes"]
        order = _from_the_largest(eqn, args[0], axis)
        return [Jet(np.take(order, 0 if largest else -1, axis=axis + 1))]

    return rule


def top_k(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """The largest entries along an axis, in their order, and where they stand."""
    rank = len(eqn.inputs[0].shape)
    axis = int(eqn.params.get("axis", rank - 1)) % rank
    order = np.take(_from_the_largest(eqn, args[0], axis), np.arange(eqn.params["k"]), axis=axis + 1)
    return [_along(eqn.domain, args[0], order, axis), Jet(order)]


def sort(eqn: Eqn[JetDomain], args: list[Value]) -> list[Value]:
    """Arrays sorted along a dimension by the first of them."""
    if eqn.params["num_keys"] != 1:
        raise Unreadable("it sorts by several arrays", "sort by one")
    axis = eqn.params["dimension"]
    order = np.flip(_from_the_largest(eqn, args[0], axis), axis=axis + 1)
    return [_along(eqn.domain, value, order, axis) for value in args]


def _from_the_largest(eqn: Eqn[JetDomain], value: Value, axis: int) -> np.ndarray:
    if not np.issubdtype(np.dtype(eqn.inputs[0].dtype), np.floating):
        raise Unreadable("it puts whole numbers or truth values that depend on the inputs in order", "order reals")
    domain: JetDomain = eqn.domain
    jet = domain.lift(value)
    last = lambda array: np.moveaxis(np.broadcast_to(array, (domain.samples, *jet.shape)), axis + 1, -1)
    order, bad = domain.functions.order(last(jet.values), None if jet.infinite is None else last(jet.infinite))
    domain.bad |= bad
    domain.opaque = True
    return np.moveaxis(order, -1, axis + 1)


def _along(domain: JetDomain, value: Value, order: np.ndarray, axis: int) -> Jet:
    shape = domain.lift(value).shape
    numbers = np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), (len(order), *shape))
    return domain.take_each([value], np.take_along_axis(numbers, order, axis=axis + 1))
