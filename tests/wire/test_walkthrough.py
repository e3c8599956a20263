"""An evening in the world, line for line as people type it and read it.

A tool of the world's own stands in the place of one that a server would bring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from support.driver import Screen, Server


@pytest.fixture
def screen(serve: Callable[..., Server]) -> Iterator[Screen]:
    """Ann in a workshop as seeded: look and say equipped, a prompt in the bag."""
    server = serve()
    ann = server.owner
    ann.does(
        "create studio",
        "create workshop",
        "unequip room *",
        "equip room sshwarma:look,say",
        "put prompt:code-style = Prefer small functions.",
    )
    yield ann.sit(100, 60, room="workshop")
    ann.hang_up()


def answer(screen: Screen, line: str, room: str = "workshop") -> list[str]:
    """What is printed between a typed line and the next prompt, in one frame."""
    before = len(screen.everything)
    screen.enter(line)
    found: list[str] = []

    def answered() -> bool:
        rows = screen.everything[before - 2 :]
        echo = f"{room}> {line}"
        if echo not in rows or f"{room}>" not in rows:
            return False
        found[:] = rows[rows.index(echo) + 1 : rows.index(f"{room}>")]
        return bool(found)

    screen.wait_for(answered)
    return found


def test_example_session_is_answered_as_written(screen: Screen) -> None:
    assert [row for row in answer(screen, "/inv") if "global:" not in row] == [
        "Equipped:",
        "  ✓ sshwarma:look",
        "  ✓ sshwarma:say",
        "",
        "Room contents:",
        "  · prompt:code-style",
    ]

    everything = answer(screen, "/inv all")
    assert [row for row in everything if "global:" not in row][:9] == [
        "Equipped:",
        "  Builtin",
        "  ✓ sshwarma:look",
        "  ✓ sshwarma:say",
        "",
        "Room contents:",
        "  · prompt:code-style",
        "",
        "Available to equip:",
    ]
    title, *available = everything[everything.index("Available to equip:") + 1 :]
    assert title == "  Builtin"
    assert all(
        re.fullmatch(r"  ○ (memory|sshwarma|toolsets|workspace):\w+( +\[needs an approval\])?", row)
        for row in available
    )
    assert "  ○ sshwarma:history" in available

    assert answer(screen, "/equip room sshwarma:history") == [
        "Equipped sshwarma:history in this room."
    ]

    assert answer(screen, "/examine sshwarma:history")[:4] == [
        "sshwarma:history - Show the conversation",
        "Kind: tool",
        "Location: sshwarma (namespace)",
        "Status: available",
    ]

    assert answer(screen, "/portal north studio") == ["Created exit: north → studio"]

    assert answer(screen, "/exits") == ["Exits from workshop:", "  north → studio"]


def test_documented_commands_are_answered_as_written(screen: Screen) -> None:
    assert answer(screen, "/equip room sshwarma:join,leave,go,create") == [
        "Equipped sshwarma:join, sshwarma:leave, sshwarma:go, sshwarma:create in this room."
    ]
    assert answer(screen, "/unequip room sshwarma:join,leave,go,create") == [
        "Unequipped sshwarma:join, sshwarma:leave, sshwarma:go, sshwarma:create from this room."
    ]
    assert answer(screen, "/drop room prompt:code-style") == [
        "Dropped prompt:code-style. /restore prompt:code-style brings it back."
    ]
    assert answer(screen, "/inv me")[0] == "Equipped:"
    assert answer(screen, "/rooms")[0] == "Rooms:"
    assert answer(screen, "/look")[0] == "workshop"
    answer(screen, "/portal north studio")
    screen.enter("/go north")
    screen.wait_for_prompt("studio")
    screen.enter("/leave")
    screen.wait_for_prompt("lobby")
    screen.enter("/create myroom")
    screen.wait_for_prompt("myroom")
    screen.enter("/join workshop")
    screen.wait_for_prompt("workshop")


def test_answer_helper_finds_only_printed_words(screen: Screen) -> None:
    """The helper above can fail: it does not find words that were never printed."""
    assert answer(screen, "/exits") == ["There are no exits from workshop."]
