"""The verbs sql and schema: one SELECT on the database, and its tables and views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from sshwarma.common.limits import (
    MAX_REPORT_CELL_CHARACTERS,
    MAX_REPORT_CHARACTERS,
    MAX_REPORT_ROWS,
)
from sshwarma.terminal.text import Block, Line, Span, block, line, text_lines
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option, Text
from sshwarma.verbs.mem_project_members import find_readable_projects
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, draw_hint, format_count, view, view_for_reader
from sshwarma.world import reports
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.database_schema import Relation, SchemaColumn, name_dialect, read_relations
from sshwarma.world.errors import WorldError, unknown_name_error
from sshwarma.world.reader import Reader, next_call

MAX_CELL_CHARACTERS = 60
"""Characters of one value beside others; the last column is not cut."""


@dataclass(frozen=True, slots=True)
class DatabaseSchema:
    """The current schema.

    Attributes:
        whole: whether its one relation is shown in full.
        dialect: the database whose SQL is used, SQLite or PostgreSQL.
    """

    relations: tuple[Relation, ...]
    whole: bool
    dialect: str


@view_for_reader(DatabaseSchema)
def draw_database_schema(schema: DatabaseSchema, reader: Reader) -> Block:
    """Draw the views and tables with their columns, or one of them in full."""
    if schema.whole:
        return block(
            *(row for relation in schema.relations for row in _draw_relation(relation, reader))
        )
    lines: list[Line] = []
    for heading, relations in (
        ("Views:", [relation for relation in schema.relations if relation.kind == "view"]),
        (
            "Tables:",
            [
                relation
                for relation in schema.relations
                if relation.kind == "table" and relation.readable
            ],
        ),
        (
            f"Tables that {reader.name_call('sql')} does not read:",
            [
                relation
                for relation in schema.relations
                if relation.kind == "table" and not relation.readable
            ],
        ),
    ):
        lines += [
            line(("heading", heading)),
            *draw_columns(
                (("thing", relation.name), ", ".join(column.name for column in relation.columns))
                for relation in relations
            ),
        ]
    lines.append(line(("dim", f"The SQL is that of {schema.dialect}.")))
    return block(*lines, *draw_hint(reader, "{} shows one in full.", "schema", name="NAME"))


def _draw_relation(relation: Relation, reader: Reader) -> list[Line]:
    note = "" if relation.readable else f"  not read by {reader.name_call('sql')}"
    return [
        line(("thing", relation.name), f" ({relation.kind})", ("warn", note)),
        *draw_columns(
            (
                ("code", column.name),
                column.type or "computed",
                ("dim", " ".join(_list_column_notes(column))),
            )
            for column in relation.columns
        ),
        line(),
        *text_lines(relation.sql, "code", indent=2),
    ]


def _list_column_notes(column: SchemaColumn) -> Iterable[str]:
    if column.key:
        yield "key"
    if column.required:
        yield "not null"


async def complete_relations(request: CompletionRequest) -> list[Option]:
    """List the tables and views."""
    relations = await request.caller.world.store.read(read_relations)
    return [(relation.name, "") for relation in relations]


RelationName: TypeAlias = Annotated[str, Arg(complete=complete_relations)]


@verb("schema", section="Remembering", examples=("/schema", "/schema messages"))
async def schema(caller: Caller, name: RelationName | None = None) -> DatabaseSchema:
    """Show the tables and views of the database.

    Lists their columns; for one table or view also its SQL. Says whose SQL the database has:
    SQLite's or PostgreSQL's.

    Args:
        name: only this table or view.
    """
    relations = await caller.world.store.read(read_relations)
    dialect = await caller.world.store.read(name_dialect)
    if name is None:
        return DatabaseSchema(relations, whole=False, dialect=dialect)
    matches = tuple(relation for relation in relations if relation.name == name.lower())
    if not matches:
        names = [relation.name for relation in relations]
        raise unknown_name_error(
            "table or view", name, known=names, hint=next_call("{} lists them.", "schema")
        )
    return DatabaseSchema(matches, whole=True, dialect=dialect)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a SELECT.

    Attributes:
        more: number of rows that are not shown.
        uncounted: whether `more` is only a lower bound.
        cut_cells: number of values that were cut.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[reports.CellValue, ...], ...]
    more: int
    uncounted: bool
    cut_cells: int


@view(QueryResult)
def draw_query_result(selected: QueryResult) -> Block:
    """Draw the rows of a SELECT as a table, and how to read the rest."""
    if not selected.rows:
        return block(line("0 rows. ", ("dim", f"Columns: {', '.join(selected.columns)}.")))
    last = len(selected.columns) - 1
    lines = draw_columns(
        [
            tuple(("heading", name) for name in selected.columns),
            *(
                tuple(_draw_cell(value, whole=i == last) for i, value in enumerate(row))
                for row in selected.rows
            ),
        ]
    )
    count = len(selected.rows)
    lines.append(line(("dim", f"{format_count(count, 'row')}{_describe_rest(selected)}")))
    return block(*lines)


def _draw_cell(value: reports.CellValue, *, whole: bool) -> Span:
    if value is None:
        return ("dim", "NULL")
    return ("", _flatten_cell(str(value), whole=whole))


def _flatten_cell(value: str, *, whole: bool) -> str:
    flat = " ".join(value.split())
    return (
        flat if whole or len(flat) <= MAX_CELL_CHARACTERS else flat[: MAX_CELL_CHARACTERS - 1] + "…"
    )


def _describe_rest(selected: QueryResult) -> str:
    """Describe the rows and values that are not shown, and how to read them."""
    note = ""
    if selected.more:
        least = "at least " if selected.uncounted else ""
        note = (
            f", {least}{selected.more} more not shown: at most {MAX_REPORT_ROWS} rows and"
            f" {MAX_REPORT_CHARACTERS} characters are shown; LIMIT and OFFSET read on"
        )
    if selected.cut_cells:
        note += (
            f"; {selected.cut_cells} values cut at {MAX_REPORT_CELL_CHARACTERS} characters:"
            " substr() reads on"
        )
    return f"{note}."


@verb(
    "sql",
    section="Remembering",
    needs=Right.ENTER,
    examples=(
        "/sql SELECT role, count(*) FROM messages GROUP BY role",
        "/sql SELECT name, is_enabled FROM tools WHERE name LIKE 'sshwarma:%'",
        "/sql SELECT tool_id, status, error FROM tool_calls ORDER BY started_at DESC LIMIT 5",
    ),
)
async def sql(caller: Caller, text: Text) -> QueryResult:
    """Query the database with one SELECT.

    The query reads what you may see: rooms you may enter, your private conversations, your own
    bag, the memory of your projects, and no secrets. At most {MAX_REPORT_ROWS} rows are shown. A
    query times out after {REPORT_TIMEOUT_SECONDS}. The SQL is that of the world's database, SQLite
    or PostgreSQL: schema says which.

    For people:
        /schema lists the tables, and /schema tool_calls the columns of one. /help reports has more.

    Args:
        text: the SELECT, on the views messages, tools, skills, sessions, session_state, chats,
            toolsets, toolset_mcp_servers, projects and project_memory, or the tables usage,
            tool_calls, turns, rows, things, equipped and exits; schema shows their columns.
    """
    world = caller.world
    rooms = [readable.id for readable in await caller.readable_rooms()]
    private_logs = await caller.readable_private_logs()
    admin = await caller.may_administer()
    project_ids = tuple(project.id for project, _ in await find_readable_projects(caller))
    logs = (*rooms, *private_logs)
    scope = reports.ReportScope(caller.agent.id, logs, admin, project_ids)
    try:
        answer = await world.reports.run_query(text, scope)
    except WorldError as error:
        start = caller.line.find(text)
        if error.span is not None:  # from its place in the statement to its place in the line
            error.span = None if start < 0 else (error.span[0] + start, error.span[1] + start)
        raise
    return QueryResult(answer.columns, answer.rows, answer.more, answer.uncounted, answer.cut_cells)
