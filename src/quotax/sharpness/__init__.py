"""Sharpness: how far the loss can rise, or rises on average, when the parameters move inside a ball."""

from quotax.sharpness.average import AverageSharpness as AverageSharpness
from quotax.sharpness.average import average_sharpness as average_sharpness
from quotax.sharpness.comparison import Comparison as Comparison
from quotax.sharpness.comparison import compare as compare
from quotax.sharpness.optimisers import horizontal as horizontal
from quotax.sharpness.optimisers import sam as sam
from quotax.sharpness.profile import Profile as Profile
from quotax.sharpness.profile import profile as profile
from quotax.sharpness.spectrum import Density as Density
from quotax.sharpness.spectrum import Spectrum as Spectrum
from quotax.sharpness.spectrum import spectrum as spectrum
from quotax.sharpness.trace import Trace as Trace
from quotax.sharpness.trace import gradient_norm as gradient_norm
from quotax.sharpness.trace import trace as trace
from quotax.sharpness.verdicts.invariance import Spread as Spread
from quotax.sharpness.verdicts.result import Sharpness as Sharpness
from quotax.sharpness.worst_case import sharpness as sharpness
