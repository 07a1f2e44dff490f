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
from quotax.errors import ParameterError
from quotax.trees import named, nest

Path_ = str | os.PathLike[str]


def load(path: Path_, layout: Layout | ByName, network: SizedNetwork) -> dict[str, Any]:
    """The parameters of a network in a checkpoint: a `.safetensors` or `.npz` file, or a directory that orbax wrote."""
    return layout.read(_read(Path(path))[0], network)


def save(path: Path_, params: Any, layout: Layout | ByName, network: SizedNetwork, like: Path_ | None = None) -> None:
    """Write parameters as the checkpoint `like` has them: its names, shapes, types, and whatever else it holds.

    In the layout `BY_NAME` nothing has to be imitated.
    """
    if like is None and not isinstance(layout, ByName):
        raise ParameterError(f"`checkpoints.save`: the layout {layout.name} needs like=, a checkpoint to be imitated.")
    stored, metadata = _read(Path(like)) if like is not None else ({}, None)
    _write(Path(path), layout.written(params, stored, network), metadata)


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str] | None]:
    if not path.exists():
        raise ParameterError(f"`checkpoints`: there is no {str(path)!r}.")
    if path.is_dir():
        with _orbax().StandardCheckpointer() as checkpointer:
            tree = checkpointer.restore(path.resolve())
        return {name.replace("/", "."): np.asarray(array) for name, array in named(tree).items()}, None
    if path.suffix == ".npz":
        try:
            with np.load(path) as archive:
                return dict(archive), None
        except (OSError, ValueError, TypeError, zipfile.BadZipFile):
            raise ParameterError(
                f"`checkpoints`: {str(path)!r} is no archive of arrays, as `numpy.savez` writes it."
            ) from None
    library = _safetensors("safetensors")
    try:
        with library.safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    except library.SafetensorError as error:
        raise ParameterError(f"`checkpoints`: {str(path)!r} is no safetensors file: {error}.") from None


def _write(path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None) -> None:
    if path.suffix == ".safetensors":
        _safetensors("safetensors.numpy").save_file(dict(arrays), path, metadata)
        return
    if path.suffix == ".npz":
        np.savez(path, **arrays)  # pyright: ignore[reportArgumentType]
        return
    with _orbax().StandardCheckpointer() as checkpointer:
        checkpointer.save(path.resolve(), nest({name.replace(".", "/"): array for name, array in arrays.items()}))


def _safetensors(module: str) -> Any:
    return _imported(module, "safetensors")


def _orbax() -> Any:
    return _imported("orbax.checkpoint", "orbax-checkpoint")


def _imported(module: str, package: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ParameterError(f"`checkpoints` reads this with {package}: install quotax[checkpoints].") from None
