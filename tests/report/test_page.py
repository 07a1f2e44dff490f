"""The page of a report: every number is that of the JSON, everything is labelled, and nothing is fetched."""

import dataclasses
import itertools
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

import models
import quotax as qx
from quotax.presenting.layered import GAP, laid_out
from quotax.presenting.proof_picture import shown
from quotax.report.page.flow import flow
from quotax.report.page.glosses import group_words, marks
from quotax.report.page.mathml import expression, formula, group
from quotax.report.page.writing_out import embedded, looked_up, number, page
from report.pages import measures


class Elements(HTMLParser):
    """Every element with its attributes and the text directly in it."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), []))
        self.open.append(self.found[-1])

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        if self.open:
            self.open[-1][2].append(data)


@pytest.fixture(scope="module")
def known(derived):
    """What is known of a model without parameters, in a model whose name has to be escaped."""
    found = derived(models.relu)
    return qx.report(found, title="relu <&> co")


@pytest.fixture(scope="module")
def whole(known):
    """A report of two networks, and its page."""
    quotient = {
        "metric": "invariant", "dimension": 12, "orbit": 3, "left out": {"x": "it is <odd>"},
        "certificate": known.models[0]["families"][0]["certificate"],
    }  # fmt: skip
    model = known.models[0] | {"parameters": 15, "quotient": quotient} | measures()
    report = dataclasses.replace(known, models=(model,), notes=("random <data>",))
    return report, report.html()


def test_every_number_that_is_shown_is_that_of_the_json(whole):
    report, text = whole
    elements = Elements(text).found
    (data,) = ["".join(inside) for tag, attrs, inside in elements if attrs.get("id") == "report"]
    data = json.loads(data)
    assert data == json.loads(json.dumps(report.to_dict()))
    shown = [(attrs, "".join(inside)) for tag, attrs, inside in elements if tag == "data"]
    for attrs, inside in shown:
        value = looked_up(data, attrs["data-at"])
        assert inside == number(value)
        assert attrs["value"] == ("" if value is None else str(value))
    places = {attrs["data-at"] for attrs, _ in shown}
    assert {"models/0/points/1/worst case/geodesic/values/1", "models/0/along/radius"} <= places
    assert {"models/0/points/1/worst case/quotient/values/2", "models/0/between/barrier/height"} <= places
    assert {f"models/0/along/rows/{n}/change" for n in range(3)} <= places
    assert len(places) > 60


def test_figures_point_at_numbers_of_the_json(whole):
    report, text = whole
    specs = [json.loads(attrs["data-chart"]) for _, attrs, _ in Elements(text).found if "data-chart" in attrs]
    assert len(specs) == 8
    series = [one for spec in specs for one in spec["series"]]
    assert len(series) > 20
    for one in series:
        for place in (one[key] for key in ("x", "y", "ticks") if key in one):
            assert isinstance(looked_up(report.to_dict(), place), list)


def test_the_page_stands_alone_and_everything_has_a_name(whole):
    _, text = whole
    elements = Elements(text).found
    assert len(text.encode()) < 3_000_000
    assert "://" not in text
    assert not [a for _, a, _ in elements if "src" in a or ("href" in a and not a["href"].startswith("#"))]
    assert "default-src 'none'" in text
    ids = [attrs["id"] for _, attrs, _ in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs, _ in elements:
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attrs.get(name, "").split()) <= set(ids)
        if attrs.get("href"):
            assert attrs["href"][1:] in ids
        if tag in ("section", "figure", "article"):
            assert "aria-labelledby" in attrs
        if "tabindex" in attrs or attrs.get("role") in ("group", "region"):
            assert attrs.get("aria-label")
        if tag == "svg":
            assert attrs.get("aria-hidden") or attrs.get("aria-labelledby") or attrs.get("aria-label")
    levels = [int(tag[1]) for tag, _, _ in elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert [attrs.get("lang") for tag, attrs, _ in elements if tag == "html"] == ["en"]
    assert "relu &lt;&amp;&gt; co" in text
    assert "random &lt;data&gt;" in text


def test_families_stand_with_their_formulas_and_proofs(known):
    text = known.html()
    for family in known.models[0]["families"]:
        assert family["certificate"]["status"] == "proved"
        for left, right in family["action"].items():
            assert f'alttext="{left} becomes {right}"' in text
        for step in family["certificate"]["steps"]:
            assert step.replace("&", "&amp;").replace(">", "&gt;") in text
    boxes = [attrs for _, attrs, _ in Elements(text).found if attrs.get("class") == "box"]
    assert {box["data-name"] for box in boxes} == set(known.models[0]["arrays"])
    assert [box["data-families"] for box in boxes if box["data-name"] == "b1"] == ["0 1"]


def test_proofs_are_graphs_with_the_law_of_each_axis(known, derived):
    def scaled(nodes):
        """What each axis is multiplied by, by tensor, of those that move."""
        return {n["name"]: {a["axis"]: a["law"] for a in n["axes"] if a["law"]} for n in nodes if n["moves"]}

    family = next(f for f in known.models[0]["families"] if f["name"] == "scale h")
    nodes = family["tensors"]
    found = scaled(nodes)
    given = {n["name"]: found[n["name"]] for n in nodes if n["kind"] == "parameter"}
    assert given == {"W1": {"h": "g"}, "b1": {"h": "g"}, "W2": {"h": "g^-1"}}
    assert found["max"] == {"h": "g"}  # relu lets it through, and what reads it takes it out
    reads = next(n for n in nodes if not n["moves"] and "max" in {nodes[m]["name"] for m in n["of"]})
    assert "W2" in {nodes[m]["name"] for m in reads["of"]}
    assert nodes[-1]["kind"] == "output"
    assert not nodes[-1]["moves"]
    assert all(m < n for n, node in enumerate(nodes) for m in node["of"])
    elements = Elements(known.html()).found
    said = [attrs["data-said"] for _, attrs, _ in elements if "data-said" in attrs]
    assert "W2 becomes g⁻¹ W2: g⁻¹ along h" in said
    certificate = derived(models.relu).certificate("scale h")
    assert certificate.tensors() == nodes
    words = [text.get_text() for text in certificate.plot().texts]
    assert words.count("× g⁻¹") == 1
    assert {"W1", "output"} <= set(words)
    with pytest.raises(qx.QuotaxError, match="no proof by laws"):
        qx.Certificate("1 = 1", "proved", "every width").plot()
    assert qx.Certificate.from_dict(certificate.to_dict()).tensors() == []  # without a model there is none to trace
    many = [node | {"of": [n - 1] if n else [], "moves": n < 3} for n, node in enumerate([nodes[0]] * 40)]
    assert [node["of"] for node in shown(many)] == [[], [0], [1], [2]]


def test_the_first_screen_says_the_result(whole, known):
    told = lambda report: re.sub(r"<[^>]*>", "", report.html().split('class="lede">')[1].split("</p>")[0]).split()
    assert " ".join(told(known)) == (
        "2 families of symmetries, each proved for every width, move the parameters along orbits of dimension h and "
        "change no output. Nothing else is flat."
    )
    assert " ".join(told(whole[0])) == (
        "3 of the 15 dimensions in which the parameters can move change no output: 2 families of symmetries say which, "
        "each proved for every width. 12 dimensions are left. Nothing else is flat. Between a and b the loss rises by "
        "1.875 on the straight way, and by 0.0625 once they are aligned."
    )


def test_what_was_not_searched_is_said_at_once(known):
    (model,) = known.models
    rushed = dataclasses.replace(known, models=(model | {"unsearched": ("permutations",), "unproved": ("odd",)},))
    first = rushed.html().split('class="lede">')[1].split("</p>")[0]
    assert "Not all was searched for in the time that was given." in first
    assert "Not all that was found is proved." in first


def test_groups_and_marks_have_words():
    families = [family for name in qx.catalogue.names() for family in qx.catalogue.load(name).families]
    assert [str(family.group) for family in families if not group_words(str(family.group))] == []
    assert dict(marks(["W becomes g W [the action]"])).keys() == {"the action", "T becomes g T"}


def test_networks_that_are_not_aligned_say_why(known):
    (model,) = known.models
    apart = dataclasses.replace(known, models=(model | {"counterparts": {"names": None, "reason": "they <differ>"}},))
    assert "No alignment and no barrier: they &lt;differ&gt;." in apart.html()
    assert 'href="#m0-apart"' in apart.html()


def test_two_models_stand_on_one_page(known):
    both = known.beside(known)
    text = both.html()
    assert len(both.to_dict()["models"]) == 2
    ids = [attrs["id"] for _, attrs, _ in Elements(text).found if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {"m0-audit", "m1-audit"} <= set(ids)
    assert known.complete


@pytest.mark.parametrize(
    ("action", "names", "mathml"),
    [
        ({"W1": "g @ W1"}, ["W1"], "<msub><mi>W</mi><mn>1</mn></msub>"),
        ({"W2": "W2 @ inv(g)"}, ["W2"], "<msup><mrow><mi>g</mi></mrow><mrow><mo>−</mo><mn>1</mn></mrow></msup>"),
        ({"E": "E @ g.T"}, ["E"], "<msup><mi>g</mi><mo>⊤</mo></msup>"),
        ({"a/Q[h,k]": "g[h,k_] a/Q[h,k_] / n[h]"}, ["a/Q", "n"], "<mi>a/Q</mi>"),
        ({"a/O": "inv(g)[h,k_,k] * a/O"}, ["a/O"], "<msubsup><mrow><mi>g</mi></mrow>"),
        ({"w": "g * (w + 1) - 1"}, ["w"], "<mo>−</mo><mn>1</mn>"),
        ({"a": "exp(-g) * a"}, ["a"], "<mi>exp</mi><mo>(</mo><mo>−</mo>"),
        ({"h/Q": "g[head,head_] * h/Q[head_]"}, ["h/Q", "head"], '<mo lspace="0" rspace="0">′</mo>'),
        ({"g": "g @ p.g"}, ["g"], "<mi>p.g</mi>"),
        ({"p": "p.T @ g"}, ["p"], "<msup><mi>p</mi><mo>⊤</mo></msup>"),
        ({"a": "a ? b <"}, ["a"], "<mtext>a ? b &lt;</mtext>"),
        ({"a": "a + "}, ["a"], "<mtext>a + </mtext>"),
    ],
)
def test_actions_are_formulas(action, names, mathml):
    (line,) = formula(action, names)
    assert mathml in line["mathml"]
    ElementTree.fromstring(line["mathml"])


@pytest.mark.parametrize(
    ("text", "mathml"),
    [
        ("Piecewise((h*x - 1, h >= Max(x, y)), (h**2, True))", "<mtext>if </mtext><mi>h</mi><mo>≥</mo>"),
        ("Piecewise((h, (h < x) & (x < 3)), (0, True))", "<mo>∧</mo>"),
        ("min(h, x)*head", "<mi>min</mi><mo>(</mo><mi>h</mi><mo>,</mo><mi>x</mi>"),
    ],
)
def test_dimensions_are_formulas(text, mathml):
    written = expression(text)
    assert mathml in written
    ElementTree.fromstring(written)
    assert "<mtext>" not in written.replace("<mtext>if </mtext>", "").replace("<mtext>otherwise</mtext>", "")


@pytest.mark.parametrize("text", ["GL(k)^head", "C*^(k/2)^h", "R+^(k/2)", "R*^h^e", "R^1", "O_1(d)", "Z2^h", "S(h)"])
def test_groups_are_formulas(text):
    written = group(text)
    assert "<mtext>" not in written
    ElementTree.fromstring(written)


def test_orbit_dimensions_of_the_catalogue_are_formulas():
    orbits = [qx.catalogue.load(name).orbit for name in qx.catalogue.names()]
    assert [orbit for orbit in orbits if "<mtext>" in expression(orbit).replace("<mtext>if ", "")] == []


def test_numbers_are_short_and_json_may_stand_in_a_script():
    assert [number(x) for x in (12345, -1.23456e-9, "inf", None)] == ["12,345", "−1.235 × 10⁻⁹", "inf", "–"]
    assert json.loads(embedded({"a": "</script>\u2028"})) == {"a": "</script>\u2028"}
    assert "</" not in embedded("</script>")


def test_tensors_stand_in_the_order_in_which_data_meet_them():
    drawn = flow(models.relu.trace({"h": 2, "x": 3, "y": 4}))
    names = [name for _, name in drawn.nodes]
    assert [[names[a], names[b]] for a, b in drawn.edges] == [["x", "W1"], ["W1", "b1"], ["b1", "W2"], ["W2", "output"]]
    drawn = flow(models.attention.trace({"head": 2, "k": 3, "v": 2, "x": 4, "t": 5}))
    names = [name for _, name in drawn.nodes]
    edges = {(names[a], names[b]) for a, b in drawn.edges}
    assert {("x", "Wq"), ("x", "Wk"), ("Wq", "·"), ("Wk", "·"), ("·", "·"), ("·", "Wo"), ("Wo", "output")} <= edges
    assert ("Wv", "Wo") not in edges


def test_boxes_do_not_lie_on_one_another():
    sizes = [(40.0 + 10 * (n % 4), 20.0) for n in range(12)]
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4), (3, 4), (0, 4), (4, 5), (5, 6), (0, 6), (6, 7), (5, 7)]
    found = laid_out(sizes, edges)
    for n, (x, y) in enumerate(found.centres):
        assert x >= sizes[n][0] / 2
        assert x + sizes[n][0] / 2 <= found.width + 1e-9
        for m, (u, v) in enumerate(found.centres[:n]):
            apart = abs(x - u) >= (sizes[n][0] + sizes[m][0]) / 2 + GAP - 1e-6
            assert apart or abs(y - v) >= 20
    assert all(path[0][1] < path[-1][1] for path in found.paths)


def test_what_makes_no_sense_is_refused(derived):
    found = derived(models.relu)
    with pytest.raises(qx.QuotaxError, match=r"needs what `qx.derive\(model\)` found, got Architecture"):
        qx.report(models.relu)
    with pytest.raises(qx.QuotaxError, match="loss= is given and params= is not"):
        qx.report(found, lambda p: 0.0)
    with pytest.raises(qx.QuotaxError, match="other= is a second network"):
        qx.report(found, other={})
    with pytest.raises(qx.QuotaxError, match="two different names="):
        qx.report(found, names=("a", "a"))
    for radii in ((), (0.1, -1.0), (float("nan"),)):
        with pytest.raises(qx.QuotaxError, match="radii= at least one number, all of them positive, got"):
            qx.report(found, radii=radii)
    with pytest.raises(qx.QuotaxError, match="needs steps= a positive number, got 0"):
        qx.report(found, steps=0)
    hidden = qx.Symmetry("hidden", qx.GL("h"), {"W1": "g @ W1", "W2": "W2 @ inv(g)"})
    space = qx.quotient(models.linear.at(h=2, x=3, y=2), hidden, "invariant")
    with pytest.raises(qx.QuotaxError, match="found= is of relu, and space= is a quotient of "):
        qx.report(found, space=space)


def test_a_loss_that_is_no_number_is_said_so(whole):
    report, _ = whole
    (model,) = report.models
    lost = dataclasses.replace(report, models=(model | {"points": [model["points"][0] | {"loss": "nan"}]},))
    assert report.complete
    assert not lost.complete
    assert 'data-at="models/0/points/0/loss">nan</data>' in lost.html()


def test_a_page_needs_nothing_but_the_data(whole):
    report, text = whole
    assert page(json.loads(json.dumps(report.to_dict()))) == text


def test_pictures_for_a_paper_show_the_same(whole, known):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    report, _ = whole
    ax = report.plot()
    words = {text.get_text() for text in ax.texts}
    assert {"W1", "b1", "W2", "x [x]", "output", "h", "1", "2"} <= words
    rows = report.models[0]["along"]["rows"]
    lines = [line for line in report.plot("orbit").lines if line.get_gid() == "curve"]
    assert [line.get_linestyle() for line in lines] == ["-", "-"]  # of NaN at the parameters there is no ratio
    assert lines[1].get_ydata().tolist() == [value / 1.5 for value in rows[1]["values"]]
    assert report.plot("plane").get_xlabel() == "along the orbit"
    pyplot.close("all")
    with pytest.raises(qx.QuotaxError, match=r"no picture 'orbits'; those are tensors, orbit, plane"):
        report.plot("orbits")
    with pytest.raises(qx.QuotaxError, match=r"`report.plot\('plane'\)`: nothing was measured"):
        known.plot("plane")
