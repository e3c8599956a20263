"""A world with a model, whose contexts tests read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest_asyncio

from sshwarma.models.offered_tools import offer_tools, summarize_tools
from sshwarma.settings import LimitSettings
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, rows
from sshwarma.world.caller import Caller
from sshwarma.world.databases import Location
from sshwarma.world.questions import Question
from sshwarma.world.world import World
from sshwarma.wrap.compose import ContextComposer, ModelContext
from sshwarma.wrap.host import LuaHost
from sshwarma.wrap.profiles import FULL_PROFILE, ContextProfile, ContextReader
from support.services import make_composer, make_services


class Setting:
    """A world with alice, who owns it, and the model qwen."""

    def __init__(self, world: World, composer: ContextComposer) -> None:
        self.world = world
        self.composer = composer
        self.services = make_services(world, composer=composer)

    def caller(self, name: str, door: str = "ssh") -> Caller:
        agent = self.world.agents.find(name)
        return Caller(self.world, self.services, LimitSettings(), agent, "lobby", door)  # type: ignore[arg-type]

    async def does(self, line: str) -> None:
        await run_line(self.caller("alice"), line)

    async def puts(self, name: str, text: str) -> None:
        await run_line(self.caller("alice"), f"/put {name} = {text}")
        await self.does(f"/equip room {name}")

    async def answers(self, text: str) -> None:
        model = self.world.agents.find("qwen")
        await self.world.change(
            lambda tx: rows.append_row(tx, "lobby", "chat", text, author_id=model.id)
        )

    async def received(
        self,
        question: str = "what now?",
        profile: ContextProfile = FULL_PROFILE,
        *,
        asker: str = "alice",
    ) -> ModelContext:
        asked = Question(self.world.agents.find(asker).id, max_turns=1)
        caller = replace(self.caller("qwen", "model"), question=asked)
        load = await self.world.loadout("lobby", caller.agent.id)
        tools = summarize_tools(offer_tools(load.usable_tools, profile))
        reader = ContextReader(profile=profile.name)
        return await self.composer.compose(
            caller, question, asker, 2**62, tools=tools, reader=reader
        )


@pytest_asyncio.fixture(loop_scope="session")
async def setting(database: Location, default_host: LuaHost) -> AsyncIterator[Setting]:
    world = await World.open(database, tool_specs())
    await world.change(lambda tx: agents.create_agent(tx, "alice", role="owner"))
    model = await world.change(
        lambda tx: agents.create_agent(tx, "qwen", kind="model", role="guest")
    )
    await world.change(lambda tx: agents.update_agent(tx, model.id, prompt="Answer in rhyme."))
    yield Setting(world, make_composer(world, default_host))
    await world.close()
