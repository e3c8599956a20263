"""Standard streams of a command that are closed, or cannot be written."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Final

from sshwarma.common.reported_error import ReportedError

STANDARD_OUTPUT: Final = 1

closed_streams: Final[set[int]] = set()
"""Numbers of the standard streams that were closed when the command started."""


class LostOutputError(ReportedError):
    """The command has done its work, and could not say so."""


def write_output() -> None:
    """Write what is buffered: a full disk is found only then.

    Raises:
        ReportedError: if that fails, though the command has done its work.
        BrokenPipeError: if nobody reads it.
    """
    with reporting_lost_output():
        sys.stdout.flush()


@contextlib.contextmanager
def reporting_lost_output() -> Iterator[None]:
    """Report that the command has done its work, but cannot say so.

    Raises:
        ReportedError: in place of another OSError than that of a pipe that nobody reads.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LostOutputError(
            f"The command was executed, but its output could not be written: {error.strerror}."
        ) from error


def open_closed_streams() -> None:
    """Open the null device for each standard stream that is closed.

    The next file would get its number, and what is written to the stream.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            closed_streams.add(number)
            # It gets this number, the lowest that is free; programs that are started inherit it.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
