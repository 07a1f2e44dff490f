"""The jets domain: residues modulo a prime, with derivatives."""
