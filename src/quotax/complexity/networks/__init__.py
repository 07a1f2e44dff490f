"""Networks as measures see them: at parameters with examples, as a chain of layers, along paths, small ones to try."""
