"""Log buffer of a server: its stderr and our notes about it."""

from __future__ import annotations

from collections import deque

from sshwarma.common.limits import MAX_SERVER_LOG_LINE_CHARACTERS, MAX_SERVER_LOG_LINES
from sshwarma.mcp.client.failure_line import choose_failure_line


class LogBuffer:
    """Keeps the last lines, each cut to MAX_SERVER_LOG_LINE_CHARACTERS."""

    def __init__(self) -> None:
        self._output: deque[str] = deque(maxlen=MAX_SERVER_LOG_LINES)  # of this process
        self._lines: deque[str] = deque(maxlen=MAX_SERVER_LOG_LINES)
        self._partial_line = b""

    def __len__(self) -> int:
        return len(self._lines)

    def start_section(self) -> None:
        """Start a new process: forget what the previous one wrote on stderr."""
        self._output.clear()
        self._partial_line = b""

    @property
    def failure_line(self) -> str:
        """The line of this process on stderr that says what failed, or ""."""
        partial = self._partial_line.decode("utf-8", "replace")
        return choose_failure_line([*self._output, partial])

    def feed(self, data: bytes) -> None:
        """Add bytes of the server's stderr, with lines of any length."""
        *lines, tail = (self._partial_line + data).split(b"\n")
        for line in lines[-MAX_SERVER_LOG_LINES:]:
            text = line.decode("utf-8", "replace")
            self.append(text)
            self._output.append(text[:MAX_SERVER_LOG_LINE_CHARACTERS])
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
