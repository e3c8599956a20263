"""Pictures as SVG: bars, and parts of a whole.

Text of people, models and tools is escaped here, with the same characters made visible as
elsewhere. Colours are classes of svg.css; widths are shares of 100 %, so that text keeps its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from sshwarma.terminal.escape import escape_lines

BAR_ROW_PIXELS: Final = 44
"""Height of a bar with its label above it."""

COLUMN_PIXELS: Final = 140
"""Height of the tallest column."""

LABEL_PIXELS: Final = 18
"""Height of a line of text."""

MAX_LABEL_CHARACTERS: Final = 26
"""Characters of a label beside a number, on a screen of 390 px."""

MIN_PERCENT: Final = 0.4
"""Width of the smallest bar that is not zero, so that it is seen."""

NUMBERED_PERCENT: Final = 6.0
"""Width of a part that has room for its number."""

KINDS: Final = 6
"""Classes of parts, `part-0` and on, which are used in turn."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar or column: its name, its size, and the size in words."""

    name: str
    value: float
    words: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a line of time, from `start` to `end`, drawn with the class `kind`."""

    kind: str
    start: float
    end: float


def make_element(name: str, *children: str, **attributes: str | float) -> Markup:
    """Return an element with its text escaped.

    `_` in the name of an attribute stands for `-`, at its end for nothing.
    Children that are no Markup, and all values, are escaped.
    """
    pairs = (
        f' {key.rstrip("_").replace("_", "-")}="{_write_value(value)}"'
        for key, value in attributes.items()
    )
    inner = "".join(_write_text(child) for child in children)
    return Markup(f"<{name}{''.join(pairs)}>{inner}</{name}>")  # noqa: S704 - escaped above


def make_picture(
    name: str, title: str, description: str, *children: str, **attributes: str | float
) -> Markup:
    """Return a picture with its title and description.

    `name` is an id that nothing else in the page has.
    It is an image to those who hear it, unless `role` says otherwise, as where it has links.
    """
    return make_element(
        "svg",
        make_element("title", title, id=f"{name}-title"),
        make_element("desc", description, id=f"{name}-desc"),
        *children,
        **{
            "role": "img",
            "aria_labelledby": f"{name}-title",
            "aria_describedby": f"{name}-desc",
            "xmlns": "http://www.w3.org/2000/svg",
        }
        | attributes,
    )


def draw_bars(name: str, title: str, bars: Sequence[Bar], kind: str = "part-0") -> Markup:
    """Return bars one below the other, each below its name and its words."""
    largest = max((bar.value for bar in bars), default=0) or 1
    parts: list[str] = []
    for number, bar in enumerate(bars):
        top = number * BAR_ROW_PIXELS
        baseline = top + LABEL_PIXELS - 4
        parts += [
            make_element("text", _cut(bar.name), x=0, y=baseline, class_="label"),
            make_element("text", bar.words, x="100%", y=baseline, class_="label end"),
            make_element(
                "rect", make_element("title", f"{bar.name}: {bar.words}"),
                x=0, y=top + LABEL_PIXELS, width=_percent(bar.value, largest), height=16,
                class_=kind,
            ),
        ]  # fmt: skip
    described = "; ".join(f"{bar.name}: {bar.words}" for bar in bars)
    return make_picture(
        name, title, described, *parts, width="100%", height=max(1, len(bars)) * BAR_ROW_PIXELS
    )


def draw_columns(name: str, title: str, bars: Sequence[Bar], kind: str = "part-0") -> Markup:
    """Return columns side by side, the first, the last and the largest named."""
    largest = max((bar.value for bar in bars), default=0) or 1
    step = 100 / max(1, len(bars))
    bottom = LABEL_PIXELS + COLUMN_PIXELS
    parts: list[str] = []
    for number, bar in enumerate(bars):
        height = max(2.0, COLUMN_PIXELS * bar.value / largest) if bar.value else 0.0
        parts.append(
            make_element(
                "rect", make_element("title", f"{bar.name}: {bar.words}"),
                x=f"{number * step:.3f}%", y=f"{bottom - height:.2f}", width=f"{step * 0.8:.3f}%",
                height=f"{height:.2f}", class_=kind,
            )
        )  # fmt: skip
    top = max(bars, key=lambda bar: bar.value, default=None)
    if top is not None:
        ends = [(bars[0], 0, "label")] + [(bars[-1], "100%", "label end")] * (len(bars) > 1)
        parts += [
            make_element("text", bar.name, x=x, y=bottom + LABEL_PIXELS - 3, class_=kind_of_text)
            for bar, x, kind_of_text in ends
        ]
        largest_words = f"most: {top.words}, {top.name}"
        parts.append(make_element("text", largest_words, x=0, y=LABEL_PIXELS - 5, class_="label"))
    parts.append(make_element("line", x1=0, x2="100%", y1=bottom, y2=bottom, class_="axis"))
    described = "; ".join(f"{bar.name}: {bar.words}" for bar in bars if bar.value) or "nothing"
    return make_picture(name, title, described, *parts, width="100%", height=bottom + LABEL_PIXELS)


def draw_shares(name: str, title: str, parts: Sequence[Bar]) -> Markup:
    """Return a bar of parts side by side, numbered from 1 as in their table."""
    total = sum(part.value for part in parts) or 1
    drawn: list[str] = []
    at = 0.0
    for number, part in enumerate(parts):
        width = 100 * part.value / total
        drawn.append(
            make_element(
                "rect", make_element("title", f"{number + 1}: {part.name}: {part.words}"),
                x=f"{at:.3f}%", y=0, width=f"{width:.3f}%", height=28,
                class_=f"part part-{number % KINDS}",
            )
        )  # fmt: skip
        if width >= NUMBERED_PERCENT:
            middle = f"{at + width / 2:.3f}%"
            drawn.append(make_element("text", str(number + 1), x=middle, y=19, class_="on-part"))
        at += width
    described = "; ".join(f"{part.name}: {part.words}" for part in parts)
    return make_picture(name, title, described, *drawn, width="100%", height=28)


def draw_time_line(segments: Iterable[Segment], start: float, end: float) -> Markup:
    """Return a line of time, which decorates the words beside it."""
    length = max(end - start, 1e-9)
    parts = []
    for segment in segments:
        at = min(max(100 * (segment.start - start) / length, 0.0), 100 - MIN_PERCENT)
        width = max(100 * (segment.end - segment.start) / length, MIN_PERCENT)
        parts.append(
            make_element(
                "rect", x=f"{at:.3f}%", y=3, width=f"{min(width, 100 - at):.3f}%", height=14,
                class_=segment.kind,
            )
        )  # fmt: skip
    return make_element("svg", *parts, class_="time", aria_hidden="true", width="100%", height=20)


def _percent(value: float, largest: float) -> str:
    return f"{max(MIN_PERCENT, 100 * value / largest) if value else 0:.3f}%"


def _cut(text: str) -> str:
    is_long = len(text) > MAX_LABEL_CHARACTERS
    return f"{text[: MAX_LABEL_CHARACTERS - 1]}…" if is_long else text


def _write_value(value: str | float) -> str:
    return str(escape(escape_lines(str(value))))


def _write_text(child: str) -> str:
    return str(child if isinstance(child, Markup) else escape(escape_lines(child)))
