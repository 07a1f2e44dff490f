"""The loss that is measured: of the outputs and the targets of a data file, or a function of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from quotax.cli.arrays import outputs, targets_of
from quotax.cli.misuse import Misuse
from quotax.trees import Tree

NAMED = "mse", "cross-entropy"


def loss_of(network: Any, params: Tree, batch: Mapping[str, Any], choice: str | None, path: str, note: Any) -> Any:
    """`loss(params, batch)`: that of this name, or the one that the targets suggest."""
    import jax

    if choice is not None and choice not in NAMED:
        return _own(choice, params, batch)
    name = targets_of(batch, network, path)
    target = batch[name]
    made = jax.eval_shape(lambda p, b: outputs(network, p, b), params, dict(batch))
    if not hasattr(made, "shape"):
        raise Misuse(
            f"{network.architecture.name} has several outputs; write a loss(params, batch) and give --loss file.py:name"
        )
    if choice is None:
        choice = "cross-entropy" if target.dtype.kind in "iub" and target.shape != made.shape else "mse"
        kind = "integers" if choice == "cross-entropy" else "numbers"
        note(f"the loss is {choice}, as {name!r} holds {kind}; --loss says otherwise")
    wanted = made.shape if choice == "mse" else made.shape[:-1]
    if target.shape != wanted:
        raise Misuse(
            f"--data {path}: the outputs have shape {made.shape}, so {choice} needs targets of shape {wanted}, and "
            f"{name!r} has {target.shape}"
        )
    if choice == "cross-entropy" and (
        target.dtype.kind not in "iub" or target.min() < 0 or target.max() >= made.shape[-1]
    ):
        held = f"{target.min()} to {target.max()}" if target.dtype.kind in "iub" else str(target.dtype)
        raise Misuse(
            f"--data {path}: cross-entropy needs classes from 0 to {made.shape[-1] - 1}, and {name!r} holds {held}"
        )
    return _squared(network, name) if choice == "mse" else _cross_entropy(network, name)


def _squared(network: Any, name: str) -> Callable[[Any, Any], Any]:
    import jax.numpy as jnp

    return lambda params, batch: jnp.mean((outputs(network, params, batch) - batch[name]) ** 2)


def _cross_entropy(network: Any, name: str) -> Callable[[Any, Any], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Tree, batch: Tree) -> Any:
        scores = jax.nn.log_softmax(outputs(network, params, batch))
        return -jnp.mean(jnp.take_along_axis(scores, batch[name][..., None], axis=-1))

    return loss


def _own(place: str, params: Tree, batch: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """A function `loss(params, batch)` at `file.py:name` or `package.module:name`; batch is a dict of arrays."""
    import importlib
    import runpy

    import jax

    module, _, name = place.rpartition(":")
    if not module or not name:
        raise Misuse(f"--loss {place}: a loss is {', '.join(NAMED)}, or a function loss(params, batch) at file.py:name")
    if module.endswith(".py"):
        if not Path(module).is_file():
            raise Misuse(f"--loss {place}: there is no file {module!r}")
        found = runpy.run_path(module).get(name)
    else:
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ImportError as error:
            raise Misuse(f"--loss {place}: {error}") from None
    if not callable(found):
        raise Misuse(f"--loss {place}: {module} has no function {name!r}")
    try:
        jax.eval_shape(found, params, dict(batch))
    except TypeError as error:
        raise Misuse(
            f"--loss {place}: it is called as loss(params, batch), where batch has {', '.join(batch)}: {error}"
        ) from None
    return found
