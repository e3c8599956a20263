"""Private messages that somebody has not read, above a page and as they come."""

from __future__ import annotations

from functools import partial

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_SHOWN_UNREAD
from sshwarma.terminal.html import render_html
from sshwarma.verbs.log_rows import draw_row
from sshwarma.web.console.form_body import read_form
from sshwarma.web.console.frames import message_path, wants_part
from sshwarma.web.console.requests import ConsoleRequests, read_number
from sshwarma.web.console.row_html import LOOK
from sshwarma.world import private_messages
from sshwarma.world.agents import Agent
from sshwarma.world.ids import now_ms
from sshwarma.world.row import Row
from sshwarma.world.world import World

MAX_FORM_BYTES = 1_000
"""Bytes of the form that marks messages as read: a number, and a name."""


class Messages:
    """The messages above a page, and the form that marks them as read."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [Route("/messages/read", page(self._mark_read), methods=["POST"])]

    async def render(self, agent: Agent) -> Markup:
        """Return the messages that an agent has not read; empty if it has read all."""
        world = self._requests.world
        count, unread = await world.unread_messages.read_unread(
            world.store, agent.id, MAX_SHOWN_UNREAD
        )
        if not count:
            return Markup()
        return self._requests.frames.render(
            "messages.html", count=count, sender=world.agents.name_of(unread[-1].author_id),
            rows=[draw_message(world, agent, row) for row in unread],
            before=unread[-1].created_at, is_cut=count > len(unread),
        )  # fmt: skip

    async def _mark_read(self, request: Request) -> Response:
        """Remember that messages up to a time (ms) were shown: all, or of one."""
        caller, _ = await self._requests.find_caller(request)
        form = await read_form(request, MAX_FORM_BYTES)
        name = form.text("of")
        peer = self._requests.world.agents.find(name) if name else None
        mark = partial(
            private_messages.mark_read,
            agent_id=caller.agent.id,
            before_ms=min(read_number(form.text("before")), now_ms()),
            peer_id=peer.id if peer is not None else None,
        )
        await self._requests.world.change(mark)
        if wants_part(request):
            return Response(status_code=204)
        return RedirectResponse(message_path(peer.name) if peer is not None else "/", 303)


def draw_message(world: World, agent: Agent, row: Row) -> Markup:
    """Return a private message as HTML."""
    drawn = draw_row(row, world.agents, agent.id, LOOK)
    return Markup(render_html(drawn))  # noqa: S704 - which escapes text of others
