"""The verbs retry, branch and clone: other answers to the same question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_CLONED_ROWS, MAX_LISTED_TURNS
from sshwarma.models.open_turns import open_turns
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.arguments import ModelName, RoomName, Word
from sshwarma.verbs.message import (
    MAX_ANCESTOR_TURNS,
    TurnId,
    check_may_change,
    find_newest_own,
    list_called_turns,
    make_turn_list_item,
    participant_names,
    restore_notes,
    sync_notes,
)
from sshwarma.verbs.moving import SOURCE_RIGHT, MoveResult, copy_room
from sshwarma.verbs.registry import group, verb
from sshwarma.verbs.rights import ASKER_RIGHT
from sshwarma.verbs.talking import SentMessage, check_answer_capacity
from sshwarma.verbs.turn_views import TurnSummary
from sshwarma.verbs.views import (
    Confirmation,
    draw_columns,
    draw_hint,
    format_clock,
    view_for_reader,
)
from sshwarma.world import clone as clones
from sshwarma.world import drop_turns, rows, turns
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound, Unavailable
from sshwarma.world.events import TurnsChanged
from sshwarma.world.ids import now_ms
from sshwarma.world.questions import Question
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn


@verb("retry", section="Models", needs=Right.TALK, tool=False, examples=("/retry", "/retry @qwen"))
async def retry(caller: Caller, model: ModelName | None = None) -> SentMessage:
    """Ask your last question again.

    The new answer replaces the old one, which stays as a branch. If models were asked more since,
    those turns stay and the old answer is dropped instead.

    For people:
        /branch goes back to the old answer; /message restore restores it if it was dropped.

    Args:
        model: the model to ask again (default: the one that answered you last).
    """
    answering = services_of(caller).turns
    model_agent = caller.world.agents.find_model(model) if model else None
    old_turn = await find_newest_own(caller, "ask again", model_agent)
    agent = caller.world.agents.get(old_turn.agent_id)
    if agent is None or not answering.can_answer(agent):
        raise Unavailable(f"{participant_names(caller, old_turn)[1]} cannot answer now.")
    if sanction := (await caller.room()).explain_silence(agent, now_ms()):
        raise Conflict(sanction)
    if old_turn.status == "open":
        raise Conflict(
            f"{agent.name} is still answering that.", hint=next_call("{} ends it.", "stop")
        )
    check_answer_capacity(caller, answering, 1)
    question = await caller.world.store.read(partial(_question_row, turn=old_turn))

    def work(tx: Change) -> tuple[Row, Turn]:
        stored_turn = turns.find_turn(tx.conn, caller.room_id, old_turn.id)
        called_turns = list_called_turns(tx.conn, stored_turn)
        later_turns = _turns_after(tx.conn, stored_turn, called_turns)
        is_last = stored_turn.status != "dropped" and not later_turns
        if stored_turn.status != "dropped" and later_turns:
            # The later turns stay; the old answer goes, with what it led to.
            for turn in (stored_turn, *called_turns):
                if turn is stored_turn or turn.status not in ("open", "dropped"):
                    drop_turns.drop_turn(tx, turn)
        restore_notes(tx, caller, stored_turn)
        (turn,) = open_turns(
            tx, caller.room_id, [agent], caller.agent.id, beside=stored_turn if is_last else None
        )
        row = rows.append_row(
            tx,
            caller.room_id,
            "chat",
            question.content,
            author_id=caller.agent.id,
            turn_id=turn.id,
            meta={"again": stored_turn.id},
        )
        turns.set_request_row(tx, [turn.id], row)
        tx.publish_on_commit(TurnsChanged(caller.room_id))
        return row, turn

    row, turn = await caller.change(work)
    limit = caller.limits.turns_per_question
    asked = Question(caller.agent.id, limit, turn.question_id, {agent.id})
    answering.start_turn(turn, agent, row, caller.services, asked=asked)
    room_name = (await caller.room()).name
    return SentMessage(room_name, row.seq, caller.agent.name, row.content, turns=(turn.id,))


@dataclass(frozen=True, slots=True)
class BranchList:
    """The forks of a room's conversation: the turns at each, and which one is in use."""

    room: str
    forks: tuple[tuple[TurnSummary, ...], ...]


@view_for_reader(BranchList)
def draw_branch_list(result: BranchList, reader: Reader) -> Block:
    """Draw each question with its answers, the one in use marked."""
    if not result.forks:
        return block(line("The conversation of ", ("room", result.room), " has no branches."))
    lines: list[Line] = [line(("heading", f"Branches of {result.room}:"))]
    for fork in result.forks:
        lines.append(line("  ", ("name", fork[0].by), f": {fork[0].snippet}", hang=4))
        lines += draw_columns(
            (
                (
                    ("ok", "●") if turn.on else ("dim", "○"),
                    ("mark", turn.short),
                    ("time", format_clock(turn.at)),
                    f"{turn.by} → {turn.agent}",
                    ("warn", "" if turn.status == "completed" else turn.status),
                    turn.answer or ("dim", "no answer"),
                )
                for turn in fork
            ),
            indent=4,
            cut_last=True,
        )
        lines.append(line())
    lines += draw_hint(reader, "{} goes to another.", "branch switch", turn="TURN")
    return block(*lines)


branch = group(
    "branch",
    section="Models",
    default="list",
    doc="""List and switch branches of the conversation.

    A branch is another answer to the same question, and the conversation after it.

    /retry makes a branch. Models are sent the branch that you switched to, for everybody here.
    """,
)


@branch.verb("list", needs=Right.ENTER, tool=False, examples=("/branch list",))
async def list_branches(caller: Caller) -> BranchList:
    """List the questions that have several answers."""
    room = await caller.room()
    forks = await caller.world.store.read(lambda conn: _list_forks(conn, caller))
    return BranchList(room.name, tuple(forks))


@branch.verb(
    "switch",
    needs=Right.TALK,
    also_needs=(ASKER_RIGHT,),
    tool=False,
    examples=("/branch switch 1f03ac",),
)
async def switch_branch(caller: Caller, turn: TurnId) -> Confirmation:
    """Continue the conversation from another answer.

    Args:
        turn: a turn on the branch, by the end of its id.
    """
    room = await caller.room()
    target = await caller.world.store.read(lambda conn: turns.find_turn(conn, room.id, turn))
    await check_may_change(caller, target)
    if target.status == "dropped":
        raise Conflict(
            f"Turn {target.short_id} is dropped.",
            hint=next_call("{} restores it.", "message restore", turn=target.short_id),
        )

    def work(tx: Change) -> None:
        old_path = turns.read_path(tx.conn, room.id, with_dropped=True)
        if any(one.id == target.id for one in old_path):
            raise Conflict(f"The conversation includes {target.short_id} already.")
        turns.set_head(tx, room.id, turns.find_leaf(tx.conn, target).id)
        new_turns = {one.id: one for one in turns.read_path(tx.conn, room.id, with_dropped=True)}
        removed_turns = [one for one in old_path if one.id not in new_turns]
        added_ids = set(new_turns) - {one.id for one in old_path}
        agent_ids = [
            one.agent_id for one in (*removed_turns, *(new_turns[one] for one in added_ids))
        ]
        for agent_id in dict.fromkeys(agent_ids):
            sync_notes(tx, caller, agent_id, removed_turns)
        tx.publish_on_commit(TurnsChanged(room.id))

    asker, agent = participant_names(caller, target)
    await caller.change(
        work, f"switched to another branch: {agent}'s answer to {asker}, {target.short_id}"
    )
    return Confirmation(
        f"The conversation continues from {target.short_id}: {agent}'s answer to {asker}."
    )


@verb(
    "clone",
    section="Moving",
    needs=Right.CREATE,
    also_needs=(SOURCE_RIGHT,),
    tool=False,
    examples=("/clone workshop", "/clone workshop trial"),
    moves=True,
)
async def clone(caller: Caller, room: RoomName, new: Word | None = None) -> MoveResult:
    """Copy a room with its conversation.

    Copies what a fork has, and the log, the turns and the models' notes. You go to the copy. Later
    changes in one of the rooms do not affect the other.

    For people:
        /fork makes a fork.

    Args:
        room: the room to copy.
        new: name of the copy (default: ROOM-2, or the next free number).
    """
    source = await caller.find_room(room)
    caller.charge_text_volume(
        await caller.world.store.read(
            lambda conn: rows.count_bytes(conn, source.id, MAX_CLONED_ROWS)
        )
    )
    return await copy_room(caller, room, new, clones.clone_room)


def _list_forks(conn: Connection, caller: Caller) -> list[tuple[TurnSummary, ...]]:
    path = turns.read_path(conn, caller.room_id, MAX_LISTED_TURNS, with_dropped=True)
    on = {turn.id for turn in path}
    forks: list[tuple[TurnSummary, ...]] = []
    for turn in path:
        siblings = turns.read_siblings(conn, turn)
        if len(siblings) > 1 and any(sibling.status != "dropped" for sibling in siblings):
            forks.append(
                tuple(
                    make_turn_list_item(conn, caller, sibling, sibling.id in on)[0]
                    for sibling in siblings
                )
            )
    return forks


def _turns_after(conn: Connection, turn: Turn, called: list[Turn]) -> list[Turn]:
    """List the later turns of the conversation, except those that the answer opened."""
    called_ids = {item.id for item in called}
    path = turns.read_path(conn, turn.room_id, MAX_ANCESTOR_TURNS)
    at = next((at for at, item in enumerate(path) if item.id == turn.id), len(path))
    return [item for item in path[at + 1 :] if item.id not in called_ids]


def _question_row(conn: Connection, turn: Turn) -> Row:
    questions = rows.read_rows_by_id(conn, [turn.request_row_id] if turn.request_row_id else [])
    if not questions:
        raise NotFound(f"The question of turn {turn.short_id} was not found.")
    return questions[0]
