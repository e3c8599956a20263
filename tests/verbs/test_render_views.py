"""A terminal shows the beginning of a result, and the rest costs next to nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.common.limits import MAX_ROW_PART_CHARACTERS
from sshwarma.toolsets.render_plan import RenderContext, make_render_plan
from sshwarma.verbs.render_views import draw_render_plan
from sshwarma.world.reader import PERSON


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
