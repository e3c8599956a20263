"""The verb `render`: the page of a result, as a file for a browser."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.toolsets.frame_page import (
    find_frame_url,
    make_frame_page,
)
from sshwarma.toolsets.page_data import insert_data
from sshwarma.verbs.arguments import RowNumber
from sshwarma.verbs.attachment import AttachmentData
from sshwarma.verbs.log_rows import unknown_row_error
from sshwarma.verbs.registry import verb
from sshwarma.verbs.result_pages import PAGE_RENDERERS, find_page
from sshwarma.verbs.run import MAX_SEARCHED_CALLS
from sshwarma.verbs.shell_command import write_ssh_command
from sshwarma.verbs.views import format_count, view_for_reader
from sshwarma.world import calls, rows
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import NotFound
from sshwarma.world.reader import Reader
from sshwarma.world.row import Row


@dataclass(frozen=True, slots=True)
class ResultPage(AttachmentData):
    """The page of the result in row `seq`, with its data; `data` is base64."""


@view_for_reader(ResultPage)
def draw_result_page(page: ResultPage, reader: Reader) -> Block:
    """Draw the size of a page, and the command that saves it."""
    hint = f"{write_ssh_command('render', row=page.seq)} > page.html  saves it for a browser"
    return block(
        line(("tool", page.kind), f", {format_count(page.size, 'byte')}"),
        *([line("  ", ("dim", hint), hang=2)] if reader.is_person else []),
    )


@verb(
    "render",
    section="Remembering",
    needs=Right.ENTER,
    tool=False,
    examples=("/render", "/render 54"),
)
async def render(caller: Caller, row: RowNumber | None = None) -> ResultPage:
    """Get the page that shows the result of a tool.

    The tool has the renderer html or frame. It is one file: the page of the toolset with the data
    of the result, or one that embeds the address. Pages of other hosts than the server's machine
    are embedded if the settings name them. In JSON it is base64.

    For people:
        `ssh HOST render 54 > page.html` writes the file, which a browser opens.

    Args:
        row: row number of the result (default: the newest that has a page).
    """

    def read(conn: Connection) -> tuple[Row, dict[str, Any], str]:
        found = _find_row(conn, caller.room_id, row)
        plan, _ = calls.read_shown_result(conn, found)
        config = plan.get("config") if plan is not None else None
        if plan is None or plan.get("renderer") not in PAGE_RENDERERS:
            raise NotFound(f"Row {found.seq} is no result with a page.")
        if not isinstance(config, dict) or (
            plan["renderer"] == "frame" and find_frame_url(config) is None
        ):
            raise NotFound(f"Row {found.seq} has no address of a page.")
        return found, config, find_page(conn, caller, plan, str(found.meta["tool"]))

    found, config, sha256 = await caller.world.store.read(read)
    if sha256:
        blobs, page_data = services_of(caller).workspaces.blobs, config.get("data")
        content = await asyncio.to_thread(lambda: insert_data(blobs.read(sha256), page_data))
    else:
        content = make_frame_page(find_frame_url(config) or "")
    data = base64.b64encode(content).decode()
    return ResultPage(found.seq, 1, 1, "text/html", len(content), data)


def _find_row(conn: Connection, room_id: str, number: int | None) -> Row:
    if number is not None:
        found = rows.read_numbered(conn, room_id, number)
        if found is None:
            raise unknown_row_error(number)
        return found
    newest = rows.read_tail(conn, room_id, MAX_SEARCHED_CALLS, prefix="tool.")
    for one in reversed(newest):
        if one.meta.get("renderer") in PAGE_RENDERERS:
            return one
    raise NotFound("No tool has made a page here yet.")
