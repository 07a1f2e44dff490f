"""Files of arrays by name: safetensors, npz, orbax directories. Either library is imported when it is first needed."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from quotax.checkpoints.by_name import ByName
from quotax.checkpoints.layout import Layout, SizedNetwork
from quotax.checkpoints.shards import INDEX, Shards, found_in, library, opened
from quotax.checkpoints.shards import save as save_file
from quotax.errors import ParameterError
from quotax.trees import AnyArray, Tree, named, nest

Path_ = str | os.PathLike[str]


def load(path: Path_, layout: Layout | ByName, network: SizedNetwork) -> dict[str, AnyArray]:
    """The parameters of a network in a checkpoint.

    A `.safetensors` or `.npz` file, the index of several (`model.safetensors.index.json`) or the folder that holds
    either, or a directory that orbax wrote.
    """
    return layout.read(_read(Path(path))[0], network)


def save(path: Path_, params: Tree, layout: Layout | ByName, network: SizedNetwork, like: Path_ | None = None) -> None:
    """Write parameters as the checkpoint `like` has them: its names, shapes, types, and whatever else it holds.

    A folder, or a `.safetensors.index.json`, has the same files as `like`, with the same arrays in each. In the layout
    `BY_NAME` nothing has to be imitated.
    """
    if like is None and not isinstance(layout, ByName):
        raise ParameterError(f"`checkpoints.save`: the layout {layout.name} needs like=, a checkpoint to be imitated.")
    stored, files = _read(Path(like)) if like is not None else ({}, None)
    _write(Path(path), layout.written(params, stored, network), files)


def _read(path: Path) -> tuple[Mapping[str, np.ndarray], Shards | None]:
    if not path.exists():
        raise ParameterError(f"`checkpoints`: there is no {str(path)!r}.")
    inside = found_in(path) if path.is_dir() else path
    if inside is None:
        with _orbax().StandardCheckpointer() as checkpointer:
            tree = checkpointer.restore(path.resolve())
        return {name.replace("/", "."): np.asarray(array) for name, array in named(tree).items()}, None
    if inside.suffix == ".npz":
        try:
            with np.load(inside) as archive:
                return dict(archive), None
        except (OSError, ValueError, TypeError, zipfile.BadZipFile):
            raise ParameterError(
                f"`checkpoints`: {str(inside)!r} is no archive of arrays, as `numpy.savez` writes it."
            ) from None
    files = opened(inside)
    return files.arrays, files


def _write(path: Path, arrays: Mapping[str, np.ndarray], files: Shards | None) -> None:
    if path.name.endswith(INDEX):
        if files is None or files.index is None:
            raise ParameterError(
                f"`checkpoints.save({str(path)!r}, ...)`: an index needs like=, a checkpoint of several files."
            )
        Shards(files.arrays, files.names, files.metadata, (path.name, files.index[1])).write(path.parent, arrays)
    elif path.suffix == ".safetensors":
        said = [] if files is None else [each for each in files.metadata.values() if each]
        save_file(path, arrays, said[0] if said else None)
    elif path.suffix == ".npz":
        np.savez(path, **dict(arrays))  # pyright: ignore[reportArgumentType]
    elif files is not None:
        files.write(path, arrays)
    else:
        with _orbax().StandardCheckpointer() as checkpointer:
            checkpointer.save(path.resolve(), nest({name.replace(".", "/"): array for name, array in arrays.items()}))


def _orbax() -> Any:
    return library("orbax.checkpoint", "orbax-checkpoint")
