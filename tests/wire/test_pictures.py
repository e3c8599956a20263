"""Images of a real MCP server as pictures, with the stock ssh client."""

from __future__ import annotations

import base64
import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator

import pytest
from PIL import Image

from support.driver import Person, Screen, Server
from support.driver.covers import covers
from support.driver.fixtures import homes, untroubled
from support.driver.installed import PROGRAMS

PAINTER = shlex.join([sys.executable, str(PROGRAMS / "painter.py")])
HALF = "▀"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    """The server that the tests here share, with the painter."""
    with homes() as home:
        server = Server(home(), limits__lines_per_10_seconds=1_000_000)
        server.owner.does(f"mcp add painter -- {PAINTER}")
        yield server
        server.owner.hang_up()
        assert server.stop() == 0


@pytest.fixture
def world(running: Server) -> Iterator[Server]:
    with untroubled(running):
        yield running


@pytest.fixture
def studio(owner: Person, name: Callable[[str], str]) -> str:
    """A room with the painter's tools."""
    made = name("studio")
    owner.does(f"create {made}", "equip room painter:*")
    return made


def colours(screen: Screen, row: int, column: int) -> tuple[str, str]:
    """The foreground and background of a cell."""
    cell = screen.pyte_screen.buffer[row][column]
    return cell.fg, cell.bg


@covers("set", "run", "attachment")
def test_room_shows_half_blocks_in_the_colours_of_the_image(
    owner: Person, person: Callable[..., Person], studio: str
) -> None:
    guest = person("gast")
    screen = guest.sit(100, 40, room=studio, env={"COLORTERM": "truecolor"})
    screen.enter("/set images on")
    screen.wait_for("images is on.")
    screen.type("half a line")
    owner.does("run painter:flag")
    screen.wait_for(re.compile(r"image/png, 40 x 20 pixels: /attachment \d+$", re.MULTILINE))
    screen.wait_for_input(f"{studio}> half a line")
    rows = [at for at, row in enumerate(screen.lines) if row == "  " + HALF * 40]
    assert len(rows) == 10
    assert "✓ painter:flag" in screen.lines[rows[0] - 2] + screen.lines[rows[0] - 1]
    assert colours(screen, rows[0], 2) == colours(screen, rows[4], 31) == ("ff0000", "ff0000")
    assert colours(screen, rows[5], 2) == ("0000ff", "0000ff")
    assert colours(screen, rows[0], 41) == colours(screen, rows[9], 32) == ("00ff00", "00ff00")
    assert colours(screen, rows[0], 42) == ("default", "default")
    screen.press("ctrl-l")
    screen.type("!")
    screen.wait_for_input(f"{studio}> half a line!")
    assert screen.lines.count("  " + HALF * 40) == 10
    screen.resize(60, 16)
    screen.type("?")
    screen.wait_for_input(f"{studio}> half a line!?")
    assert screen.lines[-1].startswith(studio)  # the status line


@covers("attachment")
def test_attachment_shows_a_picture_as_high_as_the_terminal(owner: Person, studio: str) -> None:
    seq = owner.json("run painter:wheel")["seq"]
    screen = owner.sit(100, 24, room=studio)
    screen.enter("/set images blocks")
    screen.wait_for("images is blocks.")
    screen.enter(f"/attachment {seq}")
    screen.wait_for(f"ssh HOST attachment {seq} > FILE")
    screen.wait_for_prompt(studio)
    assert sum(row.count(HALF) == 36 for row in screen.lines) == 18
    screen.enter("/set images off")
    screen.wait_for("images is off.")
    screen.enter(f"/attachment {seq}")
    screen.wait_for_count(f"ssh HOST attachment {seq} > FILE", 2)
    owner.does("run painter:flag")
    screen.wait_for("✓ painter:flag")
    screen.enter("still here")
    screen.wait_for(f"{owner.name}: still here")
    assert "40 x 20 pixels" not in screen.text


@covers("set", "run")
def test_kitty_gets_its_protocol(owner: Person, person: Callable[..., Person], studio: str) -> None:
    guest = person("gast")
    screen = guest.sit(100, 20, room=studio, term="xterm-kitty")
    screen.enter("/set images on")
    screen.wait_for("images is on.")
    screen.wait_for_prompt(studio)
    screen.stream.images.clear()
    start = screen.clear_of()
    owner.does("run painter:wheel size=400")
    screen.wait_for("400 x 400 pixels")
    screen.wait_for_prompt(studio)
    raw = screen.raw[start:]
    assert HALF.encode() not in raw
    firsts = [(place, keys) for place, keys, _ in screen.stream.images if keys.startswith("a=T")]
    assert len(firsts) == 12
    assert all(re.fullmatch(r"a=T,f=100,c=24,r=1,C=1,z=-1,q=2,m=[01]", keys) for _, keys in firsts)
    assert all(column == 2 for (column, _), _ in firsts)
    data = base64.b64decode(screen.stream.images[0][2])
    with Image.open(io.BytesIO(data)) as strip:
        assert (strip.format, strip.size) == ("PNG", (240, 20))
    # The sequences are whole: without them nothing is left but text and colours.
    text = re.sub(rb"\x1b_G[a-zA-Z0-9=,-]*;[A-Za-z0-9+/=]*\x1b\\", b"", raw)
    assert b"\x1b_" not in text and b"\x1b\\" not in text
    assert screen.lines[-1].startswith(studio)


@covers("run")
def test_iterm_gets_its_protocol(owner: Person, person: Callable[..., Person], studio: str) -> None:
    guest = person("gast")
    screen = guest.sit(100, 20, room=studio, env={"LC_TERMINAL": "iTerm2"})
    screen.enter("/set images on")
    screen.wait_for("images is on.")
    owner.does("run painter:wheel size=400")
    screen.wait_for("400 x 400 pixels")
    screen.wait_for_prompt(studio)
    found = re.findall(
        rb"\x1b\]1337;File=inline=1;size=(\d+);width=24;height=1;preserveAspectRatio=0;"
        rb"doNotMoveCursor=1:([A-Za-z0-9+/=]+)\x07",
        screen.raw,
    )
    assert len(found) == 12
    assert all(len(base64.b64decode(data)) == int(size) for size, data in found)


@covers("run", "attachment")
@pytest.mark.parametrize("tool", ["broken", "drawing"])
def test_image_that_cannot_be_shown_is_a_sentence(
    owner: Person, person: Callable[..., Person], studio: str, tool: str
) -> None:
    screen = person("gast").sit(100, 30, room=studio)
    screen.enter("/set images on")
    screen.wait_for("images is on.")
    owner.does(f"run painter:{tool}")
    reason = "it is damaged or incomplete" if tool == "broken" else "it is not a PNG, JPEG, GIF"
    screen.wait_for(f"  This image cannot be shown: {reason}")
    screen.enter("/attachment")
    screen.wait_for_count(f"This image cannot be shown: {reason}", 2)
    screen.wait_for("> FILE")
    screen.wait_for_prompt(studio)


@covers("attachment")
def test_words_and_bytes_are_as_before_where_no_picture_is_drawn(
    owner: Person, person: Callable[..., Person], studio: str
) -> None:
    guest = person("gast")
    guest.does(f"join {studio}", "set images on")
    screen = guest.sit(100, 30, term="dumb", prompt=None)
    screen.wait_for("lobby>")
    screen.enter(f"/join {studio}")
    screen.wait_for(f"{studio}>")
    seq = owner.json("run painter:flag")["seq"]
    screen.wait_for(f"/attachment {seq}")
    screen.enter(f"/attachment {seq}")
    screen.wait_for("> FILE")
    assert HALF not in screen.text and b"\x1b" not in screen.raw
    assert guest.run(f"attachment {seq}").raw.startswith(b"\x89PNG")
    assert base64.b64decode(guest.json(f"attachment {seq}")["data"]).startswith(b"\x89PNG")


@covers("run")
def test_caller_of_run_sees_the_result_and_its_picture_once(owner: Person, studio: str) -> None:
    screen = owner.sit(100, 40, room=studio)
    screen.enter("/set images blocks")
    screen.wait_for("images is blocks.")
    screen.enter("/run painter:flag")
    screen.wait_for("40 x 20 pixels: /attachment")
    screen.enter("still here")
    screen.wait_for(f"{owner.name}: still here")
    assert screen.text.count("✓ painter:flag") == 1
    assert screen.text.count("[image: image/png") == 1
    assert screen.lines.count("  " + HALF * 40) == 10
    first = screen.lines.index("  " + HALF * 40)
    assert "[image: image/png" in "".join(screen.lines[first - 2 : first])
    screen.enter("/set images off")
    screen.wait_for("images is off.")
    screen.enter("/run painter:flag")
    screen.wait_for_count("✓ painter:flag", 2)
    screen.wait_for(re.compile(r"✓ painter:flag \d\.\ds · /attachment \d+"))
