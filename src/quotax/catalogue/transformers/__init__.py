"""Decoders and encoders, as their checkpoints have them."""
