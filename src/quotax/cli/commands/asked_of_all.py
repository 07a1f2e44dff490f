"""What several commands ask: networks with their names, the quotient, and refusals before anything takes long."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quotax.cli.arrays import bare
from quotax.cli.asked import Asked, asked, sizes_of
from quotax.cli.misuse import Misuse
from quotax.cli.terminal import Showing


class Networks(NamedTuple):
    """One network or several: for each its title, its model's name and its file, and the models by name with sizes."""

    titles: list[str]
    names: list[str]
    files: list[str | None]
    known: dict[str, Asked]
    sizes: dict[str, int]


def networks_of(names: list[str], words: Sequence[str], params: Sequence[str]) -> Networks:
    """Networks of several models, or of one with several sets of parameters; a size is one of them all."""
    files: list[str | None] = [*params] or [None] * len(names)
    if len(names) == 1:
        names = names * len(files)
    sizes = sizes_of(words)
    known = {name: asked(name) for name in dict.fromkeys(names)}
    for axis in sizes:
        if not any(axis in this.model.axis_names for this in known.values()):
            raise Misuse(f"size {axis}={sizes[axis]}: none of the models has an axis {axis!r}")
    return Networks(_titles(names, files), names, files, known, sizes)


def _titles(names: Sequence[str], files: Sequence[str | None]) -> list[str]:
    """A short name for each network, no two alike."""
    short = [Path(file).stem if file is not None else name for name, file in zip(names, files, strict=True)]
    if len(set(short)) < len(short):
        short = [file or name for name, file in zip(names, files, strict=True)]
    return [title if short.count(title) == 1 else f"{title} ({n})" for n, title in enumerate(short, 1)]


def renames(words: Sequence[str]) -> dict[str, str]:
    """Counterparts as they are written: `OTHER=MODEL`."""
    found: dict[str, str] = {}
    for word in words:
        other, equals, name = word.partition("=")
        if not (other and equals and name):
            raise Misuse(f"--rename {word}: counterparts are written OTHER=MODEL, as in --rename weight=W1")
        found[other] = name
    return found


def counterparts_of(networks: Sequence[Any], rename: Sequence[str], show: Showing) -> Any:
    """Which array of the second network is which of the first."""
    import quotax as qx

    known = renames(rename)
    with show.doing("matching the parameters of the two models"):
        try:
            return qx.counterparts(*networks, rename=known)
        except qx.ParameterError as error:
            raise Misuse(f"--rename: {bare(error).replace('rename= ', 'it ')}") from None


def quotient_of(network: Any, found: Any, metric: str, show: Showing) -> Any:
    """The quotient of a network by what was found."""
    import quotax as qx

    with show.doing("building the quotient"):
        return qx.quotient(network, found, metric)


def check_radii(radii: Sequence[float], measure: str) -> None:
    """Refuse radii that are not positive, or more than a measure has."""
    import math

    for radius in radii:
        if not (math.isfinite(radius) and radius > 0):
            raise Misuse(f"--radius {radius:g}: a radius is a positive number, such as 0.05")
    if measure != "profile" and len(radii) > 1:
        raise Misuse(
            f"--measure {measure} is at one radius, and here are {len(radii)}; --measure profile takes several"
        )


def check_plot(path: str | None, possible: bool, otherwise: str) -> None:
    """Refuse a picture that cannot be drawn before anything takes long."""
    if path is None:
        return
    check_folder(path, "--plot")
    if not possible:
        raise Misuse(f"--plot {path}: there is no picture {otherwise}")
    if Path(path).suffix not in (".pdf", ".svg", ".png"):
        raise Misuse(f"--plot {path}: a picture is a .pdf, .svg or .png file")


def check_counts(*given: tuple[str, int | None]) -> None:
    """Refuse counts below one."""
    for option, count in given:
        if count is not None and count < 1:
            raise Misuse(f"{option} {count}: it is a whole number, at least 1")


def check_folder(path: str, option: str) -> None:
    """Refuse a file that cannot be written before anything takes long."""
    if not Path(path).absolute().parent.is_dir():
        raise Misuse(f"{option} {path}: there is no folder {str(Path(path).parent)!r}")
