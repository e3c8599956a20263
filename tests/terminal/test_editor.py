"""The line editor without a screen: keys in, text and cursor out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import MAX_DRAFT_BYTES
from sshwarma.terminal.editor import Editor, EditorAction
from sshwarma.terminal.keys import KeyPress
from sshwarma.terminal.width import snap_to_boundary


def press(editor: Editor, *names: str) -> EditorAction:
    """Keys by name; whatever is not the name of a key is typed."""
    act = EditorAction.NOTHING
    for name in names:
        act = editor.press(KeyPress(name[1:]) if name.startswith(":") else KeyPress("text", name))
    return act


def shown(editor: Editor) -> str:
    """The text with `|` where the cursor is."""
    return editor.text[: editor.cursor] + "|" + editor.text[editor.cursor :]


@pytest.mark.parametrize(
    ("keys", "result"),
    [
        (("abc", ":c-a"), "|abc"),
        (("abc", ":c-b", ":c-b", ":c-f"), "ab|c"),
        (("abc", ":home", ":end"), "abc|"),
        (("one two", ":m-b"), "one |two"),
        (("one two", ":c-left", ":c-left", ":c-right"), "one| two"),
        (("one two", ":c-w"), "one |"),
        (("one a-b", ":m-backspace"), "one a-|"),
        (("one two", ":c-a", ":m-d"), "| two"),
        (("one two", ":m-b", ":c-k"), "one |"),
        (("one two", ":m-b", ":c-u"), "|two"),
        (("one two", ":c-w", ":c-a", ":c-y"), "two|one "),
        (("abc", ":c-t"), "acb|"),
        (("abc", ":c-b", ":c-t"), "acb|"),
        (("日本", ":c-t"), "本日|"),
        (("abc", ":c-a", ":c-d"), "|bc"),
        (("abc", ":c-h"), "ab|"),
        (("abc", ":c-a", ":delete"), "|bc"),
        (("abc", ":c-u", ":c-_"), "abc|"),
        (("a", "b", "c", ":c-_"), "|"),
        (("ab", ":c-w", "cd", ":c-_", ":c-_"), "ab|"),
        (("e\u0301", ":c-h"), "|"),
        (("a", ":m-enter", "b", ":up", "x"), "ax|\nb"),
        (("ab", ":m-enter", "c", ":up", ":c-k", ":c-k"), "a|c"),
        (("日本語 text", ":c-a", ":m-f"), "日本語| text"),
        (("नमस्ते x", ":c-a", ":m-f"), "नमस्ते| x"),
    ],
)
def test_emacs_keys_edit_the_line(keys: tuple[str, ...], result: str) -> None:
    editor = Editor()
    press(editor, *keys)
    assert shown(editor) == result


@pytest.mark.parametrize(
    ("text", "commands", "result"),
    [
        ("one two", "", "one tw|o"),
        ("one two", "0", "|one two"),
        ("one two three", "0w", "one |two three"),
        ("one two three", "02w", "one two |three"),
        ("one two", "b", "one |two"),
        ("one two", "0e", "on|e two"),
        ("  one", "^", "  |one"),
        ("one two", "0$", "one tw|o"),
        ("abc", "0x", "|bc"),
        ("abcd", "02x", "|cd"),
        ("one two", "0dw", "|two"),
        ("one two three", "02dw", "|three"),
        ("one two three", "0d2w", "|three"),
        ("one two", "0cwX", "X| two"),
        ("one two", "dd", "|"),
        ("one two", "ccnew", "new|"),
        ("one two", "0wD", "one| "),
        ("one two", "0wCx", "one x|"),
        ("abc", "0ix", "x|abc"),
        ("abc", "0ax", "ax|bc"),
        ("abc", "Ix", "x|abc"),
        ("abc", "0Ax", "abcx|"),
        ("abc", "0xp", "b|ac"),
        ("abc", "0xxuu", "|abc"),
        ("one two", "0fw", "one t|wo"),
        ("one two", "0tw", "one |two"),
        ("one two", "0dfw", "|o"),
        ("one two", "0dtw", "|wo"),
        ("a.b.c", "0f.;", "a.b|.c"),
        ("abc", "0rx", "|xbc"),
        ("abc", "03rx", "xx|x"),
        ("abc", "hhh", "|abc"),
        ("abc", "0lll", "ab|c"),
        ("日本語", "0lx", "日|語"),
        ("one two", "0yw$p", "one twoone| "),
        ("abc", "d\x00", "ab|c"),
    ],
)
def test_vi_keys_edit_the_line(text: str, commands: str, result: str) -> None:
    editor = Editor(vi=True)
    press(editor, text, ":escape")
    for char in commands:
        press(editor, char)
    assert shown(editor) == result


def test_vi_k_recalls_history_and_enter_submits() -> None:
    editor = Editor(["old"], vi=True)
    press(editor, ":escape", "k")
    assert editor.text == "old"
    assert press(editor, ":enter") is EditorAction.SUBMIT
    editor.take_submitted()
    press(editor, "typed")
    assert editor.text == "typed"


@pytest.mark.parametrize("vi", [False, True])
def test_key_of_a_line_submits_it_only_where_nothing_is_typed(vi: bool) -> None:
    editor = Editor(vi=vi)
    assert press(editor, ":f8") is EditorAction.SUBMIT
    assert editor.text == "/allow"
    editor.take_submitted()
    assert press(editor, "no", ":f9") is EditorAction.BELL
    assert (editor.text, editor.notice) == (
        "no", "the key stands for /deny, and only where nothing is typed",
    )  # fmt: skip


@pytest.mark.parametrize("vi", [False, True])
def test_key_of_a_denial_leaves_room_for_the_reason(vi: bool) -> None:
    editor = Editor(vi=vi)
    assert press(editor, ":f9") is EditorAction.DRAW
    assert press(editor, "too late", ":enter") is EditorAction.SUBMIT
    assert editor.take_submitted() == "/deny too late"


def test_escape_and_letter_in_one_packet_is_a_vi_command() -> None:
    editor = Editor(vi=True)
    press(editor, "one two", ":m-b")
    assert shown(editor) == "one |two"


def test_input_over_the_draft_limit_is_refused() -> None:
    editor = Editor()
    assert press(editor, "x" * MAX_DRAFT_BYTES) is EditorAction.DRAW
    assert press(editor, "y") is EditorAction.BELL
    assert str(MAX_DRAFT_BYTES) in editor.notice
    assert editor.text == "x" * MAX_DRAFT_BYTES
    press(editor, ":c-h")
    assert press(editor, "é") is EditorAction.BELL
    assert press(editor, "y") is EditorAction.DRAW


def test_draft_limit_counts_bytes() -> None:
    editor = Editor()
    assert press(editor, "日" * (MAX_DRAFT_BYTES // 3)) is EditorAction.DRAW
    assert press(editor, "日") is EditorAction.BELL
    assert press(editor, "x") is EditorAction.DRAW


@pytest.mark.parametrize(("size", "act"), [(100, EditorAction.SUBMIT), (101, EditorAction.BELL)])
def test_line_over_the_submit_limit_is_refused_and_kept(size: int, act: EditorAction) -> None:
    editor = Editor()
    editor.submit_limit = 100
    press(editor, "x" * size)
    assert press(editor, ":enter") is act
    assert editor.text == "x" * size


def test_shared_history_is_not_modified() -> None:
    shared = ["a", "b"]
    one, two = Editor(shared), Editor(shared)
    press(one, "new", ":enter")
    one.take_submitted()
    press(one, ":up")
    press(two, ":up")
    assert (one.text, two.text, shared) == ("new", "b", ["a", "b"])


def test_undo_memory_is_bounded() -> None:
    editor = Editor()
    press(editor, "x" * 60_000)
    for _ in range(200):
        press(editor, ":c-b", ":c-d", ":c-y", "z", ":c-h")
    held = sum(len(text) for text, _ in editor.buffer._undo or ())
    assert held <= 4 * MAX_DRAFT_BYTES


KEYS = st.one_of(
    st.text(st.sampled_from("ab 日👨👩\u200d\u0301\ufe0f🇫🇷\x07\n"), min_size=1, max_size=4).map(
        lambda text: KeyPress("text", text)
    ),
    st.text(max_size=5).map(lambda text: KeyPress("paste", text)),
    st.sampled_from(
        [
            "left",
            "right",
            "up",
            "down",
            "home",
            "end",
            "c-a",
            "c-e",
            "c-b",
            "c-f",
            "m-b",
            "m-f",
            "c-left",
            "c-right",
            "c-d",
            "c-h",
            "backspace",
            "delete",
            "c-w",
            "m-d",
            "m-backspace",
            "c-k",
            "c-u",
            "c-y",
            "c-t",
            "c-_",
            "m-enter",
            "c-r",
            "c-s",
            "c-g",
            "c-c",
            "escape",
            "tab",
            "enter",
            "c-p",
            "c-n",
            "c-l",
            "f99",
            "m-x",
            "m-d",
        ]
    ).map(KeyPress),
)


@given(st.lists(KEYS, max_size=40), st.booleans())
def test_any_keys_keep_the_editor_consistent(keys: list[KeyPress], vi: bool) -> None:
    editor = Editor(["older", "日本 old", "👨‍👩‍👧 x"], vi=vi)
    for key in keys:
        if editor.press(key) is EditorAction.SUBMIT:
            editor.take_submitted()
        text, cursor = editor.text, editor.cursor
        assert 0 <= cursor <= len(text)
        if editor.search_query is None:
            assert snap_to_boundary(text, cursor) == cursor
            assert all(char == "\n" or char >= " " for char in text)
            assert editor.buffer._bytes >= len(text.encode())


class Model:
    """The simplest editor there is: a list of characters and a place in it."""

    def __init__(self) -> None:
        self.chars: list[str] = []
        self.at = 0

    def press(self, key: KeyPress) -> None:
        chars, at = self.chars, self.at
        if key.name == "text":
            chars[at:at] = key.data
            self.at += len(key.data)
        elif key.name in ("left", "c-b"):
            self.at = max(0, at - 1)
        elif key.name in ("right", "c-f"):
            self.at = min(len(chars), at + 1)
        elif key.name == "c-a":
            self.at = 0
        elif key.name == "c-e":
            self.at = len(chars)
        elif key.name == "c-h" and at:
            del chars[at - 1]
            self.at -= 1
        elif key.name == "delete":
            del chars[at : at + 1]
        elif key.name == "c-k":
            del chars[at:]
        elif key.name == "c-u":
            del chars[:at]
            self.at = 0


SIMPLE = st.one_of(
    st.text(st.sampled_from("ab 日本é"), min_size=1, max_size=5).map(lambda t: KeyPress("text", t)),
    st.sampled_from(
        ["left", "right", "c-b", "c-f", "c-a", "c-e", "c-h", "delete", "c-k", "c-u"]
    ).map(KeyPress),
)


@given(st.lists(SIMPLE, max_size=60))
def test_editor_matches_a_simple_model(keys: list[KeyPress]) -> None:
    editor, model = Editor(), Model()
    for key in keys:
        editor.press(key)
        model.press(key)
        assert (editor.text, editor.cursor) == ("".join(model.chars), model.at)
