"""An action at sizes, evaluated on arrays of any kind: what a group element makes of the parameters, and velocities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.symmetry.new_entries.general_entries import ELEMENT, INVERSE, TANGENT, Entry, variable
from quotax.symmetry.new_entries.reading import Arrays, read
from quotax.symmetry.symmetry import Action
from quotax.trees import AnyArray

Named = Mapping[str, AnyArray]
Specs = Sequence[ArraySpec]
Sizes = Mapping[str, int]


def transformed(
    action: Action, specs: Specs, sizes: Sizes, params: Named, g: AnyArray, arrays: Arrays, inverse: AnyArray = None
) -> dict[str, AnyArray]:
    """The parameters that move, at `g`; a matrix comes with its inverse."""
    element = {ELEMENT: g[()] if isinstance(g, np.ndarray) else g} | ({} if inverse is None else {INVERSE: inverse})
    return _evaluated(action, action.entries, specs, sizes, params, element, arrays)


def velocity(
    action: Action, specs: Specs, sizes: Sizes, params: Named, xi: AnyArray, arrays: Arrays
) -> dict[str, AnyArray]:
    """The velocity of the parameters that move, along `xi`; linear in `xi`."""
    return _evaluated(action, action.infinitesimal, specs, sizes, params, {TANGENT: xi}, arrays)


def _evaluated(
    action: Action,
    entries: Sequence[Entry],
    specs: Specs,
    sizes: Sizes,
    params: Named,
    element: Named,
    arrays: Arrays,
) -> dict[str, Any]:
    """One array for each entry, shaped like the parameter: entries index fused axes apart."""
    shapes = {spec.name: spec.split_shape(sizes) for spec in specs}
    environment = {variable(name): array.reshape(shapes[name]) for name, array in params.items()} | dict(element)
    results = {}
    for entry in entries:
        old = params[entry.name]
        held = {one.name: arrays.held(one.values, old) for one in action.constants if one.name not in params}
        value = arrays.broadcast(read(entry, environment | held, sizes, arrays, old), shapes[entry.name])
        results[entry.name] = value.reshape(old.shape)
    return results
