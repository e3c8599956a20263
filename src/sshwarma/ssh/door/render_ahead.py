"""Rendering of long results in a thread, before a terminal prints them."""

from __future__ import annotations

import asyncio
from typing import Final

from sshwarma.terminal.render import DisplayOptions, render_block
from sshwarma.terminal.text import Block

MAX_INSTANT_LINES: Final = 200
MAX_INSTANT_CHARACTERS: Final = 20_000
"""Lines and characters of a result that are rendered at once; longer ones in a thread."""


async def render_ahead(view: Block, look: DisplayOptions) -> None:
    """Render a long view or a picture in a thread: a megabyte of text takes seconds."""
    is_long = len(view.lines) > MAX_INSTANT_LINES or len(view.plain()) > MAX_INSTANT_CHARACTERS
    if is_long or view.has_picture:
        await asyncio.to_thread(render_block, view, look)
