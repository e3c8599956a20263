"""Image files and pictures, for tests."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

from PIL import Image

from sshwarma.terminal.picture import Picture, Pixels

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def encode_image(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """The file of an image."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def paint_flag(width: int = 40, height: int = 20) -> Image.Image:
    """Red above blue."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (0, height // 2, width, height))
    return image


def make_png_header(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG file whose header says that size, and whose pixels are `data`."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(data)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


def make_picture(image: Image.Image, rows: int = 12) -> Picture:
    """The picture of a small image, without scaling."""
    indexed = image.quantize(256)
    palette = bytes(indexed.getpalette() or ())
    small = Pixels(*image.size, image.tobytes())
    return Picture(*image.size, small, Pixels(*image.size, indexed.tobytes(), palette), rows)
