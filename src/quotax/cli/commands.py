"""The commands and what they take. What a command needs is imported when it runs: `quotax --help` imports no JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from quotax.cli.asked import Asked, apart, asked, sizes_of, sizes_text
from quotax.cli.misuse import Misuse
from quotax.cli.options import (
    DATA,
    DERIVING,
    FOUND,
    MEASURED,
    SHOWING,
    WEIGHTS,
    Data,
    Deriving,
    Finding,
    Metric,
    Model,
    Plot,
    Size,
    Sizes,
    WeightFiles,
)
from quotax.cli.terminal import Showing, flag


def _version() -> str:
    from quotax import __version__

    return f"quotax {__version__}"


_FREE = 8
"""The size of axes that only random inputs have."""

app = App(
    name="quotax",
    help="Divide a neural network's parameter space by its symmetries, and measure what is left.",
    help_epilogue=(
        "MODEL is a name of the catalogue (`quotax list`), file.py:name, package.module:name, or a TOML file. "
        "Exit codes: 0 yes, 1 refuted, undecided or not complete, 2 misuse."
    ),
    help_format="plaintext",
    version=_version,
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command(help="Let the shell complete commands and options.")


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


@app.command(name="list")
def list_(
    *names: Annotated[
        str, Parameter(name="NAMES", help="Entries, or files with all of their entries; all when there are none.")
    ],
    facts: Annotated[
        bool, Parameter(help="Derive each now: families, audits, scope, seconds.", show_default=False)
    ] = False,
    show: Showing = SHOWING,
) -> int:
    """The catalogue of architectures, with the symmetries that each must have."""
    from quotax.report import entries, listing

    if show.json:
        show.result(entries(names))
    elif show.tables and not facts:
        rows = [(name, entry.orbit, entry.reference) for name, entry in entries(names).items()]
        show.table(("architecture", "orbit", "reference"), rows)
    else:
        if facts:
            show.begin()
        listing(names, facts=facts, show=lambda line: print(line, flush=True))
    return 0


@app.command
def derive(
    model: Model,
    /,
    *words: Sizes,
    size: Size = (),
    save: Annotated[str | None, Parameter(help="Write what is found, with its proofs, to this JSON file.")] = None,
    deriving: Deriving = DERIVING,
    show: Showing = SHOWING,
) -> int:
    """Find the symmetries of a model, each of them proved.

    Exits with 1 where something could not be proved, or was not looked at for want of time.
    """
    show.begin()
    if save is not None:
        _folder_of(save, "--save")
    this, sizes = asked(model), sizes_of((*words, *size))
    target = this.model.at(**this.sized(sizes)) if sizes else this.model
    found = deriving.group(target, this.name, show)
    show.result(found)
    if save is not None:
        found.save(save)
    return 1 if found.unproved or found.unsearched else 0


@app.command
def verify(
    model: Model,
    /,
    *words: Annotated[
        str,
        Parameter(
            name="NAMES",
            help="Stated symmetries by name (all when there are none), and sizes such as h=4 x=3: exact proofs there.",
        ),
    ],
    size: Size = (),
    group: Annotated[str | None, Parameter(help="State one here: its group, as in 'PositiveDiagonal(h)'.")] = None,
    action: Annotated[
        tuple[str, ...],
        Parameter(help="What it does to a parameter, as in 'W1 = g @ W1'; once for each.", show_default=False),
    ] = (),
    found: Annotated[
        str | None, Parameter(help="Replay the proofs of a file that `quotax derive --save` wrote.")
    ] = None,
    budget: Annotated[float, Parameter(help="Seconds that an exact proof may take.")] = 20.0,
    show: Showing = SHOWING,
) -> int:
    """Prove or refute stated symmetries: those in a TOML file, beside a model in Python, or written out here.

    Exits with 1 where one of them is refuted or undecided.
    """
    import quotax as qx
    from quotax.cli.stated import chosen

    show.begin()
    this = asked(model)
    names, given = apart(words)
    if found is not None:
        group_ = qx.load_symmetries(found, this.model)
        with show.doing(f"replaying the proofs of {found}"):
            replayed = {
                symmetry.name: _replayed(this.model, symmetry, certificate)
                for symmetry, certificate in (*group_.proved, *group_.discrete_proved)
            }
        show.result(replayed)
        return 0 if all(replayed.values()) else 1
    sizes = sizes_of((*given, *size))
    certificates = {}
    for symmetry in chosen(this, names, group, action):
        with show.doing(f"proving {symmetry.name}", budget if sizes else None) as told:
            certificates[symmetry.name] = qx.verify(
                this.model, symmetry, sizes=this.sized(sizes) if sizes else None, budget_seconds=budget, progress=told
            )
    show.result(certificates)
    return 0 if all(certificates.values()) else 1


@app.command
def audit(
    model: Model,
    /,
    *words: Sizes,
    size: Size = (),
    finding: Finding = FOUND,
    show: Showing = SHOWING,
) -> int:
    """Count what is flat at these sizes, and how much of it the symmetries explain.

    Exits with 1 where they do not explain all of it, or that cannot be said.
    """
    show.begin()
    this = asked(model)
    sizes = this.sized(sizes_of((*words, *size)), small=True)
    found = finding.group(this.model, this.name, show)
    with show.doing(f"counting flat directions at {sizes_text(sizes)}"):
        result = found.audit(**sizes)
    show.result(result)
    return 0 if result.complete else 1


@app.command
def sharpness(
    model: Model,
    /,
    *words: Sizes,
    size: Size = (),
    params: Annotated[
        str | None, Parameter(group=MEASURED, help="Weights: .safetensors, .npz, or an orbax directory.")
    ] = None,
    radius: Annotated[
        tuple[float, ...],
        Parameter(group=MEASURED, help="Of the ball, 0.05 by default; several for a profile.", show_default=False),
    ] = (0.05,),
    measure: Annotated[
        Literal["worst-case", "average", "trace", "spectrum", "profile"],
        Parameter(
            group=MEASURED,
            help="The largest rise, the mean rise, the Hessian's trace or ends, or the largest rise by radius.",
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
    _check_radii(radius, measure)
    _check_counts(("--steps", steps), ("--k", k))
    _check_plot(plot, measure in ("spectrum", "profile"), f"of --measure {measure}; spectrum and profile have one")
    this, network, here, batch = _ready(model, (*words, *size), params, data, weights, show, "sharpness")
    asked_for = data.measured(network, here, batch, show.note) | {"params": here, "key": weights.seed}
    space = None if full else _quotient(network, finding.group(this.model, this.name, show), metric, show)
    with show.doing(f"measuring {measure} of {network.num_parameters:,} parameters") as told:
        result = _measured(measure, radius, steps, k, told, asked_for | {"space": space})
    show.result(result)
    if plot is not None:
        ax = None
        if not full:
            with show.doing(f"measuring {measure} in the full ball, for the picture") as told:
                ax = _measured(measure, radius, steps, k, told, asked_for).plot(label="full")
        result.plot(ax, label="full" if full else "quotient").figure.savefig(plot)
    seen = {each.status for each in getattr(result, "results", (result,))}
    return 1 if any(status in ("interrupted", "not finite") or "loss is" in status for status in seen) else 0


def _measured(
    measure: str,
    radii: Sequence[float],
    steps: int | None,
    k: int,
    told: Callable[[str], None],
    asked_for: dict[str, Any],
) -> Any:
    import quotax as qx

    if measure == "worst-case":
        return qx.sharpness(radius=radii[0], steps=steps, progress=told, **asked_for)
    if measure == "profile":
        return qx.profile(radii=radii, steps=steps, progress=told, **asked_for)
    if measure == "average":
        return qx.average_sharpness(radius=radii[0], **asked_for)
    return qx.trace(**asked_for) if measure == "trace" else qx.spectrum(k=k, density=True, **asked_for)


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
    import math

    import quotax as qx

    show.begin()
    _check_radii((radius,), "worst-case")
    names, given = apart(models)
    if not names:
        raise Misuse(f"no model among {', '.join(models) or 'nothing'}; give at least one")
    if len(names) > 1 and params and len(params) != len(names):
        raise Misuse(f"{len(names)} models need as many --params, one for each, and here are {len(params)}")
    files: Sequence[str | None] = params or (None,) * len(names)
    if len(names) == 1 and len(files) > 1:
        names = names * len(files)
    titles = _titles(names, files)
    sizes, groups, entries = sizes_of((*given, *size)), {}, {}
    known = {name: asked(name) for name in dict.fromkeys(names)}
    for axis in sizes:
        if not any(axis in this.model.axis_names for this in known.values()):
            raise Misuse(f"size {axis}={sizes[axis]}: none of the models has an axis {axis!r}")
    for number, (title, name, file) in enumerate(zip(titles, names, files, strict=True)):
        this = known[name]
        network = this.network({axis: n for axis, n in sizes.items() if axis in this.model.axis_names})
        here = weights.read(network, file, show, other=number)
        note = (lambda line: None) if number else show.note
        made = data.measured(network, here, data.batch(network, weights.seed, "compare"), note)
        if name not in groups:
            groups[name] = finding.group(this.model, name, show)
        space = _quotient(network, groups[name], metric, show)
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
    *words: Sizes,
    params: Annotated[
        str | None, Parameter(group=MEASURED, help="The weights that are moved along their orbit.")
    ] = None,
    to: Annotated[str | None, Parameter(group=MEASURED, help="The weights that they are brought close to.")] = None,
    out: Annotated[str | None, Parameter(help="Write the moved weights to this file, laid out as --params is.")] = None,
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
        _folder_of(out, "--out")
    _check_plot(plot, data.data is not None, "without --data, which the barrier is measured on")
    this = asked(model)
    network = this.network(sizes_of((*words, *size)))
    here, there = (weights.read(network, path, show, option=o) for path, o in ((params, "--params"), (to, "--to")))
    made = None
    if data.data is not None:
        made = data.measured(network, here, data.batch(network, weights.seed, "align"), show.note)
    space = _quotient(network, finding.group(this.model, this.name, show), metric, show)
    results: dict[str, Any] = {}
    with show.doing(f"aligning {params} to {to}"):
        results["alignment"] = space.alignment(here, there)
        if space.metric_certificate:
            results["distance"] = space.distance(here, there)
        if made is not None:
            results["barrier"] = qx.barrier(made.pop("loss"), here, there, space=space, **made)
    show.result(results)
    if plot is not None:
        results["barrier"].plot().figure.savefig(plot)
    if out is not None:
        from quotax.cli.arrays import save_params

        save_params(out, results["alignment"].params, weights.layout, network, params)
    return 0 if results["alignment"].attained else 1


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
    output: Annotated[str, Parameter(help="The page is written to this file.")] = "report.html",
    data: Data = DATA,
    weights: WeightFiles = WEIGHTS,
    finding: Finding = FOUND,
    show: Showing = SHOWING,
) -> int:
    """Write one page about a model, or two: symmetries with proofs, audits, sharpness; of two networks their alignment.

    Without --data inputs and targets are random, to try things out. The page is one HTML file that needs no network.
    Exits with 1 where something could not be proved or searched, or a loss is not finite.
    """
    import quotax as qx

    show.begin()
    _folder_of(output, "--output")
    if Path(output).suffix not in (".html", ".htm"):
        raise Misuse(f"--output {output}: a report is an .html file")
    _check_radii(radius, "profile")
    _check_counts(("--steps", steps))
    names, given = apart(models)
    if not 1 <= len(names) <= 2:
        raise Misuse(f"a report is of one model or two, and here are {len(names)}: {', '.join(names) or 'none'}")
    if len(params) > 2 or (len(names) == 2 and params and len(params) != 2):
        raise Misuse(f"a report is of one network or two, and {len(names)} models with {len(params)} --params are not")
    files: list[str | None] = list(params) or [None] * len(names)
    sizes = sizes_of(given)
    known = {name: asked(name) for name in dict.fromkeys(names)}
    for axis in sizes:
        if not any(axis in this.model.axis_names for this in known.values()):
            raise Misuse(f"size {axis}={sizes[axis]}: none of the models has an axis {axis!r}")
    titles = _titles(names * (len(files) if len(names) == 1 else 1), files)
    made = None
    chosen: dict[str, Any] = {"radii": radius} if radius else {}
    for name, this in known.items():
        mine = [n for n in range(len(files)) if (names * 2)[n if len(names) == 2 else 0] == name]
        network, notes = _at_hand(this, sizes, data, show)
        points = [weights.read(network, files[n], show, other=n) for n in mine]
        if None in [files[n] for n in mine] and getattr(network.architecture, "parameters", None) is None:
            notes.append(f"The parameters of {name} are random: it was not trained.")
        source = data if data.data is not None else replace(data, data="random:64")
        asked_for = source.measured(network, points[0], source.batch(network, weights.seed, "report"), show.note)
        group = finding.group(this.model, name, show)
        space = _quotient(network, group, metric, show)
        with show.doing(f"measuring {name}, {network.num_parameters:,} parameters") as told:
            one = qx.report(
                group, asked_for.pop("loss"), points[0], space=space, other=points[1] if len(points) > 1 else None,
                names=tuple(titles[n] for n in mine) if len(mine) > 1 else (titles[mine[0]], "other"),
                title=name, notes=notes, steps=steps, key=weights.seed, progress=told, **asked_for | chosen,
            )  # fmt: skip
        made = one if made is None else made.beside(one)
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


def _replayed(model: Any, symmetry: Any, certificate: Any) -> Any:
    """A certificate that was read, made again; where that says something else, what is known of the claim now."""
    import quotax as qx

    try:
        return certificate.recheck()
    except qx.QuotaxError:
        return qx.verify(model, symmetry)


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


def _quotient(network: Any, found: Any, metric: str, show: Showing) -> Any:
    import quotax as qx

    with show.doing("building the quotient"):
        return qx.quotient(network, found, metric)


def _check_radii(radii: Sequence[float], measure: str) -> None:
    import math

    for radius in radii:
        if not (math.isfinite(radius) and radius > 0):
            raise Misuse(f"--radius {radius:g}: a radius is a positive number, such as 0.05")
    if measure != "profile" and len(radii) > 1:
        raise Misuse(
            f"--measure {measure} is at one radius, and here are {len(radii)}; --measure profile takes several"
        )


def _titles(names: Sequence[str], files: Sequence[str | None]) -> list[str]:
    """A short name for each network, no two alike."""
    short = [Path(file).stem if file is not None else name for name, file in zip(names, files, strict=True)]
    if len(set(short)) < len(short):
        short = [file or name for name, file in zip(names, files, strict=True)]
    return [title if short.count(title) == 1 else f"{title} ({n})" for n, title in enumerate(short, 1)]


def _check_plot(path: str | None, possible: bool, otherwise: str) -> None:
    """Refuse a picture that cannot be drawn before anything takes long."""
    if path is None:
        return
    _folder_of(path, "--plot")
    if not possible:
        raise Misuse(f"--plot {path}: there is no picture {otherwise}")
    if Path(path).suffix not in (".pdf", ".svg", ".png"):
        raise Misuse(f"--plot {path}: a picture is a .pdf, .svg or .png file")


def _check_counts(*given: tuple[str, int | None]) -> None:
    for option, count in given:
        if count is not None and count < 1:
            raise Misuse(f"{option} {count}: it is a whole number, at least 1")


def _folder_of(path: str, option: str) -> None:
    """Refuse a file that cannot be written before anything takes long."""
    if not Path(path).absolute().parent.is_dir():
        raise Misuse(f"{option} {path}: there is no folder {str(Path(path).parent)!r}")
