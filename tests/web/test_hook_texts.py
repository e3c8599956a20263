"""What is made of posts and events by templates, within bounds."""

from __future__ import annotations

import json

import pytest

from sshwarma.common.limits import MAX_HOOK_BODY_BYTES, MAX_HOOK_PLACEHOLDERS
from sshwarma.hooks.incoming import make_text, read_document
from sshwarma.hooks.records import IncomingSource
from sshwarma.hooks.templates import check_body, check_template, fill_body, fill_text
from sshwarma.world.errors import Invalid, TooLarge

PLAIN = IncomingSource("", "")


def test_a_deep_document_is_not_indented() -> None:
    """Its indentation would have a thousand times its size."""
    body = "[" * 900 + ",".join("1" * 90_000) + "]" * 900
    text = make_text(PLAIN, read_document(body.encode(), "application/json"))
    assert len(text) < 2 * len(body)


def test_values_of_a_template_have_a_limit_together() -> None:
    assert fill_text("{a} " * 3, {"a": "x" * 1_000}) == ("x" * 1_000 + " ") * 3
    values = {"a": [1] * 50_000}
    with pytest.raises(TooLarge, match=f"limit {MAX_HOOK_BODY_BYTES}"):
        fill_text("{a}" * 20, values)
    for body in ({f"k{number}": "{a}" for number in range(20)}, {"x": ["{a}{a}"]}):
        with pytest.raises(TooLarge):
            fill_body(json.dumps(body), values)


def test_a_template_has_a_limit_of_values() -> None:
    check_template("{a}" * MAX_HOOK_PLACEHOLDERS)
    for check in (check_template, check_body):
        with pytest.raises(Invalid, match="template: too many values"):
            check("{a}" * (MAX_HOOK_PLACEHOLDERS + 1))
