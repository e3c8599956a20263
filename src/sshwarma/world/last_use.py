"""When keys and tokens were last used: recorded beside logins and requests."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Column, CompoundSelect, Connection, func, select, union_all, update

from sshwarma.common.background import BackgroundTasks
from sshwarma.common.limits import LAST_USE_MINUTES, LAST_USE_RETRY_MINUTES
from sshwarma.common.units import MINUTE_MS
from sshwarma.world.agents import AgentDirectory
from sshwarma.world.ids import now_ms
from sshwarma.world.login_keys import LAST_SEEN_FIELD, AgentKey
from sshwarma.world.portable_sql import extract_integer
from sshwarma.world.schema import agent_keys, things, tokens
from sshwarma.world.store import Change, Store
from sshwarma.world.tokens import Token

_FAILED: Final = "the last use of a key or token was not recorded"


def read_last_seen(conn: Connection) -> dict[str, int]:
    """Return when each agent last used a key or a token, by its id."""
    last_seen: dict[str, int] = {}
    for agent_id, at in conn.execute(_select_uses()):
        last_seen[agent_id] = max(at, last_seen.get(agent_id, 0))
    return last_seen


def read_agent_last_seen(conn: Connection, agent_id: str) -> int | None:
    """Return when an agent last used a key or a token; None if never."""
    return max((at for _, at in conn.execute(_select_uses(agent_id))), default=None)


def _select_uses(agent_id: str | None = None) -> CompoundSelect[Any]:
    """Select ids of agents, or the given one, and times at which they were seen."""
    parts = []
    for table in (agent_keys, tokens):
        used = select(table.c.agent_id, func.max(table.c.last_used_at)).where(
            table.c.last_used_at.is_not(None)
        )
        if agent_id is not None:
            used = used.where(table.c.agent_id == agent_id)
        parts.append(used.group_by(table.c.agent_id))
    kept_at = extract_integer(things.c.metadata, LAST_SEEN_FIELD)
    kept = select(things.c.id, kept_at).where(things.c.kind == "agent", kept_at.is_not(None))
    if agent_id is not None:
        kept = kept.where(things.c.id == agent_id)
    return union_all(*parts, kept)


class LastUse:
    """Records when keys and tokens are used, at most once in LAST_USE_MINUTES.

    Nobody waits for that: a login and a request are answered as if nothing was written. After a
    failure, such as on a full disk, nothing is tried for LAST_USE_RETRY_MINUTES. The exact time is
    kept in memory for each agent, because when somebody was last here is a question of minutes.
    """

    def __init__(self, store: Store, agents: AgentDirectory) -> None:
        self._store = store
        self._agents = agents
        self._pending: set[str] = set()
        self._seen_at: dict[str, int] = {}
        self._retry_at = 0
        self._tasks = BackgroundTasks()

    def note_key(self, key: AgentKey) -> None:
        """Take note that an agent uses a key."""
        self._seen_at[key.agent_id] = now_ms()
        self._note(agent_keys.c.fingerprint, key.fingerprint, key.last_used_at)

    def note_token(self, token: Token) -> None:
        """Take note that a program uses a token."""
        self._seen_at[token.agent_id] = now_ms()
        self._note(tokens.c.id, token.id, token.last_used_at)

    def seen_at(self, agent_id: str, recorded: int | None) -> int | None:
        """Return when an agent was last seen, exactly if that was since the start.

        `recorded` is the last use that the database has, if any.
        """
        return max(filter(None, (recorded, self._seen_at.get(agent_id))), default=None)

    async def close(self) -> None:
        """Wait until everything is stored."""
        await self._tasks.join()

    def _note(self, column: Column[Any], identifier: str, last_used_at: int | None) -> None:
        now = now_ms()
        is_recent = last_used_at is not None and now - last_used_at < LAST_USE_MINUTES * MINUTE_MS
        if is_recent or identifier in self._pending or now < self._retry_at:
            return
        self._pending.add(identifier)
        self._tasks.spawn(self._record(column, identifier, now), name="last use", failed=_FAILED)

    async def _record(self, column: Column[Any], identifier: str, now: int) -> None:
        def work(tx: Change) -> None:
            tx.conn.execute(
                update(column.table).where(column == identifier).values(last_used_at=now)
            )

        try:
            await self._store.write(work, may_postpone=True)
        except Exception:
            self._retry_at = now + LAST_USE_RETRY_MINUTES * MINUTE_MS
            raise
        else:
            if column.table is agent_keys:
                self._agents.set_key_used(identifier, now)
        finally:
            self._pending.discard(identifier)
