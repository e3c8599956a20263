"""A question under way on PostgreSQL: what it takes, and how it is ended."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import errors

from sshwarma.common.units import KIB

END_TIMEOUT_SECONDS: Final = 8.0
"""Seconds after which the connection of a question is cut: a loop inside one function may not end
when it is cancelled."""

CANCEL_TIMEOUT_SECONDS: Final = 5.0

WATCH_SECONDS: Final = 0.05
"""Seconds between two looks at the memory of a question."""


class RunningQuestion:
    """One question under way: its connection, and why it was ended."""

    def __init__(self) -> None:
        self.why: str | None = None
        self._driver: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def begin(self, driver: psycopg.Connection[Any]) -> None:
        """Keep the connection, to end what it runs."""
        with self._lock:
            self._driver = driver
        if self.why is not None:
            raise errors.QueryCanceled

    def finish(self) -> None:
        """Forget the connection, which is closed now."""
        with self._lock:
            self._driver = None

    async def watch(self, answering: asyncio.Future[dict[str, Any]], memory: int) -> dict[str, Any]:
        """Wait for the answer; end a question of too much memory or time."""
        deadline = time.monotonic() + END_TIMEOUT_SECONDS
        while True:
            done, _ = await asyncio.wait({answering}, timeout=WATCH_SECONDS)
            if done:
                return answering.result()
            used = _read_memory(self._driver)
            if used is not None and used > memory and self.why is None:
                await asyncio.to_thread(self.stop, "memory")
            if time.monotonic() > deadline:
                self._cut("time")

    async def end(self, why: str, answering: asyncio.Future[dict[str, Any]]) -> None:
        """End the question, and wait until its thread has."""
        await asyncio.to_thread(self.stop, why)
        done, _ = await asyncio.wait({answering}, timeout=END_TIMEOUT_SECONDS)
        if not done:
            self._cut(why)
            await asyncio.wait({answering}, timeout=END_TIMEOUT_SECONDS)
        if answering.done():
            answering.exception()

    def stop(self, why: str) -> None:
        """Cancel what the connection runs."""
        with self._lock:
            self.why = self.why or why
            if self._driver is not None:
                with suppress(psycopg.Error):
                    self._driver.cancel_safe(timeout=CANCEL_TIMEOUT_SECONDS)

    def _cut(self, why: str) -> None:
        """End the connection; the server notices that at its next look."""
        with self._lock, suppress(OSError, psycopg.Error):
            self.why = self.why or why
            if self._driver is not None:
                with socket.socket(fileno=os.dup(self._driver.fileno())) as link:
                    link.shutdown(socket.SHUT_RDWR)


def _read_memory(driver: psycopg.Connection[Any] | None) -> int | None:
    """Return the bytes of a process of the server; None if it is not on this machine."""
    if driver is None:
        return None
    try:
        info = driver.info
        folder = Path("/proc") / str(info.backend_pid)
        title = (folder / "cmdline").read_bytes()
        if not title.startswith(b"postgres:") or info.user.encode() not in title:
            return None  # of another machine's process with the same number
        for line in (folder / "status").read_text("ascii", "replace").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * KIB
    except (OSError, psycopg.Error):
        return None
    return None
