"""Recurrent networks and state spaces."""
