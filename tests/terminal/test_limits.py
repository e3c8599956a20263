"""Every limit, one over."""

from __future__ import annotations

from collections.abc import Callable

from sshwarma.common.limits import (
    MAX_KEYS_BURST,
    MAX_PASTE_CHARACTERS,
    MAX_QUEUED_BLOCKS,
    MAX_UNDO_STEPS,
)
from sshwarma.terminal.editor import MAX_HISTORY_QUERY_CHARACTERS, Editor
from sshwarma.terminal.history import MAX_ADDED_LINES, MAX_SEARCHED_LINES, InputHistory
from sshwarma.terminal.keys import KeyPress
from sshwarma.terminal.output import MAX_WRITE_BYTES
from sshwarma.terminal.printed_blocks import MAX_RECENT_BLOCKS
from sshwarma.terminal.terminal import MAX_INSTANT_DRAFT_CHARACTERS
from sshwarma.terminal.text import block
from sshwarma.terminal.vi import MAX_REPEAT_COUNT
from support.terminal_person import Person

Sit = Callable[..., Person]


def test_added_history_lines_are_bounded() -> None:
    history = InputHistory()
    for number in range(MAX_ADDED_LINES + 1):
        history.add(str(number))
    assert (len(history.added_lines), history.added_lines[0]) == (MAX_ADDED_LINES, "1")


def test_searched_history_lines_are_bounded() -> None:
    history = InputHistory(["needle", *["hay"] * MAX_SEARCHED_LINES])
    assert history.find("needle", len(history) - 1) is None
    assert history.find("needle", len(history) - 2) == 0


def test_undo_steps_are_bounded() -> None:
    editor = Editor()
    for _ in range(MAX_UNDO_STEPS + 1):
        editor.press(KeyPress("paste", "x"))
    for _ in range(MAX_UNDO_STEPS + 1):
        editor.press(KeyPress("c-_"))
    assert editor.text == "x"


def test_search_query_length_is_bounded() -> None:
    editor = Editor()
    editor.press(KeyPress("c-r"))
    editor.press(KeyPress("text", "x" * (MAX_HISTORY_QUERY_CHARACTERS + 1)))
    assert len(editor.search_query or "") == MAX_HISTORY_QUERY_CHARACTERS


def test_vi_repeat_count_is_bounded() -> None:
    editor = Editor(vi=True)
    editor.press(KeyPress("text", "x" * 2000))
    editor.press(KeyPress("escape"))
    editor.press(KeyPress("text", "099999x"))
    assert len(editor.text) == 2000 - MAX_REPEAT_COUNT


def test_queue_while_paused_is_bounded(sit: Sit) -> None:
    alice = sit()
    alice.terminal.pause()
    for number in range(MAX_QUEUED_BLOCKS + 1):
        alice.terminal.print(block(str(number)))
    alice.terminal.resume()
    alice.wait()
    seen = alice.pyte_screen.everything()
    assert seen[0] == "[1 lines skipped]"
    assert seen[1] == "1"


def test_no_line_is_skipped_while_the_writer_has_room(sit: Sit) -> None:
    alice = sit()
    for number in range(MAX_QUEUED_BLOCKS * 3):
        alice.terminal.print(block(str(number)))
    alice.wait()
    assert alice.pyte_screen.everything()[: MAX_QUEUED_BLOCKS * 3] == list(
        map(str, range(MAX_QUEUED_BLOCKS * 3))
    )


def test_repainted_blocks_are_bounded(sit: Sit) -> None:
    alice = sit(rows=200)
    alice.terminal.set_live_block("none", None)
    for number in range(MAX_RECENT_BLOCKS + 50):
        alice.terminal.print(block(str(number)))
    alice.wait()
    alice.resize(50, 200)
    assert alice.rows()[0] == "51"  # 199 rows above the prompt
    assert len(alice.terminal._output._recent) == MAX_RECENT_BLOCKS


def test_key_burst_over_the_limit_is_refused(sit: Sit) -> None:
    alice = sit()
    alice.type("\x02" * MAX_KEYS_BURST)
    assert not any("too much input at once" in row for row in alice.rows())
    alice.type("\x02")
    alice.wait()
    assert any("too much input at once" in row for row in alice.rows())


def test_paste_over_the_limit_is_refused(sit: Sit) -> None:
    alice = sit()
    alice.type("before")
    alice.type(b"\x1b[200~" + b"x" * (MAX_PASTE_CHARACTERS + 1) + b"\x1b[201~")
    alice.wait()
    assert alice.terminal.draft == "before"
    assert "the line is too long" in alice.rows()[0]


def test_long_draft_is_drawn_only_once_per_frame(sit: Sit) -> None:
    alice = sit()
    alice.type("x" * (MAX_INSTANT_DRAFT_CHARACTERS + 1))
    alice.wait()
    alice.written.clear()
    for _ in range(20):
        alice.type("\x01")
        alice.type("\x05")
    assert alice.written == []
    alice.wait()
    assert len(alice.written) == 1


def test_memory_of_an_unfinished_paste_is_bounded(sit: Sit) -> None:
    alice = sit()
    alice.type(b"\x1b[200~")
    for _ in range(100):
        alice.type(b"y" * 4096)
    assert sum(map(len, alice.terminal._parser._paste)) == MAX_PASTE_CHARACTERS
    alice.wait(1.1)
    alice.wait()
    assert alice.terminal.draft == ""
    assert any("the line is too long" in row for row in alice.rows())


def test_long_block_is_written_in_pieces_while_the_writer_has_room(sit: Sit) -> None:
    alice = sit()
    alice.terminal.print(block(*(f"row {number} of a long answer" for number in range(5_000))))
    alice.wait()
    pieces = [len(data) for data in alice.written]
    assert sum(pieces) > 2 * MAX_WRITE_BYTES
    assert max(pieces) < MAX_WRITE_BYTES + 1_000  # and the prompt
    seen = alice.pyte_screen.everything()
    assert seen[0] == "row 0 of a long answer"
    assert "row 4999 of a long answer" in seen


def test_long_block_waits_for_a_slow_reader_and_loses_no_row(sit: Sit) -> None:
    alice = sit()
    rows = [f"row {number} of a long answer" for number in range(4_000)]
    write = alice.terminal._output._write

    def write_and_pause(data: bytes) -> None:
        write(data)
        if len(data) > 1_000:
            alice.terminal.pause()

    alice.terminal._output._write = write_and_pause
    alice.terminal.print(block(*rows))
    alice.terminal.print(block("the newest"))
    for _ in range(20):
        alice.written.clear()
        alice.wait()
        assert len(alice.written) <= 1
        alice.terminal.resume()
    assert alice.pyte_screen.everything()[:4_001] == [*rows, "the newest"]


def test_repaint_pushes_no_copy_of_the_screen_into_the_scrollback(sit: Sit) -> None:
    """Terminals such as tmux keep a screen that is erased from its first row."""
    alice = sit()
    alice.hear("bob: hi")
    alice.written.clear()
    alice.resize(60, 20)
    alice.resize(80, 30)
    assert b"\x1b[H\x1b[J" not in alice.bytes
    assert b"\x1b[2J" not in alice.bytes
    assert alice.pyte_screen.everything().count("bob: hi") == 1
