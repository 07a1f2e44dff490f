"""Commands about a model's symmetries: those that are known, found, stated and counted."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from quotax.cli.asked import apart, asked, sizes_of, sizes_text
from quotax.cli.commands.application import app
from quotax.cli.commands.asked_of_all import check_folder
from quotax.cli.options import DERIVING, FOUND, SHOWING, Deriving, Finding, Model, Size, Sizes
from quotax.cli.terminal import Showing


@app.command(name="list")
def list_(
    *names: Annotated[
        str, Parameter(name="NAMES", help="Entries, or files with all of their entries; all when there are none.")
    ],
    facts: Annotated[
        bool, Parameter(help="Derive each now: families, audits, scope, seconds.", show_default=False)
    ] = False,
    measured: Annotated[
        bool, Parameter(help="Divide and measure each at its realistic size, too.", show_default=False)
    ] = False,
    show: Showing = SHOWING,
) -> int:
    """The catalogue of architectures, with the symmetries that each must have."""
    from quotax.report import entries, listing

    if show.json:
        show.result(entries(names))
    elif show.tables and not (facts or measured):
        rows = [(name, entry.orbit, entry.reference) for name, entry in entries(names).items()]
        show.table(("architecture", "orbit", "reference"), rows)
    else:
        if facts or measured:
            show.begin()
        listing(names, facts=facts, measured=measured, show=lambda line: print(line, flush=True))
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
        check_folder(save, "--save")
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


def _replayed(model: Any, symmetry: Any, certificate: Any) -> Any:
    """A certificate that was read, made again; where that says something else, what is known of the claim now."""
    import quotax as qx

    try:
        return certificate.recheck()
    except qx.QuotaxError:
        return qx.verify(model, symmetry)


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
