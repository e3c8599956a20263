"""Pictures: the pixels of an image, and the rows of a terminal that show them.

Each row is complete in itself: half blocks in two colours, or a strip of the image that is one row
high, in the protocol of kitty or of iTerm. So a picture is written, scrolled and drawn again in
part like text, and the cursor never leaves its row.

Pixels come from a process that has read a file of strangers. Nothing else of the file gets here,
and `Pixels` checks their number.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from sshwarma.common.limits import MAX_PICTURE_COLUMNS

ImageMode: TypeAlias = Literal["off", "kitty", "iterm", "blocks", "blocks256"]
"""How a terminal shows pictures: in a protocol for images, or as half blocks with 24-bit colours or
with the 256 of xterm."""

BLOCK_PIXELS: Final = (1, 2)
"""Width and height in pixels of a cell of half blocks."""

CELL_PIXELS: Final = (8, 16)
"""Width and height in pixels that an image's own size assumes for a cell; cells are about 1:2."""

SENT_CELL_PIXELS: Final = (10, 20)
"""Width and height in pixels that are sent at most for a cell in a protocol for images."""

PICTURE_INDENT: Final = "  "

DELETE_KITTY_IMAGES: Final = b"\x1b_Ga=d,d=A,q=2\x1b\\"
"""Removes all images on the screen of kitty, which erasing text leaves there."""

_KITTY_CHUNK_CHARACTERS: Final = 4096
_PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_HALF_BLOCK: Final = "▀"
_RESET: Final = "\x1b[0m"
_XTERM_LEVELS: Final = (0, 95, 135, 175, 215, 255)
"""Levels of red, green and blue in the colours 16 to 231 of xterm."""

Colour: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Pixels:
    """Pixels by rows from the top: each a palette index, or a colour if no palette.

    Attributes:
        palette: up to 256 colours of three bytes.
        data: a byte a pixel with a palette, else three.

    Raises:
        ValueError: if the numbers of bytes are wrong, or a colour is not in the palette.
    """

    width: int
    height: int
    data: bytes
    palette: bytes = b""

    def __post_init__(self) -> None:
        size = self.width * self.height * (1 if self.palette else 3)
        if self.width < 1 or self.height < 1 or len(self.data) != size:
            raise ValueError(f"{self.width} x {self.height} pixels in {len(self.data)} bytes.")
        if len(self.palette) % 3 or len(self.palette) > 3 * 256:
            raise ValueError(f"A palette of {len(self.palette)} bytes.")
        if self.palette and max(self.data) >= len(self.palette) // 3:
            raise ValueError(f"Colour {max(self.data)} is not in the palette.")


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """An image in a block, at most `rows` high; words where it cannot be shown.

    Attributes:
        width: pixels of the image itself.
        height: pixels of the image itself.
        small: pixels for half blocks.
        large: pixels with a palette, for a protocol for images.
    """

    width: int
    height: int
    small: Pixels
    large: Pixels
    rows: int

    def plain(self) -> str:
        """Return the words for the picture."""
        return f"{PICTURE_INDENT}[image of {self.width} x {self.height} pixels]"


def fit_cells(
    size: tuple[int, int], columns: int, rows: int, cell: tuple[int, int]
) -> tuple[int, int]:
    """Return the columns and rows that an image takes, its proportions kept.

    It is scaled down if it is too large, and never up by more than the rounding of its rows.

    Args:
        size: width and height of the image, in pixels.
        columns: columns that there are.
        rows: rows that there are.
        cell: width and height of a cell, in pixels.
    """
    (width, height), (cell_width, cell_height) = size, cell
    scale = min(1.0, columns * cell_width / width, rows * cell_height / height)
    fitted_rows = max(1, round(height * scale / cell_height))
    # From the rows, which are the coarser measure.
    fitted_columns = round(fitted_rows * cell_height * width / (height * cell_width))
    return min(columns, max(1, fitted_columns)), fitted_rows


def draw_picture_rows(picture: Picture, mode: ImageMode, columns: int) -> Iterator[str]:
    """Yield rows of a picture, indented, of at most `columns`, without line breaks."""
    room = min(MAX_PICTURE_COLUMNS, max(1, columns - len(PICTURE_INDENT)))
    size = picture.width, picture.height
    if mode in ("blocks", "blocks256"):
        width, rows = fit_cells(size, room, picture.rows, BLOCK_PIXELS)
        cells = _scale_down(picture.small, width, 2 * rows)
        for row in _draw_block_rows(cells, has_24_bits=mode == "blocks"):
            yield PICTURE_INDENT + row
        return
    width, rows = fit_cells(size, room, picture.rows, CELL_PIXELS)
    for png in _cut_strips(picture.large, width, rows):
        yield PICTURE_INDENT + (
            _draw_kitty_row(png, width) if mode == "kitty" else _draw_iterm_row(png, width)
        )


def encode_picture(picture: Picture) -> bytes:
    """Return a picture as a PNG file, with the pixels for a protocol for images."""
    pixels = picture.large
    rows = [
        pixels.data[start : start + pixels.width]
        for start in range(0, len(pixels.data), pixels.width)
    ]
    return _encode_png(rows, pixels.palette)


# Half blocks


def _scale_down(pixels: Pixels, width: int, height: int) -> list[list[Colour]]:
    """Return the rows of pixels at another size: the mean of each area."""
    data, stride = pixels.data, 3 * pixels.width
    if (width, height) == (pixels.width, pixels.height):
        flat = list(zip(data[::3], data[1::3], data[2::3], strict=True))
        return [flat[start : start + width] for start in range(0, len(flat), width)]
    rows: list[list[Colour]] = []
    for top, bottom in _bounds(pixels.height, height):
        row: list[Colour] = []
        for left, right in _bounds(pixels.width, width):
            areas = [
                data[y * stride + 3 * left : y * stride + 3 * right] for y in range(top, bottom)
            ]
            count = (right - left) * (bottom - top)
            red, green, blue = (
                sum(sum(area[channel::3]) for area in areas) // count for channel in range(3)
            )
            row.append((red, green, blue))
        rows.append(row)
    return rows


def _bounds(size: int, parts: int) -> Iterator[tuple[int, int]]:
    """Yield where each of `parts` begins and ends in `size`; none is empty."""
    for part in range(parts):
        start = part * size // parts
        yield start, max(start + 1, (part + 1) * size // parts)


def _draw_block_rows(rows: list[list[Colour]], *, has_24_bits: bool) -> Iterator[str]:
    """Yield rows of half blocks: upper pixel as foreground, lower as background."""
    for upper, lower in zip(rows[::2], rows[1::2], strict=True):
        parts: list[str] = []
        before: tuple[str, str] = ("", "")
        for colours in zip(upper, lower, strict=True):
            codes = [
                f"2;{red};{green};{blue}" if has_24_bits else f"5;{_xterm_colour(red, green, blue)}"
                for red, green, blue in colours
            ]
            now = (f"38;{codes[0]}", f"48;{codes[1]}")
            changed = [new for new, old in zip(now, before, strict=True) if new != old]
            if changed:
                parts.append(f"\x1b[{';'.join(changed)}m")
            parts.append(_HALF_BLOCK)
            before = now
        yield "".join(parts) + _RESET


@lru_cache(maxsize=4096)
def _xterm_colour(red: int, green: int, blue: int) -> int:
    """Return the nearest of xterm's 240 colours that no theme changes."""
    wanted = (red, green, blue)
    # Between 0 and 95 the middle is 47.5; from 95 on the levels are 40 apart.
    cube = [int(value >= 48) if value < 115 else (value - 35) // 40 for value in wanted]
    grey = min(23, max(0, (sum(wanted) // 3 - 3) // 10))
    cube_distance = sum(
        (_XTERM_LEVELS[at] - value) ** 2 for at, value in zip(cube, wanted, strict=True)
    )
    grey_distance = sum((8 + 10 * grey - value) ** 2 for value in wanted)
    if grey_distance < cube_distance:
        return 232 + grey
    return 16 + 36 * cube[0] + 6 * cube[1] + cube[2]


# Protocols for images


def _cut_strips(pixels: Pixels, columns: int, rows: int) -> Iterator[bytes]:
    """Yield a PNG file for each row, with no more pixels than its cells can show."""
    step = max(1, pixels.width // (columns * SENT_CELL_PIXELS[0]))
    for top, bottom in _bounds(pixels.height, rows):
        yield _encode_png(
            [
                pixels.data[y * pixels.width : (y + 1) * pixels.width : step]
                for y in range(top, bottom, step)
            ],
            pixels.palette,
        )


def _encode_png(rows: list[bytes], palette: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    return b"".join(
        (
            _PNG_SIGNATURE,
            _png_chunk(b"IHDR", header),
            _png_chunk(b"PLTE", palette),
            _png_chunk(b"IDAT", body),
            _png_chunk(b"IEND", b""),
        )
    )


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _draw_kitty_row(png: bytes, columns: int) -> str:
    """Draw a PNG file over `columns` cells of one row.

    The cursor stays (C=1), text is drawn above the image (z=-1), and kitty answers nothing (q=2).
    """
    text = base64.b64encode(png).decode()
    chunks = [
        text[at : at + _KITTY_CHUNK_CHARACTERS]
        for at in range(0, len(text), _KITTY_CHUNK_CHARACTERS)
    ]
    keys = f"a=T,f=100,c={columns},r=1,C=1,z=-1,q=2,"
    last = len(chunks) - 1
    return "".join(
        f"\x1b_G{'' if number else keys}m={int(number < last)};{chunk}\x1b\\"
        for number, chunk in enumerate(chunks)
    )


def _draw_iterm_row(png: bytes, columns: int) -> str:
    """Draw a PNG file over `columns` cells of one row."""
    keys = (
        f"inline=1;size={len(png)};width={columns};height=1;preserveAspectRatio=0;doNotMoveCursor=1"
    )
    return f"\x1b]1337;File={keys}:{base64.b64encode(png).decode()}\x07"
