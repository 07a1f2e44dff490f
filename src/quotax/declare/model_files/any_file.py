"""Which kind of file a path names, a TOML file or a model that stands in Python."""

from __future__ import annotations

import os
import re
from pathlib import Path

from quotax.declare.model_files.model_file import ModelFile
from quotax.declare.model_files.python_models import DOTTED, models_in, module_of, standing_in_python
from quotax.declare.model_files.toml_model import read_toml
from quotax.errors import ArchitectureError


def read(path: str | os.PathLike[str]) -> ModelFile:
    """The model of a file, its symmetries bound to its parameters once, so that what does not fit is refused here."""
    module, _, name = str(path).rpartition(":")
    if re.fullmatch(DOTTED, name) and (module.endswith(".py") or re.fullmatch(DOTTED, module)):
        return standing_in_python(module, name)
    if Path(path).suffix == ".py":
        call = f"`load({str(path)!r})`"
        models = models_in(module_of(str(path), Path(), call))
        if not models:
            raise ArchitectureError(f"{call}: nothing in it was made by `@qx.architecture` or `qx.from_function`.")
        listed = " or ".join(f"{path}:{model}" for model in models)
        raise ArchitectureError(f"{call} needs the name of a model in it: {listed}.")
    return read_toml(Path(path))
