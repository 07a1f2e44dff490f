"""What a derivation found: its group, dimensions, Lie algebra and audit."""
