"""What a terminal shows of the plan of a result."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.common.limits import MAX_ROW_PART_CHARACTERS
from sshwarma.terminal.markdown_results import has_table
from sshwarma.terminal.render import DisplayOptions, render_block, render_plain
from sshwarma.terminal.text import Line, Table, block
from sshwarma.toolsets.render_plan import RenderContext, make_render_plan
from sshwarma.verbs.render_views import draw_render_plan, draw_rendered_text
from sshwarma.verbs.run import RunResult
from sshwarma.verbs.views import render_for
from sshwarma.world.reader import API_CLIENT, PERSON


def draw(value: Any) -> list[str]:
    context = RenderContext("room", "/w", "/t")
    plan = make_render_plan("code", {"content": "$return"}, {}, value, context)
    return [one.plain() for one in draw_render_plan(plan, PERSON)]


def test_value_that_is_no_text_is_shown_as_json() -> None:
    assert draw([{"a": 1}]) == ["  [", "   {", '    "a": 1', "   }", "  ]"]


def test_large_value_is_not_indented() -> None:
    """Python's own encoder, which indents, takes a third of a second for it."""
    [only] = draw([{"a": 0}] * 49_000)
    assert only.startswith('  [{"a": 0}, {"a": 0}')
    assert len(only) < 2 * MAX_ROW_PART_CHARACTERS


@pytest.mark.parametrize("value", [{"a": 1}, {"a": [0] * 50_000}])
def test_data_of_a_page_is_shown_with_it(value: dict[str, Any]) -> None:
    plan = {"renderer": "html", "config": {"artifact": "page.html", "data": value}}
    head, *_ = [one.plain() for one in draw_render_plan(plan, PERSON)]
    assert head == "  page page.html, with the data:"


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        ({"port": 3000}, "http://localhost:3000/ on the machine of the server"),
        ({"url": "https://x.example/a"}, "https://x.example/a"),
    ],
)
def test_frame_is_an_address_that_can_be_opened(config: dict[str, Any], shown: str) -> None:
    plan = {"renderer": "frame", "config": config}
    assert render_plain(block(*draw_render_plan(plan, PERSON))) == f"  page: {shown}"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("one line", ["  one line"]),
        ("one\n\ntwo", ["  one", "", "  two"]),
        ("# Title\n\ntext", ["  # Title", "", "  text"]),
        ("- one\n- two", ["  • one", "  • two"]),
        ("```\ncode\n```", ["    code"]),
    ],
)
def test_document_is_indented_from_its_first_line(content: str, shown: list[str]) -> None:
    plan = {"renderer": "document", "config": {"content": content}}
    assert render_plain(block(*draw_render_plan(plan, PERSON))).split("\n") == shown


def test_long_line_of_a_document_is_wrapped_as_indented() -> None:
    plan = {"renderer": "document", "config": {"content": "word " * 9}}
    look = DisplayOptions(20, plain=True)
    rows = render_block(block(*draw_render_plan(plan, PERSON)), look).decode().splitlines()
    assert rows == ["  word word word", "  word word word", "  word word word"]


def test_text_for_programs_is_that_of_the_result() -> None:
    """Its characters are those that `start` of `expand` counts."""
    plan = {"renderer": "code", "config": {"content": "value = 1", "file": "a.py"}}
    ran = RunResult("kit:show", True, '{"shown": true}', None, 0.1, 7, render_plan=plan)
    assert render_for(API_CLIENT, ran).split("\n")[1:] == ['  {"shown": true}']
    drawn = render_for(PERSON, ran).split("\n")[1:]
    assert drawn == ["  value = 1", "  open in workspace: /file show a.py"]


TABLE = "| name | score |\n| --- | ---: |\n| ann | 3 |\n| bob | 12 |"


def test_table_of_a_tool_is_drawn_for_people_and_stays_text_for_programs() -> None:
    drawn = draw_rendered_text(f"Scores:\n\n{TABLE}", None, PERSON, None)
    assert [type(one) for one in drawn if not isinstance(one, Line)] == [Table]
    shown = render_block(block(*drawn), DisplayOptions(60)).decode()
    assert "Scores:" in shown and "---" not in shown and "ann" in shown
    program = draw_rendered_text(TABLE, None, API_CLIENT, None)
    assert "| --- | ---: |" in render_plain(block(*program))


@pytest.mark.parametrize("text", ["a | b", "|x|\n|y|", "a\n| - |", "| a |\n text\n| --- |"])
def test_bars_in_a_text_make_no_table(text: str) -> None:
    assert not has_table(text)
