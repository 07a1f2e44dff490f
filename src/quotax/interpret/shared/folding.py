"""What follows from constants alone is computed: by NumPy where that is the same, or by the primitive itself."""

from __future__ import annotations

import numpy as np
from jax.extend.core import JaxprEqn, Primitive

from quotax.interpret.domain import AnyValue
from quotax.interpret.shared.movement import run
from quotax.programs.jaxprs import shaped


def fold(primitive: Primitive, equation: JaxprEqn, arguments: list[AnyValue]) -> list[AnyValue]:
    """The outputs of an equation of constants."""
    avals = [shaped(atom) for atom in equation.outvars]
    with np.errstate(all="ignore"):
        if (
            primitive.name == "convert_element_type"
            and avals[0].dtype.kind == "f"
            and arguments[0].dtype.kind in "fiub"
        ):
            outputs = arguments
        else:
            outputs = run(primitive, equation.params, arguments)
        return [np.asarray(out, dtype=aval.dtype) for out, aval in zip(outputs, avals, strict=True)]
