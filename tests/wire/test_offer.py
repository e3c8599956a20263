"""Bringing an MCP server of one's own into a room, for as long as the link lives."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.driver import Person
from support.driver.installed import NODE, from_npm
from support.driver.person import CLEAN

SCRIPT = Path(__file__).parents[2] / "examples" / "offer.sh"


def offer(
    person: Person, name: str, *options: str, command: tuple[str, ...]
) -> subprocess.Popen[bytes]:
    *ssh, host = person.ssh()
    return subprocess.Popen(
        ["/bin/sh", str(SCRIPT), name, host, *options, "--", *command],
        env={**CLEAN, "SSH": " ".join(ssh)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def tools(person: Person) -> set[str]:
    return {
        item["name"]
        for item in person.json("inv")["equipped"]
        if item["usable"]
        and item["name"].startswith("mem")
        and ":project_memory_" not in item["name"]
    }


def test_offered_server_is_available_in_the_room_while_connected(
    alice: Person, bob: Person, room: str, name: Callable[[str], str], tmp_path: Path
) -> None:
    his = bob.sit(room=room)
    space = name("mem")
    offering = offer(alice, space, command=(NODE, from_npm("server-memory")))
    try:
        his.wait_for(f"{alice.name} offers 9 tools as {space}: ")
        assert f"{space}:read_graph" in tools(bob)
        his.enter(f"/run {space}:read_graph")
        his.wait_for(f"✓ {space}:read_graph")
        bob.does("join lobby")
        assert tools(bob) == set()
        assert space not in bob.run("namespaces").out
        assert space not in bob.run(f"find {space}").out
        assert f"Unknown namespace {space}" in bob.run(f"namespace show {space}").err
        assert f"Unknown namespace {space}" in bob.run(f"load {space}").err
        twice = offer(alice, space, command=("cat",))
        _, said = twice.communicate(timeout=30)
        assert b"is already offered here" in said
    finally:
        os.killpg(offering.pid, signal.SIGTERM)
        offering.wait(30)
        assert offering.stderr
        offering.stderr.close()
    his.wait_for(f"{alice.name} disconnected; the tools of {space} are gone")
    bob.does(f"join {room}")
    assert tools(bob) == set()
    again = offer(alice, space, command=(NODE, from_npm("server-memory")))
    his.wait_for(lambda: his.count(f"offers 9 tools as {space}") == 2)
    os.killpg(again.pid, signal.SIGTERM)
    again.communicate(timeout=30)
    his.wait_for(lambda: his.count(f"disconnected; the tools of {space} are gone") == 2)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("offer", "Usage: ssh HOST offer NAME"),
        ("offer Über", "cannot be the name of a namespace"),
        ("offer files --room nowhere", "Unknown room nowhere"),
        ("offer files --room lobby", "needs the build right in lobby"),
        ("offer lobby", "is already the name of a room"),
    ],
)
def test_invalid_offer_is_refused(alice: Person, room: str, words: str, why: str) -> None:
    refused = alice.run(words)
    assert refused.status == 1
    assert why in refused.err


def test_offer_that_is_no_mcp_server_is_refused(
    alice: Person, room: str, name: Callable[[str], str]
) -> None:
    space = name("mem")
    refused = alice.run(f"offer {space}", "hello\n")
    assert refused.status == 1
    assert "is not a working MCP server" in refused.err
    assert space not in alice.does("namespaces")


def test_admin_can_list_and_end_an_offer(
    owner: Person, alice: Person, bob: Person, room: str, name: Callable[[str], str]
) -> None:
    space = name("mem")
    his, ran = bob.sit(room=room), f"✓ {space}:read_graph"
    for round_ in (1, 2):  # it may come back, and works
        offering = offer(alice, space, "--room", room, command=(NODE, from_npm("server-memory")))
        his.wait_for(lambda n=round_: his.count(f"offers 9 tools as {space}") == n, 30)
        listed = {one["name"]: one for one in bob.json("mcp")["servers"]}
        assert listed[space]["where"] == f"offered by {alice.name}"
        his.enter(f"/run {space}:read_graph")
        his.wait_for(lambda n=round_: his.count(ran) == n, 20)
        assert "needs the admin right" in bob.run(f"mcp disable {space}").err
        owner.does(f"mcp disable {space}")
        _, said = offering.communicate(timeout=20)
        assert f"{owner.name} disconnected it." in said.decode()
        his.wait_for(
            lambda n=round_: his.count(f"disconnected; the tools of {space} are gone") == n, 20
        )
    assert tools(bob) == set()


def test_offer_ends_when_the_build_right_is_lost(
    alice: Person, bob: Person, room: str, name: Callable[[str], str]
) -> None:
    hers, space = alice.sit(room=room), name("mem")
    alice.does(f"room builder {bob.name}")
    bob.does(f"join {room}")
    offering = offer(bob, space, command=(NODE, from_npm("server-memory")))
    hers.wait_for(f"{bob.name} offers 9 tools as {space}: ")
    alice.does(f"room remove {bob.name}")
    _, said = offering.communicate(timeout=30)
    assert b"no longer have the build right" in said
    assert tools(alice) == set()
