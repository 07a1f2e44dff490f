"""Parameters and data of files, checked against the model before anything is computed with them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quotax.cli.misuse import Misuse
from quotax.trees import Tree

RANDOM = "random"
_TARGETS = "targets", "target", "labels", "label", "y"
"""What the array that is no input may be called, where there are several."""
_TEACHER = 1
"""Folded into the key of the network that random targets come from."""


def params_of(network: Any, path: str | None, layout: str, seed: int, note: Any, option: str = "--params") -> Any:
    """The parameters in a file; those that a model came with; random ones."""
    import jax

    import quotax as qx

    if path is None:
        own = getattr(network.architecture, "parameters", None)
        if own is not None:
            return own
        note(f"no --params: random initial parameters (--seed {seed})")
        return network.init(jax.random.key(seed))
    try:
        tree = qx.checkpoints.load(path, _layout(layout), network)
        network.check_params(tree, call=path, finite=True)
    except qx.ParameterError as error:
        raise Misuse(f"{option} {path}: {bare(error)}") from None
    return jax.tree.map(jax.numpy.asarray, tree)


def save_params(path: str, params: Tree, layout: str, network: Any, like: str) -> None:
    """Write parameters in the layout of another file."""
    import quotax as qx

    qx.checkpoints.save(path, params, _layout(layout), network, like=like)


def _layout(name: str) -> Any:
    import quotax as qx

    return {"by-name": qx.checkpoints.BY_NAME, "gpt2": qx.checkpoints.GPT2, "llama": qx.checkpoints.LLAMA}[name]


def bare(error: Exception) -> str:
    """A message without the call that it begins with, which is not what was typed."""
    text = str(error)
    return text.partition("`: ")[2] if text.startswith("`") and "`: " in text else text


def data_of(network: Any, path: str, seed: int) -> dict[str, Any]:
    """The arrays of a data file by name, or random ones: an array for each input, examples first, and targets."""
    if path.partition(":")[0] == RANDOM:
        count = path.partition(":")[2] or "64"
        if not count.isdecimal() or int(count) < 1:
            raise Misuse(f"--data {path}: the number of random examples is written as in --data random:64")
        return _random(network, int(count), seed)
    arrays = _read(path)
    inputs = network.architecture.inputs
    missing = [spec.name for spec in inputs if spec.name not in arrays]
    if missing:
        raise Misuse(
            f"--data {path}: it holds {', '.join(arrays) or 'nothing'}, and {network.architecture.name} has the inputs "
            f"{', '.join(spec.name for spec in inputs)}; name its arrays after them, and the targets 'targets'"
        )
    lengths = {name: array.shape[0] if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) > 1 or not all(lengths.values()):
        raise Misuse(f"--data {path}: every array has examples along its first axis, and here are {_counts(lengths)}")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise Misuse(f"--data {path}: {name!r} holds {array.dtype}, not numbers")
        _check_finite(path, name, array)
    for spec in inputs:
        arrays[spec.name] = _as_declared(path, spec, arrays[spec.name], network.sizes)
    return arrays


def _read(path: str) -> dict[str, Any]:
    import numpy as np

    if not Path(path).is_file():
        raise Misuse(f"--data {path}: there is no such file; give an .npz file, or random:64 to try things out")
    try:
        with np.load(path) as archive:
            return dict(archive)
    except (OSError, ValueError, TypeError, AttributeError, zipfile.BadZipFile):
        raise Misuse(
            f"--data {path}: it is no archive of arrays; write one with numpy.savez('data.npz', x=..., targets=...)"
        ) from None


def _counts(lengths: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {name}" for name, count in lengths.items())


def _check_finite(path: str, name: str, array: Any) -> None:
    import numpy as np

    bad = int(array.size - np.isfinite(array).sum())
    if bad:
        first = np.argwhere(~np.isfinite(array))[0].tolist()
        raise Misuse(
            f"--data {path}: of the {array.size} entries of {name!r} {bad} are NaN or infinite, the first at {first}; "
            "leave such examples out"
        )


def _as_declared(path: str, spec: Any, array: Any, sizes: Mapping[str, int]) -> Any:
    """An input as the model reads it; refused where its shape or its values are not those of the declaration."""
    import jax.numpy as jnp

    axes = ["*".join(map(str, axis)) for axis in spec.axes]
    lengths = [_length(axis, sizes) for axis in spec.axes]
    fits = array.ndim == 1 + len(axes) and all(n in (None, m) for n, m in zip(lengths, array.shape[1:], strict=False))
    if not fits:
        wanted = ", ".join(
            f"{a}={n}" if n is not None and not a.isdecimal() else a for a, n in zip(axes, lengths, strict=True)
        )
        raise Misuse(
            f"--data {path}: {spec.name!r} has shape {array.shape}, and must be (examples, {wanted}); "
            "sizes are given as in h=4"
        )
    if spec.kind == "tokens":
        bound = spec.bound(sizes)
        if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= bound:
            held = f"{array.min()} to {array.max()}" if array.dtype.kind in "iu" else str(array.dtype)
            raise Misuse(
                f"--data {path}: {spec.name!r} are tokens, integers from 0 to {bound - 1}, and here are {held}"
            )
        return jnp.asarray(array)
    if spec.kind == "positive" and array.min() <= 0:
        raise Misuse(f"--data {path}: {spec.name!r} must be positive, and its least entry is {array.min()}")
    return jnp.asarray(array, float)


def _length(axis: tuple[Any, ...], sizes: Mapping[str, int]) -> int | None:
    """How long an axis is, if that is known."""
    product = 1
    for factor in axis:
        size = factor if isinstance(factor, int) else sizes.get(factor)
        if size is None:
            return None
        product *= size
    return product


def _random(network: Any, count: int, seed: int) -> dict[str, Any]:
    """Random inputs of the kinds that are declared, and the outputs of a network with other random parameters."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    rng = np.random.default_rng(seed)
    free = [axis for axis in network.architecture.axis_names if axis not in network.sizes]
    if free:
        example = " ".join(f"{axis}=8" for axis in free)
        raise Misuse(
            f"--data random needs the size of {', '.join(free)}, which the inputs have; add for example {example}"
        )
    arrays: dict[str, Any] = {}
    for spec in network.architecture.inputs:
        shape = (count, *spec.shape(network.sizes))
        if spec.kind == "tokens":
            arrays[spec.name] = jnp.asarray(rng.integers(0, spec.bound(network.sizes), shape, np.int32))
        elif spec.kind == "mask":
            arrays[spec.name] = jnp.asarray(rng.integers(0, 2, shape), float)
        else:
            drawn = rng.normal(size=shape)
            arrays[spec.name] = jnp.asarray(np.exp(drawn) if spec.kind == "positive" else drawn, float)
    params = network.init(jax.random.fold_in(jax.random.key(seed), _TEACHER))
    arrays["targets"] = outputs(network, params, arrays)
    return arrays


def outputs(network: Any, params: Tree, batch: Mapping[str, Any]) -> Any:
    """The outputs for a batch of examples."""
    import jax

    inputs = [batch[spec.name] for spec in network.architecture.inputs]
    return jax.vmap(network, (None, *(0 for _ in inputs)))(params, *inputs)


def targets_of(batch: Mapping[str, Any], network: Any, path: str) -> str:
    """The name of the array that outputs are compared with."""
    others = [name for name in batch if name not in {spec.name for spec in network.architecture.inputs}]
    named = [name for name in _TARGETS if name in others]
    if len(others) == 1 or named:
        return others[0] if len(others) == 1 else named[0]
    held = f"several arrays that may be: {', '.join(others)}" if others else "none"
    raise Misuse(f"--data {path}: the loss needs targets, and there are {held}; call the array 'targets'")
