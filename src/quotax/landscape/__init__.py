"""Landscape: how much room an orbit takes, what noise makes of it, and what lies between two minima."""
