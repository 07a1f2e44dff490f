"""The metrics, one file each, and their names."""
