"""Reading the database of std::slop: sessions become rooms, messages rows.

Its tables are `sessions`, `messages`, `session_state`, `usage`, `skills` and `tools`. Some versions
have others, which are reported and not imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from sshwarma.common.limits import (
    MAX_IMPORT_NAME_CHARACTERS,
    MAX_IMPORT_ROOMS,
    MAX_NOTES_CHARACTERS,
    MAX_SKILL_BYTES,
    MAX_SKILL_DESCRIPTION_CHARACTERS,
    MAX_WINDOW_TURNS,
)
from sshwarma.common.units import KIB
from sshwarma.imports.items import NotesItem, RoomItem, SkillItem, Step, StepMaker, UsageItem
from sshwarma.imports.report import ImportReport
from sshwarma.imports.slop_messages import MessageReader
from sshwarma.imports.sqlite_source import Cell, CellError, SqliteSource
from sshwarma.imports.texts import parse_time
from sshwarma.models.notes_block import parse_reply
from sshwarma.world.errors import Invalid

TABLES: Final = {
    "messages": ("id", "session_id", "role", "content", "status", "created_at", "group_id"),
    "sessions": ("id", "context_size"),
    "session_state": ("session_id", "state_blob"),
    "usage": ("id", "session_id", "model", "prompt_tokens", "completion_tokens", "created_at"),
    "skills": ("name", "system_prompt_patch"),
    "tools": ("name",),
}
"""The tables of std::slop, with the columns that are read."""

_MAX_TOKENS: Final = 10**12


class SlopReader:
    """Reads a database of std::slop as steps of an import."""

    def __init__(self, source: SqliteSource, report: ImportReport) -> None:
        """Read `source`; what cannot be imported is left out of the report."""
        self._source = source
        self._report = report
        self._rooms: dict[str, RoomItem] = {}
        self._has = {name for name, columns in TABLES.items() if source.check_table(name, columns)}
        for name in self._has:
            if source.count(name) > MAX_IMPORT_ROOMS and name in ("skills", "tools"):
                raise Invalid(f"The file has more than {MAX_IMPORT_ROOMS:,} {name}.")

    def read_steps(self) -> Iterator[Step]:
        """Yield all steps, in the order in which they can be taken."""
        self._find_rooms()
        maker = StepMaker("rooms", self._rooms)
        for room in self._rooms.values():
            yield from maker.add(room, len(room.session))
        yield from maker.finish()
        if "messages" in self._has:
            yield from MessageReader(self._source, self._report, self._rooms).read_steps()
        yield from self._read_notes()
        yield from self._read_usage()
        yield from self._read_skills()
        self._report_rest()

    def _find_rooms(self) -> None:
        """Find the sessions: those of the table, and those that only messages name."""
        sizes: dict[str, int | None] = {}
        for row in self._read("sessions", ("id", "context_size"), "id"):
            if session := self._name_session(row[0], "sessions"):
                sizes[session] = self._read_window(session, row[1])
        origins: dict[str, str] = {}
        for row in self._read("messages", ("id", "session_id", "created_at"), "id"):
            with suppress(CellError):
                session = row[1].name()
                if session not in origins and 0 < len(session) <= MAX_IMPORT_NAME_CHARACTERS:
                    first = repr((row[0].value, row[2].value)).encode()
                    origins[session] = hashlib.sha256(first).hexdigest()[:32]
        for session in [*sizes, *(name for name in origins if name not in sizes)]:
            self._rooms[session] = RoomItem(session, origins.get(session, ""), sizes.get(session))
        if len(self._rooms) > MAX_IMPORT_ROOMS:
            raise Invalid(
                f"The file has {len(self._rooms):,} sessions.",
                hint=f"An import makes at most {MAX_IMPORT_ROOMS:,} rooms.",
            )

    def _read_window(self, session: str, cell: Cell) -> int | None:
        if cell.is_null:
            return None
        with suppress(CellError):
            if -1 <= (size := cell.integer()) <= MAX_WINDOW_TURNS:
                return size
        limit = f"no window of a room (-1 to {MAX_WINDOW_TURNS}): the room has the default"
        self._report.leave_out("windows", session, limit)
        return None

    def _read_notes(self) -> Iterator[Step]:
        maker = StepMaker("notes", self._rooms)
        for row in self._read("session_state", ("session_id", "state_blob"), "session_id"):
            session = self._name_session(row[0], "notes")
            if not session or self._is_roomless(session, "notes"):
                continue
            try:
                text = _strip_markers(row[1].text())
            except CellError as error:
                self._report.leave_out("notes", session, str(error))
                continue
            if len(text) > MAX_NOTES_CHARACTERS:
                reason = f"longer than {MAX_NOTES_CHARACTERS:,} characters"
                self._report.leave_out("notes", session, reason)
            elif text:
                yield from maker.add(NotesItem(session, text), len(text))
        yield from maker.finish()

    def _read_usage(self) -> Iterator[Step]:
        maker = StepMaker("usage", self._rooms)
        for row in self._read("usage", TABLES["usage"], "id"):
            session = self._name_session(row[1], "usage rows")
            if not session or self._is_roomless(session, "usage rows"):
                continue
            try:
                item = _read_usage_row(session, row)
            except CellError as error:
                self._report.leave_out("usage rows", f"{session}/{row[0].value}", str(error))
                continue
            yield from maker.add(item, len(item.model))
        yield from maker.finish()

    def _read_skills(self) -> Iterator[Step]:
        maker = StepMaker("skills", {})
        described = self._source.has_column("skills", "description")
        columns = ("name", "system_prompt_patch", *(["description"] if described else []))
        for row in self._read("skills", columns, "name"):
            name = "?"
            try:
                name = row[0].name()
                if not name:
                    raise CellError("has no name")
                text = row[1].text()
                description = row[2].text() if described else ""
            except CellError as error:
                self._report.leave_out("skills", name, str(error))
                continue
            if len(text.encode()) > MAX_SKILL_BYTES:
                reason = f"longer than {MAX_SKILL_BYTES // KIB} KiB"
                self._report.leave_out("skills", name, reason)
                continue
            if len(description) > MAX_SKILL_DESCRIPTION_CHARACTERS:
                reason = f"longer than {MAX_SKILL_DESCRIPTION_CHARACTERS} characters: cut there"
                self._report.leave_out("descriptions of skills", name, reason)
                description = description[: MAX_SKILL_DESCRIPTION_CHARACTERS - 1] + "…"
            name = name[:MAX_IMPORT_NAME_CHARACTERS]
            yield from maker.add(SkillItem(name, text, " ".join(description.split())), len(text))
        yield from maker.finish()

    def _report_rest(self) -> None:
        """Report the tools, which are not imported, and tables that are not read."""
        for row in self._read("tools", ("name",), "name"):
            with suppress(CellError):
                reason = "tools of std::slop are part of its program, and have no code to run here"
                self._report.leave_out("tools", row[0].name(), reason)
        for table in self._source.tables:
            if table not in TABLES:
                reason = "there is nothing here that it would become"
                self._report.leave_out("tables", table, reason)

    def _read(self, table: str, columns: tuple[str, ...], order: str) -> Iterator[tuple[Cell, ...]]:
        return self._source.read(table, columns, order) if table in self._has else iter(())

    def _name_session(self, cell: Cell, what: str) -> str:
        """Return the id of a session; "" if it cannot be one, which is reported."""
        try:
            session = cell.name()
        except CellError as error:
            self._report.leave_out(what, "", f"the id of the session {error}")
            return ""
        if not session or len(session) > MAX_IMPORT_NAME_CHARACTERS:
            limit = f"the id of the session has not 1 to {MAX_IMPORT_NAME_CHARACTERS} characters"
            self._report.leave_out(what, "", limit)
            return ""
        return session

    def _is_roomless(self, session: str, what: str) -> bool:
        """Return whether a session has no messages and no row of its own; it is reported."""
        if session in self._rooms:
            return False
        self._report.leave_out(what, session, "its session has no row and no messages")
        return True


def _read_usage_row(session: str, row: tuple[Cell, ...]) -> UsageItem:
    tokens = [cell.integer() if not cell.is_null else 0 for cell in (row[3], row[4])]
    if any(not 0 <= number <= _MAX_TOKENS for number in tokens):
        raise CellError("its number of tokens cannot be right")
    model = row[2].name()[:MAX_IMPORT_NAME_CHARACTERS] or "unknown"
    at = parse_time(row[5])
    if at is None:
        raise CellError("its time cannot be read")
    return UsageItem(session, row[0].integer(), model, tokens[0], tokens[1], at)


def _strip_markers(text: str) -> str:
    """Return notes without the lines around them, as they are stored here."""
    parsed = parse_reply(text)
    is_whole = parsed.notes is not None and not parsed.cut_characters
    return ((parsed.notes or "") if is_whole else text).strip()
