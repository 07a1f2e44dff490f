"""Fields and the model at random points, modulo a prime or in floats."""
