"""Programs that run once, in NumPy: compiling such a program costs a hundred times what running it does.

A function is traced as `jax.jit` traces it, and its equations are called one after the other, by what NumPy and LAPACK
have for them: the same arithmetic in the same types, but for the order of sums. A primitive that is not in the table
says so before anything runs (`Unhosted`), and the caller compiles instead.
"""

from quotax.hosted.control_flow import CONTROL
from quotax.hosted.kernels import EXACT, KERNELS, MOVES, recorded
from quotax.hosted.makers import Unhosted
from quotax.hosted.program import Hosted
from quotax.hosted.uncompiled import Uncompiled

__all__ = ["CONTROL", "EXACT", "KERNELS", "MOVES", "Hosted", "Uncompiled", "Unhosted", "recorded"]
