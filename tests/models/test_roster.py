"""The roster: who answers, kept in the agents and followed there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from sshwarma.admin.operations import run_operation
from sshwarma.common.limits import MAX_ADDED_MODELS
from sshwarma.models import model_client
from sshwarma.models.backend import StepRequest, TextDelta
from sshwarma.models.providers import LoadedModel
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.models.roster import Roster, check_price
from sshwarma.models.secrets import Secret
from sshwarma.settings import ModelSettings
from sshwarma.verbs.registry import tool_specs
from sshwarma.world import agents, owners
from sshwarma.world.databases import Location
from sshwarma.world.errors import Conflict, Invalid, WorldError
from sshwarma.world.world import World

Open = Callable[..., Any]


def settings(name: str = "qwen", **more: Any) -> ModelSettings:
    return ModelSettings(**{"name": name, "kind": "ollama", "model": "qwen3:8b"} | more)


class Http:
    """Connections that know whether they are closed."""

    def __init__(self) -> None:
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Http]:
    """The connections of every backend that was made ready; none is real."""
    made: list[Http] = []

    def load(settings: ModelSettings, environ: Any) -> Any:
        made.append(Http())
        return LoadedModel(settings.model, {}, Secret(""), made[-1])  # type: ignore[arg-type]

    monkeypatch.setattr(model_client, "load_model", load)
    return made


@pytest.fixture
async def world(database: Location) -> AsyncIterator[World]:
    opened = await World.open(database, tool_specs())
    yield opened
    await opened.close()


@pytest.fixture
async def opened(
    world: World, database: Location, loaded: list[Http], tmp_path: Path
) -> AsyncIterator[Open]:
    """Opens a roster; closes it in the end."""
    made: list[Roster] = []

    async def open_roster(*models: ModelSettings) -> Roster:
        made.append(await Roster.open(world, models, {}, (), {}, tmp_path / "models"))
        return made[-1]

    yield open_roster
    for roster in made:
        await roster.close()
    assert all(http.closed for http in loaded)


async def add(world: World, roster: Roster, what: ModelSettings) -> str:
    return (await world.change(lambda tx: roster.add(tx, what, None))).id


def names(world: World, roster: Roster) -> list[str]:
    return [world.agents.name_of(entry.agent_id) for entry in roster.entries()]


async def test_added_model_answers_and_survives_a_restart(world: World, opened: Open) -> None:
    roster = await opened(settings("filed"))
    kept = settings(
        prompt="You are terse.", key_file="/a/key", turn_tokens=None, day_cost=None, temperature=0.5
    )
    qwen = await add(world, roster, kept)
    assert names(world, roster) == ["filed", "guide", "qwen"]
    assert roster[qwen].model == "qwen3:8b"
    assert world.agents.find("qwen").description == "qwen3:8b by ollama"
    again = await opened()
    entry = again.entry(qwen)
    assert entry is not None
    assert (entry.origin, entry.settings) == ("verb", kept)
    assert names(world, again) == ["guide", "qwen"]


async def test_model_metadata_stores_only_non_default_settings(world: World, opened: Open) -> None:
    roster = await opened()
    await add(world, roster, settings(key_env="OUR_KEY"))
    assert world.agents.find("qwen").model == {
        "kind": "ollama", "model": "qwen3:8b", "key_env": "OUR_KEY",
    }  # fmt: skip


async def test_removed_model_stops_answering_and_can_be_added_again(
    world: World, opened: Open
) -> None:
    roster = await opened()
    qwen = await add(world, roster, settings())
    await world.change(lambda tx: roster.remove(tx, qwen))
    assert names(world, roster) == ["guide"]
    assert world.agents.name_of(qwen) == "qwen"
    await world.change(lambda tx: owners.set_agent_disabled(tx, qwen, True))
    assert await add(world, roster, settings(model="other")) == qwen
    assert roster[qwen].model == "other"
    assert not world.agents.find("qwen").disabled


async def test_agents_list_omits_removed_models(world: World, opened: Open) -> None:
    async def listed() -> list[str]:
        return [agent["name"] for agent in await run_operation(world, "agents_list", {})]

    roster = await opened(settings("filed"))
    qwen = await add(world, roster, settings())
    assert await listed() == ["filed", "guide", "qwen"]
    await world.change(lambda tx: roster.remove(tx, qwen))
    assert await listed() == ["filed", "guide"]
    await add(world, roster, settings())
    assert await listed() == ["filed", "guide", "qwen"]
    again = await opened()
    assert await listed() == ["guide", "qwen"], "filed is no longer in the settings file"
    await add(world, again, settings("filed"))
    await opened(settings("filed"))
    assert await listed() == ["filed", "guide", "qwen"]


@pytest.mark.parametrize("name", ["filed", "guide", "qwen", "alice"])
async def test_duplicate_model_name_is_refused(world: World, opened: Open, name: str) -> None:
    roster = await opened(settings("filed"))
    await world.change(lambda tx: agents.create_agent(tx, "alice"))
    await add(world, roster, settings())
    with pytest.raises(Conflict):
        await add(world, roster, settings(name))


async def test_number_of_added_models_is_limited(world: World, opened: Open) -> None:
    roster = await opened()

    def work(tx: Any) -> None:
        letters = "abefghjkpqtxyz"
        for number in range(MAX_ADDED_MODELS + 1):
            name = f"m-{letters[number // 14]}{letters[number % 14]}{letters[number // 14]}"
            roster.add(tx, settings(name), None)

    with pytest.raises(Conflict, match=f"A world can have at most {MAX_ADDED_MODELS} added models"):
        await world.change(work)
    assert names(world, roster) == ["guide"]


async def test_roster_follows_changes_of_agents(world: World, opened: Open) -> None:
    roster = await opened()
    qwen = await add(world, roster, settings())
    first = roster[qwen]
    await world.change(lambda tx: agents.update_agent(tx, qwen, room_id="home"))
    assert roster[qwen] is first  # nothing that concerns it
    await world.change(lambda tx: agents.update_agent(tx, qwen, prompt="Be brief."))
    assert roster[qwen] is not first
    await world.change(lambda tx: agents.update_agent(tx, qwen, model={"kind": "nonsense"}))
    assert qwen not in roster


async def test_settings_file_wins_over_an_added_model(world: World, opened: Open) -> None:
    roster = await opened()
    qwen = await add(world, roster, settings())
    filed = await opened(settings(model="of the file"))
    entry = filed.entry(qwen)
    assert (entry.origin, filed[qwen].model) == ("file", "of the file")


async def test_concurrent_model_changes_conflict(world: World, opened: Open) -> None:
    roster = await opened()
    before = settings()
    qwen = await add(world, roster, before)
    changes = [
        world.change(lambda tx, model=model: roster.change(tx, qwen, before, settings(model=model)))
        for model in ("a", "b")
    ]
    first, second = await asyncio.gather(*changes, return_exceptions=True)
    assert first is None
    assert isinstance(second, WorldError)
    assert roster[qwen].model == "a"
    await world.change(lambda tx: roster.remove(tx, qwen))
    with pytest.raises(Conflict):
        await world.change(lambda tx: roster.change(tx, qwen, settings(model="a"), before))


async def test_running_answer_keeps_its_backend_after_a_change(
    world: World, opened: Open, loaded: list[Http], monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()

    async def ask(
        self: PydanticAIBackend, loaded: LoadedModel, request: StepRequest
    ) -> AsyncIterator[TextDelta]:
        yield TextDelta("one ")
        await go_on.wait()
        yield TextDelta("two")

    monkeypatch.setattr(PydanticAIBackend, "_stream_once", ask)
    roster = await opened()
    before = settings()
    qwen = await add(world, roster, before)
    stream = roster[qwen].stream(StepRequest("lobby", "alice", "hi", ()))
    assert await anext(stream) == TextDelta("one ")
    http = loaded[-1]
    await world.change(lambda tx: roster.change(tx, qwen, before, settings(model="b")))
    await world.change(lambda tx: roster.remove(tx, qwen))
    for _ in range(5):  # whatever would close it has had its turn
        await asyncio.sleep(0)
    assert not http.closed
    go_on.set()
    assert [part async for part in stream] == [TextDelta("two")]
    assert http.closed


async def test_cost_limit_needs_a_known_price() -> None:
    await check_price(settings())
    await check_price(settings("gpt", kind="openai", model="gpt-4o", turn_cost=1))
    await check_price(settings(turn_cost=1, price_in=0, price_out=0))
    for wrong in (settings(turn_cost=1), settings(day_cost=1, price_in=3)):
        with pytest.raises(Invalid, match="is unknown"):
            await check_price(wrong)


async def test_limit_message_names_the_verb_or_the_settings_file(
    world: World, opened: Open
) -> None:
    roster = await opened(settings("filed"))
    qwen = await add(world, roster, settings(turn_steps=3))
    assert roster.limits(qwen).turn_steps == 3
    assert "change its {} (verb model set)" in roster.limits(qwen).change_hint
    filed = world.agents.find("filed").id
    assert "sshwarma.toml" in roster.limits(filed).change_hint
