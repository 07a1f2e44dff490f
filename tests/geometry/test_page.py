"""docs/geometry.md tells the truth: its code runs in a fresh interpreter and prints what the page shows."""

import itertools
import json
import subprocess
import sys

import pytest

from test_readme import READER, ROOT, blocks, differences


@pytest.mark.slow
def test_code_runs_and_prints_what_the_page_shows():
    page = blocks("docs/geometry.md")
    code = [b for b in page if b.language == "python"]
    end = "-- end of block --"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{READER}"],
        input=json.dumps([{"line": b.line, "source": b.source, "end": end} for b in code]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    printed = [part.removeprefix("\n") for part in run.stdout.split(end)]
    shown = {b: f.source for b, f in itertools.pairwise(page) if (b.language, f.language) == ("python", "text")}
    for block, out in zip(code, printed, strict=False):
        wrong = differences(out, shown.get(block, ""))
        assert not wrong, f"block at line {block.line}: {wrong}"
