"""Margins and complexity measures, and which of them are functions on the quotient."""

from quotax.complexity.against_symmetries import InvarianceTable as InvarianceTable
from quotax.complexity.against_symmetries import invariance_table as invariance_table
from quotax.complexity.classifier_margins import Margins as Margins
from quotax.complexity.classifier_margins import margins as margins
from quotax.complexity.flatness import relative_flatness as relative_flatness
from quotax.complexity.gaussian_noise import PacBayes as PacBayes
from quotax.complexity.gaussian_noise import pac_bayes as pac_bayes
from quotax.complexity.measure import Measure as Measure
from quotax.complexity.registry import complexity_measures as complexity_measures
from quotax.complexity.spectral_bound import MarginBound as MarginBound
from quotax.complexity.spectral_bound import margin_bound as margin_bound
from quotax.complexity.values_table import ComplexityTable as ComplexityTable
from quotax.complexity.values_table import complexity_table as complexity_table
