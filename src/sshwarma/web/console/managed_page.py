"""A page whose content is fetched again after each of its forms."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from sshwarma.web.console.frames import wants_part
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.web.console.verb_pages import find_obstacle
from sshwarma.web.endpoints import get_verb
from sshwarma.world.caller import Caller


async def show_managed(
    requests: ConsoleRequests, request: Request, caller: Caller, frame: str, title: str,
    **values: Any,
) -> Response:  # fmt: skip
    """Return a page, for a script only the part that changes."""
    room = await caller.room()
    in_room = room.name if request.query_params.get("in") else ""
    content = requests.frames.render(frame, room=room, in_room=in_room, **values)
    if wants_part(request):
        return HTMLResponse(content)
    return await requests.show_page(request, caller, "managed.html", title=title, content=content)


async def find_obstacles(caller: Caller, *names: str) -> dict[str, str]:
    """Return why the caller may not use verbs, by their paths; "" for those allowed."""
    verbs = [get_verb(name) for name in names]
    return {verb.path: await find_obstacle(caller, verb) for verb in verbs}
