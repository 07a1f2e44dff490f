"""Every entry of the catalogue at its realistic size, each in its own process: what is measured, and what it costs.

    python tests/benchmarks/realistic_sizes.py                 every entry, in the user's float32
    python tests/benchmarks/realistic_sizes.py gpt2 rotary     these; a file's name stands for all of its entries
    python tests/benchmarks/realistic_sizes.py gpt2 --record   and keeps the rows in docs/measured.json, for the pages

CPU seconds are those of the process (two threads add up), from the import to the last measurement; memory is its peak.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[2] / "docs" / "measured.json"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("names", nargs="*")
    asked.add_argument("--record", action="store_true")
    asked.add_argument("--only", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.only:
        print(json.dumps(walked(given.only)))
        return
    from quotax.report.listing import entries

    for name in entries(given.names):
        told = subprocess.run([sys.executable, __file__, "--only", name], stdout=subprocess.PIPE, text=True, check=True)
        row = json.loads(told.stdout.splitlines()[-1])
        print(f"{name:34} {row.pop('line')}; {row['cpu']} CPU s, {row['mib']} MiB", flush=True)
        if given.record:
            kept = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
            RECORDED.write_text(json.dumps(dict(sorted({**kept, name: row}.items())), indent=1) + "\n")


def walked(name: str) -> dict[str, Any]:
    """A row: what `realistic` measures, its line, CPU seconds and MiB."""
    from quotax import catalogue, derive
    from quotax.report.realistic import realistic

    entry = catalogue.load(name)
    found = derive(entry.architecture, entry.ansatz, progress=lambda line: None)
    seen = realistic(entry, found)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    row = {key: value for key, value in dataclasses.asdict(seen).items() if key != "seconds"}
    used = {"cpu": round(spent.ru_utime + spent.ru_stime), "mib": spent.ru_maxrss // 1024}
    return {**row, "remark": seen.remark, "line": str(seen), **used}


if __name__ == "__main__":
    main()
