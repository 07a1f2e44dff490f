"""safetensors files, one or several with an index: arrays are read one by one, and written back in the same files.

An index, `model.safetensors.index.json`, says in which file (shard) each array lies. Of a file only the header is read
until an array is asked for, and files are written one after another, so that no more than one of them is in memory
beside the parameters.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from quotax.checkpoints.lazy_arrays import LazyArrays
from quotax.errors import ParameterError
from quotax.trees import AnyArray

INDEX = ".safetensors.index.json"
_SHOWN = 4


@dataclass(frozen=True)
class Shards:
    """Files of one folder, by name: the arrays that each holds and its metadata; the index, where there is one."""

    arrays: LazyArrays
    names: Mapping[str, tuple[str, ...]]
    metadata: Mapping[str, dict[str, str] | None]
    index: tuple[str, Any] | None = None

    def write(self, folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
        """These arrays in files of the same names. One that is there is replaced when its successor is complete."""
        folder.mkdir(parents=True, exist_ok=True)
        for file, names in self.names.items():
            save(folder / file, {name: arrays[name] for name in names}, self.metadata[file])
        if self.index is not None:
            name, data = self.index
            (folder / name).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def save(path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Write one file: beside its place first, since what is written may still be read from there."""
    beside = path.with_name(f".{path.name}.partial")
    try:
        library("safetensors.numpy", "safetensors").save_file(dict(arrays), beside, metadata)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def found_in(folder: Path) -> Path | None:
    """The index of a folder, or its only safetensors file; nothing where it has none."""
    for pattern, what in ((f"*{INDEX}", "indices"), ("*.safetensors", "safetensors files and no index")):
        files = sorted(file for file in folder.glob(pattern) if not file.name.startswith("."))
        if len(files) > 1:
            raise ParameterError(
                f"`checkpoints`: {str(folder)!r} holds {len(files)} {what}: {_some([f.name for f in files])}. "
                "Name the one that is meant."
            )
        if files:
            return files[0]
    return None


def opened(path: Path) -> Shards:
    """One file, or those that an index names."""
    return _indexed(path) if path.name.endswith(INDEX) else _together({path.name: _file(path)}, None)


def _indexed(path: Path) -> Shards:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        where = dict(data["weight_map"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ParameterError(
            f"`checkpoints`: {str(path)!r} is no index of shards: it needs a 'weight_map' from arrays to files "
            f"({type(error).__name__}: {error})."
        ) from None
    files = list(dict.fromkeys(where.values()))
    outside = [file for file in files if not isinstance(file, str) or Path(file).name != file]
    if outside:
        raise ParameterError(f"`checkpoints`: {str(path)!r} names {outside[0]!r}, which is no file beside it.")
    missing = [file for file in files if not (path.parent / file).is_file()]
    if missing:
        lost, them = [name for name, file in where.items() if file in missing], "it" if len(missing) == 1 else "them"
        raise ParameterError(
            f"`checkpoints`: {path.name} names {len(files)} shards, and {str(path.parent)!r} has no {_some(missing)}: "
            f"without {them} {_some(lost)} are missing. Put every shard beside the index."
        )
    held = {file: _file(path.parent / file) for file in files}
    for name, file in where.items():
        own = list(held[file].keys())
        if name not in own:
            raise ParameterError(
                f"`checkpoints`: {path.name} says that {name!r} is in {file}, which holds {_some(own)}."
            )
    return _together(held, (path.name, data))


def _together(held: Mapping[str, AnyArray], index: tuple[str, Any] | None) -> Shards:
    """Open files as one set of arrays; what two of them hold is the one that the index says."""
    where = {} if index is None else dict(index[1]["weight_map"])
    read = lambda file, name: lambda: held[file].get_tensor(name)
    names = {f: tuple(name for name in held[f].keys() if where.get(name, f) == f) for f in held}  # noqa: SIM118
    arrays = LazyArrays({name: read(file, name) for file, own in names.items() for name in own})
    return Shards(arrays, names, {file: held[file].metadata() for file in held}, index)


def _file(path: Path) -> Any:
    """An open file: its header is read, and arrays when they are asked for."""
    safetensors = library("safetensors", "safetensors")
    try:
        return safetensors.safe_open(path, framework="numpy")
    except (safetensors.SafetensorError, OSError) as error:
        raise ParameterError(f"`checkpoints`: {str(path)!r} is no safetensors file: {error}.") from None


def library(module: str, package: str) -> Any:
    """A library that only files of its kind need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ParameterError(f"`checkpoints` reads this with {package}: install quotax[checkpoints].") from None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
