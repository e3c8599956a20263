"""`/go`: one field that leads to any room, page or verb."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.verbs.registry import every_verb
from sshwarma.web.console.frames import PAGES, path_within, room_path
from sshwarma.web.console.narrowing import find_items
from sshwarma.web.console.requests import ConsoleRequests
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class GoPlace:
    """A room, a page, or the form of a verb, whose name has its slash."""

    name: str
    path: str
    about: str = ""


class GoPage:
    """The page `/go`, which Ctrl-K leads to."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        return [Route("/go", self._requests.page(self._show))]

    async def _show(self, request: Request) -> Response:
        """Lead to the place that `?to=` names, or list those that it may mean."""
        caller, _ = await self._requests.find_caller(request)
        wanted = request.query_params.get("to", "").strip().lower()
        room = (await caller.room()).name if request.query_params.get("in") else ""
        places = await _list_places(caller, room)
        every = [one for section in places.values() for one in section]
        matches = find_items([(one.name, one.about) for one in every], wanted)
        found = {one for one, is_found in zip(every, matches, strict=True) if is_found}
        exact = {one for one in found if one.name.lower() in (wanted, f"/{wanted}")}
        if wanted and len(exact or found) == 1:
            (only,) = exact or found
            return RedirectResponse(only.path, status_code=303)
        sections = [
            (section, [(one, one in found) for one in of]) for section, of in places.items()
        ]
        return await self._requests.show_page(
            request, caller, "go.html", title="Go to", sections=sections, wanted=wanted,
            has_any=bool(found),
        )  # fmt: skip


async def _list_places(caller: Caller, room: str) -> dict[str, list[GoPlace]]:
    """Return all places by section; pages and verbs stay in a room, "" for one's own."""
    rooms = [GoPlace(one.name, room_path(one.name)) for one in await caller.known_rooms()]
    pages = [GoPlace(name, path_within(path, room)) for path, name in PAGES]
    verbs = [
        GoPlace(f"/{verb.name}", path_within(f"/verb/{verb.path}", room), verb.summary)
        for verb in every_verb()
    ]
    return {"Rooms": rooms, "Pages": pages, "Verbs": verbs}
