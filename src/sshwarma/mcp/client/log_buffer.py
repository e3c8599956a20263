"""Log buffer of a server: its stderr and our notes about it."""

from __future__ import annotations

from collections import deque

from sshwarma.common.limits import MAX_SERVER_LOG_LINE_CHARACTERS, MAX_SERVER_LOG_LINES


class LogBuffer:
    """Keeps the last lines, each cut to MAX_SERVER_LOG_LINE_CHARACTERS."""

    def __init__(self) -> None:
        self._last_line = ""
        self._lines: deque[str] = deque(maxlen=MAX_SERVER_LOG_LINES)
        self._partial_line = b""

    def __len__(self) -> int:
        return len(self._lines)

    def start_section(self) -> None:
        """Start a new process: forget the previous one's last line."""
        self._last_line, self._partial_line = "", b""

    @property
    def last_line(self) -> str:
        """The server's last line on stderr since `start_section`, or an empty string."""
        return self._partial_line.decode("utf-8", "replace").strip() or self._last_line

    def feed(self, data: bytes) -> None:
        """Add bytes of the server's stderr, with lines of any length."""
        *lines, tail = (self._partial_line + data).split(b"\n")
        for line in lines[-MAX_SERVER_LOG_LINES:]:
            text = line.decode("utf-8", "replace")
            self.append(text)
            self._last_line = text.strip()[:MAX_SERVER_LOG_LINE_CHARACTERS] or self._last_line
        self._partial_line = tail[-MAX_SERVER_LOG_LINE_CHARACTERS:]

    def append(self, text: str) -> None:
        """Add one line of text."""
        self._lines.append(text.rstrip("\r")[:MAX_SERVER_LOG_LINE_CHARACTERS])

    def last_lines(self, count: int = MAX_SERVER_LOG_LINES) -> list[str]:
        """Return the last `count` lines, oldest first."""
        lines = [
            *self._lines,
            *([self._partial_line.decode("utf-8", "replace")] if self._partial_line else []),
        ]
        return lines[-count:]
