"""Models and derived groups in files: TOML that people write, JSON with the steps of proofs."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from quotax.certify import recalled
from quotax.declare import Architecture, ModelFile, Network
from quotax.declare.model_files.any_file import read
from quotax.declare.model_files.toml_writing import write
from quotax.derive import SymmetryGroup
from quotax.derive import load as load_group
from quotax.errors import SymmetryError
from quotax.pipeline.deriving import prove_field, told
from quotax.pipeline.models import check_architecture
from quotax.presenting.telling import Teller
from quotax.symmetry import Symmetry


def load(path: str | os.PathLike[str]) -> ModelFile:
    r"""The model that a TOML file declares: `.architecture`, the `.symmetries` it states, and `.sizes`.

    It has the axes of parameters and inputs, groups and actions, and the import path of the forward function:
    `"package.module:function"`, or `"file.py:function"` for a file beside it. What it states is not proved by that:
    `verify` does so. What does not fit is refused with the file's name and the line.

    A model that stands in Python is named too: `qx.load("net.py:mlp")`, `qx.load("package.module:mlp")`, with the
    symmetries of its module.

    >>> import pathlib, tempfile, quotax as qx
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "net.py").write_text("def net(p, x):\n    return p['W2'] @ (p['W1'] @ x)")
    >>> _ = (folder / "net.toml").write_text('''
    ... [model]
    ... forward = "net.py:net"
    ... [params]
    ... W1 = "h x"
    ... W2 = "y h"
    ... [inputs]
    ... x = "x"
    ... [[symmetry]]
    ... name = "linear h"
    ... group = {kind = "GL", axis = "h"}
    ... action = {W1 = "g @ W1", W2 = "W2 @ inv(g)"}''')
    >>> net, (linear,), sizes = qx.load(folder / "net.toml")
    >>> qx.verify(net, linear).status
    'proved'
    """
    return read(path)


def save(
    path: str | os.PathLike[str],
    model: Architecture | Network | SymmetryGroup,
    symmetries: Symmetry | Iterable[Symmetry] = (),
    *,
    forward: str | None = None,
) -> None:
    """Write a model to the TOML file that `load` reads, with symmetries.

    Of a derived group, its own are written; of a network, its sizes too.
    `forward` says where the function is, if it should not be named by the module or file it was defined in.
    """
    given = [symmetries] if isinstance(symmetries, Symmetry) else list(symmetries)
    sizes: Mapping[str, int] = {}
    if isinstance(model, SymmetryGroup):
        given = [*model.declared, *model.families, *model.discrete, *given]
        owner: Any = model.model
    elif isinstance(model, Network):
        owner, sizes = model.architecture, model.sizes
    else:
        owner = model
    check_architecture(owner, "save")
    write(path, owner, given, sizes, forward)


def load_symmetries(path: str | os.PathLike[str], model: Architecture | Network) -> SymmetryGroup:
    """The symmetries that `found.save(path)` wrote, for a model that declares the same parameters and inputs.

    Nothing is derived. The certificates say what the file says, with every step of their proofs:
    `found.recheck()` has the kernel replay these against the model, and refuses with the names of those that fail;
    `quotient` does so before it divides. `certificate.recheck()` is for one.

    >>> import quotax as qx, tempfile, pathlib
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "net.json"
    >>> qx.derive(net).save(path)
    >>> qx.load_symmetries(path, net).recheck().families
    (Symmetry linear h: GL(h), W1 -> g @ W1, W2 -> W2 @ inv(g),)
    """
    model = model.architecture if isinstance(model, Network) else model
    check_architecture(model, "load_symmetries")
    where = str(path)
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SymmetryError(f"`load_symmetries({where!r}, ...)`: {error.strerror or error}.") from None
    except ValueError as error:
        raise SymmetryError(f"`load_symmetries({where!r}, ...)`: it is not JSON: {error}.") from None
    return load_group(data, model, recalled, prove_field, functools.partial(told, Teller(None)), where)
