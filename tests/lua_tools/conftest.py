"""A world with tools in Lua: `den`, where alice may build and bob may not.

All tests here run in one event loop and share one Lua host: starting one starts two processes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest_asyncio

from sshwarma.lua_tools.provider import LUA_PROVIDER, SCRIPT_LIMITS, LuaToolProvider
from sshwarma.tools.call import Tools
from sshwarma.world.databases import Location
from sshwarma.world.world import World
from sshwarma.wrap.host import LuaHost
from support.people import Someone, arrive, do, opened
from support.services import use_services, verb_providers


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def lua_host() -> AsyncIterator[LuaHost]:
    """A host with short limits."""
    host = await LuaHost.start(SCRIPT_LIMITS._replace(run_seconds=1.0, total_seconds=60.0))
    yield host
    await host.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def patient_lua_host() -> AsyncIterator[LuaHost]:
    """A host with a long time limit, for scripts that must end by another limit."""
    host = await LuaHost.start(SCRIPT_LIMITS._replace(run_seconds=20.0, total_seconds=60.0))
    yield host
    await host.close()


@pytest_asyncio.fixture(loop_scope="session")
async def world(database: Location) -> AsyncIterator[World]:
    async with opened(database, shared=("LuaHost.", "WorkerProcess.")) as world:
        yield world


@pytest_asyncio.fixture(loop_scope="session")
async def alice(world: World) -> Someone:
    """The owner of the server."""
    return await arrive(world, "alice", role="owner")


@pytest_asyncio.fixture(loop_scope="session")
async def bob(world: World) -> Someone:
    """A member."""
    return await arrive(world, "bob")


@pytest_asyncio.fixture(loop_scope="session")
async def guest(world: World) -> Someone:
    """Somebody who may enter and talk, and no more."""
    return await arrive(world, "gast", role="guest")


@pytest_asyncio.fixture(loop_scope="session")
async def qwen(world: World) -> Someone:
    """A model."""
    return await arrive(world, "qwen", kind="model", door="model")


@asynccontextmanager
async def lua_tools_on(world: World, host: LuaHost) -> AsyncIterator[Tools]:
    """Tools that can be called in the world, those in Lua by the host."""
    made = Tools(world, verb_providers())
    lua = LuaToolProvider(host, made)
    made.register(LUA_PROVIDER, lua)
    use_services(world, tools=made, lua_tools=lua)
    yield made
    # The world looks for tasks that are left; the host's own are not of it.
    while host._end_tasks or host._starts:
        await host._end_tasks.join()
        await host._starts.join()


@pytest_asyncio.fixture(loop_scope="session")
async def tools(world: World, lua_host: LuaHost) -> AsyncIterator[Tools]:
    """Tools that can be called, those in Lua with short limits."""
    async with lua_tools_on(world, lua_host) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def patient_tools(
    world: World, tools: Tools, patient_lua_host: LuaHost
) -> AsyncIterator[Tools]:
    """In place of `tools`: tools of which those in Lua have a long time limit."""
    async with lua_tools_on(world, patient_lua_host) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def den(tools: Tools, alice: Someone, bob: Someone) -> str:
    """The id of a room that alice made, where both stand."""
    await do(alice, "/create den")
    await do(bob, "/join den")
    return alice.room_id
