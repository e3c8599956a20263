"""systemd's `sd_notify`: ready, reloading, stopping, and the watchdog.

Each message is one datagram to the socket that the variable NOTIFY_SOCKET names; without it nothing
is sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from sshwarma.common.units import MINUTE_SECONDS
from sshwarma.world.errors import WorldError

log = structlog.get_logger(__name__)

EXTENSION_SECONDS: Final = MINUTE_SECONDS
"""Seconds that a start may take from a message on which says that it goes on."""


@dataclass(frozen=True, slots=True)
class ServiceNotifier:
    """Notifies the service manager of what the server does.

    Attributes:
        address: its socket, a path or `@` and a name; empty if there is no service manager.
        watchdog_seconds: it ends a server that says nothing for so long; None without a watchdog.
    """

    address: str = ""
    watchdog_seconds: float | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> ServiceNotifier:
        """Return the notifier of this process, by the variables that systemd sets."""
        usec = environ.get("WATCHDOG_USEC", "")
        is_ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        has_watchdog = is_ours and usec.isdecimal() and int(usec) > 0
        return cls(environ.get("NOTIFY_SOCKET", ""), int(usec) / 1e6 if has_watchdog else None)

    def report_ready(self, status: str) -> None:
        """Say that the server serves, at the start and after a reload."""
        self._send("READY=1", f"STATUS={status}")

    async def extend_start(self) -> None:
        """Extend the time of the start until cancelled: a large upgrade takes long."""
        while True:
            await asyncio.sleep(EXTENSION_SECONDS / 3)  # most starts end before
            self._send(f"EXTEND_TIMEOUT_USEC={int(EXTENSION_SECONDS * 1_000_000)}")

    def report_reloading(self) -> None:
        """Say that a reload has begun; `report_ready` ends it."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}", "STATUS=Reading the settings again.")

    def report_stopping(self) -> None:
        """Say that the server has begun to stop."""
        self._send("STOPPING=1", "STATUS=Finishing what was begun.")

    async def keep_watchdog_quiet(self, check: Callable[[], Awaitable[object]]) -> None:
        """Say that the server works, for as long as `check` ends in time.

        Whatever stops the event loop, or the check, ends the messages, and so the server. A check
        that is refused, because the disk is full or the database is locked, does not: a restart
        would disconnect everybody and free nothing. `/healthz` reports that.
        """
        if self.watchdog_seconds is None:
            return
        while True:
            try:
                async with asyncio.timeout(self.watchdog_seconds / 2):
                    await check()
            except TimeoutError:
                log.error("the writer does not answer: the watchdog is not notified")
            except WorldError as error:
                log.warning("the world cannot be written to", reason=str(error))
                self._send("WATCHDOG=1")
            else:
                self._send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog_seconds / 4)

    def _send(self, *lines: str) -> None:
        """Send a message; the server does not wait for its manager, nor fail with it."""
        if not self.address:
            return
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
        try:
            with socket.socket(socket.AF_UNIX, kind) as sender:
                sender.sendto("\n".join(lines).encode(), address)
        except OSError as error:  # also without file descriptors
            log.warning("the service manager was not notified", error=error.strerror)
