"""What users hand to a space: trees like the parameters, and elements of the group by family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from quotax.errors import GeometryError, ParameterError
from quotax.geometry.families.velocities import Family
from quotax.geometry.quotient import SizedModel
from quotax.programs.processes import share_no_programs_of
from quotax.trees import AnyArray, Tree


def checked_tree(network: SizedModel, tree: Tree, label: str, call: str, finite: bool) -> dict[str, AnyArray]:
    """The arrays of a tree by name, refused in the words of the call; `label` is what the call names them."""
    try:
        arrays = network.check_params(tree, call=call, finite=finite)
    except ParameterError as error:
        if label == "params":
            raise
        message = str(error).replace("params[", f"{label}[")
        raise ParameterError(message.replace("the parameters are", f"the arrays of {label} are")) from None
    share_no_programs_of(arrays.values())
    for name, array in arrays.items():
        if hasattr(array, "dtype") and not jnp.issubdtype(array.dtype, jnp.floating):
            raise ParameterError(f"`{call}`: {label}[{name!r}] is {array.dtype}; make it real and floating-point.")
    return arrays


def solvable(arrays: Mapping[str, Any], label: str, call: str) -> Mapping[str, Any]:
    """The arrays, of which none has half precision: no linear system is solved in it."""
    for name, array in arrays.items():
        if hasattr(array, "dtype") and jnp.finfo(array.dtype).bits < 32:
            raise ParameterError(
                f"`{call}`: {label}[{name!r}] is {array.dtype}, in which no linear system is solved. float32 holds the "
                "same numbers: jax.tree.map(lambda a: a.astype('float32'), params)."
            )
    return arrays


def elements_by_family(
    families: Sequence[Family], elements: Mapping[str, AnyArray], label: str, call: str, *, members: bool = False
) -> list[tuple[Family, jax.Array]]:
    """The families that are named, in their order, each with its element; of its algebra, or `members` of the group."""
    if not isinstance(elements, Mapping):
        raise GeometryError(f"`{call}`: {label} must be a dict of family name -> array, got {elements!r}.")
    known = {family.name: family for family in families}
    for name, element in elements.items():
        if name not in known:
            raise GeometryError(f"`{call}`: {label} names {name!r}; the families are {', '.join(known) or 'none'}.")
        shape = known[name].group.shape(known[name].sizes)
        if np.shape(element) != shape:
            raise GeometryError(
                f"`{call}`: {label}[{name!r}] has shape {np.shape(element)}, "
                f"but elements of {known[name].group} have {shape}."
            )
    found = [(family, jnp.asarray(elements[family.name])) for family in families if family.name in elements]
    for family, element in found if members else ():
        known = not isinstance(element, Tracer) and element.is_fully_addressable
        if known and (wrong := family.group.outside(np.asarray(element))):
            raise GeometryError(f"`{call}`: {label}[{family.name!r}] is no element of {family.group}: {wrong}.")
    return found
