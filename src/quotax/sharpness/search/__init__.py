"""The search for the largest rise in a ball: a host that decides, over the few programs of a problem."""
