"""A shell without a terminal, for `ssh -T`, scripts and bots.

It reads lines, prints plain text without a prompt, and prints new rows of the room as they come.
Refusals go to standard error with the number of the line. A line that fails ends the shell if more
lines were sent ahead of it: a script that is piped in does not go on in the wrong room. A person or
bot that waits for each answer goes on.

Exit status: 0 done, 1 a line failed, 70 internal error, 130 interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from typing_extensions import override

from sshwarma.common.exit_status import (
    EXIT_FAILED,
    EXIT_INTERNAL_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
)
from sshwarma.common.limits import MAX_PIPED_AHEAD_LINES, MAX_SHOWN_TEXT_CHARACTERS
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.common.shorten import shorten_text
from sshwarma.ssh.door import arrival
from sshwarma.ssh.door.context import (
    SshContext,
    decode_text,
    draw_message,
    encode_plain_block,
    is_concurrent_line,
)
from sshwarma.ssh.door.plain_output import PlainOutput
from sshwarma.ssh.door.task_handler import TaskHandler
from sshwarma.ssh.door.typed_ahead import check_talk
from sshwarma.ssh.transport.interfaces import Channel, ClientLink
from sshwarma.terminal.text import Block, Line, block, line
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.join import MoveResult
from sshwarma.verbs.line_rate import is_read_line
from sshwarma.verbs.log_rows import draw_row
from sshwarma.verbs.quit import Goodbye
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.run import is_failed_run
from sshwarma.verbs.say import SentMessage, sender_note_lines
from sshwarma.verbs.views import draw_result, format_count
from sshwarma.world import movement
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.events import (
    AgentEvent,
    AgentEvicted,
    Announcement,
    KeyRemoved,
    PersonalNotice,
    RowAppended,
    StreamEnded,
    StreamUpdated,
)
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.presence import AgentConnection

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """One line of the input, from 1; `refusal` if it was refused when it arrived."""

    number: int
    text: str
    refusal: WorldError | None = None


class LineShellHandler(TaskHandler):
    """The handler of one plain shell.

    `keeps_going`: whether a line that fails does not end it; None if that depends on whether more
    lines were sent ahead.
    """

    def __init__(
        self,
        context: SshContext,
        agent_id: str,
        link: ClientLink,
        channel: Channel,
        *,
        keeps_going: bool | None = None,
    ) -> None:
        super().__init__(channel)
        self._context = context
        self._agent_id = agent_id
        self._link = link
        self._keeps_going = keeps_going
        self._utf8 = context.utf8(dict(channel.env))
        self._output = PlainOutput(channel, utf8=self._utf8)
        self._partial = bytearray()
        self._lines: asyncio.Queue[NumberedLine | None] = asyncio.Queue()
        self._count = 0  # lines that have arrived
        self._input_ended = self._is_held_back = False
        self._skips_to_newline = False
        self._connection = AgentConnection(agent_id, LOBBY_ID, "ssh")
        self._running = self._failed = False
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
            else:
                self._enqueue_line(raw)
        if self._skips_to_newline:
            self._partial.clear()
        elif len(self._partial) > self._context.settings.limits.line_bytes:
            self._enqueue_line(self._partial)
            self._skips_to_newline = True
            self._partial = bytearray()
        if self._lines.qsize() >= MAX_PIPED_AHEAD_LINES and not self._is_held_back:
            self._is_held_back = True
            self._channel.pause_reading()

    def _enqueue_line(self, raw: bytes | bytearray) -> None:
        """Queue a line, or run it at once if the running line may be waiting for it."""
        self._count += 1
        try:
            typed = NumberedLine(self._count, self._decode_line(raw))
            check_talk(self._context, self._agent_id, typed.text)
        except WorldError as error:
            start = raw[:MAX_SHOWN_TEXT_CHARACTERS].decode("utf-8", "replace")
            self._lines.put_nowait(NumberedLine(self._count, start, error))
            return
        if self._running and is_concurrent_line(typed.text):
            self._context.background.spawn(self._run_line(typed))
        else:
            self._lines.put_nowait(typed)

    def _decode_line(self, raw: bytes | bytearray) -> str:
        """Decode a line.

        Raises:
            Invalid: if it is too long, or not text.
        """
        limit = self._context.settings.limits.line_bytes
        if len(raw) > limit:
            hint = "Send a long text with a command of its own: ssh HOST put NAME < FILE"
            raise Invalid(f"A line must have at most {limit} bytes.", hint=hint)
        return decode_text(raw, "The line").rstrip("\r")

    @override
    def eof(self) -> None:
        if self._partial:
            self._enqueue_line(self._partial)
        self._input_ended = True
        self._lines.put_nowait(None)

    @override
    def pause(self) -> None:
        self._output.pause()

    @override
    def resume(self) -> None:
        self._output.resume()

    @override
    def closed(self, error: Exception | None) -> None:
        self._output.close()
        super().closed(error)

    async def _run(self) -> None:
        world = self._context.world
        stops = [world.bus.on_agent(self._agent_id, self._on_private_event)]
        status = EXIT_INTERRUPTED  # if it is cancelled
        try:
            # A client that hangs up during this has arrived and then departs.
            if problem := await movement.record_arrival(world, self._connection):
                self._print_error(block(problem))
            self._follow_room()
            for unread in await arrival.read_unread_messages(world, self._agent_id):
                self._print(unread)
            await self._run_lines()
            await self._output.drain()
            status = EXIT_FAILED if self._failed else EXIT_OK
        except Exception:
            log.exception("plain shell failed")
            self._channel.write_stderr(f"{INTERNAL_ERROR}\n".encode())
            status = EXIT_INTERNAL_ERROR
        finally:
            self._stop_room()
            for stop in stops:
                stop()
            self._context.background.spawn(arrival.mark_messages_read(world, self._connection))
            self._context.background.spawn(movement.record_departure(world, self._connection))
            self._context.on_stop.discard(self._farewell)
            self._channel.exit(status)

    async def _run_lines(self) -> None:
        """Run the lines one by one, until they end or a failure ends the shell."""
        while (item := await self._next_line()) is not None:
            if not item.text.strip():
                continue
            self._running = True
            goes_on = await self._run_line(item)
            self._running = False
            self._follow_room()
            if not goes_on:
                return

    async def _next_line(self) -> NumberedLine | None:
        item = await self._lines.get()
        if self._is_held_back and self._lines.qsize() < MAX_PIPED_AHEAD_LINES // 2:
            self._is_held_back = False
            self._channel.resume_reading()
        return item

    async def _run_line(self, typed: NumberedLine) -> bool:
        """Run one line and print its result; return whether the shell goes on after it."""
        try:
            if typed.refusal is not None:
                raise typed.refusal
            aliases = self._context.require_agent(self._agent_id).aliases
            await self._context.line_rate.hold_back(
                self._agent_id, is_read=is_read_line(typed.text, aliases)
            )
            result = await run_line(self._make_caller(), typed.text)
        except WorldError as error:
            return self._refuse(typed, error)
        if not isinstance(result, SentMessage):
            self._print(draw_result(result))
        elif result.note:
            self._print(block(*sender_note_lines(result)))
        if isinstance(result, MoveResult):
            self._print(draw_result(await run_line(self._make_caller(), "/look")))
        if is_failed_run(result):
            return self._end_if_ahead(typed)
        return not isinstance(result, Goodbye)

    def _make_caller(self) -> Caller:
        return self._context.make_shell_caller(self._link, self._connection)

    def _refuse(self, typed: NumberedLine, error: WorldError) -> bool:
        """Print a refusal with the number of its line; return whether the shell goes on."""
        place = f"line {typed.number}: "
        shown = shorten_text(typed.text) if error.span is None else typed.text
        lines = list(draw_refusal(error, typed.text if error.span else "").lines)
        if len(lines) == 1:
            lines.insert(0, line("  ", shown))
        *typed_lines, refusal = lines
        indent = " " * len(place)
        drawn = [
            Line((("", place if index == 0 else indent), *part.spans[1:]))
            for index, part in enumerate(typed_lines)
            if isinstance(part, Line)
        ]
        self._print_error(block(*drawn, refusal))
        return self._end_if_ahead(typed)

    def _end_if_ahead(self, typed: NumberedLine) -> bool:
        """Note that a line failed; return whether the shell goes on after it."""
        self._failed = True
        waiting = self._lines.qsize() - int(self._input_ended)
        is_ahead = waiting > 0 or bool(self._partial)
        if self._keeps_going or (self._keeps_going is None and not is_ahead):
            return True
        if is_ahead:
            count = format_count(waiting, "line") if self._input_ended else "the lines"
            self._print_error(
                block(
                    f"Stopped after line {typed.number}; {count} after it did not run."
                    " To go on after a failure: ssh HOST batch --keep-going < FILE"
                )
            )
        return False

    def _on_room_event(self, event: RowAppended | StreamUpdated | StreamEnded) -> None:
        if not isinstance(event, RowAppended):
            return  # the row is printed when it is final
        if event.row.kind.startswith("tool.") and event.origin is self._connection:
            return  # the result of its own line says so
        self._print(draw_row(event.row, self._context.world.agents, self._agent_id))

    def _on_private_event(self, event: AgentEvent) -> None:
        if isinstance(event, RowAppended):
            self._on_room_event(event)
        elif isinstance(event, (PersonalNotice, Announcement)):
            self._print(draw_message(event))
        elif isinstance(event, AgentEvicted):
            self._on_evicted(event)
        elif isinstance(event, KeyRemoved) and event.fingerprint == self._link.peer.fingerprint:
            self._link.close(event.reason)

    def _on_evicted(self, event: AgentEvicted) -> None:
        room_id = self._connection.room_id
        if event.ends_connection(room_id):
            self._print(block(line(event.reason)))
            self._link.close(event.reason)
        elif event.moves_connection(room_id):
            self._print(block(line(event.reason)))
            self._context.background.spawn(self._move_out())

    async def _move_out(self) -> None:
        await movement.move_out_of_room(self._make_caller())
        self._follow_room()

    def _follow_room(self) -> None:
        """Print the rows of the room that the connection is in now, and of no other."""
        if self._connection.room_id != self._room_id:
            self._stop_room()
            self._room_id = self._connection.room_id
            self._stop_room = self._context.world.bus.on_room(self._room_id, self._on_room_event)

    def _farewell(self, reason: str) -> None:
        self._print(block(line(reason)))
        self._channel.exit(EXIT_OK)

    def _print(self, drawn: Block) -> None:
        self._output.print(drawn)

    def _print_error(self, drawn: Block) -> None:
        self._channel.write_stderr(encode_plain_block(drawn, utf8=self._utf8, newline="\n"))


def _do_nothing() -> None:
    """Placeholder for an unsubscribe callback."""
