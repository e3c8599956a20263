"""A thread that hears when other servers have changed the world."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg
import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sshwarma.world.postgres_connection import Driver, driver_of, end_connection
from sshwarma.world.postgres_nodes import BEAT_SECONDS, Node

log = structlog.get_logger(__name__)

CHANNEL: Final = "sshwarma_batches"
"""The channel of notifications: each is sent with a batch, and names the server that made it."""

WAIT_SECONDS: Final = 1.0
"""Seconds after which others' changes are looked for although no notification came."""

JOIN_SECONDS: Final = 3.0
"""Seconds that a stop waits for the thread."""

RECONNECT_PAUSE_SECONDS: Final = 0.2
"""Seconds between two tries to reach the server."""


class PostgresListener:
    """Calls a function, in a thread, when another server may have changed the world.

    A notification can be lost with its connection: it is called after each connection, too, and
    once in WAIT_SECONDS. The thread also gives the signs of life of this server, and calls another
    function when it was taken for dead.
    """

    def __init__(
        self,
        engine: Engine,
        node: Node,
        note_news: Callable[[], None],
        note_lost: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._node = node
        self._note_news = note_news
        self._note_lost = note_lost
        self._beat_at = 0.0
        self._is_lost = False
        self._closing = threading.Event()
        self._waking, self._woken = socket.socketpair()  # the end of one ends the wait at the other
        self._thread = threading.Thread(target=self._run, name="store-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and its connection."""
        self._closing.set()
        self._waking.close()
        self._thread.join(JOIN_SECONDS)  # it may wait for a network that does not answer
        if not self._thread.is_alive():
            self._woken.close()

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._listen()
            except (psycopg.Error, DBAPIError) as error:
                if not self._is_lost:  # once, until it is back
                    log.warning("changes of other servers are not heard", reason=repr(error))
                self._is_lost = True
                self._closing.wait(RECONNECT_PAUSE_SECONDS)

    def _listen(self) -> None:
        """Listen until the connection is lost or this is closed.

        Raises:
            psycopg.Error, DBAPIError: if it is lost.
        """
        conn = self._engine.connect()
        try:
            driver = driver_of(conn)
            driver.execute(f"LISTEN {CHANNEL}")
            self._is_lost = False
            with selectors.DefaultSelector() as selector:
                selector.register(driver.fileno(), selectors.EVENT_READ)
                selector.register(self._woken, selectors.EVENT_READ)
                while not self._closing.is_set():
                    self._note_news()
                    self._beat(driver)
                    self._wait_for_others(driver, selector)
        finally:
            end_connection(conn)

    def _beat(self, driver: Driver) -> None:
        if time.monotonic() - self._beat_at < BEAT_SECONDS:
            return
        if not self._node.beat(driver):
            log.critical("another server has taken over", node=self._node.name)
            self._closing.set()
            self._note_lost()
        self._beat_at = time.monotonic()

    def _wait_for_others(self, driver: Driver, selector: selectors.BaseSelector) -> None:
        """Return when another server has notified, this is closed, or time is over."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._closing.is_set():
            for notification in driver.notifies(timeout=0):
                if notification.payload != self._node.id:
                    return
            if not selector.select(max(deadline - time.monotonic(), 0.0)):
                return
