"""Models as TOML files: axes, inputs, sizes, symmetries, and where the forward function is.

    [model]
    forward = "network.py:mlp"      # a file beside this one, or an importable "package.module:mlp"

    [params]
    W1 = "h x"
    W2 = "y h"

    [inputs]
    x = "x"

    [[symmetry]]
    name = "scale h"
    group = {kind = "PositiveDiagonal", axis = "h"}
    action = {W1 = "g @ W1", W2 = "W2 @ inv(g)"}

Whatever is refused is refused with the file and the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quotax.declare.architecture import Architecture, architecture
from quotax.declare.axes import Mask, Positive, Tokens, parse_arrays, parse_inputs
from quotax.declare.initialisers import check_overrides
from quotax.declare.model_files.model_file import ModelFile
from quotax.declare.model_files.python_models import imported
from quotax.declare.model_files.toml_lines import Place, parsed
from quotax.errors import ArchitectureError, SymmetryError
from quotax.presenting import Json
from quotax.symmetry import Symmetry
from quotax.symmetry.plain import group_of
from quotax.trees import AnyArray, Tree

_TABLES = {
    "model": ("forward", "name", "where"),
    **dict.fromkeys(("params", "parts", "inputs", "init", "sizes", "symmetry")),
}
"""The tables of a file, with their keys where these are fixed."""


_INPUTS = {"tokens": Tokens, "mask": Mask, "positive": Positive}


def read_toml(path: Path) -> ModelFile:
    """The model of a TOML file, refused at the line that does not fit."""
    data, place = parsed(path)
    for table, keys in data.items():
        with place.at(table):
            if table not in _TABLES:
                raise ArchitectureError(f"unknown table {table!r}; those are {', '.join(_TABLES)}.")
            if not isinstance(keys, list if table == "symmetry" else dict):
                shown = "[[symmetry]]" if table == "symmetry" else f"[{table}]"
                raise ArchitectureError(f"{table!r} must be a table, written {shown}, got {keys!r}.")
        for key in keys if _TABLES[table] else ():
            with place.at(table, key):
                if key not in (_TABLES[table] or ()):
                    raise ArchitectureError(
                        f"unknown key {key!r} in [{table}]; those are {', '.join(_TABLES[table] or ())}."
                    )
    model = _model(data, place)
    symmetries = [_symmetry(one, number, model, place) for number, one in enumerate(data.get("symmetry", []))]
    for axis, size in data.get("sizes", {}).items():
        with place.at("sizes", axis):
            model.check_sizes({axis: size}, required=(), call="[sizes]")
    with place.at("sizes"):
        sizes = model.check_sizes(data.get("sizes", {}), required=(), call="[sizes]")
    return ModelFile(model, tuple(symmetries), sizes)


def _model(data: Mapping[str, Json], place: Place) -> Architecture:
    for table in ("model", "params", "inputs"):
        if table not in data:
            raise ArchitectureError(f"{place.path}:1: the table [{table}] is missing.")
    params = _params(data["params"], (), place)
    inputs: dict[str, Tree] = {}
    for name, value in data["inputs"].items():
        with place.at("inputs", name):
            inputs[name] = _input(name, value)
            parse_inputs(inputs)
    parts = data.get("parts")
    with place.at("parts" if parts else "params"):
        specs = parse_arrays(params, parts)
    for name, value in data.get("init", {}).items():
        with place.at("init", name):
            check_overrides({name: value}, specs)
    with place.at("model", "forward"):
        forward = data["model"].get("forward")
        if not isinstance(forward, str) or forward.count(":") < 1:
            raise ArchitectureError(
                "[model] needs forward = 'package.module:function', or 'file.py:function' for a file beside this one, "
                f"got {forward!r}."
            )
        found = imported(forward, place.path.parent)
        function = found.function if isinstance(found, Architecture) else found
    with place.at("model", "where" if "where" in data["model"] else "forward"):
        settings = {"init": data.get("init"), "parts": parts, "where": data["model"].get("where")}
        model = architecture(params=params, inputs=inputs, **settings)(function)
    if isinstance(found, Architecture) and "init" not in data:
        same = lambda one: (one.arrays, one.inputs, one.relations)
        if same(found) == same(model):
            return found
    with place.at("model", "name"):
        model.name = data["model"].get("name", model.name)
        if not isinstance(model.name, str) or not model.name:
            raise ArchitectureError(f"[model] name must be a text, got {model.name!r}.")
    return model


def _params(tree: Mapping[str, Tree], above: tuple[str, ...], place: Place) -> dict[str, Tree]:
    """Nested tables as nested dicts; a key `"block/W"` is nested too."""
    nested: dict[str, Tree] = {}
    for key, value in tree.items():
        with place.at("params", *above, key):
            *folders, last = key.split("/")
            branch = nested
            for folder in folders:
                branch = branch.setdefault(folder, {})
                if not isinstance(branch, dict):
                    raise ArchitectureError(f"params[{key!r}]: {folder!r} is an array already.")
            if isinstance(value, dict):
                branch[last] = branch.get(last, {}) | _params(value, (*above, key), place)
            else:
                branch[last] = value
                parse_arrays({last: value})
    return nested


def _input(name: str, value: AnyArray) -> Tree:
    if not isinstance(value, dict):
        return value
    kind = value.get("kind")
    if kind not in _INPUTS:
        raise ArchitectureError(f"inputs[{name!r}]: kind must be one of {', '.join(_INPUTS)}, got {kind!r}.")
    given = {key: part for key, part in value.items() if key != "kind"}
    wanted = {"axes", "below"} if kind == "tokens" else {"axes"}
    if set(given) != wanted:
        raise ArchitectureError(
            f"inputs[{name!r}]: {kind} need {' and '.join(sorted(wanted))}, got {', '.join(given)}."
        )
    return _INPUTS[kind](**given)


def _symmetry(data: Any, number: int, model: Architecture, place: Place) -> Symmetry:
    with place.at("symmetry", number):
        for key in data:
            with place.at("symmetry", number, key):
                if key not in ("name", "group", "action"):
                    raise SymmetryError(f"unknown key {key!r} in [[symmetry]]; those are name, group, action.")
        for key in ("name", "group", "action"):
            if key not in data:
                raise SymmetryError(f"[[symmetry]] needs {key!r}.")
        with place.at("symmetry", number, "group"):
            group = group_of(data["group"], f"group of {data['name']!r}")
        with place.at("symmetry", number, "action"):
            symmetry = Symmetry(data["name"], group, data["action"])
            for key, text in data["action"].items():
                with place.at("symmetry", number, "action", key):
                    Symmetry(data["name"], group, {key: text}).bind(model.params)
            symmetry.bind(model.params)
    return symmetry
