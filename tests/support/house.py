"""A world with a person, a model that does what a test says, and the guide."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sshwarma.lua_tools.provider import SCRIPT_LIMITS
from sshwarma.models.backend import (
    StepRequest,
    StreamPart,
)
from sshwarma.models.budget import BudgetLimits, ModelBudgets
from sshwarma.models.roster import Roster
from sshwarma.models.turn_runner import TurnRunner
from sshwarma.settings import LimitSettings, ReloadableSettings
from sshwarma.tools.call import Tools
from sshwarma.verbs.dispatch import run_line
from sshwarma.verbs.help import load_help_topics, load_how_tos
from sshwarma.verbs.registry import tool_specs
from sshwarma.verbs.tool_provider import make_verb_providers
from sshwarma.world import agents
from sshwarma.world.caller import Caller
from sshwarma.world.databases import Location
from sshwarma.world.row import Row
from sshwarma.world.schema import turns as turns_table
from sshwarma.world.world import World
from sshwarma.wrap.profiles import FULL_PROFILE, ContextProfile
from support.rows import read_rows_after
from support.services import NoLua, make_composer, make_services

Script = Callable[[StepRequest], AsyncGenerator[StreamPart, None]]


@dataclass
class Scripted:
    """A backend that does what a test says, and remembers what it was asked."""

    script: Script
    model: str = "scripted"
    context_tokens: int = 0
    provider_kind: str = "scripted"
    result_tokens: int = 5_000
    profile: ContextProfile = FULL_PROFILE
    output_tokens: int | None = None
    last_failure: None = None
    is_failing: bool = False
    asked: list[StepRequest] = field(default_factory=list)

    def stream(self, request: StepRequest) -> AsyncGenerator[StreamPart, None]:
        self.asked.append(request)
        return self.script(request)


class House:
    """A world with alice, the model qwen, and the guide."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.backend = Scripted(nothing)
        self.backends: dict[str, Any] = {}
        self.providers: dict[str, Any] = make_verb_providers()
        self.tools = Tools(world, self.providers)
        self.limits = BudgetLimits()
        self.budgets = ModelBudgets(world, lambda agent_id: self.limits)
        composer = make_composer(world, NoLua(SCRIPT_LIMITS))
        self.turns = TurnRunner(
            world, self.tools, self.backends, ReloadableSettings(), composer, self.budgets
        )
        self.services = make_services(
            world, tools=self.tools, composer=composer, turns=self.turns, budgets=self.budgets
        )

    def caller(self, name: str) -> Caller:
        agent = self.world.agents.find(name)
        return Caller(self.world, self.services, LimitSettings(), agent, "lobby", "ssh")

    async def says(self, name: str, text: str) -> list[Row]:
        """Say something, wait until all turns have ended, and return the rows it made."""
        before = next(reversed(await self.world.last_rows("lobby", 1)), None)
        said = await run_line(self.caller(name), text)
        for turn_id in getattr(said, "turns", ()):
            await self.turns.wait_until_ended(turn_id)
        first = before.seq if before else 0
        return await self.world.store.read(lambda conn: read_rows_after(conn, "lobby", first, 100))

    async def statuses(self) -> list[str]:
        def query(conn: Any) -> list[str]:
            return [
                row.status for row in conn.execute(turns_table.select().order_by(turns_table.c.id))
            ]

        return await self.world.store.read(query)


async def nothing(request: StepRequest) -> AsyncGenerator[StreamPart, None]:
    return
    yield


@pytest.fixture
async def house(database: Location, tmp_path: Path) -> AsyncIterator[House]:
    world = await World.open(database, tool_specs())
    await world.change(lambda tx: agents.create_agent(tx, "alice", role="owner"))
    await world.change(lambda tx: agents.create_agent(tx, "bob"))
    qwen = await world.change(
        lambda tx: agents.create_agent(tx, "qwen", kind="model", role="guest")
    )
    made = House(world)
    made.backends[qwen.id] = made.backend
    roster = await Roster.open(
        world, (), load_help_topics(), load_how_tos(), {}, tmp_path / "models"
    )
    made.backends |= roster
    yield made
    await made.turns.close()
    await roster.close()
    await world.close()


def said_by(made: list[Row], house: House, name: str) -> list[str]:
    agent = house.world.agents.find(name)
    return [row.content for row in made if row.author_id == agent.id and row.kind == "chat"]
