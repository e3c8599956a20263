"""A tool call whole: arguments, the result as its renderer shows it, and times.

What a page of a toolset runs, runs in a frame with an origin of its own. It reads neither the page
around it nor the cookie, and sends nothing anywhere.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_CALL_ATTACHMENTS
from sshwarma.settings import is_loopback
from sshwarma.toolsets.frame_page import find_frame_url
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.expand import ExpandedRow
from sshwarma.verbs.log_rows import unknown_row_error
from sshwarma.verbs.render_views import PAGE_PROBLEM_KEY
from sshwarma.web.console.call_attachments import draw_attachments, read_attachment
from sshwarma.web.console.embedded import find_frame_policy, find_own_frame_problem
from sshwarma.web.console.frames import room_path, wants_part
from sshwarma.web.console.picture_drawings import PictureDrawings
from sshwarma.web.console.requests import ConsoleRequests, read_number, read_row
from sshwarma.web.console.room_page import RoomPages
from sshwarma.web.request_body import client_address
from sshwarma.world import calls, rows
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.calls import CallRecord
from sshwarma.world.errors import Forbidden, NotFound

MAX_SHOWN_JSON_CHARACTERS: Final = 100_000
"""Characters of arguments that are parsed to show them by name; longer ones are shown as JSON."""


class CallPages:
    """The pages of tool calls."""

    def __init__(
        self, requests: ConsoleRequests, room_pages: RoomPages, pictures: PictureDrawings
    ) -> None:
        self._requests = requests
        self._rooms = room_pages
        self._pictures = pictures

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/room/{room}/call/{seq:digits}", page(self._show)),
            Route("/room/{room}/call/{seq:digits}/page", page(self._send_page)),
            Route(
                "/room/{room}/call/{seq:digits}/attachment/{number:digits}", page(self._send_file)
            ),
        ]

    async def _show(self, request: Request) -> Response:
        """Show a call: as a panel, and with `?card` as what opens in the log."""
        caller, _ = await self._requests.find_caller(request)
        call = await find_call(caller, read_row(request))
        name = (await caller.room()).name
        end, start = call.end, call.start
        shown = await invoke(caller, "expand", {"row": end.seq}) if end is not None else None
        row = start or end
        html = self._requests.frames.render(
            "call.html", call=call, path=room_path(name), room=name, is_card=_is_card(request),
            tool=row.meta["tool"] if row is not None else "",
            who=caller.world.agents.name_author(row) if row is not None else "",
            arguments=_list_values(start.content if start is not None else ""),
            result=await self._requests.draw(caller, shown) if shown is not None else "",
            text=end.content if end is not None else "", seconds=_find_seconds(call),
            embedded=_find_embedded(request, shown), file=_find_file(shown),
            attachments=await draw_attachments(caller, end, self._pictures),
        )  # fmt: skip
        if wants_part(request):
            return HTMLResponse(html)
        return await self._rooms.show_panel(request, caller, "call", html)

    async def _send_file(self, request: Request) -> Response:
        """Send an attachment of a result, which a browser stores and never shows."""
        caller, _ = await self._requests.find_caller(request)
        seq, number = read_row(request), read_number(request.path_params["number"])
        data = await read_attachment(caller, seq, max(1, min(number, MAX_CALL_ATTACHMENTS)))
        headers = {"Content-Disposition": f'attachment; filename="{seq}-{number}"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def _send_page(self, request: Request) -> Response:
        """Send the page of a result, for a frame: harmless also if it is opened alone."""
        caller, _ = await self._requests.find_caller(request)
        seq = read_row(request)
        shown = await invoke(caller, "expand", {"row": seq})
        if problem := _find_embedded(request, shown)["problem"]:
            raise NotFound(problem)
        page = await invoke(caller, "render", {"row": seq})
        url, content = _find_url(shown), base64.b64decode(page.data)
        # Opened by itself it could leave for another server, with what it shows in the address.
        if not url and request.headers.get("sec-fetch-dest", "iframe") != "iframe":
            raise Forbidden("This page is shown in its room alone.")
        headers = {"Content-Security-Policy": find_frame_policy(url)}
        return HTMLResponse(content, headers=headers)


async def find_call(caller: Caller, seq: int) -> CallRecord:
    """Return the call of a row.

    Raises:
        NotFound: if the log has no such row, or it is not one of a call.
        Forbidden: if the caller may not be in the room.
    """
    await caller.require(Right.ENTER)

    def read(conn: Connection) -> CallRecord | None:
        row = rows.read_numbered(conn, caller.room_id, seq)
        if row is None:
            raise unknown_row_error(seq)
        return calls.read_recorded_call(conn, row)

    found = await caller.world.store.read(read)
    if found is None:
        raise NotFound(f"Row {seq} is no call of a tool.")
    return found


def _is_card(request: Request) -> bool:
    return "card" in request.query_params


def _list_values(content: str) -> list[tuple[str, str]]:
    """Return arguments by name, each as text; without a name if they are not JSON."""
    try:
        values: Any = json.loads(content) if len(content) <= MAX_SHOWN_JSON_CHARACTERS else None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return [("", content)] if content else []
    return [
        (name, one if isinstance(one, str) else json.dumps(one, ensure_ascii=False, indent=1))
        for name, one in values.items()
    ]


def _find_seconds(call: CallRecord) -> tuple[float | None, float]:
    """Return how long a call ran and waited, in seconds."""
    meta = call.end.meta if call.end is not None else {}
    return meta.get("seconds"), meta.get("waited", 0.0)


def _find_config(shown: ExpandedRow | None) -> tuple[str, dict[str, Any]]:
    plan = shown.render_plan if shown is not None else None
    config = plan.get("config") if plan is not None else None
    return (plan or {}).get("renderer", ""), config if isinstance(config, dict) else {}


def _find_url(shown: ExpandedRow | None) -> str:
    """Return the address that a frame shows; "" for a page of a toolset."""
    renderer, config = _find_config(shown)
    return (find_frame_url(config) or "") if renderer == "frame" else ""


def _find_file(shown: ExpandedRow | None) -> tuple[str, bool]:
    """Return the file of the room that a result shows, and whether it may be edited."""
    _, config = _find_config(shown)
    file = config.get("file")
    return (file if isinstance(file, str) else ""), config.get("editable") is True


def _find_embedded(request: Request, shown: ExpandedRow | None) -> dict[str, Any]:
    """Return how a result is embedded: its renderer, the address, and why it is not."""
    renderer, config = _find_config(shown)
    plan = shown.render_plan if shown is not None and shown.render_plan else {}
    is_page = renderer == "html" or (renderer == "frame" and find_frame_url(config) is not None)
    if shown is None or not is_page:
        return {"renderer": "", "seq": 0, "url": "", "problem": "", "port": False}
    url = _find_url(shown)
    problem = plan.get(PAGE_PROBLEM_KEY) or ""
    is_port = renderer == "frame" and not isinstance(config.get("url"), str)
    if url and not problem:
        problem = find_own_frame_problem(url, request.url.hostname or "", request.url.port)
        if is_port and not is_loopback(client_address(request)):
            problem = (
                f"It is at {url} on the machine of the server, which this browser does not reach."
            )
    return {
        "renderer": renderer, "seq": shown.seq, "url": url, "problem": problem, "port": is_port,
    }  # fmt: skip
