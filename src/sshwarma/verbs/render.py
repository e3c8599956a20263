"""The verb `render`: the page of a result, as a file for a browser."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.services import services_of
from sshwarma.terminal.text import Block, block, line
from sshwarma.toolsets import records
from sshwarma.toolsets.frame_page import (
    find_embedding_problem,
    find_frame_url,
    make_frame_page,
)
from sshwarma.toolsets.page_data import insert_data
from sshwarma.verbs.arguments import RowNumber
from sshwarma.verbs.attachment import AttachmentData
from sshwarma.verbs.log_rows import unknown_row_error
from sshwarma.verbs.registry import verb
from sshwarma.verbs.run import MAX_SEARCHED_CALLS
from sshwarma.verbs.shell_command import write_ssh_command
from sshwarma.verbs.views import format_count, view_for_reader
from sshwarma.world import calls, rows
from sshwarma.world.access import Right
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, NotFound
from sshwarma.world.reader import Reader
from sshwarma.world.row import Row

_PAGE_RENDERERS: Final = ("html", "frame")
"""Renderers whose results are shown by a page."""


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
        renderer = plan.get("renderer") if plan is not None else None
        if renderer not in _PAGE_RENDERERS or not isinstance(config, dict):
            raise NotFound(f"Row {found.seq} is no result with a page.")
        if renderer == "frame":
            return found, config, ""
        sha256 = _find_artifact(conn, str(found.meta["tool"]), str(config.get("artifact")))
        return found, config, sha256

    found, config, sha256 = await caller.world.store.read(read)
    if sha256:
        blobs, page_data = services_of(caller).workspaces.blobs, config.get("data")
        content = await asyncio.to_thread(lambda: insert_data(blobs.read(sha256), page_data))
    else:
        content = _embed(caller, found, config)
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
        if one.meta.get("renderer") in _PAGE_RENDERERS:
            return one
    raise NotFound("No tool has made a page here yet.")


def _embed(caller: Caller, found: Row, config: dict[str, Any]) -> bytes:
    """Return a page that embeds the address of a result.

    Raises:
        NotFound: if it has none.
        Forbidden: if it may not be embedded.
    """
    url = find_frame_url(config)
    if url is None:
        raise NotFound(f"Row {found.seq} has no address of a page.")
    if problem := find_embedding_problem(url, services_of(caller).settings.http.frame_hosts):
        raise Forbidden(problem, hint=f"Open it by itself: {url}")
    return make_frame_page(url)


def _find_artifact(conn: Connection, tool: str, path: str) -> str:
    """Return the hash of a page of the toolset that has a tool, or its server.

    Raises:
        NotFound: if it is not installed any more, or does not have the page.
    """
    name = tool.partition(":")[0]
    for space in records.list_toolsets(conn):
        servers = space.metadata[BUNDLE_KEY].get("mcp_servers", ())
        if name == space.label or name in [server["id"] for server in servers]:
            for file in records.read_files(conn, space.label):
                if file.path == path:
                    return file.sha256
            raise NotFound(f"The toolset {space.label} has no page {path} any more.")
    raise NotFound(f"The toolset of {tool} is not installed any more, and so has no pages.")
