"""Sharpness: how far the loss can rise, or rises on average, when the parameters move inside a ball."""

from quotax.sharpness.measures.average import AverageSharpness as AverageSharpness
from quotax.sharpness.measures.average import average_sharpness as average_sharpness
from quotax.sharpness.measures.barrier import Barrier as Barrier
from quotax.sharpness.measures.barrier import barrier as barrier
from quotax.sharpness.measures.compare import Comparison as Comparison
from quotax.sharpness.measures.compare import compare as compare
from quotax.sharpness.measures.loss_slice import LossSlice as LossSlice
from quotax.sharpness.measures.loss_slice import loss_slice as loss_slice
from quotax.sharpness.measures.orbit_drift import DriftingMeasure as DriftingMeasure
from quotax.sharpness.measures.orbit_drift import OrbitDrift as OrbitDrift
from quotax.sharpness.measures.orbit_drift import orbit_drift as orbit_drift
from quotax.sharpness.measures.profile import Profile as Profile
from quotax.sharpness.measures.profile import profile as profile
from quotax.sharpness.measures.spectrum import Density as Density
from quotax.sharpness.measures.spectrum import Spectrum as Spectrum
from quotax.sharpness.measures.spectrum import spectrum as spectrum
from quotax.sharpness.measures.trace import TraceEstimate as TraceEstimate
from quotax.sharpness.measures.trace import gradient_norm as gradient_norm
from quotax.sharpness.measures.trace import trace as trace
from quotax.sharpness.measures.worst_case import sharpness as sharpness
from quotax.sharpness.training import horizontal as horizontal
from quotax.sharpness.training import sam as sam
from quotax.sharpness.verdicts.along_orbit import Spread as Spread
from quotax.sharpness.verdicts.result import Sharpness as Sharpness
