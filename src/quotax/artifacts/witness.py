"""A counterexample: the point at which a claim fails, and the two outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quotax.presenting import Json, Result, plain
from quotax.trees import AnyArray, Tree


@dataclass(frozen=True, repr=False)
class Witness(Result):
    """A counterexample: at `params`, `element` and `inputs` the two outputs differ."""

    sizes: Mapping[str, int]
    params: Tree
    element: AnyArray
    inputs: Mapping[str, AnyArray]
    output: Tree
    transformed_output: Tree
    transformed_params: Tree = None

    def lines(self) -> list[str]:
        """The point, one array a line, and the two outputs."""
        rows = [f"sizes {', '.join(f'{a}={n}' for a, n in self.sizes.items()) or 'fixed'}"]
        rows += [f"{name} = {_numbers(value)}" for name, value in _arrays(self.params)]
        rows += [f"g = {_numbers(self.element)}"]
        rows += [f"{name} = {_numbers(value)}" for name, value in self.inputs.items()]
        rows += [f"output {_numbers(value)}" for _, value in _arrays(self.output)]
        rows += [f"output after the action {_numbers(value)}" for _, value in _arrays(self.transformed_output)]
        return rows

    def to_dict(self, *, largest: int | None = None) -> dict[str, Json]:
        """JSON values; arrays as nested lists, whatever their size: `from_dict` reads them."""
        return {
            "sizes": dict(self.sizes),
            "params": _plain(self.params),
            "element": _plain(self.element),
            "inputs": _plain(self.inputs),
            "output": _plain(self.output),
            "transformed_output": _plain(self.transformed_output),
            "transformed_params": _plain(self.transformed_params),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Json]) -> Witness:
        """A witness that `to_dict` wrote, lists as arrays again."""
        return cls(
            sizes=dict(data["sizes"]),
            params=_restored(data["params"]),
            element=_restored(data["element"]),
            inputs=_restored(data["inputs"]),
            output=_restored(data["output"]),
            transformed_output=_restored(data["transformed_output"]),
            transformed_params=_restored(data.get("transformed_params")),
        )

    @property
    def difference(self) -> float:
        """Largest absolute difference between entries of the two outputs that are finite on both sides."""
        import jax
        import numpy as np

        worst = 0.0
        for before, after in zip(jax.tree.leaves(self.output), jax.tree.leaves(self.transformed_output), strict=True):
            a, b = (1.0 * np.asarray(o) for o in (before, after))
            finite = np.isfinite(a) & np.isfinite(b)
            worst = max(worst, float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)))
        return worst


def _arrays(tree: Tree, name: str = "") -> list[tuple[str, AnyArray]]:
    """The arrays of a tree with their joined names."""
    if isinstance(tree, Mapping):
        return [row for key, value in tree.items() for row in _arrays(value, f"{name}/{key}" if name else str(key))]
    if isinstance(tree, (list, tuple)):
        return [row for number, value in enumerate(tree) for row in _arrays(value, f"{name}[{number}]")]
    return [(name, tree)]


def _numbers(value: AnyArray, most: int = 24) -> str:
    """An array on one line: fractions where the numbers are small fractions, its shape when it is long."""
    from fractions import Fraction

    import numpy as np

    array = np.asarray(value)
    if array.size > most:
        return f"array of shape {array.shape}"

    def show(number: object) -> str:
        if not isinstance(number, (int, float)) or number != number or number in (float("inf"), float("-inf")):
            return str(number)
        near = Fraction(number).limit_denominator(64)
        return str(near) if float(near) == number else f"{number:.6g}"

    def nest(part: object) -> str:
        return f"[{', '.join(map(nest, part))}]" if isinstance(part, list) else show(part)

    return nest(array.tolist())


def _plain(tree: Tree) -> Json:
    import numpy as np

    if isinstance(tree, Mapping):
        return {key: _plain(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return {"sequence": [_plain(value) for value in tree]}
    return None if tree is None else plain(np.asarray(tree), None)


def _restored(tree: Json) -> Tree:
    import numpy as np

    if isinstance(tree, Mapping):
        if set(tree) == {"sequence"}:
            return [_restored(value) for value in tree["sequence"]]
        return {key: _restored(value) for key, value in tree.items()}
    if tree is None:
        return None
    read = np.asarray(tree)
    return np.asarray(tree, float) if read.dtype.kind == "U" else read  # JSON has no number for what is no number
