r"""Actions as formulas: MathML, which browsers show and screen readers read without a script or a network.

The small language of actions is products and sums of named arrays, with `g`, `inv`, `.T` and indices. Its matrix form
loses the signs of products, `W2 @ inv(g)` is $W_2\,g^{-1}$; in index form indices stand below, `Q[head,k_,d]` is
$Q_{head,k',d}$. What this grammar has not is shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

_SHORT = re.compile(r"([A-Za-z])_?(\d+)")
_RELATIONS = {">=": "≥", "<=": "≤", ">": "&gt;", "<": "&lt;", "&": "∧", "|": "∨"}
_HALF = re.compile(r"\((\w+)/2\)")
_LATIN = re.compile(r"(?:p\.(?!T\b))?[A-Za-z_]\w*")
_OTHER = re.compile(r"\*\*|->|>=|<=|[<>&|]|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|[-+*/@()\[\],.^]")


_TIMES = '<mo>&#x2062;</mo><mspace width="0.17em"/>'
_LETTERS = {
    "R+": "<msub><mi>ℝ</mi><mo>+</mo></msub>", "R*": "<msup><mi>ℝ</mi><mo>∗</mo></msup>", "R": "<mi>ℝ</mi>",
    "C*": "<msup><mi>ℂ</mi><mo>∗</mo></msup>",
}  # fmt: skip


class _Unknown(Exception):
    """Something that the grammar has not."""


def formula(action: Mapping[str, str], names: Iterable[str]) -> list[dict[str, str]]:
    """For each array that moves its name, what it becomes as it was written, and the whole as MathML.

    >>> formula({"W2": "W2 @ inv(g)"}, ["W2"])[0]["text"]
    'W2 ↦ W2 @ inv(g)'
    """
    known = sorted(names, key=len, reverse=True)
    return [{"text": f"{left} ↦ {right}", "mathml": _mapping(left, right, known)} for left, right in action.items()]


def expression(text: str, names: Iterable[str] = ()) -> str:
    """One expression as MathML.

    >>> expression("k**2 - 1")
    '<math displaystyle="true" alttext="k**2 - 1"><msup><mi>k</mi><mn>2</mn></msup><mo>−</mo><mn>1</mn></math>'
    """
    known = sorted(names, key=len, reverse=True)
    if not (text.startswith("Piecewise((") and text.endswith("))")):
        return _math(text, _written(text, known))
    rows = [_split(piece[1:-1]) for piece in _split(text[len("Piecewise(") : -1])]
    written = "".join(
        f"<mtr><mtd>{_written(value, known)}</mtd><mtd>{_where(condition, known)}</mtd></mtr>"
        for value, condition in rows
    )
    return _math(text, f"<mrow><mo>{{</mo><mtable>{written}</mtable></mrow>")


def _split(text: str) -> list[str]:
    """What commas divide that no bracket holds.

    >>> _split("(a, b), c")
    ['(a, b)', 'c']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _where(condition: str, names: list[str]) -> str:
    return "<mtext>otherwise</mtext>" if condition == "True" else f"<mtext>if </mtext>{_written(condition, names)}"


def group(text: str) -> str:
    """The name of a group as MathML: powers of letters.

    >>> group("R^h")
    '<math displaystyle="true" alttext="R^h"><msup><mrow><mi>ℝ</mi></mrow><mrow><mi>h</mi></mrow></msup></math>'
    """
    base, *powers = text.split("^")
    written = _LETTERS.get(base) or _written(base, [])
    if powers:
        above = _TIMES.join(_power(power, len(powers) == 1) for power in powers)
        inside = f"<mrow><mo>(</mo>{written}<mo>)</mo></mrow>" if "<msup>" in written else _row(written)
        written = f"<msup>{inside}{_row(above)}</msup>"
    return _math(text, f"<mtext>{escape(text)}</mtext>" if "<mtext>" in written else written)


def _power(text: str, alone: bool) -> str:
    half = _HALF.fullmatch(text)
    if not half:
        return _written(text, [])
    inside = f"<mi>{half[1]}</mi><mo>/</mo><mn>2</mn>"
    return inside if alone else f"<mrow><mo>(</mo>{inside}<mo>)</mo></mrow>"


def _mapping(left: str, right: str, names: list[str]) -> str:
    return _math(f"{left} becomes {right}", f"{_written(left, names)}<mo>↦</mo>{_written(right, names)}")


def _math(text: str, inside: str) -> str:
    return f'<math displaystyle="true" alttext="{escape(text)}">{inside}</math>'


def _written(text: str, names: list[str]) -> str:
    try:
        reader = _Reader(text, names)
        found = reader.relation()
        if reader.tokens[reader.at :]:
            raise _Unknown
        return found
    except (_Unknown, IndexError):
        return f"<mtext>{escape(text)}</mtext>"


class _Reader:
    """Recursive descent: a sum of products of factors with powers, transposes and indices."""

    def __init__(self, text: str, names: list[str]) -> None:
        """Tokens, the longest name of an array first: names may contain slashes."""
        self.tokens, self.at, place = [], 0, 0
        while place < len(text):
            if text[place].isspace():
                place += 1
                continue
            inside = lambda n, at=place: re.match(r"\w", text[at + len(n) :])
            name = next((n for n in names if text.startswith(n, place) and not inside(n)), "")
            found = name or (_LATIN.match(text, place) or _OTHER.match(text, place) or ("",))[0]
            if not found:
                raise _Unknown
            self.tokens.append(found)
            place += len(found)

    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.next()
        if wanted and token not in wanted:
            raise _Unknown
        self.at += 1
        return token

    def relation(self) -> str:
        out = self.sum()
        while (sign := self.next()) in _RELATIONS:
            out += f"<mo>{_RELATIONS[self.take(sign)]}</mo>{self.sum()}"
        return out

    def sum(self) -> str:
        out = ""
        if self.next() in ("-", "+"):
            out = _sign(self.take())
        out += self.product()
        while self.next() in ("+", "-"):
            out += _sign(self.take()) + self.product()
        return out

    def product(self) -> str:
        above, below = [self.factor()], []
        while (token := self.next()) and token not in ("+", "-", ")", "]", ",", "->", *_RELATIONS):
            if token in ("*", "@", "/"):
                self.take()
            (below if token == "/" else above).append(self.factor())
        top = _TIMES.join(above)
        return f"<mfrac>{_row(top)}{_row(_TIMES.join(below))}</mfrac>" if below else top

    def factor(self) -> str:
        base, below, above = self.atom()
        while self.next() in ("[", ".", "**", "^"):
            token = self.take()
            if token == "[":
                if below:
                    raise _Unknown
                below = self.indices()
            elif token == ".":
                self.take("T")
                base, above = (base, "<mo>⊤</mo>") if not above else (_raised(base, below, above), "<mo>⊤</mo>")
            else:
                sign = self.take() if self.next() == "-" else ""
                power = _sign(sign) + self.atom()[0] if sign else self.atom()[0]
                base, below, above = (_raised(base, below, above), "", power) if above else (base, below, power)
        return _raised(base, below, above)

    def indices(self) -> str:
        parts = [_index(self.take())]
        while self.take(",", "]") == ",":
            parts.append(_index(self.take()))
        return _row("<mo>,</mo>".join(parts))

    def atom(self) -> tuple[str, str, str]:
        """A factor without what stands behind it: what it is, what is below it, what is above."""
        token = self.take()
        if token == "-":
            return _row(_sign("-") + self.factor()), "", ""
        if token == "(":
            inside = self.relation()
            self.take(")")
            return f"<mrow><mo>(</mo>{inside}<mo>)</mo></mrow>", "", ""
        if token[0].isdigit():
            return f"<mn>{token}</mn>", "", ""
        if self.next() == "(":
            self.take()
            inside = self.relation()
            while self.take(",", ")") == ",":
                inside += f"<mo>,</mo>{self.relation()}"
            if token == "inv":
                return _row(inside), "", "<mrow><mo>−</mo><mn>1</mn></mrow>"
            short = _SHORT.fullmatch(token)
            called = f"<msub><mi>{short[1]}</mi><mn>{short[2]}</mn></msub>" if short else f"<mi>{escape(token)}</mi>"
            return f"<mrow>{called}<mo>(</mo>{inside}<mo>)</mo></mrow>", "", ""
        if not _LATIN.match(token):
            raise _Unknown
        short = _SHORT.fullmatch(token)
        if short and self.next() != "[":
            return f"<mi>{short[1]}</mi>", f"<mn>{short[2]}</mn>", ""
        return f"<mi>{escape(token)}</mi>", "", ""


def _raised(base: str, below: str, above: str) -> str:
    if below and above:
        return f"<msubsup>{base}{below}{above}</msubsup>"
    if below or above:
        return f"<{'msub' if below else 'msup'}>{base}{below or above}</{'msub' if below else 'msup'}>"
    return base


def _row(inside: str) -> str:
    return f"<mrow>{inside}</mrow>"


def _sign(token: str) -> str:
    return f"<mo>{'−' if token == '-' else token}</mo>"


def _index(token: str) -> str:
    if token.isdigit():
        return f"<mn>{token}</mn>"
    if not _LATIN.fullmatch(token):
        raise _Unknown
    plain = f"<mi>{escape(token.rstrip('_'))}</mi>"
    primes = len(token) - len(token.rstrip("_"))
    return f'<mrow>{plain}<mo lspace="0" rspace="0">{"′" * primes}</mo></mrow>' if primes else plain
