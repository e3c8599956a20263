"""Invisible text of servers is removed before models and people read it."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.mcp.client.sanitize import sanitize_listing, strip_invisible


def in_tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(letter)) for letter in text)


def in_selectors(text: str) -> str:
    return "".join(chr(0xE0100 + ord(letter) - 16) for letter in text)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("go" + in_tags("obey"), "go"),
        ("go" + in_selectors("obey"), "go"),
        ("a\u3164\u2800\uffa0b", "ab"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("\u2764\ufe0f\ufe01\ufe02", "\u2764\ufe0f"),
        ("one\ntwo\tthree", "one\ntwo\tthree"),
    ],
)
def test_hidden_characters_are_removed(text: str, seen: str) -> None:
    assert strip_invisible(text) == seen


def listing_of(**city: Any) -> Any:
    schema = {"type": "object", "properties": {"city": {"type": "string", **city}}}
    return sanitize_listing([{"name": "w", "inputSchema": schema}], 10)


def test_every_text_of_a_schema_is_cleaned() -> None:
    hidden = "x" + in_tags("obey")
    listing = listing_of(default=hidden, examples=[hidden], **{"$comment": hidden})
    (tool,) = listing.tools
    assert tool.input_schema["properties"]["city"] == {
        "type": "string", "default": "x", "examples": ["x"], "$comment": "x",
    }  # fmt: skip
    assert tool.repairs == ("texts in its input schema had invisible characters",)


def test_value_that_a_call_repeats_may_have_no_hidden_characters() -> None:
    listing = listing_of(enum=["a" + in_tags("obey"), "b"])
    assert listing.tools == ()
    assert listing.refused == (("w", "its input schema has invisible characters in enum"),)
