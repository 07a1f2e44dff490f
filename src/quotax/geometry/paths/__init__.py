"""Geodesics: in closed form, or as solutions of differential equations."""
