"""Where the log goes: a stream that may fail, which ends nothing."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Final, TextIO


class LogOutput:
    """Writes lines to a stream, and counts those that it does not take.

    A full disk, or a reader that has ended, must not fail what logs. The first line that is written
    again is followed by one with the count.

    Attributes:
        lost_lines: how many lines were lost since the start.
    """

    def __init__(self) -> None:
        """Write to nothing before `use`."""
        self.lost_lines = 0
        self._file: TextIO | None = None
        self._number: int | None = None
        self._untold = 0
        self._is_cut = False  # whether a part of a line stands without its end
        self._describe: Callable[[int], str] = str

    def use(self, file: TextIO, describe: Callable[[int], str]) -> None:
        """Write to a stream from now on.

        Args:
            file: the stream; its buffer is not used if it is a file.
            describe: returns the line that says how many lines were lost.
        """
        self._file, self._describe = file, describe
        try:
            self._number = file.fileno()
        except io.UnsupportedOperation:  # in memory
            self._number = None

    def write(self, text: str) -> None:
        """Write a line, or count it."""
        if not self._try_to_write(text):
            self.lost_lines += 1
            self._untold += 1
        elif (lost := self._untold) and self._try_to_write(f"{self._describe(lost)}\n"):
            self._untold -= lost

    def flush(self) -> None:
        """Do nothing: each line is written at once."""

    def _try_to_write(self, text: str) -> bool:
        if self._file is None:
            return False
        text = f"\n{text}" if self._is_cut else text
        data = memoryview(text.encode(errors="backslashreplace"))
        size = len(data)
        try:
            if self._number is None:
                self._file.write(text)
                return True
            while data:
                data = data[os.write(self._number, data) :]
        except (OSError, ValueError):  # it is full or closed, or nobody reads it
            self._is_cut = self._is_cut or len(data) < size
            return False
        self._is_cut = False
        return True


log_output: Final = LogOutput()
"""The log of this process."""
