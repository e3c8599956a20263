"""Pictures of files and of results as HTML, decoded in another process."""

from __future__ import annotations

import asyncio
from typing import Final

from cachetools import LRUCache
from markupsafe import Markup

from sshwarma.common.limits import MAX_PICTURE_ROWS
from sshwarma.terminal.image_decoder import ImageDecoder
from sshwarma.terminal.text import block
from sshwarma.web.console.frames import render_block

MAX_KEPT_PICTURES: Final = 16
"""Pictures whose HTML is kept: a page is drawn again with each change in its room."""


class PictureDrawings:
    """Draws pictures, and keeps the last."""

    def __init__(self) -> None:
        self._decoder = ImageDecoder()
        self._drawn: LRUCache[str, Markup] = LRUCache(MAX_KEPT_PICTURES)

    def find(self, key: str) -> Markup | None:
        """Return a picture that was drawn; None if it is not kept."""
        return self._drawn.get(key)

    async def draw(self, key: str, data: bytes) -> Markup:
        """Return a picture as HTML, and keep it by a key.

        Raises:
            UnshowableImage: if it is no image, or too large.
        """
        picture = await self._decoder.decode(data, MAX_PICTURE_ROWS)
        drawn = self._drawn[key] = await asyncio.to_thread(render_block, block(picture))
        return drawn

    async def close(self) -> None:
        """End the decoders that run."""
        await self._decoder.close()
