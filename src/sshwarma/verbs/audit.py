"""The verb audit: who changed what, who logged in, and which logins failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field

from sshwarma.common.limits import DEFAULT_AUDIT_ROWS, MAX_AUDIT_ROWS
from sshwarma.common.times import parse_since
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import AgentName, Arg, Word
from sshwarma.verbs.audit_actions import choose_actions
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, view
from sshwarma.world.access import Right
from sshwarma.world.audit_list import list_audit
from sshwarma.world.audit_row import AuditRow
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid
from sshwarma.world.ids import now_ms
from sshwarma.world.reader import next_call

AuditCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_AUDIT_ROWS)]
AuditSince: TypeAlias = Annotated[str, Arg("time")]


@dataclass(frozen=True, slots=True)
class AuditRows:
    """Rows of the audit, the oldest first."""

    rows: tuple[AuditRow, ...]


@view(AuditRows)
def draw_audit_rows(found: AuditRows) -> Block:
    """Draw rows of the audit in columns."""
    if not found.rows:
        return block(line(("dim", "The audit has no such rows.")))
    drawn = []
    for row in found.rows:
        at, door, who, room, name, request, origin = row.list_cells()
        drawn.append(
            (("dim", at), door, ("name", who), room, ("mark", name), request, ("dim", origin))
        )
    return block(*draw_columns(drawn))


@verb(
    "audit",
    section="Access",
    needs=Right.OWN,
    tool=False,
    examples=(
        "/audit",
        "/audit --agent alice --since 7d",
        "/audit --about alice",
        '/audit --verb "login failed"',
    ),
)
async def audit(
    caller: Caller,
    *,
    agent: AgentName | None = None,
    about: Word | None = None,
    verb: str | None = None,
    since: AuditSince | None = None,
    count: AuditCount = DEFAULT_AUDIT_ROWS,
) -> AuditRows:
    """Show who changed what, who logged in, and which logins failed.

    Each change that somebody asks for leaves a row; talk and tool calls are in the logs of rooms.
    Times are in UTC.

    Args:
        agent: only what this agent did, by its whole name; also removed agents who had it.
        about: only rows whose request has this word: what was done to the agent or room of a name,
            of everybody who had it, also while the agent had another name.
        verb: only rows of this verb, or group of verbs: `login`, `login failed`, `room`.
        since: only rows since a time: 30m, 2h, 7d, or a date or time in UTC.
        count: maximum number of rows, the newest (default {DEFAULT_AUDIT_ROWS}).
    """
    try:
        since_ms = parse_since(since, now_ms()) if since is not None else None
    except ValueError as error:
        raise Invalid(f"since: {error}") from error
    rows = await list_audit(
        caller.world,
        name=agent.removeprefix("@") if agent is not None else None,
        verbs=await choose_actions(caller.world, verb) if verb is not None else None,
        about=about,
        since=since_ms,
        limit=count,
        hint=next_call("{} shows who is here.", "who"),
    )
    return AuditRows(tuple(rows))
