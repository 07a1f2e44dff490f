"""A map of names: which stored array holds which parameters, and in which order of axes.

A rule says how an array is stored and what it becomes, in letters of its own: `"d part*head*k"` becomes `"head k d"` by
taking the fused axis apart and transposing; along `part`, which no parameter has, lie the parameters that it names.
Nothing is computed, so that what is read and written back is bit for bit what it was.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from quotax.artifacts import ArraySpec
from quotax.checkpoints.lazy_arrays import LazyArrays
from quotax.errors import ParameterError
from quotax.trees import AnyArray, Tree

_LAYER = "{i}"


class _Array(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def axes_text(self) -> str: ...

    @property
    def axis_names(self) -> tuple[str, ...]: ...

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]: ...


class _Declared(Protocol):
    @property
    def params(self) -> tuple[ArraySpec, ...]: ...

    @property
    def arrays(self) -> Sequence[_Array]: ...


class SizedNetwork(Protocol):
    """A network, as far as a layout looks at it."""

    @property
    def architecture(self) -> _Declared:
        """The declaration, whose parameters have axes."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the axes."""
        ...

    def check_params(self, params: Tree, *, call: str, finite: bool = False) -> dict[str, AnyArray]:
        """The arrays by name, refused when they do not fit."""
        ...

    def taken_apart(self, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """Parts of arrays that hold several, by name."""
        ...

    def tree(self, arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """Arrays by name as the user's tree."""
        ...


@dataclass(frozen=True)
class Rule:
    """One stored array, or one for each layer (`{i}`): its name, its axes, its parameters and their axes.

    >>> Rule("h.{i}.attn.c_attn.weight", "d part*head*k", ("h{i}/Q", "h{i}/K", "h{i}/V"), "head k d").part
    'part'
    """

    stored: str
    axes: str
    params: tuple[str, ...]
    into: str

    def __post_init__(self) -> None:
        """Refuse axes that do not agree: all but one are the parameter's, and the one counts the parameters."""
        stored, own = self.factors, self.into.split()
        left = [factor for factor in stored if factor not in own]
        if len(set(stored)) < len(stored) or set(own) - set(stored) or len(left) > 1:
            raise ParameterError(f"`Rule({self.stored!r})`: the axes {self.axes!r} cannot become {self.into!r}.")
        if (len(self.params) > 1) != bool(left):
            raise ParameterError(
                f"`Rule({self.stored!r})`: {len(self.params)} parameters need an axis of {self.axes!r} along which "
                f"they lie, and {self.into!r} leaves {left[0] if left else 'none'}."
            )

    @property
    def factors(self) -> list[str]:
        """The stored axes with fused ones apart."""
        return [factor for axis in self.axes.split() for factor in axis.split("*")]

    @property
    def part(self) -> str | None:
        """The axis along which several parameters lie."""
        return next((factor for factor in self.factors if factor not in self.into.split()), None)

    def layer(self, i: str) -> Rule:
        """The rule of one layer."""
        params = tuple(name.replace(_LAYER, i) for name in self.params)
        return Rule(self.stored.replace(_LAYER, i), self.axes, params, self.into)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The stored shape."""
        return tuple(math.prod(sizes[factor] for factor in axis.split("*")) for axis in self.axes.split())

    def read(self, array: np.ndarray, sizes: Mapping[str, int]) -> list[np.ndarray]:
        """The parameters of a stored array, fused axes of theirs apart."""
        apart, own = array.reshape([sizes[factor] for factor in self.factors]), self.into.split()
        order = [self.factors.index(axis) for axis in own]
        if self.part is None:
            return [apart.transpose(order)]
        place = self.factors.index(self.part)
        return list(apart.transpose([place, *order]))

    def written(self, arrays: list[np.ndarray], sizes: Mapping[str, int]) -> np.ndarray:
        """The inverse of `read`."""
        own = ([] if self.part is None else [self.part]) + self.into.split()
        whole = arrays[0] if self.part is None else np.stack(arrays)
        return whole.transpose([own.index(factor) for factor in self.factors]).reshape(self.shape(sizes))


@dataclass(frozen=True)
class Layout:
    """The rules of a family of checkpoints.

    Attributes:
        name: what messages call it.
        rules: for every array that holds parameters.
        prefixes: names may begin with one of these.
        copies: arrays that repeat another one where they are stored at all, such as a head that is tied.
        buffers: arrays that are no parameters, as regular expressions.
    """

    name: str
    rules: tuple[Rule, ...]
    prefixes: tuple[str, ...] = ("",)
    copies: tuple[tuple[str, str], ...] = ()
    buffers: tuple[str, ...] = ()

    def read(self, stored: Mapping[str, AnyArray], network: SizedNetwork) -> dict[str, AnyArray]:
        """The parameters of a network, as a tree.

        Refused by name where an array is missing, is of another shape, or is one that the model does not have.
        """
        specs = {spec.name: spec for spec in network.architecture.params}
        applied = self._applied(stored, network)
        self._check_whole(stored, {key for key, _, _ in applied})
        arrays: dict[str, AnyArray] = {}
        for key, rule, sizes in applied:
            array = np.asarray(stored[key])
            if array.shape != rule.shape(sizes):
                at = ", ".join(f"{axis}={n}" for axis, n in sizes.items())
                raise ParameterError(
                    f"`checkpoints`: {key!r} has shape {array.shape}, but {self.name} stores {', '.join(rule.params)} "
                    f"as {rule.axes!r}, which is {rule.shape(sizes)} at {at}."
                )
            for name, found in zip(rule.params, rule.read(array, sizes), strict=True):
                arrays[name] = found.reshape(specs[name].shape(network.sizes))
        missing = [name for name in specs if name not in arrays]
        if missing:
            raise ParameterError(
                f"`checkpoints`: the layout {self.name} has no rule for {', '.join(missing)}; "
                f"it knows {', '.join(dict.fromkeys(p for rule in self.rules for p in rule.params))}."
            )
        for copy, of in self._copies(stored):
            if not np.array_equal(stored[copy], stored[of]):
                raise ParameterError(f"`checkpoints`: {copy!r} differs from {of!r}, which {self.name} ties it to.")
        return network.tree({name: arrays[name] for name in specs})

    def written(self, params: Tree, stored: Mapping[str, AnyArray], network: SizedNetwork) -> LazyArrays:
        """The stored arrays with these parameters in them, in the types they had; buffers stay as they are.

        Each is made when it is asked for.
        """
        given = network.check_params(params, call="checkpoints.save(path, params, ...)", finite=True)
        flat = network.taken_apart(given)
        specs = {spec.name: spec for spec in network.architecture.params}
        applied = self._applied(stored, network)
        self._check_whole(stored, {key for key, _, _ in applied})

        def made(key: str, rule: Rule, sizes: Mapping[str, int]) -> np.ndarray:
            arrays = [np.asarray(flat[name]).reshape(specs[name].split_shape(network.sizes)) for name in rule.params]
            return np.ascontiguousarray(rule.written(arrays, sizes).astype(np.asarray(stored[key]).dtype))

        out = {key: lambda key=key: np.asarray(stored[key]) for key in stored}
        out |= {key: functools.partial(made, key, rule, sizes) for key, rule, sizes in applied}
        return LazyArrays(out | {copy: out[of] for copy, of in self._copies(stored)})

    def _found(self, stored: Mapping[str, AnyArray], name: str) -> str | None:
        return next((prefix + name for prefix in (*self.prefixes, "") if prefix + name in stored), None)

    def _copies(self, stored: Mapping[str, AnyArray]) -> list[tuple[str, str]]:
        pairs = ((self._found(stored, copy), self._found(stored, of)) for copy, of in self.copies)
        return [(copy, of) for copy, of in pairs if copy is not None and of is not None]

    def _check_whole(self, stored: Mapping[str, AnyArray], used: set[str]) -> None:
        """Refuse what would be left behind: without it the network is another."""
        known = used | {copy for copy, _ in self._copies(stored)}
        left = [key for key in stored if key not in known and not any(re.search(b, key) for b in self.buffers)]
        if left:
            more = f" and {len(left) - 6} more" if len(left) > 6 else ""
            raise ParameterError(
                f"`checkpoints`: the checkpoint holds {', '.join(left[:6])}{more}, for which the model has no "
                f"parameters in the layout {self.name}."
            )

    def _applied(self, stored: Mapping[str, AnyArray], network: SizedNetwork) -> list[tuple[str, Rule, dict[str, int]]]:
        """The rules that parameters of the network ask for, the names they are stored under, and sizes of axes."""
        specs = {spec.name: spec for spec in network.architecture.params}
        found = []
        for rule in self._rules(specs):
            key = self._found(stored, rule.stored)
            if key is None:
                raise ParameterError(
                    f"`checkpoints`: {rule.stored!r} is missing, which {self.name} has for {', '.join(rule.params)}; "
                    f"the checkpoint holds {', '.join(list(stored)[:6])} and others."
                )
            found.append((key, rule, self._sizes(rule, specs, network.sizes)))
        return found

    def _rules(self, specs: Mapping[str, ArraySpec]) -> list[Rule]:
        """The rules of which the model has the parameters, one for each of its layers."""
        found = []
        for rule in self.rules:
            if _LAYER not in rule.stored:
                found += [rule] * any(name in specs for name in rule.params)
                continue
            pattern = re.compile(re.escape(rule.params[0]).replace(re.escape(_LAYER), r"(\d+)"))
            found += [rule.layer(m[1]) for m in map(pattern.fullmatch, specs) if m]
        for rule in found:
            absent = [name for name in rule.params if name not in specs]
            if absent:
                raise ParameterError(
                    f"`checkpoints`: {self.name} stores {', '.join(rule.params)} in one array, and the model has no "
                    f"{', '.join(absent)}."
                )
        return found

    def _sizes(self, rule: Rule, specs: Mapping[str, ArraySpec], sizes: Mapping[str, int]) -> dict[str, int]:
        shape = specs[rule.params[0]].split_shape(sizes)
        own = rule.into.split()
        if len(shape) != len(own):
            raise ParameterError(
                f"`checkpoints`: {self.name} makes {rule.params[0]} of the axes {rule.into!r}, "
                f"and the model declares it as {specs[rule.params[0]].axes_text!r}."
            )
        return dict(zip(own, shape, strict=True)) | ({} if rule.part is None else {rule.part: len(rule.params)})
