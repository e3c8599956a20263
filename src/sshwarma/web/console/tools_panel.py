"""The panel of a room with its tools: a picker, and the form that calls one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.examine import ThingDetails
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.tool_access import check_may_decide, find_tool
from sshwarma.verbs.tool_views import ListedTool
from sshwarma.web.console.argument_fields import (
    ArgumentField,
    fill_fields,
    make_argument_fields,
    put_texts,
    read_tool_form,
)
from sshwarma.web.console.call_pages import find_call
from sshwarma.web.console.form_body import read_form
from sshwarma.web.console.forms import JSON_FIELD
from sshwarma.web.console.frames import render_block, room_path, wants_part
from sshwarma.web.console.requests import ConsoleRequests, read_number, working
from sshwarma.web.console.room_page import RoomPages
from sshwarma.web.console.verb_pages import find_obstacle, typed_values
from sshwarma.web.endpoints import get_verb
from sshwarma.web.errors import HTTP_STATUSES
from sshwarma.world.access import Right
from sshwarma.world.builtin_containers import GLOBAL_ID
from sshwarma.world.caller import Caller
from sshwarma.world.errors import WorldError

_ORIGINS: Final = ("built in", "toolset", "MCP server", "")
"""In the order of the picker's groups."""


class ToolsPanel:
    """The panel `tools`."""

    def __init__(self, requests: ConsoleRequests, rooms: RoomPages) -> None:
        self._requests = requests
        self._rooms = rooms

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/tools", page(self._find_panel)),
            Route("/room/{room}/tools", page(self._show)),
            Route("/room/{room}/tools/{tool:path}", page(self._show_tool)),
            Route("/room/{room}/tools/{tool:path}", page(self._run), methods=["POST"]),
        ]

    async def _find_panel(self, request: Request) -> Response:
        """Lead to the panel of the room that one is in."""
        caller, _ = await self._requests.find_caller(request)
        return RedirectResponse(room_path((await caller.room()).name, "tools"), status_code=303)

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        wanted = request.query_params.get("filter", "").strip()
        listed = await invoke(caller, "tool list", {"pattern": "*"})
        if listed.cut and wanted:
            listed = await invoke(caller, "tool list", {"pattern": f"*{wanted}*"})
        room = await caller.room()
        matching = [tool for tool in listed.tools if _matches(tool, wanted)]
        html = self._requests.frames.render(
            "tools.html", room=room, path=room_path(room.name), filter=wanted, is_cut=listed.cut,
            groups=list(_group(matching, room.name)), count=len(matching), always=GLOBAL_ID,
            obstacle=await find_room_obstacle(caller),
        )  # fmt: skip
        return await self._rooms.show_panel(request, caller, "tools", html)

    async def _show_tool(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        details = await _read_details(caller, request)
        fields, written = make_argument_fields(details.input_schema or {}), ""
        if number := read_number(request.query_params.get("from")):
            fields, written = fill_fields(fields, await _read_arguments(caller, number))
        html = await self._draw_tool(caller, details, fields, written)
        return await self._rooms.show_panel(request, caller, "tools", html)

    async def _draw_tool(
        self, caller: Caller, details: ThingDetails, fields: Sequence[ArgumentField],
        written: str = "", result: str = "",
    ) -> Markup:  # fmt: skip
        """Return the form of a tool; `written` is what its field for JSON has."""
        room = await caller.room()
        listed = await invoke(caller, "tool list", {"pattern": details.name})
        return self._requests.frames.render(
            "tool.html", room=room, path=room_path(room.name), tool=details, result=result,
            listed=next((one for one in listed.tools if one.name == details.name), None),
            fields=[one.field for one in fields], written=written, json_field=JSON_FIELD,
            obstacle=await find_room_obstacle(caller), always=GLOBAL_ID,
            undecided=(undecided := await _find_decision_obstacle(caller, details.name)),
            unset=undecided or await find_obstacle(caller, get_verb("tool set")),
        )  # fmt: skip

    async def _run(self, request: Request) -> Response:
        """Call a tool with the arguments of its form."""
        caller, opened = await self._requests.find_caller(request, is_read=False)
        details = await _read_details(caller, request)
        fields = make_argument_fields(details.input_schema or {})
        form = await read_form(request, 3 * caller.limits.stdin_bytes)
        status, refusal = 200, None
        try:
            with working(opened):
                caller = await caller.refreshed()
                arguments = {"name": details.name, "arguments": read_tool_form(fields, form)}
                ran = await invoke(caller, "run", arguments)
        except WorldError as error:
            if wants_part(request):
                raise
            refusal, status = error, HTTP_STATUSES.get(error.code, 422)
        if refusal is not None:
            result = render_block(draw_refusal(refusal))
        else:
            result = self._requests.frames.render(
                "tool_result.html", drawn=await self._requests.draw(caller, ran), ran=ran,
                path=room_path((await caller.room()).name),
            )  # fmt: skip
        if wants_part(request):
            return HTMLResponse(result)
        typed = typed_values(form)
        fields = put_texts(fields, typed)
        html = await self._draw_tool(caller, details, fields, typed.get(JSON_FIELD, ""), result)
        return await self._rooms.show(caller, status=status, panel="tools", html=html)


async def _read_details(caller: Caller, request: Request) -> ThingDetails:
    found: ThingDetails = await invoke(caller, "tool show", {"name": request.path_params["tool"]})
    return found


async def _read_arguments(caller: Caller, number: int) -> dict[str, Any]:
    """Return the arguments of a call, by the number of its row or its result's.

    Raises:
        NotFound: if no row has the number, or it is no call.
    """
    call = await find_call(caller, number)
    found = json.loads(call.start.content) if call.start is not None else {}
    return found if isinstance(found, dict) else {}


async def find_room_obstacle(caller: Caller) -> str:
    """Return why the caller may not change what the room has equipped, or ""."""
    try:
        await caller.require(Right.BUILD)
    except WorldError as error:
        return error.message
    return ""


async def _find_decision_obstacle(caller: Caller, name: str) -> str:
    """Return why the caller may not enable or disable a tool, or ""."""
    try:
        await check_may_decide(caller, await find_tool(caller, name))
    except WorldError as error:
        return error.message
    return ""


def _matches(tool: ListedTool, wanted: str) -> bool:
    """Return whether a tool has all the words of a filter."""
    has = " ".join(
        (tool.name, tool.title, tool.description, tool.renderer, tool.origin, tool.obstacle)
    ).lower()
    return all(word in has for word in wanted.lower().split())


def _group(tools: Sequence[ListedTool], room: str) -> Iterator[tuple[str, str, list[ListedTool]]]:
    """Yield the tools by where they come from.

    A heading, the namespace that can be equipped whole, or "", and the tools.
    """

    def order(tool: ListedTool) -> tuple[int, str]:
        namespace = "" if tool.origin == "built in" else tool.namespace
        return _ORIGINS.index(tool.origin), namespace

    for (origin, namespace), found in groupby(sorted(tools, key=order), key=order):
        if not namespace:
            yield "Builtin", "", list(found)
        elif _ORIGINS[origin]:
            kind = "Toolset" if _ORIGINS[origin] == "toolset" else "MCP server"
            yield f"{kind} {namespace}", namespace, list(found)
        else:
            yield ("This room" if namespace == room else namespace), "", list(found)
