"""The verb undo: drop the newest question and its answer."""

from __future__ import annotations

from sshwarma.services import services_of
from sshwarma.verbs.message import (
    check_may_change,
    describe_notes,
    find_newest_own,
    list_called_turns,
    participant_names,
    restore_notes,
)
from sshwarma.verbs.registry import verb
from sshwarma.verbs.rights import ASKER_RIGHT
from sshwarma.verbs.turn_views import ChangedConversation
from sshwarma.verbs.views import format_count
from sshwarma.workspaces.turn_files import FilesMoved, move_files
from sshwarma.world import drop_turns, turns
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import next_call
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn


@verb(
    "undo",
    section="Models",
    needs=Right.TALK,
    also_needs=(ASKER_RIGHT,),
    tool=False,
    examples=("/undo",),
)
async def undo(caller: Caller) -> ChangedConversation:
    """Drop your last question and its answer.

    Neither is sent to models any more. The notes that the model had before are restored, and the
    files that it changed, unless they were changed since. An owner of the room drops the newest
    turn, also if another person asked.

    For people:
        /message restore restores it.
    """
    turn = await find_newest_to_undo(caller)
    answering = services_of(caller).turns
    await answering.stop_turn(turn.id, caller.agent.name)
    for called_turn in await caller.world.store.read(lambda conn: list_called_turns(conn, turn)):
        await answering.stop_turn(called_turn.id, caller.agent.name)

    asker, agent = participant_names(caller, turn)

    def work(tx: Change) -> tuple[int, bool, list[Turn], FilesMoved]:
        stored_turn = turns.find_turn(tx.conn, caller.room_id, turn.id)
        gone = [*drop_turns.drop_turn(tx, stored_turn)]
        dropped_turns = [stored_turn]
        for called_turn in list_called_turns(tx.conn, stored_turn):
            if called_turn.status not in ("open", "dropped"):
                gone += drop_turns.drop_turn(tx, called_turn)
                dropped_turns.append(called_turn)
                restore_notes(tx, caller, called_turn)
        has_new_notes = restore_notes(tx, caller, stored_turn)
        files = move_files(tx, services_of(caller).workspaces, caller, removed=dropped_turns)
        text = f"dropped {agent}'s answer to {asker} ({turn.short_id}){files.note}"
        caller.append_notice(tx, text, drop_turns.record_changed_rows(gone=gone))
        return len(gone), has_new_notes, turns.read_other_answers(tx.conn, stored_turn), files

    count, has_new_notes, other_turns, files = await caller.change(work)
    row_count = format_count(count, "row")
    sentences = [f"Dropped turn {turn.short_id}: {agent}'s answer to {asker}, {row_count}."]
    if other_turns:
        names = ", ".join(
            caller.world.agents.name_of(other_turn.agent_id) for other_turn in other_turns
        )
        sentences.append(f"The question stays, with what {names} answered.")
    if has_new_notes:
        sentences.append(describe_notes(agent).strip())
    if files.text:
        sentences.append(files.text.strip())
    next_step = next_call("{} restores it.", "message restore", turn=turn.short_id)
    return ChangedConversation(
        " ".join(sentences), turn.id, count, files.changed, files.kept, next_step
    )


async def find_newest_to_undo(caller: Caller) -> Turn:
    """Find the newest turn of the conversation that the caller may undo.

    Raises:
        NotFound: if there is no such turn.
        Forbidden: if only turns of others are left, and the scope of the token is too narrow.
    """
    path = await caller.world.store.read(lambda conn: turns.read_path(conn, caller.room_id, 1))
    if not await ASKER_RIGHT.is_met(caller):
        try:
            return await find_newest_own(caller, "undo")
        except NotFound:
            if path and await ASKER_RIGHT.is_held(caller):
                await check_may_change(caller, path[-1])  # the scope of the token is too narrow
            raise
    if path:
        return path[-1]
    if await caller.world.store.read(lambda conn: turns.read_newest_turns(conn, caller.room_id, 1)):
        raise NotFound(
            "Every question here is dropped already.",
            hint=next_call("{} shows them.", "message list"),
        )
    raise NotFound("Cannot undo: nobody has asked a question here.")
