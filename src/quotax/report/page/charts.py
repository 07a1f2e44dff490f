"""Figures as data: what the page's script draws, and a table of the same numbers beside it.

A series points at numbers of the report by their places in it (`models/0/points/0/...`), so that a picture cannot show
other numbers than the report has.
"""

from __future__ import annotations

from collections.abc import Mapping

from quotax.presenting import Json

BALLS = {"full": "full ball", "quotient": "quotient", "geodesic": "quotient, geodesics"}
"""What people read of a ball: geodesics are those of the quotient's metric, where the others take straight steps."""


def sharpness(where: str, point: Mapping[str, Json]) -> dict[str, Json]:
    """The rise of the loss against the radius, for every measure."""
    series = []
    for measure, title in (("worst case", "worst case"), ("average", "mean on the sphere")):
        for ball in point[measure]:
            at = f"{where}/{measure}/{ball}"
            colour = {"full": 0, "quotient": 1, "geodesic": 4}[ball]
            colour += 0 if measure == "worst case" else 1 if ball == "geodesic" else 2
            name = f"{title}, {BALLS[ball]}"
            series.append({"name": name, "x": f"{at}/radii", "y": f"{at}/values", "colour": colour, "marks": True})
            if point[measure][ball]["second order"]:
                second = f"{at}/second order"
                bound = "second order, at most" if measure == "worst case" else "second order"
                series.append(
                    {"name": f"{name}, {bound}", "x": f"{at}/radii", "y": second, "colour": colour, "dash": True,
                     "hidden": measure == "average"}
                )  # fmt: skip
    return _figure(series, "radius", "rise of the loss", x="log", y="log")


def spectrum(where: str, point: Mapping[str, Json]) -> dict[str, Json]:
    """The densities, and a tick for each eigenvalue at the ends."""
    series = []
    for colour, (ball, found) in enumerate(point["spectrum"].items()):
        at = f"{where}/spectrum/{ball}"
        if found["curve"]["x"]:
            series.append(
                {"name": f"density, {BALLS[ball]}", "x": f"{at}/curve/x", "y": f"{at}/curve/y", "colour": colour,
                 "area": True}
            )  # fmt: skip
        for end, title in (("values", "largest"), ("bottom", "smallest")):
            name = f"{title} eigenvalues, {BALLS[ball]}"
            series.append({"name": name, "ticks": f"{at}/{end}", "colour": colour, "row": colour})
    floor = 0.02 / max([found["width"] for found in point["spectrum"].values() if found["width"]], default=1.0)
    return _figure(series, "eigenvalue of the Hessian", "eigenvalues per unit", y="log", floor=floor)


def orbit(where: str, found: Mapping[str, Json]) -> dict[str, Json]:
    """Every measure along the orbit, relative to its value at the parameters."""
    names = list(dict.fromkeys(row["name"] for row in found["rows"]))
    series = []
    for n, row in enumerate(found["rows"]):
        name = f"{row['name']}, {BALLS[row['ball']]}" if row["ball"] else row["name"]
        series.append(
            {"name": name, "x": f"{where}/stretches", "y": f"{where}/rows/{n}/values", "relative": True,
             "colour": names.index(row["name"]), "marks": True, "dash": row["ball"] == "quotient"}
        )  # fmt: skip
    across = "distance moved along the orbit (size of the group element's logarithm)"
    return _figure(series, across, "value / value at the parameters", y="log")


def barrier(where: str, found: Mapping[str, Json]) -> dict[str, Json]:
    """The loss between two networks."""
    series = [{"name": "straight segment", "x": f"{where}/times", "y": f"{where}/losses", "colour": 0, "marks": True}]
    if found["aligned losses"]:
        series.append(
            {
                "name": "after alignment",
                "x": f"{where}/times",
                "y": f"{where}/aligned losses",
                "colour": 1,
                "marks": True,
            }
        )
    return _figure(series, "from one network to the other", "loss")


def plane(where: str) -> dict[str, Json]:
    """The loss on a plane, by level."""
    label = "along the orbit (length in the metric)", "across the orbit (length in the metric)"
    return _figure([], *label) | {"grid": {"steps": f"{where}/slice/steps", "losses": f"{where}/slice/losses"}}


def _figure(
    series: list[dict[str, Json]],
    across: str,
    up: str,
    *,
    x: str = "linear",
    y: str = "linear",
    floor: float | None = None,
) -> dict[str, Json]:
    return {"series": series, "x": {"label": across, "scale": x}, "y": {"label": up, "scale": y, "floor": floor}}
