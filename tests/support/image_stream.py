"""pyte's stream with kitty's image protocol: APC sequences, which pyte prints."""

from __future__ import annotations

import re
from typing import Any

import pyte

_APC = re.compile(rb"\x1b_(.*?)\x1b\\", re.DOTALL)
_APC_BEGIN = re.compile(rb"\x1b(?:_|$)")


class ImageStream:
    """Feeds a screen; keeps cursor place, keys and payload of each sequence."""

    def __init__(self, screen: Any) -> None:
        self._screen = screen
        self._stream = pyte.ByteStream(screen)
        self.images: list[tuple[tuple[int, int], str, bytes]] = []
        self._rest = b""

    def feed(self, data: bytes) -> None:
        data = self._rest + data
        self._rest = b""
        while found := _APC.search(data):
            self._stream.feed(data[: found.start()])
            keys, _, payload = found[1].removeprefix(b"G").partition(b";")
            cursor = self._screen.cursor
            self.images.append(((cursor.x, cursor.y), keys.decode(), payload))
            data = data[found.end() :]
        if begun := _APC_BEGIN.search(data):
            data, self._rest = data[: begun.start()], data[begun.start() :]
        self._stream.feed(data)
