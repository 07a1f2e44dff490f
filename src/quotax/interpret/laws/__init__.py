"""The laws domain: how each tensor of a model transforms when the parameters do, for every width.

`indices` and `algebra` hold tensors with named axes in normal form, `elements` the group, `tensors` the laws,
`lemmas` what SymPy knows of scalar functions, `pointwise`, `arithmetic`, `structure`, `contraction` and `loops` the
rules, `rules` the column of the primitive table, `lockstep` the walk over several traces.
"""
