"""The same lemmas and the same proofs, whatever was asked before and in whatever process."""

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import sympy as sp

from quotax.certify.every_width.lemmas import Lemmas
from quotax.certify.every_width.scalar_identities import prove

X, Y = sp.symbols("z0 z1", real=True)
FUNCTIONS = (sp.Max(X, 0), sp.tanh(X), sp.exp(X), sp.Abs(X) ** 3, 1 / (1 + sp.exp(-X)), sp.log(sp.Abs(X)),
             X * sp.tanh(Y), X * sp.Max(Y, 0), X / sp.sqrt(X**2 + Y**2), sp.Max(X, Y), X**2 + 1)  # fmt: skip
QUESTIONS = [
    (function, chosen, kind)
    for function in FUNCTIONS
    for chosen in ((X,), (Y,), (X, Y))
    for kind in ("positive", "sign", "nonzero", "shift")
    if set(chosen) <= function.free_symbols
]


def answer(lemmas, question):
    function, chosen, kind = question
    return lemmas.shifting(function, chosen) if kind == "shift" else lemmas.scaling(function, chosen, kind)


def test_a_lemma_does_not_depend_on_what_was_asked_before():
    alone = [answer(Lemmas(prove), question) for question in QUESTIONS]
    assert sum(found is not None for found in alone) >= 20
    for seed in range(3):
        order = random.Random(seed).sample(range(len(QUESTIONS)), len(QUESTIONS))
        lemmas = Lemmas(prove)
        found = {k: answer(lemmas, QUESTIONS[k]) for k in order}
        assert [found[k] for k in range(len(QUESTIONS))] == alone


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_lemma_says_what_the_function_does(question):
    """At a few numbers, without the prover: `F(a z)` and `F(z + s)` are what the effect makes of `F(z)`."""
    function, chosen, kind = question
    effect = answer(Lemmas(prove), question)
    if effect is None:
        return
    for x, y, by in itertools.product((-1.3, 0.4, 2.1), (-0.7, 1.9), {"sign": (-1,), "shift": (-0.6, 1.5)}.get(
            kind, (0.3, 2.5) if kind == "positive" else (-2.5, -0.3, 1.7))):  # fmt: skip
        point = {X: x, Y: y}
        image = {z: (v + by if kind == "shift" else v * by) if z in chosen else v for z, v in point.items()}
        before, after = (complex(function.subs(p).evalf()) for p in (point, image))
        if kind == "shift":
            expected = sp.exp(effect.rate * by) * before + effect.shift * by
        else:
            size = abs(by) if effect.absolute else by
            expected = effect.centre + size**effect.power * (before - effect.centre) + effect.logs * sp.log(abs(by))
        assert abs(after - complex(expected)) < 1e-9 * (1 + abs(after))


CERTIFICATES = """
import json, sys
import jax
jax.config.update("jax_enable_x64", True)
import quotax as qx
from certify import claims
rows = {row[0]: row for row in claims.TRUE}
names = ["ReLU scaling", "softmax rows", "ReLU RNN", "RMS norm O", "exp with a bias", "abs permutation", "linear GL"]
names = names[::-1] if "reversed" in sys.argv else names
print(json.dumps({name: qx.verify(*rows[name][1:]).to_dict() for name in names}, sort_keys=True, default=str))
"""


@pytest.mark.slow
def test_certificates_are_the_same_in_every_process_and_in_every_order():
    found = []
    for seed, order in (("0", "forward"), ("1", "reversed")):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        paths = [*sys.path, str(Path(__file__).parents[1])]
        environment["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
        run = subprocess.run([sys.executable, "-c", CERTIFICATES, order], capture_output=True, text=True, check=True,
                             env=environment)  # fmt: skip
        found.append(json.loads(run.stdout))
    assert found[0] == found[1]
    assert all(certificate["derivation"] for certificate in found[0].values())
