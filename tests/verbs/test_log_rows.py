"""Rows of a log as those see them who read along."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.limits import (
    MAX_SHOWN_ANSWER_CHARACTERS,
    MAX_SHOWN_ANSWER_LINES,
    MAX_SHOWN_RESULT_LINES,
    MAX_SHOWN_ROW_LINES,
)
from sshwarma.terminal.render import DisplayOptions, render_block, render_plain
from sshwarma.verbs.log_rows import (
    MAX_FOLDED_CHARACTERS,
    RowDisplayOptions,
    draw_row,
    is_row_visible,
)
from sshwarma.verbs.views import format_call_time
from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.row import Row

AGENTS = AgentDirectory()
AGENTS.load([Agent("1", "ann"), Agent("2", "qwen", kind="model")], ())
DRAWN = RowDisplayOptions(markdown=True)


def row(kind: str, content: str, author: str = "2", **meta: Any) -> Row:
    return Row("r", "room", 42, kind, content, author, 0, meta=meta)


def seen(made: Row, reading: RowDisplayOptions = DRAWN, viewer: str | None = None) -> str:
    return render_plain(draw_row(made, AGENTS, viewer, reading))


def test_only_messages_of_models_are_markdown() -> None:
    text = "# Top\n\n*x*"
    assert seen(row("chat", text)) == "qwen:\n  # Top\n\n  x"
    assert seen(row("chat", text), RowDisplayOptions()) == "qwen: # Top\n\n  *x*"
    for author in ("1", "gone"):
        assert seen(row("chat", text, author)).endswith("# Top\n\n  *x*")
    assert seen(row("emote", "*x*")) == "* qwen *x*"
    assert seen(row("journal.note", "*x*")) == "[note] qwen: *x*"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"path": "a b.py", "lines": 3}', ' path="a b.py" lines=3 /expand 42'),
        ("hello", " hello /expand 42"),
    ],
)
def test_result_with_a_renderer_is_shown_by_its_values(content: str, expected: str) -> None:
    made = row("tool.result", content, tool="kit:read", renderer="code")
    assert seen(made) == f"  ✓ kit:read · code ·{expected}"


@pytest.mark.parametrize(
    ("kind", "content", "meta", "expected"),
    [
        ("tool.result", "done", {"seconds": 0.1}, "✓ kit:do 0.1s · changed a · done"),
        ("tool.result", "", {}, "✓ kit:do · changed a · nothing"),
        (
            "tool.result",
            '{"n": 1}',
            {"renderer": "code"},
            "✓ kit:do · changed a · code · n=1 /expand 42",
        ),
        ("tool.error", "it went boom", {"seconds": 2}, "✗ kit:do 2.0s · changed a · it went boom"),
    ],
)
def test_result_of_a_call_names_the_files_that_it_changed(
    kind: str, content: str, meta: dict[str, Any], expected: str
) -> None:
    made = row(kind, content, tool="kit:do", changes="changed a", **meta)
    assert seen(made) == f"  {expected}"


def test_mention_by_a_model_is_highlighted() -> None:
    made = draw_row(row("chat", "@ann **look**"), AGENTS, "1", DRAWN)
    assert ("mention", "qwen") in made.lines[0].spans
    assert ("strong", "look") in made.lines[0].spans


def test_model_answers_have_a_higher_length_limit() -> None:
    long = "\n".join(f"line {number}" for number in range(MAX_SHOWN_ROW_LINES * 2))
    assert "more characters" not in seen(row("chat", long))
    assert seen(row("chat", long, "1")).endswith("more characters: /history --row 42")
    for text in ("x\n" * (MAX_SHOWN_ANSWER_LINES + 5), "word " * MAX_SHOWN_ANSWER_CHARACTERS):
        shown = seen(row("chat", text))
        assert shown.endswith("more characters: /history --row 42")
        assert len(shown) < MAX_SHOWN_ANSWER_CHARACTERS + 5 * MAX_SHOWN_ANSWER_LINES


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ""),
        ({"at": "door", "n": 3, "deep": {"a": [1, None]}}, ' at=door n=3 deep={"a": [1, null]}'),
        ({"text": "two words", "empty": "", "odd": 'a"b'}, ' text="two words" empty="" odd="a"b"'),
        ({"text": "a\nb"}, ' text="a\\nb"'),
        ({"text": "x" * 200, "n": 1}, f" text={'x' * 39}… n=1 /expand 42"),
    ],
)
def test_tool_call_arguments_are_shown_as_names_and_values(
    arguments: dict[str, Any], expected: str
) -> None:
    made = row("tool.call", json.dumps(arguments), tool="sshwarma:look")
    assert seen(made) == f"⚙ qwen → sshwarma:look{expected}"


def test_malformed_arguments_are_shown_as_text() -> None:
    assert seen(row("tool.call", "not json", tool="t")) == '⚙ qwen → t "not json"'
    assert seen(row("tool.call", "[" * 60_000, tool="t")).endswith("[… /expand 42")


def test_tool_result_is_one_line_with_its_size() -> None:
    short = row("tool.result", "done", tool="a:b", seconds=0.123)
    assert seen(short) == "  ✓ a:b 0.1s · done"
    assert seen(row("tool.result", "", tool="a:b")) == "  ✓ a:b · nothing"
    long = row("tool.result", "one\n" * 700, tool="a:b", seconds=2)
    assert seen(long).startswith("  ✓ a:b 2.0s · 700 lines, 2.8 kB · one one one")
    assert seen(long).endswith("… /expand 42")
    look = DisplayOptions(70, "mono")
    assert render_block(draw_row(long, AGENTS, None), look).count(b"\r\n") == 1


def test_full_tool_result_shows_its_first_lines() -> None:
    text = "\n".join(f"  line {number}" for number in range(30))
    shown = seen(row("tool.result", text, tool="a:b"), RowDisplayOptions(tools="full")).split("\n")
    assert shown[0] == "  ✓ a:b · 30 lines, 289 B"
    assert shown[1 : MAX_SHOWN_RESULT_LINES + 1] == [
        f"      line {number}" for number in range(MAX_SHOWN_RESULT_LINES)
    ]
    assert shown[MAX_SHOWN_RESULT_LINES + 1 :] == ["    … /expand 42"]
    whole = seen(row("tool.result", "a\nb\n", tool="a:b"), RowDisplayOptions(tools="full"))
    assert whole == "  ✓ a:b · 2 lines, 3 B\n    a\n    b"


def test_hidden_tool_rows_are_shown_on_failure() -> None:
    hidden = RowDisplayOptions(tools="hidden")
    for kind in ("tool.call", "tool.result"):
        assert not is_row_visible(row(kind, "x"), hidden)
        assert not draw_row(row(kind, "x"), AGENTS, None, hidden).lines
    for kind in ("tool.error", "tool.timeout"):
        assert seen(row(kind, "it broke", tool="a:b"), hidden) == "  ✗ a:b · it broke"
    assert "thought: hm" in seen(row("thought", "hm"), hidden)


@given(st.text(max_size=400), st.sampled_from(["folded", "full"]))
def test_any_tool_row_is_shown_within_bounds(text: str, tools: Any) -> None:
    for made in (
        row("tool.call", json.dumps({text: text, "b": [text]}), tool=text[:20]),
        row("tool.call", text, tool="t"),
        row("tool.result", text, tool="t"),
        row("thought", text),
    ):
        shown = draw_row(made, AGENTS, None, RowDisplayOptions(tools=tools)).plain()
        assert tools == "full" or len(shown) < 4 * MAX_FOLDED_CHARACTERS + 20
        assert tools == "full" or "\n" not in shown


def test_wait_of_a_call_is_shown_apart() -> None:
    assert format_call_time(0.21, 31.04) == "0.2s, waited 31.0s"
    assert format_call_time(0.21, 0.4) == format_call_time(0.21) == "0.2s"
