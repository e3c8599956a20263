"""Reading the project memory of SLBP: a dump, CSV, JSON, or a table of SQLite."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from sshwarma.common.json_guard import JsonTooLarge, check_json_size, load_json
from sshwarma.common.limits import (
    MAX_IMPORT_ROOMS,
    MAX_IMPORT_ROWS,
    MAX_IMPORT_TEXT_BYTES,
    MAX_IMPORT_TEXT_FILE_BYTES,
)
from sshwarma.common.shorten import shorten_text
from sshwarma.common.units import MIB
from sshwarma.common.validation_text import describe_json_error
from sshwarma.imports.items import Step, StepMaker, ValueItem
from sshwarma.imports.report import ImportReport
from sshwarma.imports.sql_dump import TABLE, SqlDump
from sshwarma.imports.sqlite_source import SQLITE_MAGIC, CellError, SqliteSource, open_sqlite
from sshwarma.imports.taking_texts import check_project_path
from sshwarma.world.errors import Invalid

MEMORY_FILES: Final = tuple(f"{TABLE}.{ending}" for ending in ("sql", "csv", "jsonl", "json"))
DATABASE_FILES: Final = tuple(f"{TABLE}.{ending}" for ending in ("db", "sqlite", "sqlite3"))

_VALUES_OF_A_ROW: Final = 12
"""What `check_json_size` counts for an object with project, key and value, and a little more."""

_KEY_COLUMNS: Final = ("key", "memory_key")


class MemoryReader:
    """Reads values of projects as steps of an import."""

    def __init__(self, file: Path, report: ImportReport) -> None:
        """Read `file`; what cannot be imported is left out of the report."""
        self._file = file
        self._report = report
        self._projects: set[str] = set()

    def read_steps(self) -> Iterator[Step]:
        """Yield steps with all values.

        Raises:
            Invalid: if the file cannot be read, or has too many values or projects.
        """
        maker = StepMaker("values", {})
        for count, fields in enumerate(self._read(), start=1):
            if count > MAX_IMPORT_ROWS:
                raise Invalid(f"{self._file.name} has more than {MAX_IMPORT_ROWS:,} values.")
            if (item := self._make_item(fields, count)) is not None:
                yield from maker.add(item, len(item.value))
        yield from maker.finish()

    def _make_item(self, fields: Mapping[str, Any], number: int) -> ValueItem | None:
        """Return the value in a row; None if it is left out."""
        key = next((fields[name] for name in _KEY_COLUMNS if name in fields), None)
        project, value = fields.get("project"), fields.get("value")
        name = f"row {number}"
        if not (isinstance(project, str) and isinstance(key, str) and isinstance(value, str)):
            reason = "project, key and value are not all texts"
            self._report.leave_out("values", name, reason)
            return None
        try:
            size = len(value.encode())
            project.encode(), key.encode()
        except UnicodeEncodeError:
            self._report.leave_out("values", name, "has lone surrogates, which are not characters")
            return None
        if "\0" in value:
            reason = "has a NUL character, which a text cannot have"
            self._report.leave_out("values", name, reason)
            return None
        if size > MAX_IMPORT_TEXT_BYTES:
            self._report.leave_out(
                "values", name, f"longer than {MAX_IMPORT_TEXT_BYTES // MIB} MiB"
            )
            return None
        if not check_project_path(project):
            reason = "the path of the project does not begin with /, or is no path of this machine"
            self._report.leave_out("values", name, reason)
            return None
        self._projects.add(project)
        if len(self._projects) > MAX_IMPORT_ROOMS:
            raise Invalid(f"{self._file.name} has more than {MAX_IMPORT_ROOMS:,} projects.")
        return ValueItem(project, key, value)

    def _read(self) -> Iterator[Mapping[str, Any]]:
        ending = self._file.suffix.lower()
        if is_sqlite(self._file):
            with open_sqlite(self._file) as source:
                yield from self._read_database(source)
            return
        text = read_text_file(self._file)
        if ending == ".sql":
            dump = SqlDump(text, self._file.name)
            yield from dump.read()
            for table in sorted(dump.other_tables):
                self._report.leave_out("tables", table, "no project memory")
        elif ending == ".csv":
            yield from self._read_csv(text)
        elif ending == ".jsonl":
            for number, line in enumerate(text.split("\n"), start=1):
                if line.strip():
                    yield self._parse_object(line, number)
        else:
            yield from self._read_json(text)

    def _read_database(self, source: SqliteSource) -> Iterator[Mapping[str, Any]]:
        keys = [name for name in _KEY_COLUMNS if source.has_column(TABLE, name)]
        columns = ("project", keys[0] if keys else "key", "value")
        if not source.check_table(TABLE, columns):
            raise Invalid(f"{self._file.name} has no table {TABLE}.")
        source.count(TABLE)
        for row in source.read(TABLE, columns, columns[1]):
            fields: dict[str, Any] = {}
            for name, cell in zip(("project", "key", "value"), row, strict=True):
                try:
                    fields[name] = None if cell.is_null else cell.text()
                except CellError as error:
                    self._report.leave_out("values", "", f"{name} {error}")
                    break
            else:
                yield fields

    def _read_csv(self, text: str) -> Iterator[Mapping[str, Any]]:
        csv.field_size_limit(MAX_IMPORT_TEXT_FILE_BYTES)
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        try:
            names = [name.strip().lower() for name in reader.fieldnames or ()]
            if "project" not in names or "value" not in names or not {*names} & {*_KEY_COLUMNS}:
                raise Invalid(
                    f"{self._file.name} has no columns project, key and value.",
                    hint="Its first line must name them.",
                )
            reader.fieldnames = names
            yield from reader
        except csv.Error as error:
            problem = shorten_text(str(error))
            raise Invalid(f"{self._file.name}, after line {reader.line_num}: {problem}.") from None

    def _read_json(self, text: str) -> Iterator[Mapping[str, Any]]:
        try:
            check_json_size(text, _VALUES_OF_A_ROW * MAX_IMPORT_ROWS)
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._not_json(error) from None
        if isinstance(value, dict):
            for project, values in value.items():
                for key, one in (values if isinstance(values, dict) else {"": None}).items():
                    yield {"project": project, "key": key, "value": one}
        elif isinstance(value, list):
            for one in value:
                yield one if isinstance(one, dict) else {}
        else:
            raise Invalid(
                f"{self._file.name} is neither a list of objects nor an object of projects."
            )

    def _parse_object(self, line: str, number: int) -> Mapping[str, Any]:
        try:
            value = load_json(line)
        except (ValueError, RecursionError) as error:
            raise self._not_json(error, f", line {number}") from None
        return value if isinstance(value, dict) else {}

    def _not_json(self, error: ValueError | RecursionError, where: str = "") -> Invalid:
        if isinstance(error, JsonTooLarge):
            return Invalid(f"{self._file.name}{where} {error}.")
        problem = shorten_text(describe_json_error(error))
        return Invalid(f"{self._file.name}{where} is not JSON: {problem}.")


def is_sqlite(file: Path) -> bool:
    """Return whether a file begins as a database of SQLite."""
    with file.open("rb") as stream:
        return stream.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def read_text_file(file: Path) -> str:
    """Return the text of a file.

    Raises:
        Invalid: if it is too long, or not UTF-8.
    """
    size = file.stat().st_size
    if size > MAX_IMPORT_TEXT_FILE_BYTES:
        limit = MAX_IMPORT_TEXT_FILE_BYTES // MIB
        raise Invalid(
            f"{file.name} has {size // MIB} MiB.", hint=f"An import takes at most {limit} MiB."
        )
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Invalid(f"{file.name} is not UTF-8, from byte {error.start} on.") from None
