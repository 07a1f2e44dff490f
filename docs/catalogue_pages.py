"""A page for each architecture of the catalogue, written from its entries while the site is built."""

from __future__ import annotations

import importlib
import inspect
import json
import textwrap
from itertools import groupby
from pathlib import Path
from typing import Any

from quotax import catalogue

SAID = """One section for each entry. *Families* and *orbit* are what theory says, *flat* is the corank of a float64
Jacobian of all outputs; `tests/test_catalogue.py` derives the entry, compares all three, and sees that every family is
proved. `quotax list --facts {name}` does so now."""

MEASURED = """## At a realistic size

Each network of a realistic size, in float32, is divided by what was derived of it in the invariant metric, and measured
at two points of an orbit (`quotax list --measured NAME`). *Left*: how much of a random vector's horizontal part is
vertical. *Changed*: how much the outputs change along the orbit, of the largest one. *Quotient*, *Euclidean*: sharpness
at radius 0.05 in the horizontal ball and in the full one, at both points. CPU seconds are those of a process from its
start, on a machine with two cores; `python tests/benchmarks/realistic_sizes.py NAMES --record` walks entries again.
"""
HEAD = "parameters", "left", "changed", "quotient", "Euclidean", "CPU s", "MiB"


def recorded() -> dict[str, Any]:
    """What was measured of entries at their realistic sizes, by name: one file, so that pages need no measuring."""
    return json.loads((Path(__file__).parent / "measured.json").read_text())


def pages() -> dict[str, dict[str, str]]:
    """Room by room, as its docstring says it: the page of each file, by the file's name."""
    return {
        room: {_file(module): _page(module, list(entries)) for module, entries in groupby(names, _module)}
        for room, names in _rooms()
    }


def overview() -> str:
    """A table of all entries, each a link to its section."""
    parts = []
    for room, names in _rooms():
        rows = []
        for name in names:
            entry = catalogue.load(name)
            groups = (f"`{fact.group}`" for fact in (*entry.families, *entry.discrete))
            rows.append((_link(name), ", ".join(groups), f"`{entry.orbit}`"))
        parts += [f"## {room}\n", _table(("entry", "groups", "orbit"), rows)]
    known = recorded()
    rows = [(_link(name), *_measured(known[name])) for name in catalogue.names() if name in known]
    return "\n".join([*parts, MEASURED, _table(("entry", *HEAD), rows)])


def _measured(row: dict[str, Any]) -> tuple[str, ...]:
    """The cells of a row that was recorded."""
    pair = lambda what: " and ".join(f"{value:.4g}" for value in row[what])
    own = pair("quotient") + (f" ({row['remark']})" if row["remark"] else "")
    small = f"{row['left']:.0e}", f"{row['changed']:.0e}"
    return f"{row['parameters']:,}", *small, own, pair("full"), str(row["cpu"]), str(row["mib"])


def _link(name: str) -> str:
    return f"[{name}](catalogue/{name.partition('/')[0]}.md#{_anchor(name)})"


def _rooms() -> list[tuple[str, list[str]]]:
    rooms = groupby(catalogue.names(), lambda name: _module(name).__name__.rpartition(".")[0])
    return [(inspect.getdoc(importlib.import_module(room)).rstrip("."), list(names)) for room, names in rooms]


def _module(name: str) -> Any:
    return importlib.import_module(catalogue._files()[name.partition("/")[0]])


def _file(module: Any) -> str:
    return module.__name__.rpartition(".")[2]


def _anchor(name: str) -> str:
    return f"entry-{name.replace('/', '-')}"


def _page(module: Any, names: list[str]) -> str:
    sources: dict[str, list[str]] = {}
    for name in names:
        source = inspect.getsource(catalogue.load(name).architecture.function)
        sources.setdefault(textwrap.dedent(source), []).append(name)
    parts = [
        f"# {_file(module)}\n",
        f"{inspect.getdoc(module)}\n",
        f"{SAID.format(name=names[0])}\n",
        "## Declaration\n",
    ]
    for source, those in sources.items():
        parts += [f"{', '.join(f'`{name}`' for name in those)}:\n"] if len(sources) > 1 else []
        parts.append(f"```py\n{source}```\n")
    parts += (_section(name) for name in names)
    return "\n".join(parts)


def _section(name: str) -> str:
    entry = catalogue.load(name)
    model = entry.architecture
    arrays = [("parameter", model.params), ("input", model.inputs)]
    rows = [(what, f"`{spec.name}`", _axes(spec)) for what, specs in arrays for spec in specs]
    parts = [f"## {name} {{ #{_anchor(name)} }}\n", _table(("array", "name", "axes"), rows)]
    facts = [(kind, fact) for kind in ("families", "discrete") for fact in getattr(entry, kind)]
    rows = [(f"`{f.group}`", _code(f.moves), "" if kind == "families" else "discrete") for kind, f in facts]
    parts.append(_table(("group", "moves", ""), rows) if rows else "No symmetry.\n")
    parts.append(
        f"Dimension of an orbit: `{entry.orbit}`. Certificates: {entry.scope}. Reference: {entry.reference}.\n"
    )
    rows = []
    for sizes, flat in entry.flat:
        orbit = entry.orbit_at(sizes)
        count = model.at(**sizes).num_parameters
        rows.append((", ".join(f"{a}={n}" for a, n in sizes.items()), count, flat, orbit, flat - orbit))
    parts.append(_table(("audit at", "parameters", "flat", "orbit", "surplus"), rows))
    row = recorded().get(name)
    if row is not None:
        at = ", ".join(f"{a}={n}" for a, n in entry.realistic.items())
        parts.append(f"At a realistic size, {at}:\n\n{_table(HEAD, [_measured(row)])}")
    parts += [f"Fields without a finite action: {entry.fields}.\n"] if entry.fields else []
    parts += [f"Not explained by families: {entry.surplus}.\n"] if entry.surplus else []
    return "\n".join(parts)


def _axes(spec: Any) -> str:
    text = f"`{spec.axes_text}`" if spec.axes_text else "a number"
    return text + {"real": "", "tokens": f", integers below `{spec.below}`"}.get(spec.kind, f", {spec.kind}")


def _code(words: str) -> str:
    return " ".join(f"`{word}`" for word in words.split())


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


# --- hooks of mkdocs


def on_files(files: Any, config: Any) -> Any:
    """The pages, and their places in the navigation."""
    from mkdocs.structure.files import File

    section = []
    for room, written in pages().items():
        places = {name: f"catalogue/{name}.md" for name in written}
        for name, place in places.items():
            files.append(File.generated(config, place, content=written[name]))
        section.append({room.partition(",")[0]: [{name: place} for name, place in places.items()]})
    (group,) = (entry["Catalogue"] for entry in config.nav if "Catalogue" in entry)
    group += section
    return files


def on_page_markdown(markdown: str, page: Any, **context: Any) -> str:
    """The overview, below what `catalogue.md` says."""
    del context
    return f"{markdown}\n{overview()}" if page.file.src_uri == "catalogue.md" else markdown
