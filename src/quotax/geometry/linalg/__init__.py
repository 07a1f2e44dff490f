"""Arrays, whatever they belong to: named vectors, decompositions, roots of inverses, iterations."""
