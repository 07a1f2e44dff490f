"""quotax: divide a neural network's parameter space by its symmetries, and measure what is left."""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quotax.artifacts import Certificate, Witness
    from quotax.citing import cite
    from quotax.collectives import Collectives, collectives
    from quotax.complexity import (
        ComplexityTable,
        InvarianceTable,
        MarginBound,
        Margins,
        Measure,
        PacBayes,
        complexity_measures,
        complexity_table,
        invariance_table,
        margin_bound,
        margins,
        pac_bayes,
        relative_flatness,
    )
    from quotax.data_symmetry import (
        AugmentationCheck,
        Augmented,
        EquivariantMaps,
        Representation,
        augmented,
        equivariant_maps,
    )
    from quotax.declare import (
        Architecture,
        Brought,
        Mask,
        ModelFile,
        Network,
        Positive,
        Tokens,
        architecture,
        from_equinox,
        from_flax,
        from_function,
    )
    from quotax.derive import Audit, SymmetryGroup
    from quotax.discretisation import (
        ChargeHistory,
        ChargeRates,
        FilteredModes,
        MiniBatches,
        ModifiedFlow,
        Scheme,
        charge_history,
        charge_rates,
        early_stopping,
        filtered,
        filtered_modes,
        flow_until,
        gradient_descent,
        heavy_ball,
        implicit,
        mini_batches,
        modified_flow,
        nesterov,
        weight_decay,
    )
    from quotax.errors import (
        ArchitectureError,
        ComplexityError,
        ConvergenceError,
        DiscretisationError,
        DomainError,
        FunctionSpaceError,
        GeometryError,
        InvarianceError,
        LandscapeError,
        MetricWarning,
        ParameterError,
        QuotaxError,
        SharpnessError,
        SymmetryError,
        UnsupportedPrimitiveError,
    )
    from quotax.function_space import TangentKernel, Transversality, tangent_kernel, transversality
    from quotax.geometry import QuotientSpace
    from quotax.landscape import (
        Degeneracy,
        LangevinRun,
        LaplaceEvidence,
        LearningBound,
        LearningCoefficient,
        LossPath,
        MinimaPaths,
        OrbitVolume,
        deep_linear_learning_coefficient,
        degeneracy,
        langevin,
        laplace_evidence,
        learning_coefficient_bound,
        minima_paths,
        orbit_volume,
    )
    from quotax.pipeline import (
        Counterparts,
        counterparts,
        coverage,
        derive,
        load,
        load_symmetries,
        quotient,
        save,
        verify,
        verify_equivariance,
        verify_field,
        verify_invariant,
        verify_metric,
    )
    from quotax.report import Report, report
    from quotax.sharpness import (
        average_sharpness,
        barrier,
        compare,
        gradient_norm,
        horizontal,
        loss_slice,
        orbit_drift,
        profile,
        sam,
        sharpness,
        spectrum,
        trace,
    )
    from quotax.symmetry import (
        GL,
        ComplexScaling,
        Diagonal,
        FixingCentred,
        O,
        OFixingOnes,
        PairScaling,
        Permutation,
        PositiveDiagonal,
        PositiveScalar,
        SignFlip,
        Symmetry,
        Translation,
    )

_NAMES = {
    "artifacts": "Certificate Witness",
    "catalogue": "",
    "checkpoints": "",
    "citing": "cite",
    "collectives": "Collectives collectives",
    "complexity": "ComplexityTable InvarianceTable MarginBound Margins Measure PacBayes complexity_measures "
    "complexity_table invariance_table margin_bound margins pac_bayes relative_flatness",
    "data_symmetry": "AugmentationCheck Augmented EquivariantMaps Representation augmented equivariant_maps",
    "declare": "Architecture Brought Mask ModelFile Network Positive Tokens architecture from_equinox from_flax "
    "from_function",
    "derive": "Audit SymmetryGroup",
    "discretisation": "ChargeHistory ChargeRates FilteredModes MiniBatches ModifiedFlow Scheme charge_history "
    "charge_rates early_stopping filtered filtered_modes flow_until gradient_descent heavy_ball implicit mini_batches "
    "modified_flow nesterov weight_decay",
    "errors": "ArchitectureError ComplexityError ConvergenceError DiscretisationError DomainError "
    "FunctionSpaceError GeometryError InvarianceError LandscapeError MetricWarning ParameterError QuotaxError "
    "SharpnessError SymmetryError UnsupportedPrimitiveError",
    "function_space": "TangentKernel Transversality tangent_kernel transversality",
    "geometry": "QuotientSpace",
    "landscape": "Degeneracy LangevinRun LaplaceEvidence LearningBound LearningCoefficient LossPath MinimaPaths "
    "OrbitVolume deep_linear_learning_coefficient degeneracy langevin laplace_evidence learning_coefficient_bound "
    "minima_paths orbit_volume",
    "pipeline": "Counterparts counterparts coverage derive load load_symmetries quotient save "
    "verify verify_equivariance verify_field verify_invariant verify_metric",
    "report": "Report report",
    "sharpness": "average_sharpness barrier compare gradient_norm horizontal loss_slice orbit_drift profile sam "
    "sharpness spectrum trace",
    "symmetry": "GL ComplexScaling Diagonal FixingCentred O OFixingOnes PairScaling Permutation PositiveDiagonal "
    "PositiveScalar SignFlip Symmetry Translation",
}
"""The rooms that the public names live in: a room is imported when one of its names is first asked for."""

_ROOM = {name: room for room, names in _NAMES.items() for name in names.split()}

__all__ = [
    "GL",
    "Architecture",
    "ArchitectureError",
    "Audit",
    "AugmentationCheck",
    "Augmented",
    "Brought",
    "Certificate",
    "ChargeHistory",
    "ChargeRates",
    "Collectives",
    "ComplexityError",
    "ComplexityTable",
    "ComplexScaling",
    "ConvergenceError",
    "Counterparts",
    "Degeneracy",
    "Diagonal",
    "DiscretisationError",
    "DomainError",
    "EquivariantMaps",
    "FilteredModes",
    "FixingCentred",
    "FunctionSpaceError",
    "GeometryError",
    "InvarianceError",
    "InvarianceTable",
    "LandscapeError",
    "LangevinRun",
    "LaplaceEvidence",
    "LearningBound",
    "LearningCoefficient",
    "LossPath",
    "MarginBound",
    "Margins",
    "Mask",
    "Measure",
    "MiniBatches",
    "MinimaPaths",
    "ModifiedFlow",
    "PacBayes",
    "Positive",
    "MetricWarning",
    "ModelFile",
    "Network",
    "O",
    "OFixingOnes",
    "OrbitVolume",
    "ParameterError",
    "PairScaling",
    "Permutation",
    "PositiveDiagonal",
    "PositiveScalar",
    "QuotaxError",
    "QuotientSpace",
    "Report",
    "Representation",
    "Scheme",
    "SharpnessError",
    "SignFlip",
    "Symmetry",
    "SymmetryError",
    "SymmetryGroup",
    "TangentKernel",
    "Tokens",
    "Translation",
    "Transversality",
    "UnsupportedPrimitiveError",
    "Witness",
    "architecture",
    "augmented",
    "average_sharpness",
    "barrier",
    "charge_history",
    "charge_rates",
    "cite",
    "collectives",
    "compare",
    "complexity_measures",
    "complexity_table",
    "counterparts",
    "coverage",
    "deep_linear_learning_coefficient",
    "degeneracy",
    "derive",
    "early_stopping",
    "equivariant_maps",
    "filtered",
    "filtered_modes",
    "flow_until",
    "from_equinox",
    "from_flax",
    "from_function",
    "gradient_descent",
    "gradient_norm",
    "heavy_ball",
    "horizontal",
    "implicit",
    "invariance_table",
    "langevin",
    "laplace_evidence",
    "learning_coefficient_bound",
    "load",
    "load_symmetries",
    "loss_slice",
    "margin_bound",
    "margins",
    "mini_batches",
    "minima_paths",
    "modified_flow",
    "nesterov",
    "orbit_drift",
    "orbit_volume",
    "pac_bayes",
    "profile",
    "quotient",
    "relative_flatness",
    "report",
    "sam",
    "save",
    "sharpness",
    "spectrum",
    "tangent_kernel",
    "trace",
    "transversality",
    "verify",
    "verify_equivariance",
    "verify_field",
    "verify_invariant",
    "verify_metric",
    "weight_decay",
]


# A public name is imported at its first use, and kept; a room answers to its own name.
def __getattr__(name: str) -> Any:
    if name in _ROOM:
        value = getattr(importlib.import_module(f"quotax.{_ROOM[name]}"), name)
    elif name in _NAMES:
        return importlib.import_module(f"quotax.{name}")
    elif name == "__version__":
        value = importlib.import_module("quotax.citing").version()
    else:
        raise AttributeError(f"module 'quotax' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


class _Package(types.ModuleType):
    """Rooms that are called like functions (`derive`, `report`, `sharpness`): the attribute is the function.

    Python binds a room to that name when the room is imported, which may be before or after the function is.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _ROOM and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
