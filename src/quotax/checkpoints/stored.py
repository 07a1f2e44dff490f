"""Files of arrays by name: safetensors, and orbax directories. Either library is imported when it is first needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from quotax.checkpoints.layout import Layout, SizedNetwork
from quotax.errors import ParameterError
from quotax.trees import named, nest

Path_ = str | os.PathLike[str]


def load(path: Path_, layout: Layout, network: SizedNetwork) -> dict[str, Any]:
    """The parameters of a network in a checkpoint: a `.safetensors` file, or a directory that orbax wrote."""
    return layout.read(_read(Path(path))[0], network)


def save(path: Path_, params: Any, layout: Layout, network: SizedNetwork, like: Path_) -> None:
    """Write parameters as the checkpoint `like` has them: its names, shapes, types, and whatever else it holds."""
    stored, metadata = _read(Path(like))
    _write(Path(path), layout.written(params, stored, network), metadata)


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str] | None]:
    if not path.exists():
        raise ParameterError(f"`checkpoints`: there is no {str(path)!r}.")
    if path.is_dir():
        with _orbax().StandardCheckpointer() as checkpointer:
            tree = checkpointer.restore(path.resolve())
        return {name.replace("/", "."): np.asarray(array) for name, array in named(tree).items()}, None
    open_ = _safetensors("safetensors").safe_open
    with open_(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def _write(path: Path, arrays: Mapping[str, np.ndarray], metadata: dict[str, str] | None) -> None:
    if path.suffix == ".safetensors":
        _safetensors("safetensors.numpy").save_file(dict(arrays), path, metadata)
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
