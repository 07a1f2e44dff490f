"""A measure, and the verdict on it for a symmetry: proved, refuted with a witness, or what random elements show."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from quotax.artifacts import Certificate, Witness, sizes_text
from quotax.complexity.networks.measured_network import MeasuredNetwork
from quotax.complexity.networks.small_network import moved, small_network, small_sizes
from quotax.complexity.routes import Claim, Estimated, Route
from quotax.complexity.turns import turns
from quotax.declare import Architecture
from quotax.errors import ArchitectureError, GeometryError, UnsupportedPrimitiveError
from quotax.lower import lower_action
from quotax.pipeline import verify, verify_invariant, verify_metric
from quotax.presenting import Result
from quotax.symmetry import Symmetry
from quotax.trees import Keyword, Tree

EVERY = "every width"
SCALES = (0.7, 0.7, 0.7, 2.0, 3.0)
"""Of the random group elements at which a measure is looked at, each at parameters of its own; the last for those alone
that are sampled, because large elements round."""
ROUNDED = 1e-9, 1e-3
"""Where outputs before and after differ by a share between these, the element rounds, and shows nothing."""
TOLERANCE = 1e-6
"""Values that differ by more than this share of the larger differ: they are computed in float64."""


@dataclass(frozen=True, eq=False, repr=False)
class Measure(Result):
    """A number that literature calls a complexity, of a network at parameters and, for some, of examples.

    Attributes:
        name: what it is called.
        formula: what it is.
        source: whose it is.
        needs: what it asks for: `"inputs"`, `"labels"`, `"start"`, `"space"`.
        value: the number.
        routes: how it may be proved to be a function on the quotient, for an architecture and a small network of it.
        made: what makes it again.
    """

    name: str
    formula: str
    source: str
    needs: tuple[str, ...] = ()
    value: Callable[[MeasuredNetwork], Estimated] = field(
        default=lambda subject: Estimated(math.nan), repr=False, compare=False
    )
    routes: Callable[[Architecture, MeasuredNetwork], Sequence[Route]] = field(
        default=lambda model, small: (), repr=False, compare=False
    )
    made: functools.partial[Measure] | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        """By how it is made, where that is known: its functions have no names."""
        if self.made is None:
            parts = (self.name, self.formula, self.source, self.needs, self.value, self.routes)
            return Measure, parts
        return self.made.func, self.made.args

    def __str__(self) -> str:
        """One line."""
        return f"{self.name}: {self.formula} ({self.source})"

    def verified(
        self, architecture: Architecture, symmetry: Symmetry, *, sizes: Any = None, seed: int = 0, **settings: Keyword
    ) -> Certificate:
        """Whether it is a function on the quotient: see `quotax.verify_invariant`.

        Proofs are tried first, each a lemma and claims about functions of parameters and inputs; then the measure
        itself at random elements of the group, at small sizes (or `sizes`). A measure that is not defined for the
        architecture is refused with the reason.
        """
        action = symmetry.bind(architecture.params)
        claim = f"the {self.name} is the same at theta and g . theta under {action.name}: {action.group}"
        made = self._decided(claim, architecture, symmetry, sizes, seed, settings)
        again = functools.partial(self.verified, architecture, symmetry, sizes=sizes, seed=seed, **settings)
        return dataclasses.replace(made, recipe=again)

    def _decided(
        self,
        claim: str,
        architecture: Architecture,
        symmetry: Symmetry,
        sizes: Any,
        seed: int,
        settings: dict[str, Keyword],
    ) -> Certificate:
        with jax.enable_x64(True):
            there = sizes or small_sizes(architecture, [symmetry.group])
            small = small_network(architecture, there, seed)
            self.value(small) if "space" not in self.needs else None  # refuses what it is not defined for
            routes = self.routes(architecture, small)
        left = []
        for route in routes:
            found = [_first(each, architecture, symmetry, settings) for each in route.claims]
            failed = next((each for each in found if not each), None)
            if failed is None:
                return _proved(claim, route, found)
            if route.exact and failed.status == "refuted":
                steps = (f"{route.lemma}, and that fails", *failed.steps)
                return dataclasses.replace(failed, claim=claim, steps=steps, derivation=())
            left.append(f"not proved by the lemma that {route.lemma}: {failed.claim} is {failed.status}")
        if "space" in self.needs:
            return Certificate(claim, "undecided", "no point", residual="; ".join(left))
        with jax.enable_x64(True):
            return self._looked(claim, architecture, symmetry, small, there, left)

    def _looked(
        self,
        claim: str,
        architecture: Architecture,
        symmetry: Symmetry,
        small: MeasuredNetwork,
        sizes: dict[str, int],
        left: list[str],
    ) -> Certificate:
        """Values at random elements: a difference refutes, agreement is said to be no proof."""
        family = lower_action(symmetry.bind(architecture.params), architecture.params, sizes)
        worst, doubt, values = 0.0, 0.0, 0
        keys = jax.random.split(jax.random.key(17), len(SCALES))
        for number, (key, scale) in enumerate(zip(keys, SCALES, strict=True)):
            grown = 1 + 0.1 * number
            here = small.at(jax.tree.map(functools.partial(jnp.multiply, grown), small.params))
            element = family.group.random(key, family.sizes, scale)
            there = here.at(moved(architecture, family, here.params, element))
            if all(np.array_equal(a, there.arrays[name]) for name, a in here.arrays.items()):
                continue  # at these sizes the group moves nothing
            before = self.value(here)
            if (scale > SCALES[0] and not before.doubt) or ROUNDED[0] < _apart(here, there) < ROUNDED[1]:
                continue
            after = self.value(there)
            gap = abs(before.value - after.value)
            share = gap / max(abs(before.value), abs(after.value), 1e-300)
            if not math.isfinite(share):
                continue
            worst, doubt, values = max(worst, share), max(doubt, before.doubt + after.doubt), values + 1
            if share > TOLERANCE and gap > 2 * (before.doubt + after.doubt):
                witness = Witness(
                    sizes=dict(sizes),
                    params=here.params,
                    element=np.asarray(element),
                    inputs={
                        spec.name: np.asarray(a) for spec, a in zip(architecture.inputs, here.examples, strict=True)
                    },
                    output=np.asarray(before.value),
                    transformed_output=np.asarray(after.value),
                    transformed_params=there.params,
                )
                step = f"at {sizes_text(sizes)} it is {before.value:.6g}, and {after.value:.6g} after the action"
                return Certificate(claim, "refuted", f"a point at {sizes_text(sizes)}", (step,), witness=witness)
        held = f"at {values} random elements it held numerically, to {worst:.1e} of its value: no proof"
        if not values:
            held = f"at {sizes_text(sizes)} no element that was drawn shows anything: it moves nothing, or rounds"
        elif worst > TOLERANCE:
            held = (
                f"at {values} random elements it differs by up to {worst:.1e} of its value, which sampling may explain"
            )
        scope = f"{values} points at {sizes_text(sizes)}"
        return Certificate(claim, "undecided", scope, residual="; ".join([held, *left]))


def _apart(here: MeasuredNetwork, there: MeasuredNetwork) -> float:
    """By which share outputs differ."""
    before, after = np.asarray(here.outputs), np.asarray(there.outputs)
    return float(np.abs(before - after).max() / max(np.abs(before).max(), 1e-300))


def _first(
    claims: Claim | tuple[Claim, ...], architecture: Architecture, symmetry: Symmetry, settings: dict[str, Keyword]
) -> Certificate:
    """The first of several claims that is proved, or the last."""
    *others, last = claims if isinstance(claims, tuple) else (claims,)
    made = (_claimed(each, architecture, symmetry, settings) for each in others)
    return next((each for each in made if each), None) or _claimed(last, architecture, symmetry, settings)


def _claimed(claim: Claim, architecture: Architecture, symmetry: Symmetry, settings: dict[str, Keyword]) -> Certificate:
    """The certificate of one claim."""
    action, name = symmetry.bind(architecture.params), getattr(claim.function, "__name__", claim.function)
    try:
        if claim.kind == "model":
            return verify(architecture, symmetry, **settings)
        if claim.kind == "turns":
            known = turns(action, architecture.params, name)
            said = f"{symmetry.name} multiplies {name} by orthogonal matrices along its axes, or not at all"
            return Certificate(said, "proved" if known else "undecided", EVERY, ("read off the formula of the action",))
        if claim.kind == "metric" and not action.affine:
            said = f"{symmetry.name} moves lines to lines"
            return Certificate(said, "undecided", "no width", residual="its formula is not affine in the parameters")
        if claim.kind in ("metric", "isometry"):
            asked = settings if name == "euclidean" or callable(claim.function) else {}
            return verify_metric(architecture, symmetry, cast(Tree, claim.function), **asked)
        return verify_invariant(architecture, symmetry, claim.function, inputs=claim.kind == "inputs", **settings)
    except (ArchitectureError, GeometryError, UnsupportedPrimitiveError) as error:
        return Certificate(f"{name} is invariant", "undecided", "no width", residual=str(error))


def _proved(claim: str, route: Route, found: Sequence[Certificate]) -> Certificate:
    """One proof of the proofs of all its claims."""
    scopes = list(dict.fromkeys(each.scope for each in found)) or [EVERY]
    steps = [route.lemma]
    for each in found:
        steps += [each.claim, *(f"  {step}" for step in each.steps)]
    assumptions = tuple(dict.fromkeys(a for each in found for a in each.assumptions))
    return Certificate(claim, "proved", " and ".join(scopes), tuple(steps), assumptions)
