"""Registration of the JAX backend with geomstats, leaving no trace on the process around it."""

import contextlib
import importlib
import logging
import os
import sys
import threading
import types
import warnings
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

BACKEND = "jax"
_VARIABLE = "GEOMSTATS_BACKEND"
_REGISTERED = f"geomstats._backend.{BACKEND}"
_MARK = "__quotax_backend__"
_lock = threading.RLock()


class BackendError(ValueError, RuntimeError):
    """geomstats is already loaded with a backend that is not the one of quotax."""


def is_active() -> bool:
    """Whether geomstats is loaded in this process with the JAX backend of quotax."""
    backend = sys.modules.get("geomstats.backend")
    registered = sys.modules.get(_REGISTERED)
    return backend is not None and hasattr(registered, _MARK) and _loaded_name() == BACKEND


def activate() -> types.ModuleType:
    """Import geomstats with the JAX backend and return `geomstats.backend`.

    Calling it again returns the same module. The environment, the root logger and the warning filters are, on
    return, what they were before the call.

    Raises:
        BackendError: geomstats is already loaded with another backend; a process can only hold one.
    """
    with _lock:
        if is_active():
            return sys.modules["geomstats.backend"]
        if "geomstats.backend" in sys.modules:
            raise BackendError(
                f"`quotax.geomstats_jax.activate()`: geomstats is already loaded with its {_loaded_name()!r} backend, "
                "and a process can only hold one. Call `quotax.geomstats_jax.activate()` (or import quotax and build "
                "the first quotient) before anything imports geomstats, or start a fresh process."
            )
        _forget_failed_import()
        with _unchanged_process(), _environment(_VARIABLE, BACKEND):
            try:
                _register()
                _import()
                return sys.modules["geomstats.backend"]
            except BaseException:
                _forget_failed_import()
                raise


def _loaded_name() -> str:
    private = sys.modules.get("geomstats._backend")
    public = sys.modules.get("geomstats.backend")
    return getattr(private, "BACKEND_NAME", None) or getattr(public, "__name__", "unknown").rpartition(".")[2]


def _register() -> None:
    # geomstats looks its backend up by name with `importlib.import_module`, which consults `sys.modules` first.
    from quotax.geomstats_jax import autodiff, linalg, random, toplevel

    backend = _module(_REGISTERED, toplevel.__file__, {**toplevel.NAMESPACE, **toplevel.tolerances()})
    for part in (autodiff, linalg, random):
        name = part.__name__.rpartition(".")[2]
        submodule = _module(f"{_REGISTERED}.{name}", part.__file__, part.NAMESPACE)
        setattr(backend, name, submodule)
        sys.modules[submodule.__name__] = submodule
    setattr(backend, _MARK, True)
    sys.modules[_REGISTERED] = backend


def _import() -> None:
    import jax

    # JAX reports at INFO which devices it did not find; geomstats sets the root logger to INFO and then computes.
    jax.devices()
    # Some of geomstats' constants need 64 bits. Made once and kept on the host, they serve both settings of the flag.
    with jax.enable_x64(True):
        importlib.import_module("geomstats")
        importlib.import_module("geomstats.backend")
    for name, module in list(sys.modules.items()):
        if name.startswith("geomstats."):
            for key, value in list(vars(module).items()):
                if isinstance(value, jax.Array):
                    setattr(module, key, np.asarray(value) if value.ndim else value.item())


def _module(name: str, file: str | None, namespace: Mapping[str, Any]) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__file__ = file
    vars(module).update(namespace)
    return module


def _forget_failed_import() -> None:
    # An import that failed half-way (geomstats' own numpy backend does, with numpy 2.4) leaves `geomstats._backend`
    # behind, bound to the name of the backend that could not be loaded, and its finder on `sys.meta_path`.
    for name in [name for name in sys.modules if name == "geomstats" or name.startswith("geomstats.")]:
        del sys.modules[name]
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != "geomstats._backend"]


@contextlib.contextmanager
def _environment(variable: str, value: str) -> Generator[None]:
    before = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = before


@contextlib.contextmanager
def _unchanged_process() -> Generator[None]:
    # geomstats calls `logging.basicConfig` and sets the root logger to INFO; its imports raise deprecation warnings.
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.setLevel(level)
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
