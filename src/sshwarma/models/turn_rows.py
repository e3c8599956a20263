"""Rows of a running turn: replies with their notes, reasoning and notices."""

from __future__ import annotations

from collections.abc import Mapping

from sshwarma.common.limits import MAX_NOTES_CHARACTERS
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.models import notes_block
from sshwarma.models.backend import BackendError
from sshwarma.models.turn_access import AskerLostAccess
from sshwarma.world import drafts, notes, rows, sent_results, turns
from sshwarma.world.agents import Agent
from sshwarma.world.end_reason import TURN_END_KEY, EndReason
from sshwarma.world.errors import WorldError
from sshwarma.world.events import StreamEnded
from sshwarma.world.mentions import strip_own_name
from sshwarma.world.row import Row
from sshwarma.world.store import Change
from sshwarma.world.turns import Turn


def describe_failure(error: BackendError | WorldError, *, has_begun: bool) -> EndReason:
    """Return why a turn failed; `has_begun` if a part of its answer is there."""
    if isinstance(error, AskerLostAccess):
        return EndReason(f"was stopped: {error}", cause="stopped")
    action = f"could not {'finish' if has_begun else 'answer'}"
    if isinstance(error, BackendError):
        return EndReason(f"{action}: {error}", f"{action}: {error.cause}", "provider")
    return EndReason(f"{action}: {error}", f"{action}: permission denied", "refused")


class TurnRows:
    """Adds the rows of one turn to its room, in the agent's name.

    `question` is the row that the turn answers.
    """

    def __init__(self, turn: Turn, agent: Agent, question: Row) -> None:
        self._turn = turn
        self._agent = agent
        self._question = question

    def record_sent_characters(self, tx: Change, sent: Mapping[int, int]) -> None:
        """Record how much of its results the turn is sent, if some were cut."""
        sent_results.record_sent_characters(tx, self._turn.id, sent)

    def append_thought(self, tx: Change, text: str) -> None:
        """Add reasoning, folded in the room and hidden from models."""
        self._append_row(tx, "thought", text)

    def append_notice(self, tx: Change, text: str) -> None:
        """Add a notice about the turn to the room, for people."""
        self._append_row(tx, "notice", text)

    def append_end(self, tx: Change, reason: EndReason) -> None:
        """Add a notice that says why the turn has no answer, or only a part of one."""
        meta: dict[str, object] = {TURN_END_KEY: reason.model_text}
        self._append_row(tx, "notice", reason.text, meta=meta)

    def append_reply(self, tx: Change, text: str, *, cut: bool = False) -> Row | None:
        """Store a reply as a row, and its notes; return None if it has only notes."""
        turn, agent = self._turn, self._agent
        reply = notes_block.parse_reply(strip_own_name(text, agent.name))
        drafts.delete_draft(tx, turn.id)
        meta: dict[str, object] = {"cut": True} if cut else {}
        if reply.notes is not None:
            notes.write_notes(tx, turn.room_id, agent.id, agent.name, reply.notes)
            meta["state"] = reply.notes
            if reply.cut_characters:
                self.append_notice(
                    tx,
                    f"wrote notes over the limit of {MAX_NOTES_CHARACTERS} characters:"
                    f" the last {reply.cut_characters} were cut",
                )
            if not reply.text:
                self._append_row(tx, "notice", "changed its notes", meta=meta)
        if not reply.text:
            return None
        return self._append_row(
            tx, "chat", reply.text, parent_row_id=self._question.id, meta=meta or None
        )

    def _append_row(
        self,
        tx: Change,
        kind: str,
        text: str,
        *,
        parent_row_id: str | None = None,
        meta: dict[str, object] | None = None,
    ) -> Row:
        return rows.append_row(
            tx,
            self._turn.room_id,
            kind,
            text,
            author_id=self._agent.id,
            turn_id=self._turn.id,
            parent_row_id=parent_row_id,
            meta=meta,
        )

    def close_failed_turn(self, tx: Change) -> None:
        """Close the turn without its text, which could not be stored."""
        self.append_end(tx, EndReason(f"could not finish: {INTERNAL_ERROR}"))
        turns.close_turn(tx, self._turn.id, "failed", None)
        tx.publish_on_commit(StreamEnded(self._turn.room_id, self._turn.id))
