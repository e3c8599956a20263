"""/metrics: what an operator watches moves when things happen."""

from __future__ import annotations

import json
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

import sshwarma
from sshwarma.world.migrate import newest_revision
from support.driver import Server
from support.driver.fixtures import homes
from support.driver.installed import POISONED, PROGRAMS
from support.driver.model import Model, question
from support.metrics import Scrape, scrape
from support.waiting import wait_until

PAINTER = [sys.executable, str(PROGRAMS / "painter.py")]


def answer(asked: dict[str, Any]) -> Iterator[str | dict[str, Any]]:
    if "fail" in question(asked):
        raise RuntimeError("as asked")
    yield "It is tea."


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    made = Model(answer)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(model: Model) -> Iterator[Server]:
    """A server with a priced model and two MCP servers, one of them missing."""
    settings = model.settings("qwen") | {"price_in": "1", "price_out": "2"}
    programs = [
        {"name": "painter", "command": PAINTER, "trust": True},
        {"name": "missing", "command": ["/nosuch/program"]},
    ]
    with homes() as home:
        made = Server(home(), models=json.dumps([settings]), mcp=json.dumps(programs))
        wait_until(lambda: scrape(made).value("sshwarma_mcp_server_up", server="painter") == 1)
        yield made
        made.owner.hang_up()
        assert made.stop() == 0


def test_page_has_the_process_the_build_and_the_platform(server: Server) -> None:
    page = scrape(server)
    assert page.value("sshwarma_build_info", version=sshwarma.__version__) == 1
    assert page.value("sshwarma_build_info", schema=newest_revision()) == 1
    assert page.value("process_resident_memory_bytes") > 10_000_000
    assert page.value("process_open_fds") > 5
    assert page.value("python_info") == 1


def test_every_family_has_help(server: Server) -> None:
    assert not [one.name for one in scrape(server).families.values() if not one.documentation]


def test_turns_tokens_and_costs_of_a_model_are_counted(server: Server) -> None:
    before = scrape(server)
    server.owner.does("say @qwen what is it?")

    def moved(name: str, **labels: str) -> float:
        return scrape(server).value(name, model="qwen", **labels) - before.value(
            name, model="qwen", **labels
        )

    wait_until(lambda: moved("sshwarma_turns_total", status="completed") == 1)
    assert moved("sshwarma_model_tokens_total") > 10
    assert moved("sshwarma_model_cost_dollars_total") > 0
    assert moved("sshwarma_turns_total", status="failed") == 0
    server.owner.does("say @qwen fail")
    wait_until(lambda: moved("sshwarma_turns_total", status="failed") == 1)
    assert moved("sshwarma_turn_failures_total", cause="provider") == 1
    assert scrape(server).value("sshwarma_turns_running", model="qwen", state="answering") == 0


def test_mcp_servers_calls_and_programs_are_measured(server: Server) -> None:
    page = scrape(server)
    assert page.value("sshwarma_mcp_server_up", server="missing") == 0
    assert page.value("sshwarma_worker_processes", kind="mcp_program") == 1
    assert page.value("sshwarma_worker_processes", kind="compose") >= 1
    assert page.value("sshwarma_worker_processes", kind="script") >= 1
    server.owner.does("equip room painter:*", "run painter:flag")
    after = scrape(server)
    assert after.value("sshwarma_mcp_calls_total", server="painter") == 1
    assert after.value("sshwarma_mcp_call_failures_total", server="painter") == 0
    server.owner.does("mcp disable painter")
    assert "painter" not in scrape(server).label_values()
    server.owner.does("mcp enable painter")


def test_rooms_people_and_connections_are_counted_and_not_named(server: Server) -> None:
    before = scrape(server)
    zed = server.person("zed-the-secret")
    zed.does("create hidden-den", "room private")
    with zed.pipe() as inside:
        wait_until(
            lambda: (
                scrape(server).value("sshwarma_agents_present")
                > before.value("sshwarma_agents_present")
            )
        )
        page = scrape(server)
        assert page.value("sshwarma_connections", door="ssh") >= 1
        assert page.value("sshwarma_connections", door="http") >= 1
        assert page.value("sshwarma_rooms") == before.value("sshwarma_rooms") + 1
        assert page.value("sshwarma_agents", kind="person") == (
            before.value("sshwarma_agents", kind="person") + 1
        )
        assert "zed" not in page.text
        assert "hidden" not in page.text
        assert inside.stdin is not None
        inside.stdin.close()
    zed.hang_up()


def test_refusal_by_a_limit_is_counted() -> None:
    with homes() as home:
        server = Server(home(), limits__lines_per_10_seconds=2)
        assert scrape(server).value("sshwarma_refused_total", limit="lines") == 0
        ann = server.person("ann")
        done = [ann.run("say hello") for _ in range(4)]
        assert [one.status for one in done] != [0] * 4
        assert scrape(server).value("sshwarma_refused_total", limit="lines") >= 1
        ann.hang_up()
        server.stop()


@pytest.mark.sqlite
def test_sizes_are_those_of_the_disk(server: Server) -> None:
    page = scrape(server)
    file = server.data_dir / "world.db"
    assert page.value("sshwarma_database_bytes", file="db") == file.stat().st_size
    assert page.value("sshwarma_database_bytes", file="wal") > 0
    free, size = page.value("sshwarma_disk_free_bytes"), page.value("sshwarma_disk_size_bytes")
    assert 0 < free < size


@pytest.mark.postgres
def test_size_is_that_of_the_database(server: Server) -> None:
    """The disk of its server is not known here."""
    page = scrape(server)
    ((size,),) = server.query("SELECT pg_database_size(current_database())")
    assert page.value("sshwarma_database_bytes", file="db") == pytest.approx(size, rel=0.1)
    assert "sshwarma_disk_free_bytes" not in page.names()


def test_tool_that_waits_for_approval_is_counted(server: Server) -> None:
    assert scrape(server).value("sshwarma_waiting_for_person", kind="tool_approval") == 0
    assert scrape(server).value("sshwarma_waiting_for_person", kind="question") == 0
    changing = f"mcp add changing -- {shlex.join(POISONED)} rug"
    server.owner.does(changing, "equip room changing:*", "run changing:again")
    wait_until(
        lambda: scrape(server).value("sshwarma_waiting_for_person", kind="tool_approval") > 0
    )
    server.owner.does("mcp remove changing")


@pytest.mark.sqlite
def test_scrape_answers_while_the_database_is_locked(server: Server) -> None:
    with closing(sqlite3.connect(server.data_dir / "world.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert isinstance(scrape(server), Scrape)
        other.execute("ROLLBACK")


def test_labels_do_not_grow_with_use(server: Server) -> None:
    """Three people more say something, and there is no label more."""
    before = scrape(server)
    for number in range(3):
        one = server.person(f"crowd{number}")
        one.does("say hello")
        one.hang_up()
    assert scrape(server).label_values() - before.label_values() <= {"exec"}
