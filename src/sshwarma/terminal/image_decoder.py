"""Images decoded to pictures, each in a process of its own (`image_worker`).

A file of strangers meets decoders in C, which have had holes. So the server itself imports none of
them, and of a process's answer it takes only numbers and pixels, whose count it checks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from asyncio.subprocess import DEVNULL, Process
from typing import Any, Final

import structlog

from sshwarma.common.limits import (
    IMAGE_TIMEOUT_SECONDS,
    MAX_IMAGE_BYTES,
    MAX_IMAGE_MEMORY_BYTES,
    MAX_IMAGE_PIXELS,
    MAX_PICTURE_COLUMNS,
    MAX_PICTURE_PIXELS,
    MAX_PICTURE_ROWS,
    MAX_RUNNING_IMAGES,
    MAX_WAITING_IMAGES,
)
from sshwarma.common.processes import (
    SOURCE_FOLDER,
    end_process,
    find_library_folder,
    kill_process,
    program_of,
    start_isolated,
)
from sshwarma.common.units import KIB, MIB
from sshwarma.terminal.picture import Picture, Pixels

log = structlog.get_logger(__name__)

MAX_ANSWER_BYTES: Final = 64 * KIB + MAX_PICTURE_PIXELS + 6 * MAX_PICTURE_COLUMNS * MAX_PICTURE_ROWS
"""Bytes of an answer: its header and palette, the large picture, and the small one."""

MAX_SIDE_PIXELS: Final = 1 << 32
"""Pixels of a side that a header of any format can state."""

_PROGRAM: Final = program_of("sshwarma.terminal.image_worker")


class UnshowableImage(Exception):
    """An image that cannot be shown; the message is a sentence that says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"This image cannot be shown: {reason}.")


def check_image_size(size: int) -> None:
    """Check the size of an image file, in bytes.

    Raises:
        UnshowableImage: if it is too large.
    """
    if size > MAX_IMAGE_BYTES:
        raise UnshowableImage(f"it has {size:,} bytes, over {MAX_IMAGE_BYTES:,}")


class ImageDecoder:
    """Decodes images, MAX_RUNNING_IMAGES at a time."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MAX_RUNNING_IMAGES)
        self._waiting = 0
        self._running: set[Process] = set()
        self._is_closed = False

    async def decode(self, data: bytes, rows: int) -> Picture:
        """Decode an image file to a picture of at most `rows` rows.

        Raises:
            UnshowableImage: if it is too large, damaged, or no PNG, JPEG, GIF or WebP file.
        """
        check_image_size(len(data))
        if self._waiting >= MAX_WAITING_IMAGES + MAX_RUNNING_IMAGES:
            raise UnshowableImage(f"{MAX_WAITING_IMAGES} other images are waiting")
        rows = max(1, min(rows, MAX_PICTURE_ROWS))
        request = {
            "seconds": IMAGE_TIMEOUT_SECONDS,
            "memory": MAX_IMAGE_MEMORY_BYTES,
            "pixels": MAX_IMAGE_PIXELS,
            "sent": MAX_PICTURE_PIXELS,
            "columns": MAX_PICTURE_COLUMNS,
            "rows": rows,
        }
        self._waiting += 1
        try:
            async with self._slots:
                if self._is_closed:
                    raise UnshowableImage("the server is shutting down")
                answer = await self._run(json.dumps(request).encode() + b"\n" + data)
        finally:
            self._waiting -= 1
        return _parse_answer(answer, rows)

    async def close(self) -> None:
        """End the decoders that are still running, and start no other."""
        self._is_closed = True
        for process in list(self._running):
            kill_process(process)
            await process.wait()

    async def _run(self, request: bytes) -> bytes:
        """Run a process; return its answer.

        Raises:
            UnshowableImage: if it cannot start, takes too long, or is stopped.
        """
        try:
            process = await start_isolated(
                "-S", "-c", _PROGRAM, SOURCE_FOLDER, find_library_folder("PIL"), stderr=DEVNULL
            )
        except ModuleNotFoundError:
            raise UnshowableImage("Pillow is not installed") from None
        except OSError as error:
            log.error("cannot start an image decoder", error=str(error))
            raise UnshowableImage("its decoder cannot start") from None
        self._running.add(process)
        try:
            async with asyncio.timeout(IMAGE_TIMEOUT_SECONDS):
                answer = await _exchange(process, request)
                status = await process.wait()
        except TimeoutError:
            raise UnshowableImage(
                f"its decoding timed out after {IMAGE_TIMEOUT_SECONDS:g} s"
            ) from None
        finally:
            await asyncio.shield(end_process(process, process.stdout))
            self._running.discard(process)
        if status in (-signal.SIGALRM, -signal.SIGXCPU):
            raise UnshowableImage(f"its decoding timed out after {IMAGE_TIMEOUT_SECONDS:g} s")
        if status:
            log.warning("an image decoder failed", status=status)
            raise UnshowableImage("its decoder failed")
        return answer


async def _exchange(process: Process, request: bytes) -> bytes:
    """Send the request, return the answer; read no more than MAX_ANSWER_BYTES."""
    assert process.stdin and process.stdout  # noqa: S101 - for mypy
    with contextlib.suppress(ConnectionError):
        process.stdin.write(request)
        await process.stdin.drain()
        process.stdin.close()
    answer = bytearray()
    while chunk := await process.stdout.read(64 * KIB):
        answer += chunk
        if len(answer) > MAX_ANSWER_BYTES:
            raise UnshowableImage("its decoder failed")
    return bytes(answer)


def _parse_answer(answer: bytes, rows: int) -> Picture:
    """Parse the answer of a process, which the image may have taken over.

    Raises:
        UnshowableImage: with the reason that it gives, or if the answer is malformed.
    """
    head, _, body = answer.partition(b"\n")
    try:
        header = json.loads(head)
        if "failure" in header:
            raise UnshowableImage(_describe_failure(header))
        return _read_picture(header, body, rows)
    except (ValueError, TypeError, KeyError, RecursionError):
        log.warning("an image decoder gave a malformed answer")
        raise UnshowableImage("its decoder failed") from None


def _read_picture(header: dict[str, Any], body: bytes, rows: int) -> Picture:
    """Make a picture from an answer: its palette, the large pixels, the small pixels.

    Raises:
        ValueError, TypeError, KeyError: if it is malformed.
    """
    width, height = _read_size(header["large"])
    start = int(header["palette"])
    end = start + width * height
    large = Pixels(width, height, body[start:end], body[:start])
    small = Pixels(*_read_size(header["small"]), body[end:])
    return Picture(*_read_size(header["size"]), small, large, rows)


def _read_size(value: Any) -> tuple[int, int]:
    width, height = value
    for side in (width, height):
        if not isinstance(side, int) or not 0 < side < MAX_SIDE_PIXELS:
            raise ValueError("A malformed size.")
    return width, height


def _describe_failure(header: dict[str, Any]) -> str:
    match header["failure"]:
        case "format":
            return "it is not a PNG, JPEG, GIF or WebP file"
        case "pixels":
            width, height = _read_size((header["width"], header["height"]))
            return f"it has {width:,} x {height:,} pixels, over {MAX_IMAGE_PIXELS:,}"
        case "memory":
            return f"its decoding took over {MAX_IMAGE_MEMORY_BYTES // MIB} MiB of memory"
    return "it is damaged or incomplete"
