"""Proofs for every width: the claim in words of the kernel, the search for steps, what the kernel made of them."""
