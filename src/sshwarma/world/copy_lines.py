r"""The lines in which a table goes from one database to another.

They are those of PostgreSQL's `COPY` in its text format, which it writes of the same table, too:
equal digests of both prove that nothing was changed on the way. What it cannot hold is made
storable here: a NUL becomes visible; metadata that is not JSON becomes a JSON text with it.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Column, Float, LargeBinary, Table

from sshwarma.common.visible_nul import VISIBLE_NUL
from sshwarma.world.stored_json import UnreadableError, dump_metadata, read_object

JSON_COLUMNS: Final = frozenset({("things", "metadata"), ("rows", "meta")})
"""Columns that PostgreSQL reads as JSON, in views and in queries."""

NOT_JSON: Final = "not JSON: "
"""How a JSON text begins that keeps other metadata: as an object it stays unreadable."""

_ESCAPED: Final = re.compile(r"[\\\b\f\n\r\t\v\0]")
_ESCAPES: Final = str.maketrans(
    {
        "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
        "\v": "\\v", "\0": VISIBLE_NUL,
    }
)  # fmt: skip
_NULL: Final = "\\N"


class CopiedTable:
    """The columns of a table, their order and their lines.

    Attributes:
        name: of the table.
        columns: names of its columns, without those that the database computes.
        replaced_nul: values in which a NUL was replaced.
        changed_json: values of metadata that are no JSON for PostgreSQL, and were changed.
    """

    def __init__(self, table: Table) -> None:
        columns = [column for column in table.columns if column.computed is None]
        self.name = table.name
        self.columns = tuple(column.name for column in columns)
        self.order = tuple(column.name for column in table.primary_key.columns)
        self.texts = frozenset(column.name for column in columns if column.type.python_type is str)
        self.floats = frozenset(column.name for column in columns if isinstance(column.type, Float))
        self.replaced_nul = 0
        self.changed_json = 0
        self._encoders = [self._choose_encoder(column) for column in columns]
        self._digest_encoders = [
            _encode_float_bits if column.name in self.floats else encode
            for column, encode in zip(columns, self._encoders, strict=True)
        ]

    def encode(self, values: Sequence[Any]) -> str:
        """Return the line of a row for `COPY`."""
        return "\t".join(
            [
                _NULL if value is None else encode(value)
                for encode, value in zip(self._encoders, values, strict=True)
            ]
        )

    def encode_for_digest(self, values: Sequence[Any]) -> str:
        """Return the line of a row that a digest is made of: floats as their bits."""
        counts = self.replaced_nul, self.changed_json  # `encode` counts them
        line = "\t".join(
            [
                _NULL if value is None else encode(value)
                for encode, value in zip(self._digest_encoders, values, strict=True)
            ]
        )
        self.replaced_nul, self.changed_json = counts
        return line

    def decode(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values of a row for a file, with the metadata that was no JSON."""
        for name in ("metadata", "meta"):
            if (self.name, name) in JSON_COLUMNS:
                place = self.columns.index(name)
                value = values[place]
                if value is not None and value.startswith('"'):
                    return [*values[:place], restore_json(value), *values[place + 1 :]]
        return values

    def _choose_encoder(self, column: Column[Any]) -> Callable[[Any], str]:
        if (self.name, column.name) in JSON_COLUMNS:
            return self._encode_json
        if column.name in self.texts:
            return self._encode_text
        if isinstance(column.type, LargeBinary):
            return _encode_bytes
        return repr if isinstance(column.type, Float) else _encode_integer

    def _encode_text(self, value: str) -> str:
        if _ESCAPED.search(value) is None:
            return value
        if "\0" in value:
            self.replaced_nul += 1
        return value.translate(_ESCAPES)

    def _encode_json(self, value: str) -> str:
        text = make_storable_json(value)
        if text is not value:
            if "\0" in value or "\\u0000" in value:
                self.replaced_nul += 1
            else:
                self.changed_json += 1
        return text.translate(_ESCAPES) if _ESCAPED.search(text) is not None else text


def make_storable_json(text: str) -> str:
    """Return metadata as PostgreSQL can read it; the same object if it can already.

    Of an object, a NUL becomes visible, and null stands for a number that is not finite, as
    when it is stored today. Anything else is kept whole in a JSON text.
    """
    if _is_readable(text):
        return text
    try:
        made = dump_metadata(read_object(text)) or "{}"
        made.encode()
    except (UnreadableError, UnicodeEncodeError, RecursionError):
        return _wrap(text)
    return text if made == text else made


def _is_readable(text: str) -> bool:
    """Return whether PostgreSQL reads a text as JSON."""
    try:
        value = _DECODER.decode(text)
        if "\\u0000" not in text and "\\ud" not in text.lower():
            return True
        dumped = json.dumps(value, ensure_ascii=False)
        dumped.encode()  # not a half of a pair of surrogates
    except (ValueError, RecursionError):
        return False
    return "\\u0000" not in dumped


def _wrap(text: str) -> str:
    kept = NOT_JSON + text.replace("\0", VISIBLE_NUL)
    return json.dumps(kept, ensure_ascii=False)


def restore_json(text: str) -> str:
    """Return metadata that was no JSON, as it was before `make_storable_json`."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, str) and value.startswith(NOT_JSON):
        return value.removeprefix(NOT_JSON)
    return text


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isfinite(value):
        return value
    raise ValueError(text)


def _refuse_constant(text: str) -> float:
    raise ValueError(text)


_DECODER: Final = json.JSONDecoder(parse_float=_parse_float, parse_constant=_refuse_constant)


def _encode_integer(value: int | float) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _encode_bytes(value: bytes) -> str:
    return "\\\\x" + value.hex()


def _encode_float_bits(value: float) -> str:
    return struct.pack(">d", value).hex()
