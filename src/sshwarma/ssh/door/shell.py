"""A person's shell: connects a terminal to the world.

Lines are queued and run one after another, so typing ahead works. Rows of the room and private
messages are printed as they come, by `RoomView`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog
from typing_extensions import override

from sshwarma.common.exit_status import EXIT_OK
from sshwarma.common.messages import INTERNAL_ERROR
from sshwarma.ssh.door import arrival
from sshwarma.ssh.door.context import SshContext, draw_message
from sshwarma.ssh.door.early_input import EarlyInput
from sshwarma.ssh.door.greeting import draw_greeting
from sshwarma.ssh.door.line_queue import LineQueue
from sshwarma.ssh.door.render_ahead import render_ahead
from sshwarma.ssh.door.room_view import RoomView
from sshwarma.ssh.door.shown_questions import ShownQuestions
from sshwarma.ssh.door.terminal_options import ClientTerminal
from sshwarma.ssh.door.typed_ahead import RefusedLines, TypedLine, check_line, may_ask_models
from sshwarma.ssh.transport.interfaces import Channel, ChannelHandler, ClientLink
from sshwarma.terminal.completion import Candidate
from sshwarma.terminal.terminal import Terminal, TerminalCallbacks
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.attachment import AttachmentData
from sshwarma.verbs.called_verb import is_talk
from sshwarma.verbs.completion import complete
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.edit_draft import EditDraft
from sshwarma.verbs.join import MoveResult
from sshwarma.verbs.look import read_room_details
from sshwarma.verbs.quit import Goodbye
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.run import RunResult
from sshwarma.verbs.say import SentMessage, sender_note_lines
from sshwarma.verbs.set import read_user_setting
from sshwarma.verbs.views import draw_result
from sshwarma.world import movement
from sshwarma.world.caller import Caller
from sshwarma.world.errors import RateLimited, WorldError
from sshwarma.world.events import (
    AgentEvent,
    AgentsChanged,
    Announcement,
    KeyRemoved,
    PersonalNotice,
    RowAppended,
)
from sshwarma.world.ids import LOBBY_ID
from sshwarma.world.presence import AgentConnection

log = structlog.get_logger(__name__)

GOODBYE: Final = "Goodbye."


class ShellHandler(ChannelHandler):
    """The handler of one shell with a terminal."""

    def __init__(
        self, context: SshContext, agent_id: str, link: ClientLink, channel: Channel,
        connection: AgentConnection | None = None, start_room_id: str = "",
    ) -> None:  # fmt: skip
        self._context = context
        self._world = context.world
        self._agent_id = agent_id
        self._link = link
        self._channel = channel
        self._connection = connection or AgentConnection(agent_id, LOBBY_ID, "ssh")
        self._start_room_id = start_room_id
        self._stops: list[Callable[[], None]] = []
        self._is_leaving = False  # when the lines that have come are done
        self._ended = False
        env = dict(channel.env)
        self._client_terminal = ClientTerminal(channel.term, env, context.utf8(env))
        columns, rows = channel.size
        history: list[str] = []
        self.terminal = Terminal(
            channel.write,
            TerminalCallbacks(
                on_line=self._on_submit,
                on_interrupt=self._on_interrupt,
                on_eof=self._on_leave_key,
                complete=self._complete,
                echo=lambda typed: not is_talk(typed),
            ),
            self._client_terminal.choose_options(context.require_agent(agent_id).prefs),
            columns=columns,
            rows=rows,
            history=history,
            clock=context.clock,
        )
        self._lines = LineQueue(self.terminal, self._start_beside)
        self._refused_lines = RefusedLines(self._print, self._lines.waiting)
        self._early_input = EarlyInput(
            channel, history, lambda: context.load_input_history(agent_id), self.terminal.feed
        )
        self._questions = ShownQuestions(self.terminal, channel)
        self._room_view = RoomView(
            context, self._connection, self.terminal, self._questions.remember
        )
        self._task = asyncio.get_running_loop().create_task(self._run_session(self._enter_world))
        context.on_stop.add(self._farewell)

    @override
    def data(self, data: bytes) -> None:
        self._connection.mark_active()
        self.terminal.submit_limit = self._context.settings.limits.line_bytes
        self._early_input.take(data)

    @override
    def eof(self) -> None:
        self._early_input.end(self._on_input_end)

    @override
    def resized(self, columns: int, rows: int) -> None:
        self.terminal.resize(columns, rows)

    @override
    def interrupt(self) -> None:
        self._on_interrupt()

    @override
    def pause(self) -> None:
        self.terminal.pause()

    @override
    def resume(self) -> None:
        self.terminal.resume()

    @override
    def closed(self, error: Exception | None) -> None:
        self._end()

    # Terminal events

    def _on_submit(self, typed: str) -> None:
        if not typed.strip():
            return
        waiting = len(self._lines.waiting)
        try:
            check_line(typed, self._context, self._agent_id, waiting, self._is_leaving)
        except WorldError as error:
            self._refused_lines.show_first(typed, error)
            return
        self._context.remember_input(self._agent_id, typed)
        given = TypedLine(typed, self._questions.list_shown())
        if self._lines.is_running and typed.split() == ["/stop"]:
            self._task.cancel()
        elif self._lines.add(given) and self._task.done():
            self._start_lines()

    def _on_interrupt(self) -> None:
        if self._lines.is_running:
            self._task.cancel()
        elif not self._stop_answers():
            self._print(block(line(("dim", "Leave with Ctrl-D or /quit."))))

    def _stop_answers(self) -> bool:
        """Stop the models' answers to this agent here; return whether any was running."""
        turns = self._context.services.turns
        by = self._world.agents.name_of(self._agent_id)
        return bool(turns.stop(self._room_view.room_id, opened_by=self._agent_id, by=by))

    def _on_leave_key(self) -> None:
        if self._lines.is_running:
            leaving = "You leave when the command that runs has ended. Ctrl-C stops it."
            self._print(block(line(("dim", leaving))))
        self._leave()

    def _on_input_end(self) -> None:
        """Leave, and send no line without Enter: the window may be closed."""
        self.terminal.end_input()
        if self.terminal.draft.strip() and not self._ended:
            self._print(block(line(("dim", "not sent: "), self.terminal.draft)))
        self._leave()

    def _leave(self) -> None:
        """End the shell after the lines that have come, if it has begun."""
        if self._is_leaving or self._ended:
            return
        self._is_leaving = True
        if not self._early_input.is_drawn or (self._task.done() and not self._lines.runs_beside):
            self._farewell(GOODBYE)
        elif self._task.done():
            self._start_lines()

    async def _complete(self, text: str, cursor: int) -> Sequence[Candidate]:
        return await complete(self._make_caller(), text, cursor)

    async def _run_session(self, part: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a part of the shell; its failure ends this connection and no other.

        It is called here, because a client may be gone before this task begins.
        """
        try:
            await part()
        except WorldError as error:
            self._farewell(str(error))
        except Exception:
            log.exception("shell failed", agent=self._agent_id)
            self._farewell(INTERNAL_ERROR)

    def _start_lines(self) -> None:
        session = self._run_session(self._run_queued_lines)
        self._task = asyncio.get_running_loop().create_task(session)

    async def _run_queued_lines(self) -> None:
        """Run the queued lines, one after another; then leave, if asked to."""
        while self._lines.waiting and not self._ended:
            await self._run_line(self._lines.waiting.popleft())
        if self._is_leaving:
            await self._lines.wait_for_beside()
            self._farewell(GOODBYE)

    async def _enter_world(self) -> None:
        world, agent = self._world, self._context.require_agent(self._agent_id)
        old_room_id = agent.room_id
        start = old_room_id if read_user_setting(agent.prefs, "start") == "last" else LOBBY_ID
        start = self._start_room_id or start
        self._connection.room_id = await arrival.find_start_room(world, agent, start)
        if self._ended:
            return
        self._stops.append(world.bus.on_agent(agent.id, self._on_agent_event))
        for greeting in draw_greeting(self._context.settings.motd, agent.name):
            self._print(greeting)
        # Nothing that is drawn needs the announcement: a login does not wait for its commit.
        if world.presence.enter(self._connection):
            self._background(arrival.announce(world, self._connection, self._print))
        await movement.evict_if_closed(world, agent.id, self._connection.room_id)
        await self._enter_room()
        if old_room_id != self._connection.room_id and start == LOBBY_ID:
            self._print(await arrival.draw_way_back(world, old_room_id))
        for unread in await arrival.read_unread_messages(world, agent.id):
            self._print(unread)
        # Write the first screen in one frame.
        self.terminal.start()
        self._early_input.on_drawn()
        await self._run_queued_lines()

    async def _enter_room(self) -> None:
        """Show the connection's current room from now on, and describe it."""
        await self._room_view.enter(self._connection.room_id)
        if not self._ended:
            self._print(draw_result(await read_room_details(self._make_caller())))

    def _start_beside(self, typed: TypedLine) -> asyncio.Task[None]:
        return self._background(self._run_concurrent_line(typed))

    async def _run_concurrent_line(self, typed: TypedLine) -> None:
        """Run a line at once that the running line may be waiting for."""
        try:
            self._context.line_rate.check(self._agent_id)
            self._print(draw_result(await run_line(self._make_line_caller(typed), typed.text)))
        except WorldError as error:
            self._print(draw_refusal(error, typed.text))

    async def _run_line(self, line_typed: TypedLine) -> None:
        """Run one line and show its result."""
        typed = line_typed.text
        try:
            with self._lines.running() as progress:
                self._context.line_rate.check(self._agent_id)
                result = await run_line(
                    progress.for_caller(self._make_line_caller(line_typed)), typed
                )
        except RateLimited as error:
            self._refused_lines.show_first(typed, error)
            return
        except WorldError as error:
            self._refused_lines.show(typed, error)
            return
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._ended or task is None:
                raise
            task.uncancel()  # Ctrl-C ends the line, not the shell
            if may_ask_models(typed):
                self._stop_answers()  # which the line may have just asked for
            self._print(block(line(("warn", "Stopped."))))
            return
        if isinstance(result, Goodbye):
            self._farewell(GOODBYE)
        else:
            await self._show_result(result)

    async def _show_result(self, result: object) -> None:
        """Show the result of a line, or the room that it went to."""
        if isinstance(result, EditDraft):
            self.terminal.prefill(result.line)
        if self._connection.room_id != self._room_view.room_id:
            if isinstance(result, RunResult) or (isinstance(result, MoveResult) and result.made):
                self._print(draw_result(result))
            await self._enter_room()
        elif not isinstance(result, SentMessage) or result.note:
            if isinstance(result, SentMessage):
                view = block(*sender_note_lines(result))
            else:
                view = draw_result(result)
                if isinstance(result, AttachmentData):
                    view = await self._context.pictures.draw_attachment(result, view, self.terminal)
                await render_ahead(view, self.terminal.look)
            self._print(view)
            self._room_view.print_own_pictures()
            self.terminal.frame()  # a result does not wait for the frame clock

    # World events

    def _on_agent_event(self, event: AgentEvent) -> None:
        if isinstance(event, RowAppended):
            self._room_view.on_room_event(event)
        elif isinstance(event, (PersonalNotice, Announcement)):
            self._on_message(event)
        elif isinstance(event, AgentsChanged):
            self._configure()
        elif isinstance(event, KeyRemoved):
            if event.fingerprint == self._link.peer.fingerprint:
                self._farewell(event.reason)
        elif event.ends_connection(self._connection.room_id):
            if event.room_id is None or self._room_view.room_id:
                self._farewell(event.reason)
            else:  # nothing is drawn yet
                self._link.close(event.reason)
        elif event.moves_connection(self._connection.room_id):
            self._background(self._on_moved_out(event.reason))

    def _on_message(self, event: PersonalNotice | Announcement) -> None:
        """Show a question to this agent, or an announcement."""
        self._print(draw_message(event))
        agent = self._world.agents.get(self._agent_id)
        if agent is not None and read_user_setting(agent.prefs, "bell") == "on":
            self.terminal.bell()

    async def _on_moved_out(self, reason: str) -> None:
        await movement.move_out_of_room(self._make_caller())
        await self._enter_room()
        self._print(block(line(("warn", reason))))  # last, or the log of the lobby hides it

    def _configure(self) -> None:
        agent = self._world.agents.get(self._agent_id)
        if agent is None or self._ended:
            return
        self._room_view.configure()
        options = self._client_terminal.choose_options(agent.prefs)
        self.terminal.configure(
            theme=options.theme, plain=options.plain, vi=options.vi, images=options.images
        )

    def _farewell(self, reason: str) -> None:
        """Print the reason, restore the person's terminal and close the channel."""
        if self._ended:
            return
        self._refused_lines.end_paste()
        self.terminal.print(block(line(("dim", reason))))
        self.terminal.close()
        self._channel.exit(EXIT_OK)
        self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._context.on_stop.discard(self._farewell)
        self._room_view.close()
        self._refused_lines.close()
        for stop in self._stops:
            stop()
        self.terminal.close()
        self._early_input.close()
        if asyncio.current_task() is not self._task:
            self._task.cancel()
        self._background(arrival.mark_messages_read(self._world, self._connection))
        self._background(movement.record_departure(self._world, self._connection))

    def _background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._context.background.spawn(work)

    def _make_caller(self) -> Caller:
        return self._context.make_shell_caller(self._link, self._connection)

    def _make_line_caller(self, typed: TypedLine) -> Caller:
        check = partial(self._questions.check, shown=typed.shown)
        return replace(self._make_caller(), check_question=check)

    def _print(self, drawn: Block) -> None:
        if drawn.lines:
            self.terminal.print(drawn)
