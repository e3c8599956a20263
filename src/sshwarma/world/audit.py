"""The audit: a row for each change, login and failed login, with its origin."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, or_, select

from sshwarma.common.visible_nul import replace_nul
from sshwarma.world.audit_names import list_other_names
from sshwarma.world.doors import Door
from sshwarma.world.portable_sql import has_word
from sshwarma.world.schema import audit
from sshwarma.world.store import Change

MAX_REQUEST_CHARACTERS = 1000
"""Characters of a request that its audit row keeps; the last of a longer one is CUT_MARK."""

CUT_MARK: Final = "…"

LOGIN: Final = "login"
FAILED_LOGIN: Final = "login failed"
"""The verb of the row of a client that tried keys and was not admitted."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request came from; "" where that is unknown or does not apply.

    Attributes:
        address: of the client.
        fingerprint: of the key that logged in, or was tried last; of a request over HTTP
            `token` and the start of the token's id.
        os_user: the user of the machine who ran a command.
    """

    address: str = ""
    fingerprint: str = ""
    os_user: str = ""


SHOWN_TOKEN_CHARACTERS: Final = 18
"""Characters of a token's id that tell it from others of the same moment."""

NO_ORIGIN: Final = Origin()

operator: Final[ContextVar[str]] = ContextVar("operator", default="")
"""The user of the machine whose command runs in this task; "" if none does."""


def origin_of_token(address: str, token_id: str) -> Origin:
    """Return the origin of a request over HTTP."""
    return Origin(address, f"token {token_id[:SHOWN_TOKEN_CHARACTERS]}")


def describe_request(line: str, arguments: Mapping[str, Any] | None, script: str = "") -> str:
    """Return a line with the arguments of a call by name, if there are any.

    `script` is the name of the script that made the call; "" if none did.
    """
    line = f"{script} calls {line}" if script else line
    if not arguments:
        return line
    cut = {
        name: value[:MAX_REQUEST_CHARACTERS] if isinstance(value, str) else value
        for name, value in arguments.items()
    }
    return f"{line} {json.dumps(cut, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One row of the audit. `at` is in milliseconds since 1970."""

    n: int
    at: int
    agent_id: str | None
    room_id: str | None
    door: str
    verb: str
    request: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which rows are wanted; None takes all.

    Attributes:
        agent_ids: of one of these agents.
        verbs: with one of these verbs.
        since: at or after this time, in milliseconds since 1970.
        after: with a greater number.
        about: with this word in the request, such as the name of an agent, of all who had it; also
            with other names of these agents, while they had them.
    """

    agent_ids: tuple[str, ...] | None = None
    verbs: tuple[str, ...] | None = None
    since: int | None = None
    after: int | None = None
    about: str | None = None


_INSERT: Final = insert(audit).returning(audit.c.n)
"""Built once: to build it takes longer than to run it."""


def record_change(
    tx: Change,
    *,
    door: Door | Literal["cli", "server"],
    verb: str,
    request: str,
    agent_id: str | None = None,
    room_id: str | None = None,
    origin: Origin = NO_ORIGIN,
) -> int:
    """Append the audit row of a change, in the change's own transaction.

    Args:
        tx: the change.
        door: where the request came in; "cli" is the command line on the server, and "server" what
            the server does by itself.
        verb: the verb's name.
        request: the line or the arguments.
        agent_id: who made it; None for an operator at the command line.
        room_id: where they stood; None without a room.
        origin: where it came from.

    Returns:
        The number of the row.
    """
    if len(request) > MAX_REQUEST_CHARACTERS:
        request = request[: MAX_REQUEST_CHARACTERS - len(CUT_MARK)] + CUT_MARK
    inserted = tx.conn.execute(
        _INSERT,
        {
            "at": tx.now,
            "agent_id": agent_id,
            "room_id": room_id,
            "door": door,
            "verb": verb,
            "what": replace_nul(request),
            "address": origin.address or None,
            "fingerprint": origin.fingerprint or None,
            "os_user": origin.os_user or None,
        },
    )
    return int(inserted.scalar_one())


def delete_audit_row(tx: Change, n: int) -> None:
    """Delete the row of a number, which another replaces in the same change."""
    tx.conn.execute(delete(audit).where(audit.c.n == n))


def delete_audit_before(tx: Change, before: int, limit: int) -> int:
    """Delete the oldest rows that are older than `before`, at most `limit`.

    Args:
        tx: the change.
        before: in milliseconds since 1970.
        limit: maximum number of rows, which bounds the time of the change.

    Returns:
        How many were deleted.
    """
    oldest = select(audit.c.n).where(audit.c.at < before).order_by(audit.c.at).limit(limit)
    return tx.conn.execute(delete(audit).where(audit.c.n.in_(oldest))).rowcount


def _is_about(conn: Connection, name: str) -> ColumnElement[bool]:
    """Return the condition that a request has a name, or another one of its agents."""
    name = replace_nul(name[:MAX_REQUEST_CHARACTERS])
    conditions = [has_word(audit.c.what, name)]
    for use in list_other_names(conn, name):
        condition = has_word(audit.c.what, use.name)
        if use.after is not None:
            condition = and_(condition, audit.c.n > use.after)
        if use.until is not None:
            condition = and_(condition, audit.c.n <= use.until)
        conditions.append(condition)
    return or_(*conditions)


def read_audit(conn: Connection, wanted: AuditFilter, limit: int) -> list[AuditEntry]:
    """Return the newest rows that are wanted, at most `limit`, the oldest first."""
    query = select(audit).order_by(audit.c.n.desc()).limit(limit)
    if wanted.agent_ids is not None:
        query = query.where(audit.c.agent_id.in_(wanted.agent_ids))
    if wanted.verbs is not None:
        query = query.where(audit.c.verb.in_(wanted.verbs))
    if wanted.since is not None:
        query = query.where(audit.c.at >= wanted.since)
    if wanted.after is not None:
        query = query.where(audit.c.n > wanted.after)
    if wanted.about is not None:
        query = query.where(_is_about(conn, wanted.about))
    return [
        AuditEntry(
            row.n, row.at, row.agent_id, row.room_id, row.door, row.verb, row.what,
            Origin(row.address or "", row.fingerprint or "", row.os_user or ""),
        )
        for row in reversed(conn.execute(query).all())
    ]  # fmt: skip
