"""The canonical representative of an orbit, and the element that leads there."""
