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

Whatever is refused is refused with the file and the line. A model that stands in Python is named by its file or module:
`net.py:mlp`, `package.module:mlp`.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from quotax.artifacts import ArraySpec
from quotax.declare.architecture import Architecture, architecture
from quotax.declare.axes import Mask, Positive, Tokens, parse_arrays, parse_inputs
from quotax.declare.initialisers import check_overrides, constant_of
from quotax.declare.network import Network
from quotax.errors import ArchitectureError, QuotaxError, SymmetryError
from quotax.symmetry import Symmetry
from quotax.symmetry.plain import group_of, symmetry_data

_TABLES = {
    "model": ("forward", "name", "where"),
    **dict.fromkeys(("params", "parts", "inputs", "init", "sizes", "symmetry")),
}
"""The tables of a file, with their keys where these are fixed."""

_INPUTS = {"tokens": Tokens, "mask": Mask, "positive": Positive}

_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"

_FILES = "_quotax_model_file_"
"""What the modules that are made of files beside a TOML are called, before a number of their own."""


class ModelFile(NamedTuple):
    """What a file declares: a model, the symmetries stated for it, and sizes, if it has any.

    Of a Python module the symmetries are all that stand in it, for whichever model they were stated.
    """

    architecture: Architecture
    symmetries: tuple[Symmetry, ...]
    sizes: dict[str, int]


class _Place(NamedTuple):
    """A file, and the lines of its keys: by the tables that lead there, the numbers of `[[symmetry]]` among them."""

    path: Path
    lines: Mapping[tuple[Any, ...], int]

    @contextmanager
    def at(self, *keys: Any) -> Generator[None]:
        """Refusals in here are those of this key, or of the nearest that has a line, and say so."""
        try:
            yield
        except QuotaxError as error:
            if str(error).startswith(f"{self.path}:"):
                raise
            raise type(error)(f"{self.path}:{self.line(*keys)}: {error}") from None

    def line(self, *keys: Any) -> int:
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)


def read(path: str | os.PathLike[str]) -> ModelFile:
    """The model of a file, its symmetries bound to its parameters once, so that what does not fit is refused here."""
    module, _, name = str(path).rpartition(":")
    if re.fullmatch(_DOTTED, name) and (module.endswith(".py") or re.fullmatch(_DOTTED, module)):
        return _standing_in_python(module, name)
    if Path(path).suffix == ".py":
        call = f"`load({str(path)!r})`"
        models = _models(_module(str(path), Path(), call))
        if not models:
            raise ArchitectureError(f"{call}: nothing in it was made by `@qx.architecture` or `qx.from_function`.")
        listed = " or ".join(f"{path}:{model}" for model in models)
        raise ArchitectureError(f"{call} needs the name of a model in it: {listed}.")
    path = Path(path)
    data, place = _parsed(path)
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


def _parsed(path: Path) -> tuple[dict[str, Any], _Place]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ArchitectureError(f"`load({str(path)!r})`: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise ArchitectureError(f"`load({str(path)!r})`: it is not UTF-8: {error}.") from None
    try:
        return tomllib.loads(text), _Place(path, _lines(text))
    except tomllib.TOMLDecodeError as error:
        found = re.search(r" \(at line (\d+), column \d+\)", str(error))
        line = found[1] if found else len(text.splitlines()) or 1
        said = str(error).replace(found[0], "") if found else str(error).replace(" (at end of document)", "")
        raise ArchitectureError(f"{path}:{line}: it is not TOML: {said}.") from None


_KEY = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_PATH = rf"{_KEY}(?:\s*\.\s*{_KEY})*"


def _lines(text: str) -> dict[tuple[Any, ...], int]:
    """The line of every table and of every key that begins a line, of a file that is TOML.

    Where a line of a longer text looks like a key too, the first of the two counts.
    """
    found: dict[tuple[Any, ...], int] = {}
    table: tuple[Any, ...] = ()
    counts: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if header := re.fullmatch(rf"\s*(\[\[?)\s*({_PATH})\s*\]\]?\s*(?:#.*)?", line):
            table = _keys(header[2]) or ("",)
            if header[1] == "[[":
                counts[table[0]] = counts.get(table[0], -1) + 1
            if table[0] in counts:
                table = (table[0], counts[table[0]], *table[1:])
            keys = table
        elif key := re.match(rf"\s*({_PATH})\s*=", line):
            keys = (*table, *_keys(key[1]))
        else:
            continue
        for end in range(1, len(keys) + 1):
            found.setdefault(keys[:end], number)
    return found


def _keys(text: str) -> tuple[str, ...]:
    """The keys that a dotted path names; none where it is not one, as within a longer text."""
    keys: list[str] = []
    try:
        found: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    while isinstance(found, dict):
        ((key, found),) = found.items()
        keys.append(key)
    return tuple(keys)


# --- the model


def _model(data: Mapping[str, Any], place: _Place) -> Architecture:
    for table in ("model", "params", "inputs"):
        if table not in data:
            raise ArchitectureError(f"{place.path}:1: the table [{table}] is missing.")
    params = _params(data["params"], (), place)
    inputs: dict[str, Any] = {}
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
        found = _imported(forward, place.path.parent)
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


def _params(tree: Mapping[str, Any], above: tuple[str, ...], place: _Place) -> dict[str, Any]:
    """Nested tables as nested dicts; a key `"block/W"` is nested too."""
    nested: dict[str, Any] = {}
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


def _input(name: str, value: Any) -> Any:
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


def _imported(forward: str, folder: Path) -> Callable[..., Any] | Architecture:
    """The function, or architecture, at an import path."""
    module, _, name = forward.rpartition(":")
    found = _module(module, folder, f"forward = {forward!r}")
    for part in name.split("."):
        if not hasattr(found, part):
            raise ArchitectureError(f"forward = {forward!r}: {module!r} has no {name!r}.")
        found = getattr(found, part)
    if not callable(found) and not isinstance(found, Architecture):
        raise ArchitectureError(f"forward = {forward!r} must be a function of (params, *inputs), got {found!r}.")
    return found


def _module(module: str, folder: Path, call: str) -> Any:
    """A module by name, or by its file's; `call` begins a refusal."""
    try:
        return _executed(folder / module) if module.endswith(".py") else importlib.import_module(module)
    except QuotaxError:
        raise
    except ImportError as error:
        raise ArchitectureError(f"{call}: {error}.") from error
    except Exception as error:
        at = _last_line(error, module)
        raise ArchitectureError(f"{call}: importing {module!r} raised {type(error).__name__}: {error}{at}") from error


def _last_line(error: Exception, module: str) -> str:
    """Where in the module's own file an error arose."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == Path(module).name]
    return f" (line {frames[-1].lineno})" if frames and not isinstance(error, SyntaxError) else ""


def _standing_in_python(module: str, name: str) -> ModelFile:
    """The model of this name in a file or a module, with the symmetries beside it."""
    call = f"`load({f'{module}:{name}'!r})`"
    holder = found = _module(module, Path(), call)
    models = _models(holder)
    listed = f"; the models in it are {', '.join(models)}" if models else ""
    for part in name.split("."):
        if not hasattr(found, part):
            near = difflib.get_close_matches(name, models, 1)
            meant = f" (is {near[0]!r} meant?)" if near else ""
            raise ArchitectureError(f"{call}: {module!r} has no {name!r}{meant}{listed}.")
        found = getattr(found, part)
    if not isinstance(found, Architecture | Network):
        what = f"the function {name}" if inspect.isfunction(found) else repr(found)
        raise ArchitectureError(
            f"{call}: it must be what `@qx.architecture(params=..., inputs=...)`, `.at(...)` or `qx.from_function` "
            f"return, got {what}{listed}."
        )
    sizes = found.sizes if isinstance(found, Network) else dict(found.own)
    model = found.architecture if isinstance(found, Network) else found
    return ModelFile(model, tuple(each for each in vars(holder).values() if isinstance(each, Symmetry)), dict(sizes))


def _models(module: Any) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Architecture | Network)]


def _executed(path: Path) -> Any:
    """The module of a file, executed when it is first asked for and when it has changed."""
    path = path.resolve()
    if not path.is_file():
        raise ArchitectureError(f"there is no file {str(path)!r}.")
    content = path.read_bytes()
    name = f"{_FILES}{hashlib.sha256(str(path).encode() + content).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


# --- symmetries


def _symmetry(data: Any, number: int, model: Architecture, place: _Place) -> Symmetry:
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


# --- writing


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
    if module != "__main__" and not module.startswith(_FILES):
        return f"{module}:{name}"
    source = inspect.getsourcefile(function)
    if source is None or not Path(source).is_file():
        raise ArchitectureError(f"`save`: the function of {model.name} was typed in, and is in no file; pass forward=.")
    return f"{os.path.relpath(Path(source).resolve(), folder.resolve())}:{name}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _inline(data: Mapping[str, Any]) -> str:
    return (
        "{" + ", ".join(f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in data.items()) + "}"
    )


def _input_text(spec: ArraySpec) -> str:
    if spec.kind == "real":
        return _text(spec.axes_text)
    below = {} if spec.below is None else {"below": spec.below}
    return _inline({"kind": spec.kind, "axes": spec.axes_text} | below)
