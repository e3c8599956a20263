"""The verb `retry`: a question asked again."""

from __future__ import annotations

from functools import partial

from sqlalchemy import Connection

from sshwarma.common.finish import finish
from sshwarma.models.open_turns import open_turns
from sshwarma.services import services_of
from sshwarma.verbs.arguments import ModelName
from sshwarma.verbs.message import (
    MAX_ANCESTOR_TURNS,
    find_newest_own,
    list_called_turns,
    participant_names,
    restore_notes,
)
from sshwarma.verbs.registry import verb
from sshwarma.verbs.say import SentMessage, check_answer_capacity
from sshwarma.workspaces.turn_files import FilesMoved, move_files, remember_files
from sshwarma.world import drop_turns, rows, turns
from sshwarma.world.access import Right
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Conflict, NotFound, Unavailable
from sshwarma.world.events import TurnsChanged
from sshwarma.world.ids import now_ms
from sshwarma.world.questions import SCRIPTED_KEY, Question
from sshwarma.world.reader import next_call
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
    if end := answering.explain_end(agent):
        raise Conflict(f"{agent.name} does not answer now: {end}.")
    if old_turn.status == "open":
        raise Conflict(
            f"{agent.name} is still answering that.", hint=next_call("{} ends it.", "stop")
        )
    check_answer_capacity(caller, answering, 1)
    question = await caller.world.store.read(partial(_question_row, turn=old_turn))

    scripted = caller.is_of_script or bool(question.meta.get(SCRIPTED_KEY))
    again = partial(
        _open_again, caller=caller, old_turn=old_turn, agent=agent, text=question.content,
        is_scripted=scripted,
    )  # fmt: skip

    async def open_and_ask() -> tuple[Row, Turn, FilesMoved]:
        """Open the turn and start its answer."""
        row, turn, files = await caller.change(again)
        limit = caller.limits.turns_per_question
        asked = Question(
            caller.agent.id,
            limit,
            turn.question_id,
            {agent.id},
            caller.origin.fingerprint,
            is_scripted=scripted,
        )
        answering.start_turn(turn, agent, row, caller.services, asked=asked)
        return row, turn, files

    # A stored turn has to be answered, even if the caller's connection ends meanwhile.
    row, turn, files = await finish(open_and_ask())
    return SentMessage(
        (await caller.room()).name,
        row.seq,
        caller.agent.name,
        row.content,
        turns=(turn.id,),
        note=f"{agent.name} is asked again.{files.text}" if files.text else "",
    )


def _open_again(
    tx: Change, caller: Caller, old_turn: Turn, agent: Agent, text: str, *, is_scripted: bool
) -> tuple[Row, Turn, FilesMoved]:
    """Append the question again, with a turn of a model beside or after the old one."""
    stored_turn = turns.find_turn(tx.conn, caller.room_id, old_turn.id)
    called_turns = list_called_turns(tx.conn, stored_turn)
    later_turns = _turns_after(tx.conn, stored_turn, called_turns)
    is_last = stored_turn.status != "dropped" and not later_turns
    if is_last:
        remember_files(tx, services_of(caller).workspaces, caller.room_id)
    files = _leave_turns(tx, caller, [stored_turn, *called_turns], is_last=not later_turns)
    restore_notes(tx, caller, stored_turn)
    (turn,) = open_turns(
        tx, caller.room_id, [agent], caller.agent.id, beside=stored_turn if is_last else None
    )
    gone = rows.read_row_numbers(tx.conn, [one.id for one in (stored_turn, *called_turns)])
    row = rows.append_row(
        tx,
        caller.room_id,
        "chat",
        text,
        author_id=caller.agent.id,
        turn_id=turn.id,
        meta={
            "again": stored_turn.id,
            **({SCRIPTED_KEY: True} if is_scripted else {}),
            **drop_turns.record_changed_rows(gone=gone),
        },
    )
    turns.set_request_row(tx, [turn.id], row)
    tx.publish_on_commit(TurnsChanged(caller.room_id, gone=gone))
    return row, turn, files


def _leave_turns(tx: Change, caller: Caller, old: list[Turn], *, is_last: bool) -> FilesMoved:
    """Let the conversation leave an answer and what it led to, which are `old`.

    Their files go with them. If the answer is not the last one, the later turns stay and these are
    dropped.
    """
    if old[0].status == "dropped":
        return FilesMoved()
    left = [turn for turn in old if turn is old[0] or turn.status not in ("open", "dropped")]
    if not is_last:
        for turn in left:
            drop_turns.drop_turn(tx, turn)
    files = move_files(tx, services_of(caller).workspaces, caller, removed=left)
    if files.note:
        agent = caller.world.agents.name_of(old[0].agent_id)
        caller.append_notice(tx, f"asks {agent} again{files.note}")
    return files


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
