"""What a proof for every width is made of, and what checks it: index notation, its normal form, and a replay of steps.

It imports nothing of what finds proofs. `sizes`, `indices` and `atoms` are the notation, `polynomials` and `rewriting`
its normal form, `elements` the group, `transformation` and `sheet` what a model is written in, `images` what
its atoms become, by `lemma` and `loop_laws`, `proof` the checker.
"""
