"""A name means one thing: no two modules and no two public classes are called the same, but for those listed here."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "quotax"

SHARED_MODULES = {
    "domain": "a domain of the interpreter: what one is, and each",
    "rules": "the rules of a domain, one file for each domain",
    "linalg": "linear algebra of the room that it is in; in `geomstats_jax` geomstats asks for the name",
    "gpt2": "an architecture of the catalogue, and the layout of its checkpoints",
    "llama": "an architecture of the catalogue, and the layout of its checkpoints",
    "symmetry": "the room of symmetries, and the class that it is called after",
}
SHARED_CLASSES = {
    "Eqn": "an equation of a jaxpr as a rule sees it: of values, and of what is written out",
}


def module_name(path: Path) -> str:
    return path.parent.name if path.stem == "__init__" else path.stem


def public_classes(path: Path) -> list[str]:
    return re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE)


def doubles(names: Iterable[tuple[str, Path]]) -> dict[str, list[str]]:
    places = defaultdict(list)
    for name, path in names:
        places[name].append(str(path))
    return {name: found for name, found in places.items() if len(found) > 1}


FILES = [path.relative_to(SRC) for path in sorted(SRC.rglob("*.py"))]


def test_modules_have_names_of_their_own():
    found = doubles((module_name(path), path) for path in FILES)
    assert {name: places for name, places in found.items() if name not in SHARED_MODULES} == {}
    assert set(found) == set(SHARED_MODULES), "a name that is listed is no longer shared"


def test_public_classes_have_names_of_their_own():
    found = doubles((name, path) for path in FILES for name in public_classes(SRC / path))
    assert {name: places for name, places in found.items() if name not in SHARED_CLASSES} == {}
    assert set(found) == set(SHARED_CLASSES), "a name that is listed is no longer shared"


def test_no_file_of_the_tests_is_loaded_under_two_names():
    tests = Path(__file__).parent
    loaded = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
    found = doubles((file, Path(name)) for name, file in loaded if file and Path(file).is_relative_to(tests))
    assert found == {}


def test_any_does_not_spread():
    page = (SRC.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8").split("## Where `Any` stands")[1]
    allowed = {room: int(lines) for room, lines in re.findall(r"^\| `(\w+)` \| (\d+) \|$", page, re.MULTILINE)}
    found = defaultdict(int)
    for path in FILES:
        text = (SRC / path).read_text(encoding="utf-8")
        found[path.parts[0].removesuffix(".py")] += len(re.findall(r"^.*\bAny\b.*$", text, re.MULTILINE))
    assert {room: lines for room, lines in found.items() if lines > allowed.get(room, 0)} == {}
