"""The only place that wires stages together: declared models and symmetries in, certified geometry and numbers out."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from quotax.artifacts import ArraySpec, Certificate, Trace, sizes_text
from quotax.certify import (
    Coverage,
    certify,
    certify_alike,
    certify_equivariance,
    certify_field,
    certify_measure,
    certify_metric,
    probed_model,
    recalled,
)
from quotax.certify import coverage as coverage_of
from quotax.certify.claims.vector_field import prove_flat
from quotax.certify.every_width.scope import EVERY_WIDTH
from quotax.declare import Architecture, ModelFile, Network
from quotax.declare.model_file import read, write
from quotax.derive import SymmetryGroup, completed
from quotax.derive import derive as derive_symmetries
from quotax.derive import load as load_group
from quotax.derive.candidates.polynomial_fields import Ansatz
from quotax.errors import ArchitectureError, GeometryError, MetricWarning, SymmetryError
from quotax.geometry import METRICS, QuotientSpace, choose, suspects, unusable, without_frame
from quotax.isometry import certify_isometry
from quotax.lower import lower_action
from quotax.presenting.telling import Budget, OutOfTime, Teller, until
from quotax.programs.threads import one_thread
from quotax.symmetry import Action, Family, Symmetry
from quotax.trees import NESTED, named, nest

_PROVED_AT_ONCE = 100_000
"""Networks with more parameters have the certificate of their metric made when it is first asked for."""


def verify(
    architecture: Architecture,
    symmetry: Symmetry,
    *,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    budget_seconds: float = 20.0,
    seed: int = 0,
    progress: Callable[[str], None] = lambda line: None,
) -> Certificate:
    """Prove or refute that the model computes the same function at `theta` and at `g . theta`.

    Random small rationals are tried first. Where they find no difference, the transformation law of every tensor is
    followed through the model, which proves the identity for every width; where a law is missing, the identity is
    proved in exact arithmetic at small widths. `sizes` asks for exact proofs at these widths instead (one dict, or
    several), `budget_seconds` bounds the time that one of them may take. The certificate is true only for a proof;
    its `scope` says where it holds.

    >>> import jax, quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ jax.nn.relu(p["W1"] @ x)
    >>> scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    >>> certificate = qx.verify(net, scale)
    >>> certificate.status, certificate.scope
    ('proved', 'every width')
    """
    architecture = architecture.architecture if isinstance(architecture, Network) else architecture
    _check_architecture(architecture, "verify")
    if not isinstance(symmetry, Symmetry):
        raise SymmetryError(f"`verify(architecture, symmetry)`: symmetry must be a `qx.Symmetry`, got {symmetry!r}.")
    assignments = None
    if sizes is not None:
        listed = [sizes] if isinstance(sizes, Mapping) else list(sizes)
        assignments = [
            architecture.check_sizes(
                s, required=architecture.axis_names, call=f"verify({architecture.name}, ..., sizes=...)"
            )
            for s in listed
        ]
    action = symmetry.bind(architecture.params)
    settings: dict[str, Any] = {"budget_seconds": budget_seconds, "seed": seed, "progress": progress}
    made = certify(architecture, action, sizes=assignments, **settings)
    return made if assignments else _at_home(architecture, action, made, **settings)


def _at_home(architecture: Architecture, action: Action, made: Certificate, **settings: Any) -> Certificate:
    """A proof that covers the sizes of the parameters that a model was brought with, or what is known there.

    A trace whose sizes are symbols may leave out the very sizes that the user has: `h ≠ 64`.
    """
    if not architecture.own:
        return made
    every = EVERY_WIDTH, f"{EVERY_WIDTH} with {', '.join(f'{a} = {n}' for a, n in architecture.fixed.items())}"
    numbers = [a for a in architecture.axis_names if isinstance(architecture.fixed.get(a), int)]
    held = sizes_text({a: architecture.own[a] for a in numbers}) if numbers else None
    free = ", ".join(a for a in architecture.axis_names if a not in numbers)
    inside = made.scope in every or made.scope == f"every width of {free} at {held}"
    sizes = {a: architecture.own[a] for a in architecture.axis_names}
    if not made or inside or made.scope == f"widths ({sizes_text(sizes)})":
        return made
    home = certify(architecture, action, sizes=[sizes], **settings)
    if not home:
        return home
    return dataclasses.replace(_both(made, home), recipe=functools.partial(_rechecked, made, home))


def _rechecked(first: Certificate, second: Certificate) -> Certificate:
    again = first.recheck(), second.recheck()
    return next((each for each in again if not each), None) or _both(*again)


def _both(first: Certificate, second: Certificate) -> Certificate:
    """Two proofs of one claim as one."""
    return dataclasses.replace(
        first,
        scope=f"{first.scope} and {second.scope}",
        steps=(*first.steps, *second.steps),
        assumptions=tuple(dict.fromkeys((*first.assumptions, *second.assumptions))),
        derivation=(*first.derivation, *second.derivation),
    )


def verify_invariant(
    architecture: Architecture | Network,
    symmetry: Symmetry,
    measure: Callable[..., Any] | Measured,
    *,
    inputs: bool = False,
    **settings: Any,
) -> Certificate:
    """Prove or refute that a function of the parameters is constant on orbits: `m(g . theta) = m(theta)`.

    `measure(params)` is a norm, a conserved quantity: JAX code on the parameters. With `inputs=True` it is
    `measure(params, *inputs)`, of the model's inputs, and the claim is about every input: a measure that is a function
    of such numbers at all examples is then one of the orbit, whatever the data. It may ask for the sizes of the axes by
    a keyword-only argument `sizes`. A measure of `qx.complexity_measures()` brings its own proof, or says what is open.

    >>> import jax.numpy as jnp, quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> turn = qx.Symmetry("turn", qx.O("h"), {"W1": "g @ W1", "W2": "W2 @ g.T"})
    >>> qx.verify_invariant(net, turn, lambda p: jnp.sum(p["W1"] ** 2)).status
    'proved'
    >>> qx.verify_invariant(net, turn, lambda p, x: jnp.sum((p["W1"] @ x) ** 2), inputs=True).status
    'proved'
    """
    architecture = architecture.architecture if isinstance(architecture, Network) else architecture
    _check_architecture(architecture, "verify_invariant")
    if isinstance(measure, Measured):
        return measure.verified(architecture, symmetry, **settings)
    action, own = symmetry.bind(architecture.params), _of_trees(architecture, measure, 1)
    asked = ({"inputs": architecture.inputs} if inputs else {}) | {"settled": inputs}
    return certify_measure(architecture, action, own, **asked, **settings)


@runtime_checkable
class Measured(Protocol):
    """A measure that knows how it is proved to be a function on the quotient."""

    def verified(self, architecture: Architecture, symmetry: Symmetry, **settings: Any) -> Certificate:
        """The certificate of that claim for one symmetry."""
        ...


def _of_trees(architecture: Architecture, function: Callable[..., Any], count: int | None = None) -> Callable[..., Any]:
    """A function of the user's trees as one of nested dicts, which is what claims are made about.

    `count` says how many of its arguments are trees of parameters: all, if it is None.
    """
    if architecture.trees is NESTED:
        return function

    @functools.wraps(function)
    def nested(*arguments: Any, **sizes: Any) -> Any:
        trees = arguments[:count]
        own = (architecture.trees.tree(named(tree)) for tree in trees)
        return function(*own, *arguments[len(trees) :], **sizes)

    return nested


def verify_metric(
    architecture: Architecture, symmetry: Symmetry, metric: str | Callable[[Any, Any, Any], Any], **settings: Any
) -> Certificate:
    """Prove or refute that a metric is invariant: `m(g . theta; dg . a, dg . b) = m(theta; a, b)`.

    `metric` is a name that `quotient` knows, or `metric(params, a, b)` in JAX, where `a` and `b` are trees like the
    parameters.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> scale = qx.Symmetry("scale", qx.PositiveDiagonal("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    >>> qx.verify_metric(net, scale, "euclidean").status, qx.verify_metric(net, scale, "invariant").status
    ('refuted', 'proved')
    """
    _check_architecture(architecture, "verify_metric")
    if isinstance(metric, str) and metric in METRICS and metric != "euclidean":
        free = [axis for axis in architecture.parameter_axes if axis not in architecture.fixed]
        sizes = dict.fromkeys(free, 4) | settings.pop("sizes", {})
        if settings:
            raise GeometryError(
                f"`verify_metric(architecture, symmetry, {metric!r})` takes sizes= and no other setting, "
                f"got {', '.join(settings)}."
            )
        network = architecture.at(**sizes)
        families = _lowered([symmetry], network)
        return certify_isometry(network, families, metric, choose(metric, families, network.num_parameters))
    own = _of_trees(architecture, metric) if callable(metric) else metric
    return certify_metric(architecture, symmetry.bind(architecture.params), own, **settings)


def verify_field(architecture: Architecture, field: Callable[[Any], Any], *, seed: int = 0) -> Certificate:
    """Prove or refute that the output does not change to first order along a vector field `field(params)`.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> qx.verify_field(net, lambda p: {"W1": p["W1"], "W2": -p["W2"]}).status
    'proved'
    """
    _check_architecture(architecture, "verify_field")
    own = field if architecture.trees is NESTED else functools.partial(_moved, architecture, field)
    return certify_field(architecture, functools.partial(architecture.call, sizes={}), own, seed)


def _moved(architecture: Architecture, field: Callable[[Any], Any], params: Any) -> Any:
    """A vector field of the user's trees as one of nested dicts."""
    return nest(architecture.trees.named(_of_trees(architecture, field)(params)))


def verify_equivariance(architecture: Architecture, symmetry: Symmetry, *, output: str, **settings: Any) -> Certificate:
    """Prove or refute `f(g . theta, g . x) = g . f(theta, x)`.

    The symmetry's action may move real inputs by their names, and it moves `probe`, a vector with the axes `output`
    that is paired with the output: give the probe the inverse transpose of what moves the output.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> turn = qx.Symmetry("turn", qx.O("y"), {"W2": "g @ W2", "probe": "g @ probe"})
    >>> qx.verify_equivariance(net, turn, output="y").status
    'proved'
    """
    _check_architecture(architecture, "verify_equivariance")
    axes = tuple(tuple(int(f) if f.isdigit() else f for f in axis.split("*")) for axis in output.split())
    forward = functools.partial(architecture.call, sizes={})
    spec = ArraySpec("probe", axes)
    probed = probed_model(architecture, forward, spec)
    return certify_equivariance(architecture, forward, spec, symmetry.bind(probed.params), **settings)


def coverage(found: SymmetryGroup | Iterable[Symmetry], architecture: Architecture | None = None) -> Coverage:
    """What a derived group, or a list of symmetries with its architecture, leaves open.

    Parameters that no symmetry moves, forms of symmetries that were not searched, primitives that no proof for every
    width passes, and families whose proof covers less than every width.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> print(qx.coverage([qx.Symmetry("only W1", qx.Permutation("x"), {"W1": "W1 @ g"})], net))
    parameters that no symmetry moves: W2
    forms that were not tried: linear, affine, quadratic
    primitives without a law: none
    proofs of less than every width: none
    """
    model = architecture if architecture is not None else getattr(found, "model", None)
    if model is None:
        raise ArchitectureError(f"`coverage(found)`: a list of symmetries needs its architecture too, got {found!r}.")
    families = [*found, *getattr(found, "discrete", ())]
    return coverage_of(model, families, getattr(found, "certificates", ()), getattr(found, "ansatz", None))


_PROOF = 20.0
"""Seconds that one exact proof may take, of those that `derive` has."""


@one_thread
def derive(
    architecture: Architecture | Network,
    ansatz: Ansatz = "affine",
    *,
    declared: Sequence[Symmetry] = (),
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    budget_seconds: float = 60.0,
    progress: Callable[[str], None] | None = None,
    seed: int = 0,
) -> SymmetryGroup:
    """The symmetries of a model that nobody wrote down: found in exact arithmetic, each proved by `verify`.

    The determining equations are sampled at small widths (`sizes` replaces them) and solved for groups on every axis;
    what those leave unexplained is looked for among all fields of the ansatz. `declared` symmetries are verified and
    not found again. A sized network is sampled at small widths too, and at its own where it accepts no others.
    `budget_seconds` is for the whole call: what was not looked at when it ends is in `found.unsearched`. Progress is
    handed to `progress`, or printed to standard error every two seconds.

    >>> import jax, quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> qx.derive(net).families
    (Symmetry linear h: GL(h), W1 -> g @ W1, W2 -> W2 @ inv(g),)
    """
    own = architecture.sizes if isinstance(architecture, Network) else architecture.own or None
    architecture = architecture.architecture if isinstance(architecture, Network) else architecture
    _check_architecture(architecture, "derive")
    if not budget_seconds > 0:
        raise SymmetryError(f"`derive`: budget_seconds must be a positive number of seconds, got {budget_seconds!r}.")
    if ansatz not in ("linear", "affine", "quadratic", "full"):
        raise SymmetryError(f"`derive`: ansatz must be 'linear', 'affine', 'quadratic' or 'full', got {ansatz!r}.")
    tell, budget = Teller(progress), Budget(budget_seconds)
    for symmetry in declared:
        certificate = verify(architecture, symmetry, budget_seconds=min(_PROOF, budget.left), seed=seed)
        if not certificate:
            raise SymmetryError(
                f"`derive(..., declared=[...])`: {symmetry.name!r} is {certificate.status}, so it explains nothing."
            )
    widths = None
    if sizes is not None:
        listed = [sizes] if isinstance(sizes, Mapping) else list(sizes)
        call = f"derive({architecture.name}, sizes=...)"
        widths = [architecture.check_sizes(s, required=architecture.axis_names, call=call) for s in listed]
    seconds = lambda: min(_PROOF, budget.left)

    def prove(symmetry: Symmetry) -> Certificate:
        action = symmetry.bind(architecture.params)
        decide = functools.partial(certify, architecture, action, seed=seed, reasons=False)
        try:
            with until(budget.end):
                made = decide(budget_seconds=seconds())
                return _at_home(architecture, action, made, seed=seed, reasons=False, budget_seconds=seconds())
        except OutOfTime:
            return _out_of_time(symmetry, budget)
        except ArchitectureError:
            if own is None:
                raise
            # the model accepts no small sizes
            return decide(sizes=[completed(architecture, own)], budget_seconds=seconds())

    def alike(proved: Certificate, claims: Sequence[tuple[Symmetry, Mapping[str, str]]]) -> list[Certificate | None]:
        bound = [(symmetry.bind(architecture.params), names) for symmetry, names in claims]
        home = lambda action, one: _at_home(architecture, action, one, seed=seed, reasons=False)
        try:
            with until(budget.end):
                made = certify_alike(architecture, proved, bound, seed=seed)
                return [one and home(action, one) for (action, _), one in zip(bound, made, strict=True)]
        except OutOfTime:
            return [_out_of_time(symmetry, budget) for symmetry, _ in claims]

    return derive_symmetries(
        architecture,
        prove,
        _prove_field,
        prove_alike=alike,
        ansatz=ansatz,
        declared=tuple(declared),
        sizes=widths,
        own=own,
        progress=functools.partial(_told, tell),
        seed=seed,
        budget=budget,
    )


def _out_of_time(symmetry: Symmetry, budget: Budget) -> Certificate:
    spent = f"the budget of {budget.seconds:g} s was spent"
    return Certificate(f"invariance under {symmetry.name}: {symmetry.group}", "undecided", "no width", residual=spent)


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
    _check_architecture(owner, "save")
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
    _check_architecture(model, "load_symmetries")
    where = str(path)
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SymmetryError(f"`load_symmetries({where!r}, ...)`: {error.strerror or error}.") from None
    except ValueError as error:
        raise SymmetryError(f"`load_symmetries({where!r}, ...)`: it is not JSON: {error}.") from None
    return load_group(data, model, recalled, _prove_field, functools.partial(_told, Teller(None)), where)


def _told(tell: Teller, line: str) -> None:
    tell(lambda seconds: line if tell.progress else f"derive: {line}")


def _prove_field(
    trace: Trace, field: Callable[[Any], Any], left: float
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    return prove_flat(trace, field, min(_PROOF, left))


def quotient(
    network: Network | Architecture,
    symmetries: Symmetry | Iterable[Symmetry],
    metric: str | Callable[[Any, Any, Any], Any] = "euclidean",
    *,
    verified: Iterable[Certificate] | None = None,
) -> QuotientSpace:
    """The quotient of a network's parameter space by symmetries, each of them verified first.

    A symmetry that is refuted, or that cannot be decided, is refused: the quotient by something that changes the
    function means nothing. `verified` passes certificates that you already have, one for each symmetry.

    A derived group is used whole: what was declared to `derive`, its continuous families, permutations and flips. What
    the metric has no use for is in `space.left_out`, with the reason. To divide by a part, pass that part:
    `found.families`.

    `metric="invariant"` makes every family act by isometries, so that lengths belong to the quotient; `"euclidean"`
    does so for orthogonal actions and shifts only, and warns otherwise. `"pullback"` is the metric of the balanced
    representatives; `"inv"` and `"mix"` are those of two-factor blocks; a function `metric(params, a, b)` is your own.
    `space.metric_certificate` says whether the metric is invariant, and why.

    >>> import quotax as qx
    >>> @qx.architecture(params={"W1": "h x", "W2": "y h"}, inputs={"x": "x"})
    ... def net(p, x):
    ...     return p["W2"] @ (p["W1"] @ x)
    >>> linear = qx.Symmetry("linear", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    >>> space = qx.quotient(net.at(x=3, h=2, y=1), linear, metric="invariant")
    >>> space.dim, space.fiber_dim, space.metric_certificate.status
    (4, 4, 'proved')
    """
    if isinstance(network, Architecture) and network.own:
        network = network.at()
    if not isinstance(network, Network):
        hint = f"; give it sizes first, as in {network.name}.at(...)" if isinstance(network, Architecture) else ""
        raise GeometryError(f"`quotient(network, symmetries)`: network must be a sized network, got {network!r}{hint}.")
    model = network.architecture
    metric = _of_trees(model, metric) if callable(metric) else metric
    given = [symmetries] if isinstance(symmetries, (Symmetry, str)) else list(symmetries)
    whole = symmetries if isinstance(symmetries, SymmetryGroup) and verified is None else None
    if whole is not None and whole.read_from and whole.model is model:
        whole = whole.recheck()
    known, left_out = {}, {}
    if whole is not None:
        given = [*whole.declared, *given, *whole.discrete]  # what was declared to it first
        known = dict((*whole.proved, *whole.discrete_proved)) if whole.model is model else {}
        left_out = {family.name: "fields without a finite action" for family in whole.unnamed}
    for symmetry in given:
        if not isinstance(symmetry, Symmetry):
            raise GeometryError(
                f"`quotient(network, symmetries)`: symmetries must be `qx.Symmetry` objects, got {symmetry!r}."
            )
    families = _lowered(given, network)
    if whole is not None and not callable(metric):
        left_out |= unusable(families[len(given) - len(whole.discrete) :])
        left_out |= {} if metric == "euclidean" else without_frame(families[: len(given) - len(whole.discrete)])
        families = [family for family in families if family.name not in left_out]
    used = [family.action.symmetry for family in families]
    certificates = list(verified) if verified is not None else [known.get(s) or verify(model, s) for s in used]
    if len(certificates) != len(families):
        raise GeometryError(
            f"`quotient`: {len(families)} symmetries need as many certificates, got {len(certificates)}."
        )
    for family, certificate in zip(families, certificates, strict=True):
        if not certificate:
            raise SymmetryError(
                f"`quotient`: {family.name!r} is {certificate.status}, so dividing by it would change the function. "
                f"`qx.verify({model.name}, ...)` says why: {'; '.join(certificate.steps) or certificate.residual}."
            )
    chosen = choose(metric, families, network.num_parameters)
    space = QuotientSpace(
        network,
        model.params,
        families,
        certificates,
        chosen,
        functools.partial(certify_isometry, network, families, metric, chosen),
        left_out=left_out,
    )
    _warn_of(space, suspects(chosen, families))
    return space


def _lowered(symmetries: Sequence[Symmetry], network: Network) -> list[Family]:
    """The symmetries as JAX functions on a network."""
    specs = network.architecture.params
    return [lower_action(symmetry.bind(specs), specs, network.sizes) for symmetry in symmetries]


def _warn_of(space: QuotientSpace, names: Sequence[str]) -> None:
    """Say that the metric is not invariant; a large network's certificate is made when it is asked for."""
    if not names or (space.network.num_parameters <= _PROVED_AT_ONCE and space.metric_certificate):
        return
    if space.network.num_parameters <= _PROVED_AT_ONCE:
        reason = f"{space.metric_certificate.status}: {'; '.join(space.metric_certificate.steps)}"
    else:
        reason = f"{', '.join(names)} do not act by isometries; `space.metric_certificate` has the proof"
    warnings.warn(
        f"`quotient`: the {space.metric_name} metric is not invariant ({reason}). "
        "Lengths at one representative are not lengths on the quotient.",
        MetricWarning,
        stacklevel=3,
    )


def _check_architecture(architecture: object, call: str) -> None:
    if not isinstance(architecture, Architecture):
        hint = "; pass the architecture that `.at` was called on" if isinstance(architecture, Network) else ""
        raise ArchitectureError(
            f"`{call}(architecture, ...)` needs what `@qx.architecture` returns, got {architecture!r}{hint}."
        )
