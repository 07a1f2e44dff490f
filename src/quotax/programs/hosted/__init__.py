"""Programs that run once, in NumPy: compiling such a program costs a hundred times what running it does.

A function is traced as `jax.jit` traces it, and its equations are called one after the other, by what NumPy and LAPACK
have for them: the same arithmetic in the same types, but for the order of sums. A primitive that is not in the table
says so before anything runs (`Unhosted`), and the caller compiles instead.
"""

from quotax.programs.hosted.control_flow import CONTROL
from quotax.programs.hosted.kernels import EXACT, KERNELS, MOVES, recorded
from quotax.programs.hosted.makers import Unhosted
from quotax.programs.hosted.program import Hosted
from quotax.programs.hosted.uncompiled import Uncompiled

__all__ = ["CONTROL", "EXACT", "KERNELS", "MOVES", "Hosted", "Uncompiled", "Unhosted", "recorded"]
