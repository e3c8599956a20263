"""The last words of a server: what it wrote on stderr and what we have to say about it."""

from __future__ import annotations

from collections import deque
from typing import Final

LINES: Final = 500
LINE_CHARACTERS: Final = 1_000


class Ring:
    """Keeps the last LINES lines, each cut to LINE_CHARACTERS."""

    def __init__(self) -> None:
        self._said = ""
        self._lines: deque[str] = deque(maxlen=LINES)
        self._part = b""

    def __len__(self) -> int:
        return len(self._lines)

    def begin(self) -> None:
        """A server begins: what another one said before is not its last word."""
        self._said, self._part = "", b""

    @property
    def said(self) -> str:
        """The last line that the server itself wrote since it began; empty if there is none."""
        return self._part.decode("utf-8", "replace").strip() or self._said

    def feed(self, data: bytes) -> None:
        """Bytes of the server's as they come, in lines of any length."""
        *whole, part = (self._part + data).split(b"\n")
        for line in whole[-LINES:]:
            text = line.decode("utf-8", "replace")
            self.note(text)
            self._said = text.strip()[:LINE_CHARACTERS] or self._said
        self._part = part[-LINE_CHARACTERS:]

    def note(self, text: str) -> None:
        """A line of text."""
        self._lines.append(text.rstrip("\r")[:LINE_CHARACTERS])

    def last(self, count: int = LINES) -> list[str]:
        """The last lines, oldest first."""
        lines = [*self._lines, *([self._part.decode("utf-8", "replace")] if self._part else [])]
        return lines[-count:]
