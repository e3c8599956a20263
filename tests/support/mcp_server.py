"""A world served over HTTP in this process, and clients that hold tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from sshwarma.admin import operations
from sshwarma.common.units import DAY_MS
from sshwarma.mcp.server.clients import ConnectedAgents
from sshwarma.mcp.server.server import McpServer
from sshwarma.settings import LimitSettings, ReloadableSettings
from sshwarma.tools.call import Tools
from sshwarma.tools.provider import ToolResult
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.line_rate import LineRateLimiter
from sshwarma.verbs.registry import tool_specs
from sshwarma.verbs.tool_provider import make_verb_providers
from sshwarma.web.api import HttpApi
from sshwarma.web.http import HttpServer
from sshwarma.web.metrics import MetricsPage
from sshwarma.world import agents, equipment, expiry, namespaces, things, tokens
from sshwarma.world.caller import Caller
from sshwarma.world.databases import Location
from sshwarma.world.ids import now_ms
from sshwarma.world.presence import PresentAgent
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from support.services import ProviderBase, close_services, services_in, use_services
from support.waiting import until

Call = Callable[[Caller, Thing, dict[str, Any]], Any]


@dataclass
class Workshop(ProviderBase):
    """The provider of tools that tests make: each does what its test says."""

    doing: dict[str, Call] = field(default_factory=dict)

    async def run(self, caller: Caller, tool: Thing, arguments: dict[str, Any]) -> ToolResult:
        done = self.doing[tool.name](caller, tool, arguments)
        result: ToolResult = await done if asyncio.iscoroutine(done) else done
        return result


@dataclass
class Served:
    """The world, its port, and what tests do to them."""

    world: World
    limits: LimitSettings
    url: str
    guests: ConnectedAgents
    workshop: Workshop

    async def agent(self, name: str, role: str = "member") -> str:
        made = await self.world.change(lambda tx: agents.create_agent(tx, name, role=role))
        return made.id

    async def token(self, name: str, scope: str = "build", **options: Any) -> str:
        made = await operations.run_operation(
            self.world, "token_new", {"name": name, "scope": scope, **options}
        )
        return str(made["token"])

    async def newcomer(self, name: str, role: str = "member", scope: str = "build") -> str:
        """Somebody new; their token."""
        await self.agent(name, role)
        return await self.token(name, scope)

    async def do(self, name: str, line: str, room: str = "") -> Any:
        """A line typed by somebody at a terminal, in a room or where they last were."""
        agent = self.world.agents.find(name)
        where = (await self.world.find_room(room)).id if room else agent.room_id
        return await run_line(
            Caller(self.world, services_in(self.world), self.limits, agent, where, "ssh"), line
        )

    async def tool(self, namespace: str, name: str, does: Call | None = None, **meta: Any) -> Thing:
        """A tool of a namespace, which is made if need be; carried out by `does`."""

        def work(tx: Any) -> Thing:
            space = things.find_child(tx.conn, "mcps", namespace, "mcp") or things.create_thing(
                tx, "mcps", "mcp", namespace, id=f"mcp-{namespace}", qualified_name=namespace
            )
            return things.create_thing(
                tx,
                space.id,
                "tool",
                name,
                qualified_name=f"{namespace}:{name}",
                description=f"Does {name}.",
                metadata={"input_schema": {"type": "object"}, **meta},
            )

        made = await self.world.change(work)
        self.workshop.doing[name] = does or (lambda *_: ToolResult("done"))
        return made

    async def spaced(self, namespace: str, name: str, does: Call) -> None:
        """A tool of a dotted namespace that somebody made, which is made if need be."""

        def work(tx: Any) -> None:
            space = things.find_by_qualified_name(
                tx.conn, namespace
            ) or namespaces.create_namespace(tx, namespace, "root")
            things.create_thing(
                tx,
                space.id,
                "tool",
                name,
                qualified_name=f"{namespace}:{name}",
                description=f"Does {name}.",
                metadata={"input_schema": {"type": "object"}, "runs": "workshop"},
            )

        await self.world.change(work)
        self.workshop.doing[name] = does

    async def equip(self, context_id: str, *tools: Thing) -> None:
        await self.world.change(lambda tx: equipment.equip_things(tx, context_id, list(tools)))

    @asynccontextmanager
    async def client(self, token: str, mode: str = "auto", **more: Any) -> AsyncIterator[Client]:
        """An SDK client with a token, in one era of the protocol. One of the older hears
        notifications by itself from the start."""
        headers = {"Authorization": f"Bearer {token}"}
        hears = asyncio.Event()

        async def answered(response: httpx2.Response) -> None:
            if response.request.method == "GET":  # the stream by which it hears
                hears.set()

        hooks = {"response": [answered]}
        async with (
            httpx2.AsyncClient(
                verify=False, headers=headers, timeout=20, event_hooks=hooks
            ) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, **more) as client,
        ):
            if mode == "legacy":
                await asyncio.wait_for(hears.wait(), 20)
            yield client

    def here(self, room_id: str = "lobby") -> dict[str, PresentAgent]:
        """Who is in a room, by name."""
        found = self.world.presence.in_room(room_id)
        return {self.world.agents.name_of(present.agent_id): present for present in found}

    async def received(self, room_id: str, *words: str) -> None:
        """Wait until a room's newest rows are these, since rows follow their events."""

        async def newest() -> list[str]:
            return [row.content for row in await self.world.last_rows(room_id, len(words))]

        async with asyncio.timeout(20):
            while await newest() != [*words]:  # noqa: ASYNC110 - as in `until`
                await asyncio.sleep(0.01)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        await until(is_so, pause=0.01)


class EndlessCall:
    """What a tool does that ends only when its call is stopped."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()

    async def __call__(self, *_: object) -> ToolResult:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        raise AssertionError


def words(result: CallToolResult) -> str:
    """The text of a result."""
    return "\n".join(getattr(block, "text", "") for block in result.content)


class Expiry:
    """Expiry of tokens: none before a test asks for it, however slow the machine is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def soon(self) -> None:
        """Let what a token opens from now on end after a moment, as if it expired."""
        self._monkeypatch.setattr(tokens.Token, "seconds_left", property(lambda token: 0.5))

    def past(self) -> None:
        """Every token that expires has expired."""
        self._monkeypatch.setattr(expiry, "now_ms", lambda: now_ms() + 2 * DAY_MS)


@asynccontextmanager
async def serving(location: Location, **limits: int) -> AsyncIterator[Served]:
    """A world of its own, served."""
    bounds = LimitSettings(
        **{"lines_per_10_seconds": 10_000, "requests_per_10_seconds": 10_000, **limits}
    )
    world = await World.open(location, tool_specs())
    workshop = Workshop()
    providers: dict[str, Any] = make_verb_providers()
    tools = Tools(world, _Providers(providers, workshop))
    services = use_services(world, tools=tools)
    settings = ReloadableSettings(limits=bounds)
    pace = LineRateLimiter(bounds.lines_per_10_seconds)
    door = McpServer(world, services, settings, pace)
    http = HttpServer(
        world, MetricsPage(), HttpApi(world, services, settings, pace), {"/mcp": door.http}
    )
    http.bind("127.0.0.1", 0)
    await http.serve()
    yield Served(world, bounds, f"http://127.0.0.1:{http.port}/mcp", door.clients, workshop)
    await door.stop()
    await http.stop()
    await close_services(world)
    await world.close()


class _Providers(dict[str, Any]):
    """Namespaces that tests make are carried out by the workshop."""

    def __init__(self, known: dict[str, Any], workshop: Workshop) -> None:
        super().__init__(known)
        self._workshop = workshop

    def get(self, key: str, default: Any = None) -> Any:
        return self._workshop if key.startswith(("mcp-", "workshop")) else super().get(key, default)


async def events(client: Any, cursor: str | None = None, seconds: float = 20) -> Any:
    """What `wait_events` gives a client."""
    result = await client.call_tool(
        "wait_events", {"timeout": seconds, **({"cursor": cursor} if cursor is not None else {})}
    )
    assert not result.is_error, words(result)
    return result.structured_content
