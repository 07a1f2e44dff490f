"""Commands that measure networks: one, several side by side, two along their orbits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from quotax.cli.asked import Asked, apart, asked, sizes_of, sizes_text
from quotax.cli.commands.application import app
from quotax.cli.commands.asked_of_all import (
    check_counts,
    check_folder,
    check_plot,
    check_radii,
    counterparts_of,
    networks_of,
    quotient_of,
)
from quotax.cli.misuse import Misuse
from quotax.cli.options import (
    DATA,
    FOUND,
    MEASURED,
    SHOWING,
    WEIGHTS,
    Data,
    Finding,
    Metric,
    Model,
    Plot,
    Rename,
    Size,
    Sizes,
    WeightFiles,
)
from quotax.cli.terminal import Showing


@app.command
def sharpness(
    model: Model,
    /,
    *words: Sizes,
    size: Size = (),
    params: Annotated[
        str | None, Parameter(group=MEASURED, help="Weights: .safetensors, .npz, a folder of shards, or of orbax.")
    ] = None,
    radius: Annotated[
        tuple[float, ...],
        Parameter(group=MEASURED, help="Of the ball, 0.05 by default; several for a profile.", show_default=False),
    ] = (0.05,),
    measure: Annotated[
        Literal["worst-case", "average", "trace", "spectrum", "profile", "drift", "slice"],
        Parameter(
            group=MEASURED,
            help="The largest rise, the mean rise, the Hessian's trace or ends, the largest rise by radius; "
            "measures along the orbit, or the loss along and across it.",
        ),
    ] = "worst-case",
    full: Annotated[
        bool, Parameter(group=MEASURED, help="In the full Euclidean ball: nothing is divided out.", show_default=False)
    ] = False,
    metric: Annotated[Metric, Parameter(group=MEASURED, help="Of the quotient.")] = "invariant",
    steps: Annotated[
        int | None, Parameter(group=MEASURED, help="Gradients that a search may spend, for each start.")
    ] = None,
    k: Annotated[int, Parameter(group=MEASURED, help="Eigenvalues of each end of a spectrum.")] = 5,
    stretch: Annotated[
        float, Parameter(group=MEASURED, help="How far drift and slice go along the orbit: scales change by exp of it.")
    ] = 0.5,
    plot: Plot = None,
    data: Data = DATA,
    weights: WeightFiles = WEIGHTS,
    finding: Finding = FOUND,
    show: Showing = SHOWING,
) -> int:
    """Measure how far the loss rises when the parameters move, on the quotient by the model's symmetries.

    Exits with 1 where the loss is not finite, or the measurement was interrupted.
    """
    show.begin()
    check_radii(radius, measure)
    check_counts(("--steps", steps), ("--k", k))
    along = measure in ("drift", "slice")
    if along and full:
        raise Misuse(f"--measure {measure} goes along the orbit, and --full divides nothing out: there is none")
    if along and not (math.isfinite(stretch) and stretch > 0):
        raise Misuse(f"--stretch {stretch:g}: it is a positive number, such as 0.5")
    check_plot(
        plot, measure not in ("average", "trace"), f"of --measure {measure}, which is one number; the others have one"
    )
    this, network, here, batch = _ready(model, (*words, *size), params, data, weights, show, "sharpness")
    asked_for = data.measured(network, here, batch, show.note) | {"params": here, "key": weights.seed}
    space = None if full else quotient_of(network, finding.group(this.model, this.name, show), metric, show)
    with show.doing(f"measuring {measure} of {network.num_parameters:,} parameters") as told:
        result = _measured(measure, radius, steps, k, stretch, told, asked_for | {"space": space})
    show.result(result)
    if plot is not None and along:
        result.plot().figure.savefig(plot)
    elif plot is not None:
        ax = None
        if not full:
            with show.doing(f"measuring {measure} in the full ball, for the picture") as told:
                ax = _measured(measure, radius, steps, k, stretch, told, asked_for).plot(label="full")
        result.plot(ax, label="full" if full else "quotient").figure.savefig(plot)
    seen = {each.status for each in getattr(result, "results", (result,))}
    return 1 if any(status in ("interrupted", "not finite") or "loss is" in status for status in seen) else 0


def _measured(
    measure: str,
    radii: Sequence[float],
    steps: int | None,
    k: int,
    stretch: float,
    told: Callable[[str], None],
    asked_for: dict[str, Any],
) -> Any:
    import quotax as qx

    if measure == "slice":
        return qx.loss_slice(radius=radii[0], stretch=stretch, progress=told, **asked_for)
    if measure == "drift":
        times, effort = [stretch * t for t in (-1, -0.5, 0.5, 1)], {} if steps is None else {"steps": steps}
        return qx.orbit_drift(radius=radii[0], times=times, progress=told, **effort, **asked_for)
    if measure == "worst-case":
        return qx.sharpness(radius=radii[0], steps=steps, progress=told, **asked_for)
    if measure == "profile":
        return qx.profile(radii=radii, steps=steps, progress=told, **asked_for)
    if measure == "average":
        return qx.average_sharpness(radius=radii[0], **asked_for)
    return qx.trace(**asked_for) if measure == "trace" else qx.spectrum(k=k, density=True, **asked_for)


def _ready(
    model: str, words: Sequence[str], params: str | None, data: Data, weights: WeightFiles, show: Showing, command: str
) -> tuple[Asked, Any, Any, dict[str, Any]]:
    """The model, its network, parameters and data: everything that may be refused, before anything takes long."""
    this = asked(model)
    given = sizes_of(words)
    network = this.network(given)
    batch = data.batch(network, weights.seed, command)
    if dict(network.sizes).keys() - given.keys() and params is None:
        show.note(f"sizes {sizes_text(network.sizes)}")
    return this, network, weights.read(network, params, show), batch


@app.command
def compare(
    *models: Annotated[str, Parameter(name="MODELS", help="One model or several, and sizes such as h=4 x=3.")],
    size: Size = (),
    params: Annotated[
        tuple[str, ...],
        Parameter(group=MEASURED, help="Weights: one for each model, or several of one.", show_default=False),
    ] = (),
    radius: Annotated[float, Parameter(group=MEASURED, help="Of all balls.")] = 0.05,
    metric: Annotated[Metric, Parameter(group=MEASURED, help="Of the quotients.")] = "invariant",
    data: Data = DATA,
    weights: WeightFiles = WEIGHTS,
    finding: Finding = FOUND,
    show: Showing = SHOWING,
) -> int:
    """All measures of several networks side by side: of several models, or of one with several sets of parameters.

    Exits with 1 where a loss is not finite.
    """
    import quotax as qx

    show.begin()
    check_radii((radius,), "worst-case")
    names, given = apart(models)
    if not names:
        raise Misuse(f"no model among {', '.join(models) or 'nothing'}; give at least one")
    if len(names) > 1 and params and len(params) != len(names):
        raise Misuse(f"{len(names)} models need as many --params, one for each, and here are {len(params)}")
    titles, names, files, known, sizes = networks_of(names, (*given, *size), params)
    groups, entries = {}, {}
    for number, (title, name, file) in enumerate(zip(titles, names, files, strict=True)):
        this = known[name]
        network = this.network({axis: n for axis, n in sizes.items() if axis in this.model.axis_names})
        here = weights.read(network, file, show, other=number)
        note = (lambda line: None) if number else show.note
        made = data.measured(network, here, data.batch(network, weights.seed, "compare"), note)
        if name not in groups:
            groups[name] = finding.group(this.model, name, show)
        space = quotient_of(network, groups[name], metric, show)
        loss, batch = made["loss"], made["batch"]
        entries[title] = ((lambda p, loss=loss, batch=batch: loss(p, batch)), here, space)
    with show.doing(f"measuring {', '.join(entries)}"):
        result = qx.compare(entries, radius, key=weights.seed)
    show.result(result)
    return 0 if all(math.isfinite(row["loss"]) for row in result.rows) else 1


@app.command
def align(
    model: Model,
    /,
    *words: Annotated[
        str, Parameter(name="[OTHER] SIZES", help="The model of --to, if it is another one; sizes, as in h=4 x=3.")
    ],
    params: Annotated[
        str | None, Parameter(group=MEASURED, help="The weights that are moved along their orbit.")
    ] = None,
    to: Annotated[str | None, Parameter(group=MEASURED, help="The weights that they are brought close to.")] = None,
    out: Annotated[str | None, Parameter(help="Write the moved weights to this file, laid out as --params is.")] = None,
    rename: Rename = (),
    plot: Plot = None,
    size: Size = (),
    metric: Annotated[Metric, Parameter(group=MEASURED, help="Of the quotient.")] = "invariant",
    data: Data = DATA,
    weights: WeightFiles = WEIGHTS,
    finding: Finding = FOUND,
    show: Showing = SHOWING,
) -> int:
    """Move one network along its orbit as close as possible to another: their distance, and with data the barrier.

    Exits with 1 where the canonical representatives that are compared were not reached.
    """
    import quotax as qx

    show.begin()
    if params is None or to is None:
        lacking = " and ".join(name for name, value in (("--params", params), ("--to", to)) if value is None)
        raise Misuse(
            f"align compares two sets of weights: {lacking} is missing, as in --params a.safetensors --to b.safetensors"
        )
    if out is not None:
        check_folder(out, "--out")
    check_plot(plot, data.data is not None, "without --data, which the barrier is measured on")
    others, given = apart(words)
    if len(others) > 1:
        raise Misuse(f"align is of one model or two, and here are {1 + len(others)}: {', '.join((model, *others))}")
    titles = [model, *others]
    _, _, _, known, sizes = networks_of(titles, (*given, *size), ())
    if rename and len(known) < 2:
        raise Misuse(f"--rename {rename[0]}: it is for two models, and here is one")
    this = known[model]
    networks = [
        each.network({axis: n for axis, n in sizes.items() if axis in each.model.axis_names}) for each in known.values()
    ]
    network = networks[0]
    here = weights.read(network, params, show, option="--params")
    there = weights.read(networks[-1], to, show, option="--to")
    if len(known) > 1:
        matched = counterparts_of(networks, rename, show)
        if not matched:
            raise Misuse(f"{model} {others[0]}: {matched.reason}")
        show.note(matched.reason)
        there = matched.params(there)
    made = None
    if data.data is not None:
        made = data.measured(network, here, data.batch(network, weights.seed, "align"), show.note)
    space = quotient_of(network, finding.group(this.model, this.name, show), metric, show)
    results: dict[str, Any] = {}
    with show.doing(f"aligning {params} to {to}"):
        results["alignment"] = space.alignment(here, there)
        if space.metric_certificate:
            results["distance"] = space.distance(here, there)
        if made is not None:
            results["barrier"] = qx.barrier(made.pop("loss"), here, there, space=space, **made)
    show.result(results)
    if plot is not None:
        picture: Any = results["barrier"].plot().figure
        picture.savefig(plot)
    if out is not None:
        from quotax.cli.arrays import save_params

        save_params(out, results["alignment"].params, weights.layout, network, params)
    return 0 if results["alignment"].attained else 1
