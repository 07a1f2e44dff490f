"""The page of a measured report in headless Chromium: it makes no errors, obeys, fits, and axe-core finds no fault."""

import json
import shutil

import jax
import jax.numpy as jnp
import pytest

import models
import quotax as qx

pytestmark = pytest.mark.slow

PROGRAMS = "chromium", "chromium-browser", "google-chrome"


@pytest.fixture(scope="module")
def measured(derived):
    """A report of two small networks."""
    net = models.relu.at(h=2, x=2, y=2)
    a, b = (net.init(jax.random.key(seed)) for seed in (0, 1))
    x, y = jax.random.normal(jax.random.key(2), (2, 8, 2))
    loss = lambda p, batch: jnp.mean((jax.vmap(net, (None, 0))(p, batch[0]) - batch[1]) ** 2)
    found = derived(models.relu)
    space = qx.quotient(net, found, "invariant")
    return qx.report(found, loss, a, space=space, other=b, batch=(x, y), radii=(0.05, 0.2), steps=3, k=2)


@pytest.fixture(scope="module")
def browser():
    """Chromium, where it is installed."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def show(browser, measured, tmp_path):
    """The page in a window of this width; what the console says is an error."""
    said, windows = [], []
    measured.save(tmp_path / "report.html")

    def show(width=1000, scheme="light"):
        window = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        windows.append(window)
        window.on("console", lambda message: said.append(message.text))
        window.on("pageerror", lambda error: said.append(str(error)))
        window.on("request", lambda request: said.extend([request.url] * (not request.url.startswith("file:"))))
        window.goto(f"file://{tmp_path}/report.html")
        return window

    yield show
    for window in windows:
        window.close()
    assert said == []


def test_the_measures_agree_with_the_library(measured):
    (model,) = measured.to_dict()["models"]
    first, second = model["points"]
    assert first["worst case"]["quotient"]["invariant"] is True
    assert first["worst case"]["full"]["invariant"] is False
    assert {len(point["worst case"]["full"]["values"]) for point in (first, second)} == {2}
    changes = {(row["name"], row["ball"]): (row["invariant"], row["change"]) for row in model["along"]["rows"]}
    assert all(change < 1e-6 for proved, change in changes.values() if proved)
    assert changes["trace", "full"][1] > 1e-2
    assert changes["trace", "full"][0] is False
    assert model["along"]["the loss moves"] is False
    between = model["between"]
    assert between["alignment"]["lower bound"] <= between["alignment"]["distance"] + 1e-9
    assert between["losses"][0] == pytest.approx(first["loss"])
    assert between["losses"][-1] == pytest.approx(second["loss"])
    second_order = first["worst case"]["full"]["second order"]
    top, slope = first["spectrum"]["full"]["values"][0], first["gradient"]["full"]
    assert second_order[1] == pytest.approx(0.2 * slope + 0.02 * top)
    assert sum(first["spectrum"]["full"]["values"]) > 0
    assert model["quotient"]["dimension"] == 8
    curved = first["worst case"]["geodesic"]
    assert (curved["radii"], curved["invariant"]) == ([0.2], True)
    assert curved["values"][0] == pytest.approx(first["worst case"]["quotient"]["values"][1], rel=0.2)
    assert first["average"]["geodesic"]["errors"][0] > 0


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_nothing_is_wider_than_the_window(show, width):
    window = show(width)
    window.evaluate("for (const node of document.querySelectorAll('details')) node.open = true")
    assert window.evaluate("document.documentElement.scrollWidth") <= width
    assert window.locator(".plot svg[role=img]").count() == 8


def test_the_controls_work(show, measured, tmp_path):
    window = show()
    figure = window.locator("figure.tensors")
    figure.get_by_role("button", name="scale h").click()
    assert sorted(figure.locator(".box.moved").evaluate_all("a => a.map(b => b.dataset.name)")) == ["W1", "W2", "b1"]
    assert "W2 @ inv(g)" in figure.locator(".readout").inner_text()
    figure.get_by_role("button", name="scale h").click()
    assert figure.locator(".box.moved").count() == 0
    size = lambda: figure.locator("svg").first.bounding_box()["width"]
    before = size()
    figure.get_by_role("button", name="larger").click()
    assert size() > 1.2 * before
    figure.get_by_role("button", name="fit").click()
    assert size() == pytest.approx(before)

    chart = window.locator("figure.chart").first
    line = chart.locator('svg [data-name="worst case, quotient"] circle')
    assert line.count() == 2
    chart.get_by_role("button", name="worst case, quotient", exact=True).click()
    assert line.count() == 0
    chart.get_by_role("button", name="worst case, quotient", exact=True).click()
    picture = chart.locator("svg[role=img]")
    labels = lambda: picture.locator("text").all_text_contents()
    logarithmic = labels()
    chart.get_by_role("button", name="logarithmic across").click()
    assert labels() != logarithmic
    chart.get_by_role("button", name="logarithmic across").click()
    assert labels() == logarithmic
    chart.get_by_role("button", name="zoom in").click()
    assert labels() != logarithmic
    chart.get_by_role("button", name="show everything").click()
    box = picture.bounding_box()
    window.mouse.move(box["x"] + 100, box["y"] + 50)
    window.mouse.down()
    window.mouse.move(box["x"] + 300, box["y"] + 200)
    window.mouse.up()
    assert labels() != logarithmic
    picture.dblclick()
    assert labels() == logarithmic

    picture.focus()
    window.keyboard.press("ArrowRight")
    window.keyboard.press("ArrowDown")
    told = chart.locator(".readout").inner_text()
    point = measured.models[0]["points"][0]
    assert told.startswith("worst case, full ball, second order, at most: rise of the loss ")
    assert f"{point['worst case']['full']['second order'][0]:.4g}" in told

    plane = window.locator("#m0-p0-plane")
    plane.locator("svg").focus()
    window.keyboard.press("ArrowUp")
    grid = point["slice"]
    assert (
        f"loss {grid['losses'][8][9]:.4g} at 0 along and {grid['steps'][9]:.4g} across"
        in plane.locator("p").inner_text()
    )

    themes = []
    for _ in range(3):
        themes.append(window.evaluate("getComputedStyle(document.body).backgroundColor"))
        window.get_by_role("button", name="colours").click()
    assert themes[0] == themes[1] != themes[2]
    with window.expect_download() as download:
        window.get_by_role("button", name="Save them as JSON").click()
    assert json.loads(download.value.path().read_text()) == json.loads(json.dumps(measured.to_dict()))

    window.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert window.locator("details:not([open])").count() == 0
    window.evaluate("dispatchEvent(new Event('afterprint'))")
    assert window.locator("details[open]").count() == 0
    assert window.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault(show, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    window = show(800, scheme)
    window.evaluate("for (const node of document.querySelectorAll('details')) node.open = true")
    found = axe.run(window).response
    assert [(rule["id"], rule["nodes"][0]["html"][:200]) for rule in found["violations"]] == []
    assert len(found["passes"]) > 20


def test_a_loss_that_reads_the_parameters_is_told_from_one_of_the_function(derived):
    net = models.relu.at(h=2, x=2, y=2)
    space = qx.quotient(net, derived(models.relu), "invariant")
    decay = lambda p: sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(p))
    params = net.init(jax.random.key(0))
    report = qx.report(derived(models.relu), decay, params, space=space, radii=(0.1,), steps=2, k=1)
    along = report.models[0]["along"]
    assert along["the loss moves"] is True
    assert not [row for row in along["rows"] if row["invariant"]]
    assert "The loss itself changes" in report.html()
