"""Room view of a terminal: recent and new rows, live answers, prompt, status.

Viewers of one row differ in a few variants only. Each variant is drawn once and shared by all
terminals that show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

from typing_extensions import override

from sshwarma.ssh.door.context import SshContext
from sshwarma.ssh.door.live_answers import AnswerWatcher, LiveAnswerView
from sshwarma.ssh.door.status_line import StatusWatcher
from sshwarma.terminal.markdown import render_markdown
from sshwarma.terminal.terminal import Terminal
from sshwarma.terminal.text import Block, Line, Span, block, line
from sshwarma.verbs.log_rows import (
    RowDisplayOptions,
    ToolView,
    cut_answer_text,
    draw_row,
    is_by_model,
    is_row_visible,
)
from sshwarma.verbs.question_row import is_question_for_others
from sshwarma.verbs.set import read_user_setting
from sshwarma.world import mentions
from sshwarma.world.events import RowAppended, StreamEnded, StreamUpdated
from sshwarma.world.presence import AgentConnection
from sshwarma.world.row import Row
from sshwarma.world.world import MAX_TAIL_ROWS


class RoomView(AnswerWatcher, StatusWatcher):
    """The room on one agent's terminal.

    Attributes:
        room_id: the room that is shown now or was shown last; "" before the first `enter`.
    """

    def __init__(
        self,
        context: SshContext,
        connection: AgentConnection,
        terminal: Terminal,
        on_print: Callable[[Row, Block], None] = lambda row, view: None,
    ) -> None:
        self.room_id = ""
        self._connection = connection
        self._context = context
        self._world = context.world
        self._agent_id = connection.agent_id
        self._terminal = terminal
        self._on_print = on_print  # takes each printed row and how it was drawn
        self._announced: set[str] = set()  # turns announced on a plain terminal
        self._row_options = RowDisplayOptions()
        self._has_bell = True
        self._closed = False
        self._own_results: list[Row] = []  # of this terminal, with pictures that follow them
        self._entries = 0  # calls of `enter`; the latest wins
        self._unsubscribe: Callable[[], None] = lambda: None
        self.configure()

    def configure(self) -> None:
        """Apply the agent's settings to rows drawn from now on."""
        agent = self._world.agents.get(self._agent_id)
        prefs = agent.prefs if agent is not None else {}
        self._row_options = RowDisplayOptions(
            timestamps=read_user_setting(prefs, "timestamps") == "on",
            markdown=read_user_setting(prefs, "markdown") == "on",
            tools=cast(ToolView, read_user_setting(prefs, "tools")),
        )
        self._has_bell = read_user_setting(prefs, "bell") == "on"

    # Subscription

    async def enter(self, room_id: str) -> None:
        """Show a room instead of the last one: recent rows now, then every change.

        Shows nothing if the view is closed, or enters another room, before the rows are read.

        Raises:
            NotFound: if the room does not exist.
            Forbidden: if the agent is deleted or disabled.
        """
        self.leave()
        self.room_id = room_id
        self._entries += 1
        entry = self._entries
        world = self._world
        room = await world.room(room_id)
        count = int(read_user_setting(self._context.require_agent(self._agent_id).prefs, "history"))
        # Read more rows than are shown, because presence rows are left out.
        recent = await world.last_rows(room_id, MAX_TAIL_ROWS)
        await self._draw_ahead(self._select_last(recent, count))
        recent = await world.last_rows(room_id, MAX_TAIL_ROWS)  # includes rows added meanwhile
        if self._closed or entry != self._entries:
            return
        # No await between reading the tail and subscribing: no row is missed or printed twice.
        self._unsubscribe = world.bus.on_room(room_id, self.on_room_event)
        self._context.status_lines.watch(room, self)
        self._print_rows(self._select_last(recent, count))
        self._context.live_answers.watch(room_id, self)

    def leave(self) -> None:
        """Unsubscribe from the room and remove its live answers."""
        self._unsubscribe()
        self._unsubscribe = lambda: None
        self._context.status_lines.unwatch(self.room_id, self)
        self._context.live_answers.unwatch(self.room_id, self)

    def close(self) -> None:
        """Leave the room and enter no other."""
        self._closed = True
        self.leave()

    @override
    def show_room(self, prompt: Span, status: Line) -> None:
        self._terminal.set_prompt(prompt)
        self._terminal.set_status(status)

    # Recent rows

    async def _draw_ahead(self, rows: Iterable[Row]) -> None:
        """Draw the answers among some rows in a thread, so that printing them is fast.

        Many long answers drawn on the event loop would delay everyone. The drawings are cached.
        """
        agents = self._world.agents
        texts = [cut_answer_text(row) for row in rows if is_by_model(row, agents)]
        if texts and self._row_options.markdown:
            await asyncio.to_thread(lambda: [render_markdown(text=text) for text in texts])

    def _select_last(self, rows: Iterable[Row], count: int) -> list[Row]:
        """Return the last `count` visible rows to show on entry, without presence rows."""
        visible = [
            row for row in rows if row.kind != "presence" and is_row_visible(row, self._row_options)
        ]
        return visible[max(0, len(visible) - count) :]

    def _print_rows(self, rows: Iterable[Row]) -> None:
        """Print recent rows with their times."""
        reading = replace(self._row_options, timestamps=True)
        for row in rows:
            options = self._options_of(row, reading)
            self._print_row(row, draw_row(row, self._world.agents, self._agent_id, options))

    def _print_row(self, row: Row, view: Block) -> None:
        self._terminal.print(view)
        self._on_print(row, view)

    def _options_of(self, row: Row, reading: RowDisplayOptions) -> RowDisplayOptions:
        """Return how to draw a row, which may be a question that others answer."""
        room = self._context.status_lines.find_room(self.room_id)
        if is_question_for_others(row, self._world.agents.get(self._agent_id), room):
            return replace(reading, can_answer=False)
        return reading

    # New rows

    def on_room_event(self, event: RowAppended | StreamUpdated | StreamEnded) -> None:
        """Print a new row of the room; streamed text comes by `show_answer`."""
        if not isinstance(event, RowAppended):
            return
        row = event.row
        is_own = row.author_id == self._agent_id
        if is_own and (row.kind == "presence" or event.origin is self._connection):
            if row.meta.get("attachments"):
                self._own_results.append(row)
            return  # the result of its own line says so
        is_mention = not is_own and "@" in row.content and self._is_mentioned(row.content)
        own_view = is_own or is_mention or row.kind == "tell"
        viewer_id = self._agent_id if own_view else None
        options = self._options_of(row, self._row_options)
        key = (viewer_id, options)
        view = event.view_cache.get(key)
        if view is None:
            view = draw_row(row, self._world.agents, viewer_id, options)
            event.view_cache[key] = view
        assert isinstance(view, Block)  # noqa: S101 - only this method puts something there
        if view.lines:
            self._print_row(row, view)
            if row.meta.get("attachments") and self._terminal.look.image_mode != "off":
                self._context.background.spawn(self._print_pictures(row))
        if self._has_bell and (is_mention or (row.kind == "tell" and not is_own)):
            self._terminal.bell()

    def print_own_pictures(self) -> None:
        """Print the images of the results of this terminal's own line, below its result."""
        for row in self._own_results:
            if self._terminal.look.image_mode != "off":
                self._context.background.spawn(self._print_pictures(row))
        self._own_results.clear()

    async def _print_pictures(self, row: Row) -> None:
        """Print the images of a tool result, unless the person leaves the room meanwhile."""
        entry = self._entries
        pictures = await self._context.pictures.draw_row(row, self._terminal.look)
        if pictures.lines and not self._closed and entry == self._entries:
            self._terminal.print(pictures)

    def _is_mentioned(self, text: str) -> bool:
        if not mentions.extract_mentions(text):
            return False
        agent = self._world.agents.get(self._agent_id)
        return agent is not None and mentions.has_mention(text, agent.name)

    @override
    def show_answer(self, turn_id: str, coming: LiveAnswerView | None) -> None:
        if coming is None:
            self._announced.discard(turn_id)
            self._terminal.set_live_block(turn_id, None)
        elif not self._terminal.look.plain:
            self._terminal.set_live_block(turn_id, coming.text, coming.progress)
        elif turn_id not in self._announced and coming.is_answer:
            # A plain terminal cannot redraw: it prints one line when an answer begins.
            self._announced.add(turn_id)
            self._terminal.print(block(line(("dim", f"· {coming.author_name} is answering"))))
