"""Check of JSON of strangers before it is parsed.

A parser of JSON, and what works on the values then, hold the interpreter, also in a thread: a few
megabytes of small values stop everybody for seconds. So values are counted first, in the bytes.
A text costs little, however long it is: what is inside of strings does not count.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sshwarma.common.limits import MAX_JSON_NUMBER_DIGITS, MAX_JSON_VALUES
from sshwarma.common.messages import with_limit

_DIGITS_AS_ZEROS: Final = bytes(
    ord("0") if chr(code) in "0123456789" else code for code in range(256)
)
_VALUES_OF_A_CONTAINER: Final = 4
"""What a list or an object counts: Pydantic takes five times as long for one as for a number."""

_VALUES_OF_A_FRACTION: Final = 2
"""What a point adds to a number: to write it takes three times as long as to write `1`."""

_VALUES_OF_AN_EXPONENT: Final = 10
"""What an exponent adds to a number: to read and to write `1.5e-300` takes as long as twelve."""

_LONG_NUMBER: Final = b"0" * (MAX_JSON_NUMBER_DIGITS + 1)


class JsonTooLarge(ValueError):
    """JSON with too many values, or with too long a number.

    The message is a clause: it "has" one.

    Attributes:
        reason: The same for the end of a sentence: "too many values (limit 100000)".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"has {reason}")
        self.reason = reason


def load_json(data: bytes | bytearray | str) -> Any:
    """Parse JSON of a stranger.

    Raises:
        JsonTooLarge: if it would take too long.
        ValueError: if it is not JSON.
        RecursionError: if it is nested too deeply.
    """
    check_json_size(data)
    return json.loads(data)


def check_json_size(data: bytes | bytearray | str, limit: int = MAX_JSON_VALUES) -> None:
    """Refuse JSON that would take too long to parse.

    Whether it is JSON is not checked. Commas and keys are counted, and the beginnings of lists and
    objects, points and exponents as several: they take as long to make. The check of 4 MB takes at
    most 20 ms.

    Raises:
        JsonTooLarge: if it has too many values, a number with too many digits, or is in UTF-16 or
            UTF-32, which `json.loads` takes, although no JSON may be: in these, other characters
            have the byte of a quote.
    """
    text = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if not isinstance(data, str) and not json.detect_encoding(bytes(data[:4])).startswith("utf-8"):
        raise JsonTooLarge("another encoding than UTF-8")
    values = _count_values(text)
    # More than there can be: letters of texts are in it.
    most = values + _VALUES_OF_A_FRACTION * text.count(b".")
    most += _VALUES_OF_AN_EXPONENT * (text.count(b"e") + text.count(b"E"))
    has_long_number = _LONG_NUMBER in text.translate(_DIGITS_AS_ZEROS)
    if most <= limit and not has_long_number:
        return
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Each comma or bracket has a key and a string behind it at most, of two quotes each.
    if values > limit and text.count(b'"') > 4 * (limit + 1):
        raise JsonTooLarge(with_limit("too many values", limit))
    text = b'"'.join(text.split(b'"', 4 * (limit + 1))[::2])
    shape = text.translate(_DIGITS_AS_ZEROS)
    values = _count_values(text) + _VALUES_OF_A_FRACTION * shape.count(b"0.")
    values += _VALUES_OF_AN_EXPONENT * (shape.count(b"0e") + shape.count(b"0E"))
    if values > limit:
        raise JsonTooLarge(with_limit("too many values", limit))
    if has_long_number and _LONG_NUMBER in shape:
        raise JsonTooLarge(with_limit("a number with too many digits", MAX_JSON_NUMBER_DIGITS))


def _count_values(text: bytes | bytearray) -> int:
    begun = text.count(b"[") + text.count(b"{")
    return text.count(b",") + text.count(b":") + _VALUES_OF_A_CONTAINER * begun
