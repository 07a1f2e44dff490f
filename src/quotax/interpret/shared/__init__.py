"""Rules that domains share: every domain whose values are arrays reads these primitives in the same way."""
