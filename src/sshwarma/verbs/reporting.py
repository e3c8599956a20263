"""The verbs schema, sql and stats: the database, queries of it, and usage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, text

from sshwarma.common.limits import (
    MAX_REPORT_CELL_CHARACTERS,
    MAX_REPORT_CHARACTERS,
    MAX_REPORT_ROWS,
)
from sshwarma.terminal.text import Block, Line, Span, block, line, text_lines
from sshwarma.verbs.arguments import Flag, ModelName, Text, Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, format_count, view
from sshwarma.world import private_messages, reports, statistics
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound, WorldError
from sshwarma.world.ids import now_ms
from sshwarma.world.statistics import SkillUse, ToolCount, UsageTotals

BAR_COLUMNS = 20
MAX_CELL_CHARACTERS = 60
"""Characters of one value beside others; a column that stands last is not cut."""


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """A column as it is declared; a computed column of a view may have no declared type."""

    name: str
    type: str
    key: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view. `readable`: /sql can select from it."""

    name: str
    kind: str
    readable: bool
    columns: tuple[SchemaColumn, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class DatabaseSchema:
    """The live schema, or one relation of it in full."""

    relations: tuple[Relation, ...]
    whole: bool


@view(DatabaseSchema)
def draw_schema(schema: DatabaseSchema) -> Block:
    if schema.whole:
        return block(*(made for one in schema.relations for made in _draw_relation(one)))
    lines: list[Line] = []
    for heading, some in (
        ("Views:", [one for one in schema.relations if one.kind == "view"]),
        ("Tables:", [one for one in schema.relations if one.kind == "table" and one.readable]),
        (
            "Tables that /sql does not read:",
            [one for one in schema.relations if one.kind == "table" and not one.readable],
        ),
    ):
        lines += [
            line(("heading", heading)),
            *draw_columns(
                (("thing", one.name), ", ".join(column.name for column in one.columns))
                for one in some
            ),
        ]
    return block(*lines, line(("dim", "/schema NAME shows one in full.")))


def _draw_relation(one: Relation) -> list[Line]:
    about = "" if one.readable else "  not read by /sql"
    return [
        line(("thing", one.name), f" ({one.kind})", ("warn", about)),
        *draw_columns(
            (
                ("code", column.name),
                column.type or "computed",
                ("dim", " ".join(_list_column_notes(column))),
            )
            for column in one.columns
        ),
        line(),
        *text_lines(one.sql, "code", indent=2),
    ]


def _list_column_notes(column: SchemaColumn) -> Iterable[str]:
    if column.key:
        yield "key"
    if column.required:
        yield "not null"


@verb("schema", section="Remembering", examples=("/schema", "/schema messages"))
async def schema(caller: Caller, name: Word | None = None) -> DatabaseSchema:
    """Show the tables and views of the database.

    Lists their columns; for one table or view also its SQL.

    Args:
        name: only this table or view.
    """
    found = await caller.world.store.read(_read_relations)
    if name is None:
        return DatabaseSchema(found, whole=False)
    one = tuple(relation for relation in found if relation.name == name.lower())
    if not one:
        raise NotFound(f"There is no table or view {name[:40]}.", hint="/schema lists them.")
    return DatabaseSchema(one, whole=True)


def _read_relations(conn: Connection) -> tuple[Relation, ...]:
    """Every table and view except those of SQLite itself and of its search index."""
    query = text(
        "SELECT name, type, sql FROM sqlite_master WHERE type IN ('view', 'table')"
        " AND name NOT LIKE 'sqlite!_%' ESCAPE '!' AND name NOT LIKE 'rows!_fts!_%' ESCAPE '!'"
        " ORDER BY name"
    )
    found = []
    for name, kind, sql in conn.execute(query):
        described = conn.execute(
            text('SELECT name, type, pk, "notnull" FROM pragma_table_xinfo(:name)'), {"name": name}
        )
        found.append(
            Relation(
                name,
                kind,
                kind == "view" or name in reports.READABLE_TABLES,
                tuple(
                    SchemaColumn(one, type_, bool(pk), bool(nn)) for one, type_, pk, nn in described
                ),
                sql,
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a SELECT. `more` rows are not shown (`uncounted`: at least that number)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[reports.CellValue, ...], ...]
    more: int
    uncounted: bool
    cut_cells: int


@view(QueryResult)
def draw_selected(selected: QueryResult) -> Block:
    if not selected.rows:
        return block(line("No rows: ", ("dim", ", ".join(selected.columns))))
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
    rest = ""
    if selected.more:
        least = "at least " if selected.uncounted else ""
        rest = (
            f", {least}{selected.more} more not shown: at most {MAX_REPORT_ROWS} rows and"
            f" {MAX_REPORT_CHARACTERS} characters are shown; LIMIT and OFFSET read on"
        )
    if selected.cut_cells:
        rest += (
            f"; {selected.cut_cells} values cut at {MAX_REPORT_CELL_CHARACTERS} characters:"
            " substr() reads on"
        )
    return f"{rest}."


@verb(
    "sql",
    section="Remembering",
    needs=Right.ENTER,
    examples=(
        "/sql SELECT role, count(*) FROM messages GROUP BY role",
        "/sql SELECT name, is_enabled FROM tools WHERE name LIKE 'sshwarma:%'",
    ),
)
async def sql(caller: Caller, text: Text) -> QueryResult:
    """Query the database with one SELECT.

    The query reads what you may see: rooms you may enter, your private conversations, your own
    bag, and no secrets. At most 200 rows are shown. A query times out after 2 s.

    Args:
        text: the SELECT, on the views messages, tools, skills, sessions, session_state, chats,
            toolsets, toolset_mcp_servers, projects and project_memory, or the tables usage,
            tool_calls, turns, rows, things, equipped and exits; schema shows their columns.
    """
    world, now = caller.world, now_ms()
    rooms = [
        room.id for room in await world.rooms() if Right.ENTER in room.rights_of(caller.agent, now)
    ]
    told = await world.store.read(
        lambda conn: private_messages.read_private_logs(conn, caller.agent.id)
    )
    admin = Right.ADMIN in (await caller.room()).rights_of(caller.agent, now)
    scope = reports.ReportScope(caller.agent.id, (*rooms, *told), admin)
    try:
        answer = await world.reports.run_query(text, scope)
    except WorldError as refused:
        start = caller.line.find(text)
        if refused.span is not None:  # from its place in the statement to its place in the line
            refused.span = None if start < 0 else (refused.span[0] + start, refused.span[1] + start)
        raise
    return QueryResult(answer.columns, answer.rows, answer.more, answer.uncounted, answer.cut_cells)


@dataclass(frozen=True, slots=True)
class ModelUsage(UsageTotals):
    model: str = ""
    agents: tuple[str, ...] = ()  # agents that answered with it


@dataclass(frozen=True, slots=True)
class RoomUsage(UsageTotals):
    room: str = ""


@dataclass(frozen=True, slots=True)
class UsageStats:
    """Usage: `scope` is the name of the room, or `every room`. `since` and `until` are ISO times
    of the first and the last answer or call that is counted."""

    scope: str
    of: str | None  # the one agent it is about
    since: str | None
    until: str | None
    spent: tuple[ModelUsage, ...]
    total: UsageTotals
    tools: tuple[ToolCount, ...]
    calls: int
    errors: int
    skills: tuple[SkillUse, ...]
    rooms: tuple[RoomUsage, ...] = ()


@view(UsageStats)
def draw_stats(stats: UsageStats) -> Block:
    of = f" by {stats.of}" if stats.of else ""
    if not stats.spent and not stats.tools and not stats.skills:
        return block(line(f"No model has answered{of} in ", ("room", stats.scope), " yet."))
    lines = [line(("heading", f"Used in {stats.scope}{of}:"))]
    if stats.since and stats.until:
        lines.append(
            line(("dim", f"  {_format_minute(stats.since)} to {_format_minute(stats.until)} UTC"))
        )
    uses = [_draw_usage(("model", use.model), ", ".join(use.agents), use) for use in stats.spent]
    if len(uses) > 1:
        uses.append(_draw_usage(("mark", "total"), "", stats.total))
    lines += draw_columns(uses)
    if stats.rooms:
        lines += [line(("heading", "By room:"))]
        lines += draw_columns(_draw_usage(("room", use.room), "", use) for use in stats.rooms)
    if stats.tools:
        errors = f", {stats.errors} errors" if stats.errors else ""
        lines += [
            line(("heading", f"Tool calls: {stats.calls}{errors}")),
            *tool_count_lines(stats.tools),
        ]
    if stats.skills:
        lines += [
            line(("heading", "Skills:")),
            *draw_columns(
                (("thing", skill.name), _format_activity(skill)) for skill in stats.skills
            ),
        ]
    return block(*lines)


def _draw_usage(head: Span, who: str, use: UsageTotals) -> tuple[str | Span, ...]:
    notes = [
        f"{count} {what}"
        for count, what in ((use.estimated, "estimated"), (use.undone, "undone"))
        if count
    ]
    return (
        head,
        ("name", who),
        format_count(use.answers, "answer"),
        f"{use.prompt_tokens} in",
        f"{use.completion_tokens} out",
        format_count(use.total_tokens, "token"),
        _format_dollars(use),
        ("dim", ", ".join(notes)),
    )


def _format_dollars(use: UsageTotals) -> str:
    if use.cost is None:
        return "cost unknown" if use.answers else ""
    unknown = use.answers - use.priced
    return f"${use.cost:.4f}" + (f" and {unknown} unpriced" if unknown else "")


def _format_activity(skill: SkillUse) -> str:
    active = "active" if skill.active else "not active"
    if skill.active > 1:
        active = f"active in {skill.active} places"
    if skill.activations is None:
        return active
    return f"{active}, activated {format_count(skill.activations, 'time')}"


def _format_minute(moment: str) -> str:
    return moment[:16].replace("T", " ")


def tool_count_lines(counts: Iterable[ToolCount]) -> list[Line]:
    """Draw how often each tool was called, as a number and a bar."""
    return draw_columns(
        (
            ("tool", count.tool),
            f"{count.calls}",
            f"{count.share:.0%}",
            ("error", format_count(count.errors, "error")) if count.errors else ("dim", ""),
            ("mark", "█" * max(1, round(count.share * BAR_COLUMNS))),
        )
        for count in counts
    )


@verb(
    "stats",
    section="Models",
    needs=Right.ENTER,
    examples=("/stats", "/stats @guide", "/stats --all"),
)
async def stats(caller: Caller, model: ModelName | None = None, *, all: Flag = False) -> UsageStats:
    """Show usage in this room: answers, tokens, cost, tool calls and skills.

    Answers and tokens of each model, their cost where the price is known, tool calls, and active
    skills. Undone answers are counted too.

    Args:
        model: only this model.
        all: all rooms together and each room; needs the admin right.
    """
    room = await caller.room()
    if all:
        await caller.require(Right.ADMIN)
    agent = caller.world.agents.find(model) if model is not None else None
    room_id, agent_id = (None if all else room.id), (agent.id if agent else None)

    def count(conn: Connection) -> UsageStats:
        span = statistics.read_time_range(conn, room_id, agent_id)
        tools = statistics.read_tool_counts(conn, room_id, agent_id)
        rooms = statistics.read_usage_by_room(conn, agent_id) if all else ()
        return UsageStats(
            scope="every room" if all else room.name,
            of=agent.name if agent else None,
            since=span[0] if span else None,
            until=span[1] if span else None,
            spent=tuple(
                _make_model_usage(caller, used)
                for used in statistics.read_usage_by_model(conn, room_id, agent_id)
            ),
            total=statistics.read_total_usage(conn, room_id, agent_id),
            tools=tools,
            calls=sum(one.calls for one in tools),
            errors=sum(one.errors for one in tools),
            skills=statistics.read_skill_use(conn, room_id, agent_id),
            rooms=tuple(RoomUsage(**asdict(spent), room=name) for name, spent in rooms),
        )

    return await caller.world.store.read(count)


def _make_model_usage(caller: Caller, used: statistics.ModelUsageTotals) -> ModelUsage:
    who = sorted(caller.world.agents.name_of(agent_id) for agent_id in used.agents)
    return ModelUsage(**asdict(used.totals), model=used.model, agents=tuple(who))
