"""Commands that write down what there is to see: the report of a model, and the demo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from quotax.cli.asked import Asked, apart, sizes_text
from quotax.cli.commands.application import app
from quotax.cli.commands.asked_of_all import (
    check_counts,
    check_folder,
    check_radii,
    counterparts_of,
    networks_of,
    quotient_of,
    renames,
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
    Rename,
    Size,
    WeightFiles,
)
from quotax.cli.terminal import Showing, flag

_FREE = 8
"""The size of axes that only random inputs have."""


@app.command
def demo(*, quiet: Annotated[bool, flag("No progress on standard error.")] = False,
         no_cache: Annotated[bool, flag("Keep no compiled programs for the next time.")] = False,
         debug: Annotated[bool, flag("Errors with their traceback.")] = False) -> int:  # fmt: skip
    """Train two small networks on scikit-learn's digits, prove their symmetries, compare sharpness."""
    from quotax.cli.program_cache import keep_programs
    from quotax.report import demonstrate

    if not no_cache:
        keep_programs()
    demonstrate(progress=(lambda line: None) if quiet else SHOWING.told)
    return 0


@app.command
def report(
    *models: Annotated[str, Parameter(name="MODEL [OTHER]", help="One model or two, and sizes such as h=4 x=3.")],
    size: Size = (),
    params: Annotated[
        tuple[str, ...],
        Parameter(group=MEASURED, help="Weights: one for each model, or two of one.", show_default=False),
    ] = (),
    radius: Annotated[
        tuple[float, ...],
        Parameter(group=MEASURED, help="Of the balls, from 0.01 to 0.3 by default.", show_default=False),
    ] = (),
    metric: Annotated[Metric, Parameter(group=MEASURED, help="Of the quotients.")] = "invariant",
    steps: Annotated[int, Parameter(group=MEASURED, help="Gradients that a search may spend, for each start.")] = 20,
    rename: Rename = (),
    output: Annotated[str, Parameter(help="The page is written to this file.")] = "report.html",
    data: Data = DATA,
    weights: WeightFiles = WEIGHTS,
    finding: Finding = FOUND,
    show: Showing = SHOWING,
) -> int:
    """Write one page about a model, or two: symmetries with proofs, audits, sharpness; of two networks their alignment.

    Two models that are one function with other names are two networks of the first; others stand one after the other.
    Without --data inputs and targets are random, to try things out. The page is one HTML file that needs no network.
    Exits with 1 where something could not be proved or searched, or a loss is not finite.
    """
    import quotax as qx

    show.begin()
    check_folder(output, "--output")
    if Path(output).suffix not in (".html", ".htm"):
        raise Misuse(f"--output {output}: a report is an .html file")
    check_radii(radius, "profile")
    check_counts(("--steps", steps))
    names, given = apart(models)
    if not 1 <= len(names) <= 2:
        raise Misuse(f"a report is of one model or two, and here are {len(names)}: {', '.join(names) or 'none'}")
    if len(params) > 2 or (len(names) == 2 and params and len(params) != 2):
        raise Misuse(f"a report is of one network or two, and {len(names)} models with {len(params)} --params are not")
    titles, names, files, known, sizes = networks_of(names, (*given, *size), params)
    if rename and (renames(rename) and len(known) < 2):
        raise Misuse(f"--rename {rename[0]}: it is for two models, and here is one")
    at_hand = {name: _at_hand(this, sizes, data, show) for name, this in known.items()}
    matched = counterparts_of([at_hand[name][0] for name in known], rename, show) if len(known) > 1 else None
    made = None
    chosen: dict[str, Any] = {"radii": radius} if radius else {}
    for name, this in known.items():
        network, notes = at_hand[name]
        mine = [*range(len(names))] if matched else [n for n, owner in enumerate(names) if owner == name]
        points = []
        for n in mine:
            own = at_hand[names[n]][0]
            read = weights.read(own, files[n], show, other=n)
            points.append(matched.params(read) if matched and names[n] != name else read)
            if files[n] is None and getattr(own.architecture, "parameters", None) is None:
                notes.append(f"The parameters of {titles[n]} are random: it was not trained.")
        source = data if data.data is not None else replace(data, data="random:64")
        asked_for = source.measured(network, points[0], source.batch(network, weights.seed, "report"), show.note)
        group = finding.group(this.model, name, show)
        space = quotient_of(network, group, metric, show)
        title = " and ".join(names) if matched else name
        with show.doing(f"measuring {title}, {network.num_parameters:,} parameters") as told:
            one = qx.report(
                group, asked_for.pop("loss"), points[0], space=space, other=points[1] if len(points) > 1 else None,
                names=tuple(titles[n] for n in mine) if len(mine) > 1 else (titles[mine[0]], "other"),
                counterparts=matched if made is None else None,
                title=title, notes=notes, steps=steps, key=weights.seed, progress=told, **asked_for | chosen,
            )  # fmt: skip
        made = one if made is None else made.beside(one)
        if matched:
            break
    assert made is not None
    made.save(output)
    show.note(f"the page is {output}")
    show.result(made)
    return 0 if made.complete else 1


def _at_hand(this: Asked, sizes: dict[str, int], data: Data, show: Showing) -> tuple[Any, list[str]]:
    """The network of these sizes; without data, axes that only inputs have are short."""
    own = {axis: n for axis, n in sizes.items() if axis in this.model.axis_names}
    if data.data is not None:
        return this.network(own), []
    network = this.network(own)
    free = {axis: _FREE for axis in this.model.axis_names if axis not in network.sizes}
    told = f" ({sizes_text(free)})" if free else ""
    show.note(f"no --data: random inputs and targets{told}, to try things out")
    return this.network(own | free), [f"Inputs and targets are random{told}: its losses say nothing of a task."]
