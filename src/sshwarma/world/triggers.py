"""Triggers as they are stored, with their last runs.

A trigger is a text `trigger:NAME` of a room that somebody has turned on. It has the rights of who
did so, for the script as it was then: if that is changed, it is off.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast

from sqlalchemy import Connection, Select, delete, func, select, update

from sshwarma.common.limits import (
    MAX_KEPT_TRIGGER_RUNS,
    MAX_TRIGGER_FAILURES,
    MAX_TRIGGER_OUTPUT_CHARACTERS,
    MAX_TRIGGERS_PER_AGENT,
    MAX_TRIGGERS_PER_ROOM,
)
from sshwarma.common.messages import with_limit
from sshwarma.common.shorten import shorten_text
from sshwarma.common.visible_nul import replace_nul
from sshwarma.world import rows
from sshwarma.world.errors import Unavailable, unknown_name_error
from sshwarma.world.events import TriggerChanged
from sshwarma.world.ids import new_id
from sshwarma.world.names import TRIGGER_PREFIX
from sshwarma.world.portable_sql import insert_new, upsert
from sshwarma.world.schema import things, trigger_runs, triggers
from sshwarma.world.store import Change
from sshwarma.world.things import Thing

RunStatus: TypeAlias = Literal["running", "done", "failed", "cut"]
"""How a run of a trigger is: `cut` is one that this server, or somebody, ended before its end."""

NEVER_ON: Final = "it was not turned on"


@dataclass(frozen=True, slots=True)
class Trigger:
    """A script of a room that events start.

    Attributes:
        id: "" if it was never turned on.
        thing_id: the thing whose content is the script.
        agent_id: who turned it on: it has this agent's rights.
        digest: of the script that they turned on.
        cursor: up to where it has heard the log of its room.
        last_time: the last time of its schedules that was looked at; milliseconds.
        states: the states of its room that it knows of.
        failures: runs that failed, one after another.
        off_reason: why it is off; None while it is on.
        script: the script as it is now; None if that is gone.
    """

    id: str
    room_id: str
    thing_id: str
    name: str
    agent_id: str
    digest: str
    cursor: str
    last_time: int
    states: frozenset[str]
    failures: int
    off_reason: str | None
    script: str | None

    @property
    def is_changed(self) -> bool:
        """Whether the script, or its name, is another than the one that was turned on."""
        return self.script is None or hash_script(self.name, self.script) != self.digest

    @property
    def why_off(self) -> str:
        """Why it does not run; "" while it does. The next event stores a change."""
        return self.off_reason or ("its script was changed" if self.is_changed else "")


@dataclass(frozen=True, slots=True)
class Position:
    """Up to where a trigger has looked for events; None leaves a field as it is."""

    cursor: str | None = None
    last_time: int | None = None
    states: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class TriggerRun:
    """A run of a trigger.

    Attributes:
        event: id of the event.
        cause: which of its conditions was met.
        at: when it began, in milliseconds since 1970.
        ms: how long it took; None while it runs, and if it was cut.
        text: its result or its error, shortened.
    """

    event: str
    cause: str
    at: int
    ms: int | None
    status: RunStatus
    text: str


def hash_script(name: str, text: str) -> str:
    """Return what is stored of a script, with its name, to know it again."""
    return hashlib.sha256(f"{name}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def turn_on(tx: Change, thing: Thing, agent_id: str, position: Position) -> str:
    """Turn a trigger on, from a position on, with an agent's rights; return its id.

    Raises:
        Unavailable: if its room or the agent has too many.
    """
    room_id = thing.parent_id or ""
    is_other = triggers.c.thing_id != thing.id
    for owner, limit, whose in (
        (triggers.c.room_id == room_id, MAX_TRIGGERS_PER_ROOM, "in this room"),
        (triggers.c.agent_id == agent_id, MAX_TRIGGERS_PER_AGENT, "of yours"),
    ):
        on = select(func.count()).where(owner, is_other, triggers.c.off_reason.is_(None))
        if tx.conn.execute(on).scalar_one() >= limit:
            raise Unavailable(f"{with_limit(f'Too many triggers {whose} are on', limit)}.")
    values = {
        "room_id": room_id,
        "agent_id": agent_id,
        "digest": hash_script(thing.name.removeprefix(TRIGGER_PREFIX), thing.content or ""),
        "cursor": position.cursor or "",
        "last_time": tx.now,
        "states": _dump_states(position.states or frozenset()),
        "failures": 0,
        "off_reason": None,
    }
    stored = (
        upsert(triggers)
        .values(id=new_id(), thing_id=thing.id, created_at=tx.now, **values)
        .on_conflict_do_update(index_elements=["thing_id"], set_=values)
        .returning(triggers.c.id)
    )
    trigger_id = str(tx.conn.execute(stored).scalar_one())
    tx.publish_on_commit(TriggerChanged(trigger_id))
    return trigger_id


def turn_off(tx: Change, trigger_id: str, reason: str) -> None:
    """Turn a trigger off, for a reason."""
    is_it = triggers.c.id == trigger_id
    tx.conn.execute(update(triggers).where(is_it).values(off_reason=replace_nul(reason)))
    tx.publish_on_commit(TriggerChanged(trigger_id))


def stop_renamed(tx: Change, thing: Thing) -> None:
    """Turn off the trigger of a text that gets another name, and tell its room."""
    found = tx.conn.execute(
        _query().where(triggers.c.thing_id == thing.id, triggers.c.off_reason.is_(None))
    )
    for row in found.mappings().all():
        stop(tx, _make_trigger(row), "its script was renamed")


def remove_trigger(tx: Change, trigger_id: str) -> None:
    """Remove a trigger with its runs; its script stays."""
    tx.conn.execute(delete(trigger_runs).where(trigger_runs.c.trigger_id == trigger_id))
    tx.conn.execute(delete(triggers).where(triggers.c.id == trigger_id))
    tx.publish_on_commit(TriggerChanged(trigger_id))


def read_trigger(conn: Connection, trigger_id: str) -> Trigger | None:
    """Return a trigger; None if it was removed."""
    found = conn.execute(_query().where(triggers.c.id == trigger_id)).mappings().first()
    return None if found is None else _make_trigger(found)


def list_triggers(conn: Connection, room_id: str) -> list[Trigger]:
    """Return the triggers of a room by name, also those that were never turned on."""
    is_here = things.c.parent_id == room_id
    is_script = things.c.name.startswith(TRIGGER_PREFIX, autoescape=True)
    query = _query(outer=True).where(
        is_here, things.c.kind == "data", is_script, things.c.deleted_at.is_(None)
    )
    found = conn.execute(query.order_by(things.c.name)).mappings()
    return [_make_trigger(row) for row in found]


def list_on(conn: Connection) -> list[str]:
    """Return the ids of the triggers that are on."""
    return list(
        conn.execute(select(triggers.c.id).where(triggers.c.off_reason.is_(None))).scalars()
    )


def find_trigger(conn: Connection, room_id: str, name: str) -> Trigger:
    """Return a trigger of a room by its name.

    Raises:
        NotFound: if no script of the room has that name.
    """
    known = list_triggers(conn, room_id)
    wanted = name.removeprefix(TRIGGER_PREFIX).lower()
    found = next((one for one in known if one.name.lower() == wanted), None)
    if found is None:
        raise unknown_name_error(
            "trigger", name, where="here", known=[trigger.name for trigger in known]
        )
    return found


def store_position(tx: Change, trigger_id: str, position: Position) -> None:
    """Store up to where a trigger has looked for events."""
    values: dict[str, Any] = {}
    if position.cursor is not None:
        values["cursor"] = position.cursor
    if position.last_time is not None:
        values["last_time"] = position.last_time
    if position.states is not None:
        values["states"] = _dump_states(position.states)
    if values:
        tx.conn.execute(update(triggers).where(triggers.c.id == trigger_id).values(values))


def begin_run(
    tx: Change, trigger_id: str, event: str, cause: str, position: Position
) -> Trigger | None:
    """Store that a trigger runs for an event, before it does.

    Returns the trigger; None if it ran for the event before, is off, or is turned off now because
    its script was changed. So no event starts it twice, whatever ends the server.
    """
    trigger = read_trigger(tx.conn, trigger_id)
    if trigger is None or trigger.off_reason is not None:
        return None
    if trigger.is_changed:
        changed = "is gone" if trigger.script is None else "was changed"
        stop(tx, trigger, f"its script {changed}")
        return None
    values = {
        "trigger_id": trigger_id,
        "event": event,
        "cause": cause,
        "started_at": tx.now,
        "status": "running",
        "text": "",
    }
    stored = tx.conn.execute(insert_new(trigger_runs).values(values))
    store_position(tx, trigger_id, position)
    return trigger if stored.rowcount else None


def end_run(
    tx: Change, trigger: Trigger, event: str, status: RunStatus, ms: int | None, text: str
) -> None:
    """Store how a run has ended; tell the room of a failure, and turn off after many."""
    is_run = (trigger_runs.c.trigger_id == trigger.id) & (trigger_runs.c.event == event)
    values = {"status": status, "ms": ms, "text": replace_nul(text[:MAX_TRIGGER_OUTPUT_CHARACTERS])}
    if not tx.conn.execute(update(trigger_runs).where(is_run).values(values)).rowcount:
        return  # it was removed meanwhile
    failures = trigger.failures + 1 if status == "failed" else 0
    if status != "cut":
        mine = triggers.c.id == trigger.id
        tx.conn.execute(update(triggers).where(mine).values(failures=failures))
    if failures >= MAX_TRIGGER_FAILURES:
        stop(tx, trigger, f"it failed {failures} times one after another: {shorten_text(text)}")
    elif failures == 1:
        _say(tx, trigger, f"The trigger {trigger.name} failed: {shorten_text(text)}")
    _delete_old_runs(tx, trigger.id)


def cut_runs(tx: Change, trigger_id: str | None = None) -> None:
    """Store that runs which have not ended were cut: all, or those of one trigger."""
    is_running = trigger_runs.c.status == "running"
    mine = (
        is_running if trigger_id is None else is_running & (trigger_runs.c.trigger_id == trigger_id)
    )
    tx.conn.execute(update(trigger_runs).where(mine).values(status="cut"))


def stop(tx: Change, trigger: Trigger, reason: str) -> None:
    """Turn a trigger off and say so in its room, as nobody has asked for it."""
    turn_off(tx, trigger.id, reason)
    _say(tx, trigger, f"The trigger {trigger.name} is off: {reason}.")


def _say(tx: Change, trigger: Trigger, text: str) -> None:
    rows.append_row(tx, trigger.room_id, "notice", text, author_id=None)


def read_runs(conn: Connection, trigger_id: str, limit: int) -> list[TriggerRun]:
    """Return the last runs of a trigger, oldest first."""
    query = (
        select(trigger_runs)
        .where(trigger_runs.c.trigger_id == trigger_id)
        .order_by(trigger_runs.c.n.desc())
        .limit(limit)
    )
    found = [
        TriggerRun(
            row["event"], row["cause"], row["started_at"], row["ms"],
            cast(RunStatus, row["status"]), row["text"],
        )
        for row in conn.execute(query).mappings()
    ]  # fmt: skip
    return found[::-1]


def _delete_old_runs(tx: Change, trigger_id: str) -> None:
    """Keep the last MAX_KEPT_TRIGGER_RUNS; the cursor is behind the other events."""
    mine = trigger_runs.c.trigger_id == trigger_id
    newest = select(trigger_runs.c.n).where(mine).order_by(trigger_runs.c.n.desc())
    oldest = tx.conn.execute(newest.offset(MAX_KEPT_TRIGGER_RUNS).limit(1)).scalar()
    if oldest is not None:
        tx.conn.execute(delete(trigger_runs).where(mine, trigger_runs.c.n <= oldest))


def _query(*, outer: bool = False) -> Select[Any]:
    """Return a query of triggers with scripts; `outer`: of scripts never on, too."""
    script = (things.c.id, things.c.name, things.c.content, things.c.parent_id)
    columns = [column for column in triggers.c if column.name != "id"]
    query = select(triggers.c.id.label("trigger_id"), *columns, *script, things.c.deleted_at)
    joined = (
        things.outerjoin(triggers, triggers.c.thing_id == things.c.id)
        if outer
        else triggers.outerjoin(things, triggers.c.thing_id == things.c.id)
    )
    return query.select_from(joined)


def _make_trigger(row: Any) -> Trigger:
    """Return a trigger of a row; a script that has moved to another room is gone."""
    is_on = row["trigger_id"] is not None
    room_id = row["room_id"] if is_on else row["parent_id"]
    is_here = (
        row["deleted_at"] is None
        and row["parent_id"] == room_id
        and (row["name"] or "").startswith(TRIGGER_PREFIX)
    )
    return Trigger(
        id=row["trigger_id"] or "",
        room_id=room_id,
        thing_id=row["thing_id"] or row["id"],
        name=(row["name"] or "").removeprefix(TRIGGER_PREFIX),
        agent_id=row["agent_id"] or "",
        digest=row["digest"] or "",
        cursor=row["cursor"] or "",
        last_time=row["last_time"] or 0,
        states=frozenset(json.loads(row["states"] or "[]")),
        failures=row["failures"] or 0,
        off_reason=row["off_reason"] if is_on else NEVER_ON,
        script=(row["content"] or "") if is_here else None,
    )


def _dump_states(states: frozenset[str]) -> str:
    return json.dumps(sorted(states), ensure_ascii=False)
