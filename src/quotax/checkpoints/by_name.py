"""The layout of files that hold a model's arrays under the names of its declaration, joined by / or a dot."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from quotax.checkpoints.layout import SizedNetwork
from quotax.checkpoints.lazy_arrays import LazyArrays
from quotax.errors import ParameterError
from quotax.trees import AnyArray, Tree

_SHOWN = 6


@dataclass(frozen=True)
class ByName:
    """Arrays as they are declared, fused axes fused: what `numpy.savez` writes of them, or safetensors."""

    name: str = "by name"

    def read(self, stored: Mapping[str, AnyArray], network: SizedNetwork) -> dict[str, AnyArray]:
        """The parameters of a network, as a tree; refused by name where they do not fit."""
        kept = self._kept(stored, network)
        arrays = {spec.name: np.asarray(stored[kept[spec.name]]) for spec in network.architecture.arrays}
        for spec in network.architecture.arrays:
            shape, needed = arrays[spec.name].shape, spec.shape(network.sizes)
            if shape != needed:
                at = ", ".join(f"{axis}={network.sizes[axis]}" for axis in spec.axis_names) or "fixed sizes"
                raise ParameterError(
                    f"`checkpoints`: {kept[spec.name]!r} has shape {shape}, but the axes {spec.axes_text!r} at {at} "
                    f"give {needed}."
                )
        return network.tree(network.taken_apart(arrays))

    def written(self, params: Tree, stored: Mapping[str, AnyArray], network: SizedNetwork) -> LazyArrays:
        """The arrays under their names; where the file that is imitated has other types, in those."""
        given = network.check_params(params, call="checkpoints.save(path, params, ...)", finite=True)
        if not stored:
            return LazyArrays({name: functools.partial(np.asarray, array) for name, array in given.items()})
        kept = self._kept(stored, network)
        made = lambda key, array: lambda: np.asarray(array).astype(stored[key].dtype)
        return LazyArrays({kept[name]: made(kept[name], array) for name, array in given.items()})

    def _kept(self, stored: Mapping[str, AnyArray], network: SizedNetwork) -> dict[str, str]:
        """The name under which each array is stored."""
        declared = [spec.name for spec in network.architecture.arrays]
        kept = {name if name in declared else name.replace(".", "/"): name for name in stored}
        missing = [name for name in declared if name not in kept]
        unknown = [kept[name] for name in kept if name not in declared]
        if not missing and not unknown:
            return kept
        near = difflib.get_close_matches(unknown[0], missing, 1, cutoff=0.4) if unknown and missing else []
        said = [f"is without {_some(missing)}"] * bool(missing) + [f"has {_some(unknown)} besides"] * bool(unknown)
        hint = f" (is {unknown[0]!r} meant for {near[0]!r}?)" if near else ""
        raise ParameterError(
            f"`checkpoints`: the arrays are not those of the model: the file {' and '.join(said)}{hint}. "
            f"The model has {_some(declared)}."
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


BY_NAME = ByName()
"""What `load` and `save` take as the layout of such files."""
