"""Function space: what a step of the parameters does to the outputs, and which step the outputs ask for."""

from quotax.function_space.neural_tangent import TangentKernel as TangentKernel
from quotax.function_space.neural_tangent import tangent_kernel as tangent_kernel
from quotax.function_space.transverse import Transversality as Transversality
from quotax.function_space.transverse import transversality as transversality
