"""Rows of logs as HTML, drawn once for all tabs that show the same.

Viewers of one row differ in few ways: whether it is their own, or calls them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from cachetools import LRUCache

from sshwarma.terminal.html import render_html
from sshwarma.verbs.log_rows import RowDisplayOptions, draw_row
from sshwarma.world import mentions
from sshwarma.world.agents import Agent
from sshwarma.world.row import Row
from sshwarma.world.rows import CALL_END_KINDS
from sshwarma.world.world import World

MAX_DRAWN: Final = 2_000
"""Drawn rows that are kept: some pages of ten rooms."""

LONG_CHARACTERS: Final = 1_000
"""Characters of rows from which on they are drawn beside the event loop: Markdown takes long."""

_PATH: Final = "\0path"
"""Stands for the path of the room in drawings. No text has it: a NUL is made visible in one."""

LOOK: Final = RowDisplayOptions(timestamps=True, markdown=True, has_keys=False)
"""How the console shows rows."""


class RowDrawings:
    """Draws rows, and keeps what was drawn."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._drawn: LRUCache[tuple[str, str | None], str] = LRUCache(MAX_DRAWN)

    async def draw(self, viewer: Agent, rows: Sequence[Row], path: str) -> list[tuple[int, str]]:
        """Return the numbers of rows and their HTML, without those that are hidden.

        `path` is that of the page of their room.
        """
        new = [(row, key) for row in rows if (key := _find_key(viewer, row)) not in self._drawn]
        if sum(len(row.content) for row, _ in new) > LONG_CHARACTERS:
            drawn = await asyncio.to_thread(lambda: [self._draw(row, key[1]) for row, key in new])
        else:
            drawn = [self._draw(row, key[1]) for row, key in new]
        self._drawn.update({key: html for (_, key), html in zip(new, drawn, strict=True)})
        shown = [(row.seq, self._drawn.get(_find_key(viewer, row), "")) for row in rows]
        return [(seq, html.replace(_PATH, path)) for seq, html in shown if html]

    def _draw(self, row: Row, viewer_id: str | None) -> str:
        drawn = render_html(draw_row(row, self._world.agents, viewer_id, LOOK))
        if row.kind not in CALL_END_KINDS or not drawn:
            return drawn
        call = f"{_PATH}/call/{row.seq}"
        return (
            f'<details class="call"><summary>{drawn}</summary>'
            f'<div class="card" data-src="{call}?card"><a href="{call}">Details</a></div></details>'
        )


def _find_key(viewer: Agent, row: Row) -> tuple[str, str | None]:
    """Return what a drawing depends on: the row, and who it is drawn for alone."""
    is_for_viewer = (
        row.author_id == viewer.id
        or row.kind == "tell"
        or mentions.has_mention(row.content, viewer.name)
    )
    return row.id, viewer.id if is_for_viewer else None
