"""Sharpness: how far the loss can rise when the parameters move inside a ball."""

from quotax.sharpness.result import Sharpness as Sharpness
from quotax.sharpness.worst_case import sharpness as sharpness
