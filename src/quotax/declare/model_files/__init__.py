"""Models in files: TOML of axes, groups and actions, or Python in which a model stands."""
