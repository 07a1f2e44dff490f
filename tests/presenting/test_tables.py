"""Tables fit 100 columns, whatever they hold."""

import re
import textwrap

import jax
from hypothesis import given, settings
from hypothesis import strategies as st

import quotax as qx
from quotax.derive.candidates.wording import distinct
from quotax.presenting.tables import WIDTH, table, wrapped
from quotax.trees import folder, place

cells = st.text("ab *,()[]", max_size=150)
names = st.lists(st.lists(st.sampled_from(["W", "b", "layer0", "layer1", "att"]), min_size=1, max_size=4), min_size=1)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(cells, min_size=n, max_size=n), min_size=2, max_size=5)))
def test_tables_fit_and_lose_no_letter(rows):
    text = table(rows[0], rows[1:], rule=False)
    assert max(map(len, text.splitlines())) <= WIDTH
    letters = lambda whole: sorted(c for c in whole if not c.isspace())
    assert letters(text) == letters("".join(map("".join, rows)))


@settings(max_examples=60, deadline=None)
@given(names, st.integers(20, 60))
def test_a_place_counts_every_array(paths, width):
    listed = list(dict.fromkeys("/".join(path) for path in paths))
    text = place(listed, width)
    shared = folder(listed)
    assert all(name.startswith(shared) for name in listed)
    shown = text.removeprefix(f"{shared}: ").partition(" and ")
    more = int(shown[2].partition(" ")[0] or 0)
    assert len(shown[0].split(", ")) + more == len(listed)
    assert len(text) <= width or len(shown[0].split(", ")) == 1


def test_families_of_one_kind_are_told_apart_by_where_they_act():
    def shift(*moved):
        return qx.Symmetry("scale h", qx.PositiveDiagonal("h"), dict.fromkeys(moved, "-"))

    taken = []
    for moved in [("a/W", "a/V"), ("b/W", "b/V"), ("b/U", "b/T"), ("c/W", "d/W"), ("c/W", "d/W"), tuple("stuv")]:
        taken.append(distinct(shift(*moved), taken).name)
    assert taken == [
        "scale h", "scale h (b)", "scale h (b: U, T)", "scale h (c/W, d/W)", "scale h #2", "scale h (s, t, u, v)",
    ]  # fmt: skip


LAYER = {"norm": "d", "wide": "f d", "gate": "f d", "narrow": "d f"}


@qx.architecture(
    params={"embedding": "d x", **{f"blocks_{k}": LAYER for k in range(2)}, "norm": "d", "head": "y d"},
    inputs={"x": "x"},
)
def deep(p, x):
    z = p["embedding"] @ x
    for k in range(2):
        w = p[f"blocks_{k}"]
        n = w["norm"] * z * jax.lax.rsqrt((z**2).mean() + 1e-6)
        z = z + w["narrow"] @ (jax.nn.silu(w["gate"] @ n) * (w["wide"] @ n))
    return p["head"] @ (p["norm"] * z * jax.lax.rsqrt((z**2).mean() + 1e-6))


def test_what_is_found_in_layers_fits():
    found = qx.derive(deep, progress=lambda _: None)
    text = str(found)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "scale d (blocks_1)" in text
    assert "moves embedding" in text
    assert re.search(r"^scale d \(norm, head\) .* moves norm, head ", text, re.MULTILINE)
    assert {name for name, *_ in found._rows()[1]} == {s.name for s in (*found, *found.discrete)}
    assert max(map(len, str(found.audit(x=3, d=3, f=2, y=2)).splitlines())) <= WIDTH


def test_a_long_line_goes_on_below():
    text = "one " * 40
    assert wrapped(text).splitlines() == textwrap.wrap(text, WIDTH, subsequent_indent="  ")
