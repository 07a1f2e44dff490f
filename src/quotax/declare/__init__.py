"""Declaring models: axes, sizes, initialisation."""

from quotax.declare.architecture import Architecture, architecture
from quotax.declare.axes import Mask, Positive, Tokens
from quotax.declare.network import Network

__all__ = ["Architecture", "Mask", "Network", "Positive", "Tokens", "architecture"]
