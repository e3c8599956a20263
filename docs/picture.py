"""Draws docs/session.svg: `make picture`.

It starts a server, logs two people in with the stock ssh client, lets them type, and draws what the
terminal of one of them shows. Nothing is drawn by hand. The model is a program that streams a fixed
answer, so that the picture is the same each time.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from wcwidth import wcswidth

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.driver import Screen, Server  # noqa: E402 - the path is set above
from support.driver.model import Asked, Model  # noqa: E402

COLUMNS, ROWS = 84, 34
CELL_WIDTH, CELL_HEIGHT = 8.4, 18.0
FONT_SIZE = 14
MARGIN, TITLE_HEIGHT = 18, 34
FONTS = "'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
BACKGROUND, FOREGROUND, TITLE = "#16181d", "#d5d8de", "#8b919c"
COLOURS = {
    "black": "#2a2e37", "red": "#e06c75", "green": "#98c379", "brown": "#e0b060",
    "blue": "#61afef", "magenta": "#c678dd", "cyan": "#56b6c2", "white": "#d5d8de",
    "brightblack": "#7a8291", "brightred": "#ef8891", "brightgreen": "#b5dd99",
    "brightbrown": "#f0cb85", "brightblue": "#8cc5f7", "brightmagenta": "#d9a0ea",
    "brightcyan": "#7fd0da", "brightwhite": "#ffffff",
}  # fmt: skip

SCRIPT = """-- The newest build and what failed in it.
return 'build 318 of main: FAILED test_total: 83.99 is not 84.00'
"""

ANSWER = """Build **318** fails in `test_total`: prices are added as floats since this morning.

```python
def total(prices: list[str]) -> Decimal:
    return sum(map(Decimal, prices), Decimal(0))
```

- the cart and the invoice both call `total`
- nothing else failed"""


class Style(NamedTuple):
    """How a run of characters looks."""

    colour: str
    background: str
    bold: bool
    italic: bool
    underline: bool


def answer(asked: Asked) -> Iterator[str | dict[str, Any]]:
    """Call the tool `build`, then say what came of it."""
    if asked["messages"][-1]["role"] == "tool":
        yield from (f"{word} " for word in ANSWER.split(" "))
        return
    names = [tool["function"]["name"] for tool in asked["tools"]]
    yield {"name": next(name for name in names if name.endswith("build")), "arguments": {}}


def record() -> Screen:
    """What alice sees after a short session; the server is gone when this returns."""
    model = Model(answer)
    with tempfile.TemporaryDirectory(prefix="sshw-", ignore_cleanup_errors=True) as home:
        server = Server(Path(home), models=json.dumps([model.settings("qwen")]))
        alice, bob = server.person("alice"), server.person("bob")
        alice.does(
            "set start last",
            "set history 0",
            "create workshop",
            "describe A long bench under north light.",
            "vibe quiet, focused",
            "portal out lobby",
        )
        alice.run("tool new build", SCRIPT)
        screen, other = alice.sit(COLUMNS, ROWS, prompt="workshop"), bob.sit()
        _play(screen, other)
        alice.hang_up()
        bob.hang_up()
        server.stop()
    model.close()
    return screen


def _play(alice: Screen, bob: Screen) -> None:
    """What the two type."""
    bob.enter("/join workshop")
    alice.wait_for("bob arrives")
    bob.enter("main is red. Was that me?")
    alice.wait_for("Was that me?")
    alice.enter("let us see")
    bob.wait_for("let us see")
    alice.enter("@qwen what broke?")
    alice.wait_for("nothing else failed")
    alice.wait_for_prompt("workshop")
    draft = "I can fix that, five min"
    alice.type(draft)
    alice.wait_for_input(f"workshop> {draft}")
    bob.enter("mine then, sorry! On it.")
    alice.wait_for("On it.")
    alice.wait_for_input(f"workshop> {draft}")


def draw(screen: Screen) -> str:
    """The screen as SVG."""
    pyte_screen = screen.pyte_screen
    used = 1 + max(
        y
        for y in range(pyte_screen.lines)
        if any(cell.data != " " for cell in pyte_screen.buffer[y].values())
    )
    width = COLUMNS * CELL_WIDTH + 2 * MARGIN
    height = used * CELL_HEIGHT + TITLE_HEIGHT + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
        f' width="{width:g}" height="{height:g}" role="img"'
        ' aria-label="A terminal in which alice, bob and a model talk in a room">',
        f'<rect width="100%" height="100%" rx="9" fill="{BACKGROUND}"/>',
        *(
            f'<circle cx="{MARGIN + 4 + 18 * place}" cy="17" r="5.5" fill="{colour}"/>'
            for place, colour in enumerate(("#e06c75", "#e0b060", "#98c379"))
        ),
        f'<text x="{width / 2:g}" y="22" text-anchor="middle" fill="{TITLE}"'
        f' font-family="{FONTS}" font-size="13">ssh alice@example.org</text>',
        f'<g font-family="{FONTS}" font-size="{FONT_SIZE}" xml:space="preserve">',
    ]
    for y in range(used):
        parts += _draw_row(pyte_screen.buffer[y], y)
    x, y = pyte_screen.cursor.x, pyte_screen.cursor.y
    parts.append(_rectangle(x, y, 1, FOREGROUND))
    return "\n".join((*parts, "</g>", "</svg>", ""))


def _draw_row(row: Any, y: int) -> Iterator[str]:
    """The runs of one style in a row: their backgrounds and their text."""
    x = 0
    cells = [row[column] for column in range(COLUMNS)]
    for style, run in groupby(cells, _style):
        text = "".join(cell.data for cell in run)
        size = wcswidth(text)
        if style.background != BACKGROUND:
            yield _rectangle(x, y, size, style.background)
        if text.strip():
            yield _text(x, y, text, style)
        x += size


def _style(cell: Any) -> Style:
    colour, background = (
        _colour(name, default) for name, default in ((cell.fg, FOREGROUND), (cell.bg, BACKGROUND))
    )
    if cell.reverse:
        colour, background = background, colour
    return Style(colour, background, cell.bold, cell.italics, cell.underscore)


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return COLOURS.get(name.replace("bright ", "bright"), f"#{name}")


def _rectangle(x: int, y: int, size: int, colour: str) -> str:
    return (
        f'<rect x="{MARGIN + x * CELL_WIDTH:.1f}" y="{TITLE_HEIGHT + y * CELL_HEIGHT:g}"'
        f' width="{size * CELL_WIDTH:.1f}" height="{CELL_HEIGHT:g}" fill="{colour}"/>'
    )


def _text(x: int, y: int, text: str, style: Style) -> str:
    """A run of text at its place; its length is given, so any monospace font fits."""
    left = len(text) - len(text.lstrip())
    text, x = text.strip(), x + left
    extra = "".join(
        value
        for value, wanted in (
            (' font-weight="bold"', style.bold),
            (' font-style="italic"', style.italic),
            (' text-decoration="underline"', style.underline),
        )
        if wanted
    )
    return (
        f'<text x="{MARGIN + x * CELL_WIDTH:.1f}" y="{TITLE_HEIGHT + y * CELL_HEIGHT + 13.5:g}"'
        f' textLength="{wcswidth(text) * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
        f' fill="{style.colour}"{extra}>{escape(text)}</text>'
    )


if __name__ == "__main__":
    (HERE / "session.svg").write_text(draw(record()), encoding="utf-8")
