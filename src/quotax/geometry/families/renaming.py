"""Components up to names, so that what is compiled for one block of a network serves all of its blocks."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from quotax.artifacts import ArraySpec, Cut
from quotax.geometry.families.component import Component
from quotax.geometry.families.velocities import Family
from quotax.geometry.linalg.named import Named
from quotax.trees import AnyArray


@dataclass(frozen=True)
class Skeleton:
    """A component in numbered names, with the names of the parameters and families that it was made from."""

    part: Component
    parameters: Mapping[str, str] | None
    """Numbers by name; nothing where a family without terms may read any parameter, so that all keep their names."""
    families: Mapping[str, str]

    def numbered(self, arrays: Mapping[str, AnyArray]) -> Named:
        """The component's own arrays, in numbered names."""
        if self.parameters is None:
            return dict(arrays)
        return {new: arrays[old] for old, new in self.parameters.items() if old in arrays}

    def named(self, arrays: Mapping[str, AnyArray], names: Mapping[str, str] | None) -> Named:
        """Arrays in numbered names, called as before."""
        if names is None:
            return dict(arrays)
        return {old: arrays[new] for old, new in names.items() if new in arrays}


@functools.lru_cache(maxsize=1024)
def skeleton(part: Component) -> Skeleton:
    """The skeleton of a component; components that differ in names only share one."""
    parameters: dict[str, str] = {}
    for family in part.families:
        for term in family.terms or ():
            for name in (term.target, term.source):
                if name is not None:
                    parameters.setdefault(name, f"p{len(parameters)}")
    families = {family.name: f"f{i}" for i, family in enumerate(part.families)}
    if any(family.terms is None for family in part.families):
        return Skeleton(part, None, {name: name for name in families})
    bare = Component(tuple(_bare(family, families, parameters) for family in part.families))
    return Skeleton(_interned(bare), parameters, families)


@functools.lru_cache(maxsize=1024)
def _interned(part: Component) -> Component:
    """The first of equal components, so that nothing is compared entry by entry when a program is looked up."""
    return part


def _bare(family: Family, families: Mapping[str, str], parameters: Mapping[str, str]) -> Family:
    """A family reduced to what its field is made of, in these names; axes that are not the group's are sizes."""
    own = {spec.name: spec for spec in family.specs}
    specs = [own[old] for old in parameters if old in own]
    return Family(
        families[family.name],
        family.group,
        tuple((axis, family.sizes[axis]) for axis in dict.fromkeys(family.group.element_axes)),
        tuple(_sized(spec, family.sizes, parameters[spec.name]) for spec in specs),
        tuple(parameters[name] for name in family.moved),
        tuple(
            replace(term, target=parameters[term.target], source=term.source and parameters[term.source])
            for term in family.terms or ()
        ),
    )


def _sized(spec: ArraySpec, sizes: Mapping[str, int], name: str) -> ArraySpec:
    """The axes of an array as numbers, and which of them hold several arrays one after another."""
    axes = tuple(tuple(f if isinstance(f, int) else sizes[f] for f in axis) for axis in spec.axes)
    return ArraySpec(name, axes, cuts=tuple(Cut(cut.axis, (), 0, stacked=cut.stacked) for cut in spec.cuts))
