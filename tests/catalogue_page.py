"""`docs/catalogue.md`, written from the catalogue: `python tests/catalogue_page.py > docs/catalogue.md`."""

from __future__ import annotations

import importlib
import inspect
from itertools import groupby

from quotax import catalogue

INTRODUCTION = """# Catalogue

Architectures with the symmetries that they must have: known from theory, not taken from what `derive` says. A test
derives every entry, compares groups, what they move, the dimension of an orbit and the number of flat directions at
two assignments of sizes, and sees that every family is proved.

```python
qx.catalogue.names()                    # every entry
entry = qx.catalogue.load("mlp/relu")   # imports its file alone
entry.architecture                      # the declaration, for `derive`, `verify`, `.at(...)`
entry.families, entry.orbit             # what is known of it
```

`quotax list` prints the entries, `quotax list --facts NAME` derives one now: parameters, families, orbit, audits,
scope and seconds. To add an architecture, add a file to a room of `src/quotax/catalogue`; its name is the entry's.
Where flat directions are left that no family explains, the entry says why.

The group of an entry may be stated by other generators; here are those that `derive` returns. `PositiveDiagonal` is
`R+^h`, `Diagonal` `R*^h`, `Translation` `R^h`, `Permutation` `S(h)`, `SignFlip` `Z2^h`; `GL(k)^head` is one copy for
each head.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    place = lambda name: importlib.import_module(catalogue._files()[name.partition("/")[0]])
    for room, names in groupby(catalogue.names(), lambda name: place(name).__name__.rpartition(".")[0]):
        parts.append(f"## {inspect.getdoc(importlib.import_module(room)).rstrip('.')}\n")
        for module, entries in groupby(names, place):
            parts.append(f"### {module.__name__.rpartition('.')[2]}\n")
            parts.append(f"{inspect.getdoc(module)}\n")
            parts += ["| entry | families | discrete | orbit | reference |", "|---|---|---|---|---|"]
            said = []
            for name in entries:
                entry = catalogue.load(name)
                cells = (
                    f"`{name}`",
                    _facts(entry.families),
                    _facts(entry.discrete),
                    f"`{entry.orbit}`",
                    entry.reference,
                )
                parts.append(f"| {' | '.join(cells)} |")
                said += [f"`{name}`, fields without a finite action: {entry.fields}."] if entry.fields else []
                said += [f"`{name}`, not explained by families: {entry.surplus}."] if entry.surplus else []
            parts += ["", *(f"{line}\n" for line in said)]
    return "\n".join(parts).rstrip() + "\n"


def _facts(facts: tuple[catalogue.Fact, ...]) -> str:
    return "<br>".join(f"`{fact.group}` on {fact.moves}" for fact in facts) or "none"


if __name__ == "__main__":
    print(page(), end="")
