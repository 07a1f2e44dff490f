"""Checkpoints of others: their arrays as a declared model's parameters, through a map of names, and back."""

from quotax.checkpoints.by_name import BY_NAME, ByName
from quotax.checkpoints.gpt2 import GPT2
from quotax.checkpoints.layout import Layout, Rule
from quotax.checkpoints.llama import LLAMA
from quotax.checkpoints.stored import load, save

__all__ = ["BY_NAME", "ByName", "GPT2", "LLAMA", "Layout", "Rule", "load", "save"]
