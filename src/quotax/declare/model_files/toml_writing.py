"""A model written as the TOML file that is read as it."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from quotax.artifacts import ArraySpec
from quotax.declare.architecture import Architecture
from quotax.declare.initialisers import constant_of
from quotax.declare.model_files.python_models import FILES
from quotax.errors import ArchitectureError, SymmetryError
from quotax.presenting import Json
from quotax.symmetry import Symmetry
from quotax.symmetry.plain import symmetry_data


def write(
    path: str | os.PathLike[str],
    model: Architecture,
    symmetries: Iterable[Symmetry] = (),
    sizes: Mapping[str, int] | None = None,
    forward: str | None = None,
) -> None:
    """The file that `read` reads as this model with these symmetries."""
    path = Path(path)
    itself = forward is None and model.place is not None
    forward = forward or _import_path(model, path.parent)
    constants = {} if itself else {name: constant_of(initialise) for name, initialise in model.init.items()}
    lost = [name for name, value in constants.items() if value is None]
    if lost:
        raise ArchitectureError(
            f"`save({str(path)!r}, ...)`: {model.name} has functions that initialise {', '.join(lost)}, which a file "
            "keeps only with the architecture itself: decorate its function where it is defined."
        )
    named = model.name == getattr(model.function, "__name__", "")
    lines = ["[model]", f"forward = {_text(forward)}", *([] if named else [f"name = {_text(model.name)}"])]
    where = model.relations.text
    lines += [f"where = {_text(where)}"] if where else []
    lines += ["", "[params]", *(f"{_key(spec.name)} = {_text(spec.axes_text)}" for spec in model.arrays)]
    labels = {array.name: " ".join(array.labels) for array in model.arrays if array.labels}
    if labels:
        lines += ["", "[parts]", *(f"{_key(name)} = {_text(text)}" for name, text in labels.items())]
    lines += ["", "[inputs]", *(f"{_key(spec.name)} = {_input_text(spec)}" for spec in model.inputs)]
    if constants:
        lines += ["", "[init]", *(f"{_key(name)} = {value!r}" for name, value in constants.items())]
    if sizes:
        lines += ["", "[sizes]", *(f"{_key(axis)} = {size}" for axis, size in sizes.items())]
    for symmetry in symmetries:
        symmetry.bind(model.params)
        if symmetry.constants:
            raise SymmetryError(
                f"`save({str(path)!r}, ...)`: {symmetry.name!r} reads arrays of numbers, {symmetry.constants[0].name} "
                "among them, which such a file does not hold: `found.save(path)` keeps them."
            )
        data = symmetry_data(symmetry)
        lines += ["", "[[symmetry]]", f"name = {_text(symmetry.name)}", f"group = {_inline(data['group'])}"]
        lines += ["[symmetry.action]", *(f"{_key(key)} = {_text(text)}" for key, text in symmetry.action.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _import_path(model: Architecture, folder: Path) -> str:
    """Where the model's function is: in a module that can be imported, else in a file."""
    function = model.function
    module, name = getattr(function, "__module__", None), model.place or getattr(function, "__qualname__", "")
    if module is None or not name or "<" in name:
        raise ArchitectureError(
            f"`save`: the function of {model.name} is not found in a module ({name or function!r}): a file cannot say "
            "where it is. Define it at the top of a module, or pass forward='module:function'."
        )
    if module != "__main__" and not module.startswith(FILES):
        return f"{module}:{name}"
    source = inspect.getsourcefile(function)
    if source is None or not Path(source).is_file():
        raise ArchitectureError(f"`save`: the function of {model.name} was typed in, and is in no file; pass forward=.")
    return f"{os.path.relpath(Path(source).resolve(), folder.resolve())}:{name}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _inline(data: Mapping[str, Json]) -> str:
    return (
        "{" + ", ".join(f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in data.items()) + "}"
    )


def _input_text(spec: ArraySpec) -> str:
    if spec.kind == "real":
        return _text(spec.axes_text)
    below = {} if spec.below is None else {"below": spec.below}
    return _inline({"kind": spec.kind, "axes": spec.axes_text} | below)
