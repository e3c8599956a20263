"""Pictures of the images in tool results, for the terminals that ask for them.

The images of a row are read and decoded once for all terminals in the room, and drawn once for
each kind of terminal, in a thread.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Hashable, Iterator
from typing import Any, Final, TypeVar

from sshwarma.common.limits import (
    MAX_PICTURE_ROWS,
    MAX_RESULT_IMAGES,
    MAX_ROOM_PICTURE_ROWS,
)
from sshwarma.terminal.image_decoder import ImageDecoder, UnshowableImage, check_image_size
from sshwarma.terminal.picture import Picture
from sshwarma.terminal.render import DisplayOptions, render_block
from sshwarma.terminal.terminal import Terminal
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.attachment import AttachmentData
from sshwarma.world import attachments
from sshwarma.world.reader import PERSON
from sshwarma.world.row import Row
from sshwarma.world.world import World

T = TypeVar("T")

ROWS_BESIDE_PICTURE: Final = 6
"""Rows of a terminal that `/attachment` leaves for its line, the prompt and the status line."""


class PictureFeed:
    """Reads, decodes and draws images."""

    def __init__(self, world: World, spawn: Callable[..., asyncio.Task[Any]]) -> None:
        self._world = world
        self._spawn = spawn
        self._decoder = ImageDecoder()
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def close(self) -> None:
        """End the decoders that run, and start no other."""
        await self._decoder.close()

    async def draw_row(self, row: Row, look: DisplayOptions) -> Block:
        """Draw a tool result's images, rendered for a terminal; no lines if it has none."""
        key = (row.room_id, row.seq)
        pictures: Block = await self._share(key, lambda: self._read_pictures(row))
        if pictures.has_picture:
            await self._share((*key, look), lambda: asyncio.to_thread(render_block, pictures, look))
        return pictures

    async def draw_attachment(
        self, result: AttachmentData, drawn: Block, terminal: Terminal
    ) -> Block:
        """Return an attachment's view, below its picture if the terminal shows images."""
        if terminal.look.image_mode == "off" or not _is_image(result.kind):
            return drawn
        rows = min(MAX_PICTURE_ROWS, terminal.rows - ROWS_BESIDE_PICTURE)
        try:
            picture = await self._decoder.decode(base64.b64decode(result.data), rows)
        except UnshowableImage as reason:
            return block(line(("warn", str(reason))), *drawn.lines)
        return block(picture, *drawn.lines)

    async def _share(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the task with that key, started if none is running."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = self._spawn(make())
            task.add_done_callback(lambda done: self._running.pop(key, None))
        result: T = await asyncio.shield(task)
        return result

    async def _read_pictures(self, row: Row) -> Block:
        """Read the first images of a tool result, and decode them."""
        lines: list[Line | Picture] = []
        for number, kind, size in list(_list_images(row))[:MAX_RESULT_IMAGES]:
            is_only = len(row.meta["attachments"]) == 1
            call = PERSON.name_call("attachment", row=row.seq, number=None if is_only else number)
            try:
                check_image_size(size)
                picture = await self._read_picture(row, number)
            except UnshowableImage as reason:
                lines.append(line("  ", ("dim", f"{reason} "), ("verb", call)))
                continue
            if picture is not None:
                details = f"{kind}, {picture.width:,} x {picture.height:,} pixels: "
                lines += [picture, line("  ", ("dim", details), ("verb", call))]
        return block(*lines)

    async def _read_picture(self, row: Row, number: int) -> Picture | None:
        """Read and decode an image; None if it was deleted.

        Raises:
            UnshowableImage: if it cannot be shown.
        """
        call_id = str(row.meta.get("call_id", ""))
        attachment = await self._world.store.read(
            lambda conn: attachments.read_attachment(conn, call_id, number)
        )
        if attachment is None:
            return None
        return await self._decoder.decode(attachment.data, MAX_ROOM_PICTURE_ROWS)


def _list_images(row: Row) -> Iterator[tuple[int, str, int]]:
    """Yield number, media type and size of a row's attachments declared as images."""
    for number, (kind, size) in enumerate(row.meta.get("attachments", ()), 1):
        if _is_image(kind):
            yield number, kind, size


def _is_image(kind: str) -> bool:
    return kind.startswith("image/")
