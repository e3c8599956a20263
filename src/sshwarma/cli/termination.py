"""The end of a command by a signal, which deletes what it has not completed."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn


def exit_on_signals() -> None:
    """End this command by SystemExit on SIGTERM and SIGHUP, so that it cleans up.

    Signals that are ignored, as under nohup, stay so.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
