"""Models that stand in Python, named by their file or module: `net.py:mlp`, `package.module:mlp`."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from quotax.declare.architecture import Architecture
from quotax.declare.model_files.model_file import ModelFile
from quotax.declare.network import Network
from quotax.errors import ArchitectureError, QuotaxError
from quotax.symmetry import Symmetry
from quotax.trees import Tree

DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
"""A name of Python, with dots."""

FILES = "_quotax_model_file_"
"""What the modules that are made of files beside a TOML are called, before a number of their own."""


def imported(forward: str, folder: Path) -> Callable[..., Tree] | Architecture:
    """The function, or architecture, at an import path."""
    module, _, name = forward.rpartition(":")
    found = module_of(module, folder, f"forward = {forward!r}")
    for part in name.split("."):
        if not hasattr(found, part):
            raise ArchitectureError(f"forward = {forward!r}: {module!r} has no {name!r}.")
        found = getattr(found, part)
    if not callable(found) and not isinstance(found, Architecture):
        raise ArchitectureError(f"forward = {forward!r} must be a function of (params, *inputs), got {found!r}.")
    return found


def module_of(module: str, folder: Path, call: str) -> Tree:
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


def standing_in_python(module: str, name: str) -> ModelFile:
    """The model of this name in a file or a module, with the symmetries beside it."""
    call = f"`load({f'{module}:{name}'!r})`"
    holder = found = module_of(module, Path(), call)
    models = models_in(holder)
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


def models_in(module: Tree) -> list[str]:
    """The names of the models that stand in a module."""
    return [name for name, value in vars(module).items() if isinstance(value, Architecture | Network)]


def _executed(path: Path) -> Tree:
    """The module of a file, executed when it is first asked for and when it has changed."""
    path = path.resolve()
    if not path.is_file():
        raise ArchitectureError(f"there is no file {str(path)!r}.")
    content = path.read_bytes()
    name = f"{FILES}{hashlib.sha256(str(path).encode() + content).hexdigest()[:12]}"
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
