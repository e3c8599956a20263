"""The verbs `branch`: other answers to a question."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from sshwarma.common.limits import MAX_LISTED_TURNS
from sshwarma.services import services_of
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.message import (
    TurnId,
    check_may_change,
    make_turn_list_item,
    participant_names,
    sync_notes,
)
from sshwarma.verbs.registry import group
from sshwarma.verbs.rights import ASKER_RIGHT
from sshwarma.verbs.turn_views import ChangedConversation, TurnSummary
from sshwarma.verbs.views import (
    draw_columns,
    draw_hint,
    format_clock,
    view_for_reader,
)
from sshwarma.workspaces.turn_files import FilesMoved, move_files, remember_files, return_files
from sshwarma.world import rows, turns
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.drop_turns import record_changed_rows
from sshwarma.world.errors import Conflict
from sshwarma.world.events import TurnsChanged
from sshwarma.world.reader import Reader, next_call
from sshwarma.world.store import Change


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
async def switch_branch(caller: Caller, turn: TurnId) -> ChangedConversation:
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

    asker, agent = participant_names(caller, target)

    def work(tx: Change) -> FilesMoved:
        old_path = turns.read_path(tx.conn, room.id, with_dropped=True)
        if any(one.id == target.id for one in old_path):
            raise Conflict(f"The conversation includes {target.short_id} already.")
        workspaces = services_of(caller).workspaces
        remember_files(tx, workspaces, room.id)
        turns.set_head(tx, room.id, turns.find_leaf(tx.conn, target).id)
        new_turns = {one.id: one for one in turns.read_path(tx.conn, room.id, with_dropped=True)}
        removed_turns = [one for one in old_path if one.id not in new_turns]
        added_ids = set(new_turns) - {one.id for one in old_path}
        agent_ids = [
            one.agent_id for one in (*removed_turns, *(new_turns[one] for one in added_ids))
        ]
        for agent_id in dict.fromkeys(agent_ids):
            sync_notes(tx, caller, agent_id, removed_turns)
        gone = rows.read_row_numbers(tx.conn, [one.id for one in removed_turns])
        back = rows.read_row_numbers(tx.conn, added_ids)
        tx.publish_on_commit(TurnsChanged(room.id, gone, back))
        files = return_files(tx, workspaces, room.id)
        if files is None:
            files = move_files(
                tx,
                workspaces,
                caller,
                removed=[one for one in removed_turns if one.status != "dropped"],
                added=[new_turns[id] for id in added_ids if new_turns[id].status != "dropped"],
            )
        branch = f"{agent}'s answer to {asker}, {target.short_id}"
        text = f"switched to another branch: {branch}{files.note}"
        caller.append_notice(tx, text, record_changed_rows(gone, back))
        return files

    files = await caller.change(work)
    text = f"The conversation continues from {target.short_id}: {agent}'s answer to {asker}."
    return ChangedConversation(text + files.text, target.id, 0, files.changed, files.kept)


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
