"""Check of JSON before it is parsed: many values are refused, long texts are not."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.common.json_guard import JsonTooLarge, check_json_size
from sshwarma.common.limits import MAX_JSON_NUMBER_DIGITS, MAX_JSON_VALUES

TEXTS = st.text() | st.text(alphabet='\\",[{}]:1a')
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(TEXTS, inner, max_size=9),
    max_leaves=60,
)


def count(value: object) -> int:
    """Count commas and keys, lists and objects as four, and points and exponents."""
    keys = 0
    if isinstance(value, float):
        return 2 * ("." in repr(value)) + 10 * ("e" in repr(value))
    if isinstance(value, dict):
        keys, value = len(value), list(value.values())
    if not isinstance(value, list):
        return 0
    return keys + 3 + max(1, len(value)) + sum(map(count, value))


@given(VALUES, st.booleans(), st.integers(0, 40))
def test_limit_is_exact_for_all_json(value: Any, is_ascii: bool, limit: int) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=1)
    if count(value) > limit:
        with pytest.raises(JsonTooLarge, match=rf"too many values \(limit {limit}\)"):
            check_json_size(text, limit)
    else:
        check_json_size(text.encode(), limit)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le", "utf-32-be"])
def test_other_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(JsonTooLarge, match=r"^has another encoding than UTF-8$"):
        check_json_size('{"\u2200": [1]}'.encode(encoding))
    check_json_size('{"\u2200": [1]}'.encode("utf-8-sig"))


@given(VALUES, st.data())
def test_truncated_json_counts_no_more_than_the_whole(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value)
    end = data.draw(st.integers(0, len(text)))
    check_json_size(text[:end], count(value))


@given(st.binary(), st.integers(0, 9))
def test_bytes_that_are_no_json_fail_with_the_one_error(data: bytes, limit: int) -> None:
    with contextlib.suppress(JsonTooLarge):
        check_json_size(data, limit)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"csv": "a,b,[c],{d}\n" * 350_000}),
        json.dumps({"csv": '1,"2",\\,\n' * 200_000}),
        json.dumps({"digits": "7" * 4_000_000}),
        json.dumps({"digits": "7" * 1000, "rows": [[]] * 19_000}),
        json.dumps([1] * (MAX_JSON_VALUES - 3)),
        "1" * MAX_JSON_NUMBER_DIGITS,
    ],
    ids=["csv", "escapes", "digits", "mixed", "ints", "number"],
)
def test_long_texts_and_as_many_values_as_allowed_pass(text: str) -> None:
    check_json_size(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" + "[]," * 300_000 + "1]", "values"),
        ("[" + '"",' * 300_000 + "1]", "values"),
        ("[" + "1," * MAX_JSON_VALUES + "1]", "values"),
        ("[" + "[]," * 20_000 + "1]", "values"),
        ('{"a":' * 100_001, "values"),
        ("{" + ",".join(f'"{n}":1' for n in range(50_000)) + "}", "values"),
        ("," * 100_001 + '"', "values"),
        ('{"a\\"7":' + "9" * 401, "digits"),
        ("0." + "9" * 401, "digits"),
    ],
)
def test_json_that_takes_long_to_parse_is_refused(text: str, reason: str) -> None:
    with pytest.raises(JsonTooLarge, match=f"has .*{reason}"):
        check_json_size(text)
