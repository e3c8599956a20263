"""A shell without a terminal, for `ssh -T`, scripts and bots.

It reads lines, prints plain text without a prompt, and prints new rows of the room as they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from typing_extensions import override

from sshwarma.common.limits import MAX_PIPED_AHEAD_LINES
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.ssh.door.context import (
    SshContext,
    draw_question,
    draw_refusal,
    encode_plain_block,
    is_concurrent_line,
)
from sshwarma.ssh.door.task_handler import TaskHandler
from sshwarma.ssh.transport.interfaces import Channel, ClientLink
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.log_rows import draw_row
from sshwarma.verbs.moving import MoveResult
from sshwarma.verbs.quit import Goodbye
from sshwarma.verbs.talking import SentMessage, sender_note_lines
from sshwarma.verbs.views import draw_result
from sshwarma.world import movement
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.events import (
    AgentEvicted,
    AgentsChanged,
    QuestionAsked,
    RowAppended,
    StreamEnded,
    StreamUpdated,
)
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.presence import AgentConnection

log = structlog.get_logger(__name__)


class LineShellHandler(TaskHandler):
    """The handler of one plain shell."""

    def __init__(
        self, context: SshContext, agent_id: str, link: ClientLink, channel: Channel
    ) -> None:
        super().__init__(channel)
        self._context = context
        self._agent_id = agent_id
        self._link = link
        self._utf8 = context.utf8(dict(channel.env))
        self._partial = bytearray()
        self._lines: asyncio.Queue[str | WorldError | None] = asyncio.Queue()
        self._skips_to_newline = False
        self._connection = AgentConnection(agent_id, LOBBY_ID, "ssh")
        self._running = False
        self._room_id = ""
        self._stop_room: Callable[[], None] = _do_nothing
        self._start(self._run())
        context.on_stop.add(self._farewell)

    @override
    def data(self, data: bytes) -> None:
        self._connection.mark_active()
        self._partial += data
        *raw_lines, self._partial = self._partial.split(b"\n")
        for raw in raw_lines:
            if self._skips_to_newline:  # the end of a line that was refused
                self._skips_to_newline = False
                continue
            if self._lines.qsize() >= MAX_PIPED_AHEAD_LINES:
                self._say(b"Too many lines at once; the rest was ignored.\n")
                self._partial.clear()
                return
            if len(raw) > self._context.limits.line_bytes:
                self._refuse_long_line()
            else:
                self._enqueue_line(raw.decode("utf-8", "replace").rstrip("\r"))
        if self._skips_to_newline:
            self._partial.clear()
        elif len(self._partial) > self._context.limits.line_bytes:
            self._refuse_long_line()
            self._skips_to_newline = True
            self._partial.clear()

    def _refuse_long_line(self) -> None:
        limit = self._context.limits.line_bytes
        self._lines.put_nowait(
            Invalid(
                f"A line is over {limit} bytes, the limit. It was ignored.",
                hint="Send a long text with a command of its own: ssh HOST put NAME < FILE",
            )
        )

    def _enqueue_line(self, typed: str) -> None:
        """Queue a line, or run it at once if the running line may be waiting for it."""
        if self._running and is_concurrent_line(typed):
            self._context.background.spawn(self._run_line(typed))
        else:
            self._lines.put_nowait(typed)

    @override
    def eof(self) -> None:
        if self._partial:
            self._lines.put_nowait(self._partial.decode("utf-8", "replace"))
        self._lines.put_nowait(None)

    async def _run(self) -> None:
        world = self._context.world
        stops = [world.bus.on_agent(self._agent_id, self._on_private_event)]
        try:
            # A client that hangs up during this has arrived and then departs.
            await movement.record_arrival(world, self._connection)
            self._follow_room()
            while (item := await self._lines.get()) is not None:
                if isinstance(item, WorldError):
                    self._print(draw_refusal(item, ""))
                    continue
                if not item.strip():
                    continue
                self._running = True
                if not await self._run_line(item):
                    break
                self._running = False
                self._follow_room()
        except Exception:
            log.exception("plain shell failed")
            self._say(f"{INTERNAL_ERROR}\n".encode())
        finally:
            self._stop_room()
            for stop in stops:
                stop()
            self._context.background.spawn(movement.record_departure(world, self._connection))
            self._context.on_stop.discard(self._farewell)
            self._channel.exit(0)

    async def _run_line(self, typed: str) -> bool:
        """Run one line and print its result; return False after a goodbye."""
        try:
            self._context.line_rate.check(self._agent_id)
            caller = self._context.make_caller(self._agent_id, "ssh", self._connection)
            result = await run_line(caller, typed)
        except WorldError as error:
            self._print(draw_refusal(error, typed))
            return True
        if not isinstance(result, SentMessage):
            self._print(draw_result(result))
        elif result.note:
            self._print(block(*sender_note_lines(result)))
        if isinstance(result, MoveResult):
            self._print(
                draw_result(
                    await run_line(
                        self._context.make_caller(self._agent_id, "ssh", self._connection), "/look"
                    )
                )
            )
        return not isinstance(result, Goodbye)

    def _on_room_event(self, event: RowAppended | StreamUpdated | StreamEnded) -> None:
        if not isinstance(event, RowAppended):
            return  # the row is printed when it is final
        self._print(draw_row(event.row, self._context.world.agents, self._agent_id))

    def _on_private_event(
        self, event: RowAppended | AgentsChanged | QuestionAsked | AgentEvicted
    ) -> None:
        if isinstance(event, RowAppended):
            self._on_room_event(event)
        elif isinstance(event, QuestionAsked):
            self._print(draw_question(event))
        elif isinstance(event, AgentEvicted):
            self._on_evicted(event)

    def _on_evicted(self, event: AgentEvicted) -> None:
        room_id = self._connection.room_id
        if event.ends_connection(room_id):
            self._print(block(line(event.reason)))
            self._link.close(event.reason)
        elif event.moves_connection(room_id):
            self._print(block(line(event.reason)))
            self._context.background.spawn(self._move_out())

    async def _move_out(self) -> None:
        caller = self._context.make_caller(self._agent_id, "ssh", self._connection)
        await movement.move_out_of_room(caller)
        self._follow_room()

    def _follow_room(self) -> None:
        """Print the rows of the room that the connection is in now, and of no other."""
        if self._connection.room_id != self._room_id:
            self._stop_room()
            self._room_id = self._connection.room_id
            self._stop_room = self._context.world.bus.on_room(self._room_id, self._on_room_event)

    def _farewell(self, reason: str) -> None:
        self._print(block(line(reason)))
        self._channel.exit(0)

    def _print(self, drawn: Block) -> None:
        self._say(encode_plain_block(drawn, utf8=self._utf8, newline="\n"))

    def _say(self, data: bytes) -> None:
        self._channel.write(data)


def _do_nothing() -> None:
    """Placeholder for an unsubscribe callback."""
