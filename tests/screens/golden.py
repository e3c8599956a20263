"""Golden screens: what a terminal shows, as text that people can read and diff."""

from __future__ import annotations

import re
import time
from pathlib import Path

from support.driver import Screen

FOLDER = Path(__file__).parent / "golden"
QUIET_SECONDS = 0.4
SECONDS = 30.0


def picture(screen: Screen) -> str:
    """The visible screen with edges, `█` at the cursor, and times made equal."""
    columns, rows = screen.pyte_screen.columns, screen.pyte_screen.lines
    shown = screen.lines
    at, row = screen.cursor
    framed = []
    for number in range(rows):
        text = shown[number] if number < len(shown) else ""
        if number == row:
            cells = screen.pyte_screen.buffer[number]
            before = "".join(cells[x].data for x in range(at))
            under = cells[at].data or " "
            text = f"{before}█{(under + ''.join(cells[x].data for x in range(at + 1, columns)))}"
            text = text.rstrip()
        framed.append(_timeless(text))
    while framed and not framed[-1]:
        framed.pop()
    return f"{columns}x{rows}\n" + "".join(f"|{text}\n" for text in framed)


def check(screen: Screen, name: str, update: bool) -> None:
    """Wait until the screen is as the golden file has it; or write that file."""
    file = FOLDER / f"{name}.txt"
    if update:
        _settle(screen)
        FOLDER.mkdir(exist_ok=True)
        file.write_text(picture(screen), encoding="utf-8")
        return
    assert file.exists(), f"there is no {file}: pytest --update-golden writes it"
    wanted = file.read_text(encoding="utf-8")
    try:
        screen.wait_for(lambda: picture(screen) == wanted, SECONDS)
    except AssertionError:
        assert picture(screen) == wanted
        raise


def _settle(screen: Screen) -> None:
    """Wait until nothing has come for a while; only for writing golden files.

    People read those.
    """
    deadline = time.monotonic() + SECONDS
    seen, since = -1, time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS and time.monotonic() < deadline:
        screen._read(0.05)
        if len(screen.raw) != seen:
            seen, since = len(screen.raw), time.monotonic()


def _timeless(text: str) -> str:
    return re.sub(r"\b\d\.\ds\b", "0.0s", re.sub(r"\b\d\d:\d\d\b", "hh:mm", text))
