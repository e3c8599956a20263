"""The room as one terminal shows it: recent rows, new rows and live answers.

Viewers of one row differ in a few variants only. Each variant is drawn once and shared by all
terminals that show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from sshwarma.ssh.door.live_answers import LiveAnswerView
from sshwarma.terminal.markdown import render_markdown
from sshwarma.terminal.terminal import Terminal
from sshwarma.terminal.text import Block, block, line
from sshwarma.verbs.log_rows import (
    RowDisplayOptions,
    ToolView,
    cut_answer_text,
    draw_row,
    is_by_model,
    is_row_visible,
)
from sshwarma.verbs.preferences import read_preference
from sshwarma.world import mentions
from sshwarma.world.events import Row, RowAppended, StreamEnded, StreamUpdated
from sshwarma.world.world import World


class RoomView:
    """The rows and answers of a room on one agent's terminal."""

    def __init__(self, world: World, agent_id: str, terminal: Terminal) -> None:
        self._world = world
        self._agent_id = agent_id
        self._terminal = terminal
        self._announced: set[str] = set()  # turns announced on a plain terminal
        self._row_options = RowDisplayOptions()
        self._has_bell = True
        self.configure()

    def configure(self) -> None:
        """Apply the agent's preferences to rows drawn from now on."""
        agent = self._world.agents.get(self._agent_id)
        prefs = agent.prefs if agent is not None else {}
        self._row_options = RowDisplayOptions(
            timestamps=read_preference(prefs, "timestamps") == "on",
            markdown=read_preference(prefs, "markdown") == "on",
            tools=cast(ToolView, read_preference(prefs, "tools")),
        )
        self._has_bell = read_preference(prefs, "bell") == "on"

    # Recent rows

    async def draw_ahead(self, rows: Iterable[Row]) -> None:
        """Draw the answers among some rows in a thread, so that printing them is fast.

        Many long answers drawn on the event loop would delay everyone. The drawings are cached.
        """
        agents = self._world.agents
        texts = [cut_answer_text(row) for row in rows if is_by_model(row, agents)]
        if texts and self._row_options.markdown:
            await asyncio.to_thread(lambda: [render_markdown(text=text) for text in texts])

    def select_last(self, rows: Iterable[Row], count: int) -> list[Row]:
        """Return the last `count` visible rows to show on entry, without presence rows."""
        said = [
            row for row in rows if row.kind != "presence" and is_row_visible(row, self._row_options)
        ]
        return said[max(0, len(said) - count) :]

    def print_rows(self, rows: Iterable[Row]) -> None:
        """Print recent rows with their times."""
        reading = replace(self._row_options, timestamps=True)
        for row in rows:
            self._terminal.print(draw_row(row, self._world.agents, self._agent_id, reading))

    # New rows

    def on_room_event(self, event: RowAppended | StreamUpdated | StreamEnded) -> None:
        """Print a new row of the room; streamed text comes by `show_answer`."""
        if not isinstance(event, RowAppended):
            return
        row = event.row
        mine = row.author_id == self._agent_id
        if mine and row.kind in ("presence", "notice"):
            return  # the result of its own line says so
        called = not mine and "@" in row.content and self._is_mentioned(row.content)
        own_view = mine or called or row.kind == "tell"
        viewer_id = self._agent_id if own_view else None
        key = (viewer_id, self._row_options)
        drawn = event.view_cache.get(key)
        if drawn is None:
            drawn = draw_row(row, self._world.agents, viewer_id, self._row_options)
            event.view_cache[key] = drawn
        assert isinstance(drawn, Block)  # noqa: S101 - only this method puts something there
        if drawn.lines:
            self._terminal.print(drawn)
        if self._has_bell and (called or (row.kind == "tell" and not mine)):
            self._terminal.bell()

    def _is_mentioned(self, text: str) -> bool:
        agent = self._world.agents.get(self._agent_id)
        return agent is not None and mentions.has_mention(text, agent.name)

    def show_answer(self, turn_id: str, coming: LiveAnswerView | None) -> None:
        """Show a live answer, or remove it when it has ended.

        A plain terminal cannot redraw; it prints one line when an answer begins.
        """
        if coming is None:
            self._announced.discard(turn_id)
            self._terminal.set_live_block(turn_id, None)
        elif not self._terminal.look.plain:
            self._terminal.set_live_block(turn_id, coming.text, coming.progress)
        elif turn_id not in self._announced and coming.is_answer:
            self._announced.add(turn_id)
            self._terminal.print(block(line(("dim", f"· {coming.author_name} is answering"))))
