"""Each derivation once in a session."""

from __future__ import annotations

import pytest

import quotax as qx


@pytest.fixture(scope="session")
def derived():
    """`qx.derive`, each model once in a session."""
    cache: dict[int, qx.SymmetryGroup] = {}

    def derive(model, **options):
        if id(model) not in cache:
            cache[id(model)] = qx.derive(model, progress=lambda line: None, **options)
        return cache[id(model)]

    return derive
