"""Pictures in rows of a terminal: half blocks, kitty's protocol, iTerm's."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from functools import cache

import pytest
from PIL import Image

from sshwarma.common.limits import MAX_PICTURE_COLUMNS, MAX_PICTURE_PIXELS
from sshwarma.terminal.output import MAX_QUEUED_PICTURES, MAX_WRITE_BYTES
from sshwarma.terminal.picture import (
    BLOCK_PIXELS,
    CELL_PIXELS,
    DELETE_KITTY_IMAGES,
    ImageMode,
    Picture,
    Pixels,
    draw_picture_rows,
    fit_cells,
)
from sshwarma.terminal.printed_blocks import MAX_RECENT_PICTURES
from sshwarma.terminal.render import DisplayOptions, render_block, render_plain
from sshwarma.terminal.text import block
from support.images import BLUE, RED, make_picture, paint_flag
from support.terminal_person import Person

Sit = Callable[..., Person]

KITTY = re.compile(r"^  ((?:\x1b_G[^;]*;[A-Za-z0-9+/=]*\x1b\\)+)$")
ITERM = re.compile(r"^  \x1b\]1337;File=([^:]*):([A-Za-z0-9+/=]*)\x07$")


def draw(picture: Picture, mode: ImageMode, columns: int = 80) -> list[str]:
    return list(draw_picture_rows(picture, mode, columns))


def noise(width: int, height: int) -> Image.Image:
    return Image.merge("RGB", [Image.effect_noise((width, height), 90) for _ in range(3)])


@cache
def noise_picture(width: int, height: int) -> Picture:
    return make_picture(noise(width, height))


def read_kitty_row(row: str) -> tuple[list[str], Image.Image]:
    """The keys of each chunk, and the image that they carry."""
    assert KITTY.match(row)
    chunks = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", row)
    data = base64.b64decode("".join(payload for _, payload in chunks))
    return [keys for keys, _ in chunks], Image.open(io.BytesIO(data)).convert("RGB")


@pytest.mark.parametrize(
    ("size", "columns", "rows", "cell", "cells"),
    [
        ((40, 20), 80, 12, BLOCK_PIXELS, (40, 10)),  # its own size
        ((1000, 1000), 80, 12, BLOCK_PIXELS, (24, 12)),  # a square is twice as wide in cells
        ((4000, 100), 80, 12, BLOCK_PIXELS, (80, 1)),
        ((100, 4000), 80, 12, BLOCK_PIXELS, (1, 12)),
        ((1, 1), 80, 12, BLOCK_PIXELS, (2, 1)),
        ((1600, 800), 80, 12, CELL_PIXELS, (48, 12)),
        ((1600, 800), 20, 12, CELL_PIXELS, (20, 5)),
        ((40, 20), 80, 12, CELL_PIXELS, (4, 1)),
    ],
)
def test_image_fits_in_cells_in_proportion(
    size: tuple[int, int],
    columns: int,
    rows: int,
    cell: tuple[int, int],
    cells: tuple[int, int],
) -> None:
    assert fit_cells(size, columns, rows, cell) == cells


def test_half_blocks_have_the_upper_pixel_before_the_lower() -> None:
    image = Image.new("RGB", (2, 2), RED)
    image.putpixel((0, 1), BLUE)
    assert draw(make_picture(image), "blocks") == [
        "  \x1b[38;2;255;0;0;48;2;0;0;255m▀\x1b[48;2;255;0;0m▀\x1b[0m"
    ]


def test_half_blocks_of_256_colours_are_the_nearest() -> None:
    image = Image.new("RGB", (2, 2), (250, 2, 3))
    image.putpixel((0, 1), (128, 128, 128))
    assert draw(make_picture(image), "blocks256") == [
        "  \x1b[38;5;196;48;5;244m▀\x1b[48;5;196m▀\x1b[0m"
    ]


def test_half_blocks_of_a_narrow_terminal_are_means_of_areas() -> None:
    image = Image.new("RGB", (36, 4), (0, 0, 0))
    image.paste((200, 100, 50), (0, 0, 36, 1))
    (row,) = draw(make_picture(image), "blocks", 20)
    assert row == "  \x1b[38;2;100;50;25;48;2;0;0;0m" + "▀" * 18 + "\x1b[0m"


def test_kitty_row_is_a_png_file_over_the_cells_of_one_row() -> None:
    rows = draw(make_picture(paint_flag(64, 64)), "kitty")
    assert len(rows) == 4
    for number, row in enumerate(rows):
        (keys,), image = read_kitty_row(row)
        assert keys == "a=T,f=100,c=8,r=1,C=1,z=-1,q=2,m=0"
        assert image.size == (64, 16)
        assert image.getcolors() == [(64 * 16, RED if number < 2 else BLUE)]


def test_large_kitty_row_is_sent_in_chunks() -> None:
    (row, *_) = draw(make_picture(noise(320, 240)), "kitty")
    keys, image = read_kitty_row(row)
    assert keys == ["a=T,f=100,c=32,r=1,C=1,z=-1,q=2,m=1", "m=1", "m=0"]
    assert image.size == (320, 20)
    assert all(len(chunk) <= 4096 for chunk in re.findall(r";([^\x1b]*)\x1b", row))


def test_iterm_row_names_its_cells_and_bytes() -> None:
    rows = draw(make_picture(paint_flag(64, 64)), "iterm")
    assert len(rows) == 4
    for number, row in enumerate(rows):
        found = ITERM.match(row)
        assert found
        data = base64.b64decode(found[2])
        assert found[1] == (
            f"inline=1;size={len(data)};width=8;height=1;preserveAspectRatio=0;doNotMoveCursor=1"
        )
        image = Image.open(io.BytesIO(data)).convert("RGB")
        assert image.size == (64, 16)
        assert image.getcolors() == [(64 * 16, RED if number < 2 else BLUE)]


@pytest.mark.parametrize("mode", ["kitty", "iterm", "blocks", "blocks256"])
@pytest.mark.parametrize("columns", [20, 33, 80, 500])
def test_picture_has_bounded_rows_and_bytes(mode: ImageMode, columns: int) -> None:
    for size in ((400, 300), (300, 400), (1000, 20), (3, 4000), (1, 1)):
        rows = draw(noise_picture(*size), mode, columns)
        assert 1 <= len(rows) <= 12
        assert not any("\n" in row or "\r" in row for row in rows)
        assert sum(map(len, rows)) < 2 * MAX_PICTURE_PIXELS
        if mode in ("blocks", "blocks256"):
            assert all(1 <= row.count("▀") <= min(columns - 2, MAX_PICTURE_COLUMNS) for row in rows)


@pytest.mark.parametrize(
    ("width", "height", "data", "palette"),
    [(2, 2, b"x" * 11, b""), (2, 2, b"xxx", b"abc"), (0, 2, b"", b""), (1, 1, b"x", b"ab"),
     (1, 1, b"x", b"abc" * 257), (-1, -1, b"xxx", b""), (1, 1, b"\1", b"abc")],
)  # fmt: skip
def test_wrong_number_of_bytes_makes_no_pixels(
    width: int, height: int, data: bytes, palette: bytes
) -> None:
    with pytest.raises(ValueError, match=r"pixels in|palette"):
        Pixels(width, height, data, palette)


@pytest.mark.parametrize(
    "look",
    [
        DisplayOptions(80),
        DisplayOptions(80, plain=True, images="kitty"),
        DisplayOptions(80, theme="mono", images="blocks"),
        DisplayOptions(80, utf8=False, images="iterm"),
    ],
)
def test_terminal_without_pictures_gets_words(look: DisplayOptions) -> None:
    drawn = render_block(block(make_picture(paint_flag()), "below"), look).decode()
    assert re.sub(r"\x1b\[\d*m", "", drawn) == "  [image of 40 x 20 pixels]\r\nbelow\r\n"


def test_pipe_gets_words_for_a_picture() -> None:
    drawn = block(make_picture(paint_flag()), "below")
    assert render_plain(drawn) == drawn.plain() == "  [image of 40 x 20 pixels]\nbelow"


def test_picture_is_drawn_once_for_equal_terminals() -> None:
    drawn = block(make_picture(paint_flag()))
    first = render_block(drawn, DisplayOptions(80, images="kitty"))
    assert render_block(drawn, DisplayOptions(80, images="kitty")) is first
    assert render_block(drawn, DisplayOptions(80, images="blocks")) != first


# On a screen


def test_prompt_stays_below_a_picture_that_scrolls(sit: Sit) -> None:
    alice = sit(rows=10, images="blocks")
    alice.type("half a li")
    for number in range(7):
        alice.hear(f"line {number}")
    alice.terminal.print(block(make_picture(paint_flag(8, 8)), "caption"))
    alice.wait()
    assert alice.rows() == ["line 3", "line 4", "line 5", "line 6", *["  ▀▀▀▀▀▀▀▀"] * 4,
                            "caption", "> half a li"]  # fmt: skip
    upper = alice.pyte_screen.buffer[alice.rows().index("  ▀▀▀▀▀▀▀▀")][2]
    assert (upper.fg, upper.bg) == ("ff0000", "ff0000")
    alice.type("ne")
    assert alice.rows()[alice.cursor()[1]] == "> half a line"


def test_no_write_ends_inside_an_image(sit: Sit) -> None:
    alice = sit(columns=100, rows=30, images="kitty")
    alice.written.clear()
    alice.terminal.print(block(make_picture(noise(320, 240))))
    alice.wait()
    assert len(alice.written) > 2
    for data in alice.written:
        assert data.count(b"\x1b_G") == data.count(b"\x1b\\")
        assert len(data) < 2 * MAX_WRITE_BYTES
    assert [row for (_, row), _, _ in alice.stream.images] != []
    assert alice.rows()[12] == ">"


def test_ctrl_l_removes_the_images_of_kitty_and_draws_them_again(sit: Sit) -> None:
    alice = sit(columns=60, rows=20, images="kitty")
    alice.terminal.print(block(make_picture(paint_flag(64, 64)), "caption"))
    alice.wait()
    places = [place for place, _, _ in alice.stream.images]
    assert places == [(2, 0), (2, 1), (2, 2), (2, 3)]
    alice.stream.images.clear()
    alice.written.clear()
    alice.type("\x0c")
    alice.wait()
    assert DELETE_KITTY_IMAGES in alice.bytes
    (_, keys, _), *again = alice.stream.images
    assert keys == "a=d,d=A,q=2"
    assert [place for place, _, _ in again] == places
    assert alice.rows()[4:6] == ["caption", ">"]


def test_images_of_kitty_are_removed_when_they_are_off(sit: Sit) -> None:
    alice = sit(images="kitty")
    alice.terminal.print(block(make_picture(paint_flag(64, 64)), "caption"))
    alice.wait()
    alice.written.clear()
    alice.terminal.configure(images="off")
    alice.wait()
    assert alice.bytes.startswith(DELETE_KITTY_IMAGES)
    assert "  [image of 64 x 64 pixels]" in alice.rows()


def test_resize_keeps_the_prompt_below_a_picture(sit: Sit) -> None:
    alice = sit(columns=40, rows=12, images="blocks")
    alice.terminal.print(block(make_picture(paint_flag(16, 8)), "caption"))
    alice.type("draft")
    alice.resize(24, 9)
    alice.wait()
    assert alice.rows()[-9:].count("> draft") == 1
    assert alice.rows()[alice.cursor()[1]] == "> draft"
    assert "caption" in alice.rows()


def test_paused_terminal_queues_few_pictures(sit: Sit) -> None:
    alice = sit(columns=40, rows=10, images="blocks")
    alice.terminal.pause()
    for _ in range(MAX_QUEUED_PICTURES + 3):
        alice.terminal.print(block(make_picture(paint_flag(8, 2))))
    alice.terminal.resume()
    alice.wait()
    shown = alice.pyte_screen.everything()
    assert shown.count("  ▀▀▀▀▀▀▀▀") == MAX_QUEUED_PICTURES
    assert shown.count("  [image of 8 x 2 pixels]") == 3


def test_few_pictures_are_kept_to_draw_them_again(sit: Sit) -> None:
    alice = sit(columns=40, rows=40, images="blocks")
    for _ in range(MAX_RECENT_PICTURES + 3):
        alice.terminal.print(block(make_picture(paint_flag(8, 2))))
        alice.wait()
    assert alice.rows().count("  ▀▀▀▀▀▀▀▀") == MAX_RECENT_PICTURES + 3
    alice.type("\x0c")
    alice.wait()
    assert alice.rows().count("  ▀▀▀▀▀▀▀▀") == MAX_RECENT_PICTURES
    assert alice.rows().count("  [image of 8 x 2 pixels]") == 3
