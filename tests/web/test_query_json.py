"""Values of a query that are JSON: what takes long, or is too deep, stays a text."""

from __future__ import annotations

import pytest

from sshwarma.web.endpoints import _read_json


@pytest.mark.parametrize("text", ["[" * 5_000, "[" + "[]," * 20_000 + "1]", "{nonsense"])
def test_json_that_is_not_parsed_stays_a_text(text: str) -> None:
    assert _read_json(text) == text


def test_json_of_a_query_is_read() -> None:
    assert _read_json('{"a": [1]}') == {"a": [1]}
