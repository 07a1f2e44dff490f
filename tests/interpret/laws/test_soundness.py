"""What the domain says in polynomials is what JAX computes: every atom evaluated in numbers, before and after."""

import contextlib
import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest
import sympy as sp

from quotax.certify import every_width
from quotax.interpret.laws import indices as ix
from quotax.interpret.laws.tensors import Constant, flat, free_indices

_path = Path(__file__).parents[2] / "certify" / "claims.py"
_spec = importlib.util.spec_from_file_location("claims", _path)
claims = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(claims)

LARGE = ("decoder", "token decoder", "RoPE")  # their polynomials name arrays of millions of entries
STATES = ("RNN", "state space")  # what a loop carries is any value at all, which has no numbers of its own
ROWS = [
    row
    for row in claims.TRUE + claims.FALSE
    if not row[0].startswith(LARGE) and not any(word in row[0] for word in STATES)
]


class Numbers:
    """The value of a polynomial at one trace, given the values of parameters, inputs and group element."""

    def __init__(self, algebra, trace, values, g, inverse):
        self.algebra, self.trace, self.values = algebra, trace, values
        self.g, self.inverse, self.cache = g, inverse, {}

    def poly(self, poly, labels):
        shape = [i[2][0] for i in labels]
        total = np.zeros(shape)
        for term, coefficient in poly.items():
            total = total + float(coefficient) * self.term(term, labels)
        return total

    def term(self, term, labels):
        letters, arrays, subscripts = {}, [], []
        for number, at, power in term:
            array = self.atom(number)
            at = list(at)
            for axis in reversed(range(len(at))):
                if at[axis][0] == ix.FIXED:
                    array = np.take(array, at[axis][1], axis)
                    del at[axis]
            if any(i[0] == ix.PAIR for i in at):
                pieces = [list(ix.atoms(i)) for i in at]
                array = array.reshape([p[2][0] for group in pieces for p in group])
                at = flat(pieces)
                for axis in reversed(range(len(at))):
                    if at[axis][0] == ix.FIXED:
                        array = np.take(array, at[axis][1], axis)
                        del at[axis]
            with np.errstate(all="ignore"):
                arrays.append(array.astype(float) ** float(power))
            subscripts.append([letters.setdefault(i, len(letters)) for i in at])
        for label in labels:
            if label not in letters:
                letters[label] = len(letters)
                arrays.append(np.ones(label[2][0]))
                subscripts.append([letters[label]])
        operands = [x for pair in zip(arrays, subscripts, strict=True) for x in pair]
        return np.einsum(*operands, [letters[i] for i in labels]) if operands else np.ones(())

    def atom(self, number):
        if number not in self.cache:
            self.cache[number] = np.asarray(self._atom(self.algebra.atoms[number]), float)
        return self.cache[number]

    def _atom(self, atom):
        slots = [ix.free(k, extent) for k, extent in enumerate(atom.slots)]
        key = next(k for k, a in self.algebra._known.items() if a is atom)
        match atom.kind:
            case "parameter" | "input" | "tokens":
                return self.values[atom.name].reshape([s[0] for s in atom.slots])
            case "size":
                return self.trace.sizes[key[1]]
            case "const":
                return atom.data[0] if atom.data is not None else float(key[1])
            case "rational":
                return float(atom.data)
            case "delta":
                return np.eye(atom.slots[0][0])
            case "matrix":
                return self.inverse if key == "inv(g)" else self.g
            case "abs":
                return np.abs(self.atom(atom.data))
            case "let":
                return self.poly(atom.data, slots)
            case "exp":
                return np.exp(self.poly(atom.data, slots))
            case "selection":
                size = atom.slots[-1][0]
                assert key[0] == "one hot", key
                return np.eye(size)[self.atom(key[1]).astype(int)]
            case "function":
                function, definitions = atom.data
                if "masked" in str(function.expression):
                    z, p = (self.poly(d, slots) for d in definitions)
                    return np.where((p != 0) ^ ("masked1" in str(function.expression)), z, -np.inf)
                evaluate = sp.lambdify(function.symbols, function.expression, ["scipy", "numpy"])
                with np.errstate(all="ignore"):
                    return evaluate(*(self.poly(d, slots) for d in definitions))
            case "reduction":
                places = sorted(
                    {i for t in atom.data for _, at, _ in t for j in at for i in ix.atoms(j) if i[0] == ix.FREE}
                )
                kept = [i for i in places if i[1] < 40_000]
                gone = [i for i in places if i[1] >= 40_000]
                value = self.poly(atom.data, kept + gone)
                return {"max": np.max, "min": np.min}[atom.name](value, axis=tuple(range(len(kept), len(places))))
            case "element":
                return self.g if key == "g" else np.log(np.abs(self.g))
        raise AssertionError(f"atoms of kind {atom.kind} have no numbers of their own")


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].replace(" ", "-"))
def test_polynomials_are_what_the_model_computes(row, monkeypatch):
    from quotax.certify import numerical

    _, model, symmetry = row
    action = symmetry.bind(model.params)
    kept = []
    monkeypatch.setattr(
        every_width, "_compared", lambda laws, outputs, traces, *rest: kept.append((laws, outputs, traces))
    )
    monkeypatch.setattr(every_width, "_held", lambda model: iter([{}]))
    with contextlib.suppress(AttributeError):  # the comparison is not made: what was read is kept instead
        every_width.prove_for_every_width(model, action)
    assert kept, "a law is missing on the way"
    laws, outputs, traces = kept[0]
    trace = traces[0]
    rng = np.random.default_rng(0)
    sample = numerical._float_draw(trace, action, rng)
    g = np.asarray(sample["g"], float)
    inverse = np.linalg.inv(g) if action.group.layout == "matrix" else None
    numbers = Numbers(laws.algebra, trace, sample["params"] | sample["inputs"], g, inverse)
    with jax.enable_x64(True):
        run = numerical._compiled(trace.jaxpr, False)
        inputs = [sample["inputs"][s.name] for s in trace.inputs]
        before = run(*(sample["params"][s.name] for s in trace.params), *inputs)
        after = run(*(sample["moved"][s.name] for s in trace.params), *inputs)
    for value, a, b in zip(outputs, before, after, strict=True):
        if isinstance(value, Constant):
            continue
        labels = flat(free_indices(value.dims))
        for poly, expected in ((value.plain, a), (value.moved, b)):
            found = numbers.poly(poly, labels).reshape(np.shape(expected))
            np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-6, atol=1e-8)
