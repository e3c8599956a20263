"""A world without doors, and people in it, for the tests of world and verbs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from sqlalchemy import text

from sshwarma.settings import LimitSettings
from sshwarma.verbs.dispatch import run_line
from sshwarma.world import agents, things
from sshwarma.world.agents import Agent, AgentKind
from sshwarma.world.caller import Caller
from sshwarma.world.databases import Location
from sshwarma.world.doors import Door
from sshwarma.world.errors import WorldError
from sshwarma.world.loadout import Loadout
from sshwarma.world.presence import AgentConnection
from sshwarma.world.store import Change
from sshwarma.world.things import Thing
from sshwarma.world.world import World
from support.databases import copied_database, read_misnamed_tools
from support.services import close_services, services_in

T = TypeVar("T")


@dataclass(eq=False)
class Someone:
    """An agent with one connection; its rights are read for every line, as by a door."""

    world: World
    id: str
    connection: AgentConnection
    limits: LimitSettings = field(default_factory=LimitSettings)

    @property
    def agent(self) -> Agent:
        found = self.world.agents.get(self.id)
        assert found is not None
        return found

    @property
    def name(self) -> str:
        return self.agent.name

    @property
    def room_id(self) -> str:
        return self.connection.room_id

    @property
    def caller(self) -> Caller:
        return Caller(
            self.world,
            services_in(self.world),
            self.limits,
            self.agent,
            self.connection.room_id,
            self.connection.door,
            self.connection,
        )


async def do(someone: Someone, line: str, piped: str | None = None) -> Any:
    """What the line gives, typed by that person where they stand."""
    return await run_line(someone.caller, line, piped)


async def refused(someone: Someone, line: str, piped: str | None = None) -> WorldError:
    """Why the line is refused; an error if it is not, or if it changes anything."""
    before = await everything(someone.world)
    with pytest.raises(WorldError) as caught:
        await do(someone, line, piped)
    assert await everything(someone.world) == before
    return caught.value


async def everything(world: World) -> dict[str, list[Any]]:
    """All that is stored, and who stands where: to see that nothing has changed."""
    tables = ("things", "equipped", "exits", "rows", "row_tags", "room_members", "agent_keys",
              "invites", "audit", "turns", "tool_calls", "tool_overrides")  # fmt: skip

    def dump(conn: Any) -> dict[str, list[Any]]:
        return {
            table: sorted(repr(row) for row in conn.execute(text(f"SELECT * FROM {table}")).all())
            for table in tables
        }

    return await world.store.read(dump) | {
        "presence": sorted((link.agent_id, link.room_id) for link in world.presence)
    }


async def make(world: World, *args: Any, **values: Any) -> Thing:
    """A thing: parent id, kind, name."""
    return await world.change(lambda tx: things.create_thing(tx, *args, **values))


async def settle(world: World, work: Callable[[Change], T]) -> T:
    return await world.change(work)


async def tool_names(world: World, room_id: str | None, agent_id: str | None) -> list[str]:
    """Names of what can be used there, but for what is always there."""
    load: Loadout = await world.loadout(room_id, agent_id)
    return [item.thing.label for item in load.usable_tools if item.source != "always"]


async def arrive(
    world: World,
    name: str,
    *,
    role: str = "member",
    kind: AgentKind = "person",
    room: str = "lobby",
    door: Door = "ssh",
) -> Someone:
    """Somebody new, standing in a room."""
    agent = await world.change(lambda tx: agents.create_agent(tx, name, role=role, kind=kind))
    return _stand(world, agent, room, door)


def come_back(world: World, name: str, *, door: Door = "ssh") -> Someone:
    """Somebody whom the world knows, standing in the lobby."""
    agent = world.agents.find_by_name(name)
    assert agent is not None
    return _stand(world, agent, "lobby", door)


def _stand(world: World, agent: Agent, room: str, door: Door) -> Someone:
    link = AgentConnection(agent.id, room, door)
    world.presence.enter(link)
    return Someone(world, agent.id, link)


@asynccontextmanager
async def opened(location: Location, *, shared: tuple[str, ...] = ()) -> AsyncIterator[World]:
    """The world of a copy of `newborn`, closed afterwards.

    Its tools must be stored with the names that lists show. It must leave no task and no thread.
    What tests share may: its tasks run coroutines of the modules `shared`.
    """
    before, threads = asyncio.all_tasks(), set(threading.enumerate())
    made = await World.open(location, ())  # `newborn` has the built-in tools already
    yield made
    await close_services(made)
    await made.close()
    assert read_misnamed_tools(location) == []
    left = {
        task
        for task in asyncio.all_tasks() - before - {asyncio.current_task()}
        if not any(name in repr(task.get_coro()) for name in shared)
    }
    assert not left
    started = set(threading.enumerate()) - threads
    assert not [thread for thread in started if thread.name.startswith("store-")]


@pytest.fixture
async def world(database: Location) -> AsyncIterator[World]:
    """A new world, closed afterwards."""
    async with opened(database) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world(
    request: pytest.FixtureRequest, store_name: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """One world for those tests of a module that change nothing in it."""
    with copied_database(request, store_name, tmp_path_factory.mktemp("shared")) as database:
        async with opened(database) as made:
            yield made


@pytest.fixture
async def alice(world: World) -> Someone:
    """The owner of the server."""
    return await arrive(world, "alice", role="owner")


@pytest.fixture
async def bob(world: World) -> Someone:
    """A member."""
    return await arrive(world, "bob")


@pytest.fixture
async def guest(world: World) -> Someone:
    """Somebody who may enter and talk, and no more."""
    return await arrive(world, "gast", role="guest")


@pytest.fixture
async def qwen(world: World) -> Someone:
    """A model."""
    return await arrive(world, "qwen", kind="model", door="model")
