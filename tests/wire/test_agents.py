"""Agents renamed and removed at the command line, while they are connected."""

from __future__ import annotations

import json
from collections.abc import Callable

from support.driver import Person, Server


def test_renamed_agent_stays_connected_under_the_new_name(
    world: Server, bob: Person, name: Callable[[str], str]
) -> None:
    ann, new = world.person(name("ann")), name("zoe")
    screen, other = ann.sit(), bob.sit()
    screen.enter("hello")
    other.wait_for(f"{ann.name}: hello")
    done = world.cli("agents", "rename", ann.name, new)
    assert (done.returncode, done.stdout) == (0, f"{ann.name} is now called {new}.\n")
    other.wait_for(f"{ann.name} is now called {new}")
    screen.enter("still here")
    other.wait_for(f"{new}: still here")
    assert f"{new}: hello" in bob.run("history").out
    assert ann.run("say by my key", b"", "-T").out == f"{new}: by my key\n"
    refused = world.cli("agents", "rename", new, bob.name)
    assert refused.stderr == f"sshwarma: The name {bob.name} is taken. Choose another name.\n"


def test_removed_agent_is_disconnected_and_its_name_is_free(
    world: Server, bob: Person, name: Callable[[str], str]
) -> None:
    ann = world.person(name("ann"))
    listed = {one["name"]: one for one in world.operate("agents_list")}
    assert listed[ann.name]["last_seen_at"] is None
    screen, other = ann.sit(), bob.sit()
    screen.enter("hello")
    other.wait_for(f"{ann.name}: hello")
    world.operate("token_new", name=ann.name, label="ci")
    done = world.cli("agents", "remove", ann.name)
    assert done.stdout == f"Removed {ann.name}, with 1 key, 1 token, 0 invites.\n"
    screen.wait_for("Your account was removed.")
    screen.wait_for_end()
    assert screen.terminal_is_clean() == []
    other.wait_for(f"· {ann.name} leaves")
    assert ann.run("look", b"", "-T").status == 255
    assert f"{ann.name}: hello" in bob.run("history").out
    again = world.stranger(ann.name)
    world.admit(again)
    assert again.run("say new here", b"", "-T").out == f"{ann.name}: new here\n"
    assert f"{ann.name} (removed): hello" in bob.run("history").out
    audit = json.loads(world.cli("audit", "--verb", "agents", "--json").stdout.splitlines()[-1])
    assert audit["request"] == f"remove {ann.name}"
    assert "seen 20" in next(
        line for line in world.cli("agents", "list").stdout.splitlines() if bob.name in line
    )
    ann.hang_up()
