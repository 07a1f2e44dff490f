"""A trace written out in index notation: what each primitive computes, for every size."""
