"""Terminals that can do little, and how a session leaves the terminal."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import pytest

from support.driver import Person, Server
from support.driver.covers import covers
from support.driver.person import CLEAN
from support.driver.screen import Screen
from support.driver.server import STOP_SECONDS


def test_plain_mode_and_dumb_terminals_get_no_escape_sequences(
    alice: Person, bob: Person, room: str
) -> None:
    alice.does("set plain on")
    plain = alice.sit(room=room)
    dumb = bob.sit(room=room, term="dumb")
    for screen, other in ((plain, dumb), (dumb, plain)):
        screen.enter("/help")
        screen.wait_for("/help VERB")
        screen.enter("/rooms")
        screen.wait_for("Rooms:")
        screen.type("/examin")
        screen.press("tab")
        screen.wait_for(lambda s=screen: s.input.endswith("/examine"))
        screen.press("ctrl-c")
        screen.enter(f"hello from {screen.process.pid}")
        other.wait_for(f"hello from {screen.process.pid}")
    for screen in (plain, dumb):
        screen.wait_for_prompt(room)
        screen.press("ctrl-d")
        assert screen.wait_for_end() == 0
        assert b"\x1b" not in screen.raw
        assert screen.terminal_is_clean() == []


def test_command_at_a_terminal_is_wrapped_between_words(alice: Person) -> None:
    words = alice.ssh("-t")
    narrow = Screen([*words, "help", "mcp"], 40, 60, env={**CLEAN, "TERM": "xterm"})
    assert narrow.wait_for_end() == 0
    rows = [row for row in narrow.raw.decode().split("\r\n") if row.strip()]
    narrow.close()
    assert len(rows) > 20
    assert max(len(row) for row in rows) < 40
    assert alice.run("help mcp").out.count("\n") < len(rows), "a pipe gets whole lines"


def test_plain_mode_is_switched_at_once(alice: Person) -> None:
    screen = alice.sit()
    screen.enter("/set plain on")
    screen.wait_for("plain is on.")
    screen.wait_for(lambda: b"\x1b[?2004l" in screen.raw)
    at = screen.clear_of()
    screen.enter("/who")
    screen.wait_for("Who is here:")
    screen.enter("said plainly")
    screen.wait_for(f"{alice.name}: said plainly")
    assert b"\x1b" not in screen.raw[at:]
    screen.enter("/set plain off")
    screen.wait_for("plain is off.")
    screen.wait_for(lambda: b"\x1b[?2004h" in screen.raw[at:])


def test_draft_is_repeated_in_plain_mode(alice: Person, bob: Person) -> None:
    screen, other = alice.sit(term="dumb"), bob.sit()
    screen.type("half a li")
    screen.wait_for_input("lobby> half a li")
    other.enter("meanwhile")
    screen.wait_for(f"{bob.name}: meanwhile")
    screen.wait_for_input("lobby> half a li")


def test_no_color_variable_disables_colour(alice: Person, room: str) -> None:
    screen = alice.sit(room=room, env={"NO_COLOR": "1"})
    screen.enter("/help")
    screen.wait_for("/help VERB")
    screen.enter("hello")
    screen.wait_for(f"{alice.name}: hello")
    used = set(re.findall(rb"\x1b\[([0-9;]*)m", screen.raw))
    assert used <= {b"0", b"1", b"3", b"4", b"7"}
    coloured = alice.sit(room=room)
    coloured.enter("/help")
    coloured.wait_for("/help VERB")
    assert set(re.findall(rb"\x1b\[([0-9;]*)m", coloured.raw)) - used


def test_output_fits_forty_columns(alice: Person, room: str) -> None:
    alice.does("describe " + "a description that is much longer than one row " * 3)
    alice.does("put prompt:code-style = x", "portal north lobby")
    screen = alice.sit(40, 12, room=room)
    for command in ("/look", "/inv all", "/help portal", "/rooms", "/set", "/examine sshwarma:say"):
        screen.enter(command)
        screen.wait_for_prompt(room)
    screen.enter("the end of it")
    screen.wait_for(f"{alice.name}: the end of it")
    assert all(len(row) <= 40 for row in screen.everything)
    assert "description that is much longer than" in " ".join(screen.text.split())


@covers("quit")
@pytest.mark.parametrize("how", ["/quit", "/bye", "ctrl-d"])
def test_logout_resets_the_terminal(alice: Person, how: str) -> None:
    screen = alice.sit()
    if how == "ctrl-d":
        screen.press("ctrl-d")
    else:
        screen.enter(how)
    assert screen.wait_for_end() == 0
    assert "Goodbye." in screen.text
    assert screen.terminal_is_clean() == []


def test_server_shutdown_is_announced_and_resets_terminals(
    serve: Callable[..., Server],
) -> None:
    server = serve()
    ann, ben = server.person("ann"), server.person("ben")
    screens = [ann.sit(), ben.sit(60, 20), ben.sit(term="dumb")]
    screens[0].type("half a line")
    screens[0].wait_for_input("lobby> half a line")
    screens[1].type("/un")
    screens[1].press("tab")
    screens[1].wait_for("/unequip")
    server.process.send_signal(signal.SIGTERM)
    for screen in screens:
        screen.wait_for("The server is shutting down.")
        screen.wait_for_end()
        assert screen.terminal_is_clean() == []
    assert server.process.wait(STOP_SECONDS) == 0  # a second signal would end it at once
    ann.hang_up()
    ben.hang_up()


def test_killed_client_between_frames_leaves_wrapping_colours_and_cursor_reset(
    alice: Person, room: str
) -> None:
    """The server cannot clean up after a killed client, so it never leaves a mess."""
    screen = alice.sit(room=room)
    screen.enter("/help")
    screen.wait_for("/help VERB")
    screen.type("日本語 half typed")
    screen.wait_for(lambda: "half typed" in screen.input)
    screen.kill()
    left = set(screen.terminal_is_clean())
    # The tty's modes were the dead client's to restore; a shell turns bracketed paste off itself.
    assert left <= {
        "the tty is not as it was",
        "bracketed paste is on",
        "the cursor is not at the start of a row",
    }
