"""The stock ssh client under a pty, and what its terminal shows."""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyte
from wcwidth import iter_graphemes, wcswidth

from support.image_stream import ImageStream
from support.resizable_screen import ResizableScreen

SECONDS = 30.0
"""The longest a screen is waited for."""

KEYS = {
    "enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f",
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
    "home": "\x1b[H", "end": "\x1b[F", "alt-enter": "\x1b\r", "shift-tab": "\x1b[Z",
    "f8": "\x1b[19~", "f9": "\x1b[20~",
    **{f"ctrl-{chr(code + 96)}": chr(code) for code in range(1, 27)},
}  # fmt: skip


class ClusterScreen(ResizableScreen):
    """pyte's screen with each grapheme cluster in one place, as in today's terminals."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows, history=20_000, ratio=0.5)
        self.bells = 0

    def bell(self, *args: Any) -> None:
        self.bells += 1

    def draw(self, data: str) -> None:
        if data.isascii():  # each letter is a cluster
            super().draw(data)
            return
        for cluster in iter_graphemes(data):
            size = min(2, wcswidth(cluster))
            if cluster.isascii() or size <= 0:
                super().draw(cluster)
                continue
            super().draw("한" if size == 2 else "x")
            row = self.buffer[self.cursor.y]
            at = max(0, self.cursor.x - size)
            row[at] = row[at]._replace(data=cluster)


class Screen:
    """One login at a terminal; every wait is for something, bounded, never a sleep."""

    def __init__(
        self, words: Sequence[str], columns: int, rows: int, *, env: Mapping[str, str]
    ) -> None:
        self.pyte_screen = ClusterScreen(columns, rows)
        self.stream = ImageStream(self.pyte_screen)
        self.raw = b""
        self._above: list[str] = []
        self.ended = False
        self._fd, line = pty.openpty()
        self._set_size(columns, rows)
        self._before = termios.tcgetattr(line)

        def take_terminal() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            words,
            stdin=line,
            stdout=line,
            stderr=line,
            env=dict(env),
            preexec_fn=take_terminal,  # noqa: PLW1509 - two system calls, no lock
        )
        self._line = line  # kept open, so that the terminal outlives the client
        # A client whose terminal nobody reads stops, and sends no keys either: a thread reads.
        self._unread = bytearray()
        self._came = threading.Condition()
        self._stop, self._stopping = os.pipe()
        self._reader = threading.Thread(target=self._read_on, daemon=True)
        self._reader.start()

    # What the person does.

    def type(self, text: str) -> None:
        """Keys as they are."""
        self.send(text.encode())

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        while data:
            self._read(0)
            data = data[os.write(self._fd, data[:4096]) :]

    def press(self, *keys: str) -> None:
        """Named keys, such as `enter`, `up`, `ctrl-c`."""
        for key in keys:
            self.type(KEYS[key])

    def enter(self, line: str) -> None:
        """A line and Enter."""
        self.type(f"{line}\r")

    def paste(self, text: str) -> None:
        """A bracketed paste, as a terminal sends it."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        """The window gets another size; the glass wraps its rows and keeps them."""
        self._read(0)
        self.pyte_screen.resize(rows, columns)
        self._set_size(columns, rows)
        self.process.send_signal(signal.SIGWINCH)

    def resize_and_wait(self, columns: int, rows: int, drawn: bytes = b"here") -> None:
        """Resize, and wait for the server to draw for the new size.

        The signal is sent again while nothing comes: OpenSSH's client loses one that arrives
        between its check and its poll, until there is other input.
        """
        start = self.clear_of()
        self.resize(columns, rows)
        deadline = time.monotonic() + SECONDS
        while drawn not in self.raw[start:]:
            if time.monotonic() > deadline:
                raise AssertionError(f"not drawn for {columns}x{rows}:\n{self.picture()}")
            if not self._read(1.0):
                self.process.send_signal(signal.SIGWINCH)

    def kill(self) -> None:
        """The client is killed."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Let go of everything."""
        if self._fd < 0:
            return
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._stopping)
        self._reader.join()
        for descriptor in (self._stop, self._line, self._fd):
            os.close(descriptor)
        self._fd = -1

    # What the person sees.

    @property
    def lines(self) -> list[str]:
        """The visible rows without trailing spaces, down to the last that is not empty."""
        self._read(0)
        rows = [self._row(self.pyte_screen.buffer[y]) for y in range(self.pyte_screen.lines)]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def everything(self) -> list[str]:
        """The scrollback and the visible rows."""
        shown = self.lines
        above = self.pyte_screen.history.top
        if len(above) < len(self._above):
            self._above.clear()
        # Rows that have scrolled away do not change any more: each is read once.
        fresh = itertools.islice(above, len(self._above), None)
        self._above += [self._row(row) for row in fresh]
        return self._above + shown

    @property
    def text(self) -> str:
        return "\n".join(self.everything)

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row, from 0."""
        self._read(0)
        return self.pyte_screen.cursor.x, self.pyte_screen.cursor.y

    @property
    def input(self) -> str:
        """The row the cursor stands in."""
        self._read(0)
        return self._row(self.pyte_screen.buffer[self.pyte_screen.cursor.y])

    def count(self, text: str) -> int:
        return self.text.count(text)

    def clear_of(self) -> int:
        """A place in `raw`: what comes after it is new."""
        self._read(0)
        return len(self.raw)

    # Waiting.

    def wait_for(
        self, what: str | re.Pattern[str] | Callable[[], object], seconds: float = SECONDS
    ) -> None:
        """Wait until the scrollback or screen has a text, or something is true of it."""
        if isinstance(what, str):
            wanted: Callable[[], object] = lambda: what in self.text  # noqa: E731
        elif isinstance(what, re.Pattern):
            wanted = lambda: what.search(self.text)  # noqa: E731
        else:
            wanted = what
        deadline = time.monotonic() + seconds
        while not wanted():
            left = deadline - time.monotonic()
            if left <= 0 or (self.ended and not self._read(0)):
                why = "the client has ended" if self.ended else f"{seconds:.0f} s have passed"
                raise AssertionError(f"no {what!r}: {why}. The screen:\n{self.picture()}")
            self._read(left)

    def wait_for_count(self, text: str, times: int, seconds: float = SECONDS) -> None:
        """Wait until a text is on the screen `times` times."""
        self.wait_for(lambda: self.count(text) >= times, seconds)

    def wait_for_input(self, line: str, seconds: float = SECONDS) -> None:
        """Wait until the cursor's row reads exactly so."""
        self.wait_for(lambda: self.input == line, seconds)

    def wait_for_prompt(self, room: str, seconds: float = SECONDS) -> None:
        """Wait until an empty line waits for input in a room."""
        self.wait_for_input(f"{room}>", seconds)

    def wait_for_end(self, seconds: float = SECONDS) -> int:
        """Wait until the client has ended; its exit status."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"it goes on:\n{self.picture()}"
            self._read(0.05)
        while self._read(0):
            pass
        return self.process.returncode

    def terminal_is_clean(self) -> list[str]:
        """What a program should not have left behind, in words; nothing if all is well."""
        while self._read(0):
            pass
        left = []
        if termios.tcgetattr(self._line)[:4] != self._before[:4]:
            left.append("the tty is not as it was")
        if 2004 << 5 in self.pyte_screen.mode:
            left.append("bracketed paste is on")
        if pyte.modes.DECAWM not in self.pyte_screen.mode:
            left.append("automatic wrapping is off")
        if self.pyte_screen.cursor.hidden:
            left.append("the cursor is hidden")
        if self.pyte_screen.cursor.attrs != self.pyte_screen.default_char:
            left.append("colours are on")
        if self.pyte_screen.margins is not None:
            left.append("there are scrolling margins")
        if self.pyte_screen.cursor.x != 0:
            left.append("the cursor is not at the start of a row")
        return left

    def picture(self) -> str:
        """The visible screen in a frame, with the cursor's place."""
        width = self.pyte_screen.columns
        rows = "\n".join(f"|{row}" for row in self.lines)
        return (
            f"+{'-' * width}\n{rows}\n+{'-' * width}\n"
            f"cursor {self.cursor}, {len(self.pyte_screen.history.top)} rows above, "
            f"client {'ended' if self.process.poll() is not None else 'runs'}"
        )

    # Inside.

    def _row(self, row: Any) -> str:
        return "".join(row[x].data for x in range(self.pyte_screen.columns)).rstrip()

    def _read(self, seconds: float) -> bool:
        """Take in what has come, after a bounded wait; return whether there was any."""
        with self._came:
            self._take()
            if not self._unread and seconds > 0:
                self._came.wait(min(seconds, 0.1))
            data = bytes(self._unread)
            self._unread.clear()
        if data:
            self.raw += data
            self.stream.feed(data)
        if self.process.poll() is not None:
            self.ended = True
        return bool(data)

    def _read_on(self) -> None:
        """Read until the screen is closed."""
        while True:
            ready, _, _ = select.select([self._fd, self._stop], [], [])
            if self._stop in ready:
                return
            with self._came:
                if not self._take():
                    return
                self._came.notify_all()

    def _take(self) -> bool:
        """Read what the terminal holds now. Whether it may hold more later."""
        while self._fd >= 0 and select.select([self._fd], [], [], 0)[0]:
            try:
                self._unread += os.read(self._fd, 65536)
            except OSError:
                self.ended = True
                return False
        return True

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
