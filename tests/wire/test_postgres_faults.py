"""A server whose PostgreSQL is down or locked: what people and monitors read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from sshwarma.world.postgres_nodes import WORLD_LOCK
from support.driver import Server
from support.driver.fixtures import homes
from support.metrics import scrape
from support.postgres import PostgresServer, running_postgres
from support.waiting import wait_until

from .test_health import health, wait_for

pytestmark = pytest.mark.postgres


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """One that a test may stop: those of other tests go on."""
    with running_postgres() as made:
        yield made


@pytest.fixture
def server(postgres: PostgresServer) -> Iterator[Server]:
    with homes() as home:
        made = Server(home(), database=postgres.create().text)
        yield made
        assert made.stop() == 0


def test_lost_database_is_said_and_comes_back(server: Server, postgres: PostgresServer) -> None:
    ann = server.person("ann")
    screen = ann.sit()
    screen.enter("before it went")
    screen.wait_for("ann: before it went")
    postgres.control("-m", "immediate", "stop")
    failing = wait_for(server, 503)
    assert "the database cannot be reached" in failing["reason"].lower(), failing
    assert scrape(server).value("sshwarma_healthy") == 0
    screen.enter("lost words")
    screen.wait_for("The database cannot be reached. Nothing was stored.")
    postgres.control("start")
    assert wait_for(server, 200)["status"] == "ok"
    screen.enter("after it came")
    screen.wait_for("ann: after it came")
    said = [entry["text"] for entry in ann.json("history")["entries"]]
    assert [text for text in said if " it " in text] == ["before it went", "after it came"]
    assert "lost words" not in said
    assert "Traceback" not in server.log()
    ann.hang_up()


def test_login_works_while_others_lock_the_world(server: Server) -> None:
    ann = server.person("ann")
    assert server.database
    with ExitStack() as stack:
        other = stack.enter_context(psycopg.connect(server.database))
        other.execute("SELECT pg_advisory_lock(%s)", (WORLD_LOCK,))
        screen = ann.sit()
        screen.wait_for("Others keep the database busy. Nothing was stored.")
        screen.enter("/look")
        screen.wait_for("Here: ann")
        wait_until(lambda: health(server)[0] == 503)
    wait_for(server, 200)
    screen.enter("now it works")
    screen.wait_for("ann: now it works")
    ann.hang_up()


def test_server_without_its_database_starts_not_and_says_why(
    server: Server, postgres: PostgresServer
) -> None:
    assert server.stop() == 0
    postgres.control("-m", "immediate", "stop")
    try:
        failed = server.cli("serve", "--listen", "127.0.0.1:0", "--http", "off")
    finally:
        postgres.control("start")
        server.start()
    assert failed.returncode == 1
    assert "cannot be used: connection failed" in failed.stderr.splitlines()[-1], failed.stderr
