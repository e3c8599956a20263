"""Signals of a running server: those that stop, reload, or do nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from types import FrameType
from typing import Final, NoReturn

import structlog

from sshwarma.settings.logs import log_from_signal_handler

log = structlog.get_logger(__name__)

STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
"""Signals that stop the server in order; a second one ends it at once."""

IGNORED: Final = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)
"""Signals that would end the program in the middle of what it does, and have no meaning here."""


class ServerSignals:
    """Handles the signals of the process from now on; use it on the event loop.

    Attributes:
        stop: set when the server must stop.
        reload: set when the settings must be read again.
        reason: the signal that stops the server.
    """

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.reload = asyncio.Event()
        self.reason = ""
        # Under nohup, which ignores SIGHUP, the server outlives its terminal.
        is_nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._had_terminal = _has_terminal() and not is_nohup
        self._loop = asyncio.get_running_loop()
        for number in STOPS:
            self._loop.add_signal_handler(number, self._begin_stop, number.name)
        for number in IGNORED:
            self._loop.add_signal_handler(number, self._ignore, number.name)
        self._loop.add_signal_handler(signal.SIGHUP, self._hang_up)

    def _begin_stop(self, reason: str) -> None:
        self.reason = reason
        self.stop.set()
        for number in STOPS:
            # Not a handler of the loop, so that it ends a server whose loop does not turn.
            self._loop.remove_signal_handler(number)
            signal.signal(number, _end_at_once)

    def _hang_up(self) -> None:
        """Reload on SIGHUP; if the terminal of the program was closed, stop."""
        if self._had_terminal and not _has_terminal():
            self._begin_stop("SIGHUP: the terminal was closed")
        else:
            self.reload.set()

    def _ignore(self, name: str) -> None:
        log.warning("signal ignored", signal=name)


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """End the process by the signal itself, so that its parent sees that."""
    name = signal.Signals(number).name
    log_from_signal_handler("ended at once, by a second signal", signal=name)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # SIGQUIT may be blocked where the process began


def _has_terminal() -> bool:
    """Return whether the process has a terminal that controls it."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
