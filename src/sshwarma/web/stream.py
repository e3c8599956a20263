"""A message to a room over HTTP, whose answers arrive as they are written.

The response is a stream of server-sent events: `said`, then `text`, `row` and `status` while models
answer, and at last `end`, with what a request that waits would have got, or `error`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import structlog
from starlette.responses import StreamingResponse

from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.events.draft_changes import DraftChanges
from sshwarma.tools.approvals import APPROVAL_KEY, ASKING_TURN_KEY
from sshwarma.verbs.say import SentMessage, wait_for_answers
from sshwarma.verbs.views import render_in_thread
from sshwarma.web.errors import describe_refusal, make_error_body
from sshwarma.web.server_sent import KEEP_ALIVE_COMMENT, KEEP_ALIVE_SECONDS, stream_events
from sshwarma.world.caller import Caller
from sshwarma.world.calls import CHANGES_KEY
from sshwarma.world.errors import WorldError
from sshwarma.world.events import RowAppended, StreamEnded, StreamUpdated
from sshwarma.world.reader import API_CLIENT
from sshwarma.world.row import Row

log = structlog.get_logger(__name__)


class AnswerStream:
    """The events of one message and of the turns that it began.

    What a client has not read yet is joined: it never has more than the present text of each turn.
    """

    def __init__(self, caller: Caller) -> None:
        """Listen in the room of a caller, from before the message."""
        self._caller = caller
        self._turns: frozenset[str] | None = None  # None until the message is said
        self._said_seq = 0
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._drafts = DraftChanges()
        self._early: list[object] = []
        self._changed = asyncio.Event()
        self._stop = caller.world.bus.on_room(caller.room_id, self._on_event)

    async def run(self, say: Callable[[], Awaitable[SentMessage]]) -> None:
        """Say the message and wait for the answers to it.

        Raises:
            WorldError: if the message is refused; nothing is sent then.
        """
        try:
            said = await say()
            self._turns, self._said_seq = frozenset(said.turns), said.seq
            _, data = await render_in_thread(API_CLIENT, said)
            self._add("said", data)
            early, self._early = self._early, []
            for event in early:
                self._on_event(event)
            text, result = await render_in_thread(
                API_CLIENT, await wait_for_answers(self._caller, said)
            )
            self._add("end", {"result": result, "text": text})
        finally:
            self._stop()

    def _add(self, name: str, data: dict[str, Any]) -> None:
        self._events.append((name, data))
        self._changed.set()

    def _on_event(self, event: object) -> None:
        if self._turns is None:
            self._early.append(event)
            return
        match event:
            case RowAppended(row=row) if row.meta.get(ASKING_TURN_KEY) in self._turns:
                self._add("row", self._describe_row(row))
            case RowAppended(row=row) if row.turn_id in self._turns and row.seq != self._said_seq:
                self._drafts.forget(row.turn_id or "")
                self._add("row", self._describe_row(row))
            case StreamUpdated(turn_id=turn_id) if turn_id in self._turns:
                self._drafts.take(event)
                self._changed.set()
            case StreamEnded(turn_id=turn_id) if turn_id in self._turns:
                self._drafts.take(event)
            case _:
                pass

    def _describe_row(self, row: Row) -> dict[str, Any]:
        described = {
            "turn": row.turn_id or row.meta.get(ASKING_TURN_KEY),
            "seq": row.seq,
            "kind": row.kind,
            "author": self._caller.world.agents.name_author(row),
            "text": row.content,
        }
        if tool := row.meta.get("tool"):
            described["tool"] = tool
        if renderer := row.meta.get("renderer"):
            described["renderer"] = renderer
        if changes := row.meta.get(CHANGES_KEY):
            described["changes"] = changes
        if number := row.meta.get(APPROVAL_KEY):
            described["approval"] = number
        return described

    def _take_drafts(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what is new of unfinished answers since the last time."""
        found: list[tuple[str, dict[str, Any]]] = []
        for part in self._drafts.read():
            author = self._caller.world.agents.name_of(part.author_id)
            common = {"turn": part.turn_id, "author": author}
            if part.more is not None:
                found.append(("text", common | {"more": part.more}))
            elif part.text is not None:
                found.append(("text", common | {"text": part.text}))
            if part.has_new_waits:
                waits = {"tools": list(part.tools), "waits": part.waits}
                found.append(("status", common | waits))
        return found

    async def read(self, working: asyncio.Task[None]) -> AsyncIterator[bytes]:
        """Yield the events as they are sent, until the work is done; leaving ends it."""
        try:
            while True:
                self._changed.clear()
                is_done = working.done()
                events, self._events = self._events, []
                # A row ends the draft before it, so that drafts that are left are newer.
                for name, data in (*events, *(() if is_done else self._take_drafts())):
                    yield encode_event(name, data)
                if is_done:
                    if not working.cancelled() and (error := working.exception()) is not None:
                        yield encode_event("error", _describe_error(error))
                    return
                waiting = asyncio.ensure_future(self._changed.wait())
                try:
                    done, _ = await asyncio.wait(
                        {waiting, working},
                        timeout=KEEP_ALIVE_SECONDS,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                finally:
                    waiting.cancel()
                    await asyncio.wait({waiting})
                if not done:
                    yield KEEP_ALIVE_COMMENT
        finally:
            working.cancel()
            await asyncio.wait({working})

    async def respond(self, working: asyncio.Task[None]) -> StreamingResponse:
        """Return the response, once the message is said.

        Raises:
            WorldError: if it is refused.
        """
        waiting = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({waiting, working}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            working.cancel()
            raise
        finally:
            waiting.cancel()
        if not self._events:
            await working  # it was refused
        return stream_events(self.read(working))


def encode_event(name: str, data: dict[str, Any]) -> bytes:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode(
        errors="replace"
    )


def _describe_error(error: BaseException) -> dict[str, Any]:
    if isinstance(error, WorldError):
        return describe_refusal(error)
    log.error("a request failed", exc_info=error)
    return make_error_body("internal", INTERNAL_ERROR)
