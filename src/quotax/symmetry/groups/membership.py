"""Whether numbers are an element of a group, and what to say where they are not: checks in NumPy, up to rounding."""

from __future__ import annotations

import numpy as np


def no_entry(g: np.ndarray, bad: np.ndarray, members: str, hint: str) -> str | None:
    """What is wrong with the first entry that is bad."""
    if not bad.any():
        return None
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    where = f"entry [{', '.join(map(str, place))}]" if place else "this"
    return f"elements are {members}, and {where} is {float(g[place]):.6g}; {hint}"


def no_matrix(defects: np.ndarray, allowed: float, members: str, measured: str, hint: str) -> str | None:
    """What is wrong with the worst matrix of a stack, of which `defects` has a number each."""
    if not (defects > allowed).any():
        return None
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(defects)), defects.shape))
    of = f" of copy [{', '.join(map(str, place))}]" if place else ""
    return f"elements are {members}, and {measured}{of} is {float(defects[place]):.3g}; {hint}"


def largest(stack: np.ndarray) -> np.ndarray:
    """The largest entry of every matrix."""
    return np.abs(stack).max((-1, -2), initial=0)


def skewed(g: np.ndarray) -> np.ndarray:
    """How far every matrix is from orthogonal: the largest entry of `g g^T - 1`."""
    return largest(g @ np.swapaxes(g, -1, -2) - np.eye(g.shape[-1]))
