"""Turns: questions with their whole answers, listed, shown, dropped and taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from sshwarma.models.turn import Turns
from sshwarma.terminal.text import Block, Line, block, headed, line
from sshwarma.verbs.arguments import Word
from sshwarma.verbs.registry import verb
from sshwarma.verbs.views import Done, clock, columns, view
from sshwarma.world import states, turns
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, Invalid, NotFound
from sshwarma.world.events import Row
from sshwarma.world.ids import now_ms
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn
from sshwarma.wrap.layers import tokens

SNIPPET = 60
LISTED = 10
MOST_LISTED = 200
ANCESTRY = 200


@dataclass(frozen=True, slots=True)
class TurnListed:
    """One turn. `status`: completed, cancelled, open or dropped; `on` whether it is part of the
    conversation as it is now."""

    id: str
    short: str
    at: int
    by: str
    agent: str
    snippet: str
    rows: int
    tokens: int
    status: str
    on: bool


@dataclass(frozen=True, slots=True)
class TurnList:
    room: str
    turns: tuple[TurnListed, ...]


@view(TurnList)
def _(result: TurnList) -> Block:
    if not result.turns:
        return block(line("No model has been asked anything in ", ("room", result.room), " yet."))
    return block(
        line(("heading", f"Turns of {result.room}, newest last:")),
        *columns(
            (
                ("mark", turn.short),
                ("time", clock(turn.at)),
                f"{turn.by} → {turn.agent}",
                f"{turn.rows} rows",
                f"{turn.tokens} tokens",
                ("warn", _flag(turn)),
                turn.snippet,
            )
            for turn in result.turns
        ),
    )


def _flag(turn: TurnListed) -> str:
    if turn.status == "completed":
        return "" if turn.on else "on another branch"
    return turn.status


@dataclass(frozen=True, slots=True)
class TurnRow:
    seq: int
    role: str
    who: str
    kind: str
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class TurnShown:
    turn: TurnListed
    rows: tuple[TurnRow, ...]


@view(TurnShown)
def _(shown: TurnShown) -> Block:
    turn = shown.turn
    about = f"{turn.by} → {turn.agent}, {turn.tokens} tokens, {turn.status}"
    lines: list[Line] = [line(("mark", turn.short), f"  {about}  ", ("dim", turn.id))]
    for row in shown.rows:
        head = line(("time", f"{row.seq} "), ("heading", row.role), ("name", f" {row.who}"))
        lines.append(line(*head.spans, ("dim", f"  {row.kind}, {row.tokens} tokens")))
        lines += headed("  ", text=row.text)
    return block(*lines)


@verb(
    "message",
    group="Models",
    needs=Right.ENTER,
    tool=False,
    examples=(
        "/message list",
        "/message list 30",
        "/message show 1f03ac",
        "/message drop 1f03ac",
        "/message restore 1f03ac",
    ),
)
async def message(
    caller: Caller,
    what: Literal["list", "show", "drop", "restore"] = "list",
    which: Word | None = None,
) -> TurnList | TurnShown | Done:
    """The turns of this room: each a question with all that came of it

    A dropped turn is no longer told to models. It stays stored, in the history, and can be
    restored. One drops one's own; an owner of the room anybody's.

    what: list, show, drop or restore.
    which: for list how many; else the turn, by the end of its id as the list shows it.
    """
    room = await caller.room()
    if what == "list":
        count = _count(which)
        found = await caller.world.store.read(lambda conn: _listed(conn, caller, count))
        return TurnList(room.name, tuple(found))
    if not which:
        raise Invalid(f"Say which turn: /message {what} ID.", hint="/message list shows them.")
    turn = await caller.world.store.read(lambda conn: turns.find(conn, room.id, which))
    if what == "show":
        return await caller.world.store.read(lambda conn: _shown(conn, caller, turn))
    await may_change(caller, turn)
    asker, agent = names_of(caller, turn)
    did = turns.drop if what == "drop" else turns.restore
    words = "took out" if what == "drop" else "put back"
    count = await caller.change(
        lambda tx: did(tx, turns.find(tx.conn, room.id, turn.id)),
        f"{words} {agent}'s answer to {asker} ({turn.short})",
    )
    return Done(f"{'Dropped' if what == 'drop' else 'Restored'} turn {turn.short}: {count} rows.")


@verb("undo", group="Models", needs=Right.TALK, tool=False, examples=("/undo",))
async def undo(caller: Caller) -> Done:
    """Take back what you asked last, with its answer

    Models are no longer told of it, and the notes the model had before are back. An owner of the
    room takes back the newest turn, whoever asked. /message restore brings a turn back.
    """
    turn = await newest_own(caller)
    answering = caller.world.part(Turns)
    if turn.status == "open" and answering is not None:
        answering.stop(caller.room_id, agent_id=turn.agent_id)
        await answering.ended(turn.id)

    def work(tx: Change) -> int:
        known = turns.find(tx.conn, caller.room_id, turn.id)
        dropped = turns.drop(tx, known)
        for called in _called_by(tx.conn, known):
            if called.status not in ("open", "dropped"):
                dropped += turns.drop(tx, called)
                restore_state(tx, caller, called)
        restore_state(tx, caller, known)
        return dropped

    asker, agent = names_of(caller, turn)
    count = await caller.change(work, f"took back {agent}'s answer to {asker} ({turn.short})")
    return Done(
        f"Took back turn {turn.short}: {agent}'s answer to {asker}, {count} rows."
        f" /message restore {turn.short} brings it back."
    )


def _count(which: str | None) -> int:
    if which is None:
        return LISTED
    if not which.isdecimal() or not 1 <= int(which[:6]) <= MOST_LISTED:
        raise Invalid(f"{which[:20]} is not a number from 1 to {MOST_LISTED}.")
    return int(which)


async def may_change(caller: Caller, turn: Turn) -> None:
    """Go on if the turn is the caller's own or the caller keeps order here."""
    if turn.opened_by == caller.agent.id:
        return
    rights = (await caller.room()).rights_of(caller.agent, now_ms())
    if Right.MODERATE not in rights:
        asker = caller.world.agents.name_of(turn.opened_by)
        raise Forbidden(f"{asker} asked that: {asker} or an owner of the room may change it.")


async def newest_own(caller: Caller, agent_id: str | None = None, *, own: bool = False) -> Turn:
    """The newest turn of the conversation that the caller may take back."""
    rights = (await caller.room()).rights_of(caller.agent, now_ms())
    anybody = Right.MODERATE in rights and not own
    path = await caller.world.store.read(lambda conn: turns.path(conn, caller.room_id, ANCESTRY))
    for turn in reversed(path):
        if agent_id in (None, turn.agent_id) and (anybody or turn.opened_by == caller.agent.id):
            return turn
    if path and not anybody:
        raise NotFound("You have asked no model anything here that could be taken back.")
    raise NotFound("No model has been asked anything here.")


def _called_by(conn: Connection, turn: Turn) -> list[Turn]:
    """The turns that the rows of a turn have opened, and theirs, newest first."""
    found: list[Turn] = []
    waiting = [turn]
    recent = turns.newest(conn, turn.room_id, ANCESTRY)
    while waiting:
        ids = {row.id for row in turns.rows_of(conn, waiting.pop()) if row.kind == "chat"}
        ids.discard(turn.request_row_id or "")
        known = {one.id for one in found}
        more = [one for one in recent if one.request_row_id in ids and one.id not in known]
        found += more
        waiting += more
    return found[::-1]


def restore_state(tx: Change, caller: Caller, turn: Turn) -> None:
    """Give a model the notes it had before a turn, unless a later answer of it is kept."""
    later = [
        other
        for other in turns.path(tx.conn, caller.room_id, ANCESTRY)
        if other.agent_id == turn.agent_id and other.id > turn.id
    ]
    if not later and turn.state_before is not None:
        name = caller.world.agents.name_of(turn.agent_id)
        states.write(tx, caller.room_id, turn.agent_id, name, turn.state_before)


def names_of(caller: Caller, turn: Turn) -> tuple[str, str]:
    """Who asked, and who was asked."""
    names = caller.world.agents
    return names.name_of(turn.opened_by), names.name_of(turn.agent_id)


def _listed(conn: Connection, caller: Caller, count: int) -> list[TurnListed]:
    on = {turn.id for turn in turns.path(conn, caller.room_id, MOST_LISTED)}
    found = turns.newest(conn, caller.room_id, count)
    return [one_listed(conn, caller, turn, turn.id in on)[0] for turn in found]


def one_listed(
    conn: Connection, caller: Caller, turn: Turn, on: bool
) -> tuple[TurnListed, tuple[TurnRow, ...]]:
    asker, agent = names_of(caller, turn)
    found = tuple(
        TurnRow(
            row.seq,
            _role(caller, row),
            caller.world.agents.name_of(row.author_id),
            row.kind,
            tokens(row.content),
            row.content,
        )
        for row in turns.rows_of(conn, turn)
    )
    flat = " ".join(found[0].text.split()) if found else ""
    snippet = flat if len(flat) <= SNIPPET else flat[: SNIPPET - 1] + "…"
    size = sum(row.tokens for row in found)
    listed = TurnListed(
        turn.id,
        turn.short,
        turn.created_at,
        asker,
        agent,
        snippet,
        len(found),
        size,
        turn.status,
        on and turn.status != "dropped",
    )
    return listed, found


def _shown(conn: Connection, caller: Caller, turn: Turn) -> TurnShown:
    on = any(one.id == turn.id for one in turns.path(conn, caller.room_id, MOST_LISTED))
    listed, found = one_listed(conn, caller, turn, on)
    return TurnShown(listed, found)


def _role(caller: Caller, row: Row) -> str:
    """What a provider would call the row's part in the conversation."""
    if row.kind in ("tool.result", "tool.error", "tool.timeout"):
        return "tool"
    if row.kind == "notice":
        return "system"
    author = caller.world.agents.get(row.author_id)
    return "assistant" if author is not None and author.kind == "model" else "user"
