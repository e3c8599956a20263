"""Turns: questions with their whole answers, listed, taken back, asked again, branched."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from sqlalchemy import Connection

from sshwarma.models.turn import Turns, open_turns
from sshwarma.terminal.text import Block, Line, block, headed, line
from sshwarma.toolsets import making
from sshwarma.verbs.arguments import AgentName, RoomName, Word
from sshwarma.verbs.building import Done
from sshwarma.verbs.moving import Moved, go_to
from sshwarma.verbs.registry import verb
from sshwarma.verbs.talking import Said
from sshwarma.verbs.views import clock, columns, view
from sshwarma.world import clone as clones
from sshwarma.world import rows, states, turns
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from sshwarma.world.events import Row, TurnsChanged
from sshwarma.world.ids import now_ms
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
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
    await _may_change(caller, turn)
    asker, agent = _names(caller, turn)
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
    turn = await _newest(caller)
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
                _restore_state(tx, caller, called)
        _restore_state(tx, caller, known)
        return dropped

    asker, agent = _names(caller, turn)
    count = await caller.change(work, f"took back {agent}'s answer to {asker} ({turn.short})")
    return Done(
        f"Took back turn {turn.short}: {agent}'s answer to {asker}, {count} rows."
        f" /message restore {turn.short} brings it back."
    )


@verb("retry", group="Models", needs=Right.TALK, tool=False, examples=("/retry", "/retry @qwen"))
async def retry(caller: Caller, model: AgentName | None = None) -> Said:
    """Ask what you asked last once more

    The new answer takes the place of the old one, which stays as a branch: /branch goes back to
    it.

    model: the model whose answer is to be given again; the last one to answer you if left out.
    """
    answering = caller.world.part(Turns)
    wanted = caller.world.agents.find(model) if model else None
    old = await _newest(caller, wanted.id if wanted else None, own=True)
    agent = caller.world.agents.get(old.agent_id)
    if answering is None or agent is None or not answering.answers(agent):
        raise Unavailable(f"{_names(caller, old)[1]} cannot answer now.")
    if old.status == "open":
        raise Conflict(f"{agent.name} still answers that.", hint="/stop ends it.")
    question = await caller.world.store.read(partial(_question, turn=old))

    def work(tx: Change) -> tuple[Row, Turn]:
        known = turns.find(tx.conn, caller.room_id, old.id)
        last = turns.head(tx.conn, caller.room_id) == known.id
        if not last and known.status != "dropped":
            # Others were answered since, and that stands: the old answer alone goes.
            turns.drop(tx, known)
        _restore_state(tx, caller, known)
        (turn,) = open_turns(
            tx, caller.room_id, [agent], caller.agent.id, beside=known if last else None
        )
        row = rows.append(
            tx,
            caller.room_id,
            "chat",
            question.content,
            author_id=caller.agent.id,
            turn_id=turn.id,
            meta={"again": known.id},
        )
        turns.asked_by(tx, [turn.id], row)
        tx.emit(TurnsChanged(caller.room_id))
        return row, turn

    row, turn = await caller.change(work)
    answering.begin(turn, agent, row, behind=caller.agent.id)
    name = (await caller.room()).name
    return Said(name, row.seq, caller.agent.name, row.content, turns=(turn.id,))


@dataclass(frozen=True, slots=True)
class Branches:
    """Where the conversation forks: at each place the turns that follow, and which is on."""

    room: str
    forks: tuple[tuple[TurnListed, ...], ...]


@view(Branches)
def _(result: Branches) -> Block:
    if not result.forks:
        return block(line("The conversation of ", ("room", result.room), " has no branches."))
    lines: list[Line] = [line(("heading", f"Branches of {result.room}:"))]
    for fork in result.forks:
        lines += columns(
            (
                ("ok", "●") if turn.on else ("dim", "○"),
                ("mark", turn.short),
                ("time", clock(turn.at)),
                f"{turn.by} → {turn.agent}",
                ("warn", "" if turn.status == "completed" else turn.status),
                turn.snippet,
            )
            for turn in fork
        )
        lines.append(line())
    lines.append(line(("dim", "/branch switch ID goes to another.")))
    return block(*lines)


@verb(
    "branch",
    group="Models",
    needs=Right.ENTER,
    tool=False,
    examples=("/branch list", "/branch switch 1f03ac"),
)
async def branch(
    caller: Caller, what: Literal["list", "switch"] = "list", which: Word | None = None
) -> Branches | Done:
    """Other answers to the same question, and what came after them

    /retry makes a branch. The one you switch to is what models are told from then on, for
    everyone here.

    what: list or switch.
    which: for switch a turn on the branch, by the end of its id.
    """
    room = await caller.room()
    if what == "list":
        forks = await caller.world.store.read(lambda conn: _forks(conn, caller))
        return Branches(room.name, tuple(forks))
    if not which:
        raise Invalid("Say which branch: /branch switch ID.", hint="/branch list shows them.")
    turn = await caller.world.store.read(lambda conn: turns.find(conn, room.id, which))
    await _may_change(caller, turn)
    if turn.status == "dropped":
        raise Conflict(f"Turn {turn.short} is dropped.", hint=f"/message restore {turn.short}")

    def work(tx: Change) -> Turn:
        leaf = turns.leaf_below(tx.conn, turn)
        if turns.head(tx.conn, room.id) == leaf.id:
            raise Conflict(f"The conversation goes through {turn.short} already.")
        turns.set_head(tx, room.id, leaf.id)
        tx.emit(TurnsChanged(room.id))
        return leaf

    asker, agent = _names(caller, turn)
    await caller.change(work, f"went to another branch: {agent}'s answer to {asker}, {turn.short}")
    return Done(f"The conversation goes on from {turn.short}: {agent}'s answer to {asker}.")


@verb(
    "clone",
    group="Moving",
    needs=Right.CREATE,
    tool=False,
    examples=("/clone workshop", "/clone workshop trial"),
    moves=True,
)
async def clone(caller: Caller, room: RoomName, new: Word | None = None) -> Moved:
    """Make a room like another, with its conversation

    As /fork, with the log, the turns and the models' notes too, and goes there. What is then taken
    back or said in one of them leaves the other alone.

    room: the room to copy.
    new: the name of the copy; ROOM-2 or the next free number if left out.
    """
    source = await caller.room_named(room)
    await caller.require(Right.ENTER, source)
    taken = {known.name for known in await caller.world.rooms()}
    free = (name for n in range(2, 1000) if (name := f"{source.name}-{n}") not in taken)
    name = new.lower() if new else next(free)

    def work(tx: Change) -> Thing:
        room = clones.clone(tx, source.id, name, caller.agent)
        making.copy(tx, source.id, room, caller.agent.id)
        return room

    made = await caller.change(work)
    moved = await go_to(caller, await caller.world.room(made.id))
    return Moved(moved.room, moved.came_from, made=True)


def _count(which: str | None) -> int:
    if which is None:
        return LISTED
    if not which.isdecimal() or not 1 <= int(which[:6]) <= MOST_LISTED:
        raise Invalid(f"{which[:20]} is not a number from 1 to {MOST_LISTED}.")
    return int(which)


async def _may_change(caller: Caller, turn: Turn) -> None:
    """Go on if the turn is the caller's own or the caller keeps order here."""
    if turn.opened_by == caller.agent.id:
        return
    rights = (await caller.room()).rights_of(caller.agent, now_ms())
    if Right.MODERATE not in rights:
        asker = caller.world.agents.name_of(turn.opened_by)
        raise Forbidden(f"{asker} asked that: {asker} or an owner of the room may change it.")


async def _newest(caller: Caller, agent_id: str | None = None, *, own: bool = False) -> Turn:
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


def _restore_state(tx: Change, caller: Caller, turn: Turn) -> None:
    """Give a model the notes it had before a turn, unless a later answer of it is kept."""
    later = [
        other
        for other in turns.path(tx.conn, caller.room_id, ANCESTRY)
        if other.agent_id == turn.agent_id and other.id > turn.id
    ]
    if not later and turn.state_before is not None:
        name = caller.world.agents.name_of(turn.agent_id)
        states.write(tx, caller.room_id, turn.agent_id, name, turn.state_before)


def _question(conn: Connection, turn: Turn) -> Row:
    found = rows.by_id(conn, [turn.request_row_id] if turn.request_row_id else [])
    if not found:
        raise NotFound(f"What was asked in turn {turn.short} is not known any more.")
    return found[0]


def _names(caller: Caller, turn: Turn) -> tuple[str, str]:
    """Who asked, and who was asked."""
    names = caller.world.agents
    return names.name_of(turn.opened_by), names.name_of(turn.agent_id)


def _listed(conn: Connection, caller: Caller, count: int) -> list[TurnListed]:
    on = {turn.id for turn in turns.path(conn, caller.room_id, MOST_LISTED)}
    found = turns.newest(conn, caller.room_id, count)
    return [_one(conn, caller, turn, turn.id in on)[0] for turn in found]


def _forks(conn: Connection, caller: Caller) -> list[tuple[TurnListed, ...]]:
    path = turns.path(conn, caller.room_id, MOST_LISTED)
    on = {turn.id for turn in path}
    found: list[tuple[TurnListed, ...]] = []
    for turn in path:
        beside = turns.siblings(conn, turn)
        if len(beside) > 1:
            found.append(tuple(_one(conn, caller, one, one.id in on)[0] for one in beside))
    return found


def _one(
    conn: Connection, caller: Caller, turn: Turn, on: bool
) -> tuple[TurnListed, tuple[TurnRow, ...]]:
    asker, agent = _names(caller, turn)
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
    listed, found = _one(conn, caller, turn, on)
    return TurnShown(listed, found)


def _role(caller: Caller, row: Row) -> str:
    """What a provider would call the row's part in the conversation."""
    if row.kind in ("tool.result", "tool.error", "tool.timeout"):
        return "tool"
    if row.kind == "notice":
        return "system"
    author = caller.world.agents.get(row.author_id)
    return "assistant" if author is not None and author.kind == "model" else "user"
