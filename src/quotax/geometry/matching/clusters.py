"""Blocks that are solved together: a permutation with the signs of its units and the elements inside its copies.

Which head goes to which does not depend on how each is rotated: the score of a pair of heads is the best that any
rotation can do (a sum of singular values), the assignment is solved on those scores, and the rotations follow in
closed form. The same holds for units up to a sign. Parameters that only one cluster touches are matched exactly so.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from quotax.geometry.families.compact import CompactPart, Touch
from quotax.geometry.linalg.named import Named

_PAIRED_LIMIT = 2**25
"""What is inside copies is solved together with their permutation when comparing all pairs takes at most so many
numbers."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """A permutation, signs on the same axis, and blocks with one copy per index of that axis; any of them may lack."""

    permutation: CompactPart | None
    signs: tuple[CompactPart, ...]
    copies: tuple[CompactPart, ...]

    @property
    def blocks(self) -> tuple[CompactPart, ...]:
        """All members."""
        return (*([self.permutation] if self.permutation else ()), *self.signs, *self.copies)

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that any member touches."""
        return tuple(dict.fromkeys(name for block in self.blocks for name in block.touches))

    def curved(self, names: Sequence[str]) -> bool:
        """Whether some parameter is touched twice by one block, so that the objective is quadratic."""
        return any(len(block.touches.get(name, ())) > 1 for block in self.blocks for name in names)

    def exact(self, name: str) -> bool:
        """Whether the joint solution is the best there is for this parameter."""
        touching = [block for block in self.blocks if name in block.touches]
        if any(len(block.touches[name]) > 1 for block in touching):
            return False
        if self.permutation is None:
            return bool(self.signs) or len(touching) == 1
        copies = [block for block in touching if block in self.copies]
        return self.permutation in touching and (not copies or len(touching) == 2)


@dataclass(frozen=True, eq=False)
class BlockOrder:
    """The blocks in the order in which they act, and the steps that improve some of them with the others fixed."""

    blocks: tuple[CompactPart, ...]
    """Without shifts."""

    def touching(self, name: str) -> list[CompactPart]:
        """The blocks that touch a parameter."""
        return [block for block in self.blocks if name in block.touches]

    def move(self, name: str, elements: Mapping[str, jax.Array], array: jax.Array) -> jax.Array:
        """A parameter moved by all elements."""
        for block in self.touching(name):
            array = block.act(name, elements[block.name], array)
        return array

    def around(
        self, block: CompactPart, name: str, elements: Mapping[str, jax.Array], arrays: Named, reference: Named
    ) -> tuple[jax.Array, jax.Array]:
        """The parameter moved by what acts before the block, and the reference with what acts after it undone.

        Blocks act by isometries, so the distance to be made small is that between the block's image of the first and
        the second.
        """
        before, after = arrays[name], reference[name]
        place = self.blocks.index(block)
        for other in self.blocks[:place]:
            before = other.act(name, elements[other.name], before)
        for other in reversed(self.blocks[place + 1 :]):
            after = other.undo(name, elements[other.name], after)
        return before, after

    def square(
        self, names: Sequence[str], elements: Mapping[str, jax.Array], arrays: Named, reference: Named
    ) -> jax.Array:
        """The squared distance over some parameters."""
        start = jnp.zeros((), jnp.result_type(*arrays.values()))
        return sum((jnp.sum((self.move(n, elements, arrays[n]) - reference[n]) ** 2) for n in names), start)

    def step(
        self,
        cluster: Cluster,
        names: Sequence[str],
        elements: Named,
        arrays: Named,
        reference: Named,
        hold: float = 0.0,
    ) -> Named:
        """The best elements of a cluster for some parameters, all others fixed; `hold` keeps a quadratic one back."""
        new = dict(elements)
        if cluster.permutation is not None:
            new |= self._permuted(cluster, names, elements, arrays, reference, hold)
        elif cluster.signs:
            new |= self._signed(cluster, names, elements, arrays, reference)
        for block in cluster.copies:
            new[block.name] = block.best(self._evidence(block, names, new, arrays, reference, hold))
        return new

    def _evidence(
        self, block: CompactPart, names: Sequence[str], elements: Named, arrays: Named, reference: Named, hold: float
    ) -> jax.Array:
        """`M` with objective `<g, M>`.

        Where a parameter `p` with reference `r` is touched twice, `<g p g', r>` is not linear in `g`. Adding
        `|p| |r| |g|^2`, a constant on the group, makes it convex, so that its tangent at the present element bounds
        it from below and the maximum of the tangent cannot be worse. `hold = 1` is that; less goes further.
        """
        g = elements[block.name]
        total = jnp.zeros_like(g)
        for name in names:
            if name in block.touches:
                before, after = self.around(block, name, elements, arrays, reference)
                total += block.pair(name, g, after, before)
                if len(block.touches[name]) > 1 and hold:
                    total += 2 * hold * jnp.linalg.norm(before) * jnp.linalg.norm(after) * g
        return total

    def _permuted(
        self, cluster: Cluster, names: Sequence[str], elements: Named, arrays: Named, reference: Named, hold: float
    ) -> Named:
        block = cluster.permutation
        assert block is not None
        plain: list[str] = []
        by_sign: dict[tuple[CompactPart, ...], jax.Array] = {}
        by_copy: dict[CompactPart, jax.Array] = {}
        flipped = any(touch.flip for touches in block.touches.values() for touch in touches)
        for name in names:
            if name not in block.touches:
                continue
            signs = tuple(s for s in cluster.signs if name in s.touches)
            copies = [c for c in cluster.copies if name in c.touches]
            touch, *again = block.touches[name]
            if again or any(len(s.touches[name]) > 1 for s in signs) or not (signs or copies):
                plain.append(name)
                continue
            before, after = self.around(block, name, elements, arrays, reference)
            if not copies:
                m = touch.pair(after, before)
                by_sign[signs] = by_sign[signs] + m if signs in by_sign else m
            elif len(copies) == 1 and len(copies[0].touches[name]) == 1:
                m = touch.pair_copies(copies[0].touches[name][0], after, before)
                by_copy[copies[0]] = by_copy[copies[0]] + m if copies[0] in by_copy else m
        scores = self._evidence(block, plain, elements, arrays, reference, hold)
        for copy, m in by_copy.items():
            scores += copy.value(m)
        used, table = _signings(cluster, by_sign)
        best = None
        if used:
            totals = jnp.stack([sum(m * _product(signs, row) for signs, m in by_sign.items()) for row in table])
            scores += jnp.max(totals, 0)
            best = jnp.argmax(totals, 0)
        new = {block.name: block.best(scores)}
        if best is not None:
            g = new[block.name]
            chosen = jnp.sum(g * best, -2 if flipped else -1).astype(int)  # by the index of the image
            for sign, rows in used.items():
                factor = jnp.asarray(rows, g.dtype)[chosen]
                if self.blocks.index(sign) < self.blocks.index(block):  # it acts before the permutation
                    factor = jnp.einsum("...ij,...j->...i" if flipped else "...ij,...i->...j", g, factor)
                new[sign.name] = elements[sign.name] * factor
        return new

    def _signed(
        self, cluster: Cluster, names: Sequence[str], elements: Named, arrays: Named, reference: Named
    ) -> Named:
        """Signs of the same units: of all combinations the best, unit by unit."""
        by_sign: dict[tuple[CompactPart, ...], jax.Array] = {}
        for name in names:
            signs = tuple(s for s in cluster.signs if name in s.touches)
            if signs and all(len(s.touches[name]) == 1 for s in signs):
                before, after = self.around(signs[0], name, elements, arrays, reference)
                moved = signs[0].act(name, elements[signs[0].name], before)
                m = signs[0].touches[name][0].pair(after, moved)
                by_sign[signs] = by_sign[signs] + m if signs in by_sign else m
        used, table = _signings(cluster, by_sign)
        best = None
        if not used:
            return {}
        totals = jnp.stack([sum(m * _product(signs, row) for signs, m in by_sign.items()) for row in table])
        best = jnp.argmax(totals, 0)
        return {s.name: elements[s.name] * jnp.asarray(rows, totals.dtype)[best] for s, rows in used.items()}


def _signings(
    cluster: Cluster, by_sign: Mapping[tuple[CompactPart, ...], jax.Array]
) -> tuple[dict[CompactPart, list[int]], list[dict[CompactPart, int]]]:
    """All combinations of signs: by block, and one by one; the first changes nothing and wins ties."""
    used = [s for s in cluster.signs if any(s in signs for signs in by_sign)]
    table: list[dict[CompactPart, int]] = [
        dict(zip(used, row, strict=True)) for row in itertools.product((1, -1), repeat=len(used))
    ]
    return {s: [row[s] for row in table] for s in used}, table


def _product(signs: tuple[CompactPart, ...], row: Mapping[CompactPart, int]) -> int:
    product = 1
    for sign in signs:
        product *= row[sign]
    return product


def clusters(blocks: Sequence[CompactPart]) -> tuple[Cluster, ...]:
    """The permutations with their companions, groups of signs, then every block by itself that needs it."""
    found: list[Cluster] = []
    taken: set[CompactPart] = set()
    for block in blocks:
        if block.kind != "permutation":
            continue
        signs = tuple(s for s in blocks if s.kind == "sign" and s not in taken and _same_units(block, s))
        copies = tuple(c for c in blocks if (c.kind == "permutation" or c not in taken) and _inside(block, c))
        taken |= {block, *signs, *copies}
        found.append(Cluster(block, signs, copies))
    for block in blocks:
        if block.kind == "sign" and block not in taken:
            signs = tuple(s for s in blocks if s.kind == "sign" and s not in taken and _same_units(block, s))
            taken |= set(signs)
            found.append(Cluster(None, signs, ()))
    singles = [block for block in blocks if block.kind != "permutation" and _alone(block, found)]
    return (*found, *(Cluster(None, (), (block,)) for block in singles))


def _alone(block: CompactPart, found: Sequence[Cluster]) -> bool:
    """Whether no joint step does all that a step of the block alone would."""
    for cluster in found:
        if block in cluster.blocks:
            return cluster.permutation is not None or any(len(touches) > 1 for touches in block.touches.values())
    return True


def _same_units(block: CompactPart, other: CompactPart) -> bool:
    return block.axes == other.axes and bool(set(block.touches) & set(other.touches))


def _inside(block: CompactPart, other: CompactPart) -> bool:
    """Whether `other` has one copy per index that `block` permutes, on the parameters that both touch."""
    shared = set(block.touches) & set(other.touches)
    if other is block or block.axes[1] is not None or other.axes[1] != block.axes[0] or not shared:
        return False
    sizes = block.family.sizes
    if sizes[str(other.axes[1])] * math.prod(other.family.group.shape(sizes)) > _PAIRED_LIMIT:
        return False

    def along(one: Touch, two: Touch) -> bool:
        return one.own is not None and one.labels[one.own] == two.batch[:1]

    return all(along(one, two) for name in shared for one in block.touches[name] for two in other.touches[name])
