"""The verbs of `/message`. A turn is a question with its whole answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final, TypeAlias

from pydantic import Field
from sqlalchemy import Connection

from sshwarma.common.limits import DEFAULT_LISTED_TURNS, MAX_LISTED_TURNS
from sshwarma.services import services_of
from sshwarma.verbs.arguments import Arg, CompletionRequest, Option
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import ASKER_RIGHT
from sshwarma.verbs.turn_views import (
    ChangedConversation,
    TurnDetails,
    TurnList,
    TurnRow,
    TurnSummary,
)
from sshwarma.verbs.views import format_count
from sshwarma.workspaces.turn_files import FilesMoved, forget_files, move_files
from sshwarma.world import drop_turns, notes, turns
from sshwarma.world.access import Right, TokenScope
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.missing_rights import explain_granters
from sshwarma.world.row import Row
from sshwarma.world.rows import CALL_END_KINDS
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn
from sshwarma.wrap.tokens import estimate_tokens

MAX_TURN_SNIPPET_CHARACTERS: Final = 60
MAX_ANCESTOR_TURNS: Final = 200


async def complete_turns(request: CompletionRequest) -> list[Option]:
    """List the newest turns of the room by the ends of their ids, newest first."""
    caller = request.caller

    def read(conn: Connection) -> list[Option]:
        newest = reversed(turns.read_newest_turns(conn, caller.room_id, DEFAULT_LISTED_TURNS))
        summaries = (make_turn_list_item(conn, caller, turn, on=True)[0] for turn in newest)
        return [(turn.short, turn.snippet) for turn in summaries]

    return await caller.world.store.read(read)


TurnId: TypeAlias = Annotated[str, Arg(complete=complete_turns)]
"""A turn by its id, or by the end of its id."""

TurnCount: TypeAlias = Annotated[int, Arg("number"), Field(ge=1, le=MAX_LISTED_TURNS)]


message = group(
    "message",
    section="Models",
    default="list",
    doc="""List, show, drop and restore turns.

    A turn is a question with its whole answer, tool calls included.

    A dropped turn is no longer sent to models. It stays stored, in the history, and can be
    restored. You can drop and restore turns that you started; an owner of the room can do so for
    every turn.
    """,
)


@message.verb("list", needs=Right.ENTER, tool=False, examples=("/message list", "/message list 30"))
async def list_turns(caller: Caller, n: TurnCount = DEFAULT_LISTED_TURNS) -> TurnList:
    """List the newest turns.

    Args:
        n: number of turns (default {DEFAULT_LISTED_TURNS}, at most {MAX_LISTED_TURNS}).
    """
    room = await caller.room()
    summaries = await caller.world.store.read(lambda conn: _list_turns(conn, caller, n))
    return TurnList(room.name, tuple(summaries))


@message.verb("show", needs=Right.ENTER, tool=False, examples=("/message show 1f03ac",))
async def show_turn(caller: Caller, turn: TurnId) -> TurnDetails:
    """Show a turn row by row.

    Args:
        turn: its id, or the end of it.
    """
    target = await _find(caller, turn)
    return await caller.world.store.read(lambda conn: _read_turn_details(conn, caller, target))


@message.verb(
    "drop",
    needs=Right.ENTER,
    also_needs=(ASKER_RIGHT,),
    scope=TokenScope.ACT,
    tool=False,
    examples=("/message drop 1f03ac",),
)
async def drop_turn(caller: Caller, turn: TurnId) -> ChangedConversation:
    """Drop a turn: it is no longer sent to models.

    The model's notes become those from before it, if it was the model's newest answer.

    Args:
        turn: its id, or the end of it.
    """
    return await _set_dropped(caller, turn, dropped=True)


@message.verb(
    "restore",
    needs=Right.ENTER,
    also_needs=(ASKER_RIGHT,),
    scope=TokenScope.ACT,
    tool=False,
    examples=("/message restore 1f03ac",),
)
async def restore_turn(caller: Caller, turn: TurnId) -> ChangedConversation:
    """Restore a turn that was dropped.

    Args:
        turn: its id, or the end of it.
    """
    return await _set_dropped(caller, turn, dropped=False)


async def _set_dropped(caller: Caller, name: str, *, dropped: bool) -> ChangedConversation:
    """Drop or restore a turn, with the notes that the model then has."""
    turn = await _find(caller, name)
    await check_may_change(caller, turn)
    asker, agent = participant_names(caller, turn)

    done = "dropped" if dropped else "restored"

    def work(tx: Change) -> tuple[int, bool, FilesMoved]:
        stored_turn = turns.find_turn(tx.conn, caller.room_id, turn.id)
        is_on = any(one.id == turn.id for one in _read_path(tx.conn, caller))
        moved = [stored_turn] if is_on else []
        forget_files(tx, stored_turn)
        if dropped:
            moved_rows = drop_turns.drop_turn(tx, stored_turn)
            meta = drop_turns.record_changed_rows(gone=moved_rows)
            has_new_notes = restore_notes(tx, caller, turn)
            files = move_files(tx, services_of(caller).workspaces, caller, removed=moved)
        else:
            moved_rows = drop_turns.restore_turn(tx, stored_turn)
            meta = drop_turns.record_changed_rows(back=moved_rows)
            has_new_notes = sync_notes(tx, caller, turn.agent_id)
            files = move_files(tx, services_of(caller).workspaces, caller, added=moved)
        text = f"{done} {agent}'s answer to {asker} ({turn.short_id}){files.note}"
        caller.append_notice(tx, text, meta)
        return len(moved_rows), has_new_notes, files

    count, has_new_notes, files = await caller.change(work)
    text = f"{done.capitalize()} turn {turn.short_id}: {format_count(count, 'row')}."
    text += (describe_notes(agent) if has_new_notes else "") + files.text
    return ChangedConversation(text, turn.id, count, files.changed, files.kept)


def _read_path(conn: Connection, caller: Caller) -> list[Turn]:
    """Return the newest turns of the conversation, dropped ones included."""
    return turns.read_path(conn, caller.room_id, MAX_ANCESTOR_TURNS, with_dropped=True)


async def _find(caller: Caller, turn: str) -> Turn:
    return await caller.world.store.read(lambda conn: turns.find_turn(conn, caller.room_id, turn))


async def check_may_change(caller: Caller, turn: Turn) -> None:
    """Raise unless the caller may drop and restore a turn.

    Raises:
        Forbidden: if another agent asked it and the caller lacks the moderate right.
    """
    asker, room = caller.world.agents.name_of(turn.opened_by), await caller.room()
    refusal = explain_granters(
        caller.world.agents, Right.MODERATE, room, f"for a question of {asker}"
    )
    await ASKER_RIGHT.require(caller, turn.opened_by, refusal=refusal)


def describe_notes(agent: str) -> str:
    """Return the sentence that says that a model's notes were changed."""
    return f" {agent}'s notes were changed to match."


async def find_newest_own(caller: Caller, action: str, model: Agent | None = None) -> Turn:
    """Find the newest turn that the caller asked in the conversation.

    `model` limits the search to turns of one model. `action` completes the message of the refusal:
    "Cannot `ask again`: you have not asked a question here."

    Raises:
        NotFound: if there is no such turn.
    """
    path = await caller.world.store.read(
        lambda conn: turns.read_path(conn, caller.room_id, MAX_ANCESTOR_TURNS)
    )
    for turn in reversed(path):
        if turn.opened_by == caller.agent.id and (model is None or turn.agent_id == model.id):
            return turn
    if model is not None:
        raise NotFound(f"Cannot {action}: you have not asked {model.name} a question here.")
    raise NotFound(f"Cannot {action}: you have not asked a question here.")


def list_called_turns(conn: Connection, turn: Turn) -> list[Turn]:
    """List the turns that the rows of a turn opened, and so on, newest first."""
    called_turns: list[Turn] = []
    queue = [turn]
    recent = turns.read_newest_turns(conn, turn.room_id, MAX_ANCESTOR_TURNS)
    while queue:
        ids = {
            row.id for row in turns.read_rows_with_request(conn, queue.pop()) if row.kind == "chat"
        }
        ids.discard(turn.request_row_id or "")
        called_ids = {item.id for item in called_turns}
        new_turns = [
            item for item in recent if item.request_row_id in ids and item.id not in called_ids
        ]
        called_turns += new_turns
        queue += new_turns
    return called_turns[::-1]


def restore_notes(tx: Change, caller: Caller, turn: Turn) -> bool:
    """Restore a model's notes from before a turn, unless a later answer is kept.

    Return whether this changed the notes.
    """
    later_turns = [
        later_turn
        for later_turn in turns.read_path(tx.conn, caller.room_id, MAX_ANCESTOR_TURNS)
        if later_turn.agent_id == turn.agent_id and later_turn.id > turn.id
    ]
    return not later_turns and _set_notes(tx, caller, turn.agent_id, turn.state_before)


def sync_notes(tx: Change, caller: Caller, agent_id: str, gone: Sequence[Turn] = ()) -> bool:
    """Set the notes of a model to match the current conversation.

    These are the notes that its newest answer set, else the notes before that answer. If the model
    has no answer there, they are the notes before the first of its turns in `gone`, the turns that
    have left the conversation. Return whether this changed the notes.
    """
    path = turns.read_path(tx.conn, caller.room_id, MAX_ANCESTOR_TURNS)
    newest = next((turn for turn in reversed(path) if turn.agent_id == agent_id), None)
    if newest is None:
        old_notes = next((turn.state_before for turn in gone if turn.agent_id == agent_id), None)
        return _set_notes(tx, caller, agent_id, old_notes)
    newest_notes = notes.read_answer_notes(tx.conn, [newest])
    return _set_notes(
        tx, caller, agent_id, newest.state_before if newest_notes is None else newest_notes
    )


def _set_notes(tx: Change, caller: Caller, agent_id: str, text: str | None) -> bool:
    name = caller.world.agents.name_of(agent_id)
    if text is None or notes.read_notes(tx.conn, caller.room_id, name) == text:
        return False
    notes.write_notes(tx, caller.room_id, agent_id, name, text)
    return True


def participant_names(caller: Caller, turn: Turn) -> tuple[str, str]:
    """Return the name of the agent that asked, and of the agent that was asked."""
    names = caller.world.agents
    return names.name_of(turn.opened_by), names.name_of(turn.agent_id)


def _list_turns(conn: Connection, caller: Caller, count: int) -> list[TurnSummary]:
    on = {turn.id for turn in turns.read_path(conn, caller.room_id, MAX_LISTED_TURNS)}
    newest = turns.read_newest_turns(conn, caller.room_id, count)
    head = turns.read_head(conn, caller.room_id)
    return [
        replace(make_turn_list_item(conn, caller, turn, turn.id in on)[0], head=turn.id == head)
        for turn in newest
    ]


def make_turn_list_item(
    conn: Connection, caller: Caller, turn: Turn, on: bool
) -> tuple[TurnSummary, tuple[TurnRow, ...]]:
    """Make the list item and rows of a turn. `on`: whether the conversation has it."""
    asker, agent = participant_names(caller, turn)
    rows = tuple(
        TurnRow(
            seq=row.seq,
            role=_provider_role(caller, row),
            who=caller.world.agents.name_author(row),
            kind=row.kind,
            tokens=estimate_tokens(row.content),
            text=row.content,
            tool=str(row.meta.get("tool", "")) if row.kind.startswith("tool.") else "",
        )
        for row in turns.read_rows_with_request(conn, turn)
    )
    answers = [row.text for row in rows[1:] if row.who == agent and row.kind == "chat"]
    size = sum(row.tokens for row in rows)
    summary = TurnSummary(
        id=turn.id,
        short=turn.short_id,
        at=turn.created_at,
        by=asker,
        agent=agent,
        snippet=_cut_snippet(rows[0].text) if rows else "",
        answer=_cut_snippet(answers[-1]) if answers else "",
        rows=len(rows),
        tokens=size,
        status=turn.status,
        on=on and turn.status != "dropped",
        parent=turn.parent_turn_id or "",
    )
    return summary, rows


def _cut_snippet(text: str) -> str:
    """Join a text to one line of at most MAX_TURN_SNIPPET_CHARACTERS."""
    flat = " ".join(text.split())
    if len(flat) <= MAX_TURN_SNIPPET_CHARACTERS:
        return flat
    return flat[: MAX_TURN_SNIPPET_CHARACTERS - 1] + "…"


def _read_turn_details(conn: Connection, caller: Caller, turn: Turn) -> TurnDetails:
    on = any(item.id == turn.id for item in turns.read_path(conn, caller.room_id, MAX_LISTED_TURNS))
    summary, rows = make_turn_list_item(conn, caller, turn, on)
    return TurnDetails(summary, rows)


def _provider_role(caller: Caller, row: Row) -> str:
    """Return the role of a row in a provider's API: user, assistant, tool or system."""
    if row.kind in CALL_END_KINDS:
        return "tool"
    if row.kind == "notice":
        return "system"
    author = caller.world.agents.get(row.author_id)
    return "assistant" if author is not None and author.kind == "model" else "user"
