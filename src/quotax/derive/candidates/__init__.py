"""What may be a symmetry: templates, permutations and flips, polynomial fields; each is handed to the prover."""
