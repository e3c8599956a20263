"""A world with tools in Lua: `den`, where alice may build and bob may not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from sshwarma.lua_tools.provider import LUA_PROVIDER, SCRIPT_LIMITS, LuaToolProvider
from sshwarma.tools.call import Tools
from sshwarma.world.world import World
from sshwarma.wrap.host import LuaHost
from support.people import Someone, alice, bob, do, guest, newborn, qwen, world
from support.services import use_services, verb_providers

__all__ = ["alice", "bob", "guest", "newborn", "qwen", "world"]


@pytest.fixture
async def tools(world: World) -> AsyncIterator[Tools]:
    """Tools that can be called, those in Lua with short limits."""
    host = await LuaHost.start(replace(SCRIPT_LIMITS, seconds=1.0, total_seconds=60.0))
    made = Tools(world, verb_providers())
    lua = LuaToolProvider(host, made)
    made.register(LUA_PROVIDER, lua)
    use_services(world, tools=made, lua_tools=lua)
    yield made
    await host.close()


@pytest.fixture
async def den(tools: Tools, alice: Someone, bob: Someone) -> str:
    """The id of a room that alice made, where both stand."""
    await do(alice, "/create den")
    await do(bob, "/join den")
    return alice.room_id
