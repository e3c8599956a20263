"""Every limit, one over."""

from __future__ import annotations

from collections.abc import Callable

from person import Person

from sshwarma.terminal.buffer import UNDO_MAX
from sshwarma.terminal.editor import QUERY_MAX, Editor
from sshwarma.terminal.history import ADDED_MAX, SEARCH_MAX, History
from sshwarma.terminal.keys import PASTE_MAX, Key
from sshwarma.terminal.output import QUEUE_MAX, RECENT_MAX
from sshwarma.terminal.terminal import DRAFT_LONG, KEYS_BURST
from sshwarma.terminal.text import block
from sshwarma.terminal.vi import COUNT_MAX

Sit = Callable[..., Person]


def test_added_history() -> None:
    history = History()
    for number in range(ADDED_MAX + 1):
        history.add(str(number))
    assert (len(history.added), history.added[0]) == (ADDED_MAX, "1")


def test_lines_a_search_looks_at() -> None:
    history = History(["needle", *["hay"] * SEARCH_MAX])
    assert history.find("needle", len(history) - 1) is None
    assert history.find("needle", len(history) - 2) == 0


def test_undo_steps() -> None:
    editor = Editor()
    for _ in range(UNDO_MAX + 1):
        editor.press(Key("paste", "x"))
    for _ in range(UNDO_MAX + 1):
        editor.press(Key("c-_"))
    assert editor.text == "x"


def test_search_query() -> None:
    editor = Editor()
    editor.press(Key("c-r"))
    editor.press(Key("text", "x" * (QUERY_MAX + 1)))
    assert len(editor.searching or "") == QUERY_MAX


def test_vi_count() -> None:
    editor = Editor(vi=True)
    editor.press(Key("text", "x" * 2000))
    editor.press(Key("escape"))
    editor.press(Key("text", "099999x"))
    assert len(editor.text) == 2000 - COUNT_MAX


def test_queue_while_paused(sit: Sit) -> None:
    alice = sit()
    alice.terminal.pause()
    for number in range(QUEUE_MAX + 1):
        alice.terminal.print(block(str(number)))
    alice.terminal.resume()
    alice.wait()
    seen = alice.glass.everything()
    assert seen[0] == "[1 lines skipped]"
    assert seen[1] == "1"


def test_nothing_is_skipped_while_the_writer_has_room(sit: Sit) -> None:
    alice = sit()
    for number in range(QUEUE_MAX * 3):
        alice.terminal.print(block(str(number)))
    alice.wait()
    assert alice.glass.everything()[: QUEUE_MAX * 3] == list(map(str, range(QUEUE_MAX * 3)))


def test_blocks_painted_again(sit: Sit) -> None:
    alice = sit(rows=200)
    alice.terminal.set_live("none", None)
    for number in range(RECENT_MAX + 50):
        alice.terminal.print(block(str(number)))
    alice.wait()
    alice.resize(50, 200)
    assert alice.rows()[0] == "51"  # 199 rows above the prompt
    assert len(alice.terminal._output._recent) == RECENT_MAX


def test_a_burst_of_keys(sit: Sit) -> None:
    alice = sit()
    alice.type("\x02" * KEYS_BURST)
    assert not any("more than a person" in row for row in alice.rows())
    alice.type("\x02")
    alice.wait()
    assert any("more than a person" in row for row in alice.rows())


def test_a_paste_over_the_limit_is_refused_whole(sit: Sit) -> None:
    alice = sit()
    alice.type("before")
    alice.type(b"\x1b[200~" + b"x" * (PASTE_MAX + 1) + b"\x1b[201~")
    alice.wait()
    assert alice.terminal.draft == "before"
    assert "too much" in alice.rows()[0]


def test_a_long_draft_is_drawn_with_the_frame(sit: Sit) -> None:
    alice = sit()
    alice.type("x" * (DRAFT_LONG + 1))
    alice.wait()
    alice.written.clear()
    for _ in range(20):
        alice.type("\x01")
        alice.type("\x05")
    assert alice.written == []
    alice.wait()
    assert len(alice.written) == 1


def test_an_unfinished_paste_costs_no_more_than_the_limit(sit: Sit) -> None:
    alice = sit()
    alice.type(b"\x1b[200~")
    for _ in range(100):
        alice.type(b"y" * 4096)
    assert sum(map(len, alice.terminal._parser._paste)) == PASTE_MAX
    alice.wait(1.1)
    alice.wait()
    assert alice.terminal.draft == ""
    assert any("too much" in row for row in alice.rows())
