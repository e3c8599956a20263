"""/healthz fails when a write would; the log tells of other shortages."""

from __future__ import annotations

import http.client
import json
import os
import resource
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from sshwarma.common.limits import MAX_HTTP_CONNECTIONS
from support.databases import damage_table
from support.driver import Server
from support.driver.fixtures import homes
from support.full_disk import files_limited, filled, no_room_for, small_disk
from support.metrics import scrape
from support.service_manager import listening
from support.waiting import wait_until


@pytest.fixture
def home() -> Iterator[Path]:
    with homes() as make:
        yield make()


def health(server: Server) -> tuple[int, dict[str, Any]]:
    """The status and the body; one that takes long fails as monitors see it."""
    with closing(http.client.HTTPConnection(server.http, timeout=10)) as connection:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def wait_for(server: Server, status: int) -> dict[str, Any]:
    wait_until(lambda: health(server)[0] == status)
    return health(server)[1]


@pytest.mark.sqlite
def test_full_disk_fails_until_there_is_room(home: Path) -> None:
    with small_disk(home / "data") as is_mounted:
        server = Server(home)
        assert health(server)[0] == 200
        with no_room_for(server.process.pid, server.data_dir, is_mounted=is_mounted):
            failing = wait_for(server, 503)
            assert failing["status"] == "failing"
            assert ("The disk is full: " in failing["reason"]) == is_mounted
        assert wait_for(server, 200)["status"] == "ok"
        assert server.stop() == 0


@pytest.mark.sqlite
def test_write_that_the_kernel_refuses_fails_although_the_disk_has_room(home: Path) -> None:
    """As a quota does, which no look at the free space shows."""
    server = Server(home)
    with files_limited(server.process.pid, (server.data_dir / "world.db-wal").stat().st_size):
        assert "not be written" in wait_for(server, 503)["reason"]
    assert wait_for(server, 200)["status"] == "ok"
    assert server.stop() == 0


@pytest.mark.sqlite
def test_lock_of_another_process_fails(home: Path) -> None:
    server = Server(home)
    with closing(sqlite3.connect(server.data_dir / "world.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        reason = wait_for(server, 503)["reason"]
        assert "locked by another process" in reason or "could not be written" in reason
        assert scrape(server).value("sshwarma_healthy") == 0
        checked = server.cli("doctor")
        assert checked.returncode == 1
        assert f"FAIL  database lock: process {os.getpid()} (" in checked.stdout
        other.execute("ROLLBACK")
        assert wait_for(server, 200)["status"] == "ok"
    assert server.stop() == 0


@pytest.mark.sqlite
def test_full_disk_does_not_stop_the_watchdog(home: Path) -> None:
    """A restart would disconnect everybody and free nothing."""
    with small_disk(home / "data") as is_mounted, listening(home) as manager:
        environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "4000000"}
        server = Server(home, environ=environ)
        with no_room_for(server.process.pid, server.data_dir, is_mounted=is_mounted):
            wait_for(server, 503)
            while manager.has_message():
                manager.read()
            assert manager.read_other("STATUS") == {"WATCHDOG": "1"}
        assert server.stop() == 0


def test_lack_of_file_descriptors_is_logged_and_does_no_lasting_harm(home: Path) -> None:
    """Nor does it end the reports to the watchdog: systemd would kill the server."""
    with listening(home) as manager:
        environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "400000"}
        server = Server(home, environ=environ)
        _use_up_file_descriptors(server)
        while manager.has_message():
            manager.read()
        assert manager.read_other("STATUS") == {"WATCHDOG": "1"}
        assert health(server)[0] == 200
        assert server.stop() == 0


def _use_up_file_descriptors(server: Server) -> None:
    """Leave none until the server, and its watchdog, have noticed."""
    files = Path(f"/proc/{server.process.pid}/fd")
    before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    limit = len(list(files.iterdir())) + 5
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    host, _, port = server.http.rpartition(":")
    with ExitStack() as stack:

        def logs(text: str) -> bool:
            """Connect once more, too: what the server had open for a moment is free again."""
            stack.enter_context(socket.create_connection((host, int(port))))
            return text in server.log()

        for _ in range(20):
            stack.enter_context(socket.create_connection((host, int(port))))
        wait_until(lambda: logs("file descriptors run out: new connections fail"))
        wait_until(lambda: logs("the service manager was not notified"))
    wait_until(lambda: "there are enough file descriptors again" in server.log())


@pytest.mark.sqlite
def test_start_on_a_full_disk_ends_with_a_sentence(home: Path) -> None:
    """Without a log of the database, SQLite has to create one before it reads."""
    with small_disk(home / "data") as is_mounted:
        if not is_mounted:
            pytest.skip("no file system can be mounted here")
        server = Server(home)
        assert server.stop() == 0
        with filled(server.data_dir):
            failed = server.cli("serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        assert failed.returncode == 1
        assert failed.stderr.splitlines()[-1].endswith(
            "cannot be used: the disk is full, and SQLite makes files beside the database. Make"
            " room on it; nothing was changed."
        ), failed.stderr
        server.start()
        assert server.stop() == 0


@pytest.mark.sqlite
def test_start_on_a_full_disk_after_a_crash_serves_what_it_can(home: Path) -> None:
    """The crash leaves a log, so that opening the database needs no room."""
    with small_disk(home / "data") as is_mounted:
        if not is_mounted:
            pytest.skip("no file system can be mounted here")
        server = Server(home)
        server.kill()
        with filled(server.data_dir):
            server.start()
            wait_until(lambda: health(server)[0] == 503)
        wait_until(lambda: health(server)[0] == 200)
        assert server.stop() == 0


def test_silent_connections_of_one_address_keep_no_monitor_out(home: Path) -> None:
    server = Server(home)
    host, _, port = server.http.rpartition(":")
    with ExitStack() as stack:
        for _ in range(MAX_HTTP_CONNECTIONS + 100):
            stack.enter_context(socket.create_connection((host, int(port))))
        for _ in range(3):
            assert health(server)[0] == 200
    assert server.stop() == 0


@pytest.mark.sqlite
def test_database_that_was_moved_away_fails_until_it_is_back(home: Path) -> None:
    """What is said meanwhile goes to a file without that name."""
    server = Server(home)
    assert health(server)[0] == 200
    database = server.data_dir / "world.db"
    database.rename(database.with_name("moved.db"))
    assert "was moved, deleted or replaced" in wait_for(server, 503)["reason"]
    assert scrape(server).value("sshwarma_healthy") == 0
    assert scrape(server).value("sshwarma_scrape_failures_total") >= 1
    wait_until(lambda: server.log().count("the database was moved or replaced") == 1)
    wait_for(server, 503)
    assert server.log().count("the database was moved or replaced") == 1
    database.with_name("moved.db").rename(database)
    assert wait_for(server, 200)["status"] == "ok"
    assert scrape(server).value("sshwarma_healthy") == 1
    assert server.stop() == 0


@pytest.mark.sqlite
def test_damage_fails_from_the_moment_at_which_it_is_found(home: Path) -> None:
    """A page that nobody reads at the start is damaged, as by a failing disk."""
    server = Server(home)
    assert server.stop() == 0
    damage_table(server.data_dir / "world.db", "invites")
    server.start()
    assert health(server)[0] == 200
    assert scrape(server).value("sshwarma_healthy") == 1
    assert server.cli("invite", "list").returncode == 1
    assert scrape(server).value("sshwarma_healthy") == 0
    for _ in range(2):
        status, body = health(server)
        assert status == 503
        assert "The database is damaged." in body["reason"]
        assert "sshwarma doctor" in body["reason"] and "sshwarma restore" in body["reason"]
    assert server.log().count("the database is damaged") == 1
    assert server.stop() == 0
