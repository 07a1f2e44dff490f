"""A loss in the flat coordinates of a ball: what is compiled, and what the host computes with."""
