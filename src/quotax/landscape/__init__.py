"""Landscape: how much room an orbit takes, what noise makes of it, and what lies between two minima."""

from quotax.landscape.equilibria import Degeneracy as Degeneracy
from quotax.landscape.equilibria import degeneracy as degeneracy
from quotax.landscape.evidence import LaplaceEvidence as LaplaceEvidence
from quotax.landscape.evidence import laplace_evidence as laplace_evidence
from quotax.landscape.langevin import LangevinRun as LangevinRun
from quotax.landscape.langevin import langevin as langevin
from quotax.landscape.learning_coefficient import LearningBound as LearningBound
from quotax.landscape.learning_coefficient import LearningCoefficient as LearningCoefficient
from quotax.landscape.learning_coefficient import deep_linear_learning_coefficient as deep_linear_learning_coefficient
from quotax.landscape.learning_coefficient import learning_coefficient_bound as learning_coefficient_bound
from quotax.landscape.minima_paths import LossPath as LossPath
from quotax.landscape.minima_paths import MinimaPaths as MinimaPaths
from quotax.landscape.minima_paths import minima_paths as minima_paths
from quotax.landscape.orbit_volumes import OrbitVolume as OrbitVolume
from quotax.landscape.orbit_volumes import orbit_volume as orbit_volume
