"""Reading INSERT statements of an SQL dump. Nothing of it is run.

A dump of one table by `mysqldump`, or by `.dump` of sqlite3, has some statements around its
INSERTs, which are passed over, and so are those into other tables. Any other statement refuses the
dump.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sshwarma.common.limits import MAX_IMPORT_ROWS
from sshwarma.common.shorten import shorten_name
from sshwarma.world.errors import Invalid

TABLE: Final = "project_memory"

_BLANK: Final = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z)|\#[^\n]*(?:\n|\Z)|/\*.*?\*/|;)+", re.DOTALL)
_NAME: Final = r"[`\"]?(\w+)[`\"]?"
_INSERT: Final = re.compile(
    rf"INSERT\s+(?:IGNORE\s+)?INTO\s+(?:{_NAME}\s*\.\s*)?{_NAME}\s*", re.IGNORECASE
)
_COLUMNS: Final = re.compile(r"\(([^()']*)\)\s*")
_VALUES: Final = re.compile(r"VALUES\s*", re.IGNORECASE)
_CREATE: Final = re.compile(
    rf"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:{_NAME}\s*\.\s*)?{_NAME}\s*\(", re.IGNORECASE
)
_FRAME: Final = re.compile(
    r"(?:DROP\s+TABLE\s+IF\s+EXISTS|CREATE\s+TABLE|LOCK\s+TABLES?|UNLOCK\s+TABLES?|SET|USE"
    r"|START\s+TRANSACTION|BEGIN|COMMIT|PRAGMA)\b",
    re.IGNORECASE,
)
_KEYS: Final = frozenset(
    ("PRIMARY", "UNIQUE", "KEY", "INDEX", "CONSTRAINT", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK")
)
# Possessive (`*+`): a text of millions of escapes would else be remembered step by step.
_STRING: Final = re.compile(r"'(?:[^'\\]+|\\.|'')*+'", re.DOTALL)
_PLAIN_STRING: Final = re.compile(r"'(?:[^']+|'')*+'", re.DOTALL)
_STATEMENT: Final = re.compile(r"(?:[^;']+|'(?:[^']+|'')*+')*+;?", re.DOTALL)
_ESCAPED_STATEMENT: Final = re.compile(r"(?:[^;'\\]+|\\.|'(?:[^'\\]+|\\.|'')*+')*+;?", re.DOTALL)
_CHARSET: Final = re.compile(r"(?:_\w+|N)\s*(?=')", re.IGNORECASE)
_OTHER_VALUE: Final = re.compile(r"NULL|[+-]?\d+(?:\.\d+)?|0x[0-9A-Fa-f]+", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


class SqlDump:
    """The INSERTs of a dump into the table `project_memory`.

    `other_tables` are the names of those whose INSERTs were passed over.
    """

    def __init__(self, text: str, file: str) -> None:
        """Read `text`; `file` is its name, for refusals."""
        self._text = text
        self._file = file
        self._at = 0
        self._columns: tuple[str, ...] = ()
        self._has_escapes = "PRAGMA foreign_keys" not in text[:1000]  # sqlite3 writes none
        self._count = 0
        self.other_tables: set[str] = set()

    def read(self) -> Iterator[dict[str, str | None]]:
        """Yield the rows, by the names of their columns; a value that is no text is None.

        Raises:
            Invalid: with the line, if there is another statement, or one that cannot be read.
        """
        while True:
            self._skip(_BLANK)
            if self._at >= len(self._text):
                return
            if (found := _INSERT.match(self._text, self._at)) is not None:
                if found[2].lower() == TABLE:
                    self._at = found.end()
                    yield from self._read_insert()
                else:
                    self.other_tables.add(found[2])
                    self._skip_statement()
            elif _FRAME.match(self._text, self._at) is not None:
                self._read_frame()
            else:
                word = shorten_name(self._text[self._at : self._at + 20].split("\n")[0])
                raise self._refuse(f"has a statement that is no INSERT into {TABLE}: {word!a}")

    def _read_insert(self) -> Iterator[dict[str, str | None]]:
        columns = self._columns
        if (found := _COLUMNS.match(self._text, self._at)) is not None:
            columns = tuple(name.strip().strip('`"').lower() for name in found[1].split(","))
            self._at = found.end()
        if not self._skip(_VALUES):
            raise self._refuse("has an INSERT without VALUES")
        while True:
            yield self._name_values(columns, tuple(self._read_row()))
            self._count += 1
            if self._count > MAX_IMPORT_ROWS:
                raise Invalid(f"{self._file} has more than {MAX_IMPORT_ROWS:,} values.")
            self._skip(_BLANK_ONLY)
            if not self._take(","):
                break
            self._skip(_BLANK_ONLY)
        if self._at < len(self._text) and not self._take(";"):
            raise self._refuse("has something after the values of an INSERT")

    def _name_values(
        self, columns: tuple[str, ...], values: tuple[str | None, ...]
    ) -> dict[str, str | None]:
        if not columns and len(values) == 3:
            columns = ("project", "key", "value")
        if len(columns) != len(values):
            raise self._refuse("does not say which columns the values of an INSERT are of")
        return dict(zip(columns, values, strict=True))

    def _read_row(self) -> Iterator[str | None]:
        if not self._take("("):
            raise self._refuse("has an INSERT whose values do not begin with (")
        while True:
            self._skip(_BLANK_ONLY)
            yield self._read_value()
            self._skip(_BLANK_ONLY)
            if self._take(")"):
                return
            if not self._take(","):
                raise self._refuse("has a value that is neither a text, a number nor NULL")

    def _read_value(self) -> str | None:
        self._skip(_CHARSET)
        string = _STRING if self._has_escapes else _PLAIN_STRING
        if (found := string.match(self._text, self._at)) is not None:
            self._at = found.end()
            inner = found[0][1:-1]
            if not self._has_escapes:
                return inner.replace("''", "'")
            return _ESCAPE.sub(_unescape, inner)
        if self._skip(_OTHER_VALUE):
            return None
        raise self._refuse("has a value that is neither a text, a number nor NULL")

    def _read_frame(self) -> None:
        """Pass over a statement that a dump has around its rows."""
        if (found := _CREATE.match(self._text, self._at)) is not None and (
            found[2].lower() == TABLE
        ):
            self._columns = _list_columns(self._text, found.end())
        self._skip_statement()

    def _skip_statement(self) -> None:
        before = self._at
        self._skip(_ESCAPED_STATEMENT if self._has_escapes else _STATEMENT)
        if self._at == before or not self._text.startswith(";", self._at - 1):
            raise self._refuse("has a statement without an end")

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        """Pass over what a pattern matches here; return whether it does."""
        found = pattern.match(self._text, self._at)
        if found is None:
            return False
        self._at = found.end()
        return True

    def _take(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _refuse(self, problem: str) -> Invalid:
        number = self._text.count("\n", 0, self._at) + 1
        return Invalid(
            f"{self._file}, line {number}: {problem}.",
            hint=f"Only INSERTs of texts are read, as of: mysqldump DATABASE {TABLE}",
        )


_BLANK_ONLY: Final = re.compile(r"\s*")


def _unescape(found: re.Match[str]) -> str:
    return "'" if found[1] is None else _ESCAPED.get(found[1], found[1])


def _list_columns(text: str, start: int) -> tuple[str, ...]:
    """Return the names of the columns of a CREATE TABLE, whose parenthesis is open."""
    names, depth, is_first = [], 0, True
    for found in _TOKEN.finditer(text, start, start + _MAX_CREATE_CHARACTERS):
        sign = found[0]
        if is_first and found[2] and (found[1] or found[2].upper() not in _KEYS):
            names.append(found[2].lower())
        is_first = sign == "," and depth == 0
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth < 0:
            break
    return tuple(names)


_TOKEN: Final = re.compile(r"([`\"]?)(\w+)[`\"]?|'[^']*'|[(),]")
_MAX_CREATE_CHARACTERS: Final = 20_000
