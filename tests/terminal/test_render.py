"""Blocks to rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.terminal.render import DisplayOptions, render_block, render_plain
from sshwarma.terminal.text import MAX_RENDERINGS, PLAIN_ONLY_STYLE, Block, Line, block, line
from sshwarma.terminal.width import text_width
from sshwarma.verbs.views import draw_columns, split_usage

PLAIN = DisplayOptions(20, "mono", True, False)


def rows(heard: Block, look: DisplayOptions = PLAIN) -> list[str]:
    return render_block(heard, look).decode().split("\r\n")[:-1]


@pytest.mark.parametrize(
    ("text", "hang", "expected"),
    [
        ("short", 0, ["short"]),
        ("", 0, [""]),
        ("exactly twenty chars", 0, ["exactly twenty chars"]),
        ("one two three four five", 0, ["one two three four", "five"]),
        ("one two three four five", 4, ["one two three four", "    five"]),
        ("w" * 45, 0, ["w" * 20, "w" * 20, "w" * 5]),
        ("ab " + "w" * 25, 2, ["ab " + "w" * 17, "  " + "w" * 8]),
        ("    indented text that wraps", 4, ["    indented text", "    that wraps"]),
        ("eighteen columns → naïveté…", 0, ["eighteen columns →", "naïveté…"]),
        ("日本語日本語日本語日本語", 0, ["日本語日本語日本語日", "本語"]),
        ("twenty chars exactly " * 2, 0, ["twenty chars exactly", "twenty chars exactly"]),
        (" " * 30, 0, [""]),
        ("a" + " " * 30 + "b", 0, ["a", "b"]),
    ],
)
def test_lines_are_wrapped(text: str, hang: int, expected: list[str]) -> None:
    assert [row.rstrip() for row in rows(block(line(text, hang=hang)))] == expected


def test_style_continues_on_the_next_row_and_is_reset() -> None:
    written = render_block(
        block(line(("error", "one two three four five"), hang=0)), DisplayOptions(20, "dark")
    )
    assert written == b"\x1b[91mone two three four\x1b[0m\r\n\x1b[91mfive\x1b[0m\r\n"


def test_mono_theme_has_no_colour() -> None:
    from sshwarma.terminal.text import STYLE_NAMES

    everything = block(line(*[(style, "x") for style in STYLE_NAMES]))
    written = render_block(everything, DisplayOptions(80, "mono")).decode()
    assert not any(f"\x1b[{number}" in written for number in (3, 9))


def test_marks_become_ascii_without_utf8() -> None:
    heard = block("✓ ✗ ○ · → █ … é 日")
    assert (
        render_block(heard, DisplayOptions(80, "mono", utf8=False)) == b"+ x o - -> # ... ? ?\r\n"
    )
    assert render_plain(heard, utf8=False) == "+ x o - -> # ... ? ?"
    assert render_plain(heard) == "✓ ✗ ○ · → █ … é 日"


def test_plain_output_has_no_escape_and_leaves_the_last_column_free() -> None:
    heard = block(line(("error", "x" * 45), hang=0))
    assert rows(heard, DisplayOptions(20, "dark", True, True)) == ["x" * 19, "x" * 19, "x" * 7]


def test_folded_line_is_cut_to_one_row() -> None:
    folded = Line((("", "head "), ("", "a text that goes on"), ("", " /expand 7")), hang=2, fold=1)
    assert rows(Block((folded,)), DisplayOptions(40, "mono")) == [
        "head a text that goes on /expand 7"
    ]
    assert rows(Block((folded,)), DisplayOptions(26, "mono")) == ["head a text tha… /expand 7"]
    assert rows(Block((folded,)), DisplayOptions(26, "mono", utf8=False)) == [
        "head a text t... /expand 7"
    ]
    assert rows(Block((folded,)), DisplayOptions(20, "mono")) == ["head a tex… /expand", "  7"]


def table(*texts: str, indent: int = 2) -> Block:
    return block(*draw_columns([("name", "12 rows", text) for text in texts], indent=indent))


def test_last_column_wraps_below_itself() -> None:
    assert rows(table("one two three four five six seven eight"), DisplayOptions(60, "mono")) == [
        "  name  12 rows  one two three four five six seven eight"
    ]
    assert rows(table("one two three four five six seven eight"), DisplayOptions(54, "mono")) == [
        "  name  12 rows  one two three four five six seven",
        "                 eight",
    ]


def test_last_column_gets_its_own_rows_if_the_screen_is_narrow() -> None:
    narrow = DisplayOptions(24, "mono")
    assert rows(table("short"), narrow) == ["  name  12 rows  short"]
    assert rows(table("short", "", "one two three four five"), narrow) == [
        "  name  12 rows",
        "    short",
        "  name  12 rows",
        "  name  12 rows",
        "    one two three four",
        "    five",
    ]
    assert rows(table("short", "one two three", indent=8), DisplayOptions(20, "mono")) == [
        "        name",
        "          12 rows",
        "          short",
        "        name",
        "          12 rows",
        "          one two",
        "          three",
    ]


def test_last_column_is_cut_if_allowed() -> None:
    cells = [("name", "12 rows", "one two three four five six")]
    cut = block(*draw_columns(cells, cut_last=True))
    assert rows(cut, DisplayOptions(36, "mono")) == ["  name  12 rows  one two three four…"]
    assert rows(cut, DisplayOptions(24, "mono")) == ["  name  12 rows", "    one two three four …"]


def test_usage_breaks_between_options() -> None:
    usage = Line(tuple(split_usage("/mcp add NAME [--header HEADER]… [--env ENV]…")), hang=4)
    usage = replace(usage, breaks_between_spans=True)
    assert rows(block(usage), DisplayOptions(30, "mono")) == [
        "/mcp add NAME",
        "    [--header HEADER]…",
        "    [--env ENV]…",
    ]
    assert rows(block(usage), DisplayOptions(20, "mono")) == [
        "/mcp add NAME",
        "    [--header",
        "    HEADER]…",
        "    [--env ENV]…",
    ]


def test_styles_can_be_combined() -> None:
    heard = block(line(("heading link", "x"), ("no-such", "y"), ("verb no-such", "z")))
    assert (
        render_block(heard, DisplayOptions(20, "dark"))
        == b"\x1b[1m\x1b[4;94mx\x1b[0my\x1b[1mz\x1b[0m\r\n"
    )


def test_plain_only_text_is_shown_only_without_styles() -> None:
    heard = block(line((PLAIN_ONLY_STYLE, "# "), ("heading", "Top")))
    assert rows(heard, DisplayOptions(20, "mono"))[0].endswith("Top\x1b[0m")
    assert "#" not in rows(heard, DisplayOptions(20, "mono"))[0]
    assert rows(heard, DisplayOptions(20, "mono", plain=True)) == [render_plain(heard)] == ["# Top"]


@given(
    st.lists(st.tuples(st.sampled_from(["", "error"]), st.text("ab 日", max_size=30)), max_size=9),
    st.integers(20, 30),
)
def test_wrapping_keeps_the_style_of_each_character(
    spans: list[tuple[str, str]], columns: int
) -> None:
    written = "".join(rows(block(line(*spans)), DisplayOptions(columns, "dark")))
    shown = render_plain(block(line(*spans)))
    red = "".join(part.partition("\x1b[0m")[0] for part in written.split("\x1b[91m")[1:])
    wanted = "".join(text for style, text in spans if style == "error")
    assert "".join(red.split()) == "".join(wanted.split())
    assert "".join(written.replace("\x1b[91m", "").replace("\x1b[0m", "").split()) == "".join(
        shown.split()
    )


def test_rendering_cache_is_bounded() -> None:
    heard = block("hello")
    for columns in range(20, 120):
        render_block(heard, DisplayOptions(columns))
    assert len(heard.renderings) == MAX_RENDERINGS
    assert render_block(heard, DisplayOptions(119)) is render_block(heard, DisplayOptions(119))


TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("ab    日本👨👩\u200d\ufe0f\u0301🇫🇷\x1b한\u1100")),
    max_size=80,
)


@given(
    st.lists(st.tuples(st.sampled_from(["", "error", "?"]), TEXT), max_size=4),
    st.integers(-5, 99),
    st.integers(20, 40),
    st.booleans(),
)
def test_rows_fit_the_width_and_keep_all_words(
    spans: list[tuple[str, str]], hang: int, columns: int, utf8: bool
) -> None:
    heard = block(line(*spans, hang=hang))
    found = rows(heard, DisplayOptions(columns, "dark", utf8, True))
    assert all(text_width(row) < columns for row in found)
    assert "".join("".join(found).split(" ")) == "".join(render_plain(heard, utf8).split(" "))
