"""Changes of unfinished answers since a listener last looked.

Those that it has not read yet are joined: there is never more than the present text of each turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sshwarma.world.events import ActiveTool, StreamEnded, StreamUpdated


@dataclass(frozen=True, slots=True)
class DraftPart:
    """A change of an unfinished answer.

    Attributes:
        more: what follows the text before; None if that is unchanged or replaced.
        text: the whole text, where the answer begins again; else None.
        tools: names of the tools that it waits for.
        waits: why else it waits.
        has_new_waits: whether what it waits for has changed.
    """

    room_id: str
    turn_id: str
    author_id: str
    more: str | None
    text: str | None
    tools: tuple[str, ...]
    waits: str
    has_new_waits: bool


class DraftChanges:
    """Keeps the newest state of each turn, and what a listener knows of it."""

    def __init__(self) -> None:
        self._new: dict[str, StreamUpdated] = {}
        self._known: dict[str, StreamUpdated] = {}

    def take(self, event: StreamUpdated | StreamEnded) -> None:
        """Keep a state for the next look; forget the turn if it has ended."""
        if isinstance(event, StreamUpdated):
            self._new[event.turn_id] = event
        else:
            self.forget(event.turn_id)

    def forget(self, turn_id: str) -> None:
        """Begin again with a turn: its text so far has become a row."""
        self._new.pop(turn_id, None)
        self._known.pop(turn_id, None)

    def read(self) -> Iterator[DraftPart]:
        """Yield what is new since the last look."""
        drafts, self._new = self._new, {}
        for turn_id, draft in drafts.items():
            before = self._known.get(turn_id)
            self._known[turn_id] = draft
            known = before.text if before is not None else ""
            more: str | None = None
            text: str | None = None
            if not draft.text.startswith(known):
                text = draft.text
            elif len(draft.text) > len(known):
                more = draft.text[len(known) :]
            waits = _describe_waits(draft.active_tools, draft.wait_reason)
            old_waits = (
                _describe_waits(before.active_tools, before.wait_reason) if before else ((), "")
            )
            has_new_waits = waits != old_waits
            if more is not None or text is not None or has_new_waits:
                yield DraftPart(
                    draft.room_id, turn_id, draft.author_id, more, text, *waits, has_new_waits
                )


def _describe_waits(tools: Sequence[ActiveTool], reason: str) -> tuple[tuple[str, ...], str]:
    """Return the names of tools that run, and what an answer waits for."""
    reports = [tool.report for tool in tools if tool.report]
    return tuple(tool.name for tool in tools), " ".join([*reports, reason]).strip()
