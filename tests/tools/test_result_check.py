"""What of the results of tools is stored and shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sshwarma.common.limits import MAX_RESULT_BYTES, MAX_RESULT_LEVELS
from sshwarma.tools.provider import ToolResult
from sshwarma.tools.result_check import check_result, format_value


def nest(levels: int, inner: Any = 1) -> Any:
    value = inner
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "result",
    [
        ToolResult("text", {"a": [1, None, "ü"]}),
        ToolResult("x" * 200_000, [1] * 100_000),
        ToolResult("", nest(MAX_RESULT_LEVELS)),
        ToolResult("failed", is_error=True),
    ],
)
async def test_usual_results_stay_as_they_are(result: ToolResult) -> None:
    assert await check_result(result) is result


@pytest.mark.parametrize(
    ("text", "value", "why"),
    [
        ("", nest(MAX_RESULT_LEVELS + 1), "over 100 levels"),
        ("", nest(5_000), "over 100 levels"),
        ("", nest(90, [1] * 100_000), "over 8 MiB, with indentation"),
        ("", [1] * (MAX_RESULT_BYTES + 1), "over 8 MiB"),
        ("", {"x" * MAX_RESULT_BYTES: 1}, "over 8 MiB"),
        ("x" * (MAX_RESULT_BYTES + 1), None, "over 8 MiB"),
        ("a\ud800b", None, "not valid Unicode"),
        ("", ["a\ud800b"], "not valid Unicode"),
        ("", {"a\ud800b": 1}, "not valid Unicode"),
    ],
)
async def test_result_that_cannot_be_stored_becomes_an_error(
    text: str, value: Any, why: str
) -> None:
    checked = await check_result(ToolResult(text, value))
    assert checked.is_error and checked.structured is None
    assert why in checked.text and len(checked.text) < 200


def test_long_values_are_not_indented() -> None:
    """A level of indentation for each of many values is most of the text."""
    short, long, deep = {"a": [1, 2]}, [[1]] * 2_000, nest(21)
    assert format_value(short) == json.dumps(short, indent=2)
    assert format_value(long) == json.dumps(long)
    assert format_value(deep) == json.dumps(deep)
    assert format_value(nest(5_000)) == ""
