"""When a message of a program calls a program or model again, and must not.

Two bots that answer each other would never end. So a program is not called again by one of those
whom it has called back, until a person speaks. Alarms, which nobody answers, always call. A model
answers a program often, as agents work with models, but not without end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from sshwarma.common.limits import (
    MAX_BRIDGED_EXCHANGES,
    MAX_PROGRAM_EXCHANGES,
    MAX_PROGRAM_QUESTIONS,
    PROGRAM_EXCHANGE_SECONDS,
)
from sshwarma.events.event_types import find_row_speaker
from sshwarma.world import mentions, rows
from sshwarma.world.agents import Agent, AgentDirectory
from sshwarma.world.authors import SPEAKER_KEY
from sshwarma.world.ids import now_ms
from sshwarma.world.row import Row

CALLING_KINDS: Final = ("chat", "emote")
"""Kinds of rows whose mentions call."""

MAX_SCANNED_ROWS: Final = 200
"""Rows before a message in which exchanges are looked for."""


def is_called_again(conn: Connection, agents: AgentDirectory, me: Agent, row: Row) -> bool:
    """Return whether a call by a program or model is of an exchange that ends.

    An exchange is a call by a program or model, after which the agent has called one of them. Only
    those since a person spoke last, within PROGRAM_EXCHANGE_SECONDS, count.
    """
    recent = _read_recent(conn, agents, row.room_id, row.created_at, row.seq)
    programs = {_name_caller(agents, one) for one in (*recent, row) if one.author_id != me.id}
    exchanges, is_called = 0, False
    for one in recent:
        if one.author_id != me.id:
            is_called = is_called or mentions.has_mention(one.content, me.name)
        elif is_called and any(mentions.has_mention(one.content, name) for name in programs):
            exchanges, is_called = exchanges + 1, False
    # Behind a bridge there are people, who take turns; perhaps there are bots, too.
    is_bridged = bool(row.meta.get(SPEAKER_KEY))
    return exchanges >= (MAX_BRIDGED_EXCHANGES if is_bridged else MAX_PROGRAM_EXCHANGES)


def find_often_asked(
    conn: Connection, agents: AgentDirectory, me: Agent, models: Sequence[Agent], room_id: str
) -> list[Agent]:
    """Return the models that a program has asked MAX_PROGRAM_QUESTIONS in a room.

    Only those since a person spoke last, within PROGRAM_EXCHANGE_SECONDS, count.
    """
    recent = _read_recent(conn, agents, room_id, now_ms())
    asked = [one.content for one in recent if one.author_id == me.id]
    return [
        model
        for model in models
        if sum(mentions.has_mention(text, model.name) for text in asked) >= MAX_PROGRAM_QUESTIONS
    ]


def _read_recent(
    conn: Connection, agents: AgentDirectory, room_id: str, at: int, before: int | None = None
) -> list[Row]:
    """Return the messages since a person spoke last, oldest first.

    Those in PROGRAM_EXCHANGE_SECONDS before a time, in ms, and a number of the log.
    """
    latest = rows.read_tail(conn, room_id, MAX_SCANNED_ROWS, before=before, kinds=CALLING_KINDS)
    since = at - PROGRAM_EXCHANGE_SECONDS * 1000
    found: list[Row] = []
    for one in reversed(latest):
        if one.created_at < since or find_row_speaker(agents, one).kind == "person":
            break
        found.append(one)
    return found[::-1]


def _name_caller(agents: AgentDirectory, row: Row) -> str:
    """Return the name by which who wrote a row is called back."""
    return str(row.meta.get(SPEAKER_KEY) or agents.name_of(row.author_id)).lower()
