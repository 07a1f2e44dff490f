"""README.md and CONTRIBUTING.md tell the truth: their code prints what they show, and CI runs their commands."""

import itertools
import json
import re
import subprocess
import sys
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?(?![\w.])")

# Runs in a fresh interpreter, as a reader would: x64 off and nothing of pytest's. Compiled under the file's own name
# and line numbers, so that a traceback points into the page.
READER = """
import json, sys
namespace = {"__name__": "__main__"}
for block in json.load(sys.stdin):
    exec(compile("\\n" * block["line"] + block["source"], "README.md", "exec"), namespace)
    print(block["end"], flush=True)
"""


class Block(NamedTuple):
    language: str
    line: int
    source: str


def blocks(name: str) -> list[Block]:
    """The fenced blocks of a page; `line` is that of the opening fence."""
    text = (ROOT / name).read_text(encoding="utf-8")
    fences = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], text.count("\n", 0, m.start()) + 1, m[2]) for m in fences]


def commands(name: str) -> list[str]:
    return [line for block in blocks(name) if block.language == "sh" for line in block.source.splitlines()]


def last_digit(number: str) -> Decimal:
    """One unit of the last digit that is printed: `last_digit("1.20e-3")` is 1e-5; an integer is exact."""
    if not re.search(r"[.eE]", number):
        return Decimal(0)
    return Decimal(1).scaleb(int(Decimal(number).as_tuple().exponent))


def differences(printed: str, shown: str) -> list[str]:
    """What differs between two texts, where numbers may differ by one unit of the last digit shown."""
    if NUMBER.sub("#", printed.strip()) != NUMBER.sub("#", shown.strip()):
        return [f"printed:\n{printed}\nshown:\n{shown}"]
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return [f"{p} is not {s}" for p, s in pairs if abs(Decimal(p) - Decimal(s)) > last_digit(s)]


@pytest.mark.parametrize(
    ("printed", "shown", "agree"),
    [
        ("S 0.1234", "S 0.1235", True),
        ("S 0.1234", "S 0.1236", False),
        ("S 1.23e-04", "S 1.24e-04", True),
        ("S 1.23e-04", "S 1.23e-05", False),
        ("64 56", "64 55", False),
        ("S 0.1", "T 0.1", False),
        ("W1[0,1] 2", "W1[0,2] 2", False),
        ("-0.5", "0.5", False),
    ],
)
def test_comparison_allows_the_last_digit_and_nothing_else(printed, shown, agree):
    assert (not differences(printed, shown)) == agree


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        *(
            pytest.param(f"docs/{name}.md", marks=pytest.mark.slow)
            for name in (
                "complexity",
                "data_symmetry",
                "discretisation",
                "files",
                "function_space",
                "geometry",
                "howto",
                "index",
                "landscape",
                "minima_paths",
                "quantisation",
                "report",
                "sharpness",
                "tutorial",
                "your_model",
            )
        ),
    ],
)
def test_code_runs_and_prints_what_the_page_shows(name):
    page = blocks(name)
    code = [b for b in page if b.language == "python"]
    assert code, f"{name} shows no code"
    end = "-- end of block --"
    job = json.dumps([{"line": b.line, "source": b.source, "end": end} for b in code])
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{READER}"],
        input=job,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    printed = [part.removeprefix("\n") for part in run.stdout.split(end)]
    shown = dict.fromkeys(code, "")
    for block, following in itertools.pairwise(page):
        if block.language == "python" and following.language == "text":
            shown[block] = following.source
    for block, out in zip(code, printed, strict=False):
        assert not differences(out, shown[block]), f"block at line {block.line}: {differences(out, shown[block])}"


SHELL = """
import json, shlex, sys
from quotax.cli import main
for block in json.load(sys.stdin):
    if block["language"] == "py":
        open(block["source"].split()[1], "w").write(block["source"])
    elif block["language"] == "python":
        exec(block["source"])
    elif block["language"] == "sh":
        for line in block["source"].splitlines():
            main([*shlex.split(line)[1:], "--no-cache"])
    print(block["end"], flush=True)
"""


@pytest.mark.slow
def test_commands_print_what_the_page_shows(tmp_path):
    page, end = blocks("docs/command_line.md"), "-- end of block --"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{SHELL}"],
        input=json.dumps([block._asdict() | {"end": end} for block in page]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    told = re.compile(r"^(\.\.\. |note: ).*\n", re.MULTILINE)
    printed = [told.sub("", part.removeprefix("\n")).replace(f"{tmp_path}/", "") for part in run.stdout.split(end)]
    for block, out, following in zip(page, printed, page[1:], strict=False):
        if block.language == "sh" and following.language == "text":
            assert not differences(out, following.source), f"line {block.line}: {differences(out, following.source)}"


def test_page_has_one_line_to_run_and_one_line_to_test():
    lines = commands("README.md")
    assert len(lines) == 2
    assert lines[0].endswith("quotax demo")
    assert lines[1].endswith("pytest -n auto")


def test_ci_runs_the_commands_of_the_pages():
    run = subprocess.run(
        ["bash", str(ROOT / ".ci" / "run"), "--list"], capture_output=True, text=True, timeout=60, check=True
    )
    assert sorted(run.stdout.splitlines()) == sorted(commands("README.md") + commands("CONTRIBUTING.md"))


def test_version_is_the_newest_entry_of_the_changelog():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    entries = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert entries[0] == version
    assert f"version {version}," in (ROOT / "README.md").read_text(encoding="utf-8")


def test_files_that_contributing_names_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|docs|examples)/[\w./]+)`", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
