"""The page of a room: its log, its prompt, and one of its panels."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_CONSOLE_ROWS
from sshwarma.verbs.called_verb import split_verb
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.log_rows import unknown_row_error
from sshwarma.verbs.refusal_view import draw_refusal
from sshwarma.verbs.registry import Verb
from sshwarma.web.console.form_body import read_form
from sshwarma.web.console.frames import render_block, room_path, wants_part
from sshwarma.web.console.messages import Messages
from sshwarma.web.console.moved import find_new_room, moved_headers
from sshwarma.web.console.questions import Questions
from sshwarma.web.console.requests import ConsoleRequests, read_number, read_row, working
from sshwarma.web.console.row_html import RowDrawings
from sshwarma.web.errors import HTTP_STATUSES
from sshwarma.world.access import Right
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Invalid, WorldError
from sshwarma.world.rows import read_tail

PANELS = ("here", "tools", "files", "memory", "debug")
"""The panels of a room, in the order of their tabs."""


class RoomPages:
    """The pages of rooms."""

    def __init__(
        self,
        requests: ConsoleRequests,
        drawings: RowDrawings,
        questions: Questions,
        messages: Messages,
    ) -> None:
        self._requests = requests
        self._messages = messages
        self._questions = questions
        self._world = requests.world
        self._drawings = drawings

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [
            Route("/room/{room}", page(self._show)),
            Route("/room/{room}", page(self._take_line), methods=["POST"]),
            Route("/room/{room}/row/{seq:digits}", page(self._show)),
        ]

    async def _show(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        before = read_number(request.query_params.get("before"))
        return await self.show(caller, before=before, marked=read_row(request))

    async def show_panel(
        self, request: Request, caller: Caller, panel: str, html: Markup
    ) -> Response:
        """Return a panel of a room, for a script alone, else in the page of the room."""
        if wants_part(request):
            return HTMLResponse(html)
        return await self.show(caller, panel=panel, html=html)

    async def show(
        self, caller: Caller, answer: str = "", text: str = "", status: int = 200, *,
        before: int = 0, marked: int = 0, panel: str = "", html: str = "",
    ) -> Response:  # fmt: skip
        """Return the page of a room.

        Args:
            caller: who looks, in that room.
            answer: what the last line gave, as HTML.
            text: what stands in the prompt.
            status: of HTTP.
            before: the number before which its rows end; 0 for the newest.
            marked: the number of a row that is shown with those around it; 0 for none.
            panel: the panel that is open; "" for none.
            html: what is in it.
        """
        room = await caller.room()
        await caller.require(Right.ENTER, room)
        before = marked + MAX_CONSOLE_ROWS // 2 if marked else before
        if before:
            found = partial(read_tail, room_id=room.id, limit=MAX_CONSOLE_ROWS, before=before)
            rows = await self._world.store.read(found)
        else:
            rows = await self._world.last_rows(room.id, MAX_CONSOLE_ROWS)
        if marked and not any(row.seq == marked for row in rows):
            raise unknown_row_error(marked)
        drawn = await self._drawings.draw(caller.agent, rows, room_path(room.name))
        present = {one.agent_id for one in self._world.presence.in_room(room.id)}
        here = ", ".join(sorted(map(self._world.agents.name_of, present)))
        return self._requests.frames.show(
            "room.html", status, title=room.name, who=caller.agent.name, room=room, rows=drawn,
            in_room=room.name,
            path=room_path(room.name), answer=answer, text=text, marked=marked, panel=panel,
            after=rows[-1].seq if rows else 0, here=here, is_newest=not before and not marked,
            older=rows[0].seq if rows and rows[0].seq > 1 else 0, panels=PANELS, html=html,
            questions=await self._questions.render(caller),
            messages=await self._messages.render(caller.agent),
        )  # fmt: skip

    async def _take_line(self, request: Request) -> Response:
        """Run a typed line; show what it gives, below the prompt."""
        caller, opened = await self._requests.find_caller(request, is_read=False)
        form = await read_form(request, 3 * caller.limits.stdin_bytes)
        before, text = form.text("before"), form.text("text").replace("\r\n", "\n")
        text = before + text if before else text.strip("\n")  # a text that is edited is exact
        try:
            if not text.strip():
                raise Invalid("There is no text.")
            with working(opened):
                result = await run_line(caller, text)
        except WorldError as error:
            if wants_part(request):
                return self._requests.show_refusal(request, error, text)
            status = HTTP_STATUSES.get(error.code, 422)
            return await self.show(caller, render_block(draw_refusal(error, text)), text, status)
        drawn = await self._requests.draw(caller, result)
        path = await find_new_room(caller, _find_called(caller, text))
        if wants_part(request):
            return HTMLResponse(drawn, headers=moved_headers(path))
        if path:
            return RedirectResponse(path, status_code=303)
        return await self.show(caller, drawn)


def _find_called(caller: Caller, text: str) -> Verb | None:
    """Return the verb that a line calls; None if it is talk or a command."""
    name, space, rest = text.removeprefix("/").partition(" ")
    meaning = caller.agent.aliases.get(name.lower(), f"/{name}").removeprefix("/")
    try:
        return split_verb(f"{meaning}{space}{rest}")[0] if text.startswith("/") else None
    except WorldError:
        return None  # a command
