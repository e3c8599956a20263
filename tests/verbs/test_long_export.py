"""A long room as a document, which is made without holding the event loop."""

from __future__ import annotations

import threading
from dataclasses import replace
from unittest.mock import patch

import pytest

from sshwarma.ssh.door.context import LINES_PER_PIECE, encode_plain_block, encode_plain_lines
from sshwarma.terminal.text import split_text
from sshwarma.verbs.export import ExportedRoom, ExportedRow, export_room
from sshwarma.verbs.views import draw_lines, draw_result
from sshwarma.world import rows
from sshwarma.world.agents import AgentDirectory
from sshwarma.world.store import Change
from support.people import Someone

LONG = "a\n\n" * LINES_PER_PIECE


def make_room(*texts: str) -> ExportedRoom:
    made = tuple(ExportedRow(n, 0, "chat", "ann", text) for n, text in enumerate(texts))
    return ExportedRoom("lobby", 0, "", "", "open", (), (), 0, made, None)


@pytest.mark.parametrize("texts", [(), ("one", "two\nthree", "\n", ""), (LONG,)])
def test_document_in_pieces_is_that_of_its_block(texts: tuple[str, ...]) -> None:
    room = make_room(*texts)
    in_pieces = encode_plain_lines(draw_lines(room), utf8=True, newline="\r\n")
    assert in_pieces == encode_plain_block(draw_result(room), utf8=True, newline="\r\n")


def test_lines_of_a_document_are_drawn_one_by_one() -> None:
    """The search for garbage in a million at a time holds the event loop."""
    lines = draw_lines(make_room(LONG))
    assert iter(lines) is lines


@pytest.mark.parametrize("text", ["", "a", "a\n", "\n\na\r\nb"])
def test_text_is_split_as_by_python(text: str) -> None:
    assert list(split_text(text)) == text.split("\n")


async def test_rows_are_made_in_a_thread(alice: Someone) -> None:
    def fill(tx: Change) -> None:
        rows.append_row(tx, alice.room_id, "chat", "hello", author_id=alice.id)

    await alice.world.change(fill)
    threads: list[threading.Thread] = []

    def name_of(agents: AgentDirectory, agent_id: str | None) -> str:
        threads.append(threading.current_thread())
        return "ann"

    with patch.object(AgentDirectory, "name_of", name_of):
        made = await export_room(replace(alice.caller, door="sftp"))
    assert isinstance(made, ExportedRoom) and made.rows[-1].who == "ann"
    assert threads and threading.main_thread() not in threads
