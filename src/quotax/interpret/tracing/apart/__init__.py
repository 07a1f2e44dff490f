r"""A trace of whole arrays as a trace of their parts: what is done to all is done to each, and what takes one takes it.

A fused array is its parts along an axis, and most operations go through: $f([a, b]) = [f(a), f(b)]$ entry by entry,
$x [A, B] = [x A, x B]$, $[x, y] \binom{A}{B} = x A + y B$, and a reshape that keeps the parts whole is one of each.
A `split`, a `slice` or an index at the parts' borders then gives a part back as if it had never been with the others.
So the program is run again on values of which some are a `Concatenation`: a list of parts, and how they lie in their
axis. Where an operation mixes parts, or nothing is known of it, they are concatenated and it runs as it was.

Parameters may also be fused by the model itself, `x @ concatenate([Q, K, V])`: what it concatenates of parameters
alone, no input among it, is a list of parts from there on.

Every rule is an identity of arrays at these sizes, symbols or not, and knows no model. Sizes are compared with `==`,
which holds of symbols only where it holds for every size; what is not known to fit is concatenated.
"""

from quotax.interpret.tracing.apart.fused_programs import program_of_parts

__all__ = ["program_of_parts"]
