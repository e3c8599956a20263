"""The verb audit: who changed what, who logged in, and which logins failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field

from sshwarma.common.limits import DEFAULT_AUDIT_ROWS, MAX_AUDIT_HOURS, MAX_AUDIT_ROWS
from sshwarma.common.units import HOUR_MS
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.arguments import AgentName, Arg
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import draw_columns, format_clock, view
from sshwarma.world import audit as audit_rows
from sshwarma.world.access import Right
from sshwarma.world.audit import AuditFilter
from sshwarma.world.caller import Caller
from sshwarma.world.ids import now_ms

AuditCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_AUDIT_ROWS)]
AuditHours: TypeAlias = Annotated[
    float, Arg("number"), Field(gt=0, le=MAX_AUDIT_HOURS, allow_inf_nan=False)
]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row of the audit.

    Attributes:
        at: milliseconds since 1970.
        who: the agent; the user of the machine for the command line; "" for a failed login.
        door: where it came in; `cli` is the command line on the server.
        verb: what was done: a verb, a command, `login` or `login failed`.
        request: the line or the arguments.
        address: of the client, if known.
        fingerprint: of the key that logged in, or was tried last.
    """

    at: int
    who: str
    door: str
    verb: str
    request: str
    address: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class AuditRows:
    """Rows of the audit, the oldest first."""

    rows: tuple[AuditRow, ...]


@view(AuditRows)
def draw_audit_rows(found: AuditRows) -> Block:
    """Draw rows of the audit in columns."""
    if not found.rows:
        return block(line(("dim", "The audit has no such rows.")))
    return block(
        *draw_columns(
            (
                ("dim", format_clock(row.at)),
                ("name", row.who or "-"),
                row.door,
                ("mark", row.verb),
                row.request.replace("\n", " "),
                ("dim", " ".join(filter(None, (row.address, row.fingerprint)))),
            )
            for row in found.rows
        )
    )


@verb(
    "audit",
    section="Access",
    needs=Right.OWN,
    tool=False,
    examples=("/audit", "/audit --agent alice --hours 24", '/audit --verb "login failed"'),
)
async def audit(
    caller: Caller,
    *,
    agent: AgentName | None = None,
    verb: str | None = None,
    hours: AuditHours | None = None,
    count: AuditCount = DEFAULT_AUDIT_ROWS,
) -> AuditRows:
    """Show who changed what, who logged in, and which logins failed.

    Each change that somebody asks for leaves a row; talk and tool calls are in the logs of rooms.

    Args:
        agent: only rows of this agent.
        verb: only rows of this verb, such as `login`, `login failed` or `room`.
        hours: only rows of the last hours.
        count: maximum number of rows, the newest (default {DEFAULT_AUDIT_ROWS}).
    """
    agent_id = caller.world.agents.find(agent).id if agent is not None else None
    since = now_ms() - round(hours * HOUR_MS) if hours is not None else None
    wanted = AuditFilter(agent_id, verb, since)
    entries = await caller.world.store.read(lambda conn: audit_rows.read_audit(conn, wanted, count))
    return AuditRows(
        tuple(
            AuditRow(
                at=entry.at,
                who=caller.world.agents.name_of(entry.agent_id)
                if entry.agent_id is not None
                else entry.origin.os_user,
                door=entry.door,
                verb=entry.verb,
                request=entry.request,
                address=entry.origin.address,
                fingerprint=entry.origin.fingerprint,
            )
            for entry in entries
        )
    )
