"""Models from outside networks, whose identifiability is the same question."""
