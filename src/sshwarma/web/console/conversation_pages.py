"""The pages of private messages: with whom one has some, and one conversation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from sshwarma.common.limits import MAX_CONVERSATIONS
from sshwarma.verbs.dispatch import invoke
from sshwarma.verbs.history import HistoryPage
from sshwarma.verbs.log_rows import make_snippet
from sshwarma.web.console.frames import wants_part
from sshwarma.web.console.requests import ConsoleRequests, read_number
from sshwarma.world import private_messages
from sshwarma.world.agents import Agent
from sshwarma.world.caller import Caller


@dataclass(frozen=True, slots=True)
class ListedConversation:
    """A conversation in the list.

    Attributes:
        is_there: whether the other still has an account.
        newest: the newest line, and who wrote it.
        unread: messages of the other that were not read.
    """

    name: str
    is_there: bool
    newest: str
    unread: int


class ConversationPages:
    """The pages `/messages` and `/messages/NAME`."""

    def __init__(self, requests: ConsoleRequests) -> None:
        self._requests = requests

    @property
    def routes(self) -> list[BaseRoute]:
        """The routes, for Starlette."""
        page = self._requests.page
        return [Route("/messages", page(self._list)), Route("/messages/{name}", page(self._show))]

    async def _list(self, request: Request) -> Response:
        caller, _ = await self._requests.find_caller(request)
        listed = await _list_conversations(caller)
        known = {one.name for one in listed}
        return await self._answer(
            request, caller, "conversations.html", "Messages", listed=listed, peer="",
            people=[name for name in _list_people(caller) if name not in known],
        )  # fmt: skip

    async def _show(self, request: Request) -> Response:
        """Show the newest messages with an agent, or those `?before=` a number."""
        caller, _ = await self._requests.find_caller(request)
        peer = caller.world.agents.find(request.path_params["name"])
        before = read_number(request.query_params.get("before"))
        page = await _read_messages(caller, peer, before)
        find_unread = partial(
            private_messages.count_unread_of, agent_id=caller.agent.id, peer_id=peer.id
        )
        drawn = await self._requests.draw(caller, replace(page, older=None)) if page else ""
        return await self._answer(
            request, caller, "conversation.html", f"Messages with {peer.name}", peer=peer.name,
            drawn=drawn, older=page.older.before if page and page.older else 0, before=before,
            newest_at=page.entries[-1].at if page and page.entries else 0,
            unread=await caller.world.store.read(find_unread),
        )  # fmt: skip

    async def _answer(
        self, request: Request, caller: Caller, frame: str, title: str, **values: Any
    ) -> Response:
        """Return a page, for a script only the part that changes."""
        in_room = request.query_params.get("in", "")
        content = self._requests.frames.render(frame, in_room=in_room, **values)
        if wants_part(request):
            return HTMLResponse(content)
        return await self._requests.show_page(
            request, caller, "polled.html", title=title, content=content, peer=values["peer"]
        )


async def _read_messages(caller: Caller, peer: Agent, before: int) -> HistoryPage | None:
    """Return messages with an agent; None before the first."""
    find = partial(private_messages.find_private_log, one_id=caller.agent.id, other_id=peer.id)
    if await caller.world.store.read(find) is None:
        return None
    arguments = {"agent": f"@{peer.name}"} | ({"before": before} if before else {})
    found: HistoryPage = await invoke(caller, "history show", arguments)
    return found


async def _list_conversations(caller: Caller) -> list[ListedConversation]:
    world, own_id = caller.world, caller.agent.id
    read = partial(private_messages.read_conversations, agent_id=own_id, limit=MAX_CONVERSATIONS)
    listed = []
    for one in await world.store.read(read):
        first = one.newest.content.strip().partition("\n")[0]
        who = world.agents.name_author(one.newest)
        peer = world.agents.get(one.peer_id)
        listed.append(
            ListedConversation(
                world.agents.name_of(one.peer_id), peer is not None,
                f"{who}: {make_snippet(first)}", one.unread,
            )
        )  # fmt: skip
    return listed


def _list_people(caller: Caller) -> list[str]:
    """Return the people to whom one can write, by name."""
    return sorted(
        one.name for one in caller.world.agents
        if one.kind != "model" and not one.disabled and one.id != caller.agent.id
    )  # fmt: skip
