"""Decoder of one image, in a process that a stranger's file may take over.

`image_decoder` starts it. It imports the decoders of Pillow and little else, then drops its rights:
it can open no file and start no process, and the kernel limits its memory and time. It ends with
the server, or after its time.

In: a line of JSON (see `main`) and the file on stdin. Out: a line of JSON on stdout, and after it
the palette, the pixels with that palette, and the pixels for half blocks, three bytes each.
"""

from __future__ import annotations

import json
import math
import signal
import struct
import sys
from io import BytesIO
from typing import Any, Final

# `TiffImagePlugin` reads EXIF. It is imported before the process can open no file.
from PIL import Image, ImageFile, TiffImagePlugin  # noqa: F401
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from sshwarma.common.confine import confine_process, extend_cpu_limit
from sshwarma.terminal.picture import BLOCK_PIXELS, SENT_CELL_PIXELS, fit_cells

_ORIENTATION_TAG: Final = 0x0112
_TRANSPOSES: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What turns an image upright, by its orientation in EXIF; from 5 on width and height change."""

_FIRST_TURNED_ORIENTATION: Final = 5
_BACKGROUND: Final = (255, 255, 255)
"""The colour behind transparent pixels: most drawings with a transparent ground are dark."""


class ImageRefused(Exception):
    """The image is not shown; the answer has the reason."""

    def __init__(self, failure: str, **details: int) -> None:
        super().__init__(failure)
        self.answer = {"failure": failure, **details}


def main() -> None:
    """Read the request and the image from stdin, and write the answer to stdout.

    The request has `seconds`, `memory` in bytes, `pixels` that an image may have, `sent` pixels of
    the large picture, and `columns` and `rows` of the terminal.
    """
    head, _, data = sys.stdin.buffer.read().partition(b"\n")
    request: dict[str, Any] = json.loads(head)
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])
    confine_process(request["memory"])
    extend_cpu_limit(request["seconds"])
    try:
        answer, body = _decode(data, request)
    except ImageRefused as refused:
        answer, body = refused.answer, b""
    except MemoryError:
        answer, body = {"failure": "memory"}, b""
    except Exception:  # noqa: BLE001 - decoders raise anything for damaged files
        answer, body = {"failure": "damaged"}, b""
    sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n" + body)
    sys.stdout.buffer.flush()


def _decode(data: bytes, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the header of the answer, and what follows it."""
    image = _open_image(data, request["pixels"])
    orientation = image.getexif().get(_ORIENTATION_TAG, 1)
    width, height = image.size
    if orientation in _TRANSPOSES and orientation >= _FIRST_TURNED_ORIENTATION:
        width, height = height, width
    columns, rows = request["columns"], request["rows"]
    scale = min(
        1.0,
        columns * SENT_CELL_PIXELS[0] / width,
        rows * SENT_CELL_PIXELS[1] / height,
        math.sqrt(request["sent"] / (width * height)),
    )
    size = max(1, math.floor(width * scale)), max(1, math.floor(height * scale))
    upright = _load_scaled(image, size, orientation)
    small_columns, small_rows = fit_cells((width, height), columns, rows, BLOCK_PIXELS)
    small = upright.resize((small_columns, 2 * small_rows), Image.Resampling.BOX)
    large = upright.quantize(256, Image.Quantize.MEDIANCUT)
    palette = bytes(large.getpalette() or ())
    answer = {
        "size": (width, height),
        "palette": len(palette),
        "large": large.size,
        "small": small.size,
    }
    return answer, palette + large.tobytes() + small.tobytes()


def _open_image(data: bytes, max_pixels: int) -> ImageFile.ImageFile:
    """Open an image by its first bytes, without decoding it.

    Raises:
        ImageRefused: if it is of another format, or has too many pixels.
    """
    image: ImageFile.ImageFile
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        image = PngImageFile(BytesIO(data))
    elif data.startswith(b"\xff\xd8\xff"):
        image = JpegImageFile(BytesIO(data))
    elif data.startswith((b"GIF87a", b"GIF89a")):
        image = GifImageFile(BytesIO(data))
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        _check_size(_read_webp_size(data), max_pixels)  # to open it takes memory for its pixels
        image = WebPImageFile(BytesIO(data))
    else:
        raise ImageRefused("format")
    _check_size(image.size, max_pixels)
    return image


def _check_size(size: tuple[int, int], max_pixels: int) -> None:
    width, height = size
    if width * height > max_pixels:
        raise ImageRefused("pixels", width=width, height=height)


def _read_webp_size(data: bytes) -> tuple[int, int]:
    """Return width and height as the first chunk of a WebP file has them."""
    match data[12:16]:
        case b"VP8X":
            width, height = data[24:27], data[27:30]
            return int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            wide, high = struct.unpack_from("<HH", data, 26)
            return wide & 0x3FFF, high & 0x3FFF


def _load_scaled(
    image: ImageFile.ImageFile, size: tuple[int, int], orientation: int
) -> Image.Image:
    """Decode an image or an animation's first; return it upright, opaque and scaled."""
    turn = _TRANSPOSES.get(orientation)
    if turn is not None and orientation >= _FIRST_TURNED_ORIENTATION:
        size = size[1], size[0]
    image.draft("RGB", size)  # a JPEG can be decoded at a fraction of its size
    plain: Image.Image = image
    if image.mode in ("I", "I;16", "I;16B", "I;16L", "F"):
        plain = image.convert("F").point(lambda value: value / 256).convert("L")
    elif image.mode in ("LA", "La", "PA", "RGBa") or "transparency" in image.info:
        plain = image.convert("RGBA")
    elif image.mode not in ("L", "RGB", "RGBA"):
        plain = image.convert("RGB")
    scaled = plain.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    opaque = Image.new("RGB", size, _BACKGROUND)
    opaque.paste(scaled, mask=scaled if scaled.mode == "RGBA" else None)
    return opaque if turn is None else opaque.transpose(turn)
