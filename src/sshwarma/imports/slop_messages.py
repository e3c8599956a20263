"""Reading the messages of std::slop as rows of rooms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sshwarma.common.limits import MAX_IMPORT_NAME_CHARACTERS
from sshwarma.imports.items import Author, RoomItem, RowItem, RowKind, Step, StepMaker
from sshwarma.imports.report import ImportReport
from sshwarma.imports.slop_calls import parse_calls, split_call_id
from sshwarma.imports.sqlite_source import Cell, CellError, SqliteSource
from sshwarma.imports.texts import clean_text, parse_time

_COLUMNS: Final = ("id", "session_id", "role", "content", "status", "created_at", "group_id")

ROLES: Final = ("system", "user", "assistant", "tool")


class MessageReader:
    """Reads messages in the order of their ids."""

    def __init__(
        self, source: SqliteSource, report: ImportReport, rooms: Mapping[str, RoomItem]
    ) -> None:
        self._source = source
        self._report = report
        self._rooms = rooms
        self._begun: set[tuple[str, str]] = set()
        self._times: dict[str, int] = {}
        self._newest_id: int | None = None
        self._open_calls: dict[str, tuple[str, dict[str, list[tuple[str, str]]]]] = {}
        """By session: the group of its newest calls, and their keys by their ids, in their order.

        An id may be that of several calls: Gemini gives none, and they have the name of their tool.
        """

    def read_steps(self) -> Iterator[Step]:
        """Yield steps with all messages."""
        maker = StepMaker("rows", self._rooms)
        extra = ["tool_call_id"] if self._source.has_column("messages", "tool_call_id") else []
        for row in self._source.read("messages", (*_COLUMNS, *extra), "id"):
            name = f"message {row[0].value}" if row[0].type == "integer" else "message"
            try:
                items = list(self._read_message(row))
            except CellError as error:
                self._report.leave_out("messages", name, str(error))
                continue
            for item in items:
                yield from maker.add(item, len(item.content))
        yield from maker.finish()

    def _read_message(self, row: tuple[Cell, ...]) -> Iterator[RowItem]:
        """Yield the rows of a message: one, or one for each call of a tool in it.

        Raises:
            CellError: if it cannot be imported.
        """
        number, session, role = row[0].integer(), row[1].name(), row[2].text()
        if number == self._newest_id:
            raise CellError("its id is that of another message, which was read")
        self._newest_id = number
        key = str(number)
        if session not in self._rooms:
            limit = f"the id of its session has not 1 to {MAX_IMPORT_NAME_CHARACTERS} characters"
            raise CellError(limit)
        if role not in ROLES:
            raise CellError(f"its role is not one of {', '.join(ROLES)}")
        status, group = row[4].text(), row[6].name()
        if len(group) > MAX_IMPORT_NAME_CHARACTERS:
            raise CellError(f"its group has over {MAX_IMPORT_NAME_CHARACTERS} characters")
        call_id = row[7].text() if len(row) > len(_COLUMNS) else ""
        parts = list(self._split(session, key, role, row[3], status, group, call_id))
        at = self._read_time(session, key, row[5])
        for part, (kind, author, text, tool, call_key) in enumerate(parts):
            begins = bool(group) and (session, group) not in self._begun
            self._begun.add((session, group))
            yield RowItem(
                session, f"{key}/{part}", group, begins, kind, author, clean_text(text),
                clean_text(tool), call_key, status == "dropped", at,
            )  # fmt: skip

    def _read_time(self, session: str, key: str, cell: Cell) -> int:
        """Return the time of a message; that of the one before if it cannot be read."""
        at = parse_time(cell)
        if at is None:
            at = self._times.get(session, 0)
            reason = "cannot be read: the time of the message before"
            self._report.leave_out("times", f"message {key}", reason)
        self._times[session] = at
        return at

    def _take_call(self, session: str, group: str, call_id: str) -> tuple[str, str]:
        """Return the key and the tool of the first call that a result can be of.

        Without one, "" and the tool that the id names.
        """
        known_group, calls = self._open_calls.get(session, ("", {}))
        plain_id, tool = split_call_id(call_id)
        found = calls.get(plain_id, []) if known_group == group else []
        return found.pop(0) if found else ("", tool)

    def _split(
        self, session: str, key: str, role: str, cell: Cell, status: str, group: str, call_id: str
    ) -> Iterator[tuple[RowKind, Author, str, str, str]]:
        """Yield kind, author, text, tool and key of the call of each row of a message.

        Raises:
            CellError: if its content is not text.
        """
        # Before the content: a result that cannot be imported is still that of its call.
        answered, tool = self._take_call(session, group, call_id) if role == "tool" else ("", "")
        content = cell.text()
        # A dropped call has lost its own status.
        is_call = role == "assistant" and (status == "tool_call" or bool(call_id))
        if role == "user":
            yield "chat", "person", content, "", ""
        elif role == "system":
            yield "notice", "", content, "", ""
        elif role == "tool":
            yield "tool.result", "model", content, tool, answered
        elif not is_call:
            yield "chat", "model", content, "", ""
        else:
            text, found = parse_calls(content, call_id)
            if text.strip():
                yield "chat", "model", text, "", ""
            first = 1 if text.strip() else 0
            if self._open_calls.get(session, ("", {}))[0] != group:
                self._open_calls[session] = (group, {})
            calls = self._open_calls.setdefault(session, (group, {}))[1]
            for n, call in enumerate(found):
                calls.setdefault(call.id, []).append((f"{key}/{first + n}", call.tool))
                yield "tool.call", "model", call.arguments, call.tool, ""
